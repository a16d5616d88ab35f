// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/match.hpp"

#include "core/hd.hpp"
#include "emulation/evidence/library/claims.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::evidence {

namespace {

bool same_number(float x, float y) {
    return bit_cast<std::uint32_t>(x) == bit_cast<std::uint32_t>(y) || (x != x && y != y);
}

/// Differences between the results of a candidate rule and the outputs of the library, on a sample of the outputs.
struct Comparison {
    std::uint64_t mismatches = 0;
    std::string first{};
};

Comparison compare(Backend& host, const LibraryCandidate& candidate, const LibrarySample& sample,
                   const std::vector<float>& out, std::int64_t out_columns, bool fault) {
    std::vector<float> mine = candidate_results(host, candidate, sample);
    if (fault) mine.back() = bit_cast<float>(bit_cast<std::uint32_t>(mine.back()) ^ 0x00400000u);
    Comparison result;
    std::size_t at = 0;
    for (const std::int64_t i : sample.rows) {
        for (const std::int64_t j : sample.columns) {
            const float theirs = out[static_cast<std::size_t>(i * out_columns + j)], ours = mine[at++];
            if (same_number(theirs, ours)) continue;
            if (result.mismatches++ == 0) {
                result.first =
                    fmt::format("{} [{},{}]: library {:08x} = {:.9g}, rule {:08x} = {:.9g}", sample.operands.name, i, j,
                                bit_cast<std::uint32_t>(theirs), theirs, bit_cast<std::uint32_t>(ours), ours);
            }
        }
    }
    return result;
}

/// Returns `count` evenly spaced elements of `places`, or all of them if there are fewer.
std::vector<std::int64_t> some_of(const std::vector<std::int64_t>& places, std::int64_t count) {
    std::vector<std::int64_t> some;
    for (const std::int64_t i : spread(static_cast<std::int64_t>(places.size()), count))
        some.push_back(places[static_cast<std::size_t>(i)]);
    return some;
}

/// Returns a sample of the outputs that the plan can give. A candidate's results for the sample take about `products`
/// multiplications. The sample has as many columns as rows if the plan has enough of both.
LibrarySample sample_of(const LibraryPlan& plan, const LibraryProblem& p, const LibraryOperands& x,
                        std::int64_t products) {
    const LibraryPlaces all =
        plan.places() != nullptr ? *plan.places() : LibraryPlaces{spread(p.m, p.m), spread(p.n, p.n)};
    const auto m = static_cast<std::int64_t>(all.rows.size()), n = static_cast<std::int64_t>(all.columns.size());
    const std::int64_t outputs = std::max<std::int64_t>(products / std::max<std::int64_t>(p.k, 1), 16);
    std::int64_t rows = 1;
    while ((rows + 1) * (rows + 1) <= outputs) ++rows;
    rows = std::min(rows, m);
    const std::int64_t columns = std::min(std::max<std::int64_t>(outputs / rows, 1), n);
    return library_sample(p, x, some_of(all.rows, std::max(rows, outputs / columns)), some_of(all.columns, columns));
}

}  // namespace

LibraryFinding match_library(LibraryPlan& plan, const LibraryProblem& p, Backend& host, const MatchOptions& options) {
    LibraryFinding finding;
    // A few outputs refute most candidates. Only the remaining candidates are compared on many outputs.
    std::vector<LibrarySample> few, many;
    std::vector<std::vector<float>> outputs;
    for (std::size_t c = 0; c < std::min(options.classes, std::size(library_classes)); ++c) {
        const LibraryOperands operands = library_operands(p, library_classes[c], options.seed);
        few.push_back(sample_of(plan, p, operands, std::min(options.products / 64, 64 * p.k)));
        many.push_back(sample_of(plan, p, operands, options.products));
        outputs.push_back(plan.run(operands));
        if (outputs.size() > 1) continue;
        const std::vector<float> again = plan.run(operands);
        finding.varies = !std::equal(again.begin(), again.end(), outputs.front().begin(), same_number);
    }
    const std::vector<LibraryCandidate> candidates = library_candidates(p, plan.algorithm());
    finding.candidates = candidates.size();
    const auto outputs_of = [](const std::vector<LibrarySample>& samples) {
        std::uint64_t count = 0;
        for (const LibrarySample& s : samples) count += static_cast<std::uint64_t>(s.problem.m * s.problem.n);
        return count;
    };
    const auto observe = [&](const LibraryCandidate& candidate, const std::vector<LibrarySample>& samples,
                             bool only_whether) {
        Comparison total;
        for (std::size_t c = 0; c < samples.size() && !(only_whether && total.mismatches > 0); ++c) {
            Comparison one = compare(host, candidate, samples[c], outputs[c], p.n, options.fault);
            if (total.mismatches == 0) total.first = std::move(one.first);
            total.mismatches += one.mismatches;
        }
        return total;
    };
    for (const LibraryCandidate& candidate : candidates) {
        if (observe(candidate, few, true).mismatches > 0 || observe(candidate, many, true).mismatches > 0) continue;
        finding.equal.push_back(candidate);
        finding.trials += outputs_of(few) + outputs_of(many);
    }
    const auto claims = [&](const LibraryCandidate& candidate) { return is_claimed(candidate, options.claim); };
    finding.has_claimed = std::any_of(finding.equal.begin(), finding.equal.end(), claims);
    if (const auto claimed = std::find_if(candidates.begin(), candidates.end(), claims);
        !finding.has_claimed && claimed != candidates.end()) {
        Comparison seen = observe(*claimed, few, false);
        if (seen.mismatches == 0) seen = observe(*claimed, many, false);
        finding.claim_mismatches = seen.mismatches;
        finding.claim_difference = std::move(seen.first);
    }
    if (finding.equal.empty()) {
        double least = 2;  // smallest share of differing outputs so far; every share is less than 2
        for (const LibraryCandidate& candidate : candidates) {
            // Every candidate differs from the library somewhere. If it agrees on the few outputs, it differs on the
            // many.
            std::uint64_t trials = outputs_of(few);
            Comparison seen = observe(candidate, few, false);
            if (seen.mismatches == 0) {
                trials = outputs_of(many);
                seen = observe(candidate, many, false);
            }
            const double share = static_cast<double>(seen.mismatches) / static_cast<double>(trials);
            if (share >= least) continue;
            least = share;
            finding.trials = trials;
            finding.mismatches = seen.mismatches;
            finding.closest = candidate.names.front();
            finding.difference = std::move(seen.first);
        }
        return finding;
    }
    // Products with special values run on the scalar definition, which is slower, so compare fewer outputs.
    const LibraryOperands specials = library_operands(p, special_class, options.seed);
    const LibrarySample some = sample_of(plan, p, specials, options.products / 16);
    const std::vector<float> out = plan.run(specials);
    for (const LibraryCandidate& candidate : finding.equal) {
        Comparison one = compare(host, candidate, some, out, p.n, options.fault);
        if (one.mismatches == 0) {
            finding.equal_with_specials.push_back(candidate);
        } else if (finding.special_difference.empty() && (!finding.has_claimed || claims(candidate))) {
            finding.special_difference = std::move(one.first);
        }
        finding.special_trials += outputs_of({some});
    }
    return finding;
}

}  // namespace macheps::evidence
