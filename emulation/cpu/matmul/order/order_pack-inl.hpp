// SPDX-License-Identifier: Apache-2.0
// Packs the operands of the order kernels. The terms are in the order in which the chain adds them. Each block of k is
// padded with zeros to a multiple of the instruction's k. Included once per SIMD target.
#include "emulation/cpu/matmul/order/order_tile-inl.hpp"
#include "emulation/matmul/matmul.hpp"

#include <algorithm>
#include <vector>

#if !defined(MACHEPS_ORDER_BLOCK)
#define MACHEPS_ORDER_BLOCK
namespace macheps {

/// A block of k: the packed terms [begin, end), which are summed separately.
struct OrderBlock {
    std::int64_t begin, end;
};

/// The order of the packed terms of a matmul. source[i] is the index along k of packed term i, or -1 for padding with
/// +0.
struct OrderTerms {
    std::vector<std::int64_t> source;
    std::vector<OrderBlock> blocks;

    explicit OrderTerms(const Matmul& args) {
        const Machine& machine = *args.rule.machine;
        const bool odd_first = machine.sum.order == ProductOrder::odd_first;
        for (std::int64_t p = 0; p < args.k;) {
            const std::int64_t end = p + args.rule.blocks.length(args.k, args.k - p), length = end - p;
            const std::int64_t padded = (length + machine.k - 1) / machine.k * machine.k;
            const auto begin = static_cast<std::int64_t>(source.size());
            for (std::int64_t i = 0; i < padded; ++i) {
                const std::int64_t term = odd_first ? i ^ 1 : i;
                source.push_back(term < length ? p + term : -1);
            }
            blocks.push_back({begin, begin + padded});
            p = end;
        }
    }
    std::int64_t size() const { return static_cast<std::int64_t>(source.size()); }
};

}  // namespace macheps
#endif

#if defined(MACHEPS_ORDER_PACK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_ORDER_PACK_INL
#undef MACHEPS_ORDER_PACK_INL
#else
#define MACHEPS_ORDER_PACK_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Reads operands as factor_of_value() does: truncates each value to the grid of the format and makes every NaN
/// canonical. If `flushes`, numbers that are subnormal in fp32 are read as zeros.
class GridReader {
  public:
    GridReader(const Format& format, bool cuts, bool flushes)
        : emin_(format.emin()),
          drop_(24 - format.precision),
          padding_(format.padding),
          cuts_(cuts && drop_ > 0),
          flushes_(flushes) {}
    HWY_INLINE F32 operator()(F32 x) const { return flushes_ ? flushed(on_grid(x)) : on_grid(x); }

  private:
    HWY_INLINE F32 on_grid(F32 x) const {
        if (!cuts_) return canonical(x);
        const I32 field = shift_right_logical(bits(x), 23) & I32(255);
        const I32 exponent = I32(hn::Max(field.v, I32(1).v)) - I32(127);
        const I32 clamped(hn::Max(exponent.v, I32(emin_).v));
        const I32 count(hn::Min((clamped - exponent + I32(drop_)).v, I32(31).v));
        const F32 cut = from_bits(bits(x) & I32(hn::Shl(I32(-1).v, count.v)));
        const F32 whole = from_bits(bits(x) & I32(-(1 << padding_)));
        // If 24 or more bits are cut off, only the sign remains, so the value is a zero.
        const F32 number = select(count > I32(23), from_bits(bits(x) & I32(-0x7fffffff - 1)), cut);
        return canonical(select(field == I32(255), whole, number));
    }

    int emin_, drop_, padding_;
    bool cuts_, flushes_;
};

/// View of an operand with elements (outer, p), where outer is a row of a or a column of b.
struct OuterView {
    const float* data;
    std::int64_t outer_step, k_step;
};

struct OrderScratch {
    std::vector<float> a, b, raw;
    std::vector<float> a_scales, b_scales;
};

/// Packs rows of a into scratch.a [rows, terms].
inline void pack_rows(const OuterView& x, std::int64_t first, std::int64_t rows, const OrderTerms& terms,
                      const GridReader& read, OrderScratch& scratch) {
    const std::int64_t size = terms.size(), spare = lanes_of_vector;
    scratch.a.resize(static_cast<std::size_t>(rows * size + spare));
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* row = x.data + (first + r) * x.outer_step;
        float* out = scratch.a.data() + r * size;
        for (std::int64_t i = 0; i < size; ++i) {
            const std::int64_t p = terms.source[static_cast<std::size_t>(i)];
            out[i] = p < 0 ? 0.0f : row[p * x.k_step];
        }
        for (std::int64_t i = 0; i < size; i += lanes_of_vector) {
            const auto count = static_cast<std::size_t>(min_of(lanes_of_vector, size - i));
            store_n(read(load_n(out + i, count)), out + i, count);
        }
    }
}

/// Multiplies columns of b by `scale`, a power of two, and packs them into scratch.b [terms, order_columns]. Unused
/// columns are +0.
inline void pack_columns(const OuterView& x, std::int64_t first, std::int64_t columns, const OrderTerms& terms,
                         const GridReader& read, float scale, OrderScratch& scratch) {
    const std::int64_t size = terms.size();
    scratch.b.resize(static_cast<std::size_t>(size * order_columns));
    for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t p = terms.source[static_cast<std::size_t>(i)];
        float* out = scratch.b.data() + i * order_columns;
        const float* from = p < 0 ? nullptr : x.data + p * x.k_step + first * x.outer_step;
        if (from == nullptr || columns < order_columns) std::fill_n(out, order_columns, 0.0f);
        if (from == nullptr) continue;
        if (x.outer_step == 1 && columns == order_columns) {
            for (std::int64_t j = 0; j < order_columns; j += lanes_of_vector)
                store(read(load(from + j)) * F32(scale), out + j);
            continue;
        }
        if (x.outer_step == 1) {
            std::copy_n(from, columns, out);
        } else {
            for (std::int64_t j = 0; j < columns; ++j) out[j] = from[j * x.outer_step];
        }
        for (std::int64_t j = 0; j < order_columns; j += lanes_of_vector) {
            store(read(load(out + j)) * F32(scale), out + j);
        }
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
