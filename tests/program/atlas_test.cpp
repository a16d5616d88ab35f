// SPDX-License-Identifier: Apache-2.0
// examples/atlas.cpp: its rows against figures that another program found (the tables of the specification of numerical analysis).
#include "tests/program/program.hpp"

#include <cmath>
#include <map>
#include <string>
#include <tuple>

using namespace macheps::test;

namespace {

/// The last cell of each row, by what stands before it.
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
    double value, margin;  ///< one unit of the last printed digit
};

void check_figures(const std::map<std::string, std::string>& rows, const std::vector<AtlasFigure>& figures) {
    for (const AtlasFigure& figure : figures) {
        CAPTURE(figure.row);
        REQUIRE(rows.contains(figure.row));
        CHECK(std::fabs(std::stod(rows.at(figure.row)) - figure.value) <= figure.margin * (1 + 1e-9));
    }
}

}  // namespace

TEST_CASE("the harmonic series, Euler's method and transformations have the figures of their tables",
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
                         {"harmonic,fp16,stochastic,100000,mean_error", -0.031, 0.001},
                         {"harmonic,fp16,stochastic,100000,rms_error", 0.216, 0.001}});
    for (const auto& [terms, sum, flushed] : {std::tuple(100, 1.634766, 1.634766), std::tuple(1000, 1.643555, 1.636719),
                                              std::tuple(10000, 1.644531, 1.636719), std::tuple(100000, 1.644531, 1.636719)}) {
        const std::string row = "squares,fp16,nearest_even," + std::to_string(terms) + ",";
        check_figures(rows, {{(row + "sum").c_str(), sum, 5e-7}, {(row + "sum_flushed").c_str(), flushed, 5e-7}});
    }
    // Pairs are counted by an enumeration with rational numbers, too: 54364 and 53312 products are within range. In fp6 the
    // largest number holds what overflows inside TwoSum, so that none fails to nearest.
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
                         {"transforms,e2m3fn,toward_zero,3632,two_sum_fails", 0, 0},
                         {"transforms,e3m2fn,toward_zero,3912,two_sum_fails", 480, 0},
                         {"transforms,e3m2fn,nearest_even,2016,fast_two_sum_fails", 0, 0},
                         {"transforms,e3m2fn,toward_zero,2016,fast_two_sum_fails", 168, 0},
                         {"transforms,e3m2fn,nearest_even,3296,two_product_fails", 640, 0}});
}

TEST_CASE("time steps of the heat equation freeze in bf16 and fp16, and stochastic ones do not", "[program][atlas]") {
    const std::map<std::string, std::string> rows = rows_of_atlas("heat 20");
    check_figures(rows, {{"heat,bf16,nearest_even,20,error", 0.203, 0.001},
                         {"heat,bf16,nearest_even,20,frozen_at", 253, 0},
                         {"heat,fp16,nearest_even,20,error", 0.0435, 0.0001},
                         {"heat,fp16,nearest_even,20,frozen_at", 572, 0},
                         {"heat,bf16,stochastic,20,error", 0.0062, 0.0001},
                         {"heat,fp16,stochastic,20,error", 0.00069, 0.00001}});
    CHECK(std::system("'" MACHEPS_ATLAS "' cold >/dev/null 2>&1") != 0);
}

TEST_CASE("time steps on finer grids have the figures of their table", "[program][atlas][slow]") {
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
