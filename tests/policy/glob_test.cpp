// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/sites.hpp"
#include "tests/test.hpp"

#include <random>
#include <string>
#include <string_view>
#include <utility>

namespace glob_test {

using namespace macheps;
using namespace macheps::policy;

TEST_CASE("a glob matches whole names: * is any text, ? is one character, braces list alternatives",
          "[experiments][policy]") {
    struct Case {
        const char *pattern, *name;
        bool matches;
        const char* why;
    };
    const Case cases[] = {
        {"embed", "embed", true, "a name matches itself"},
        {"embed", "embedding", false, "the whole name must match"},
        {"embed", "xembed", false, "from the start"},
        {"", "", true, "an empty pattern matches an empty name"},
        {"", "a", false, "and no other name"},
        {"*", "", true, "a star may be empty"},
        {"*", "block.0.mlp.up", true, "a star crosses dots"},
        {"block.*.mlp.up", "block.12.mlp.up", true, "a star matches several characters"},
        {"block.*.up", "block.0.mlp.up", true, "and dots"},
        {"block*up", "block.0.mlp.up", true, "also if the dot comes first"},
        {"block.*.mlp.up", "block.0.mlp.upper", false, "the text after a star must reach the end of the name"},
        {"block.?.mlp.up", "block.7.mlp.up", true, "a question mark matches one character"},
        {"block.?.mlp.up", "block.12.mlp.up", false, "not two"},
        {"a?", "a", false, "and not zero"},
        {"a.b", "axb", false, "a dot is a dot"},
        {"block.*.{attn.qkv,mlp.up}", "block.0.attn.qkv", true, "first alternative"},
        {"block.*.{attn.qkv,mlp.up}", "block.0.mlp.up", true, "second alternative"},
        {"block.*.{attn.qkv,mlp.up}", "block.0.mlp.down", false, "no alternative"},
        {"{a,b{c,d}}x", "bdx", true, "alternatives nest"},
        {"{a,b{c,d}}x", "bx", false, "the nested one is not optional"},
        {"{,grad.}in", "in", true, "an alternative may be empty"},
        {"{*.,}a", "x.y.a", true, "a star inside an alternative"},
        {"{a,ab}c", "abc", true, "the longer alternative is tried as well"},
        {"{a", "{a", true, "a brace that does not close is a character"},
        {"a}", "a}", true, "so is a closing brace without an opening one"},
        {"*:forward.out", "block.0.mlp.up:forward.out", true, "slots are names too"},
        {"*:*.{a,b}", "lm_head:input_grad.b", true, "a pattern for all operands"},
        {"*:*.{a,b}", "lm_head:forward.bias", false, "bias begins with b but is longer"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.pattern, c.name, c.why);
        CHECK(glob_match(c.pattern, c.name) == c.matches);
    }
}

namespace {

/// Returns the position of the first opening brace that has a matching closing brace, and the position of the closing
/// brace. If no brace has a match, the first position is npos.
std::pair<std::size_t, std::size_t> first_brace(const std::string& pattern) {
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '{') continue;
        for (std::size_t k = i, depth = 0; k < pattern.size(); ++k) {
            depth += pattern[k] == '{';
            if (pattern[k] == '}' && --depth == 0) return {i, k};
        }
    }
    return {std::string::npos, 0};
}

/// Returns whether the pattern matches the name. Tries every alternative of braces and every length of a star.
bool matches_by_trial(const std::string& pattern, const std::string& name) {
    if (const auto [open, close] = first_brace(pattern); open != std::string::npos) {
        for (std::size_t i = open + 1, start = i, depth = 0; i <= close; ++i) {
            if (i == close || (pattern[i] == ',' && depth == 0)) {
                const std::string one = pattern.substr(start, i - start);
                if (matches_by_trial(pattern.substr(0, open) + one + pattern.substr(close + 1), name)) return true;
                start = i + 1;
            }
            depth += pattern[i] == '{' ? 1u : 0u;
            depth -= pattern[i] == '}' && depth > 0 ? 1u : 0u;
        }
        return false;
    }
    if (pattern.empty()) return name.empty();
    if (pattern[0] == '*')
        return matches_by_trial(pattern.substr(1), name) ||
               (!name.empty() && matches_by_trial(pattern, name.substr(1)));
    return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
           matches_by_trial(pattern.substr(1), name.substr(1));
}

}  // namespace

