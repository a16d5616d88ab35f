// SPDX-License-Identifier: Apache-2.0
// Reads the shared test vectors of scale rules (recipe_vectors.jsonl) and compares results with them. The vectors were
// computed by a reference that was written from the specification alone.
#pragma once
#include "core/codec.hpp"
#include "core/ulp.hpp"
#include "tests/json.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace macheps::test {

using nlohmann::json;

/// Parses hexadecimal numbers of `digits` digits each, without separators. The element for `nn` or `**` in place of a
/// number is nullopt.
inline std::vector<std::optional<std::uint32_t>> words_of(const std::string& text, std::size_t digits) {
    std::vector<std::optional<std::uint32_t>> list;
    for (std::size_t at = 0; at < text.size(); at += digits) {
        std::uint32_t word = 0;
        const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + digits, word, 16);
        list.push_back(error == std::errc{} && end == text.data() + at + digits ? std::optional(word) : std::nullopt);
    }
    return list;
}

inline std::vector<float> floats_of(const std::string& text) {
    std::vector<float> list;
    for (const auto& word : words_of(text, 8)) list.push_back(bit_cast<float>(word.value()));
    return list;
}

inline bool same(float a, float b) {
    return bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}
inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) { return same(x, y); });
}

/// Returns whether codes equal the expected ones, in which `nn` is any NaN and `**` is any code.
inline bool same_codes(const Format& format, const std::vector<std::uint32_t>& codes, const std::string& expected) {
    const auto words = words_of(expected, 2);
    if (words.size() != codes.size()) return false;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const bool is_nan_word = expected[2 * i] == 'n';
        if (words[i] ? codes[i] != *words[i] : is_nan_word && !is_nan(format, codes[i])) return false;
    }
    return true;
}

inline std::vector<json> lines_of_kind(const std::filesystem::path& file, const std::string& kind) {
    std::vector<json> list;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        json one = json::parse(line);
        if (one.at("kind") == kind) list.push_back(std::move(one));
    }
    return list;
}

inline std::filesystem::path vectors() {
    const std::filesystem::path shared = test::shared_folder();
    return shared.empty() ? shared : shared / "vectors/recipe_vectors.jsonl";
}

}  // namespace macheps::test
