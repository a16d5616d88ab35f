// SPDX-License-Identifier: Apache-2.0
// Tests of grouped matrix products. Groups have different sizes, and some have room for more rows than they use. The
// kernel must not write the unused rows.
#include "experiments/check/inputs/coverage.hpp"
#include "experiments/check/inputs/input_files.hpp"
#include "experiments/check/inputs/recipe_file.hpp"
#include "tests/check/problems.hpp"

#include <bit>
#include <cstring>

namespace groups_test {

using namespace macheps;
using namespace macheps::check;
using namespace macheps::test;
using namespace macheps::files;

namespace {

InputPlan plan_of(const std::string& text) {
    const std::vector<InputPlan> plans = parse_plans(text, "recipe.toml");
    REQUIRE(plans.size() == 1);
    return plans.front();
}

std::string refused(const std::string& text) {
    try {
        plan_of(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

const StoredArray& named(const std::vector<StoredArray>& arrays, std::string_view name) {
    return *std::find_if(arrays.begin(), arrays.end(), [&](const StoredArray& each) { return each.name == name; });
}

float bf16_at(const StoredArray& array, std::int64_t i) {
    std::uint16_t code = 0;
    std::memcpy(&code, array.bytes.data() + 2 * i, 2);
    return std::bit_cast<float>(std::uint32_t{code} << 16);
}

std::int32_t size_of(const StoredArray& groups, std::size_t g) {
    std::int32_t size = 0;
    std::memcpy(&size, groups.bytes.data() + 4 * g, 4);
    return size;
}

/// Runs a grouped kernel, which writes `out`. Each group has room for `room` rows. If `room` is 0, the groups follow
/// each other without unused rows.
void run_kernel(std::vector<StoredArray>& arrays, std::int64_t room, std::int64_t k, std::int64_t n,
                bool writes_all = false, std::int64_t wrong_b = 0) {
    const StoredArray a = named(arrays, "a"), b = named(arrays, "b"), groups = named(arrays, "groups");
    auto& out = *std::find_if(arrays.begin(), arrays.end(), [](const StoredArray& each) { return each.name == "out"; });
    std::int64_t row = 0;
    for (std::size_t g = 0; g < groups.count(); ++g) {
        if (room > 0) row = static_cast<std::int64_t>(g) * room;
        const std::int64_t rows = writes_all ? room : size_of(groups, g),
                           matrix = std::max<std::int64_t>(static_cast<std::int64_t>(g) - wrong_b, 0);
        for (std::int64_t r = row; r < row + rows; ++r) {
            for (std::int64_t j = 0; j < n; ++j) {
                float sum = 0;
                for (std::int64_t p = 0; p < k; ++p)
                    sum += bf16_at(a, r * k + p) * bf16_at(b, (matrix * k + p) * n + j);
                const auto code = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(kernels::to_bf16(sum)) >> 16);
                std::memcpy(out.bytes.data() + 2 * (r * n + j), &code, 2);
            }
        }
        row += rows;
    }
}

constexpr const char* compact = R"(
[recipe]
op = "gemm"; a = "bf16"; b = "bf16"; out = "bf16"; n = 40; k = 50; canaries = 1
groups = [20, 0, 17, 1])";
constexpr const char* padded = R"(
[recipe]
op = "gemm"; a = "bf16"; b = "bf16"; out = "bf16"; n = 40; k = 50; canaries = 1
groups = [20, 0, 17, 1]; group_rows = 24)";

Verdict judged(const MadeInputs& inputs, const std::vector<StoredArray>& arrays) {
    return judge_arrays(inputs.request.declaration, arrays, {.require = Power::null});
}

}  // namespace

TEST_CASE("inputs for a grouped product have a matrix b for each group, and correct kernels pass on them",
          "[check][groups]") {
    const bool is_padded = GENERATE(false, true);
    const std::int64_t room = is_padded ? 24 : 0;
    const InputPlan plan = plan_of(is_padded ? padded : compact);
    CHECK(plan.request.m == (is_padded ? 96 : 38));
    int judged_inputs = 0;
    for (const MadeInputs& inputs : all_inputs(plan)) {
        if (inputs.name != "normal" && !inputs.name.starts_with("groups")) continue;
        CAPTURE(is_padded, inputs.name);
        std::vector<StoredArray> arrays = stored_inputs(inputs);
        CHECK(named(arrays, "b").shape == std::vector<std::int64_t>{4, 50, 40});
        CHECK(named(arrays, "a").shape ==
              (is_padded ? std::vector<std::int64_t>{4, 24, 50} : std::vector<std::int64_t>{38, 50}));
        run_kernel(arrays, room, 50, 40);
        const Verdict right = judged(inputs, arrays);
        CAPTURE(codes(right));
        CHECK(right.outcome == Outcome::pass);
        // A kernel that multiplies each group by the b of the previous group fails. It passes only if the first group
        // has all rows.
        run_kernel(arrays, room, 50, 40, false, 1);
        CHECK((judged(inputs, arrays).outcome == Outcome::fail) == (inputs.name != "groups-first"));
        ++judged_inputs;
    }
    CHECK(judged_inputs == 4);
}

TEST_CASE("a kernel must not write unused rows of a group or rows of an empty group", "[check][groups]") {
    const InputPlan plan = plan_of(padded);
    const MadeInputs inputs = all_inputs(plan).front();
    std::vector<StoredArray> arrays = stored_inputs(inputs);
    run_kernel(arrays, 24, 50, 40);
    REQUIRE(judged(inputs, arrays).outcome == Outcome::pass);
    auto& out = *std::find_if(arrays.begin(), arrays.end(), [](const StoredArray& each) { return each.name == "out"; });
    // This element belongs to the empty group.
    const std::size_t place = (24 + 3) * 40 + 7;
    out.bytes[2 * place] = static_cast<char>(out.bytes[2 * place] ^ 1);
    const Verdict touched = judged(inputs, arrays);
    CHECK(touched.outcome == Outcome::fail);
    REQUIRE(!touched.reasons.empty());
    CHECK(touched.reasons.front().text.find("element " + std::to_string(place) + " of the output") !=
          std::string::npos);
    // A kernel that writes all rows, including the unused ones, fails.
    arrays = stored_inputs(inputs);
    run_kernel(arrays, 24, 50, 40, true);
    CHECK(codes(judged(inputs, arrays)).find("KC011") != std::string::npos);
    // If no canaries are declared, the unused rows are not checked.
    Declaration silent = inputs.request.declaration;
    silent.canaries = 0;
    for (StoredArray& array : arrays) {
        if (array.name != "out") continue;
        array.shape.front() -= 1;
        array.bytes.resize(array.bytes.size() / 5 * 4);
    }
    CHECK(judge_arrays(silent, arrays, {.require = Power::null}).outcome == Outcome::pass);
    // A wrong element is reported by its index in the whole output.
    arrays = stored_inputs(inputs);
    run_kernel(arrays, 24, 50, 40);
    const std::size_t wrong = (2 * 24 + 5) * 40 + 11;
    out.bytes[2 * wrong + 1] = static_cast<char>(out.bytes[2 * wrong + 1] ^ 0x40);
    const Verdict verdict = judged(inputs, arrays);
    REQUIRE(!verdict.reasons.empty());
    CHECK(verdict.reasons.front().index == static_cast<std::int64_t>(wrong));
}

TEST_CASE("group sizes that do not fit the arrays are bad input", "[check][groups]") {
    const MadeInputs inputs = all_inputs(plan_of(padded)).front();
    const auto message = [&](std::int32_t size, std::size_t count) {
        std::vector<StoredArray> arrays = stored_inputs(inputs);
        for (StoredArray& array : arrays) {
            if (array.name != "groups") continue;
            for (std::size_t g = 0; g < 4; ++g) std::memcpy(array.bytes.data() + 4 * g, &size, 4);
            array.shape = {static_cast<std::int64_t>(count)};
            array.bytes.resize(4 * count);
        }
        try {
            judged(inputs, arrays);
        } catch (const Error& error) {
            return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
        }
        return std::string("accepted");
    };
    CHECK(message(25, 4).find("3 ") == 0);
    CHECK(message(25, 4).find("a group cannot have 25 rows, because it has room for 24") != std::string::npos);
    CHECK(message(-1, 4).find("a group cannot have -1 rows") != std::string::npos);
    CHECK(message(1, 3).find("the array has 3 numbers, but b has 4 matrices") != std::string::npos);
    CHECK(message(0, 4).find("all groups are empty") != std::string::npos);
}

TEST_CASE("the inputs of a grouped recipe reveal a kernel that uses the matrix b of the previous group",
          "[check][groups]") {
    for (const char* text : {compact, padded}) {
        const Coverage coverage = coverage_of(all_inputs(plan_of(text)), 1e-9, pool());
        bool is_seen = false;
        for (const Coverage::Line& line : coverage.lines) {
            if (line.mutant == "a group with the b of the one before it") is_seen = coverage.is_caught(line);
        }
        CHECK(is_seen);
        CHECK(coverage.blind(Power::structure).empty());
    }
}

TEST_CASE("a recipe with invalid groups is rejected", "[check][groups]") {
    const std::string head = "[recipe]\nop = \"gemm\"; a = \"bf16\"; b = \"bf16\"; out = \"bf16\"\n";
    CHECK(refused(head + "groups = [0, 0]").find("all groups are empty") != std::string::npos);
    CHECK(refused(head + "groups = []").find("all groups are empty") != std::string::npos);
    CHECK(refused(head + "groups = [4, -1]").find("a group cannot have -1 rows") != std::string::npos);
    CHECK(refused(head + "groups = [4, 9]; group_rows = 8").find("a group cannot have 9 rows") != std::string::npos);
    CHECK(refused(head + "group_rows = 8").find("there are no groups") != std::string::npos);
    CHECK(refused(head + "m = 8; groups = [8]").find("m cannot be combined with groups") != std::string::npos);
    CHECK(refused(head + "batches = 2; groups = [8]").find("batches and groups cannot be combined") !=
          std::string::npos);
    CHECK(refused("[recipe]\nop = \"sum\"; x = \"bf16\"; groups = [8]").find("has no groups") != std::string::npos);
    CHECK(refused(head + "groups = 8").find("a list") != std::string::npos);
}

}  // namespace groups_test
