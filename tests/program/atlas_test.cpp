// SPDX-License-Identifier: Apache-2.0
// Compares the rows of examples/atlas.cpp with the tables of a specification for numerical analysis, which an
// independent program computed.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace atlas_test {

using namespace macheps::test;

namespace {

/// Runs atlas with these arguments. Returns a map with one entry for each row: the key is the row without its last
/// cell, and the value is the last cell.
std::map<std::string, std::string> rows_of_atlas(const std::string& words) {
    scratch();
    const std::string file = (scratch() / "atlas.csv").string();
    const int status = std::system(("'" MACHEPS_ATLAS "' " + words + " >'" + file + "'").c_str());
    CHECK(status == 0);
    std::istringstream lines(contents(file));
    std::map<std::string, std::string> rows;
    for (std::string line; std::getline(lines, line);)
        rows.emplace(line.substr(0, line.rfind(',')), line.substr(line.rfind(',') + 1));
    fs::remove_all(scratch());
    return rows;
}

struct AtlasFigure {
    const char* row;
    double value, margin;  ///< the margin is one unit of the last digit that the table prints
};

void check_figures(const std::map<std::string, std::string>& rows, const std::vector<AtlasFigure>& figures) {
    for (const AtlasFigure& figure : figures) {
        CAPTURE(figure.row);
        REQUIRE(rows.contains(figure.row));
        CHECK(std::fabs(std::stod(rows.at(figure.row)) - figure.value) <= figure.margin * (1 + 1e-9));
    }
}

}  // namespace

TEST_CASE("atlas reproduces the tables of the harmonic series, Euler's method and error-free transformations",
          "[program][atlas]") {
    const std::map<std::string, std::string> rows = rows_of_atlas("euler harmonic squares transforms");
    struct Code {
        const char *row, *code;
    };
    for (const Code& each :
         {Code{"euler,bf16,nearest_even,10,code", "3b66"}, Code{"euler,bf16,nearest_even,100,code", "3b7f"},
          Code{"euler,bf16,nearest_even,1000,code", "3c24"}, Code{"euler,bf16,nearest_even,10000,code", "3c24"},
          Code{"euler,fp16,nearest_even,10,code", "1b27"}, Code{"euler,fp16,nearest_even,100,code", "1b80"},
          Code{"euler,fp16,nearest_even,1000,code", "1c20"}, Code{"euler,fp16,nearest_even,10000,code", "211f"},
          Code{"harmonic,bf16,nearest_even,65,sum_that_stays", "5.0625"},
          Code{"harmonic,fp16,nearest_even,513,sum_that_stays", "7.0859375"},
          Code{"harmonic,tf32,nearest_even,513,sum_that_stays", "7.0859375"},
          Code{"harmonic,e5m2,nearest_even,5,sum_that_stays", "2"},
          Code{"harmonic,e4m3fn,nearest_even,9,sum_that_stays", "3"},
          Code{"harmonic,bf16,toward_zero,41,sum_that_stays", "4"}, Code{"harmonic,bf16,down,41,sum_that_stays", "4"},
          Code{"harmonic,fp16,toward_zero,257,sum_that_stays", "5.74609375"},
          Code{"harmonic,fp16,up,13910,sum_before_overflow", "65504"},
          Code{"harmonic,e4m3fn,up,66,sum_before_overflow", "448"},
          Code{"harmonic,fp16,stochastic,100000,sum", "11.7734375"}}) {
        CAPTURE(each.row);
        REQUIRE(rows.contains(each.row));
        CHECK(rows.at(each.row) == each.code);
    }
    check_figures(rows, {{"euler,bf16,nearest_even,10,error", 1.7e-4, 0.1e-4},
                         {"euler,bf16,nearest_even,100,error", 2.1e-4, 0.1e-4},
                         {"euler,bf16,nearest_even,1000,error", 6.3e-3, 0.1e-3},
                         {"euler,fp32,nearest_even,10,error", 1.92e-4, 0.01e-4},
                         {"euler,fp32,nearest_even,100,error", 1.85e-5, 0.01e-5},
                         {"euler,fp32,nearest_even,1000,error", 1.84e-6, 0.01e-6},
                         {"euler,fp32,nearest_even,10000,error", 1.80e-7, 0.01e-7},
                         {"euler,bf16,stochastic,1000,rms_error", 3.2e-4, 0.1e-4},
                         {"euler,fp16,stochastic,1000,rms_error", 3.0e-5, 0.1e-5},
                         {"harmonic,fp32,nearest_even,2097152,sum_that_stays", 15.4036827, 1e-7},
                         {"harmonic,fp16,stochastic,100000,mean_error", -0.031, 0.0005},
                         {"harmonic,fp16,stochastic,100000,rms_error", 0.216, 0.0005}});
    for (const auto& [terms, sum, flushed] :
         {std::tuple(100, 1.634766, 1.634766), std::tuple(1000, 1.643555, 1.636719),
          std::tuple(10000, 1.644531, 1.636719), std::tuple(100000, 1.644531, 1.636719)}) {
        const std::string row = "squares,fp16,nearest_even," + std::to_string(terms) + ",";
        check_figures(rows, {{(row + "sum").c_str(), sum, 5e-7}, {(row + "sum_flushed").c_str(), flushed, 5e-7}});
    }
    // An enumeration with rational numbers confirms the counts of products within range: 54364 in e4m3fn and 53312 in
    // e5m2. In the 6-bit formats, overflows inside TwoSum saturate, so no TwoSum fails with rounding to nearest.
    check_figures(rows, {{"transforms,e4m3fn,nearest_even,63680,two_sum_fails", 0, 0},
                         {"transforms,e4m3fn,toward_zero,63680,two_sum_fails", 20000, 0},
                         {"transforms,e4m3fn,up,63680,two_sum_fails", 20190, 0},
                         {"transforms,e4m3fn,down,63680,two_sum_fails", 20190, 0},
                         {"transforms,e4m3fn,nearest_even,32086,fast_two_sum_fails", 0, 0},
                         {"transforms,e4m3fn,up,32086,fast_two_sum_fails", 6720, 0},
                         {"transforms,e4m3fn,nearest_even,54364,two_product_fails", 11520, 0},
                         {"transforms,e4m3fn,toward_zero,54364,two_product_fails", 11520, 0},
                         {"transforms,e5m2,nearest_even,60952,two_sum_fails", 2, 0},
                         {"transforms,e5m2,toward_zero,60952,two_sum_fails", 32864, 0},
                         {"transforms,e5m2,down,60952,two_sum_fails", 33083, 0},
                         {"transforms,e5m2,nearest_even,30720,fast_two_sum_fails", 0, 0},
                         {"transforms,e5m2,toward_zero,30720,fast_two_sum_fails", 11024, 0},
                         {"transforms,e5m2,nearest_even,53312,two_product_fails", 8704, 0},
                         {"transforms,e2m3fn,nearest_even,3632,two_sum_fails", 0, 0},
                         {"transforms,e2m3fn,toward_zero,3632,two_sum_fails", 0, 0},
                         {"transforms,e2m3fn,up,3632,two_sum_fails", 0, 0},
                         {"transforms,e2m3fn,nearest_even,1872,fast_two_sum_fails", 0, 0},
                         {"transforms,e2m3fn,nearest_even,2908,two_product_fails", 1404, 0},
                         {"transforms,e3m2fn,nearest_even,3912,two_sum_fails", 0, 0},
                         {"transforms,e3m2fn,down,3912,two_sum_fails", 492, 0},
                         {"transforms,e3m2fn,toward_zero,3912,two_sum_fails", 480, 0},
                         {"transforms,e3m2fn,nearest_even,2016,fast_two_sum_fails", 0, 0},
                         {"transforms,e3m2fn,toward_zero,2016,fast_two_sum_fails", 168, 0},
                         {"transforms,e3m2fn,nearest_even,3296,two_product_fails", 640, 0}});
}

