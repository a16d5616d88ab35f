// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/data/data.hpp"
#include "core/error.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

namespace data_test {

using namespace macheps;
using namespace macheps::training;

TEST_CASE("the probabilities of the synthetic language sum to one and give its entropy", "[experiments][data]") {
    for (const std::int64_t vocabulary : {9, 64, 100}) {
        const SyntheticLanguage language(vocabulary);
        for (const bool announces : {false, true}) {
            for (const auto& [second, last] : {std::pair{1, 1}, {0, 5}, {8, 0}, {3, 7}}) {
                CAPTURE(vocabulary, announces, second, last);
                double sum = 0, entropy = 0;
                for (std::int32_t next = 0; next < vocabulary; ++next) {
                    const double p = language.probability(second, last, announces, next);
                    REQUIRE(p >= 0);
                    sum += p;
                    if (p > 0) entropy -= p * std::log(p);
                }
                // Probabilities are multiples of 2^-36. A sum of n probabilities has an error of at most n u.
                CHECK(std::abs(sum - 1) <= vocabulary * 0x1p-53);
                CHECK(std::abs(entropy - language.entropy(second, last, announces)) <= 64 * vocabulary * 0x1p-53);
            }
        }
    }
}

TEST_CASE("documents follow the probabilities from which the entropy floor is computed", "[experiments][data]") {
    const SyntheticLanguage language(16);
    const std::int64_t context = 32, samples = 64;
    std::map<std::pair<int, int>, std::map<int, int>>
        counts;  // how often each token follows each pair of tokens, except where a copied span may begin or continues
    int announced = 0, could_announce = 0;
    for (std::uint32_t step = 0; step < 60; ++step) {
        const Batch batch = language.batch(Split::train, 1, step, samples, context);
        for (std::int64_t s = 0; s < samples; ++s) {
            std::vector<int> document(batch.tokens.begin() + s * context, batch.tokens.begin() + (s + 1) * context);
            document.push_back(batch.targets[(s + 1) * context - 1]);
            std::int64_t copying = 0;
            for (std::int64_t i = 2; i <= context; ++i) {
                if (copying > 0) {
                    REQUIRE(document[i] == document[i - SyntheticLanguage::offset]);
                    --copying;
                    continue;
                }
                if (SyntheticLanguage::may_announce(i, context + 1)) {
                    ++could_announce;
                    announced += document[i] == 0 ? 1 : 0;
                } else {
                    ++counts[{document[i - 2], document[i - 1]}][document[i]];
                }
                if (document[i] == 0) copying = SyntheticLanguage::span;
            }
        }
    }
    const double q = 1.0 / 16, rate = static_cast<double>(announced) / could_announce;
    CHECK(std::abs(rate - q) < 5 * std::sqrt(q * (1 - q) / could_announce));
    // Chi-squared test of the most frequent context. With 15 degrees of freedom, the statistic exceeds 50 with a
    // probability of 1e-5.
    const auto most = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        const auto total = [](const auto& c) {
            int n = 0;
            for (const auto& [t, k] : c.second) n += k;
            return n;
        };
        return total(a) < total(b);
    });
    int n = 0;
    for (const auto& [token, count] : most->second) n += count;
    REQUIRE(n > 300);
    double chi2 = 0;
    for (std::int32_t next = 1; next < 16; ++next) {
        const double expected = n * language.probability(most->first.first, most->first.second, false, next);
        const auto found = most->second.find(next);
        const double seen = found == most->second.end() ? 0 : found->second;
        REQUIRE(expected > 0);
        chi2 += (seen - expected) * (seen - expected) / expected;
    }
    CHECK(chi2 < 50);
}

