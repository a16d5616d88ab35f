// SPDX-License-Identifier: Apache-2.0
// Recipes for operations on rows. A recipe fills the first input array and, if the operation has one, the array
// `target`.
#include "experiments/check/inputs/recipes.hpp"

#include "core/codec.hpp"
#include "core/math64.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Sets every element of the first array to value(row, column, columns).
template <class Function>
void fill(MadeInputs& inputs, Function value) {
    MadeArray& x = inputs.arrays.front();
    const std::int64_t columns = x.shape.back(), rows = static_cast<std::int64_t>(x.values.size()) / columns;
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c)
            x.values[static_cast<std::size_t>(r * columns + c)] = value(r, c, columns);
    }
}

Format format_of(const InputRequest& r) { return r.format(r.arrays().front()); }

bool always(const InputRequest&) { return true; }
bool has_infinity(const InputRequest& r) { return format_of(r).has_inf(); }
bool has_subnormals(const InputRequest& r) { return format_of(r).min_normal_code() > 1; }
bool has_variance(const InputRequest& r) { return r.declaration.operation->has_variance && format_of(r).precision > 1; }
bool has_extremes(const InputRequest& r) { return r.declaration.operation->has_extreme; }
bool is_minimum(const InputRequest& r) { return r.declaration.operation->name == "min"; }
bool has_infinite_extremes(const InputRequest& r) { return has_extremes(r) && has_infinity(r); }
bool has_maximum(const InputRequest& r) { return has_extremes(r) || r.declaration.operation->has_softmax; }
bool has_shift(const InputRequest& r) { return r.declaration.operation->has_softmax; }
bool has_masks(const InputRequest& r) { return has_shift(r) && has_infinity(r); }

/// Sets the target of each row to the index of its largest logit, so that losses are small. Small errors are then
/// visible.
void aim_at_maximum(MadeInputs& inputs) {
    if (inputs.find("target") == nullptr) return;
    const MadeArray& x = inputs.arrays.front();
    const auto columns = static_cast<std::ptrdiff_t>(x.shape.back());
    std::vector<double>& targets = inputs.at("target").values;
    for (std::size_t r = 0; r < targets.size(); ++r) {
        const auto row = x.values.begin() + static_cast<std::ptrdiff_t>(r) * columns;
        targets[r] = static_cast<double>(std::max_element(row, row + columns) - row);
    }
}

void normal(Maker& maker) { maker.add(); }

void positive(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(), [&](auto r, auto c, auto columns) { return draw.uniform(r * columns + c); });
}

void integers(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(),
         [&](auto r, auto c, auto columns) { return static_cast<double>(draw.whole(r * columns + c, -4, 4)); });
}

/// Makes logits up to 88 in magnitude, for which e^x is finite in fp32. In every fourth row, the magnitudes reach 500.
/// In some other rows, all logits are so far below 0 or so far above 0 that e^x is 0 or infinite in fp32 for each of
/// them.
void large(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const double x = 2 * draw.uniform(r * columns + c) - 1;
        return r % 4 == 3 ? 500 * x : r % 4 == 1 ? 20 * x - 200 : r % 8 == 2 ? 20 * x + 200 : 88 * x;
    });
}

void equal(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(), [&](auto r, auto, auto) { return draw.normal(r); });
}

void constant(Maker& maker) {
    fill(maker.add(), [](auto, auto, auto) { return 1.5; });
}

/// Makes one element of each row huge, with either sign, so that it is the minimum or the maximum. In half of the rows
/// it is near the end: first the last element, then the one before, and so on. An omitted tail then changes the results
/// of exact operations too. The last element of the array has the largest magnitude. If there is only one row, the sign
/// of its huge element is such that the operation returns that element.
void one_huge(Maker& maker) {
    const std::int64_t rows = maker.request().rows;
    const double last = rows == 1 && !is_minimum(maker.request()) ? 96 : -96;
    const Draws draw = maker.draws("x"), places = maker.draws("place");
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const bool is_last = r + 1 == rows;
        const std::int64_t place = is_last     ? columns - 1
                                   : r % 4 < 2 ? columns - 1 - r / 4 % columns
                                               : places.whole(r, 0, columns - 1);
        return c == place ? (is_last ? last : r % 2 == 0 ? 80.0 : -80.0) : draw.normal(r * columns + c);
    });
}

void far_mean(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(), [&](auto r, auto c, auto columns) { return 100 + draw.normal(r * columns + c); });
}

