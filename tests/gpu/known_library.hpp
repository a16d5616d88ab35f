// SPDX-License-Identifier: Apache-2.0
// A fake library of matrix products. The test chooses the rule by which the library computes. Further functions run the
// probes on the fake library.
#pragma once
#include "core/codec.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/evidence/library/layout.hpp"
#include "emulation/evidence/library/match.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/matmul.hpp"
#include "emulation/matmul/rules.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::evidence {

/// Rule and faults of a fake library, and the algorithm that the library reports.
struct Hidden {
    MatmulRule rule{};
    LibraryAlgorithm says{.id = 7};
    bool rounds_words = false;     ///< rounds fp32 operands to tf32, ties away from zero
    bool drops_last = false;       ///< omits the last of the k products
    bool nudges_specials = false;  ///< returns -0 instead of +0 for special operands
    bool is_restless = false;      ///< uses another order of summation from the second run on
    bool is_exchanged = false;     ///< computes b^T a^T, the transposed output, by its rule
    const char* architecture = "sm_90";
    bool is_row_major = false;
};

inline std::vector<float> columns_of(const std::vector<std::byte>& codes, const Format& f, std::int64_t rows,
                                     std::int64_t columns) {
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    const std::size_t size = codes.size() / values.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint32_t code = 0;
        std::memcpy(&code, &codes[i * size], size);
        values[i] = size == 4 ? bit_cast<float>(code) : decode(f, code);
    }
    return values;
}

/// A matrix product of the fake library. As in BLAS, the stored matrices are column-major. The computation follows the
/// rule of `hidden`.
class FakePlan final : public LibraryPlan {
  public:
    FakePlan(const LibraryProblem& problem, const Hidden& hidden) : p_(problem), hidden_(hidden) {}
    LibraryAlgorithm algorithm() const override { return hidden_.says; }

    void upload(const LibraryOperands& x) override { x_ = x; }
    void launch() override { out_ = product(x_); }
    std::vector<float> download() override { return out_; }

  private:
    std::vector<float> product(const LibraryOperands& x) {
        // op(A) is A, which then has the shape [m,k], or the transpose of A, which then has the shape [k,m]. A is
        // stored by columns. This backend reads matrices by rows, so it sees the transpose of A.
        std::vector<float> a = columns_of(packed_values(x.a, p_.a, p_.m, p_.k, p_.a_by_rows), p_.a, p_.m, p_.k);
        std::vector<float> b = columns_of(packed_values(x.b, p_.b, p_.k, p_.n, !p_.b_by_columns), p_.b, p_.k, p_.n);
        if (hidden_.rounds_words) {
            for (std::vector<float>* values : {&a, &b}) {
                for (float& v : *values) v = decode(tf32, encode(tf32, v, Round::nearest_away, Overflow::nonsaturate));
            }
        }
        std::vector<float> out(static_cast<std::size_t>(p_.m * p_.n));
        Matmul args;
        args.m = p_.m;
        args.n = p_.n;
        args.k = hidden_.drops_last ? p_.k - 1 : p_.k;
        args.a = {.data = a.data(), .ld = p_.a_by_rows ? p_.k : p_.m, .transposed = !p_.a_by_rows, .format = p_.a};
        args.b = {.data = b.data(), .ld = p_.b_by_columns ? p_.k : p_.n, .transposed = p_.b_by_columns, .format = p_.b};
        args.rule = hidden_.rule;
        if (hidden_.is_restless && ++runs_ > 1) args.rule.machine = find_machine("fp32.pairwise");
        args.out = out.data();
        args.ld_out = p_.n;
        args.out_cast = {.format = p_.out, .overflow = p_.out.bits == 8 ? Overflow::saturate : Overflow::nonsaturate};
        const std::int64_t blocks = blocks_of_128(p_.k);
        if (!x.a_scales.empty()) {
            args.a.scales = {.data = x.a_scales.data()};
            args.b.scales = {.data = x.b_scales.data()};
        }
        if (p_.scaling == LibraryScaling::outer) args.a.scales.outer_stride = args.b.scales.outer_stride = 1;
        if (p_.scaling == LibraryScaling::blocks_1x1 || p_.scaling == LibraryScaling::blocks_1x2) {
            args.a.scales.k_block = args.b.scales.k_block = 128;
            args.a.scales.k_stride = args.b.scales.k_stride = 1;
            args.a.scales.outer_stride = args.b.scales.outer_stride = blocks;
            if (p_.scaling == LibraryScaling::blocks_1x2) args.b.scales.outer_block = 128;
        }
        if (hidden_.is_exchanged) {
            std::swap(args.m, args.n);
            std::swap(args.a, args.b);
            args.ld_out = p_.m;
            for (auto* operand : {&args.a, &args.b}) operand->transposed = !operand->transposed;
        }
        host_.matmul(args);
        if (hidden_.is_exchanged) {
            const std::vector<float> exchanged = out;
            for (std::int64_t i = 0; i < p_.m; ++i) {
                for (std::int64_t j = 0; j < p_.n; ++j)
                    out[static_cast<std::size_t>(i * p_.n + j)] = exchanged[static_cast<std::size_t>(j * p_.m + i)];
            }
        }
        if (hidden_.nudges_specials && x.name == special_class) {
            for (float& v : out) v = v == 0 ? -0.0f : v;
        }
        return unpacked_values(packed_values(out, p_.out, p_.m, p_.n, false), p_.out, p_.m, p_.n);
    }