TEST_CASE("a batch depends only on its split, seed and step", "[experiments][data]") {
    const SyntheticLanguage language(64), again(64);
    const Batch first = language.batch(Split::train, 3, 5, 4, 32);
    language.batch(Split::train, 3, 6, 4, 32);
    CHECK(language.batch(Split::train, 3, 5, 4, 32).tokens == first.tokens);
    CHECK(again.batch(Split::train, 3, 5, 4, 32).tokens == first.tokens);
    CHECK(language.batch(Split::train, 3, 6, 4, 32).tokens != first.tokens);
    CHECK(language.batch(Split::train, 4, 5, 4, 32).tokens != first.tokens);
    CHECK(language.batch(Split::held_out, 3, 5, 4, 32).tokens != first.tokens);
    // A larger batch begins with the same documents.
    const Batch larger = language.batch(Split::train, 3, 5, 8, 32);
    CHECK(std::equal(first.tokens.begin(), first.tokens.end(), larger.tokens.begin()));
    CHECK(first.entropy_floor > 0.5);
    CHECK(first.entropy_floor < std::log(64.0));
}

namespace {

std::filesystem::path write_text(const std::string& name, std::size_t bytes) {
    const auto path = test::disk_folder() / name;
    std::ofstream out(path, std::ios::binary);
    for (std::size_t i = 0; i < bytes; ++i) out.put(static_cast<char>('a' + i % 26));
    return path;
}

}  // namespace

TEST_CASE("the tokens of a text are its bytes, and the last tenth is held out", "[experiments][data]") {
    const auto path = write_text("macheps_text_test.txt", 1000);
    const TokenFile text({.train = path}, 32);
    const Batch batch = text.batch(Split::held_out, 0, 0, 8, 32);
    REQUIRE(batch.tokens.size() == 8 * 32);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        REQUIRE(batch.tokens[i] >= 'a');
        REQUIRE(batch.targets[i] == 'a' + (batch.tokens[i] - 'a' + 1) % 26);
    }
    CHECK(std::isnan(batch.entropy_floor));
    CHECK(text.vocabulary() == 256);
    CHECK(text.describe() == "macheps_text_test.txt (1000 bytes, the last tenth held out)");
    std::filesystem::remove(path);
}

TEST_CASE("a text that is missing or too short is refused", "[experiments][data]") {
    const auto path = write_text("macheps_short_test.txt", 329);
    CHECK_NOTHROW(TokenFile({.train = path}, 31));  // a tenth of 329 is 32, enough for one sample of 31 + 1 bytes
    CHECK_THROWS_AS(TokenFile({.train = path}, 32), Error);
    CHECK_THROWS_AS(TokenFile({.train = "/nowhere/at/all.txt"}, 8), Error);
    CHECK_THROWS_AS(TokenFile({.train = test::disk_folder()}, 8), Error);
    CHECK_THROWS_AS(open_data({.train = path}, 255, 8), Error);
    CHECK(open_data({.train = path}, 300, 8)->vocabulary() == 256);
    std::filesystem::remove(path);
}

namespace {

/// Returns the bytes of a token file in which each token is a T. If `magic` is not 0, the file begins with llm.c's
/// header.
template <class T>
std::vector<std::byte> token_bytes(const std::vector<std::uint32_t>& tokens, std::int32_t magic = 0,
                                   std::int32_t version = 0) {
    std::vector<std::int32_t> header(magic == 0 ? 0 : 256);
    if (magic != 0) header[0] = magic, header[1] = version, header[2] = static_cast<std::int32_t>(tokens.size());
    const std::vector<T> content(tokens.begin(), tokens.end());
    std::vector<std::byte> bytes(header.size() * 4 + content.size() * sizeof(T));
    if (magic != 0) std::memcpy(bytes.data(), header.data(), header.size() * 4);
    if (!content.empty()) std::memcpy(bytes.data() + header.size() * 4, content.data(), content.size() * sizeof(T));
    return bytes;
}

constexpr std::int32_t gpt2 = 20240520, llama3 = 20240801;

std::string complaint(std::span<const std::byte> bytes, const std::string& name, DataFormat format) {
    try {
        TokenStream::parse(bytes, name, format);
    } catch (const Error& error) {
        CHECK(error.parts().where == name);
        CHECK(error.exit() == Exit::bad_input);
        return error.what();
    }
    return "";
}

std::filesystem::path write_bytes(const std::string& name, std::span<const std::byte> bytes) {
    const auto path = test::disk_folder() / name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
}

}  // namespace

