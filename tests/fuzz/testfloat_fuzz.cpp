// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of TestFloat lines. The first line names a function, and every other line is a test case. Each case
// that can be read is evaluated and printed. The printed line must be readable and must agree with the computed result.
#include "core/error.hpp"
#include "experiments/study/eval/testfloat_function.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <optional>

using namespace macheps;
using namespace macheps::study;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view rest = fuzz::text(data, size);
    const auto next_line = [&] {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : rest.size());
        return line;
    };
    std::optional<TestFloatFunction> function;
    try {
        function = parse_testfloat_function(next_line());
    } catch (const Error&) {
        return 0;
    }
    for (int mode = 0; !rest.empty(); ++mode) {
        const auto expected = parse_testfloat_line(*function, next_line());
        if (!expected) continue;
        constexpr Round modes[] = {Round::nearest_even, Round::nearest_away, Round::toward_zero,
                                   Round::up,           Round::down,         Round::to_odd};
        const TestFloatOptions options{.round = modes[mode % 6]};
        const Rounded ours = evaluate(*function, options, expected->operands);
        const std::string printed = testfloat_line(*function, expected->operands, ours);
        const auto again = parse_testfloat_line(*function, printed.substr(0, printed.find('\n')));
        fuzz::require(again && agrees(*function, *again, ours), "a printed case is readable and agrees: " + printed);
    }
    return 0;
}