    LibraryProblem p_;
    Hidden hidden_;
    LibraryOperands x_;
    std::vector<float> out_;
    CpuBackend host_{1};
    int runs_ = 0;
};

class FakeLibrary final : public MatmulLibrary {
  public:
    explicit FakeLibrary(Hidden hidden) : hidden_(hidden) {}
    std::string name() const override { return "fake 1.0"; }
    std::string architecture() const override { return hidden_.architecture; }
    bool is_row_major() const override { return hidden_.is_row_major; }
    LibraryAnswer plan(const LibraryProblem& problem, int choice) override {
        if (choice > 0) return {nullptr, "no more"};
        if (problem.m == 65) return {nullptr, "an odd shape (15)"};
        return {std::make_unique<FakePlan>(problem, hidden_), {}};
    }

  private:
    Hidden hidden_;
};

inline LibraryFinding finding_of(const LibraryProblem& problem, const Hidden& hidden, bool fault = false) {
    FakePlan plan(problem, hidden);
    CpuBackend host(1);
    return match_library(plan, problem, host, {.fault = fault, .products = 1 << 19});
}

inline bool is_among(const std::vector<LibraryCandidate>& candidates, std::string_view name) {
    return std::any_of(candidates.begin(), candidates.end(), [&](const LibraryCandidate& c) {
        return std::find(c.names.begin(), c.names.end(), name) != c.names.end();
    });
}

/// Returns a problem whose scales and types the named rule accepts, and the library that follows this rule.
inline std::pair<LibraryProblem, Hidden> served_by(const NamedMatmulRule& named, const Format& out) {
    LibraryProblem p{.m = 32, .n = 24, .k = 720, .a = e4m3fn, .b = e4m3fn, .out = out};
    Hidden hidden{.rule = named.rule};
    if (named.rule.machine == nullptr) {
        p.a = p.b = bf16;
        hidden.rule.machine = find_machine("sm90.wgmma.bf16");
        hidden.rule.slices = hidden.says.slices = 4;
        hidden.says.reduction = named.rule.join == SliceJoin::serial              ? Reduction::in_place
                                : named.rule.join == SliceJoin::rounded_workspace ? Reduction::output_type
                                                                                  : Reduction::compute_type;
    } else if (named.rule.promotion == Promotion::fma_joint || named.rule.promotion == Promotion::fma_left) {
        p.k = 640;
        p.n = 160;  // b has a block of 128 columns and a block of 32 columns
        p.scaling = named.name == "deepgemm.sm90.1d1d" ? LibraryScaling::blocks_1x1 : LibraryScaling::blocks_1x2;
    } else {
        p.scaling = named.rule.scale_order == ScaleOrder::joint ? LibraryScaling::tensor : LibraryScaling::outer;
    }
    return {p, hidden};
}

}  // namespace macheps::evidence
