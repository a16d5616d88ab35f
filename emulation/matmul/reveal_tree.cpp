// SPDX-License-Identifier: Apache-2.0
// Builds the tree of a sum from measured pairs of terms (emulation/matmul/reveal.hpp). It first measures a fixed list
// of pairs. If they do not determine the tree, it chooses further pairs that depend on the sizes measured so far.
#include "core/rng.hpp"
#include "emulation/matmul/reveal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

namespace macheps {

namespace {

/// Measures pairs and caches the sizes, so that each pair is measured only once.
class Answers {
  public:
    Answers(int terms, const PairSizes& sizes) : terms_(terms), sizes_(sizes) {}

    std::vector<int> operator()(std::span<const TermPair> pairs) {
        std::vector<TermPair> unknown;
        for (const TermPair& pair : pairs) {
            if (!known_.contains(key(pair))) unknown.push_back(pair);
        }
        const std::vector<int> answers = sizes_(unknown);
        for (std::size_t i = 0; i < unknown.size(); ++i) known_[key(unknown[i])] = answers[i];
        std::vector<int> all;
        all.reserve(pairs.size());
        for (const TermPair& pair : pairs) all.push_back(known_[key(pair)]);
        return all;
    }
    std::int64_t asked() const { return static_cast<std::int64_t>(known_.size()); }

  private:
    std::int64_t key(TermPair pair) const { return std::int64_t{pair.first} * terms_ + pair.second; }

    int terms_;
    const PairSizes& sizes_;
    std::unordered_map<std::int64_t, int> known_{};
};

/// Returns the same tree with children sorted by their smallest term, and with sums numbered in postorder, children
/// from left to right.
SumTree in_order(const SumTree& tree) {
    const auto terms = static_cast<std::size_t>(tree.terms);
    std::vector<int> least(terms);
    std::iota(least.begin(), least.end(), 0);
    std::vector<std::vector<int>> sums = tree.sums;
    const auto is_before = [&](int x, int y) {
        return least[static_cast<std::size_t>(x)] < least[static_cast<std::size_t>(y)];
    };
    for (auto& children : sums) {
        std::sort(children.begin(), children.end(), is_before);
        least.push_back(least[static_cast<std::size_t>(children.front())]);
    }
    SumTree ordered{.terms = tree.terms, .probes = tree.probes};
    if (sums.empty()) return ordered;
    std::vector<int> number(terms + sums.size());
    std::iota(number.begin(), number.end(), 0);
    std::vector<std::pair<std::size_t, std::size_t>> path{{sums.size() - 1, 0}};  // sums, each with its next child
    while (!path.empty()) {
        auto& [sum, next] = path.back();
        if (next < sums[sum].size()) {
            const int child = sums[sum][next++];
            if (child >= tree.terms) path.emplace_back(static_cast<std::size_t>(child) - terms, 0);
            continue;
        }
        std::vector<int> children;
        for (const int child : sums[sum]) children.push_back(number[static_cast<std::size_t>(child)]);
        number[terms + sum] = tree.terms + static_cast<int>(ordered.sums.size());
        ordered.sums.push_back(std::move(children));
        path.pop_back();
    }
    return ordered;
}

/// Builds the tree of a set of terms and measures the pairs that this requires. It draws one term at random and
/// measures its pairs with all other terms of the set. The measured sizes are those of the sums on the path from the
/// drawn term to the root. The terms that join the path at one of these sums form smaller sets, for which this is
/// repeated recursively. About every second draw halves the set, for any tree. In total this takes about k log k pairs,
/// and up to w / 2 pairs per term if w terms are added in one rounding.
class Builder {
  public:
    Builder(int terms, Answers& answers) : answers_(answers) { tree_.terms = terms; }

    SumTree tree() {
        std::vector<int> all(static_cast<std::size_t>(tree_.terms));
        std::iota(all.begin(), all.end(), 0);
        if (!all.empty()) build(all, drawn(all));
        return in_order(tree_);
    }

  private:
    int drawn(const std::vector<int>& part) {
        return part[random_bits({.seed = static_cast<std::uint64_t>(tree_.terms)}, draws_++) % part.size()];
    }

    std::vector<int> ask(int one, const std::vector<int>& others) {
        std::vector<TermPair> pairs;
        for (const int other : others) pairs.emplace_back(std::min(one, other), std::max(one, other));
        return answers_(pairs);
    }

    static std::vector<int> without(const std::vector<int>& part, int one) {
        std::vector<int> rest;
        std::copy_if(part.begin(), part.end(), std::back_inserter(rest), [one](int term) { return term != one; });
        return rest;
    }

