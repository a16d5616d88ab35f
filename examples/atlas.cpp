// SPDX-License-Identifier: Apache-2.0
// Prints failures of low precision as CSV rows: time steps of the heat equation that stop changing the solution, steps
// of Euler's method that stop changing the solution, a harmonic series that stops growing, sums that need subnormal
// numbers, and error-free transformations that have an error. Every operation is rounded once.
//
//     c++ -std=c++20 -O2 atlas.cpp $(pkg-config --cflags --libs macheps-core)
//     ./a.out heat euler harmonic squares transforms
//
// Without arguments, all of them run. `heat 100` also uses finer grids and takes half a minute.
#include "core/arithmetic.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "core/rounding_names.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

using namespace macheps;

namespace {

using Code = std::uint64_t;

/// Arithmetic in one format and one rounding mode. Stochastic rounding takes one random word of the stream for each
/// operation.
class Numbers {
  public:
    Numbers(const Format& format, Round mode, std::uint32_t trial = 0, std::string_view stream = "ode.round")
        : format_(format), mode_(mode), key_{.seed = 0, .step = trial, .site = site_id(stream)} {}

    Code rounded(double x) const { return encode64(format_, x, Round::nearest_even, Overflow::nonsaturate); }
    double value(Code x) const { return decode64(format_, x); }
    Code minus(Code x) const { return x ^ (format_.sign_bit() << format_.padding); }
    Code add(Code a, Code b) { return run(Operation::add, a, b, 0); }
    Code sub(Code a, Code b) { return run(Operation::sub, a, b, 0); }
    Code mul(Code a, Code b) { return run(Operation::mul, a, b, 0); }
    Code div(Code a, Code b) { return run(Operation::div, a, b, 0); }
    /// Returns 1/k. It is an input of the experiments, so it is never rounded stochastically. The division in fp64 is
    /// precise enough that the result equals 1/k rounded once.
    Code reciprocal(long long k) const {
        const Round mode = mode_ == Round::stochastic ? Round::nearest_even : mode_;
        return encode64(format_, 1.0 / static_cast<double>(k), mode, Overflow::nonsaturate);
    }
    Code fma(Code a, Code b, Code c) { return run(Operation::fma, a, b, c); }
    std::string_view format_name() const { return macheps::format_name(format_); }
    std::string_view round_name() const { return name_of(mode_); }
    /// Returns whether an operation since the last call overflowed, that is, whether IEEE 754 would give an infinity. A
    /// format without infinity and NaN gives its largest number instead.
    bool take_overflow() { return std::exchange(has_overflowed_, false); }

  private:
    RandomBits next() { return {mode_ == Round::stochastic ? random_bits(key_, element_++) : 0, 32}; }
    Code run(Operation operation, Code a, Code b, Code c) {
        const Rounded result = op(operation, format_, a, b, c, mode_, Overflow::nonsaturate, next());
        const bool is_negative = (result.bits >> format_.padding & format_.sign_bit()) != 0;
        const Round inwards = is_negative ? Round::up : Round::down;
        has_overflowed_ |= result.flags.overflow && mode_ != Round::toward_zero && mode_ != inwards;
        return result.bits;
    }

