// SPDX-License-Identifier: Apache-2.0
// A fuzz target is one function of bytes. libFuzzer calls it, and so does replay.cpp, which runs the committed corpus
// in every build. A target returns if the bytes are handled correctly, which includes an Error, and aborts otherwise.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace macheps::fuzz {

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

/// Prints `sentence` and aborts unless `holds`.
inline void require(bool holds, const std::string& sentence) {
    if (holds) return;
    std::fprintf(stderr, "fuzz: %s\n", sentence.c_str());
    std::abort();
}

/// Takes values from the front of an input, and zeros when the input is used up.
class Bytes {
  public:
    Bytes(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

    template <class T>
    T take() {
        T value{};
        const std::size_t n = rest_.size() < sizeof(T) ? rest_.size() : sizeof(T);
        if (n > 0) std::memcpy(&value, rest_.data(), n);
        rest_ = rest_.subspan(n);
        return value;
    }
    /// Returns a number from 0 to limit - 1.
    int below(int limit) { return take<std::uint8_t>() % limit; }
    std::size_t left() const { return rest_.size(); }

  private:
    std::span<const std::uint8_t> rest_;
};

}  // namespace macheps::fuzz
