// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/eval/testfloat_function.hpp"

#include "core/comparison.hpp"
#include "core/conversion.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"

#include <fmt/format.h>

#include <charconv>
#include <vector>

namespace macheps::study {

using Kind = TestFloatType::Kind;
using Does = TestFloatFunction::Does;
using Relates = TestFloatFunction::Relates;

namespace {

std::optional<TestFloatType> parse_type(std::string_view name) {
    if (name == "ui32") return TestFloatType{Kind::unsigned_integer, {}, 32};
    if (name == "ui64") return TestFloatType{Kind::unsigned_integer, {}, 64};
    if (name == "i32") return TestFloatType{Kind::signed_integer, {}, 32};
    if (name == "i64") return TestFloatType{Kind::signed_integer, {}, 64};
    if (name == "f16") return TestFloatType{Kind::number, fp16};
    if (name == "f32") return TestFloatType{Kind::number, fp32};
    if (name == "f64") return TestFloatType{Kind::number, fp64};
    for (const NamedFormat& named : all_formats) {
        if (named.name == name) return TestFloatType{Kind::number, named.format};
    }
    return std::nullopt;
}

std::optional<TestFloatFunction> parse_conversion(std::string_view name) {
    TestFloatFunction function{.does = Does::convert};
    constexpr std::string_view suffix = "_r_minMag";
    if (name.ends_with(suffix)) {
        function.always_toward_zero = true;
        name.remove_suffix(suffix.size());
    }
    const auto at = name.find("_to_");
    if (at == std::string_view::npos) return std::nullopt;
    const auto from = parse_type(name.substr(0, at)), to = parse_type(name.substr(at + 4));
    if (!from || !to || (from->kind != Kind::number && to->kind != Kind::number)) return std::nullopt;
    if (function.always_toward_zero && to->kind == Kind::number) return std::nullopt;
    function.from = *from;
    function.to = *to;
    return function;
}

std::optional<TestFloatFunction> parse_operation(std::string_view name) {
    const auto at = name.find('_');
    if (at == std::string_view::npos) return std::nullopt;
    const auto type = parse_type(name.substr(0, at));
    if (!type || type->kind != Kind::number) return std::nullopt;
    const std::string_view word = name.substr(at + 1);
    const auto arithmetic = [](Operation operation, int operands) {
        return TestFloatFunction{.does = Does::arithmetic, .operation = operation, .operands = operands};
    };
    const auto comparison = [](Relates relates, bool signaling) {
        return TestFloatFunction{.does = Does::compare, .relates = relates, .signaling = signaling, .operands = 2};
    };
    const std::pair<std::string_view, TestFloatFunction> words[] = {
        {"add", arithmetic(Operation::add, 2)},
        {"sub", arithmetic(Operation::sub, 2)},
        {"mul", arithmetic(Operation::mul, 2)},
        {"div", arithmetic(Operation::div, 2)},
        {"sqrt", arithmetic(Operation::sqrt, 1)},
        {"mulAdd", arithmetic(Operation::fma, 3)},
        {"rem", {.does = Does::remainder, .operands = 2}},
        {"roundToInt", {.does = Does::round_to_integral}},
        {"eq", comparison(Relates::equal, false)},
        {"le", comparison(Relates::less_equal, true)},
        {"lt", comparison(Relates::less, true)},
        {"eq_signaling", comparison(Relates::equal, true)},
        {"le_quiet", comparison(Relates::less_equal, false)},
        {"lt_quiet", comparison(Relates::less, false)},
    };
    for (const auto& [known, meaning] : words) {
        if (known != word) continue;
        TestFloatFunction function = meaning;
        function.from = *type;
        function.to = function.does == Does::compare ? TestFloatType{Kind::boolean} : *type;
        return function;
    }
    return std::nullopt;
}

/// Returns the flags as TestFloat encodes them, in five bits.
unsigned flag_bits(Flags f) {
    return (f.inexact ? 1u : 0u) | (f.underflow ? 2u : 0u) | (f.overflow ? 4u : 0u) | (f.divide_by_zero ? 8u : 0u) |
           (f.invalid ? 16u : 0u);
}

std::optional<std::uint64_t> parse_hex(std::string_view text, int digits) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (static_cast<int>(text.size()) != digits || error != std::errc{} || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

/// Returns a mask of the bits that a value of the type may set. For example, fp6 does not use the two highest bits of
/// its two hexadecimal digits, and the low 13 bits of tf32 are zero.
std::uint64_t allowed(const TestFloatType& type) {
    if (type.kind == Kind::boolean) return 1;
    if (type.kind == Kind::number)
        return (type.format.sign_bit() | type.format.magnitude_mask()) << type.format.padding;
    return type.width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << type.width) - 1;
}

Rounded convert_integer(const TestFloatFunction& function, Round mode, std::uint64_t n) {
    const int width = function.from.width;
    const bool negative = function.from.kind == Kind::signed_integer && (n >> (width - 1)) != 0;
    const std::uint64_t magnitude = negative ? (~n + 1) & allowed(function.from) : n;
    return from_integer(function.to.format, magnitude, negative, mode);
}

std::uint64_t any_operand(const TestFloatType& type, int level, std::uint64_t random) {
    const std::uint64_t bits = random >> 8, choice = random & 15;
    if (type.kind != Kind::number) {
        const std::uint64_t mask = allowed(type),
                            power = std::uint64_t{1} << (bits % static_cast<unsigned>(type.width));
        if (choice < 4) return (power + (bits >> 6 & 3) - 1) & mask;
        if (choice < 8) return (~power + (bits >> 6 & 3)) & mask;
        return (choice < 12 ? bits & (power - 1) : random ^ random << 29) & mask;
    }
    const Format f = type.format;
    const std::uint64_t sign = bits & f.sign_bit(),
                        one = encode64(f, 1.0, Round::nearest_even, Overflow::saturate) >> f.padding;
    const std::uint64_t specials[] = {
        0, 1, f.min_normal_code(), f.max_finite_code(), f.inf_code(), f.nan_code(), f.inf_code() + 1, one};
    std::uint64_t code = random ^ random << 31;
    if (choice < (level > 1 ? 2u : 4u))
        code = sign | specials[bits >> 32 & 7];
    else if (choice < 6)
        code = sign | (specials[bits >> 32 & 7] + (bits >> 40 & 7) - 3);
    else if (choice < 9)
        code = sign | (one + (bits >> 32 & 255) - 128);
    return (code & (f.sign_bit() | f.magnitude_mask())) << f.padding;
}

}  // namespace

int TestFloatType::digits() const {
    if (kind == Kind::boolean) return 1;
    return ((kind == Kind::number ? format.container_bits() : width) + 3) / 4;
}

TestFloatFunction parse_testfloat_function(std::string_view name) {
    auto function = parse_conversion(name);
    if (!function) function = parse_operation(name);
    if (!function) {
        throw Error({.what = fmt::format("unknown function '{}'", name),
                     .where = "testfloat",
                     .fix = "use FORMAT_add, _sub, _mul, _div, _sqrt, _mulAdd, _rem, _roundToInt, _eq, _le, _lt, "
                            "_eq_signaling, _le_quiet, _lt_quiet or TYPE_to_TYPE; FORMAT is f16, f32, f64 or a name "
                            "from `macheps formats`, and TYPE can also be i32, i64, ui32 or ui64",
                     .exit = Exit::usage});
    }
    function->name = name;
    return *function;
}

Rounded evaluate(const TestFloatFunction& function, const TestFloatOptions& options,
                 const std::array<std::uint64_t, 3>& operands) {
    const auto [a, b, c] = operands;
    const Format f = function.from.format;
    // The help of testfloat_gen says that `odd` means toward zero for integers, but the program rounds to odd.
    const Round mode = function.always_toward_zero ? Round::toward_zero : options.round;
    switch (function.does) {
        case Does::arithmetic:
            return op(function.operation, f, a, b, c, mode, Overflow::nonsaturate, {}, options.tininess);
        case Does::remainder:
            return remainder(f, a, b);
        case Does::round_to_integral:
            return round_to_integral(f, a, mode, options.exact);
        case Does::compare: {
            const Relation relation = compare(f, a, b);
            const bool holds = (relation == Relation::equal && function.relates != Relates::less) ||
                               (relation == Relation::less && function.relates != Relates::equal);
            return {holds ? 1u : 0u, comparison_flags(f, a, b, function.signaling)};
        }
        case Does::convert:
            break;
    }
    if (function.from.kind != Kind::number) return convert_integer(function, mode, a);
    if (function.to.kind == Kind::number)
        return convert(f, function.to.format, a, mode, Overflow::nonsaturate, {}, options.tininess);
    return to_integer(f, a, function.to.width, function.to.kind == Kind::signed_integer, mode, options.exact);
}

bool agrees(const TestFloatFunction& function, const TestFloatCase& expected, Rounded ours) {
    if (!(expected.flags == ours.flags)) return false;
    if (expected.result == ours.bits) return true;
    if (function.to.kind == Kind::number)
        return is_nan(function.to.format, expected.result) && is_nan(function.to.format, ours.bits);
    return function.to.kind != Kind::boolean && ours.flags == Flags{.invalid = true};
}

std::optional<TestFloatCase> parse_testfloat_line(const TestFloatFunction& function, std::string_view line) {
    std::vector<std::string_view> words;
    while (!line.empty()) {
        const auto begin = line.find_first_not_of(" \t\r");
        if (begin == std::string_view::npos) break;
        const auto end = line.find_first_of(" \t\r", begin);
        words.push_back(line.substr(begin, end - begin));
        line = end == std::string_view::npos ? std::string_view{} : line.substr(end);
    }
    const auto operands = static_cast<std::size_t>(function.operands);
    if (words.size() != operands + 2) return std::nullopt;
    TestFloatCase parsed;
    for (std::size_t i = 0; i < operands; ++i) {
        const auto value = parse_hex(words[i], function.from.digits());
        if (!value || (*value & ~allowed(function.from)) != 0) return std::nullopt;
        parsed.operands[i] = *value;
    }
    const auto result = parse_hex(words[operands], function.to.digits());
    const auto flags = parse_hex(words[operands + 1], 2);
    if (!result || !flags || (*result & ~allowed(function.to)) != 0 || *flags > 31) return std::nullopt;
    parsed.result = *result;
    parsed.flags = {(*flags & 16) != 0, (*flags & 8) != 0, (*flags & 4) != 0, (*flags & 2) != 0, (*flags & 1) != 0};
    return parsed;
}

std::string testfloat_line(const TestFloatFunction& function, const std::array<std::uint64_t, 3>& operands,
                           Rounded result) {
    std::string line;
    for (std::size_t i = 0; i < static_cast<std::size_t>(function.operands); ++i)
        line += fmt::format("{:0{}X} ", operands[i], function.from.digits());
    return line + fmt::format("{:0{}X} {:02X}", result.bits, function.to.digits(), flag_bits(result.flags));
}

std::array<std::uint64_t, 3> testfloat_operands(const TestFloatFunction& function, int level, std::uint64_t seed,
                                                std::uint64_t index) {
    std::array<std::uint64_t, 3> operands{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(function.operands); ++i) {
        const PhiloxBlock block = random_block({.seed = seed}, 3 * index + i);
        operands[i] = any_operand(function.from, level, std::uint64_t{block.word[0]} << 32 | block.word[1]);
    }
    return operands;
}

}  // namespace macheps::study
