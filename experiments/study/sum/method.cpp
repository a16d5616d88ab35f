// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/sum/method.hpp"

#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <vector>

namespace macheps::study {

namespace {

std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t chain_height(std::int64_t n, std::int64_t) { return n - 1; }
std::int64_t tree_height(std::int64_t n, std::int64_t) { return std::bit_width(static_cast<std::uint64_t>(n) - 1); }
std::int64_t block_height(std::int64_t n, std::int64_t size) {
    return std::min(size, n) - 1 + quotient_up(n, size) - 1;
}
std::int64_t slice_height(std::int64_t n, std::int64_t slices) { return block_height(n, quotient_up(n, slices)); }
/// Returns the height of the lane rule, that is, the number of additions on the longest path: the additions in the
/// fullest lane, plus five additions that combine the 32 lanes. The first addition in a lane does not count, because
/// adding to +0 is exact.
std::int64_t lane_height(std::int64_t n, std::int64_t parameter) {
    constexpr std::int64_t lanes = 32, chunk = 1024;
    if (n <= chunk) return quotient_up(n, lanes) - 1 + 5;
    std::int64_t width = chunk;
    while (quotient_up(n, width) > chunk) width *= chunk;
    return lane_height(width, parameter) + quotient_up(quotient_up(n, width), lanes) - 1 + 5;
}
/// Returns the height of torch.sum: the number of additions in the levels, plus the additions that combine the levels,
/// the left-over vectors, the accumulators, the left-over numbers and the eight lanes. The first addition in each level
/// does not count, because it adds to +0.
std::int64_t torch_height(std::int64_t n, std::int64_t) {
    const std::int64_t rows = n / 32, left = n / 8 % 4;
    const int power =
        std::max(4, (rows < 2 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows) - 1))) / 4);
    std::int64_t height = 0;
    for (int level = 0; level < 4; ++level) {
        const std::int64_t terms = rows >> level * power, full = std::int64_t{1} << power;
        height += std::max<std::int64_t>((level < 3 ? std::min(terms, full) : terms) - 1, 0) +
                  (level > 0 && terms > 0 ? 1 : 0);
    }
    return height + left + 3 + n % 8 + 7;
}
std::int64_t no_height(std::int64_t, std::int64_t) { return 1; }
/// Returns the height of a chain of fma. It is n, because every fma rounds, including the first one.
std::int64_t fused_height(std::int64_t n, std::int64_t) { return n; }

/// Returns gamma_m = m u / (1 - m u), which is defined for m u < 1.
std::optional<double> gamma(double m, double unit) {
    if (m * unit >= 1) return std::nullopt;
    return m * unit / (1 - m * unit);
}

/// Returns the bound (2 u + 6 n u^2 + n u^3) S on the error, divided by u S (Knuth, The Art of Computer Programming
/// 4.2.2, exercise 19). It holds for rounding to nearest and small n u.
std::optional<double> kahan_bound(const SumSetting& s) {
    const double nu = static_cast<double>(s.n) * s.unit;
    if (!s.is_nearest || nu > 0.1) return std::nullopt;
    return 2 + 6 * nu + nu * s.unit;
}
/// Returns the error bound u |s| + gamma_m^2 S (Ogita, Rump, Oishi 2005), divided by u S. `terms` is m, which is n - 1
/// for Sum2 and n for Dot2.
std::optional<double> second_order(const SumSetting& s, double terms) {
    const std::optional<double> g = gamma(terms, s.unit);
    if (!s.is_nearest || !g) return std::nullopt;
    return s.share + *g * *g / s.unit;
}
std::optional<double> sum2_bound(const SumSetting& s) { return second_order(s, static_cast<double>(s.n - 1)); }
std::optional<double> dot2_bound(const SumSetting& s) { return second_order(s, static_cast<double>(s.n)); }
/// Returns the bound (u + 3 gamma_{n-1}^2) |s| + gamma_{2n-2}^K S on the error, divided by u S (Ogita, Rump, Oishi
/// 2005, Proposition 4.10).
std::optional<double> sum_k_bound(const SumSetting& s) {
    const double n1 = static_cast<double>(s.n - 1);
    const std::optional<double> once = gamma(n1, s.unit), twice = gamma(2 * n1, s.unit);
    if (!s.is_nearest || !once || !twice || 4 * n1 * s.unit > 1) return std::nullopt;
    double power = 1;
    for (std::int64_t i = 0; i < s.parameter; ++i) power *= *twice;
    return s.share * (1 + 3 * *once * *once / s.unit) + power / s.unit;
}