/// Makes rows of equal large numbers, except for one element that is larger by one unit. Each large number is an
/// integer times the unit, and the integer uses all digits of the format. The sums are exact in fp32. If a kernel
/// computes the variance in two passes, its only error is therefore the rounding error of the mean, which is at most u
/// times the mean. The variance of n elements is about unit^2 / n. A kernel that computes the variance in one pass, as
/// (mean of x^2) - mean^2, returns only the rounding error of mean^2.
void offset(Maker& maker) {
    const Draws places = maker.draws("place"), sizes = maker.draws("size");
    const Format format = format_of(maker.request());
    const int digits = std::min(format.precision, 11);
    const auto half = std::int64_t{1} << (digits - 1);
    // With this unit the variance is far above any eps.
    const double unit = std::min(16.0, std::exp2(std::floor(std::log2(greatest_of(format))) + 1 - digits));
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const std::int64_t most = sizes.whole(r, half + half / 4, 2 * half - 2);
        const bool is_place = c == places.whole(r, 0, columns - 1);
        return static_cast<double>(most + (is_place ? 1 : 0)) * unit;
    });
}

/// Makes four kinds of rows: numbers next to the largest finite number, of either sign; numbers next to half of the
/// largest number that both x and the output have, of either sign; zeros; and rows whose first element has the largest
/// magnitude. A maximum that begins at a finite number is wrong for rows below that number.
void far(Maker& maker) {
    const Draws draw = maker.draws("x");
    const Format format = format_of(maker.request());
    const double greatest = greatest_of(format),
                 stored = std::min(greatest, greatest_of(maker.request().format("out"))) / 2;
    MadeInputs& inputs = maker.add();
    fill(inputs, [&](auto r, auto c, auto columns) {
        const std::int64_t i = r * columns + c;
        const double most = r % 8 < 4 ? greatest : stored,
                     unit = std::exp2(std::floor(std::log2(most)) + 1 - format.precision),
                     next = most - unit * static_cast<double>(draw.whole(i, 0, 1));
        if (r % 4 == 2) return 0.0;
        if (r % 4 == 3) return c == 0 ? (r % 8 == 3 ? -64.0 : 64.0) : draw.normal(i);
        return r % 4 == 0 ? -next : next;
    });
    aim_at_maximum(inputs);
}

/// Chooses how many elements of a row should equal the maximum m of the row. If s elements do, a kernel may compute
/// m + log s and round it to fp32. Returns the number s for which this rounding has the largest effect relative to
/// log s. `unit` is the distance between fp32 numbers at m. Numbers s for which this rounding changes the result in the
/// format `out` are preferred.
std::int64_t shown_count(const Format& out, double unit, std::int64_t columns) {
    std::int64_t best = 1;
    double most = 0;
    for (std::int64_t count = 2; count < std::max<std::int64_t>(columns, 3); ++count) {
        const double right = math::log(static_cast<double>(count)), wrong = std::nearbyint(right / unit) * unit;
        const auto code_of = [&](double x) { return encode64(out, x, Round::nearest_even, Overflow::saturate); };
        const double shown = std::fabs(wrong - right) / right + (code_of(wrong) != code_of(right) ? 1 : 0);
        if (shown > most) best = count, most = shown;
    }
    return best;
}

/// Makes logits with a large common offset of either sign. Each row has several equal largest logits. All other logits
/// are so far below the largest that their exponentials do not affect the sum. Forms of the operation that first
/// subtract the maximum have no roundings except those of the logarithm or the quotient. Forms that add the maximum to
/// the logarithm make an error of up to half an ulp of the offset. This ulp is about the same in each row.
void far_logits(Maker& maker) {
    const Draws offsets = maker.draws("offset"), draw = maker.draws("x");
    const Format format = format_of(maker.request());
    // The magnitude of the offset is about 2^20 if the format has such large numbers. Half an ulp of fp32 at the offset
    // is then 2^-4.
    const int exponent = std::min(static_cast<int>(std::floor(std::log2(greatest_of(format)))), 20);
    const double unit = std::exp2(exponent + 1 - format.precision), step = std::max(unit, 32.0);
    const std::int64_t columns = maker.request().row_width(),
                       shown = shown_count(maker.request().format("out"), std::exp2(exponent - 23), columns),
                       count = std::min(shown, columns);
    MadeInputs& inputs = maker.add();
    fill(inputs, [&](auto r, auto c, auto width) {
        const double most = std::exp2(exponent) + 32 * std::floor(offsets.uniform(r) * std::exp2(exponent - 2) / 32),
                     nearest = std::floor(most / unit) * unit;
        // The largest logits are at different places in each row.
        const bool is_greatest = (c + 7 * r) % width < count;
        const double down = is_greatest ? 0 : step * static_cast<double>(draw.whole(r * width + c, 1, 3));
        return (r % 2 == 0 ? nearest : -nearest) - down;
    });
    aim_at_maximum(inputs);
}