    Format format_;
    Round mode_;
    RngKey key_;
    std::uint64_t element_ = 0;
    bool has_overflowed_ = false;
};

void print_row(std::string_view experiment, const Numbers& n, long long size, std::string_view quantity, double value) {
    fmt::print("{},{},{},{},{},{}\n", experiment, n.format_name(), n.round_name(), size, quantity, value);
}
void print_code(std::string_view experiment, const Numbers& n, long long size, Code code) {
    fmt::print("{},{},{},{},code,{:x}\n", experiment, n.format_name(), n.round_name(), size, code);
}

/// Result of heat(), which solves u_t = u_xx + 1 on a rod whose ends are kept at 0. With N cells, heat() takes up to
/// 8 N^2 explicit steps of dt = 1/(4 N^2) from u = 0. Except with stochastic rounding, it ends early if a step changes
/// nothing.
struct Heat {
    double error = 0;         ///< largest error, divided by the maximum 1/8 of the exact solution x (1 - x) / 2
    long long frozen_at = 0;  ///< the last step that changed anything; 0 if every step did
};
Heat heat(Numbers n, int cells) {
    const double width = 1.0 / cells;
    const Code dt = n.rounded(0.25 * width * width), two = n.rounded(2), four = n.rounded(4);
    std::vector<Code> u(static_cast<std::size_t>(cells) + 1, n.rounded(0)), next = u;
    Heat out;
    for (long long step = 1; step <= 8LL * cells * cells && out.frozen_at == 0; ++step) {
        for (std::size_t i = 1; i + 1 < u.size(); ++i) {
            const Code a = n.mul(two, u[i]), b = n.sub(u[i - 1], a), c = n.add(b, u[i + 1]), d = n.div(c, four);
            next[i] = n.add(u[i], n.add(d, dt));
        }
        if (next == u && n.round_name() != "stochastic") out.frozen_at = step - 1;
        u.swap(next);
    }
    for (std::size_t i = 0; i < u.size(); ++i) {
        const double x = static_cast<double>(i) * width;
        out.error = std::fmax(out.error, std::fabs(n.value(u[i]) - x * (1 - x) / 2) / 0.125);
    }
    return out;
}

void print_heat(int max_cells) {
    constexpr int trials = 5;
    for (const int cells : {20, 50, 100}) {
        if (cells > max_cells) continue;
        for (const Format& format : {bf16, fp16}) {
            const Numbers nearest(format, Round::nearest_even);
            const Heat rounded = heat(nearest, cells);
            print_row("heat", nearest, cells, "error", rounded.error);
            print_row("heat", nearest, cells, "frozen_at", static_cast<double>(rounded.frozen_at));
            double mean = 0;
            for (std::uint32_t trial = 0; trial < trials; ++trial)
                mean += heat({format, Round::stochastic, trial}, cells).error / trials;
            print_row("heat", {format, Round::stochastic}, cells, "error", mean);
        }
    }
}

/// Solves y' = -y from y = 0.01 at x = 0 to x = 1 in `steps` steps.
Code euler(Numbers n, int steps) {
    const Code h = n.rounded(1.0 / steps);
    Code y = n.rounded(1e-2);
    for (int i = 0; i < steps; ++i) y = n.add(y, n.mul(h, n.minus(y)));
    return y;
}

void print_euler() {
    constexpr int trials = 20;
    const double exact = 1e-2 * std::exp(-1.0);
    for (const Format& format : {bf16, fp16, fp32}) {
        for (const int steps : {10, 100, 1000, 10000}) {
            const Numbers nearest(format, Round::nearest_even);
            const Code y = euler(nearest, steps);
            print_code("euler", nearest, steps, y);
            print_row("euler", nearest, steps, "error", std::fabs(nearest.value(y) - exact));
        }
        double squares = 0;
        for (std::uint32_t trial = 0; trial < trials; ++trial) {
            const Numbers drawn(format, Round::stochastic, trial);
            squares += std::pow(drawn.value(euler(drawn, 1000)) - exact, 2) / trials;
        }
        print_row("euler", {format, Round::stochastic}, 1000, "rms_error", std::sqrt(squares));
    }
}

/// Sums 1 + 1/2 + 1/3 + ... until a term does not change the sum.
void print_harmonic() {
    struct Case {
        Format format;
        Round mode;
    };
    for (const Case& c :
         {Case{e5m2, Round::nearest_even}, Case{e4m3fn, Round::nearest_even}, Case{tf32, Round::nearest_even},
          Case{bf16, Round::nearest_even}, Case{fp16, Round::nearest_even}, Case{fp32, Round::nearest_even},
          Case{bf16, Round::toward_zero}, Case{fp16, Round::toward_zero}, Case{bf16, Round::down},
          Case{fp16, Round::down}, Case{fp16, Round::up}, Case{e4m3fn, Round::up}}) {
        Numbers n(c.format, c.mode);
        Code sum = n.rounded(0);
        long long k = 1;
        for (;; ++k) {
            const Code next = n.add(sum, n.reciprocal(k));
            const bool is_over = !std::isfinite(n.value(next));
            if (is_over || next == sum) break;
            sum = next;
        }
        const bool overflows = !std::isfinite(n.value(n.add(sum, n.reciprocal(k))));
        print_row("harmonic", n, k, overflows ? "sum_before_overflow" : "sum_that_stays", n.value(sum));
    }
    constexpr int trials = 20, terms = 100000;
    // `exact` is the sum of the rounded terms, so the error comes only from the additions.
    double exact = 0, mean = 0, squares = 0;
    const Numbers nearest(fp16, Round::nearest_even);
    for (int k = terms; k >= 1; --k) exact += nearest.value(nearest.reciprocal(k));
    for (std::uint32_t trial = 0; trial < trials; ++trial) {
        Numbers n(fp16, Round::stochastic, trial, "sum.round");
        Code sum = n.rounded(0);
        for (int k = 1; k <= terms; ++k) sum = n.add(sum, n.reciprocal(k));
        const double error = n.value(sum) - exact;
        if (trial == 0) print_row("harmonic", n, terms, "sum", n.value(sum));
        mean += error / trials, squares += error * error / trials;
    }
    print_row("harmonic", {fp16, Round::stochastic}, terms, "mean_error", mean);
    print_row("harmonic", {fp16, Round::stochastic}, terms, "rms_error", std::sqrt(squares));
}

/// Sums 1 + 1/4 + 1/9 + ... in fp16, from the smallest term to the largest. 1/k is rounded, and an fma adds its exact
/// square. If subnormal numbers are flushed to zero, the terms vanish from k = 129 on.
void print_squares() {
    for (const int terms : {100, 1000, 10000, 100000}) {
        for (const bool flushes : {false, true}) {
            Numbers n(fp16, Round::nearest_even);
            Code sum = n.rounded(0);
            for (int k = terms; k >= 1; --k) {
                const Code root = n.reciprocal(k);
                const double square = n.value(root) * n.value(root);  // exact in fp64
                if (!flushes || square >= std::ldexp(1.0, fp16.emin())) sum = n.fma(root, root, sum);
            }
            print_row("squares", n, terms, flushes ? "sum_flushed" : "sum", n.value(sum));
        }
    }
}

/// Runs error-free transformations of sums and products on all pairs of numbers of a format, if the exact sum or
/// product is in range. A pair fails if the two results of the transformation do not add up to the exact sum or
/// product. TwoSum overflows if IEEE 754 would make one of its results infinite, even if the format saturates. Products
/// are counted twice: over all pairs, and over the pairs whose exact sum is also in range.
void print_transforms() {
    for (const Format& format : {e4m3fn, e5m2, e2m3fn, e3m2fn}) {
        std::vector<Code> finite;
        for (Code code = 0; code < Code{1} << format.bits; ++code) {
            if (std::isfinite(decode64(format, code))) finite.push_back(code);
        }
        const double largest = decode64(format, format.max_finite_code());
        for (const Round mode : {Round::nearest_even, Round::toward_zero, Round::up, Round::down}) {
            Numbers n(format, mode);
            long long sums = 0, two_sum = 0, two_sum_or_overflow = 0, ordered = 0, fast_two_sum = 0;
            long long products = 0, two_product = 0, both = 0, two_product_of_both = 0;
            for (const Code a : finite) {
                for (const Code b : finite) {
                    const double x = n.value(a), y = n.value(b), sum = x + y, product = x * y;  // exact in fp64
                    const bool has_sum = std::fabs(sum) <= largest;
                    if (has_sum) {
                        n.take_overflow();  // clears the flag of the previous pair
                        const Code s = n.add(a, b), z = n.sub(s, a), e = n.add(n.sub(a, n.sub(s, z)), n.sub(b, z));
                        const bool fails = n.value(s) + n.value(e) != sum;
                        ++sums, two_sum += fails, two_sum_or_overflow += n.take_overflow() || fails;
                        if (std::fabs(x) >= std::fabs(y))
                            ++ordered, fast_two_sum += n.value(s) + n.value(n.sub(b, z)) != sum;
                    }
                    if (std::fabs(product) <= largest) {
                        const Code p = n.mul(a, b), e = n.fma(a, b, n.minus(p));
                        const bool fails = n.value(p) + n.value(e) != product;
                        ++products, two_product += fails, both += has_sum, two_product_of_both += has_sum && fails;
                    }
                }
            }
            print_row("transforms", n, sums, "two_sum_fails", static_cast<double>(two_sum));
            print_row("transforms", n, sums, "two_sum_fails_or_overflows", static_cast<double>(two_sum_or_overflow));
            print_row("transforms", n, ordered, "fast_two_sum_fails", static_cast<double>(fast_two_sum));
            print_row("transforms", n, products, "two_product_fails", static_cast<double>(two_product));
            print_row("transforms", n, both, "two_product_fails_where_sum_fits",
                      static_cast<double>(two_product_of_both));
        }
    }
}

}  // namespace

int main(int count, char** words) {
    const std::vector<std::string_view> asked(words + 1, words + count);
    const auto is_asked = [&](std::string_view name) {
        for (const std::string_view each : asked) {
            if (each == name) return true;
        }
        return asked.empty();
    };
    int cells = 20;
    for (const std::string_view each : asked) {
        if (each.find_first_not_of("0123456789") == std::string_view::npos) {
            cells = std::atoi(each.data());
        } else if (each != "heat" && each != "euler" && each != "harmonic" && each != "squares" &&
                   each != "transforms") {
            fmt::print(stderr, "atlas: '{}' is none of heat, euler, harmonic, squares and transforms\n", each);
            return 2;
        }
    }
    fmt::print("experiment,format,round,size,quantity,value\n");
    if (is_asked("heat")) print_heat(cells);
    if (is_asked("euler")) print_euler();
    if (is_asked("harmonic")) print_harmonic();
    if (is_asked("squares")) print_squares();
    if (is_asked("transforms")) print_transforms();
    return std::ferror(stdout) != 0;
}
