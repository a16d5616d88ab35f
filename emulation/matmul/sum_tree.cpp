// SPDX-License-Identifier: Apache-2.0
#include "emulation/matmul/sum_tree.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace macheps {

std::vector<int> SumTree::sizes() const {
    std::vector<int> size(static_cast<std::size_t>(terms), 1);
    for (const auto& children : sums) {
        int total = 0;
        for (const int child : children) total += size[static_cast<std::size_t>(child)];
        size.push_back(total);
    }
    return size;
}

std::map<int, int> SumTree::ways() const {
    std::map<int, int> count;
    for (const auto& children : sums) ++count[static_cast<int>(children.size())];
    return count;
}

int SumTree::depth() const {
    std::vector<int> depth(static_cast<std::size_t>(terms), 0);
    for (const auto& children : sums) {
        int most = 0;
        for (const int child : children) most = std::max(most, depth[static_cast<std::size_t>(child)]);
        depth.push_back(most + 1);
    }
    return depth.empty() ? 0 : depth.back();
}

bool SumTree::is_chain() const {
    return std::all_of(sums.begin(), sums.end(), [this](const auto& children) {
        return std::count_if(children.begin(), children.end(), [this](int child) { return child >= terms; }) <= 1;
    });
}

bool SumTree::is_balanced() const {
    const std::vector<int> size = sizes();
    return std::all_of(sums.begin(), sums.end(), [&](const auto& children) {
        return children.size() == 2 &&
               size[static_cast<std::size_t>(children[0])] == size[static_cast<std::size_t>(children[1])];
    });
}

std::vector<int> SumTree::blocks() const {
    const std::vector<int> size = sizes();
    // For each node: its first term, and whether it is a chain of consecutive terms in order.
    std::vector<int> first(size.size());
    std::vector<bool> in_order(size.size(), true);
    for (int i = 0; i < terms; ++i) first[static_cast<std::size_t>(i)] = i;
    for (std::size_t s = 0; s < sums.size(); ++s) {
        const std::size_t node = static_cast<std::size_t>(terms) + s;
        first[node] = first[static_cast<std::size_t>(sums[s].front())];
        int next = first[node];
        for (std::size_t i = 0; i < sums[s].size(); ++i) {
            const auto child = static_cast<std::size_t>(sums[s][i]);
            in_order[node] = in_order[node] && first[child] == next && in_order[child] &&
                             (i == 0 || child < static_cast<std::size_t>(terms));
            next += size[child];
        }
    }
    std::vector<int> lengths;
    int node = terms + static_cast<int>(sums.size()) - 1;
    while (node >= terms && !in_order[static_cast<std::size_t>(node)]) {
        const std::vector<int>& children = sums[static_cast<std::size_t>(node - terms)];
        if (children.size() != 2 || children[1] < terms) return {};
        const auto before = static_cast<std::size_t>(children[0]), last = static_cast<std::size_t>(children[1]);
        if (!in_order[last] || first[before] + size[before] != first[last]) return {};
        lengths.push_back(size[last]);
        node = children[0];
    }
    if (lengths.empty() || node < terms) return {};
    lengths.push_back(size[static_cast<std::size_t>(node)]);
    std::reverse(lengths.begin(), lengths.end());
    return lengths;
}

namespace {

/// Returns words such as `a chain of blocks: 2 of 320, 192, 168`.
std::string block_words(const std::vector<int>& lengths) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < lengths.size();) {
        std::size_t end = i;
        while (end < lengths.size() && lengths[end] == lengths[i]) ++end;
        words.push_back(end - i == 1 ? fmt::format("{}", lengths[i]) : fmt::format("{} of {}", end - i, lengths[i]));
        i = end;
    }
    return fmt::format("a chain of blocks: {}", fmt::join(words, ", "));
}

/// Returns words for the children, in their order: a word such as `0-31` for each run of neighbouring terms, and a word
/// such as `s3`, the third sum, for each child that is a sum.
std::vector<std::string> child_words(const SumTree& tree, const std::vector<int>& children) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < children.size();) {
        if (children[i] >= tree.terms) {
            words.push_back(fmt::format("s{}", children[i++] - tree.terms + 1));
            continue;
        }
        std::size_t end = i + 1;
        while (end < children.size() && children[end] < tree.terms && children[end] == children[end - 1] + 1) ++end;
        words.push_back(end == i + 1 ? fmt::format("{}", children[i])
                                     : fmt::format("{}-{}", children[i], children[end - 1]));
        i = end;
    }
    return words;
}

void append_indented(const SumTree& tree, int node, int level, std::string& text) {
    text.append(static_cast<std::size_t>(2 * level), ' ');
    if (node < tree.terms) {
        text += fmt::format("{}\n", node);
        return;
    }
    const auto& children = tree.sums[static_cast<std::size_t>(node - tree.terms)];
    text += fmt::format("+ {} ways\n", children.size());
    std::vector<int> run;
    const auto flush = [&] {
        if (run.empty()) return;
        text.append(static_cast<std::size_t>(2 * level + 2), ' ');
        text += fmt::format("{}\n", fmt::join(child_words(tree, run), ", "));
        run.clear();
    };
    for (const int child : children) {
        if (child < tree.terms) {
            run.push_back(child);
        } else {
            flush();
            append_indented(tree, child, level + 1, text);
        }
    }
    flush();
}

}  // namespace

