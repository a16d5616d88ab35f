// SPDX-License-Identifier: Apache-2.0
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <map>
#include <set>

namespace format_test {

using namespace macheps;

TEST_CASE("each format has the expected range, unit roundoff, special values and number of finite codes",
          "[core][format]") {
    struct Case {
        const char* name;
        std::uint64_t max_code;
        double max, min_normal, least, unit_roundoff;
        bool infinite, negative_zero;
        int finite_codes;  // 0: too many to count
    };
    const auto c = GENERATE(values<Case>({
        {"fp64", 0x7fefffffffffffff, 0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074, 0x1p-53, true, true, 0},
        {"fp32", 0x7f7fffff, 0x1.fffffep127, 0x1p-126, 0x1p-149, 0x1p-24, true, true, 0},
        {"tf32", 0x7f7fe000, 0x1.ffcp127, 0x1p-126, 0x1p-136, 0x1p-11, true, true, 522240},
        {"fp16", 0x7bff, 65504, 0x1p-14, 0x1p-24, 0x1p-11, true, true, 63488},
        {"bf16", 0x7f7f, 0x1.fep127, 0x1p-126, 0x1p-133, 0x1p-8, true, true, 65280},
        {"e4m3fn", 0x7e, 448, 0x1p-6, 0x1p-9, 0x1p-4, false, true, 254},
        {"e5m2", 0x7b, 57344, 0x1p-14, 0x1p-16, 0x1p-3, true, true, 248},
        {"e4m3fnuz", 0x7f, 240, 0x1p-7, 0x1p-10, 0x1p-4, false, false, 255},
        {"e5m2fnuz", 0x7f, 57344, 0x1p-15, 0x1p-17, 0x1p-3, false, false, 255},
        {"e4m3b11fnuz", 0x7f, 30, 0x1p-10, 0x1p-13, 0x1p-4, false, false, 255},
        {"e3m4", 0x6f, 15.5, 0x1p-2, 0x1p-6, 0x1p-5, true, true, 224},
        {"e4m3ieee", 0x77, 240, 0x1p-6, 0x1p-9, 0x1p-4, true, true, 240},
        {"e8m0fnu", 0xfe, 0x1p127, 0x1p-127, 0x1p-127, 0.5, false, false, 255},
        {"e2m3fn", 0x1f, 7.5, 1, 0x1p-3, 0x1p-4, false, true, 64},
        {"e3m2fn", 0x1f, 28, 0x1p-2, 0x1p-4, 0x1p-3, false, true, 64},
        {"e2m1fn", 0x7, 6, 1, 0x1p-1, 0x1p-2, false, true, 16},
        {"mxint8", 0x7f, 1.984375, 0x1p-6, 0x1p-6, 0x1p-7, false, false, 256},
    }));
    CAPTURE(c.name);
    const Format f = format_named(c.name);
    CHECK(f.max_finite_code() << f.padding == c.max_code);
    CHECK(decode64(f, c.max_code) == c.max);
    CHECK(f.unit_roundoff() == c.unit_roundoff);
    CHECK(f.has_inf() == c.infinite);
    CHECK(f.has_negative_zero() == c.negative_zero);
    const std::uint64_t least = f.has_zero() ? 1 : 0;
    CHECK(decode64(f, least << f.padding) == c.least);
    if (f.encoding != Encoding::fixed_point) {
        CHECK(Format::power_of_two(f.emin()) == c.min_normal);
        if (f.has_zero()) CHECK(decode64(f, f.min_normal_code() << f.padding) == c.min_normal);
    }
    if (c.finite_codes != 0) {
        int finite = 0;
        std::set<double> distinct;
        for (std::uint64_t code = 0; code < std::uint64_t{1} << f.bits; ++code) {
            const double value = decode64(f, code << f.padding);
            if (!std::isfinite(value)) continue;
            ++finite;
            distinct.insert(value);
        }
        CHECK(finite == c.finite_codes);
        CHECK(static_cast<int>(distinct.size()) == c.finite_codes - (c.negative_zero ? 1 : 0));
    }
}

TEST_CASE("every name in the format table belongs to only one format, and a search for it finds that format",
          "[core][format]") {
    std::map<std::string, std::string_view> owner;
    for (const auto& row : all_formats) {
        CAPTURE(row.name);
        CHECK(format_named(row.name) == row.format);
        CHECK(format_name(row.format) == row.name);
        for (const auto cell : row.aliases.cells()) {
            for (const auto alias : split_names(cell)) {
                CAPTURE(alias);
                const auto [place, fresh] = owner.emplace(lowered(alias), row.name);
                CHECK((fresh || place->second == row.name));
                if (alias == "E4M3") continue;  // OCP's name of e4m3fn; ambiguous and therefore refused
                REQUIRE(find_format(alias) != nullptr);
                CHECK(find_format(alias)->name == row.name);
            }
        }
    }
}

TEST_CASE("a format name from another system is resolved to the format that it denotes there", "[core][format]") {
    const auto [alias, name] = GENERATE(table<const char*, const char*>({
        {"float8_e4m3fn", "e4m3fn"},  // PyTorch, ml_dtypes
        {"F8_E4M3", "e4m3fn"},        // safetensors
        {".e4m3", "e4m3fn"},          // PTX
        {"f8E4M3FN", "e4m3fn"},       // LLVM
        {"f8E4M3", "e4m3ieee"},       // LLVM without suffix: IEEE-like
        {"float8_e4m3", "e4m3ieee"},  // ml_dtypes without suffix: IEEE-like
        {"CUDA_R_8F_UE8M0", "e8m0fnu"},
        {"__nv_bfloat16", "bf16"},
        {"half", "fp16"},
        {"FLOAT", "fp32"},           // ONNX
        {"float8e4b8", "e4m3fnuz"},  // Triton
        {"float4_e2m1fn_x2", "e2m1fn"},
    }));
    CAPTURE(alias);
    REQUIRE(find_format(alias) != nullptr);
    CHECK(find_format(alias)->name == name);
}

TEST_CASE("the ambiguous name e4m3 is refused, and a misspelt name is refused with a suggestion", "[core][format]") {
    struct Case {
        const char* name;
        const char* says;
    };
    const auto c = GENERATE(values<Case>({{"e4m3", "e4m3ieee"},
                                          {"E4M3", "e4m3fn"},
                                          {"fp8", "e5m2"},
                                          {"bf61", "did you mean bf16"},
                                          {"e4m3fm", "did you mean e4m3fn"},
                                          {"", "one of fp64, fp32"},
                                          {"posit<16,1>", "one of fp64, fp32"}}));
    CAPTURE(c.name);
    CHECK(find_format(c.name) == nullptr);
    try {
        format_named(c.name, "policy.toml:3");
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find(c.says) != std::string::npos);
        CHECK(std::string(error.what()).rfind("policy.toml:3: ", 0) == 0);
    }
}

TEST_CASE("edit distance counts insertions, deletions and replacements", "[core][names]") {
    CHECK(edit_distance("kitten", "sitting") == 3);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("BF16", "bf16") == 0);
    CHECK(nearest_name("amp-bf61", std::vector<std::string>{"amp-fp16", "amp-bf16"}) == "amp-bf16");
    CHECK(nearest_name("zzzz", std::vector<std::string>{"fp16", "bf16"}).empty());
}

}  // namespace format_test
