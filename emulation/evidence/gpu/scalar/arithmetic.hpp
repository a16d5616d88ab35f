// SPDX-License-Identifier: Apache-2.0
// Probe of one arithmetic operation of the device. It compares the device's results with correctly rounded results.
#pragma once
#include "core/ulp.hpp"
#include "emulation/evidence/gpu/scalar/arithmetic_model.hpp"
#include "emulation/evidence/gpu/scalar/convert.hpp"

#if !defined(__CUDACC__)
#include <cfenv>
#include <cmath>
#endif

namespace macheps::evidence {

namespace detail {

/// Codes of the operands a, b and c. The functions convert them to the types that the CUDA toolkit's functions take.
struct ArithmeticInput {
    std::uint64_t a, b, c;

    MACHEPS_HD float fa() const { return bit_cast<float>(static_cast<std::uint32_t>(a)); }
    MACHEPS_HD float fb() const { return bit_cast<float>(static_cast<std::uint32_t>(b)); }
    MACHEPS_HD float fc() const { return bit_cast<float>(static_cast<std::uint32_t>(c)); }
    MACHEPS_HD double da() const { return bit_cast<double>(a); }
    MACHEPS_HD double db() const { return bit_cast<double>(b); }
    MACHEPS_HD double dc() const { return bit_cast<double>(c); }
    MACHEPS_HD __half ha() const { return half(a); }
    MACHEPS_HD __half hb() const { return half(b); }
    MACHEPS_HD __half hc() const { return half(c); }
    MACHEPS_HD __half2 h2a() const { return half2(a); }
    MACHEPS_HD __half2 h2b() const { return half2(b); }
    MACHEPS_HD __half2 h2c() const { return half2(c); }
    MACHEPS_HD __nv_bfloat16 na() const { return bfloat16(a); }
    MACHEPS_HD __nv_bfloat16 nb() const { return bfloat16(b); }
    MACHEPS_HD __nv_bfloat16 nc() const { return bfloat16(c); }
    MACHEPS_HD __nv_bfloat162 n2a() const { return bfloat162(a); }
    MACHEPS_HD __nv_bfloat162 n2b() const { return bfloat162(b); }
    MACHEPS_HD __nv_bfloat162 n2c() const { return bfloat162(c); }

