// SPDX-License-Identifier: Apache-2.0
#include "emulation/matmul/reveal.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace macheps {

namespace {

[[noreturn]] void no_tree(std::string what) {
    throw Error({.what = std::move(what),
                 .where = "reveal",
                 .fix = "exact sums, wider ones than the masks need, and sums whose order varies show no tree",
                 .exit = Exit::check_failed});
}

/// Builds the tree of a set of terms from the sizes that it asks for.
class Builder {
  public:
    Builder(int terms, const PairSizes& sizes) : sizes_(sizes) { tree_.terms = terms; }

    SumTree tree() {
        std::vector<int> all(static_cast<std::size_t>(tree_.terms));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
        if (!all.empty()) build(all);
        return std::move(tree_);
    }

  private:
    /// The sizes of the pairs (first, each of rest), first < rest.
    std::vector<int> ask(int first, std::span<const int> rest) {
        const auto key = [&](int j) { return std::int64_t{first} * tree_.terms + j; };
        std::vector<TermPair> pairs;
        for (const int j : rest) {
            if (!known_.contains(key(j))) pairs.emplace_back(first, j);
        }
        const std::vector<int> answers = sizes_(pairs);
        for (std::size_t i = 0; i < pairs.size(); ++i) known_[key(pairs[i].second)] = answers[i];
        tree_.probes += static_cast<std::int64_t>(pairs.size());
        std::vector<int> all;
        for (const int j : rest) all.push_back(known_[key(j)]);
        return all;
    }

    int add(std::vector<int> children) {
        tree_.sums.push_back(std::move(children));
        return tree_.terms + static_cast<int>(tree_.sums.size()) - 1;
    }

    /// The node of a part of the sum: its terms, ascending.
    int build(const std::vector<int>& part) {
        const int first = part.front();
        std::map<int, std::vector<int>> by_size;
        const std::vector<int> rest(part.begin() + 1, part.end());
        const std::vector<int> answers = ask(first, rest);
        for (std::size_t i = 0; i < rest.size(); ++i) by_size[answers[i]].push_back(rest[i]);
        int node = first;
        std::size_t below = 1;
        for (const auto& [size, joining] : by_size) {
            below += joining.size();
            if (static_cast<std::size_t>(size) != below) {
                no_tree(fmt::format("terms {} and {} meet in a sum of {} terms by one result, of {} by the others",
                                    first, joining.front(), size, below));
            }
            std::vector<int> children{node};
            for (std::vector<int> left = joining; !left.empty();) {
                const int head = left.front();
                const std::vector<int> others(left.begin() + 1, left.end());
                const std::vector<int> meets = ask(head, others);
                std::vector<int> same{head}, apart;
                for (std::size_t i = 0; i < others.size(); ++i) (meets[i] < size ? same : apart).push_back(others[i]);
                children.push_back(same.size() == 1 ? head : build(same));
                left = std::move(apart);
            }
            node = add(std::move(children));
        }
        return node;
    }

    const PairSizes& sizes_;
    SumTree tree_;
    std::unordered_map<std::int64_t, int> known_;
};

/// For each node, the sum it is a child of.
std::vector<int> parents(const SumTree& tree) {
    std::vector<int> parent(static_cast<std::size_t>(tree.terms) + tree.sums.size(), -1);
    for (std::size_t i = 0; i < tree.sums.size(); ++i) {
        for (const int child : tree.sums[i]) {
            parent[static_cast<std::size_t>(child)] = tree.terms + static_cast<int>(i);
        }
    }
    return parent;
}

int ceil_log2(int n) {
    int bits = 0;
    while ((std::int64_t{1} << bits) < n) ++bits;
    return bits;
}

/// Powers of two that a format holds.
struct ExponentSpan {
    int least, most;

    ExponentSpan(const Format& f, bool normal)
        : least(normal ? f.emin() : f.emin() - f.fraction_bits()),
          most(std::ilogb(decode(f, f.max_finite_code() << f.padding))) {}
    bool contains(int e) const { return e >= least && e <= most; }
};

/// e as a sum of exponents of a and of b.
std::pair<int, int> split(int e, const ExponentSpan& a, const ExponentSpan& b) {
    const int half = std::clamp(e >= 0 ? (e + 1) / 2 : e / 2, a.least, a.most);
    const int other = std::clamp(e - half, b.least, b.most);
    return {e - other, other};
}

float power(int e) { return static_cast<float>(std::ldexp(1.0, e)); }

}  // namespace

SumTree reveal_tree(int terms, const PairSizes& sizes) { return Builder(terms, sizes).tree(); }

void verify_tree(const SumTree& tree, const PairSizes& sizes, std::int64_t most) {
    const std::int64_t n = tree.terms, all = n * (n - 1) / 2;
    if (all == 0) return;
    const std::vector<int> parent = parents(tree), size = tree.sizes();
    const auto meeting = [&](int i, int j) {
        // A parent's number is above its child's: the lower of two nodes climbs.
        while (i != j) (i < j ? i : j) = parent[static_cast<std::size_t>(i < j ? i : j)];
        return size[static_cast<std::size_t>(i)];
    };
    std::vector<TermPair> pairs;
    // A step prime to the number of pairs, about the golden section of it, spreads the chosen ones.
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
            no_tree(fmt::format("terms {} and {} meet in a sum of {} terms, in the tree of the others in one of {}", i,
                                j, answers[p], expected));
        }
    }
}

