// SPDX-License-Identifier: Apache-2.0
// Recipes of operations on rows: contents of the arrays that have an element for each output.
#include "experiments/check/recipes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Sets the first array of elements by a function of its row, its column and the number of columns.
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
bool has_variance(const InputRequest& r) {
    return r.declaration.operation->has_variance && format_of(r).precision > 1;
}
bool has_exponentials(const InputRequest& r) {
    return r.declaration.operation->name.find("softmax") != std::string_view::npos && has_infinity(r);
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

/// Makes logits over the range of fp32's exponential, and far beyond it in every fourth row. In some other rows the logits are so
/// far below or above 0 that their own exponentials are all 0 or all infinite.
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

/// Makes one huge element in each row, of either sign, so that it is the minimum or the maximum. In half of the rows it is one of
/// the last terms, each of them in turn, so that exact operations also show an omitted tail. The last element of the array has
/// the largest magnitude.
void one_huge(Maker& maker) {
    const std::int64_t rows = maker.request().rows;
    const Draws draw = maker.draws("x"), places = maker.draws("place");
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const bool is_last = r + 1 == rows;
        const std::int64_t place = is_last     ? columns - 1
                                   : r % 4 < 2 ? columns - 1 - r / 4 % columns
                                               : places.whole(r, 0, columns - 1);
        return c == place ? (is_last ? -96 : r % 2 == 0 ? 80.0 : -80.0) : draw.normal(r * columns + c);
    });
}

void far_mean(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(), [&](auto r, auto c, auto columns) { return 100 + draw.normal(r * columns + c); });
}

/// Makes multiples of a unit: an integer that uses all digits of the format, and its neighbour once in each row. Their sums are
/// exact in fp32, so that two passes lose only the rounding of the mean, u mean. The variance is about unit^2 / n, and one pass
/// (mean x^2 - mean^2) returns only a rounding error of mean^2.
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

void small_rms(Maker& maker) {
    const Draws draw = maker.draws("x");
    fill(maker.add(), [&](auto r, auto c, auto columns) { return 0x1p-9 * draw.normal(r * columns + c); });
}

void wide(Maker& maker) {
    const Draws draw = maker.draws("x"), exponents = maker.draws("exponent");
    const Format format = format_of(maker.request());
    // Squares are summed.
    const int least = std::max(static_cast<int>(std::log2(least_normal_of(format)) / 2), -40),
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
               least_subnormal_of(format);
    });
}

/// Logits of -inf behind another place in each row, and in one row everywhere.
void masked(Maker& maker) {
    const Draws draw = maker.draws("x"), lengths = maker.draws("length");
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const std::int64_t length = r == 1 ? 0 : lengths.whole(r, 1, columns);
        return c < length ? draw.normal(r * columns + c) : -infinite;
    });
}

void specials(Maker& maker) {
    const Draws draw = maker.draws("x"), places = maker.draws("place");
    const double kinds[] = {std::numeric_limits<double>::quiet_NaN(), infinite, -infinite, -0.0, 0.0};
    fill(maker.add(), [&](auto r, auto c, auto columns) {
        const bool is_place = r % 3 == 1 && c == places.whole(r, 0, columns - 1);
        return is_place ? kinds[static_cast<std::size_t>(r / 3) % std::size(kinds)] : draw.normal(r * columns + c);
    });
}

/// Rows as long as no vector, and next to a tile's.
void lengths(Maker& maker) {
    for (const std::int64_t columns : {1, 2, 127, 129, 1023, 1025}) {
        // The sum of one number is a copy of it: nothing tells the two apart.
        if (columns == 1 && maker.request().declaration.operation->is_one_per_row) continue;
        InputRequest request = maker.request();
        request.columns = columns;
        maker.add(std::to_string(columns), request);
    }
}

constexpr Recipe recipes[] = {
    {"normal", "N(0, 1)", "most wrong kernels", always, normal},
    {"positive", "U(0, 1)", "sums that stall, narrow accumulators", always, positive},
    {"integers", "whole numbers from -4 to 4", "tails, layouts", always, integers},
    {"large", "logits up to 88, every fourth row up to 500, others about -200 or 200",
     "exponentials out of range", always, large},
    {"equal", "one number in each row", "variance and maximum where all agree", always, equal},
    {"constant", "1.5 everywhere", "division by a variance of nothing", always, constant},
    {"one-huge", "N(0, 1), and 80 or -80 once in each row", "sums with one large term, tails of extremes", always,
     one_huge},
    {"far-mean", "N(100, 1)", "n - 1 for n", always, far_mean},
    {"offset", "one large number in each row, and its neighbour once", "variance in one pass or by updates", has_variance,
     offset},
    {"small-rms", "N(0, 1) 2^-9", "another eps", always, small_rms},
    {"wide", "exponents uniform over half of the format's range", "order of sums", always, wide},
    {"subnormal", "subnormal numbers", "flushed operands", has_subnormals, subnormal},
    {"masked", "-inf behind another place in each row, and all along one", "masks; a row without any logit",
     has_exponentials, masked},
    {"specials", "NaN, infinities and zeros, one in a row", "swallowed specials", has_infinity, specials},
    {"lengths", "rows of 1, 2, 127, 129, 1023, 1025", "tails", always, lengths},
};

}  // namespace

std::span<const Recipe> row_recipes() { return recipes; }

}  // namespace macheps::check
