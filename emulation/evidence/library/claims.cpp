// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/claims.hpp"

#include "emulation/matmul/rules.hpp"

#include <algorithm>

namespace macheps::evidence {

namespace {

struct RuleClaim {
    std::string_view name;  ///< name of a rule, or of a machine (the rule is then one chain over all of k)
    bool (*covers)(const LibraryProblem& p);
};

using Scaling = LibraryScaling;

bool has_one_factor(const LibraryProblem& p) { return p.scaling == Scaling::none || p.scaling == Scaling::tensor; }
/// Returns whether the claims cover the sizes of the problem. For other sizes and for vectors, the library uses other
/// kinds of kernels (observed on an H100).
bool is_aligned(const LibraryProblem& p) {
    return p.m > 1 && p.n > 1 && p.n % 8 == 0 && p.k % 8 == 0 && (p.a_by_rows || p.m % 8 == 0);
}
bool is_of(const LibraryProblem& p, const Format& format) { return p.a == format && p.b == format; }

// Nothing is claimed for sums of more than one slice of k, because the library itself decides whether and where it cuts
// k into slices.
constexpr RuleClaim claims[] = {
    {"cublaslt.fp8.fast",
     [](const LibraryProblem& p) { return is_fp8(p.a) && has_one_factor(p) && p.fast_accumulation; }},
    {"cublaslt.fp8.split",
     [](const LibraryProblem& p) { return is_fp8(p.a) && has_one_factor(p) && !p.fast_accumulation; }},
    {"cublaslt.fp8.outer.fast",
     [](const LibraryProblem& p) { return is_fp8(p.a) && p.scaling == Scaling::outer && p.fast_accumulation; }},
    {"cublaslt.fp8.outer",
     [](const LibraryProblem& p) { return is_fp8(p.a) && p.scaling == Scaling::outer && !p.fast_accumulation; }},
    {"cublaslt.fp8.1d1d", [](const LibraryProblem& p) { return is_fp8(p.a) && p.scaling == Scaling::blocks_1x1; }},
    {"cublaslt.fp8.1d2d", [](const LibraryProblem& p) { return is_fp8(p.a) && p.scaling == Scaling::blocks_1x2; }},
    {"sm90.wgmma.bf16",
     [](const LibraryProblem& p) { return is_of(p, bf16) && p.accumulator == fp32 && is_aligned(p); }},
    {"sm90.wgmma.fp16",
     [](const LibraryProblem& p) { return is_of(p, fp16) && p.accumulator == fp32 && is_aligned(p); }},
    {"sm90.wgmma.fp16.acc16",
     [](const LibraryProblem& p) { return is_of(p, fp16) && p.accumulator == fp16 && is_aligned(p); }},
    {"sm90.wgmma.tf32", [](const LibraryProblem& p) { return is_of(p, tf32) && is_aligned(p); }},
};

}  // namespace

std::string claimed_rule(const LibraryProblem& p, const LibraryAlgorithm& algorithm, const ClaimedLibrary& library) {
    if (library.architecture != "sm_90" || algorithm.slices != 1) return {};
    const auto claim =
        std::find_if(std::begin(claims), std::end(claims), [&](const RuleClaim& each) { return each.covers(p); });
    if (claim == std::end(claims)) return {};
    std::string name(claim->name);
    if (p.whole_words) name += ", operands rounded to tf32 by nearest_even";
    const bool has_roles = p.scaling == Scaling::outer || p.scaling == Scaling::blocks_1x1;
    if (has_roles && !library.is_row_major) name += exchanged_words;
    return name;
}

bool is_claimed(const LibraryCandidate& candidate, std::string_view claim) {
    if (std::find(candidate.names.begin(), candidate.names.end(), claim) == candidate.names.end()) return false;
    if (find_matmul_rule(claim.substr(0, claim.find(','))) != nullptr) return true;
    const MatmulRule& rule = candidate.rule;
    return rule.slices == 1 && rule.promotion == Promotion::none && rule.scale_order == ScaleOrder::joint;
}

}  // namespace macheps::evidence
