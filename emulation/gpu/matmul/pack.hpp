// SPDX-License-Identifier: Apache-2.0
// Packs the operands of a matmul for the kernels that use or emulate matrix units. A packed operand is an array of
// codes of the operand's format, or of other words that the kernel reads. The elements are contiguous along k. Every
// slice of k is padded with +0 to whole tiles. Every matrix is padded to whole tiles of rows.
#pragma once
#include "emulation/gpu/matmul/chain.hpp"

#include <memory>

namespace macheps::gpu {

/// Allocator of device memory for one operation, for callers without a DeviceMemory.
template <class Device>
class PlainMemory {
  public:
    explicit PlainMemory(Device& device) : device_(device) {}
    std::shared_ptr<void> take(std::size_t bytes) {
        Device& device = device_;
        return {device.allocate(bytes), [&device](void* memory) { device.release(memory); }};
    }

  private:
    Device& device_;
};

/// Layout of k in packed operands: one slice after the other.
struct PackedDepth {
    std::int64_t slices = 1;
    std::int64_t length = 0;  ///< terms per slice; the last slices may have fewer
    std::int64_t padded = 0;  ///< positions per slice: terms, then padding

    MACHEPS_HD std::int64_t first(std::int64_t slice, std::int64_t k) const { return min_of(slice * length, k); }
    MACHEPS_HD std::int64_t terms(std::int64_t slice, std::int64_t k) const {
        return min_of(length, k - first(slice, k));
    }
    /// Returns the index of the term at a position along the packed k, or -1 if the position is padding.
    MACHEPS_HD std::int64_t source(std::int64_t place, std::int64_t k) const {
        const std::int64_t slice = place / padded, within = place % padded;
        return within < terms(slice, k) ? first(slice, k) + within : -1;
    }
};

/// Returns the layout for a kernel that reads `tile` terms at a time into shared memory.
inline PackedDepth packed_depth(const Matmul& args, std::int64_t tile) {
    const std::int64_t slices = max_of(args.rule.slices, 1);
    const std::int64_t length = slices == 1 ? args.k : definition::slice_length(args.rule, args.k);
    return {slices, length, max_of((length + tile - 1) / tile * tile, tile)};
}

/// Packing of one operand: the encoding and the destination.
template <class Encode>
struct PackedOperand {
    Encode encode{};
    bool is_a = false;
    std::int64_t outer_padded = 0;
    typename Encode::Word* words = nullptr;  ///< [matrix][outer_padded][slices * padded / per_word]
};

template <class Encode>
struct PackKernel {
    static constexpr int threads = 256, blocks_per_processor = 4;
    static constexpr int outer = 64, depth = 64, stride = depth + 1;
    MatmulJob job;
    PackedDepth packed;
    PackedOperand<Encode> a, b;
    std::int64_t a_blocks = 0;  ///< the first `a_blocks` blocks along x pack a, and the other blocks pack b

    MACHEPS_KERNEL void operator()(const Block& block) const {
        const bool packs_a = block.x() < a_blocks;
        const PackedOperand<Encode>& to = packs_a ? a : b;
        const std::int64_t row = (packs_a ? block.x() : block.x() - a_blocks) * outer;
        const std::int64_t width = packed.slices * packed.padded;
        auto* const tile = reinterpret_cast<float*>(block.shared());
        for (std::int64_t matrix = block.z(); matrix < job.matrices(); matrix += 65535) {
            const OuterMajor from = packs_a ? rows_of_a(job, matrix) : columns_of_b(job, matrix);
            for (std::int64_t place = std::int64_t{block.y()} * depth; place < width; place += 65535 * depth) {
                block.each([&](int thread) {
                    for (int at = thread; at < outer * depth; at += threads) {
                        const bool along = from.outer_is_contiguous();
                        const int o = along ? at % outer : at / depth, p = along ? at / outer : at % depth;
                        const std::int64_t term = place + p < width ? packed.source(place + p, job.args.k) : -1;
                        tile[o * stride + p] = term < 0 ? 0.0f : from.at(row + o, term);
                    }
                });
                block.each([&](int thread) {
                    constexpr int per_word = Encode::per_word, words = depth / per_word;
                    for (int at = thread; at < outer * words; at += threads) {
                        const int o = at / words, p = at % words * per_word;
                        if (row + o >= to.outer_padded || place + p >= width) continue;
                        const std::int64_t line = matrix * to.outer_padded + row + o;
                        const std::int64_t term = packed.source(place + p, job.args.k);
                        to.words[(line * width + place + p) / per_word] = to.encode(
                            tile + o * stride + p, {.outer = row + o, .term = term, .line = line, .is_a = to.is_a});
                    }
                });
            }
        }
    }
};

/// Position of the first element of a word. It is passed to the function that encodes the word.
struct PackedPlace {
    std::int64_t outer = 0, term = 0;  ///< indices in the operand; term is -1 in the padding
    std::int64_t line = 0;             ///< matrix * outer_padded + outer
    bool is_a = false;
};

template <class Device, class Encode>
void pack(Device& device, const MatmulJob& job, const PackedDepth& packed, const PackedOperand<Encode>& a,
          const PackedOperand<Encode>& b) {
    using Kernel = PackKernel<Encode>;
    const auto blocks = [](std::int64_t count, int tile) { return (count + tile - 1) / tile; };
    const std::int64_t a_blocks = blocks(a.outer_padded, Kernel::outer);
    const std::int64_t down = blocks(packed.slices * packed.padded, Kernel::depth);
    device.blocks({.x = a_blocks + blocks(b.outer_padded, Kernel::outer),
                   .y = static_cast<int>(min_of(down, std::int64_t{65535})),
                   .z = static_cast<int>(min_of(job.matrices(), std::int64_t{65535})),
                   .threads = Kernel::threads,
                   .shared_bytes = sizeof(float) * Kernel::outer * Kernel::stride},
                  Kernel{job, packed, a, b, a_blocks});
}

/// Returns the code of x in `format`. factor_of_value cuts off the bits of x that the format cannot hold.
MACHEPS_HD inline std::uint32_t operand_code(const Format& format, float x) {
    const Factor f = factor_of_value(format, x);
    const auto sign = static_cast<std::uint32_t>(f.negative ? format.sign_bit() : 0);
    std::uint32_t code;
    if (f.is_nan()) {
        code = static_cast<std::uint32_t>(format.nan_code());
    } else if (f.is_infinite()) {
        code = static_cast<std::uint32_t>(format.overflow_code());
    } else {
        // The leading one of a normal significand adds 1 to the exponent field.
        code = static_cast<std::uint32_t>(f.significand) +
               (static_cast<std::uint32_t>(f.exponent - format.emin()) << format.fraction_bits());
        code = min_of(code, static_cast<std::uint32_t>(format.overflow_code()));
    }
    return (sign | code) << format.padding;
}

/// Encodes numbers as codes of `bytes` bytes, and packs the codes into words of four bytes.
template <int bytes>
struct EncodeCodes {
    using Word = std::uint32_t;
    static constexpr int per_word = 4 / bytes;
    Format format = {.bits = 8, .precision = 4, .exponent_bias = 7};

    MACHEPS_HD Word operator()(const float* x, const PackedPlace&) const {
        Word word = 0;
        MACHEPS_UNROLL
        for (int i = 0; i < per_word; ++i) word |= operand_code(format, x[i]) << (i * 8 * bytes % 32);
        return word;
    }
};

}  // namespace macheps::gpu