constexpr SumMethodRow method_rows[] = {
    {.name = "recursive",
     .words = "s = s + x, in the given order",
     .method = SumMethod::recursive,
     .height = chain_height},
    {.name = "ascending",
     .words = "like recursive, but sorted by ascending magnitude",
     .method = SumMethod::recursive,
     .sorts = true,
     .height = chain_height},
    {.name = "descending",
     .words = "like recursive, but sorted by descending magnitude",
     .method = SumMethod::recursive,
     .sorts = true,
     .descends = true,
     .height = chain_height},
    {.name = "pairwise",
     .words = "a binary tree, split at the largest power of two below n",
     .method = SumMethod::pairwise,
     .height = tree_height},
    {.name = "blocked",
     .parameter = "B",
     .words = "sums of blocks of B terms, then the sum of the blocks",
     .method = SumMethod::blocked,
     .height = block_height},
    {.name = "lanes32",
     .words = "chunks of 1024 terms in 32 lanes, as in a warp; the upper half of the lanes is added to the lower half "
              "until one lane is left",
     .method = SumMethod::lanes,
     .height = lane_height},
    {.name = "torch",
     .words = "torch.sum of fp32 on a CPU: 8 lanes, 4 accumulators, levels of 16 or more terms",
     .method = SumMethod::torch,
     .height = torch_height},
    {.name = "splitk",
     .parameter = "S",
     .words = "sums of S slices, then the sum of the slices",
     .method = SumMethod::splitk,
     .height = slice_height},
    {.name = "kahan", .words = "Kahan's compensated sum", .method = SumMethod::kahan, .bound = kahan_bound},
    {.name = "neumaier",
     .words = "Neumaier's compensated sum, with a second accumulator for the corrections",
     .method = SumMethod::neumaier,
     .bound = sum2_bound},
    {.name = "sum2",
     .words = "like neumaier, but with TwoSum (Ogita, Rump, Oishi)",
     .method = SumMethod::sum2,
     .bound = sum2_bound},
    {.name = "sumK",
     .parameter = "K",
     .words = "K - 1 passes of TwoSum over the vector",
     .method = SumMethod::sum_k,
     .bound = sum_k_bound},
    {.name = "chain", .words = "s = fma(x, y, s)", .method = SumMethod::chain, .sums = false, .height = fused_height},
    {.name = "muladd",
     .words = "s = s + x y, two roundings",
     .method = SumMethod::recursive,
     .sums = false,
     .height = chain_height},
    {.name = "dot2",
     .words = "TwoProd and TwoSum (Ogita, Rump, Oishi)",
     .method = SumMethod::dot2,
     .sums = false,
     .bound = dot2_bound},
    {.name = "machine",
     .parameter = "NAME",
     .words = "a matrix unit; in sums, every y is 1",
     .method = SumMethod::machine},
    {.name = "exact", .words = "the exact sum, rounded once", .method = SumMethod::exact, .height = no_height},
};

Error bad_method(std::string what, std::string_view text, std::string fix) {
    return Error({.what = std::move(what),
                  .where = fmt::format("--method {}", text),
                  .fix = std::move(fix),
                  .exit = Exit::usage});
}

}  // namespace

std::span<const SumMethodRow> sum_methods() { return method_rows; }

SumChoice parse_sum_method(std::string_view text, bool is_dot) {
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    std::vector<std::string> names;
    for (const SumMethodRow& row : method_rows) {
        if (is_dot ? row.dots : row.sums) {
            names.push_back(row.parameter.empty() ? std::string(row.name)
                                                  : fmt::format("{}:{}", row.name, row.parameter));
        }
        if (row.name != name) continue;
        if (!is_dot && !row.sums) throw bad_method(fmt::format("'{}' adds products", name), text, "add --dot");
        const std::string_view behind = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
        if (row.parameter.empty() != (colon == std::string_view::npos)) {
            throw bad_method(row.parameter.empty() ? "this method has no parameter" : "the parameter is missing", text,
                             row.parameter.empty() ? fmt::format("use {}", row.name)
                                                   : fmt::format("use {}:{}", row.name, row.parameter));
        }
        SumChoice choice{.name = std::string(text), .row = &row};
        if (row.method == SumMethod::machine) {
            choice.machine = parse_machine(behind);
        } else if (!row.parameter.empty()) {
            const char* end = behind.data() + behind.size();
            const auto [last, error] = std::from_chars(behind.data(), end, choice.parameter);
            const std::int64_t most = row.method == SumMethod::sum_k ? 100 : std::int64_t{1} << 30;
            if (error != std::errc{} || last != end || choice.parameter < 1 || choice.parameter > most) {
                throw bad_method(fmt::format("'{}' is not a whole number from 1 to {}", behind, most), text,
                                 fmt::format("use a number, such as {}:8", row.name));
            }
        }
        return choice;
    }
    const std::string near = nearest_name(name, names);
    throw bad_method(
        fmt::format("unknown method '{}'", name), text,
        near.empty() ? fmt::format("use one of {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near));
}

}  // namespace macheps::study
