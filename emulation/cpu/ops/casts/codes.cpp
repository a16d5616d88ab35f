// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/ops/casts/codes.hpp"

#include "core/error.hpp"
#include "emulation/cpu/ops/casts/codes_kernel.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <type_traits>

namespace macheps {
namespace {

constexpr std::int64_t block = 1 << 16, stretch = 1024;  ///< elements per task and per pass (a pass fits in L1)

template <class Code>
void require_room(Format f) {
    if (f.container_bits() <= static_cast<int>(8 * sizeof(Code))) return;
    throw Error({.what = "codes of " + std::to_string(f.container_bits()) + " bits do not fit in integers of " +
                         std::to_string(8 * sizeof(Code)),
                 .where = "encode_array or decode_array",
                 .fix = "use a wider integer type",
                 .exit = Exit::usage});
}

/// Converts numbers on the format's grid to codes and back without branches, for loops that a compiler vectorises.
struct GridCodec {
    explicit GridCodec(const CastPlan& plan)
        : f(plan.cast.format),
          ready((plan.path == CastPlan::Path::wide || plan.path == CastPlan::Path::narrow) &&
                f.encoding == Encoding::binary && f.exponent_bias >= 0),
          drop(plan.drop),
          max_code(static_cast<std::uint32_t>(f.max_finite_code())),
          nan(static_cast<std::uint32_t>(f.nan_code())),
          overflow(static_cast<std::uint32_t>(f.overflow_code())),
          sign_bit(static_cast<std::uint32_t>(f.sign_bit())),
          nan_sign(f.specials == Specials::fnuz ? 0 : sign_bit),
          magnitude_mask(static_cast<std::uint32_t>(f.magnitude_mask())),
          emin_bits(static_cast<std::uint32_t>(plan.emin_bits)),
          rebias((static_cast<std::uint32_t>(plan.emin_bits >> 23) - 1) << f.fraction_bits()) {
        if (!ready) return;
        per_quantum = static_cast<float>(Format::power_of_two(std::min(127, f.fraction_bits() - f.emin())));
        raise = static_cast<float>(Format::power_of_two(127 - f.exponent_bias));
    }

    std::uint32_t encode(float x) const {
        const auto u = bit_cast<std::uint32_t>(x), m = u & 0x7fffffffu, sign = u >> 31 != 0 ? sign_bit : 0;
        // A subnormal is a small multiple of the quantum. If the format's subnormals are subnormal in fp32 too (emin
        // -126), their low bits are simply dropped.
        const float quanta = m < emin_bits ? bit_cast<float>(m) * per_quantum : 0.0f;
        const std::uint32_t finite = m < emin_bits && rebias != 0
                                         ? static_cast<std::uint32_t>(static_cast<std::int32_t>(quanta))
                                         : (m >> drop) - rebias;
        const std::uint32_t special = m > 0x7f800000u ? nan | (sign & nan_sign) : overflow | sign;
        return m >= 0x7f800000u ? special : finite | sign;
    }

    float decode(std::uint32_t code) const {
        const std::uint32_t m = code & magnitude_mask, sign = (code & sign_bit) != 0 ? 0x80000000u : 0;
        const auto finite = bit_cast<std::uint32_t>(bit_cast<float>(m << drop) * raise);  // exact, also for subnormals
        const bool fnuz_nan = nan_sign == 0 && (code & (magnitude_mask | sign_bit)) == sign_bit;
        const std::uint32_t special = overflow != nan && m == overflow ? 0x7f800000u : 0x7fc00000u;
        return bit_cast<float>(fnuz_nan ? 0x7fc00000u : (m > max_code ? special : finite) | sign);
    }

