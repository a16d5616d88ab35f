// SPDX-License-Identifier: Apache-2.0
// Prints checksums of conversions, operations, functions and texts. scripts/page compiles this program natively and as
// WebAssembly, and compares the outputs. Random numbers are drawn into variables first, because the order in which
// compilers evaluate arguments differs.
#include "core/arithmetic.hpp"
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/math.hpp"
#include "core/rng.hpp"
#include "core/text/print.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace {

using namespace macheps;

class Checksum {
  public:
    void add(std::uint64_t word) {
        for (int i = 0; i < 8; ++i) hash_ = (hash_ ^ (word >> 8 * i & 0xff)) * 0x100000001b3u;
    }
    void print(const char* name) const { std::printf("%-12s %016llx\n", name, static_cast<unsigned long long>(hash_)); }

  private:
    std::uint64_t hash_ = 0xcbf29ce484222325u;
};

std::uint64_t word(std::uint32_t stream, std::uint64_t index) {
    const PhiloxBlock block = random_block({.seed = stream}, index);
    return std::uint64_t{block.word[0]} << 32 | block.word[1];
}

constexpr Round roundings[] = {Round::nearest_even, Round::nearest_away, Round::toward_zero, Round::up,
                               Round::down,         Round::to_odd,       Round::stochastic};

void conversions() {
    Checksum sum;
    std::uint64_t index = 0;
    for (const NamedFormat& named : all_formats) {
        for (const Round round : roundings) {
            for (const Overflow overflow : {Overflow::nonsaturate, Overflow::saturate}) {
                for (int i = 0; i < 420; ++i) {
                    const std::uint64_t bits = word(1, index), random = word(2, index);
                    ++index;
                    // Half of the numbers are near the range of the small formats.
                    const double x = i % 2 == 0 ? bit_cast<double>(bits)
                                                : std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)),
                                                             -63 - static_cast<int>(random >> 40) % 24);
                    const std::uint64_t code =
                        encode64(named.format, x, round, overflow, {static_cast<std::uint32_t>(random), 32});
                    const double back = decode64(named.format, code);
                    sum.add(code);
                    sum.add(back != back ? 0 : bit_cast<std::uint64_t>(back));
                }
            }
        }
    }
    sum.print("conversions");
}

void operations() {
    Checksum sum;
    std::uint64_t index = 0;
    for (const NamedFormat& named : all_formats) {
        const std::uint64_t mask = named.format.container_bits() == 64
                                       ? ~std::uint64_t{0}
                                       : (std::uint64_t{1} << named.format.container_bits()) - 1;
        for (int operation = 0; operation < 6; ++operation) {
            for (int i = 0; i < 1000; ++i) {
                const std::uint64_t a = word(3, index) & mask, b = word(4, index) & mask, c = word(5, index) & mask;
                ++index;
                const Rounded r = op(static_cast<Operation>(operation), named.format, a, b, c, roundings[i % 6]);
                sum.add(r.bits);
                sum.add(std::uint64_t{r.flags.invalid} | std::uint64_t{r.flags.divide_by_zero} << 1 |
                        std::uint64_t{r.flags.overflow} << 2 | std::uint64_t{r.flags.underflow} << 3 |
                        std::uint64_t{r.flags.inexact} << 4);
            }
        }
    }
    sum.print("operations");
}

void functions() {
    Checksum sum;
    const auto add = [&sum](float y) { sum.add(y != y ? 0 : bit_cast<std::uint32_t>(y)); };
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        const float x = bit_cast<float>(static_cast<std::uint32_t>(word(6, i)));
        add(math::exp(x));
        add(math::log(x));
        add(math::tanh(x));
        add(math::erf(x));
        add(math::sin(x));
        add(macheps::sqrt(x));
    }
    sum.print("functions");
}

/// Prints the number of triples for which the fma of core/hd.hpp differs from integer arithmetic. Many products and sums
/// are subnormal.
void fused() {
    Checksum sum;
    unsigned long long wrong = 0;
    for (std::uint64_t i = 0; i < 4'000'000; ++i) {
        const std::uint64_t r = word(7, i), s = word(8, i);
        const int product = -152 + static_cast<int>(r % 60), first = -70 + static_cast<int>((r >> 8) % 60);
        const auto number = [](std::uint64_t bits, int exponent) {
            const int biased = exponent + 127 < 0 ? 0 : exponent + 127;
            const auto fraction = static_cast<std::uint32_t>(bits) & ((bits >> 32 & 1) != 0 ? 0x7ff000u : 0x7fffffu);
            return static_cast<std::uint32_t>(biased) << 23 | fraction | static_cast<std::uint32_t>(bits >> 63) << 31;
        };
        const std::uint32_t a = number(r >> 16, first), b = number(s, product - first),
                            c = number(s >> 7 ^ r << 9, product - static_cast<int>(s >> 50 & 31));
        const float got = macheps::fma(bit_cast<float>(a), bit_cast<float>(b), bit_cast<float>(c));
        const std::uint32_t bits = got != got ? 0x7fc00000 : bit_cast<std::uint32_t>(got);
        sum.add(bits);
        wrong += bits != macheps::fma(fp32, a, b, c).bits ? 1 : 0;
    }
    std::printf("%-12s %llu\n", "fma wrong", wrong);
    sum.print("fma");
}

void texts() {
    Checksum sum;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
        const double x = bit_cast<double>(word(9, i));
        const std::string text = decimal(x), hex = hex_float(x);
        for (const std::string& each : {text, hex, decimal(static_cast<float>(x))}) {
            for (const char letter : each) sum.add(static_cast<unsigned char>(letter));
        }
        const double back = parse_number(text).value_or(-1);
        sum.add(back != back ? 0 : bit_cast<std::uint64_t>(back));
    }
    sum.print("texts");
}

}  // namespace

int main() {
    conversions();
    operations();
    functions();
    fused();
    texts();
}
