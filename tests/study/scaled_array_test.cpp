// SPDX-License-Identifier: Apache-2.0
// Compares codes, scales and values of scaled arrays with the shared test vectors, and checks the error messages.
#include "experiments/study/scale/scaled_array.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "tests/study/recipe_vectors.hpp"

#include <limits>
#include <utility>

namespace scaled_array_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::study;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

ScaledArray scaled(const ScaledArrayChoice& choice, const std::vector<float>& x, std::int64_t rows,
                   std::int64_t columns) {
    CpuBackend backend(1);
    return scale_array(backend, scaled_cast_of(choice, rows, columns), x, rows, columns);
}

}  // namespace

TEST_CASE("scaled arrays have the codes, scales and values of the shared test vectors", "[scaling][shared]") {
    if (vectors().empty() || !std::filesystem::exists(vectors())) SKIP_TEST("no shared vectors");
    int count = 0;
    for (const json& line : lines_of_kind(vectors(), "convert")) {
        const std::string format_word = line.at("format"), granularity = line.at("granularity"), rule = line.at("rule");
        CAPTURE(rule, granularity, format_word, std::string(line.at("cls")), ++count);
        const Format format = format_named(format_word);
        const std::int64_t rows = line.at("shape")[0], columns = line.at("shape")[1];
        ScaledArrayChoice choice{.format = format, .granularity = granularity, .scale_rule = rule};
        if (line.at("axis") == 0 && granularity != "column") choice.axis = 0;
        const ScaledArray made = scaled(choice, floats_of(line.at("x")), rows, columns);
        CHECK(made.grid.rows == line.at("grid")[0]);
        CHECK(made.grid.columns == line.at("grid")[1]);
        CHECK(same(made.scales, floats_of(line.at("scales"))));
        CHECK(same_codes(format, made.codes, line.at("codes")));
        CHECK(made.scale_codes.empty() != line.contains("bytes"));
        if (line.contains("bytes")) {
            const bool is_e4m3 = made.tensor_scale.has_value();
            CHECK(same_codes(is_e4m3 ? e4m3fn : e8m0fnu, {made.scale_codes.begin(), made.scale_codes.end()},
                             line.at("bytes")));
        }
        CHECK(made.tensor_scale.has_value() == line.contains("tensor_scale"));
        if (made.tensor_scale) CHECK(same(*made.tensor_scale, floats_of(line.at("tensor_scale")).front()));
        CHECK(same(made.decoded, floats_of(line.at("decoded"))));
    }
    CHECK(count >= 464);
}

TEST_CASE("arrays of zeros, infinities and NaN are scaled as the libraries do", "[scaling]") {
    const std::vector<float> zeros(32, 0.0f);
    const ScaledArray te =
        scaled({.format = e4m3fn, .granularity = "tensor", .scale_rule = "te_current"}, zeros, 1, 32);
    CHECK(te.scales == std::vector<float>{1});
    const ScaledArray ao = scaled({.format = e4m3fn, .granularity = "tensor"}, zeros, 1, 32);
    CHECK(ao.scales == std::vector<float>{1.0f / static_cast<float>(448 / 1e-12)});
    CHECK(ao.codes == std::vector<std::uint32_t>(32, 0));
    const ScaledArray mx = scaled({.format = e4m3fn, .granularity = "mx32"}, zeros, 1, 32);
    CHECK(mx.scale_codes == std::vector<std::uint8_t>{0});

    std::vector<float> odd(32, 1.0f);
    odd[3] = inf;
    const auto code_of_inf = [&](const char* rule) {
        const ScaledArray made = scaled({.format = e4m3fn, .granularity = "mx32", .scale_rule = rule}, odd, 1, 32);
        return std::pair(made.scale_codes.front(), made.codes[3]);
    };
    CHECK(code_of_inf("te_mxfp8") == std::pair<std::uint8_t, std::uint32_t>(254, 0x7e));
    CHECK(code_of_inf("ao_rceil").first == 255);
    odd[3] = std::nanf("");
    const ScaledArray dropped =
        scaled({.format = e4m3fn, .granularity = "tensor", .scale_rule = "te_current"}, odd, 1, 32);
    CHECK(dropped.scales == std::vector<float>{1.0f / 448});
    CHECK(dropped.codes[3] == 0x7f);
    CHECK(dropped.codes[0] == 0x7e);
    const ScaledArray propagated = scaled({.format = e4m3fn, .granularity = "tensor"}, odd, 1, 32);
    CHECK(std::isnan(propagated.scales.front()));
    CHECK(propagated.codes == std::vector<std::uint32_t>(32, 0x7f));

    // e2m1fn has no NaN. A rule that ignores NaN saturates the element; the other rules give a NaN.
    const auto decoded = [&](const char* rule) {
        return scaled({.format = e2m1fn, .granularity = "nvfp4", .scale_rule = rule}, odd, 1, 32).decoded;
    };
    const std::vector<float> ignored = decoded("te_nvfp4"), kept = decoded("ao_nvfp4");
    CHECK(ignored[3] == ignored[0]);  // 1 is the amax, so its code is also that of the largest number
    CHECK(std::isnan(kept[3]));
}

