// SPDX-License-Identifier: Apache-2.0
// All backends that this computer can run, operands that are hard for them, and a comparison of bits.
#pragma once
#include "core/rng.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "tests/gpu/host_backend.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace macheps::test {

/// Returns a backend for each combination of an available instruction set and a number of threads, and one backend that
/// runs the GPU's kernels on the host. The first backend runs the scalar definition with the first number of threads.
/// The other backends are compared with it.
inline std::vector<std::unique_ptr<Backend>> backends(const std::vector<int>& threads = {1, 2, 3}) {
    std::vector<std::unique_ptr<Backend>> all;
    for (const Simd simd : available_simd()) {
        for (const int count : threads) all.push_back(std::make_unique<CpuBackend>(count, simd));
    }
    all.push_back(host_device_backend());
    return all;
}

inline Tensor uploaded(Backend& backend, const std::vector<float>& values, Shape shape) {
    Tensor tensor = backend.empty(shape);
    backend.upload(values, tensor);
    return tensor;
}
inline TokenTensor uploaded_tokens(Backend& backend, const std::vector<std::int32_t>& values, Shape shape) {
    TokenTensor tensor = backend.empty_tokens(shape);
    backend.upload(values, tensor);
    return tensor;
}
inline std::vector<float> downloaded(Backend& backend, ConstView view) {
    std::vector<float> values(static_cast<std::size_t>(view.count()));
    backend.download(view, values);
    return values;
}

/// Returns the codes and values of the first ten elements whose bits differ, and the number of further differences.
/// Returns an empty string if there are none.
inline std::string differences(const std::vector<float>& actual, const std::vector<float>& expected) {
    if (actual.size() != expected.size()) return fmt::format("{} values, expected {}", actual.size(), expected.size());
    std::string text;
    std::size_t count = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
        const auto a = bit_cast<std::uint32_t>(actual[i]), b = bit_cast<std::uint32_t>(expected[i]);
        if (a == b || ++count > 10) continue;
        text += fmt::format("[{}] {:08x} ({}) expected {:08x} ({})\n", i, a, actual[i], b, expected[i]);
    }
    return count > 10 ? text + fmt::format("and {} more\n", count - 10) : text;
}

enum class Operands {
    plain,     ///< both signs, magnitudes 2^-8 to 2
    wild,      ///< every exponent, zeros of both signs, subnormals; finite
    hostile,   ///< wild, with some NaN and infinities
    all_bits,  ///< any 32 bits
};

inline float operand(Operands kind, std::uint64_t i, std::uint32_t seed) {
    const PhiloxBlock random =
        random_block({.seed = 0x6d616368, .step = seed, .site = static_cast<std::uint32_t>(kind)}, i);
    const std::uint32_t word = random.word[0], choice = random.word[1];
    std::uint32_t code = word;
    if (kind == Operands::plain) code = (word & 0x807fffffu) | (127 - choice % 9) << 23;
    if (kind == Operands::wild || kind == Operands::hostile) {
        if ((word & 0x7f800000u) == 0x7f800000u) code = word & 0xbfffffffu;
        if (choice % 16 == 0) code = word & 0x80000000u;
        if (choice % 16 == 1) code = word & 0x807fffffu;
        if (choice % 16 >= 8) code = (word & 0x807fffffu) | (127 - choice / 16 % 9) << 23;
    }
    // Special values are so rare that most rows of a short tensor stay finite.
    if (kind == Operands::hostile && random.word[2] % 128 == 0) {
        constexpr std::uint32_t specials[] = {0x7f800000u, 0xff800000u, 0x7fc00000u,
                                              0xffc00001u, 0x7f800001u, 0xffbfffffu};
        code = specials[random.word[3] % 6];
    }
    return bit_cast<float>(code);
}

/// Returns `count` operands. Element i depends only on (kind, seed, i). It is drawn once and kept, because tests use
/// the same operands for every engine.
inline std::vector<float> operands(Operands kind, std::int64_t count, std::uint32_t seed) {
    thread_local std::map<std::pair<Operands, std::uint32_t>, std::vector<float>> drawn;
    if (drawn.size() > 64) drawn.clear();
    std::vector<float>& values = drawn[{kind, seed}];
    for (auto i = values.size(); i < static_cast<std::size_t>(count); ++i) values.push_back(operand(kind, i, seed));
    return {values.begin(), values.begin() + count};
}

inline std::vector<std::int32_t> tokens(std::int64_t count, std::int32_t limit, std::uint32_t seed) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] =
            static_cast<std::int32_t>(random_bits({.seed = 1, .step = seed}, i) % static_cast<std::uint32_t>(limit));
    }
    return values;
}

}  // namespace macheps::test