TEST_CASE("a token file's magic number determines its format; without one, its name does", "[experiments][data]") {
    const std::vector<std::uint32_t> tokens{5, 0, 50256, 65535, 7};
    const auto raw = token_bytes<std::uint16_t>(tokens), llmc = token_bytes<std::uint16_t>(tokens, gpt2, 1),
               wide = token_bytes<std::uint32_t>({1, 128255, 2}, llama3, 7);
    struct Case {
        const std::vector<std::byte>& bytes;
        const char* name;
        DataFormat asked, found;
        std::size_t size;
        std::int64_t vocabulary;
    };
    for (const Case& c : {Case{raw, "train.bin", DataFormat::automatic, DataFormat::nanogpt, 5, 65536},
                          Case{raw, "train.txt", DataFormat::automatic, DataFormat::text, 10, 256},
                          Case{raw, "train.txt", DataFormat::nanogpt, DataFormat::nanogpt, 5, 65536},
                          Case{raw, "train.bin", DataFormat::text, DataFormat::text, 10, 256},
                          Case{llmc, "train.bin", DataFormat::automatic, DataFormat::llmc, 5, 65536},
                          Case{llmc, "tokens", DataFormat::automatic, DataFormat::llmc, 5, 65536},
                          Case{llmc, "train.bin", DataFormat::nanogpt, DataFormat::nanogpt, 512 + 5, 65536},
                          Case{wide, "train.bin", DataFormat::automatic, DataFormat::llmc, 3, 128256}}) {
        const TokenStream stream = TokenStream::parse(c.bytes, c.name, c.asked);
        CAPTURE(c.name, to_string(c.asked));
        CHECK(stream.format() == c.found);
        CHECK(stream.size() == c.size);
        CHECK(stream.vocabulary() == c.vocabulary);
    }
    std::vector<std::int32_t> out;
    TokenStream::parse(llmc, "a", DataFormat::automatic).append(1, 3, out, 65536);
    CHECK(out == std::vector<std::int32_t>{0, 50256, 65535});
    out.clear();
    TokenStream::parse(wide, "a", DataFormat::automatic).append(0, 3, out, 128256);
    CHECK(out == std::vector<std::int32_t>{1, 128255, 2});
}

TEST_CASE("a damaged token file is refused, and the error names the byte", "[experiments][data]") {
    const auto raw = token_bytes<std::uint16_t>({1, 2, 3}), good = token_bytes<std::uint16_t>({1, 2, 3}, gpt2, 1);
    const auto with = [&](std::size_t field, std::int32_t value) {
        std::vector<std::byte> bytes = good;
        std::memcpy(bytes.data() + 4 * field, &value, 4);
        return bytes;
    };
    const auto first = [](const std::vector<std::byte>& bytes, std::size_t n) {
        return std::vector<std::byte>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    };
    struct Case {
        std::vector<std::byte> bytes;
        DataFormat format;
        const char* says;
    };
    for (const Case& c :
         {Case{{}, DataFormat::automatic, "empty"}, Case{{}, DataFormat::text, "empty"},
          Case{first(raw, 5), DataFormat::automatic, "5 bytes are not a whole number"},
          Case{first(raw, 1), DataFormat::nanogpt, "1 bytes are not a whole number"},
          Case{raw, DataFormat::llmc, "the file has 6 bytes, but llm.c's header has 1024"},
          Case{first(good, 1023), DataFormat::automatic, "the file has 1023 bytes"},
          Case{first(good, 1024), DataFormat::automatic, "(at byte 8) that 3 tokens of 2 bytes follow, but 0 bytes"},
          Case{first(good, 1029), DataFormat::automatic, "(at byte 8) that 3 tokens of 2 bytes follow, but 5 bytes"},
          Case{with(2, 4), DataFormat::automatic, "(at byte 8) that 4 tokens of 2 bytes follow, but 6 bytes"},
          Case{with(2, -3), DataFormat::automatic, "that -3 tokens"},
          Case{with(1, 2), DataFormat::automatic, "the version at byte 4 is 2, but it must be 1"},
          Case{with(0, llama3), DataFormat::automatic, "the version at byte 4 is 1, but it must be 7"},
          Case{with(0, 20240522), DataFormat::automatic, "evaluation"},
          Case{with(0, 7), DataFormat::llmc, "the magic at byte 0 is 7"},
          Case{token_bytes<std::uint16_t>({}, gpt2, 1), DataFormat::automatic, "no token"},
          Case{token_bytes<std::uint32_t>({1, 0x80000000u}, llama3, 7), DataFormat::automatic,
               "token 2147483648 at byte 1028"}}) {
        const std::string said = complaint(c.bytes, "train.bin", c.format);
        CAPTURE(said, c.says, c.bytes.size());
        CHECK(said.find(c.says) != std::string::npos);
    }
}