TEST_CASE("a glob matches the same names as an exhaustive search", "[experiments][policy]") {
    std::mt19937 random(1);
    const auto text = [&](std::string_view signs, std::size_t most) {
        std::string made;
        for (std::size_t n = random() % most; n > 0; --n) made += signs[random() % signs.size()];
        return made;
    };
    int matched = 0;
    for (int i = 0; i < 20000; ++i) {
        const std::string pattern = text("ab*?{},{}", 10), name = text("aab,", 6);
        if (!braces_match(pattern)) continue;  // policies refuse such patterns
        CAPTURE(pattern, name);
        const bool expected = matches_by_trial(pattern, name);
        if (glob_match(pattern, name) != expected) FAIL_CHECK("glob_match and the exhaustive search differ");
        matched += expected;
    }
    CHECK(matched > 300);
}

TEST_CASE("matching a glob never takes exponential time", "[experiments][policy]") {
    std::string pattern, braces;
    for (int i = 0; i < 40; ++i) pattern += "*a", braces += "{a,aa,aaa}";
    CHECK_FALSE(glob_match(pattern + "b", std::string(200, 'a')));
    CHECK_FALSE(glob_match(braces + "b", std::string(100, 'a')));
    CHECK(glob_match(braces, std::string(100, 'a')));
}

TEST_CASE("the time of a match is at most proportional to the length of the glob times the length of the name",
          "[experiments][policy]") {
    // A matcher that needs quadratic or cubic time for one of these patterns would run for minutes.
    const std::size_t half = 20'000;
    const std::string open(half, '{'), close(half, '}');
    CHECK_FALSE(glob_match(open, "a"));
    CHECK_FALSE(glob_match(open + "a", "a"));
    CHECK(glob_match(std::string(250, '{') + "a" + std::string(250, '}'), "a"));
    std::string commas = "{";
    for (std::size_t i = 0; i < half; ++i) commas += "{b,c},";
    CHECK(glob_match(commas + "a}", "a"));
}

TEST_CASE("the length and the depth of a pattern are limited", "[experiments][policy]") {
    const auto nested = [](std::size_t levels) { return std::string(levels, '{') + "a" + std::string(levels, '}'); };
    CHECK(problem_of_pattern(std::string(4096, 'a')).empty());
    CHECK(problem_of_pattern(std::string(4097, 'a')) == "the pattern has 4097 bytes, more than 4096");
    CHECK(problem_of_pattern(nested(256)).empty());
    CHECK(problem_of_pattern(nested(257)) == "its braces nest deeper than 256 levels");
    CHECK(problem_of_pattern(std::string(257, '{')) == "its braces nest deeper than 256 levels");
    std::string wide;
    for (int i = 0; i < 1000; ++i) wide += "{a}";
    CHECK(problem_of_pattern(wide).empty());
}

TEST_CASE("unbalanced braces are detected", "[experiments][policy]") {
    CHECK(braces_match("a{b,{c}}"));
    CHECK_FALSE(braces_match("a{b"));
    CHECK_FALSE(braces_match("a}b"));
    CHECK_FALSE(braces_match("}{"));
}

TEST_CASE("every kind of site has the expected slots and matmuls", "[experiments][policy]") {
    CHECK(slots_of({.name = "x", .kind = SiteKind::linear}).size() == 13);
    CHECK(slots_of({.name = "x", .kind = SiteKind::product}).size() == 10);
    CHECK(slots_of({.name = "x", .kind = SiteKind::product, .scaled = true}).size() == 12);
    CHECK(slots_of({.name = "x", .kind = SiteKind::elementwise}).size() == 3);
    CHECK(slots_of({.name = "x", .kind = SiteKind::loss}).size() == 3);
    CHECK(std::size(parameter_slots) == 7);
    CHECK(matmuls_of({.name = "x", .kind = SiteKind::linear}) ==
          std::vector<std::string_view>{"forward", "input_grad", "weight_grad"});
    CHECK(matmuls_of({.name = "x", .kind = SiteKind::product}) ==
          std::vector<std::string_view>{"forward", "grad_a", "grad_b"});
    CHECK(matmuls_of({.name = "x", .kind = SiteKind::loss}).empty());
}

}  // namespace glob_test
