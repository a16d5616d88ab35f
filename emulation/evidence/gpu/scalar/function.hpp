// SPDX-License-Identifier: Apache-2.0
// Probe of one function that the device approximates. It measures the error against a reference, and checks whether the
// function is monotonic.
#pragma once
#include "emulation/evidence/gpu/scalar/arithmetic.hpp"
#include "emulation/evidence/gpu/scalar/function_model.hpp"

namespace macheps::evidence {

namespace detail {

/// Computes the result with the instruction or function of the device. Returns false if the device does not have it.
MACHEPS_KERNEL inline bool function_by_hardware(const FunctionRow& row, std::uint64_t a, std::uint64_t& result) {
#if !defined(__CUDACC__)
    // Uses the row of the table, because tests pass a changed `row`.
    const FunctionRow& own = function_rows[static_cast<std::size_t>(row.id)];
    result = nearest_code(own, operand_of(own, a));
    return true;
#else
    const ArithmeticInput in{a, 0, 0};
    [[maybe_unused]] float f = 0;
    [[maybe_unused]] unsigned short h = 0;
    [[maybe_unused]] const auto half = static_cast<unsigned short>(a);
    switch (row.id) {
#define MACHEPS_f_f(ptx)                          \
    asm(ptx " %0, %1;" : "=f"(f) : "f"(in.fa())); \
    result = bits_of(f)
#define MACHEPS_h_h(ptx)                       \
    asm(ptx " %0, %1;" : "=h"(h) : "h"(half)); \
    result = h
#define MACHEPS_CASE(id, name, format, function, variant, domain, relative, absolute, ulps, claim, shape) \
    case Approximation::id:                                                                               \
        MACHEPS_##shape(name);                                                                            \
        return true;
#if __CUDA_ARCH__ >= 800
        MACHEPS_FUNCTIONS_SM80(MACHEPS_CASE)
#endif
#if __CUDA_ARCH__ >= 900
        MACHEPS_FUNCTIONS_SM90(MACHEPS_CASE)
#endif
#undef MACHEPS_CASE
#undef MACHEPS_f_f
#undef MACHEPS_h_h
#define MACHEPS_CASE(id, name, format, function, variant, domain, relative, absolute, ulps, claim, call) \
    case Approximation::id:                                                                              \
        result = bits_of(call);                                                                          \
        return true;
        MACHEPS_FUNCTIONS_CUDA(MACHEPS_CASE)
#undef MACHEPS_CASE
        default:
            result = 0;
            return false;
    }
#endif
}

/// Returns the quantum (the spacing of the values) of `f` at `x`: 2^(max(floor(log2 |x|), emin) - fraction bits).
/// Beyond the top binade, returns the quantum of the top binade (Goldberg).
MACHEPS_HD inline double quantum_at(Format f, double x) {
    const auto field = static_cast<int>(bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) - 1023;
    const int exponent = min_of(max_of(field, f.emin()), f.exponent_bias);
    return Format::power_of_two(exponent - f.fraction_bits());
}

}  // namespace detail

struct FunctionProbe {
    FunctionRow row;
    bool fault = false;

    MACHEPS_HD constexpr std::uint64_t inputs() const { return row.inputs(); }

    MACHEPS_KERNEL Trial operator()(std::uint64_t index) const {
        const Format f = row.format;
        Trial trial;
        trial.a = index;
        trial.kind = class_of(f, index);
        trial.offered = detail::function_by_hardware(row, index, trial.got);
        const float x = detail::operand_of(row, index);
        trial.want = detail::nearest_code(row, x);
        if (fault) trial.want ^= std::uint64_t{1} << (f.fraction_bits() - 1);
        const bool got_nan = is_nan_code(f, trial.got), want_nan = is_nan_code(f, trial.want);
        if (want_nan && got_nan) {
            trial.nan_code = trial.got != trial.want;
            return trial;
        }
        trial.differs = trial.got != trial.want;
        if (want_nan || got_nan) {
            trial.beyond = true;
            return trial;
        }
        measure(trial, x);
        if (!fault) compare_next(trial, index, x);
        return trial;
    }

  private:
    /// Returns the reference value. If `fault` is set, the value is too large by a quarter.
    MACHEPS_HD double exact_at(float x) const { return reference(row.function, x) * (fault ? 1.25 : 1.0); }

    /// Limits the magnitude of x to the power of two above the largest finite value, so that an infinity counts as this
    /// power of two.
    MACHEPS_HD double finite(double x) const {
        const double most = Format::power_of_two(row.format.exponent_bias) * 2;
        return min_of(max_of(x, -most), most);
    }

    MACHEPS_HD void measure(Trial& trial, float x) const {
        const Format f = row.format;
        const double exact = finite(exact_at(x)), got = finite(decode64(f, trial.got));
        const double size = exact < 0 ? -exact : exact, least = Format::power_of_two(f.emin());
        // Flushing is not an error: a result below the smallest normal number may become a zero of either sign.
        if (row.variant == Variant::ftz && size < least && got == 0) return;
        const double error = got < exact ? exact - got : got - exact, quantum = detail::quantum_at(f, exact);
        // A relative bound cannot hold for subnormal results, so they may be off by one more quantum.
        const double slack = size < least ? quantum : 0;
        const double allowed = row.relative * size + row.absolute + row.ulps * quantum + slack;
        const double reach = row.domain == Domain::turn       ? 0x1.921fb54442d18p+2
                             : row.domain == Domain::moderate ? 10
                                                              : 0x1p200;
        const bool claimed = x >= -reach && x <= reach;
        // The largest error is found by comparing bits, among which those of -0 would be the largest. So store a zero
        // error as +0. An absolute error counts only for operands to which the bound applies.
        const double reported = row.absolute_error() ? (claimed ? error : 0) : error / quantum;
        trial.error = reported == 0 ? 0.0f : static_cast<float>(reported);
        trial.beyond = claimed && row.claim != Claim::correct && error > allowed;
    }

    /// Compares this operand with the next operand of the same sign. Records in trial.turns whether the result falls
    /// although the reference rises, or rises although the reference falls.
    MACHEPS_KERNEL void compare_next(Trial& trial, std::uint64_t index, float x) const {
        const Format f = row.format;
        const std::uint64_t next = index + 1;
        if (!trial.offered || trial.kind == InputClass::infinite || is_nan_code(f, next)) return;
        std::uint64_t got = 0;
        (void)detail::function_by_hardware(row, next, got);
        const double step = decode64(f, got) - decode64(f, trial.got);
        const double rise = reference(row.function, detail::operand_of(row, next)) - reference(row.function, x);
        trial.turns = (step > 0 && rise < 0) || (step < 0 && rise > 0);
    }
};

}  // namespace macheps::evidence