TEST_CASE("tokens beyond the vocabulary are refused before training", "[experiments][data]") {
    std::vector<std::uint32_t> tokens(100, 3);
    tokens[95] = 64;
    const auto path = write_bytes("macheps_beyond.bin", token_bytes<std::uint16_t>(tokens, gpt2, 1));
    CHECK(vocabulary_of({.train = path}) == 65);
    CHECK_NOTHROW(open_data({.train = path}, 65, 4));
    try {
        open_data({.train = path}, 64, 4);
        FAIL("accepted");
    } catch (const Error& error) {
        const std::string said = error.what();
        CAPTURE(said);
        CHECK(said.find("token 64 at byte 1214") != std::string::npos);  // 1024 + 2 * 95
        CHECK(error.parts().where == path.string());
    }
    std::filesystem::remove(path);
}

TEST_CASE("with a separate held-out file, the whole first file is used for training", "[experiments][data]") {
    const auto upwards = [](std::uint32_t first, std::size_t count) {
        std::vector<std::uint32_t> tokens(count);
        for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<std::uint32_t>(i);
        return tokens;
    };
    const auto train = write_bytes("macheps_train.bin", token_bytes<std::uint16_t>(upwards(0, 20)));
    const auto val = write_bytes("macheps_val.bin", token_bytes<std::uint32_t>(upwards(1000, 12), llama3, 7));
    const TokenFile data({.train = train, .held_out = val}, 8);
    CHECK(data.vocabulary() == 1012);
    std::set<std::int32_t> first_of_train, first_of_val;
    for (std::uint32_t step = 0; step < 40; ++step) {
        const Batch a = data.batch(Split::train, 1, step, 2, 8), b = data.batch(Split::held_out, 1, step, 2, 8);
        for (const Batch* batch : {&a, &b}) {
            for (std::size_t i = 0; i < 16; ++i) REQUIRE(batch->targets[i] == batch->tokens[i] + 1);
        }
        first_of_train.insert({a.tokens[0], a.tokens[8]});
        first_of_val.insert({b.tokens[0], b.tokens[8]});
    }
    // A sample of 8 + 1 tokens can begin at 12 places in 20 tokens, and at 4 places in 12 tokens. The probability that
    // 80 draws miss any of 12 places is below 12 (11/12)^80 < 0.012. The draws are the same in every run of this test.
    CHECK(first_of_train.size() == 12);
    CHECK(first_of_val == std::set<std::int32_t>{1000, 1001, 1002, 1003});
    // A batch is a function of (seed, step).
    const Batch once = data.batch(Split::train, 3, 5, 4, 8), again = data.batch(Split::train, 3, 5, 4, 8);
    CHECK(once.tokens == again.tokens);
    CHECK(once.tokens != data.batch(Split::train, 3, 6, 4, 8).tokens);
    CHECK(once.tokens != data.batch(Split::train, 4, 5, 4, 8).tokens);
    CHECK_THROWS_AS(TokenFile({.train = train, .held_out = val}, 12), Error);
    CHECK_NOTHROW(TokenFile({.train = train, .held_out = val}, 11));
    std::filesystem::remove(train);
    std::filesystem::remove(val);
}

}  // namespace data_test
