// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/gallery.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "experiments/study/solve/equilibrate.hpp"
#include "experiments/study/solve/factor/lu.hpp"
#include "tests/study/codes.hpp"
#include "tests/test.hpp"

namespace gallery_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::test;

TEST_CASE("random elements of matrices come from the same 53-bit draws as random operands", "[analysis][gallery]") {
    CHECK(unit_draw(Operand::a, 0, 0, 0) == 0.30052304014136377);
    CHECK(unit_draw(Operand::a, 0, 0, 1) == 0.2635770984986231);
    CHECK(unit_draw(Operand::a, 0, 1, 0) == 0.16015898173837939);
    CHECK(right_hand_side(3, 7)[2] == 2 * unit_draw(Operand::b, 7, 0, 2) - 1);
}

TEST_CASE("randsvd and its fp16 factors have the published bits", "[analysis][gallery]") {
    struct Case {
        const char* name;
        std::uint64_t hash;
        double first, last;
        std::uint64_t factors;
        double corner;
    };
    const Case c = GENERATE(
        Case{"randsvd:1e3,2", 0xa11d69aa67793850, 0x1.f68d7bdf5a4dbp-1, 0x1.474f6c6c4e7cep-4, 0x79301de57852263f,
             -70.25},
        Case{"randsvd:1e3", 0xddfde9652591cea3, 0x1.f686399411e1ap-1, -0x1.c1aac57f8ebcap-8, 0x23335198f9c2a640, -115},
        Case{"randsvd:1e6,3", 0xbb8d7b47638eaa3d, 0x1.f691d7cfa9ad2p-1, -0x1.60b229432b2bp-11, 0x449e049b96311f60,
             -0.0903930664});
    CAPTURE(c.name);
    const Matrix a = make_matrix(parse_matrix(c.name), 100, 0);
    CHECK(hash_of(a.values) == c.hash);
    CHECK(a(0, 0) == c.first);
    CHECK(a(99, 99) == c.last);
    const Equilibration scaling = equilibrate(a, fp16, Scale::scalar);
    CHECK(scaling.mu == 12);
    CastCounts counts;
    ThreadPool pool(1);
    const Factors factors = factor_lu(cast_matrix(a, scaling, fp16, counts), {.format = fp16}, pool);
    REQUIRE(factors.is_regular);
    CHECK(hash_of_codes(fp16, factors.lu.values) == c.factors);
    CHECK(factors.lu(99, 99) == Approx(c.corner).epsilon(1e-9));
}

TEST_CASE("the elements of gallery matrices follow their formulas", "[analysis][gallery]") {
    const auto made = [](const char* name, std::int64_t n) { return make_matrix(parse_matrix(name), n, 0); };
    CHECK(made("hilbert", 3)(1, 2) == 1.0 / 4);
    CHECK(made("lehmer", 4)(1, 3) == 2.0 / 4);
    CHECK(made("minij", 4)(2, 3) == 3);
    CHECK(made("moler", 4)(2, 2) == 3);
    CHECK(made("moler", 4)(2, 3) == 1);
    CHECK(made("tridiag:-1,2,5", 4)(2, 1) == -1);
    CHECK(made("tridiag:-1,2,5", 4)(2, 3) == 5);
    CHECK(made("tridiag:-1,2,5", 4)(0, 3) == 0);
    CHECK(made("kahan:1.2", 3)(1, 0) == 0);
    const Matrix dominant = made("hplmxp", 5);
    CHECK(dominant(2, 2) == ((std::fabs(dominant(2, 0)) + std::fabs(dominant(2, 1))) + std::fabs(dominant(2, 3))) +
                                std::fabs(dominant(2, 4)));
    // The textbook example of element growth in LU: the last column of U doubles in every step.
    ThreadPool pool(1);
    const Matrix wilkinson = made("wilkinson", 20);
    const Factors factors = factor_lu(wilkinson, {.format = fp64}, pool);
    CHECK(growth_factor(wilkinson, factors) == 0x1p19);
}

TEST_CASE("unknown matrices and wrong parameters are refused with a reason", "[analysis][gallery]") {
    struct Case {
        const char *text, *told;
    };
    const Case c =
        GENERATE(Case{"randsdv:1e3", "did you mean randsvd?"}, Case{"randsvd", "wrong number of parameters: 0"},
                 Case{"randsvd:0.5", "below 1"}, Case{"randsvd:1e3,5", "no mode 5"},
                 Case{"randsvd:x", "'x' is not a finite number"}, Case{"tridiag:1,2", "wrong number of parameters: 2"},
                 Case{"file:", "the path of the file is missing"}, Case{"hilbert:inf", "not a finite number"});
    CAPTURE(c.text);
    try {
        parse_matrix(c.text);
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        CHECK(std::string(error.what()).find(c.told) != std::string::npos);
    }
}

}  // namespace gallery_test