namespace {

/// Enumerates all pairs of numbers of a format, independently of atlas. Sums are exact in fp64. A sum is rounded by a
/// search among the numbers of the format.
class Pairs {
  public:
    explicit Pairs(const macheps::Format& format) {
        for (std::uint64_t code = 0; code < std::uint64_t{1} << format.bits; ++code) {
            const double x = macheps::decode64(format, code);
            if (std::isfinite(x)) codes_.push_back(x);
        }
        sorted_ = codes_;
        std::sort(sorted_.begin(), sorted_.end());
        sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
    }

    struct Counts {
        int products = 0, product_fails = 0, sums = 0, up_fails = 0, zero_fails = 0, nearest_fails = 0;
    };
    /// Counts failures of TwoSum and TwoProduct. A product is counted only if the sum of the pair is also within range.
    /// Overflows inside TwoSum become infinite, even if the format has no infinity.
    Counts count() const {
        Counts c;
        const double largest = sorted_.back();
        for (const double a : codes_) {
            for (const double b : codes_) {
                if (std::fabs(a + b) > largest) continue;
                ++c.sums;
                c.nearest_fails += two_sum_fails(a, b, [this](double x) { return nearest(x); });
                c.up_fails += two_sum_fails(a, b, [this](double x) { return up(x); });
                c.zero_fails += two_sum_fails(a, b, [this](double x) { return x < 0 ? up(x) : -up(-x); });
                if (std::fabs(a * b) > largest) continue;
                ++c.products;
                const double p = nearest(a * b);
                c.product_fails += p + nearest(a * b - p) != a * b;
            }
        }
        return c;
    }

