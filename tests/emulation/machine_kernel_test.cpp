// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/matmul/machine/machine_kernel.hpp"
#include "core/codec.hpp"
#include "core/rng.hpp"
#include "emulation/machine/table.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace machine_kernel_test {

using namespace macheps;

namespace {

/// Kinds of operands in one comparison. Each kind tests a different part of the kernels.
enum class Draw { codes, finite, normal, close, tiny, huge, sparse, leader };
constexpr Draw all_draws[] = {Draw::codes, Draw::finite, Draw::normal, Draw::close,
                              Draw::tiny,  Draw::huge,   Draw::sparse, Draw::leader};

class Maker {
  public:
    explicit Maker(std::uint32_t seed) : random_(seed) {}

    float draw(Draw how, const Format& f) {
        const int emin = f.emin() - f.fraction_bits(), emax = f == fp16 ? 15 : f.exponent_bits() == 8 ? 127 : 8;
        const auto rounded = [&](double x) {
            return quantize(f, static_cast<float>(x), Round::nearest_even, Overflow::saturate);
        };
        const double significand = (below(2) ? -1 : 1) * (1 + unit());
        switch (how) {
            case Draw::codes:
                return decode(f,
                              (std::uint64_t{random_()} << f.padding) & ((std::uint64_t{1} << f.container_bits()) - 1));
            case Draw::finite: {
                const float x =
                    decode(f, std::uint64_t{random_()} << f.padding & ((std::uint64_t{1} << f.container_bits()) - 1));
                return std::isfinite(x) ? x : 1.0f;
            }
            case Draw::normal:
                return rounded(normal_(random_));
            case Draw::close:
                return rounded(std::ldexp(significand, below(3)));
            case Draw::tiny:
                return rounded(std::ldexp(significand, emin + below(f.fraction_bits() + 3)));
            case Draw::huge:
                return rounded(std::ldexp(significand, emax / 2 - below(4)));
            case Draw::sparse:
                return below(4) != 0 ? (below(2) ? -0.0f : 0.0f) : rounded(std::ldexp(significand, below(6) - 3));
            case Draw::leader:
                return rounded(std::ldexp(significand, below(8) == 0 ? 4 : -below(9)));
        }
        return 0;
    }
    float addend(const Format& f) {
        switch (below(6)) {
            case 0:
                return draw(Draw::codes, f);
            case 1:
                return below(2) ? 0.0f : -0.0f;
            case 2:
                return draw(Draw::tiny, f);
            default:
                return quantize(f, static_cast<float>(normal_(random_) * 4), Round::nearest_even, Overflow::saturate);
        }
    }
    float scale(const Format& f) {
        if (below(40) == 0) return decode(f, random_() & (f.encoding == Encoding::power_of_two ? 0xff : 0x7f));
        if (f.encoding == Encoding::power_of_two) return static_cast<float>(std::ldexp(1.0, below(12) - 6));
        return decode(f, 0x28 + static_cast<std::uint64_t>(below(32)));
    }
    int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }

  private:
    double unit() { return random_() * 0x1p-32; }
    std::mt19937 random_;
    std::normal_distribution<double> normal_;
};

std::uint32_t bits_of(float x) { return bit_cast<std::uint32_t>(x); }

std::string hex(float x) {
    char text[12];
    std::snprintf(text, sizeof text, "%08x", bits_of(x));
    return text;
}

std::vector<Format> operands_of(const Machine& machine) {
    std::vector<Format> formats;
    for (const Format& f : FormatSet::known) {
        if (machine.operands.contains(f)) formats.push_back(f);
    }
    return formats;
}

/// A matmul and the memory of its operands.
struct Problem {
    std::vector<float> a, b, c, a_scale, b_scale;
    Matmul args;

    Problem(Maker& make, const Machine& machine, Draw how, std::int64_t m, std::int64_t n, std::int64_t k) {
        const std::vector<Format> formats = operands_of(machine);
        const auto pick = [&] {
            return formats[static_cast<std::size_t>(make.below(static_cast<int>(formats.size())))];
        };
        args.m = m, args.n = n, args.k = k;
        args.rule.machine = &machine;
        args.a.format = pick();
        args.b.format = pick();
        args.a.transposed = make.below(2) != 0;
        args.b.transposed = make.below(2) != 0;
        args.a.ld = (args.a.transposed ? m : k) + make.below(3);
        args.b.ld = (args.b.transposed ? k : n) + make.below(3);
        for (std::int64_t i = 0; i < args.a.ld * (args.a.transposed ? k : m); ++i)
            a.push_back(make.draw(how, args.a.format));
        for (std::int64_t i = 0; i < args.b.ld * (args.b.transposed ? n : k); ++i)
            b.push_back(make.draw(how, args.b.format));
        for (std::int64_t i = 0; i < m * n; ++i) c.push_back(make.addend(machine.addend));
        args.a.data = a.data();
        args.b.data = b.data();
        if (!machine.has_scales()) return;
        const std::int64_t blocks = (k + machine.scale_block - 1) / machine.scale_block;
        for (std::int64_t i = 0; i < m * blocks; ++i) a_scale.push_back(make.scale(machine.scale));
        for (std::int64_t i = 0; i < n * blocks; ++i) b_scale.push_back(make.scale(machine.scale));
        args.a.scales = {a_scale.data(), 1, machine.scale_block, blocks, 1};
        args.b.scales = {b_scale.data(), 1, machine.scale_block, blocks, 1};
    }
};

/// Runs the chain on `level` and returns its sums.
std::vector<float> chain(Simd level, const Problem& p) {
    std::vector<float> c = p.c;
    machine_chain(level, p.args, c.data());
    return c;
}

struct Shape3 {
    std::int64_t m, n, k;
};

}  // namespace

TEST_CASE("every vector engine gives the bits of the scalar reference on every machine", "[emulation][machine]") {
    constexpr Shape3 shapes[] = {{1, 1, 1}, {3, 17, 63}, {2, 65, 65}, {5, 63, 32}, {1, 130, 96}};
    for (const Machine* machine : all_machines) {
        for (const Simd level : available_simd()) {
            if (!has_machine_kernel(level, *machine) || machine->addend != machine->result) continue;
            Maker make(7);
            std::size_t outputs = 0, different = 0;
            std::string first;
            for (const Draw how : all_draws) {
                for (const Shape3& s : shapes) {
                    const Problem p(make, *machine, how, s.m, s.n, s.k);
                    const std::vector<float> want = chain(Simd::scalar, p), got = chain(level, p);
                    for (std::size_t i = 0; i < want.size(); ++i, ++outputs) {
                        if (bits_of(want[i]) == bits_of(got[i])) continue;
                        if (different++ == 0) {
                            first = std::to_string(static_cast<int>(how)) + " k " + std::to_string(s.k) + " element " +
                                    std::to_string(i) + ": " + hex(got[i]) + " for " + hex(want[i]) + ", c " +
                                    hex(p.c[i]);
                        }
                    }
                }
            }
            INFO(machine->name << " on " << simd_name(level) << ": " << outputs << " outputs, first " << first);
            CHECK(different == 0);
        }
    }
}

}  // namespace machine_kernel_test