/// Makes one third of the rows all -inf, and one third all inf. The minimum and the maximum of such a row are infinite.
void infinite_rows(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        return r % 3 == 0 ? draw.normal(r * columns + c) : r % 3 == 1 ? -infinite : infinite;
    });
}

bool is_quantised(const InputRequest& r) { return r.declaration.operation->layout == Layout::quantised; }

/// Compares a quantiser that divides by the decode scale `b` with a quantiser that multiplies by the encode scale. The
/// numbers to quantise are the midpoints between two codes, times b. Returns the number of midpoints for which the two
/// quantisers return different codes.
int shown_middles(const Format& out, float b, bool divides) {
    const float encode = 1 / b, decode = divides ? b : 1 / encode;
    const std::int64_t half = std::int64_t{1} << out.precision;
    int count = 0;
    for (std::int64_t middle = half + 1; middle < 2 * half; middle += 2) {
        const float x = static_cast<float>(middle) * b;
        const auto code_of = [&](float y) {
            return encode64(out, std::ldexp(static_cast<double>(y), -1 - out.precision), Round::nearest_even,
                            Overflow::saturate);
        };
        count += code_of(x * encode) != code_of(x / decode) ? 1 : 0;
    }
    return count;
}

/// Makes numbers whose exact quotient by the decode scale is the midpoint of two codes. The decode scale is a small odd
/// number times a power of two, so that its inverse is inexact. For some midpoints, the product with the inverse and
/// the quotient then lie on different sides of the midpoint, or only one of them is a tie.
void scale_ties(Maker& maker) {
    const Draws middles = maker.draws("middle"), exponents = maker.draws("exponent"), places = maker.draws("place");
    const Format x = format_of(maker.request()), out = maker.request().format("out");
    const std::int64_t half = std::int64_t{1} << (out.precision - 1);
    double odd = 1;
    int most = 0;
    for (std::int64_t b = 3; b < 64 && (4 * half - 1) * b < std::int64_t{1} << std::min(x.precision, 24); b += 2) {
        const int count = shown_middles(out, static_cast<float>(b), maker.request().declaration.divides);
        if (count > most) odd = static_cast<double>(b), most = count;
    }
    const double greatest = greatest_of(out), unit = greatest * odd <= greatest_of(x) ? odd : odd * 0x1p-16;
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const std::int64_t i = r * columns + c;
        // Every group of any granularity contains the largest number, which determines the scale.
        if (c % 16 == 0) return greatest * unit;
        const auto middle = static_cast<double>(2 * half + 2 * middles.whole(i, 0, half - 1) + 1);
        const double size = middle * std::exp2(static_cast<double>(exponents.whole(i, -3, -1)));
        return (places.whole(i, 0, 1) == 0 ? size : -size) * unit;
    });
}

void small_rms(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(), [&](auto r, auto c, auto columns) { return 0x1p-9 * draw.normal(r * columns + c); });
}

void wide(Maker& maker) {
    const Draws draw = maker.draws("x"), exponents = maker.draws("exponent");
    const Format format = format_of(maker.request());
    // Exponents cover only half of the range, because squares are summed.
    const int least = std::max(static_cast<int>(std::log2(min_normal_of(format)) / 2), -40),
              greatest = std::min(static_cast<int>(std::log2(greatest_of(format)) / 2), 40);
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const std::int64_t i = r * columns + c;
        return std::ldexp(draw.normal(i) < 0 ? -1 - draw.uniform(i) : 1 + draw.uniform(i),
                          static_cast<int>(exponents.whole(i, least, greatest)));
    });
}

void subnormal(Maker& maker) {
    const Draws draw = maker.draws("x");
    const Format format = format_of(maker.request());
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const std::int64_t most = (std::int64_t{1} << (format.precision - 1)) - 1;
        return static_cast<double>(draw.signed_whole(r * columns + c, 1, std::max<std::int64_t>(most, 1))) *
               min_subnormal_of(format);
    });
}