    Format f;
    bool ready;
    int drop;
    std::uint32_t max_code, nan, overflow, sign_bit, nan_sign, magnitude_mask, emin_bits, rebias;
    float per_quantum = 1, raise = 1;
};

}  // namespace

template <class Code>
void encode_array(Simd simd, ThreadPool& pool, const float* in, Code* codes, std::int64_t n, const Cast& cast,
                  Tally* tally, std::int64_t first_element) {
    const Format f = cast.format;
    require_room<Code>(f);
    const Caster caster(simd, cast);
    const CastPlan plan(cast);
    const GridCodec codec{plan};
    const CastPlan grid({.format = f});
    const CodeKernels* kernels = code_kernels(simd);
    const bool bytes = kernels != nullptr && grid.path == CastPlan::Path::narrow && f.encoding == Encoding::binary &&
                       f.container_bits() <= 8;
    if constexpr (std::is_same_v<Code, std::uint8_t>) {
        if (bytes && tally == nullptr && plan.path == grid.path && cast.round == Round::nearest_even) {
            return pool.run((n + block - 1) / block, [&](std::int64_t b) {
                kernels->encode_bytes(plan, in + b * block, codes + b * block, std::min(block, n - b * block));
            });
        }
    }
    const bool words = kernels != nullptr && (f == fp16 || f == bf16);
    const auto by_vectors = [&]([[maybe_unused]] const float* value, [[maybe_unused]] Code* out,
                                [[maybe_unused]] std::int64_t count) {
        if constexpr (std::is_same_v<Code, std::uint8_t>) {
            if (bytes) return kernels->encode_bytes(grid, value, out, count), true;
        }
        if constexpr (std::is_same_v<Code, std::uint16_t>) {
            if (words) return kernels->encode_words(f == fp16, value, out, count), true;
        }
        return false;
    };
    std::mutex adding;
    pool.run((n + block - 1) / block, [&](std::int64_t b) {
        std::array<float, stretch> value;
        Tally part;
        for (std::int64_t i = b * block, end = std::min(n, i + block); i < end; i += stretch) {
            const std::int64_t count = std::min(stretch, end - i);
            caster(in + i, value.data(), count, tally != nullptr ? &part : nullptr,
                   static_cast<std::uint64_t>(first_element + i));
            Code* out = codes + i;
            if (by_vectors(value.data(), out, count)) continue;
            if (codec.ready) {
                for (std::int64_t j = 0; j < count; ++j) {
                    out[j] = static_cast<Code>(codec.encode(value[static_cast<std::size_t>(j)]) << f.padding);
                }
            } else {
                for (std::int64_t j = 0; j < count; ++j) {
                    out[j] = static_cast<Code>(
                        encode(f, value[static_cast<std::size_t>(j)], Round::nearest_even, Overflow::nonsaturate));
                }
            }
        }
        if (tally != nullptr) {
            const std::lock_guard lock(adding);
            *tally += part;
        }
    });
}

template <class Code>
void decode_array(Simd simd, ThreadPool& pool, Format f, const Code* codes, float* out, std::int64_t n) {
    require_room<Code>(f);
    const GridCodec codec{CastPlan({.format = f})};
    const CodeKernels* kernels = code_kernels(simd);
    std::array<float, 256> table{};
    const bool by_table = f.container_bits() <= 8 && n >= 256;
    for (std::size_t code = 0; by_table && code < table.size(); ++code) table[code] = decode(f, code);
    if constexpr (std::is_same_v<Code, std::uint8_t>) {
        if (kernels != nullptr && by_table) {
            // For every named format of at most 8 bits, the low halves of the fp32 values are zero. For a format with
            // an unusual range, they may be nonzero.
            std::array<std::uint16_t, 256> high{};
            bool fits = true;
            for (std::size_t code = 0; code < high.size(); ++code) {
                const auto value = bit_cast<std::uint32_t>(table[code]);
                high[code] = static_cast<std::uint16_t>(value >> 16);
                fits = fits && (value & 0xffff) == 0;
            }
            if (fits)
                return pool.run((n + block - 1) / block, [&](std::int64_t b) {
                    kernels->decode_bytes(high.data(), f.bits, codes + b * block, out + b * block,
                                          std::min(block, n - b * block));
                });
        }
    }
    if constexpr (std::is_same_v<Code, std::uint16_t>) {
        if (kernels != nullptr && (f == fp16 || f == bf16)) {
            return pool.run((n + block - 1) / block, [&](std::int64_t b) {
                kernels->decode_words(f == fp16, codes + b * block, out + b * block, std::min(block, n - b * block));
            });
        }
    }
    pool.run((n + block - 1) / block, [&](std::int64_t b) {
        const std::int64_t first = b * block, end = std::min(n, first + block);
        if (by_table) {
            for (std::int64_t i = first; i < end; ++i) out[i] = table[codes[i] & 0xff];
        } else if (codec.ready) {
            for (std::int64_t i = first; i < end; ++i)
                out[i] = codec.decode(static_cast<std::uint32_t>(codes[i]) >> f.padding);
        } else {
            for (std::int64_t i = first; i < end; ++i) out[i] = decode(f, codes[i]);
        }
    });
}

template void encode_array(Simd, ThreadPool&, const float*, std::uint8_t*, std::int64_t, const Cast&, Tally*,
                           std::int64_t);
template void encode_array(Simd, ThreadPool&, const float*, std::uint16_t*, std::int64_t, const Cast&, Tally*,
                           std::int64_t);
template void encode_array(Simd, ThreadPool&, const float*, std::uint32_t*, std::int64_t, const Cast&, Tally*,
                           std::int64_t);
template void decode_array(Simd, ThreadPool&, Format, const std::uint8_t*, float*, std::int64_t);
template void decode_array(Simd, ThreadPool&, Format, const std::uint16_t*, float*, std::int64_t);
template void decode_array(Simd, ThreadPool&, Format, const std::uint32_t*, float*, std::int64_t);

}  // namespace macheps
