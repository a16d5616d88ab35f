// SPDX-License-Identifier: Apache-2.0
// Makes checks of matrix products: the declaration, the arrays, and the outputs of an emulated kernel.
#pragma once
#include "emulation/matmul/machine_spelling.hpp"
#include "tests/check/machine_kernels.hpp"
#include "tests/check/problems.hpp"

namespace macheps::test {

/// Returns an array of codes. Files hold codes if NumPy has no type for the format.
inline files::StoredArray coded(const std::string& name, std::vector<std::int64_t> shape, const Floats& values,
                                const Format& format) {
    const int bits = format.bits + format.padding;
    files::StoredArray out{.name = name,
                           .where = "test",
                           .type = "codes",
                           .width = bits <= 8    ? 1u
                                    : bits <= 16 ? 2u
                                                 : 4u,
                           .shape = std::move(shape)};
    for (const float x : values) {
        const std::uint32_t code = encode(format, x, Round::nearest_even, Overflow::nonsaturate);
        for (std::size_t i = 0; i < out.width; ++i) out.bytes += static_cast<char>(code >> (8 * i));
    }
    return out;
}

/// The declaration and the operands of a check, without the outputs of a kernel.
struct ProductCheck {
    MachineGemm g{};
    Format out = fp32;
    std::string machine = "any";
    Floats bias{}, a_scale{}, b_scale{};
    bool bits = false;
    std::string scale_order = "any";
    std::optional<double> need_bits{};

    check::Declaration declaration() const {
        check::Declaration d{.operation = &check::find_operation("gemm")};
        d.formats["a"].format = g.a_format;
        d.formats["b"].format = g.b_format;
        d.formats["out"].format = out;
        d.machine_name = machine;
        if (machine != "any" && machine != "sliced") d.machine = parse_machine(machine).rule;
        d.bits = bits;
        d.scale_order = scale_order;
        d.need_bits = need_bits;
        return d;
    }
    std::vector<files::StoredArray> arrays(const Floats& outputs) const {
        const auto m = static_cast<std::int64_t>(g.m), n = static_cast<std::int64_t>(g.n),
                   k = static_cast<std::int64_t>(g.k);
        std::vector<files::StoredArray> all{coded("a", {m, k}, g.a, g.a_format), coded("b", {k, n}, g.b, g.b_format),
                                            coded("out", {m, n}, outputs, out)};
        if (!bias.empty()) all.push_back(array("bias", {n}, bias));
        if (!a_scale.empty()) all.push_back(array("a_scale", {static_cast<std::int64_t>(a_scale.size()), 1}, a_scale));
        if (!b_scale.empty()) all.push_back(array("b_scale", {static_cast<std::int64_t>(b_scale.size())}, b_scale));
        return all;
    }
    check::Verdict judge(const Floats& outputs, const check::Options& options = {}) const {
        return judge_arrays(declaration(), arrays(outputs), options);
    }
    /// Applies the epilogue in plain floats. Multiplies by the scale of a and then by the scale of b (with `b_first`,
    /// in the opposite order), and adds the bias. Does not round to the format of the output.
    Floats epilogue(Floats sums, bool b_first = false) const {
        for (std::size_t i = 0; i < sums.size(); ++i) {
            const float sa = a_scale.empty() ? 1 : a_scale[i / g.n % a_scale.size()],
                        sb = b_scale.empty() ? 1 : b_scale[i % g.n % b_scale.size()];
            sums[i] = b_first ? sa * (sb * sums[i]) : sb * (sa * sums[i]);
            if (!bias.empty()) sums[i] += bias[i % g.n];
        }
        return sums;
    }
    Floats stored(Floats outputs) const {
        for (float& y : outputs) y = decode(out, encode(out, y, Round::nearest_even, Overflow::nonsaturate));
        return outputs;
    }
};

inline bool is_blind(const check::Verdict& verdict, const std::string& mutant) {
    for (const check::Mutant* each : verdict.blind(check::Power::precision)) {
        if (each->name.find(mutant) != std::string::npos) return true;
    }
    return false;
}

}  // namespace macheps::test