/// Makes logits that are -inf from a random place on in each row. All logits of row 1 are -inf, unless the losses are
/// reduced.
void masked(Maker& maker) {
    const Draws draw = maker.draws("x"), lengths = maker.draws("length");
    // A row without a finite logit would make the reduced loss NaN.
    const bool has_empty_row = maker.request().declaration.reduction == Reduction::none;
    MadeInputs& inputs = maker.add();
    fill(inputs, [&](auto r, auto c, auto columns) {
        const std::int64_t length = r == 1 && has_empty_row ? 0 : lengths.whole(r, 1, columns);
        return c < length ? draw.normal(r * columns + c) : -infinite;
    });
    aim_at_maximum(inputs);
}

void specials(Maker& maker) {
    const Draws draw = maker.draws("x"), places = maker.draws("place");
    const double kinds[] = {std::numeric_limits<double>::quiet_NaN(), infinite, -infinite, -0.0, 0.0};
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const bool is_place = r % 3 == 1 && c == places.whole(r, 0, columns - 1);
        return is_place ? kinds[static_cast<std::size_t>(r / 3) % std::size(kinds)] : draw.normal(r * columns + c);
    });
}

/// Makes rows that are slightly shorter or longer than usual tiles. Rows of these lengths do not fill whole vectors.
/// The last element of the first row is its maximum or minimum, so that any omitted tail has an effect.
void lengths(Maker& maker) {
    for (const std::int64_t columns : {1, 2, 127, 129, 1023, 1025}) {
        InputRequest request = maker.request();
        request.columns = columns;
        MadeInputs& inputs = maker.add(std::to_string(columns), request);
        if (has_extremes(request))
            inputs.arrays.front().values[static_cast<std::size_t>(columns - 1)] = is_minimum(request) ? -80 : 80;
    }
}

constexpr Recipe recipes[] = {
    {"normal", "N(0, 1)", "most wrong kernels", always, normal},
    {"positive", "U(0, 1)", "sums that stall, narrow accumulators", always, positive},
    {"integers", "integers from -4 to 4", "wrong tails and layouts", always, integers},
    {"large", "logits up to 88, in every fourth row up to 500; in some rows about -200 or 200",
     "exponentials out of range", always, large},
    {"equal", "equal numbers within each row", "variance and maximum of equal numbers", always, equal},
    {"constant", "1.5 everywhere", "division by a variance of zero", always, constant},
    {"one-huge", "N(0, 1), and 80 or -80 once in each row", "sums with one large term, tails of extremes", always,
     one_huge},
    {"far-mean", "N(100, 1)", "n - 1 instead of n", always, far_mean},
    {"offset", "one large number in each row, except for one element that is the next number",
     "kernels that compute the variance in one pass or update it with each element", has_variance, offset},
    {"far",
     "rows next to the largest finite number, of either sign; rows of zeros; rows whose first element is the "
     "largest in magnitude",
     "a maximum whose initial value is finite instead of -inf", has_maximum, far},
    {"far-logits", "several equal largest logits in each row, at a large offset of either sign",
     "the maximum and the logarithm added before x is subtracted", has_shift, far_logits},
    {"infinite-rows", "one third of the rows -inf, one third inf", "extremes that start at a finite number",
     has_infinite_extremes, infinite_rows},
    {"scale-ties", "numbers midway between two codes of a quantiser, and its largest number",
     "products with the inverse scale instead of quotients, and the reverse", is_quantised, scale_ties},
    {"small-rms", "N(0, 1) 2^-9", "a wrong eps", always, small_rms},
    {"wide", "exponents uniform over half of the range of the format", "the order of sums", always, wide},
    {"subnormal", "subnormal numbers", "flushed operands", has_subnormals, subnormal},
    {"masked", "in each row, all elements from a certain place on are -inf; one row is entirely -inf",
     "wrong masks; rows without a finite logit", has_masks, masked},
    {"specials", "N(0, 1); in every third row, one element is NaN, an infinity or a zero",
     "special values that get lost", has_infinity, specials},
    {"lengths", "rows of 1, 2, 127, 129, 1023 and 1025 elements", "wrong tails", always, lengths},
};

}  // namespace

std::span<const Recipe> row_recipes() { return recipes; }

}  // namespace macheps::check
