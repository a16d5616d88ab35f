// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/data.hpp"
#include "core/error.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <fstream>
#include <map>

using namespace macheps;

TEST_CASE("the language's probabilities sum to one and give its entropy", "[experiments][data]") {
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
                // Probabilities are multiples of 2^-36; a sum of n of them errs by at most n u.
                CHECK(std::abs(sum - 1) <= vocabulary * 0x1p-53);
                CHECK(std::abs(entropy - language.entropy(second, last, announces)) <= 64 * vocabulary * 0x1p-53);
            }
        }
    }
}

TEST_CASE("documents follow the probabilities that the floor is computed from", "[experiments][data]") {
    const SyntheticLanguage language(16);
    const std::int64_t context = 32, samples = 64;
    std::map<std::pair<int, int>, std::map<int, int>>
        counts;  // plain contexts, where no span may be announced or copied
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
    // Chi-squared over the most frequent context: at 15 degrees of freedom, above 50 with probability 1e-5.
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

TEST_CASE("a batch depends on seed and step alone", "[experiments][data]") {
    const SyntheticLanguage language(64), again(64);
    const Batch first = language.batch(Split::train, 3, 5, 4, 32);
    language.batch(Split::train, 3, 6, 4, 32);
    CHECK(language.batch(Split::train, 3, 5, 4, 32).tokens == first.tokens);
    CHECK(again.batch(Split::train, 3, 5, 4, 32).tokens == first.tokens);
    CHECK(language.batch(Split::train, 3, 6, 4, 32).tokens != first.tokens);
    CHECK(language.batch(Split::train, 4, 5, 4, 32).tokens != first.tokens);
    CHECK(language.batch(Split::held_out, 3, 5, 4, 32).tokens != first.tokens);
    // The first sample of a larger batch is the same document.
    const Batch larger = language.batch(Split::train, 3, 5, 8, 32);
    CHECK(std::equal(first.tokens.begin(), first.tokens.end(), larger.tokens.begin()));
    CHECK(first.entropy_floor > 0.5);
    CHECK(first.entropy_floor < std::log(64.0));
}

namespace {

std::filesystem::path write_text(const std::string& name, std::size_t bytes) {
    const auto path = std::filesystem::temp_directory_path() / name;
    std::ofstream out(path, std::ios::binary);
    for (std::size_t i = 0; i < bytes; ++i) out.put(static_cast<char>('a' + i % 26));
    return path;
}

}  // namespace

TEST_CASE("a text gives its bytes, held out from the last tenth", "[experiments][data]") {
    const auto path = write_text("macheps_text_test.txt", 1000);
    const TextFile text(path, 32);
    const Batch batch = text.batch(Split::held_out, 0, 0, 8, 32);
    REQUIRE(batch.tokens.size() == 8 * 32);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        REQUIRE(batch.tokens[i] >= 'a');
        REQUIRE(batch.targets[i] == 'a' + (batch.tokens[i] - 'a' + 1) % 26);
    }
    CHECK(std::isnan(batch.entropy_floor));
    std::filesystem::remove(path);
}

TEST_CASE("a text that is missing or too short is refused by name", "[experiments][data]") {
    const auto path = write_text("macheps_short_test.txt", 329);
    CHECK_NOTHROW(TextFile(path, 31));  // a tenth of 329 is 32: one sample of 31 + 1
    CHECK_THROWS_AS(TextFile(path, 32), Error);
    CHECK_THROWS_AS(TextFile("/nowhere/at/all.txt", 8), Error);
    CHECK_THROWS_AS(TextFile(std::filesystem::temp_directory_path(), 8), Error);
    std::filesystem::remove(path);
}
