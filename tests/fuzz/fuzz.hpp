// SPDX-License-Identifier: Apache-2.0
// A fuzz target is one function over bytes. libFuzzer calls it, and so does replay.cpp, which runs the committed corpus
// in every build. A target returns when the bytes are handled rightly, an Error included, and aborts when they are not.
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

/// Aborts, with a sentence, unless `holds`.
inline void require(bool holds, const std::string& sentence) {
    if (holds) return;
    std::fprintf(stderr, "fuzz: %s\n", sentence.c_str());
    std::abort();
}

/// Takes values off the front of an input; zeros when it has run out.
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
    /// 0 .. limit - 1.
    int below(int limit) { return take<std::uint8_t>() % limit; }
    std::size_t left() const { return rest_.size(); }

  private:
    std::span<const std::uint8_t> rest_;
};

}  // namespace macheps::fuzz
