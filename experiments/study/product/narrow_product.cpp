// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/narrow_product.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "experiments/study/product/machine_product.hpp"
#include "experiments/study/product/residue_product.hpp"

#include <fmt/format.h>
#include <boost/multiprecision/cpp_bin_float.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

namespace macheps::study {

namespace {

constexpr ViaRow ways[] = {
    {"bf16x9",
     "splits each fp32 number into three bf16 parts; nine products, added in fp32 from the smallest to the largest",
     bf16, 3, 9},
    {"tf32x3", "splits each number into two tf32 parts; three products", tf32, 2, 3},
    {"fp16x2", "splits each number into two fp16 parts; three products", fp16, 2, 3},
};

constexpr int max_slices = 64, max_digit_bits = 25, max_auto_slices = 24;
constexpr int max_integer_bits = 7;  ///< a digit of 8 bits can be 128, which int8 cannot hold

int log2_up(std::int64_t k) { return std::bit_width(static_cast<std::uint64_t>(k) - 1); }

/// One operand, split into slices of integer digits. An element (outer, p) of the operand is, up to a remainder, the
/// sum over t of its digit in slices[t], multiplied by 2^(exponents[outer] - (bits - 1) - bits t).
struct Digits {
    std::vector<int> exponents{};
    std::vector<std::vector<float>> slices{};  ///< each in the layout of the operand
};

/// Splits an operand into digits. `outer` is the number of rows of a or of columns of b.
template <class At>
Digits split_operand(std::int64_t outer, std::int64_t k, std::size_t size, const At& at, std::span<const double> x,
                     int bits, int slices) {
    Digits d{.exponents = std::vector<int>(static_cast<std::size_t>(outer))};
    d.slices.assign(static_cast<std::size_t>(slices), std::vector<float>(size));
    for (std::int64_t i = 0; i < outer; ++i) {
        double most = 0;
        for (std::int64_t p = 0; p < k; ++p) most = std::max(most, std::fabs(x[at(i, p)]));
        int& exponent = d.exponents[static_cast<std::size_t>(i)];
        std::frexp(most, &exponent);  // the smallest exponent with 2^exponent > most
        for (std::int64_t p = 0; p < k; ++p) {
            double y = std::ldexp(x[at(i, p)], bits - 1 - exponent);
            for (int t = 0; t < slices; ++t) {
                const double q = std::nearbyint(y);
                d.slices[static_cast<std::size_t>(t)][at(i, p)] = static_cast<float>(q);
                y = std::ldexp(y - q, bits);
            }
        }
    }
    return d;
}

/// Adds the products of digits. Either rounds to fp64 after each addition, or adds with 334 bits of precision and
/// rounds to fp64 once at the end.
class Combination {
  public:
    using Exact = boost::multiprecision::cpp_bin_float_100;

    Combination(std::size_t outputs, bool exactly) : sums_(exactly ? 0 : outputs), exact_(exactly ? outputs : 0) {}

    void add(std::size_t element, double product, int exponent) {
        if (exact_.empty()) {
            sums_[element] += std::ldexp(product, exponent);
        } else {
            exact_[element] += ldexp(Exact(product), exponent);
        }
    }
    std::vector<double> results() const {
        if (exact_.empty()) return sums_;
        std::vector<double> out;
        for (const Exact& each : exact_) out.push_back(static_cast<double>(each));
        return out;
    }