  private:
    template <class Rounded>
    static bool two_sum_fails(double a, double b, const Rounded& rounded) {
        const double s = rounded(a + b), z = rounded(s - a), e = rounded(rounded(a - rounded(s - z)) + rounded(b - z));
        return s + e != a + b;
    }
    /// Returns the smallest number of the format that is not below x, or infinity if x is above the largest number.
    double up(double x) const {
        if (!std::isfinite(x)) return x;
        const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), x);
        return at == sorted_.end() ? HUGE_VAL : *at;
    }
    /// Returns x rounded to nearest even. A number is even if its index is even, counted from zero in ascending order.
    double nearest(double x) const {
        if (!std::isfinite(x)) return x;
        if (x < 0) return -nearest(-x);
        const double largest = sorted_.back(), last_step = largest - sorted_[sorted_.size() - 2];
        const auto zero = std::lower_bound(sorted_.begin(), sorted_.end(), 0.0);
        const bool largest_is_even = (sorted_.end() - 1 - zero) % 2 == 0;
        if (x > largest + last_step / 2 || (x == largest + last_step / 2 && !largest_is_even)) return HUGE_VAL;
        if (x > largest) return largest;
        const auto above = std::lower_bound(sorted_.begin(), sorted_.end(), x);
        if (*above == x) return x;
        const auto below = above - 1;
        if (*above - x == x - *below) return (above - zero) % 2 == 0 ? *above : *below;
        return *above - x < x - *below ? *above : *below;
    }

    std::vector<double> codes_, sorted_;
};

}  // namespace

// The table of the specification counts a product only if the sum of the same two numbers is also in range. In the
// 6-bit formats, the table treats overflows inside TwoSum as infinite, although these formats have no infinity. The
// rows two_sum_fails_or_overflows and two_product_fails_where_sum_fits of atlas follow these two rules. This test
// compares these rows.
TEST_CASE("the number of failing error-free transformations in atlas agrees with the table and an enumeration",
          "[program][atlas]") {
    struct Line {
        const char* name;
        macheps::Format format;
        int products, product_fails, nearest_fails, zero_fails, up_fails;
    };
    const std::map<std::string, std::string> rows = rows_of_atlas("transforms");
    for (const Line& line : {Line{"e4m3fn", macheps::e4m3fn, 54140, 11520, 0, 20000, 20190},
                             Line{"e5m2", macheps::e5m2, 53072, 8704, 2, 32864, 33083},
                             Line{"e2m3fn", macheps::e2m3fn, 2856, 1384, 6, 0, 15},
                             Line{"e3m2fn", macheps::e3m2fn, 3248, 640, 2, 480, 515}}) {
        const Pairs::Counts counts = Pairs(line.format).count();
        CAPTURE(line.products);
        CHECK(counts.products == line.products);
        CHECK(counts.product_fails == line.product_fails);
        CHECK(counts.nearest_fails == line.nearest_fails);
        CHECK(counts.zero_fails == line.zero_fails);
        CHECK(counts.up_fails == line.up_fails);
        for (const auto& [round, fails] : {std::pair{"nearest_even", line.nearest_fails},
                                           {"toward_zero", line.zero_fails},
                                           {"up", line.up_fails},
                                           {"down", line.up_fails}}) {
            const std::string begin = std::string("transforms,") + line.name + "," + round + ",";
            const std::string sums = begin + std::to_string(counts.sums) + ",two_sum_fails_or_overflows";
            const std::string products = begin + std::to_string(line.products) + ",two_product_fails_where_sum_fits";
            check_figures(rows, {{sums.c_str(), static_cast<double>(fails), 0},
                                 {products.c_str(), static_cast<double>(line.product_fails), 0}});
        }
    }
}

TEST_CASE("time steps of the heat equation freeze in bf16 and fp16, except with stochastic rounding",
          "[program][atlas]") {
    const std::map<std::string, std::string> rows = rows_of_atlas("heat 20");
    check_figures(rows, {{"heat,bf16,nearest_even,20,error", 0.203, 0.001},
                         {"heat,bf16,nearest_even,20,frozen_at", 253, 0},
                         {"heat,fp16,nearest_even,20,error", 0.0435, 0.0001},
                         {"heat,fp16,nearest_even,20,frozen_at", 572, 0},
                         {"heat,bf16,stochastic,20,error", 0.0062, 0.0001},
                         {"heat,fp16,stochastic,20,error", 0.00069, 0.00001}});
    CHECK(std::system("'" MACHEPS_ATLAS "' cold >/dev/null 2>&1") != 0);
}

TEST_CASE("time steps of the heat equation on finer grids give the figures of their table", "[program][atlas][slow]") {
    const std::map<std::string, std::string> rows = rows_of_atlas("heat 100");
    check_figures(rows, {{"heat,bf16,nearest_even,50,error", 0.750, 0.001},
                         {"heat,bf16,nearest_even,50,frozen_at", 353, 0},
                         {"heat,bf16,nearest_even,100,error", 0.938, 0.001},
                         {"heat,bf16,nearest_even,100,frozen_at", 353, 0},
                         {"heat,fp16,nearest_even,50,error", 0.212, 0.001},
                         {"heat,fp16,nearest_even,50,frozen_at", 1620, 0},
                         {"heat,fp16,nearest_even,100,error", 0.500, 0.001},
                         {"heat,fp16,nearest_even,100,frozen_at", 3017, 0},
                         {"heat,bf16,stochastic,50,error", 0.0128, 0.0001},
                         {"heat,bf16,stochastic,100,error", 0.0194, 0.0001},
                         {"heat,fp16,stochastic,50,error", 0.0017, 0.0001},
                         {"heat,fp16,stochastic,100,error", 0.0030, 0.0001}});
}

}  // namespace atlas_test