    MACHEPS_HD static __half half(std::uint64_t bits) { return __half(ConvertInput{bits, 0}.half()); }
    MACHEPS_HD static __half2 half2(std::uint64_t bits) { return __half2(ConvertInput{bits, 0}.half2()); }
    MACHEPS_HD static __nv_bfloat16 bfloat16(std::uint64_t bits) {
        return __nv_bfloat16(ConvertInput{bits, 0}.bfloat16());
    }
    MACHEPS_HD static __nv_bfloat162 bfloat162(std::uint64_t bits) {
        return __nv_bfloat162(ConvertInput{bits, 0}.bfloat162());
    }
};

#if !defined(__CUDACC__)

/// Computes the operation of `row` with the arithmetic of the host processor, in the rounding mode of the row. The
/// operands are volatile, so that the compiler does not move the operation to a place where another mode is set.
template <class T>
T native(const ArithmeticRow& row, T a, T b, T c) {
    const int modes[] = {FE_TONEAREST, FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
    const int before = std::fegetround();
    std::fesetround(modes[static_cast<int>(row.mode)]);
    volatile T x = row.reciprocal ? T(1) : a, y = row.reciprocal ? a : b, z = c, result = 0;
    switch (row.operation) {
        case Operation::add:
            result = x + y;
            break;
        case Operation::sub:
            result = x - y;
            break;
        case Operation::mul:
            result = x * y;
            break;
        case Operation::div:
            result = x / y;
            break;
        case Operation::sqrt:
            result = std::sqrt(x);
            break;
        case Operation::fma:
            result = std::fma(x, y, z);
            break;
    }
    std::fesetround(before);
    return result;
}

/// Returns whether the magnitude of a * b (or a * b + c) is below 2^-126 after rounding with an unbounded exponent.
/// Returns false for other operations. The computation multiplies the value by 2^64, so that it does not underflow in
/// fp32.
inline bool is_tiny(const ArithmeticRow& row, float a, float b, float c) {
    if (row.operation != Operation::mul && row.operation != Operation::fma) return false;
    const float small = std::fabs(a) < std::fabs(b) ? a : b, large = std::fabs(a) < std::fabs(b) ? b : a;
    const float scaled = std::fma(small * 0x1p64f, large, row.operation == Operation::fma ? c * 0x1p64f : 0.0f);
    return std::fabs(scaled) < 0x1p-62f;
}

/// Computes one element on the host. fp32 and fp64 use the processor's arithmetic. fp16 and bf16 use the toolkit's host
/// functions for + - * /, and the model for all other operations.
inline std::uint64_t arithmetic_on_host(const ArithmeticRow& row, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    const Format f = row.format;
    if (row.variant == Variant::ftz) a = flush(f, a), b = flush(f, b), c = flush(f, c);
    const ArithmeticInput in{a, b, c};
    std::uint64_t code = 0;
    if (f.bits == 64) return vary(row, bits_of(native(row, in.da(), in.db(), in.dc())));
    if (f.bits == 32) {
        code = bits_of(native(row, in.fa(), in.fb(), in.fc()));
        const bool flushed = row.variant == Variant::ftz && is_tiny(row, in.fa(), in.fb(), in.fc());
        return vary(row, flushed ? code & f.sign_bit() : code);
    }
    const bool half = f == fp16;
    switch (row.operation) {
        case Operation::add:
            code = half ? bits_of(__hadd(in.ha(), in.hb())) : bits_of(__hadd(in.na(), in.nb()));
            break;
        case Operation::sub:
            code = half ? bits_of(__hsub(in.ha(), in.hb())) : bits_of(__hsub(in.na(), in.nb()));
            break;
        case Operation::mul:
            code = half ? bits_of(__hmul(in.ha(), in.hb())) : bits_of(__hmul(in.na(), in.nb()));
            break;
        case Operation::div:
            code = half ? bits_of(__hdiv(in.ha(), in.hb())) : bits_of(__hdiv(in.na(), in.nb()));
            break;
        default:
            return arithmetic_by_model(row, a, b, c);
    }
    return vary(row, code);
}

#endif

/// Computes the result with the operation of the device. Returns false if the device does not have the operation.
MACHEPS_KERNEL inline bool arithmetic_by_hardware(const ArithmeticRow& row, std::uint64_t a, std::uint64_t b,
                                                  std::uint64_t c, std::uint64_t& result) {
#if !defined(__CUDACC__)
    // Uses the row of the table, because tests pass a changed `row`.
    const ArithmeticRow& own = arithmetic_rows[static_cast<std::size_t>(row.id)];
    result = own.elements == Elements::one ? arithmetic_on_host(own, a, b, c)
                                           : arithmetic_on_host(own, a & 0xffff, b & 0xffff, c & 0xffff) |
                                                 arithmetic_on_host(own, a >> 16, b >> 16, c >> 16) << 16;
    return true;
#else
    const ArithmeticInput in{a, b, c};
    [[maybe_unused]] float f = 0;
    switch (row.id) {
#if __CUDA_ARCH__ >= 800
#define MACHEPS_CASE(id, name, format, operation, mode, variant, elements, codes, call) \
    case Arithmetic::id:                                                                \
        result = bits_of(call);                                                         \
        return true;
        MACHEPS_ARITHMETIC_FUNCTIONS(MACHEPS_CASE)
#undef MACHEPS_CASE
#define MACHEPS_f_f(ptx) asm(ptx " %0, %1;" : "=f"(f) : "f"(in.fa()))
#define MACHEPS_f_ff(ptx) asm(ptx " %0, %1, %2;" : "=f"(f) : "f"(in.fa()), "f"(in.fb()))
#define MACHEPS_f_fff(ptx) asm(ptx " %0, %1, %2, %3;" : "=f"(f) : "f"(in.fa()), "f"(in.fb()), "f"(in.fc()))
#define MACHEPS_CASE(id, name, format, operation, mode, variant, elements, codes, shape) \
    case Arithmetic::id:                                                                 \
        MACHEPS_##shape(name);                                                           \
        result = bits_of(f);                                                             \
        return true;
        MACHEPS_ARITHMETIC_PTX(MACHEPS_CASE)
#undef MACHEPS_CASE
#undef MACHEPS_f_f
#undef MACHEPS_f_ff
#undef MACHEPS_f_fff
#endif
        default:
            result = 0;
            return false;
    }
#endif
}

}  // namespace detail

struct ArithmeticProbe {
    ArithmeticRow row;
    std::uint64_t seed = 1;
    bool fault = false;

