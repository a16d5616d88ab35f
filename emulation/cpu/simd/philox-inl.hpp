// SPDX-License-Identifier: Apache-2.0
// Computes the random stream of core/rng.hpp, several vectors at a time. Included once per SIMD target.
#include "core/rng.hpp"
#include "emulation/cpu/simd/vec-inl.hpp"

#if defined(MACHEPS_PHILOX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_PHILOX_INL
#undef MACHEPS_PHILOX_INL
#else
#define MACHEPS_PHILOX_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Element i of the stream is word i & 3 of block i >> 2. A vector of n 64-bit lanes holds one word of each of n
/// blocks. The word is in the low half of its lane, which the multiplication reads. The high half may hold other bits,
/// which are ignored.
class Philox {
  public:
    HWY_INLINE Philox(RngKey key, std::uint64_t first_block)
        : step_(hn::Set(d64, key.step)), site_(hn::Set(d64, key.site)) {
        // The lanes hold the blocks in the order [0 4 1 5 2 6 3 7] (for eight lanes). next() interleaves the words
        // within each 128 bits of a vector, and this order makes the interleaved elements ascend.
        HWY_ALIGN std::uint64_t block[blocks];
        for (std::size_t i = 0; i < blocks; ++i) block[i] = first_block + i / 2 + (i % 2) * (blocks / 2);
        counter_ = hn::Load(d64, block);
        std::uint32_t key0 = static_cast<std::uint32_t>(key.seed), key1 = static_cast<std::uint32_t>(key.seed >> 32);
        for (int round = 0; round < rounds; ++round, key0 += 0x9e3779b9u, key1 += 0xbb67ae85u) {
            key0_[round] = key0;
            key1_[round] = key1;
        }
    }

    /// Number of elements that next() computes in one draw.
    static constexpr std::int64_t draw = 2 * static_cast<std::int64_t>(f32_lanes);
    /// Number of draws that are computed at the same time, limited by the number of registers. A single draw would be
    /// slow, because each of its rounds has to wait for the previous round.
    static constexpr int chains = HWY_TARGET == HWY_AVX3 ? 4 : 2;

    /// Writes the bits of the next `count` draws to `out`, which must be aligned.
    template <int count>
    HWY_INLINE void next(std::uint32_t* out) {
        const V multiplier0 = hn::Set(d64, 0xd2511f53u), multiplier1 = hn::Set(d64, 0xcd9e8d57u);
        V x0[count], x1[count], x2[count], x3[count];
        for (int c = 0; c < count; ++c) {
            x0[c] = counter_;
            x1[c] = hn::ShiftRight<32>(counter_);
            x2[c] = step_;
            x3[c] = site_;
            counter_ = hn::Add(counter_, hn::Set(d64, blocks));
        }
        for (int round = 0; round < rounds; ++round) {
            const V key0 = hn::Set(d64, key0_[round]), key1 = hn::Set(d64, key1_[round]);
            for (int c = 0; c < count; ++c) {
                const V product0 = multiply_low(x0[c], multiplier0), product1 = multiply_low(x2[c], multiplier1);
                x0[c] = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), x1[c]), key0);
                x2[c] = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), x3[c]), key1);
                x1[c] = product1;
                x3[c] = product0;
            }
        }
        for (int c = 0; c < count; ++c) {
            const V words01 = pair(x0[c], x1[c]), words23 = pair(x2[c], x3[c]);
            const DU32 du;
            hn::Store(hn::BitCast(du, hn::InterleaveLower(d64, words01, words23)), du, out + c * draw);
            hn::Store(hn::BitCast(du, hn::InterleaveUpper(d64, words01, words23)), du, out + c * draw + draw / 2);
        }
    }

  private:
    using D64 = hn::ScalableTag<std::uint64_t>;
    using V = hn::Vec<D64>;
    static constexpr D64 d64{};
    static constexpr std::size_t blocks = f64_lanes;
    static constexpr int rounds = 10;

    static HWY_INLINE V multiply_low(V a, V b) { return hn::MulEven(hn::BitCast(DU32(), a), hn::BitCast(DU32(), b)); }

    /// Returns lanes whose low half is the low half of `low` and whose high half is the low half of `high`.
    static HWY_INLINE V pair(V low, V high) {
        const auto raised = hn::BitCast(DU32(), hn::ShiftLeft<32>(high));
        return hn::BitCast(d64, hn::OddEven(raised, hn::BitCast(DU32(), low)));
    }

    V counter_, step_, site_;
    std::uint64_t key0_[rounds], key1_[rounds];
};

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