    /// Builds the subtree of the terms in `part`, starting from the term `one` of `part`, and returns its root node.
    int build(const std::vector<int>& part, int one) {
        std::map<int, std::vector<int>> by_size;
        const std::vector<int> rest = without(part, one), answers = ask(one, rest);
        for (std::size_t i = 0; i < rest.size(); ++i) by_size[answers[i]].push_back(rest[i]);
        int node = one;
        std::size_t below = 1;
        for (const auto& [size, joining] : by_size) {
            below += joining.size();
            if (static_cast<std::size_t>(size) != below) {
                throw no_tree(fmt::format(
                    "one result shows that terms {} and {} meet in a sum of {} terms, but other results show {} terms",
                    std::min(one, joining.front()), std::max(one, joining.front()), size, below));
            }
            std::vector<int> children{node};
            for (std::vector<int> left = joining; !left.empty();) {
                const int head = drawn(left);
                const std::vector<int> others = without(left, head), meets = ask(head, others);
                std::vector<int> same{head}, apart;
                for (std::size_t i = 0; i < others.size(); ++i) (meets[i] < size ? same : apart).push_back(others[i]);
                children.push_back(same.size() == 1 ? head : build(same, head));
                left = std::move(apart);
            }
            tree_.sums.push_back(std::move(children));
            node = tree_.terms + static_cast<int>(tree_.sums.size()) - 1;
        }
        return node;
    }

    Answers& answers_;
    SumTree tree_{};
    std::uint64_t draws_ = 0;
};

/// Disjoint sets of terms, each of which is known to be a partial sum. When a larger sum is found, its sets are merged.
class Forest {
  public:
    explicit Forest(int terms) : above_(static_cast<std::size_t>(terms)), part_(above_.size()) {
        for (std::size_t i = 0; i < above_.size(); ++i) {
            above_[i] = static_cast<int>(i);
            part_[i] = {.node = static_cast<int>(i), .least = static_cast<int>(i), .size = 1};
        }
    }
    struct Part {
        int node = 0, least = 0, size = 0;
    };
    int root(int term) {
        while (above_[at(term)] != term) term = above_[at(term)] = above_[at(above_[at(term)])];
        return term;
    }
    Part& part(int root) { return part_[at(root)]; }
    void join(int a, int b) { above_[at(root(b))] = root(a); }

