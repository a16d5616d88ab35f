// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/reveal.hpp"

#include "core/error.hpp"
#include "emulation/evidence/library/claims.hpp"
#include "emulation/matmul/matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace macheps::evidence {

namespace {

[[noreturn]] void no_order(std::string what) {
    throw Error({.what = std::move(what), .where = "reveal of a library", .fix = "", .exit = Exit::check_failed});
}

/// Returns a text that lists the properties of a candidate that determine its order of summation. Fraction bits,
/// scales, and the format in which slices are stored are not among them.
std::string shape_of(const LibraryCandidate& candidate, std::int64_t k) {
    const MatmulRule& rule = candidate.rule;
    const SumRule& sum = rule.machine->sum;
    return fmt::format("{} {} {} {} {} {} {} {}", rule.machine->k, static_cast<int>(sum.model), sum.terms,
                       static_cast<int>(sum.delivery), rule.promotion_interval, rule.slices,
                       rule.slices > 1 ? definition::slice_length(rule, k) : 0, rule.join == SliceJoin::stream_k);
}

std::optional<SumTree> tree_of(const LibraryCandidate& candidate, const LibraryProblem& p, Backend& host) {
    MatmulRule rule = candidate.rule;
    rule.scale_order = ScaleOrder::joint;  // the operands of FPRev have no scales
    if (rule.promotion == Promotion::fma_joint || rule.promotion == Promotion::fma_left)
        rule.promotion = Promotion::add;
    try {
        return reveal_tree(static_cast<int>(p.k), matmul_pair_sizes(host, rule, p.a, p.b, static_cast<int>(p.k)));
    } catch (const Error&) {
        return std::nullopt;  // an exact sum has no order; other rules cannot represent the masks
    }
}

}  // namespace

RevealLimits library_limits(const LibraryProblem& p, bool is_narrow) {
    RevealLimits limits;
    if (p.accumulator == fp16 || p.out == fp16) {
        limits.largest_exponent = 15;
        limits.min_exponent = -24;
    }
    if (is_narrow) {
        limits.precision = 14;
        limits.vanishing_bits = 14;
    }
    limits.precision = std::min({limits.precision, p.out.precision, p.accumulator.precision});
    return limits;
}

PairSizes library_pair_sizes(LibraryPlan& plan, const LibraryProblem& p, const RevealOperands& probe) {
    const bool by_rows = probe.mask_b == probe.unit_b;
    return [&plan, p, probe, by_rows](std::span<const TermPair> pairs) {
        const int terms = static_cast<int>(p.k);
        const auto k = static_cast<std::size_t>(p.k), n = static_cast<std::size_t>(p.n);
        const auto most = static_cast<std::size_t>(by_rows ? p.m : std::min(p.m, p.n));
        const ScaleCounts scales = scale_counts(p);
        LibraryOperands x{.name = "masks",
                          .a = std::vector<float>(static_cast<std::size_t>(p.m) * k),
                          .b = std::vector<float>(k * n),
                          .a_scales = std::vector<float>(static_cast<std::size_t>(scales.a), 1.0f),
                          .b_scales = std::vector<float>(static_cast<std::size_t>(scales.b), 1.0f)};
        std::vector<int> sizes;
        std::vector<float> row(k), column(k);
        for (std::size_t first = 0; first < pairs.size(); first += most) {
            const auto some = pairs.subspan(first, std::min(most, pairs.size() - first));
            const std::size_t last = some.size() - 1;
            for (std::size_t i = 0; i < static_cast<std::size_t>(p.m); ++i) {
                probe.fill(terms, some[std::min(i, last)], &x.a[i * k], column.data());
            }
            for (std::size_t j = 0; j < n && !(by_rows && first > 0); ++j) {
                probe.fill(terms, some[std::min(j, last)], row.data(), column.data());
                for (std::size_t t = 0; t < k; ++t) x.b[t * n + j] = column[t];
            }
            const std::vector<float> out = plan.run(x);
            for (std::size_t r = 0; r < some.size(); ++r) {
                const float result = out[r * n + (by_rows ? 0 : r)];
                for (std::size_t j = 1; by_rows && j < n; ++j) {
                    if (out[r * n + j] != result) {
                        no_order(fmt::format(
                            "the outputs in columns 0 and {} of row {} have different orders of summation", j, r));
                    }
                }
                sizes.push_back(probe.size_of(terms, some[r], result));
            }
        }
        return sizes;
    };
}

LibraryOrder reveal_library_tree(LibraryPlan& plan, const LibraryProblem& p) {
    const int terms = static_cast<int>(p.k);
    RevealOperands probe;
    try {
        probe = reveal_operands(p.a, p.b, terms, library_limits(p, false));
    } catch (const Error&) {
        probe = reveal_operands(p.a, p.b, terms, library_limits(p, true));
    }
    LibraryOrder order;
    const PairSizes sizes = library_pair_sizes(plan, p, probe);
    try {
        order.tree = reveal_tree(terms, sizes);
        verify_tree(order.tree, sizes, std::min<std::int64_t>(16 * std::min(p.m, p.n), 4096));
    } catch (const Error& error) {
        if (error.exit() != Exit::check_failed) throw;
        order.no_tree = error.parts().what;
    }
    return order;
}

void find_rules(LibraryOrder& order, const LibraryProblem& p, const LibraryAlgorithm& algorithm, Backend& host,
                const std::string& claim) {
    std::map<std::string, std::optional<SumTree>> known;
    for (const LibraryCandidate& candidate : library_candidates(p, algorithm)) {
        const auto [place, is_new] = known.try_emplace(shape_of(candidate, p.k));
        std::optional<SumTree>& tree = place->second;
        if (is_new) tree = tree_of(candidate, p, host);
        if (!tree) continue;
        // Scales, conversions and exchanged operands do not change the order, so order.rules lists only the candidates
        // without them. The claimed rule may have them.
        const bool is_plain =
            candidate.rule.scale_order == ScaleOrder::joint && !candidate.converts && !candidate.is_exchanged;
        if (is_plain) ++order.candidates;
        if (!(*tree == order.tree)) continue;
        if (is_plain) order.rules.push_back(candidate.names.front());
        order.has_claimed = order.has_claimed || is_claimed(candidate, claim);
    }
}

LibraryOrder reveal_library(LibraryPlan& plan, const LibraryProblem& p, Backend& host, const RevealOptions& options) {
    LibraryOrder order = reveal_library_tree(plan, p);
    if (!order.no_tree.empty()) return order;
    if (options.fault && !order.tree.sums.empty()) order.tree.sums.pop_back();
    find_rules(order, p, plan.algorithm(), host, options.claim);
    return order;
}

std::string one_line(const SumTree& tree, std::size_t most) {
    std::string text = tree_summary(tree);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const std::string steps = tree_steps(tree);
    for (std::size_t at = 0; at < steps.size();) {
        const std::size_t end = std::min(steps.find('\n', at), steps.size());
        const std::string line = steps.substr(at, end - at);
        if (text.size() + line.size() + 2 > most) return text + "; ...";
        if (!line.empty()) text += "; " + line;
        at = end + 1;
    }
    return text;
}

}  // namespace macheps::evidence
