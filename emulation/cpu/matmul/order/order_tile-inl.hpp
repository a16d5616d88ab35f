// SPDX-License-Identifier: Apache-2.0
// Tiles of the order kernels. A tile computes sums [rows, order_columns] of packed terms and keeps them in registers.
// Included once per SIMD target.
#include "emulation/cpu/matmul/order/order_step-inl.hpp"

#include <utility>

#if defined(MACHEPS_ORDER_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_ORDER_TILE_INL
#undef MACHEPS_ORDER_TILE_INL
#else
#define MACHEPS_ORDER_TILE_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

inline constexpr std::int64_t order_columns = 2 * lanes_of_vector;

/// Sets flush-to-zero and denormals-are-zero in MXCSR for the lifetime of the object, if `flushes` is true. The
/// functions that compute tiles are not inlined, because within one function a compiler may move arithmetic across a
/// change of MXCSR.
class FlushMode {
  public:
    explicit FlushMode(bool flushes) : before_(_mm_getcsr()) {
        if (flushes) _mm_setcsr(before_ | 0x8040u);
    }
    ~FlushMode() { _mm_setcsr(before_); }
    FlushMode(const FlushMode&) = delete;
    FlushMode& operator=(const FlushMode&) = delete;

  private:
    unsigned before_;
};

/// Function that adds the terms [0, n) of a few rows of a and of a panel of b to `sums`. Pairwise and exact sums begin
/// with +0 and ignore the previous values of `sums`.
using OrderTile = void (*)(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums);

template <class Step, int... i>
HWY_INLINE void run_steps(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums,
                          std::integer_sequence<int, i...>) {
    Step chain[] = {Step{load(sums + i / 2 * order_columns + i % 2 * lanes_of_vector)}...};
    for (std::int64_t p = 0; p < n; p += Step::terms, a += Step::terms, b += Step::terms * order_columns) {
        ((chain[i].step(a + i / 2 * a_row, b + i % 2 * lanes_of_vector, order_columns)), ...);
    }
    ((store(chain[i].value(), sums + i / 2 * order_columns + i % 2 * lanes_of_vector)), ...);
}

template <class Step, int rows>
HWY_NOINLINE void order_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums) {
    run_steps<Step>(a, a_row, b, n, sums, std::make_integer_sequence<int, 2 * rows>());
}

/// Computes the machine fp32.pairwise. A leaf of its summation tree is the sum of eight products. A stack holds the
/// sums of the complete subtrees that are not combined yet.
template <int rows>
HWY_NOINLINE void pairwise_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums) {
    constexpr int most = 64;
    for (int r = 0; r < rows; ++r) {
        for (std::int64_t v = 0; v < order_columns; v += lanes_of_vector) {
            const float *x = a + r * a_row, *y = b + v;
            alignas(64) float stack[most * f32_lanes];
            int depth = 0;
            const auto level = [&](int d) { return stack + d * static_cast<int>(f32_lanes); };
            const auto product = [&](std::int64_t p) HWY_ATTR { return F32(x[p]) * load(y + p * order_columns); };
            const auto push = [&](F32 sum, std::int64_t count) HWY_ATTR {
                for (; (count & 1) == 0; count >>= 1, --depth) sum = load(level(depth - 1)) + sum;
                store(sum, level(depth++));
            };
            std::int64_t p = 0;
            for (; p + 8 <= n; p += 8) {
                const F32 low = (product(p) + product(p + 1)) + (product(p + 2) + product(p + 3));
                const F32 high = (product(p + 4) + product(p + 5)) + (product(p + 6) + product(p + 7));
                push(low + high, p / 8 + 1);
            }
            for (std::int64_t count = 1; p < n; ++p, ++count) push(product(p), count);
            F32 sum;
            if (depth > 0) sum = load(level(depth - 1));
            for (int d = depth - 2; d >= 0; --d) sum = load(level(d)) + sum;
            store(sum, sums + r * order_columns + v);
        }
    }
}

// --- odd pairs

#if HWY_TARGET == HWY_AVX3
/// Returns x + y rounded to odd, except that an overflow gives the largest finite number.
HWY_INLINE F32 odd_add(F32 x, F32 y) {
    return odd_neighbour(_mm512_add_round_ps(x.v.raw, y.v.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC),
                         _mm512_add_round_ps(x.v.raw, y.v.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
}

/// Adds terms [0, n) to `sums`. Returns false, with `sums` unchanged, if a sum may have overflowed.
template <int... i>
HWY_NOINLINE bool odd_pairs_flushed(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums,
                                    std::integer_sequence<int, i...>) {
    constexpr int largest_magnitude = 0b1011;
    F32 sum[] = {load(sums + i / 2 * order_columns + i % 2 * lanes_of_vector)...};
    __m512 largest = _mm512_setzero_ps();
    for (std::int64_t p = 0; p < n; p += 2, a += 2, b += 2 * order_columns) {
        const auto step = [&](const float* x, const float* y, F32& s) HWY_ATTR {
            const F32 pair = odd_add(F32(x[0]) * load(y), F32(x[1]) * load(y + order_columns));
            s = odd_add(s, pair);
            largest =
                _mm512_range_ps(_mm512_range_ps(largest, pair.v.raw, largest_magnitude), s.v.raw, largest_magnitude);
        };
        (step(a + i / 2 * a_row, b + i % 2 * lanes_of_vector, sum[i]), ...);
    }
    if (_mm512_cmp_ps_mask(largest, _mm512_set1_ps(0x1.fffffep127f), _CMP_LT_OQ) != 0xffff) return false;
    ((store(sum[i], sums + i / 2 * order_columns + i % 2 * lanes_of_vector)), ...);
    return true;
}
#endif

/// Computes BFDOT. On AVX-512, each instruction can have its own rounding direction. The code there rounds a sum both
/// down and up. If the two numbers differ, the sum rounded to odd is the number whose last bit is set.
template <int rows>
HWY_NOINLINE void odd_pairs_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums) {
#if HWY_TARGET == HWY_AVX3
    {
        const FlushMode mode(true);
        if (odd_pairs_flushed(a, a_row, b, n, sums, std::make_integer_sequence<int, 2 * rows>())) return;
    }
#endif
    constexpr int first = rows < 2 ? rows : 2;
    order_tile<OddPairsOrder, first>(a, a_row, b, n, sums);
    if constexpr (rows > first) {
        order_tile<OddPairsOrder, rows - first>(a + first * a_row, a_row, b, n, sums + first * order_columns);
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
