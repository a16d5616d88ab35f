// SPDX-License-Identifier: Apache-2.0
// Fuzzes the text form of numbers, codes and CSV cells. A value that was read is printed, and the printed text reads
// back as the same value.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/text/print.hpp"
#include "reports/rows/csv.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>
#include <optional>

using namespace macheps;
using namespace macheps::reports;

namespace {

bool same(double a, double b) {
    return bit_cast<std::uint64_t>(a) == bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

template <class Value>
void check_cell(std::string_view text) {
    Value value{};
    if (!csv::parse_cell(text, value)) return;
    std::string printed;
    csv::append_cell(printed, value);
    Value again{};
    fuzz::require(csv::parse_cell(printed, again), "a printed cell is readable");
    std::string second;
    csv::append_cell(second, again);
    fuzz::require(printed == second, "a cell prints the same text before and after it is read back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text(data, size);
    if (const auto x = parse_number(text)) {
        for (const std::string& printed : {decimal(*x), hex_float(*x)}) {
            const auto again = parse_number(printed);
            fuzz::require(again.has_value() && same(*again, *x), "a printed number reads back as itself: " + printed);
        }
        for (const NamedFormat& named : all_formats) {
            const Format format = named.format;
            const std::uint64_t code = encode64(format, *x, Round::nearest_even, Overflow::nonsaturate);
            fuzz::require(parse_code(format, hex_code(format, code)) == code, "a printed code reads back as itself");
            const auto shortest = parse_number(shortest_decimal(format, code));
            fuzz::require(shortest.has_value(), "the shortest decimal is a number");
            if (std::isnan(decode64(format, code))) continue;  // a NaN is printed without its sign
            const auto back = encode64(format, *shortest, Round::nearest_even, Overflow::nonsaturate);
            fuzz::require(back == code, "the shortest decimal reads back as its code");
        }
    }
    for (const NamedFormat& named : all_formats) {
        const Format format = named.format;
        if (const auto code = parse_code(format, text)) {
            const auto again = parse_code(format, hex_code(format, *code));
            fuzz::require(again == code, "a code that was read is printed as the same code");
        }
    }
    check_cell<std::int64_t>(text);
    check_cell<std::uint64_t>(text);
    check_cell<float>(text);
    check_cell<double>(text);
    check_cell<bool>(text);
    check_cell<ExponentBin>(text);
    check_cell<std::optional<double>>(text);
    return 0;
}