std::string tree_steps(const SumTree& tree) {
    std::string text;
    for (std::size_t i = 0; i < tree.sums.size(); ++i) {
        text += fmt::format("s{} = {}\n", i + 1, fmt::join(child_words(tree, tree.sums[i]), " + "));
    }
    return text.empty() ? "0\n" : text;
}

SumTree parse_tree_steps(int terms, std::string_view steps) {
    SumTree tree{.terms = terms};
    std::vector<bool> used(static_cast<std::size_t>(terms), false);
    const auto wrong = [&](std::string_view line) {
        throw Error({.what = fmt::format("the line '{}' is not a sum of terms and earlier sums, each used once", line),
                     .where = "steps of a sum tree",
                     .fix = "use the steps that `macheps reveal` prints"});
    };
    const auto number_of = [&](std::string_view text, std::string_view line) {
        int number = -1;
        const char* const end = text.data() + text.size();
        if (std::from_chars(text.data(), end, number).ptr != end || number < 0) wrong(line);
        return number;
    };
    while (!steps.empty()) {
        const std::string_view line = steps.substr(0, steps.find('\n'));
        steps.remove_prefix(std::min(line.size() + 1, steps.size()));
        if (terms == 1 && line == "0") return tree;
        const std::string start = fmt::format("s{} = ", tree.sums.size() + 1);
        if (!line.starts_with(start)) wrong(line);
        std::vector<int> children;
        for (std::string_view rest = line.substr(start.size()); !rest.empty();) {
            const std::size_t end = rest.find(" + ");
            const std::string_view word = rest.substr(0, end);
            rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 3);
            const bool is_sum = word.starts_with('s');
            const std::size_t dash = word.find('-');
            const int first = number_of(is_sum ? word.substr(1) : word.substr(0, dash), line);
            const int last = is_sum || dash == std::string_view::npos ? first : number_of(word.substr(dash + 1), line);
            for (int i = first; i <= last; ++i) {
                const int node = is_sum ? terms + i - 1 : i;
                if (node < (is_sum ? terms : 0) || node >= static_cast<int>(used.size()) || (!is_sum && node >= terms))
                    wrong(line);
                if (used[static_cast<std::size_t>(node)]) wrong(line);
                used[static_cast<std::size_t>(node)] = true;
                children.push_back(node);
            }
        }
        if (children.size() < 2) wrong(line);
        tree.sums.push_back(std::move(children));
        used.push_back(false);
    }
    // Every node except the root must be part of a sum.
    if (std::count(used.begin(), used.end(), false) != 1 || used.back()) wrong("");
    return tree;
}

std::string tree_indented(const SumTree& tree) {
    std::string text;
    append_indented(tree, tree.terms + static_cast<int>(tree.sums.size()) - 1, 0, text);
    return text;
}

std::string tree_brackets(const SumTree& tree) {
    // Children come before their sum, and each child is used once, so the text of a child can be moved.
    std::vector<std::string> text;
    for (const auto& children : tree.sums) {
        std::string sum = "(";
        for (const int child : children) {
            if (sum.size() > 1) sum += ' ';
            sum += child < tree.terms ? std::to_string(child)
                                      : std::move(text[static_cast<std::size_t>(child - tree.terms)]);
        }
        text.push_back(sum + ")");
    }
    return text.empty() ? "0\n" : text.back() + "\n";
}

std::string tree_dot(const SumTree& tree, std::string_view title) {
    std::string text = "digraph sum {\n";
    text += fmt::format("    label = \"{}\";\n    rankdir = BT;\n    node [shape = circle];\n", title);
    for (int i = 0; i < tree.terms; ++i) text += fmt::format("    t{} [label = \"{}\", shape = plain];\n", i, i);
    for (std::size_t s = 0; s < tree.sums.size(); ++s) {
        text += fmt::format("    s{} [label = \"+\"];\n", s + 1);
        for (const int child : tree.sums[s]) {
            text += child < tree.terms ? fmt::format("    t{} -> s{};\n", child, s + 1)
                                       : fmt::format("    s{} -> s{};\n", child - tree.terms + 1, s + 1);
        }
    }
    return text + "}\n";
}

std::string tree_summary(const SumTree& tree) {
    std::vector<std::string> ways;
    for (const auto& [way, count] : tree.ways()) ways.push_back(fmt::format("{} of {}", count, way));
    const std::vector<int> blocks = tree.blocks();
    const std::string shape = tree.is_chain()      ? "a chain"
                              : tree.is_balanced() ? "balanced"
                              : !blocks.empty()    ? block_words(blocks)
                                                   : "a tree";
    return fmt::format("{} terms in {} sum{} ({}), depth {}: {}", tree.terms, tree.sums.size(),
                       tree.sums.size() == 1 ? "" : "s", fmt::join(ways, ", "), tree.depth(), shape);
}

}  // namespace macheps