    MACHEPS_HD constexpr std::uint64_t inputs() const { return row.inputs(); }

    MACHEPS_KERNEL Trial operator()(std::uint64_t index) const {
        const bool two = row.elements == Elements::two;
        const auto [x, y] = arithmetic_operands(row, seed, index);
        Trial trial;
        trial.a = x.a | y.a << 16;  // y is zero unless the operand is a pair
        trial.b = x.b | y.b << 16;
        trial.c = x.c | y.c << 16;
        trial.offered = detail::arithmetic_by_hardware(row, trial.a, trial.b, trial.c, trial.got);
        trial.want = judge(trial, x, two ? trial.got & 0xffff : trial.got);
        if (two) trial.want |= judge(trial, y, trial.got >> 16) << 16;
        return trial;
    }

  private:
    /// Returns the code that the model gives for one element, and records in `trial` how `got` differs from it.
    MACHEPS_HD std::uint64_t judge(Trial& trial, const Operands& x, std::uint64_t got) const {
        const Format f = row.format;
        trial.kind = max_of(trial.kind, class_of(f, x.a));
        if (row.operands() > 1) trial.kind = max_of(trial.kind, class_of(f, x.b));
        if (row.operands() > 2) trial.kind = max_of(trial.kind, class_of(f, x.c));
        std::uint64_t want = detail::arithmetic_by_model(row, x.a, x.b, x.c);
        if (fault) want ^= 64;  // differs by more codes than any row permits
        if (got == want) return want;
        const bool got_nan = is_nan_code(f, got), want_nan = is_nan_code(f, want);
        if (got_nan && want_nan) {
            trial.nan_code = true;
            return want;
        }
        trial.differs = true;
        if (row.codes == 0) return want;
        const auto distance = got_nan || want_nan ? 1e9f : code_distance(f, got, want);
        trial.error = max_of(trial.error, distance);
        trial.beyond = trial.beyond || (distance > static_cast<float>(row.codes) && within_claim(x));
        return want;
    }

    MACHEPS_HD static float code_distance(Format f, std::uint64_t a, std::uint64_t b) {
        const std::uint64_t mask = f.magnitude_mask();
        const auto place = [&](std::uint64_t code) {
            const auto magnitude = static_cast<std::int64_t>(code & mask);
            return (code & f.sign_bit()) != 0 ? -magnitude : magnitude;
        };
        const std::int64_t d = place(a) - place(b);
        return static_cast<float>(d < 0 ? -d : d);
    }

    /// Returns whether the documented bound of the row applies to these operands. The bound of div.approx applies only
    /// if |b| is from 2^-126 to 2^126 (PTX ISA 9.1). All other bounds apply to every operand.
    MACHEPS_HD bool within_claim(const Operands& x) const {
        if (row.id != Arithmetic::div_approx_f32) return true;
        const std::uint64_t b = x.b & row.format.magnitude_mask();
        return b >= row.format.min_normal_code() && b <= std::uint64_t{253} << 23;
    }
};

}  // namespace macheps::evidence
