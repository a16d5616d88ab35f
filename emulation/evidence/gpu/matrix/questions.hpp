// SPDX-License-Identifier: Apache-2.0
// Questions about matrix units on which published sources disagree. A question has operands for which the possible
// answers give different results. Each result comes with its meaning, in most cases the value of a field of SumRule.
// Host only.
#pragma once
#include "emulation/evidence/gpu/matrix/forms.hpp"

#include <string>
#include <vector>

namespace macheps::evidence {

/// One question about a matrix unit. Operands that are not listed in `terms` are +0.
struct Question {
    std::string id;    ///< `P2b.158`
    std::string form;  ///< InstructionForm::name
    std::string asks;
    struct Term {
        int k;
        std::uint64_t a, b;
    };
    std::vector<Term> terms{};
    std::uint64_t c = 0;
    struct Answer {
        std::uint64_t d;
        std::string means;  ///< `zero_factor_counts = true: ...`
    };
    std::vector<Answer> answers{};  ///< the possible results; one of them is the model's
    bool only_recorded = false;     ///< report the result without a comparison, because no model claims one

    std::string name() const { return id + "." + form; }
};

namespace detail {

inline constexpr const char *mma_bf16 = "mma.m16n8k16.f32.bf16.bf16.f32", *wgmma_bf16 = "wgmma.m64n8k16.f32.bf16.bf16",
                            *mma_half = "mma.m16n8k16.f16.f16.f16.f16", *wgmma_half = "wgmma.m64n8k16.f16.f16.f16",
                            *mma_tf32 = "mma.m16n8k8.f32.tf32.tf32.f32", *wgmma_tf32 = "wgmma.m64n8k8.f32.tf32.tf32",
                            *mma_fp8 = "mma.m16n8k32.f32.e4m3.e4m3.f32", *wgmma_fp8 = "wgmma.m64n8k32.f32.e4m3.e4m3";

/// Adds the questions about small products and zeros: with which exponent a zero operand enters the alignment of a sum,
/// and which small products are lost in a sum with a zero operand.
inline void ask_of_zero_exponents(std::vector<Question>& all) {
    for (const char* form : {mma_bf16, wgmma_bf16}) {
        all.push_back({"P1",
                       form,
                       "does a product with a zero factor affect the largest exponent",
                       {{0, 0, 0x7f00}, {1, 0x3f80, 0x3080}},
                       0,
                       {{0x30800000, "zero_factor_counts = false: it does not"},
                        {0, "zero_factor_counts = true: a zero operand has exponent -126"}}});
        Question sum{"P2a",
                     form,
                     "do sixteen products of 2^-152 survive next to a zero addend",
                     {},
                     0,
                     {{2, "zero_factor_counts = false: they survive"},
                      {0, "zero_factor_counts = true: a zero operand has exponent -126"}}};
        for (int k = 0; k < 16; ++k) sum.terms.push_back({k, 0x1980, 0x1980});
        all.push_back(sum);
        for (int t = 156; t <= 159; ++t) {
            const auto small = static_cast<std::uint64_t>(0x8000 | (127 - (t - 126)) << 7);
            all.push_back(
                {std::string("P2b.") + std::to_string(t),
                 form,
                 std::string("is -2^-") + std::to_string(t) + " lost when added to 2^-149 and a zero addend",
                 {{0, 0x3400, 0x0080}, {1, small, 0x0080}},
                 0,
                 {{0, t == 159 ? "zero_exponent = -134 or none: the term counts, and one unit is cut off"
                               : std::string("zero_exponent <= -") + std::to_string(t - 26) + ": the term counts"},
                  {1, std::string("zero_exponent >= -") + std::to_string(t - 26) + ": the term is lost"}}});
        }
        all.push_back({"P6",
                       form,
                       "does a negative sum that underflows become +0 or -0",
                       {{0, 0x9a00, 0x1980}},
                       0,
                       {{0x80000000, "underflow_keeps_sign = true: -0"}, {0, "underflow_keeps_sign = false: +0"}}});
    }
}

/// Adds the questions about fp16 results: which small products are lost next to a zero addend, and which exponent a
/// subnormal addend has.
inline void ask_of_fp16_results(std::vector<Question>& all) {
    for (int t = 46; t <= 48; ++t) {
        const std::uint64_t small = std::uint64_t{1} << (48 - t);
        for (const char* form : {mma_half, wgmma_half}) {
            all.push_back(
                {std::string(form == mma_half ? "P3." : "P3w.") + std::to_string(t),
                 form,
                 std::string("is 2^-") + std::to_string(t) +
                     " lost when added to 2^-25 and a zero addend (a tie in fp16)",
                 {{0, 0x1000, 0x0400}, {1, small, 0x0001}},
                 0,
                 {{1, std::string("zero_exponent <= ") + std::to_string(25 - t) + ": the term breaks the tie"},
                  {0, std::string("zero_exponent > ") + std::to_string(25 - t) + ": the term is lost"}}});
        }
    }
    for (const char* form : {mma_half, wgmma_half}) {
        all.push_back({"P4",
                       form,
                       "which exponent does a subnormal fp16 addend have",
                       {{0, 0x1000, 0x0400}, {1, 0x0010, 0x0008}},
                       2,
                       {{2, "normalises_addend = false: -14, the smallest of fp16"},
                        {3, "normalises_addend = true: the exponent of its leading bit"}}});
    }
}

/// Adds the questions about the signs of zero sums.
inline void ask_of_zero_sums(std::vector<Question>& all) {
    struct Zeros {
        const char* form;
        std::uint64_t minus, one, c;
        int k;
    };
    for (const Zeros& z :
         {Zeros{mma_bf16, 0x8000, 0x3f80, 0x80000000, 16}, Zeros{mma_half, 0x8000, 0x3c00, 0x8000, 16},
          Zeros{wgmma_bf16, 0x8000, 0x3f80, 0x80000000, 16}, Zeros{wgmma_half, 0x8000, 0x3c00, 0x8000, 16},
          Zeros{wgmma_fp8, 0x80, 0x38, 0x80000000, 32}, Zeros{mma_fp8, 0x80, 0x38, 0x80000000, 32}}) {
        Question zeros{"P5", z.form, "what sign does a sum have if all its terms are -0",
                       {},   z.c,    {{0, "zeros_keep_sign = false: +0"}, {z.c, "zeros_keep_sign = true: -0"}}};
        for (int k = 0; k < z.k; ++k) zeros.terms.push_back({k, z.minus, z.one});
        all.push_back(zeros);
    }
}

/// Adds a question about which container bits of a tf32 operand are read, and questions about how an fp8 unit changes
/// an addend.
inline void ask_of_operands_and_addends(std::vector<Question>& all) {
    for (const char* form : {mma_tf32, wgmma_tf32}) {
        all.push_back({"P7",
                       form,
                       "how is a tf32 NaN read if its payload is only in the 13 unused bits",
                       {{0, 0x7f800001, 0x3f800000}},
                       0,
                       {{0x7f800000, "as an infinity: the unused bits are cut off first"},
                        {0x7fffffff, "as a NaN: all bits of the container are read"}}});
    }
    all.push_back({"P8.bits",
                   wgmma_fp8,
                   "is an addend cut to E8M13 when all products are zero",
                   {},
                   0x3f8003ff,
                   {{0x3f800000, "delivery = E8M13: yes"}, {0x3f8003ff, "no, it is unchanged"}}});
    all.push_back({"P8.zero",
                   wgmma_fp8,
                   "does an addend of -0 become +0 or stay -0 when all products are zero",
                   {},
                   0x80000000,
                   {{0, "zeros_keep_sign = false: +0"}, {0x80000000, "zeros_keep_sign = true: -0"}}});
    all.push_back({"P8.infinity",
                   wgmma_fp8,
                   "does an infinite addend stay infinite",
                   {},
                   0x7f800000,
                   {{0x7f800000, "yes"}, {0x7fffffff, "no, it becomes a NaN"}}});
}

/// Adds the questions about negated NaNs and zeros, and about the payload of a NaN.
inline void ask_of_negation_and_payloads(std::vector<Question>& all) {
    const char* negated = "wgmma.m64n8k16.f32.f16.f16+negated_a";
    all.push_back({"P9.nan",
                   negated,
                   "which NaN results from a negated NaN",
                   {{0, 0x7e00, 0x3c00}},
                   0,
                   {{0x7fffffff, "the canonical NaN"}, {0xffffffff, "the canonical NaN with a negative sign"}}});
    all.push_back({"P9.zero",
                   negated,
                   "does a negated zero plus an addend of -0 give +0 or -0",
                   {{0, 0, 0x3c00}},
                   0x80000000,
                   {{0, "zeros_keep_sign = false: +0"}, {0x80000000, "zeros_keep_sign = true: -0"}}});
    Question payload{"P10",
                     "mma.m8n8k4.f64.f64.f64.f64",
                     "which payload does an fp64 NaN have",
                     {{0, 0x7ff8000000000123, 0x3ff0000000000000}},
                     0,
                     {}};
    payload.only_recorded = true;
    all.push_back(payload);
}

}  // namespace detail

inline std::vector<Question> instruction_questions() {
    std::vector<Question> all;
    detail::ask_of_zero_exponents(all);
    detail::ask_of_fp16_results(all);
    detail::ask_of_zero_sums(all);
    detail::ask_of_operands_and_addends(all);
    detail::ask_of_negation_and_payloads(all);
    return all;
}

}  // namespace macheps::evidence