  private:
    std::vector<double> sums_;
    std::vector<Exact> exact_;
};

/// Counts, for each row, the binades between the largest and the median magnitude. Returns the largest of these counts.
/// The digits of an operand need that many bits in addition to 55.
template <class At>
int widest_row(std::int64_t outer, std::int64_t k, const At& at, std::span<const double> x) {
    int widest = 0;
    for (std::int64_t i = 0; i < outer; ++i) {
        std::vector<double> row;
        for (std::int64_t p = 0; p < k; ++p) row.push_back(std::fabs(x[at(i, p)]));
        int top = 0, middle = 0;
        std::frexp(*std::max_element(row.begin(), row.end()), &top);
        std::nth_element(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2), row.end());
        const double median = row[row.size() / 2];
        if (median == 0) continue;
        std::frexp(median, &middle);
        widest = std::max(widest, top - middle);
    }
    return widest;
}

NarrowProduct ozaki_product(Backend& backend, const ViaPlan& plan, const WideOperands& x) {
    const auto at_a = [&x](std::int64_t i, std::int64_t p) { return static_cast<std::size_t>(i * x.k + p); };
    const auto at_b = [&x](std::int64_t j, std::int64_t p) { return static_cast<std::size_t>(p * x.n + j); };
    NarrowProduct result{.digit_bits = plan.digit_bits > 0 ? plan.digit_bits : exact_digit_bits(plan.machine, x.k),
                         .slices = plan.via.slices};
    const int bits = result.digit_bits;
    if (result.slices == 0) {
        const int wide = std::max(widest_row(x.m, x.k, at_a, x.a), widest_row(x.n, x.k, at_b, x.b));
        result.slices = std::min((55 + wide + bits - 1) / bits, max_auto_slices);
    }
    const int slices = result.slices;
    const Digits a = split_operand(x.m, x.k, x.a.size(), at_a, x.a, bits, slices);
    const Digits b = split_operand(x.n, x.k, x.b.size(), at_b, x.b, bits, slices);
    IntegerProduct product(backend, plan.machine.rule, x, digit_format(*plan.machine.rule.machine));
    Combination sums(static_cast<std::size_t>(x.m * x.n), plan.combines_exactly);
    for (int diagonal = plan.full ? 2 * slices : slices + 1; diagonal >= 2; --diagonal) {
        for (int t = std::max(1, diagonal - slices); t <= std::min(slices, diagonal - 1); ++t) {
            const std::vector<float>&left = a.slices[static_cast<std::size_t>(t - 1)],
                  &right = b.slices[static_cast<std::size_t>(diagonal - t - 1)];
            const std::vector<double>& got = product(left, right);
            ++result.products;
            const int shift = -2 * (bits - 1) - bits * (diagonal - 2);
            for (std::int64_t i = 0; i < x.m; ++i) {
                for (std::int64_t j = 0; j < x.n; ++j) {
                    const auto element = static_cast<std::size_t>(i * x.n + j);
                    sums.add(
                        element, got[element],
                        a.exponents[static_cast<std::size_t>(i)] + b.exponents[static_cast<std::size_t>(j)] + shift);
                }
            }
        }
    }
    result.inexact = product.inexact();
    result.out = sums.results();
    return result;
}

/// Splits each fp32 number into `count` parts. Each part is the remainder after the earlier parts, rounded to the
/// format.
std::vector<std::vector<float>> parts_of(std::span<const double> x, const Format& format, int count) {
    std::vector<std::vector<float>> parts(static_cast<std::size_t>(count), std::vector<float>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
        auto rest = static_cast<float>(x[i]);
        for (auto& part : parts) {
            part[i] = quantize(format, rest, Round::nearest_even, Overflow::nonsaturate);
            rest -= part[i];
        }
    }
    return parts;
}

NarrowProduct product_by_parts(Backend& backend, const ViaPlan& plan, const WideOperands& x) {
    const Via& via = plan.via;
    const auto a = parts_of(x.a, *via.part, via.slices), b = parts_of(x.b, *via.part, via.slices);
    NarrowProduct result{.digit_bits = via.part->precision, .slices = via.slices};
    MachineProduct product(backend, plan.machine.rule, x, *via.part);
    std::vector<float> sums(static_cast<std::size_t>(x.m * x.n));
    const bool all = plan.full || via.products == via.slices * via.slices;
    for (int diagonal = all ? 2 * via.slices : via.slices + 1; diagonal >= 2; --diagonal) {
        for (int t = std::max(1, diagonal - via.slices); t <= std::min(via.slices, diagonal - 1); ++t) {
            const std::vector<float>& got =
                product(a[static_cast<std::size_t>(t - 1)], b[static_cast<std::size_t>(diagonal - t - 1)]);
            for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i] + got[i];
            ++result.products;
        }
    }
    result.out.assign(sums.begin(), sums.end());
    return result;
}

}  // namespace

std::span<const ViaRow> via_rows() { return ways; }

Via parse_via(std::string_view text) {
    for (const ViaRow& row : ways) {
        if (row.name == text) {
            return {.name = std::string(text), .part = row.part, .slices = row.parts, .products = row.products};
        }
    }
    if (text == "ozaki1:auto") return {.name = std::string(text)};
    const auto count_behind = [text](std::string_view word, int least, int most) {
        int count = 0;
        if (!text.starts_with(word)) return count;
        const char* end = text.data() + text.size();
        const auto [last, error] = std::from_chars(text.data() + word.size(), end, count);
        return error == std::errc{} && last == end && count >= least && count <= most ? count : 0;
    };
    if (const int slices = count_behind("ozaki1:", 1, max_slices); slices > 0) {
        return {.name = std::string(text), .slices = slices};
    }
    if (const int moduli = count_behind("ozaki2:", min_moduli, max_moduli); moduli > 0) {
        return {.name = std::string(text), .slices = moduli, .has_residues = true};
    }
    throw Error({.what = fmt::format("unknown method '{}'", text),
                 .where = "--via",
                 .fix = fmt::format(
                     "use ozaki1:S with 1 to {} slices, ozaki1:auto, ozaki2:N with {} to {} moduli, bf16x9, tf32x3 or "
                     "fp16x2",
                     max_slices, min_moduli, max_moduli),
                 .exit = Exit::usage});
}