RevealLimits reveal_limits(const MatmulRule& rule) {
    const Machine& machine = *rule.machine;
    const bool is_joined = rule.promotion != Promotion::none || rule.slices > 1;
    RevealLimits limits;
    limits.flushes = machine.sum.model == SumModel::flushed_pairs;
    if (machine.result == fp16) {
        limits.precision = fp16.precision;
        limits.largest_exponent = 15;
        limits.least_exponent = -24;
        limits.vanishing_bits = std::max(machine.sum.fraction_bits, 12);
    } else if (machine.result == bf16) {
        limits.precision = bf16.precision;
        limits.vanishing_bits = 9;
    } else if (machine.sum.delivery == Delivery::e8m13_toward_zero && !is_joined) {
        limits.precision = 14;
        limits.vanishing_bits = 14;
    }
    return limits;
}

void RevealOperands::fill(int terms, TermPair pair, float* a, float* b) const {
    std::fill_n(a, terms, unit_a);
    std::fill_n(b, terms, unit_b);
    a[pair.first] = mask_a;
    a[pair.second] = -mask_a;
    b[pair.first] = b[pair.second] = mask_b;
}

int RevealOperands::size_of(int terms, TermPair pair, double result) const {
    const double left = result / unit();
    if (!(left >= 0 && left <= terms - 2) || left != std::floor(left)) {
        no_tree(fmt::format("terms {} and {} leave {} units of {}: no whole number from 0 to {}", pair.first,
                            pair.second, left, unit(), terms - 2));
    }
    return terms - static_cast<int>(left);
}

RevealOperands reveal_operands(const Format& a, const Format& b, int terms, const RevealLimits& limits) {
    const ExponentSpan in_a(a, limits.flushes), in_b(b, limits.flushes);
    const auto gap = [&](int mask) {  // the exponent of a unit that vanishes beside 2^mask, even n times
        return mask - limits.vanishing_bits - ceil_log2(terms) - 1;
    };
    const auto vanishes = [&](int mask, int unit) {
        return std::ldexp(double(terms - 2), unit) < std::ldexp(1.0, mask - limits.vanishing_bits);
    };
    const bool counts_fit = terms <= 1 << limits.precision;
    const int alone = std::min(in_a.most, limits.largest_exponent);
    const int alone_unit = std::max({gap(alone), in_a.least, limits.least_exponent});
    if (counts_fit && in_b.contains(0) && vanishes(alone, alone_unit)) {
        return {.mask_a = power(alone), .mask_b = 1, .unit_a = power(alone_unit), .unit_b = 1};
    }
    const int mask = std::min(in_a.most + in_b.most, limits.largest_exponent);
    const int unit = std::max({gap(mask), in_a.least + in_b.least, limits.least_exponent});
    if (!counts_fit || !vanishes(mask, unit)) {
        int most = 2;
        for (int n = 3; n <= 1 << limits.precision; ++n) {
            if (!(std::ldexp(double(n - 2), std::max(in_a.least + in_b.least, limits.least_exponent)) <
                  std::ldexp(1.0, mask - limits.vanishing_bits)))
                break;
            most = n;
        }
        const std::string formats = fmt::format("{} times {}", format_name(a), format_name(b));
        throw Error({.what = most < 4 ? fmt::format("the range of {} is too small for masks beside units", formats)
                                      : fmt::format("{} terms are too many for {} in this sum", terms, formats),
                     .where = "reveal",
                     .fix = most < 4 ? "take a wider format" : fmt::format("up to {} can be told apart", most),
                     .exit = Exit::usage});
    }
    const auto [mask_a, mask_b] = split(mask, in_a, in_b);
    const auto [unit_a, unit_b] = split(unit, in_a, in_b);
    return {power(mask_a), power(mask_b), power(unit_a), power(unit_b)};
}

PairSizes matmul_pair_sizes(Backend& backend, const MatmulRule& rule, const Format& a, const Format& b, int terms) {
    const RevealOperands operands = reveal_operands(a, b, terms, reveal_limits(rule));
    return [&backend, rule, a, b, terms, operands](std::span<const TermPair> pairs) {
        std::vector<int> sizes;
        const std::size_t k = static_cast<std::size_t>(terms), most = std::max<std::size_t>((1u << 22) / k, 1);
        for (std::size_t first = 0; first < pairs.size(); first += most) {
            const auto some = pairs.subspan(first, std::min(most, pairs.size() - first));
            std::vector<float> left(some.size() * k), right(left.size()), results(some.size());
            for (std::size_t p = 0; p < some.size(); ++p) operands.fill(terms, some[p], &left[p * k], &right[p * k]);
            const auto count = static_cast<std::int64_t>(some.size());
            Tensor x = backend.empty({count, terms}), y = backend.empty({count, terms}), out = backend.empty({count});
            backend.upload(left, x.view());
            backend.upload(right, y.view());
            Matmul args;
            args.m = args.n = 1;
            args.k = terms;
            args.batch_outer = count;
            args.a = {.data = x.data(), .ld = terms, .stride_outer = terms, .format = a};
            args.b = {.data = y.data(), .ld = terms, .transposed = true, .stride_outer = terms, .format = b};
            args.out = out.data();
            args.ld_out = args.stride_out_outer = 1;
            args.rule = rule;
            backend.matmul(args);
            backend.download(out.view(), results);
            for (std::size_t p = 0; p < some.size(); ++p) sizes.push_back(operands.size_of(terms, some[p], results[p]));
        }
        return sizes;
    };
}

}  // namespace macheps