TEST_CASE("a block of 32 x 32 elements has one scale, whichever axis a matmul sums", "[scaling]") {
    std::vector<float> x(64 * 96);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::ldexp(static_cast<float>(i * 37 % 101) - 50, static_cast<int>(i * 7 % 5));
    x[40 * 96 + 70] = 3e5f;  // in the last block
    const ScaledArray rows = scaled({.format = e4m3fn, .granularity = "mx32_32x32"}, x, 64, 96),
                      columns = scaled({.format = e4m3fn, .granularity = "mx32_32x32", .axis = 0}, x, 64, 96);
    REQUIRE(rows.scale_codes.size() == 6);
    CHECK(rows.scale_codes == columns.scale_codes);
    CHECK(rows.codes == columns.codes);
    CHECK(rows.decoded == columns.decoded);
    // The amax of a block determines its scale. In the last block, 3e5 / 448 = 670 is rounded up to 2^10. In the other
    // blocks, 50 * 16 = 800 gives 2.
    CHECK(rows.scale_codes == std::vector<std::uint8_t>{128, 128, 128, 128, 128, 137});
    // The same numbers in blocks along a row have separate scales.
    CHECK(scaled({.format = e4m3fn, .granularity = "mx32"}, x, 64, 96).scale_codes.size() == 192);
}

TEST_CASE("an array that cannot be scaled is refused, and the error suggests a valid choice", "[scaling]") {
    struct ArrayCase {
        ScaledArrayChoice choice;
        const char* says;
    };
    for (const ArrayCase& c : std::vector<ArrayCase>{
             {{.format = e4m3fn, .granularity = "1x12"}, "did you mean '1x128'?"},
             {{.format = e4m3fn, .granularity = "none"}, "unknown granularity"},
             {{.format = e4m3fn, .granularity = "tensor", .scale_rule = "te_curent"}, "did you mean 'te_current'?"},
             {{.format = e4m3fn, .granularity = "mx32", .scale_rule = "te_current"}, "one of te_mxfp8, ao_rceil"},
             {{.format = e4m3fn, .granularity = "tensor", .scale_rule = "te_delayed"}, "macheps scale traces this one"},
             {{.format = e4m3fn, .granularity = "nvfp4"}, "use the format e2m1fn"},
             {{.format = fp64, .granularity = "tensor"}, "cannot be the format of scaled elements"},
             {{.format = e4m3fn, .granularity = "row", .axis = 0}, "use column"},
             {{.format = e4m3fn, .granularity = "column", .axis = 1}, "use row"},
             {{.format = e4m3fn, .granularity = "mx32"}, "40 columns cannot be divided into blocks of 32"},
             {{.format = e4m3fn, .granularity = "mx32", .axis = 0}, "16 rows cannot be divided into blocks of 32"},
             {{.format = e2m1fn, .granularity = "nvfp4_16x16"}, "40 columns cannot be divided into blocks of 16"}}) {
        CAPTURE(c.says);
        try {
            scaled_cast_of(c.choice, 16, 40);
            FAIL("nothing was refused");
        } catch (const Error& error) {
            CHECK(std::string(error.what()).find(c.says) != std::string::npos);
            CHECK(error.exit() == Exit::usage);
        }
    }
}

}  // namespace scaled_array_test