SpelledRule parse_via_machine(std::string_view name) {
    if (name != exact_int32.name) return parse_machine(name);
    return {.name = std::string(name), .rule = {.machine = &exact_int32}};
}

Format digit_format(const Machine& machine) {
    Format best{};
    int digits = 0;
    for (const Format& format : FormatSet::known) {
        if (!machine.operands.contains(format) || format.encoding != Encoding::binary || format == fp64) continue;
        if (format.precision > digits) best = format, digits = format.precision;
    }
    return best;
}

int kept_digits(const Machine& machine) {
    const SumRule& sum = machine.sum;
    int digits = std::min(machine.addend.precision, machine.result.precision);
    if (sum.delivery == Delivery::e8m13_toward_zero) digits = std::min(digits, 14);
    const bool cuts =
        sum.model == SumModel::truncated || sum.model == SumModel::floored || sum.model == SumModel::floored_even_odd;
    if (cuts) digits = std::min(digits, sum.fraction_bits + 1);
    if (sum.model == SumModel::through_fp16) digits = std::min(digits, fp16.precision);
    return std::min(digits, 24);
}

int exact_digit_bits(const SpelledRule& spelled, std::int64_t k) {
    const MatmulRule& rule = spelled.rule;
    const auto bits = [](int digits, std::int64_t terms) { return std::max(0, digits + 2 - log2_up(terms)) / 2; };
    if (is_integer_unit(*rule.machine)) return std::min(max_integer_bits, bits(30, k));
    const int kept = kept_digits(*rule.machine);
    const bool promotes = rule.promotion != Promotion::none;
    const std::int64_t chain = promotes ? std::min<std::int64_t>(k, rule.promotion_interval) : k;
    const int of_sums = promotes ? std::min(bits(kept, chain), bits(24, k)) : bits(kept, k);
    return std::min(digit_format(*rule.machine).precision + 1, of_sums);
}

NarrowProduct narrow_product(Backend& backend, const ViaPlan& plan, const WideOperands& x) {
    const DefaultFloatModes modes;
    const Machine& machine = *plan.machine.rule.machine;
    const bool has_integers = is_integer_unit(machine);
    if (has_integers && !plan.via.is_ozaki()) {
        throw Error({.what = fmt::format("this machine multiplies integers, but {} needs floating-point products",
                                         plan.via.name),
                     .where = plan.machine.name,
                     .fix = "use ozaki1 or ozaki2, or a machine from `macheps machine list`",
                     .exit = Exit::usage});
    }
    const Format wanted = plan.via.part.value_or(digit_format(machine));
    if (!has_integers &&
        (plan.machine.order || !machine.operands.contains(wanted) || machine.has_scales() || wanted.precision == 0)) {
        throw Error({.what = fmt::format("this machine cannot multiply {} operands without block scales",
                                         wanted.precision == 0 ? "narrow" : format_name(wanted)),
                     .where = plan.machine.name,
                     .fix = "use a matrix unit that can: see `macheps machine list`",
                     .exit = Exit::usage});
    }
    if (!plan.via.is_ozaki()) return product_by_parts(backend, plan, x);
    if (plan.via.has_residues) return residue_product(backend, plan, x);
    const int bits = plan.digit_bits > 0 ? plan.digit_bits : exact_digit_bits(plan.machine, x.k);
    const int max_bits = has_integers ? max_integer_bits : wanted.precision + 1;
    if (bits < 1 || bits > std::min(max_digit_bits, max_bits)) {
        throw Error(
            {.what = fmt::format("digits of {} bits are not possible", bits),
             .where = plan.machine.name,
             .fix = fmt::format("for {} use --digit-bits 1 to {}; if sums of {} terms leave no bits for exact digits, "
                                "use a smaller -k",
                                has_integers ? "int8" : format_name(wanted), max_bits, x.k),
             .exit = Exit::usage});
    }
    return ozaki_product(backend, plan, x);
}

}  // namespace macheps::study