  private:
    static std::size_t at(int i) { return static_cast<std::size_t>(i); }
    std::vector<int> above_;
    std::vector<Part> part_;
};

/// Returns the parent of each node, or -1 for the root.
std::vector<int> parents(const SumTree& tree) {
    std::vector<int> parent(static_cast<std::size_t>(tree.terms) + tree.sums.size(), -1);
    for (std::size_t i = 0; i < tree.sums.size(); ++i) {
        for (const int child : tree.sums[i]) {
            parent[static_cast<std::size_t>(child)] = tree.terms + static_cast<int>(i);
        }
    }
    return parent;
}

/// `pairs` are all measured pairs whose smallest common partial sum has `size` terms. Merges the sets of terms that
/// these pairs connect into sums of `size` terms. If the pairs do not connect all terms of a sum, describes this in
/// found.gap and returns false.
bool join_level(FoundTree& found, Forest& forest, std::span<const TermPair> pairs, int size) {
    std::set<TermPair> edges;  // pairs of sets, before the sets are merged
    std::set<int> parts;
    for (const auto& [i, j] : pairs) {
        const int a = forest.root(i), b = forest.root(j);
        if (a == b) {
            throw no_tree(fmt::format(
                "one result shows that terms {} and {} meet in a sum of {} terms, but other results show {} terms", i,
                j, size, forest.part(a).size));
        }
        edges.emplace(std::min(a, b), std::max(a, b));
        parts.insert({a, b});
    }
    for (const auto& [a, b] : edges) forest.join(a, b);
    std::map<int, std::vector<int>> joined;
    for (const int part : parts) joined[forest.root(part)].push_back(part);
    for (auto& [root, members] : joined) {
        int total = 0;
        for (const int member : members) total += forest.part(member).size;
        if (total > size) {
            throw no_tree(
                fmt::format("inconsistent results: {} terms are in a sum that has only {} terms; one of them is "
                            "term {}",
                            total, size, forest.part(members.front()).least));
        }
        if (total < size) {
            found.gap = fmt::format("the {} terms that meet in one sum with term {} cannot be determined", size,
                                    forest.part(members.front()).least);
            return false;
        }
        std::sort(members.begin(), members.end(),
                  [&](int a, int b) { return forest.part(a).least < forest.part(b).least; });
        std::vector<int> children;
        for (std::size_t x = 0; x < members.size(); ++x) {
            children.push_back(forest.part(members[x]).node);
            for (std::size_t y = x + 1; y < members.size() && members.size() > 2; ++y) {
                const TermPair edge{std::min(members[x], members[y]), std::max(members[x], members[y])};
                if (edges.contains(edge)) continue;
                found.open.push_back({{forest.part(members[x]).least, forest.part(members[y]).least}, size});
            }
        }
        found.tree.sums.push_back(std::move(children));
        const int least = forest.part(members.front()).least;
        forest.part(root) = {found.tree.terms + static_cast<int>(found.tree.sums.size()) - 1, least, size};
    }
    return true;
}

}  // namespace

std::vector<TermPair> near_pairs(int terms) {
    std::vector<TermPair> pairs;
    for (int i = 0; i + 1 < terms; ++i) {
        for (int distance = 1; i + distance < terms; distance *= 2) pairs.emplace_back(i, i + distance);
    }
    return pairs;
}

FoundTree tree_of_pairs(int terms, std::span<const TermPair> pairs, std::span<const int> sizes) {
    FoundTree found{.tree = {.terms = terms, .probes = static_cast<std::int64_t>(pairs.size())}};
    std::map<int, std::vector<TermPair>> by_size;
    for (std::size_t i = 0; i < pairs.size(); ++i) by_size[sizes[i]].push_back(pairs[i]);
    Forest forest(terms);
    for (const auto& [size, some] : by_size) {
        if (!join_level(found, forest, some, size)) return found;
    }
    for (int term = 1; term < terms; ++term) {
        if (forest.root(term) == forest.root(0)) continue;
        found.gap = fmt::format("no pair connects term 0 with term {}", term);
        return found;
    }
    found.tree = in_order(found.tree);
    return found;
}

SumTree reveal_tree(int terms, const PairSizes& sizes) {
    Answers answers(terms, sizes);
    const std::vector<TermPair> near = near_pairs(terms);
    FoundTree found = tree_of_pairs(terms, near, answers(near));
    if (found.gap.empty()) {
        std::vector<TermPair> open;
        for (const OpenPair& each : found.open) open.push_back(each.pair);
        const std::vector<int> meet = answers(open);
        const auto is_confirmed = [](int size, const OpenPair& pair) { return size == pair.size; };
        if (std::equal(meet.begin(), meet.end(), found.open.begin(), is_confirmed)) {
            found.tree.probes = answers.asked();
            return found.tree;
        }
    }
    SumTree tree = Builder(terms, answers).tree();
    tree.probes = answers.asked();
    return tree;
}

void verify_tree(const SumTree& tree, const PairSizes& sizes, std::int64_t most) {
    const std::int64_t n = tree.terms, all = n * (n - 1) / 2;
    if (all == 0) return;
    const std::vector<int> parent = parents(tree), size = tree.sizes();
    const auto meeting = [&](int i, int j) {
        // A parent has a larger number than its children, so the node with the smaller number moves up.
        while (i != j) (i < j ? i : j) = parent[static_cast<std::size_t>(i < j ? i : j)];
        return size[static_cast<std::size_t>(i)];
    };
    std::vector<TermPair> pairs;
    // Numbers all pairs, divides them into `wanted` equal ranges and chooses one pair from each range. Multiples of
    // 40503 (about 2^16 divided by the golden ratio) vary the position within the range.
    const std::int64_t wanted = std::min(all, most);
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < wanted; ++i)
        places.push_back(all <= most ? i : i * all / wanted + (i * 40503) % (all / wanted));
    std::size_t at = 0;
    std::int64_t before = 0;
    for (int i = 0; i + 1 < n && at < places.size(); before += n - 1 - i, ++i) {
        for (; at < places.size() && places[at] < before + (n - 1 - i); ++at) {
            pairs.emplace_back(i, static_cast<int>(i + 1 + places[at] - before));
        }
    }
    const std::vector<int> answers = sizes(pairs);
    for (std::size_t p = 0; p < pairs.size(); ++p) {
        const auto [i, j] = pairs[p];
        if (const int expected = meeting(i, j); answers[p] != expected) {
            throw no_tree(fmt::format(
                "terms {} and {} meet in a sum of {} terms, but the tree from the other results predicts {} terms", i,
                j, answers[p], expected));
        }
    }
}

}  // namespace macheps
