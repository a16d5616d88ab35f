// SPDX-License-Identifier: Apache-2.0
// Recipes for matrix products. They set the contents of a [m,k] and b [k,n].
#include "experiments/check/inputs/recipes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace macheps::check {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Sets every element of an array to value(row, column). Row numbers continue from one batch to the next.
template <class Function>
void fill(MadeArray& array, Function value) {
    const std::int64_t columns = array.shape.back(), rows = static_cast<std::int64_t>(array.values.size()) / columns;
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c)
            array.values[static_cast<std::size_t>(r * columns + c)] = value(r, c);
    }
}

/// Sets scales to 1, and all other arrays except a and b to 0. With other contents, these arrays would cause roundings
/// in recipes whose sums are exact.
void leave_bare(MadeInputs& inputs) {
    for (MadeArray& array : inputs.arrays) {
        if (array.name == "a" || array.name == "b" || array.is_whole) continue;
        std::fill(array.values.begin(), array.values.end(), array.name.ends_with("_scale") ? 1.0 : 0.0);
    }
}

bool always(const InputRequest&) { return true; }

void normal(Maker& maker) { maker.add(); }

void positive(Maker& maker) {
    MadeInputs& inputs = maker.add();
    for (const char* name : {"a", "b"}) {
        MadeArray& array = inputs.at(name);
        const Draws draw = maker.draws(name);
        fill(array, [&](auto r, auto c) { return draw.uniform(r * array.shape.back() + c); });
    }
}

/// Sets a to random integers of magnitude up to p, and b to random integers of magnitude up to q.
void fill_whole(MadeInputs& inputs, const Maker& maker, std::int64_t p, std::int64_t q) {
    for (const auto& [name, most] : {std::pair{"a", p}, {"b", q}}) {
        MadeArray& array = inputs.at(name);
        const Draws draw = maker.draws(name);
        fill(array, [&, most = most](auto r, auto c) {
            return static_cast<double>(draw.whole(r * array.shape.back() + c, -most, most));
        });
    }
    leave_bare(inputs);
}

void integers(Maker& maker) { fill_whole(maker.add(), maker, 4, 4); }

// --- resolution

struct WholeSizes {
    std::int64_t p = 0, q = 0;
};

/// Returns magnitudes p and q, as large as possible, such that sums of k products of integers up to p and up to q are
/// exact in the accumulator in any order: k p q <= 2^bits.
WholeSizes resolution_sizes(const InputRequest& r) {
    const double room = std::ldexp(1.0, r.accumulator_bits()) / static_cast<double>(r.k);
    // Above greatest_whole_of(), a format has only some of the integers. Integers up to 16 times that limit are allowed
    // here.
    const auto limit = [&](std::string_view name) {
        return std::min(greatest_of(r.format(name)), 16.0 * static_cast<double>(greatest_whole_of(r.format(name))));
    };
    const double p = std::floor(std::min(std::sqrt(room), limit("a"))), q = std::floor(std::min(room / p, limit("b")));
    return {static_cast<std::int64_t>(p), static_cast<std::int64_t>(q)};
}

/// Returns true if the sums need more bits than bf16 has, so that a rounding to bf16 is visible. The size of the sums
/// is about p q sqrt(k) / 3. Above 2^12, they also need more bits than fp16 has.
bool has_resolution(const InputRequest& r) {
    const WholeSizes sizes = resolution_sizes(r);
    return sizes.p >= 1 && sizes.q >= 1 &&
           static_cast<double>(sizes.p * sizes.q) * std::sqrt(static_cast<double>(r.k)) / 3 >= 0x1p9;
}

void resolution(Maker& maker) {
    const WholeSizes sizes = resolution_sizes(maker.request());
    fill_whole(maker.add(), maker, sizes.p, sizes.q);
}

// --- one-hot

/// Sets one element in each row of a to 1, and all others to 0. In row 0, the last element is 1. Each of the following
/// rows has the 1 in another column, until all columns have been used. The elements of b have magnitudes below 2, in up
/// to six binades, and either sign. They are all different if the format has enough codes.
void one_hot(Maker& maker) {
    MadeInputs& inputs = maker.add();
    const InputRequest& r = maker.request();
    std::int64_t step =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(0.6180339887498949 * static_cast<double>(r.k)));
    while (std::gcd(step, r.k) != 1) ++step;
    fill(inputs.at("a"), [&](auto row, auto p) { return p == (r.k - 1 + row % r.k * step) % r.k ? 1.0 : 0.0; });
    const Format format = r.format("b");
    const std::int64_t binades = std::max(1, std::min({6, -format.emin(), format.bits - format.precision})),
                       per_binade = std::int64_t{1} << (format.precision - 1), codes = binades * per_binade;
    fill(inputs.at("b"), [&](auto row, auto column) {
        const std::int64_t number = row * r.n + column, code = number / 2 % codes;
        const double size = std::ldexp(1 + static_cast<double>(code % per_binade) / static_cast<double>(per_binade),
                                       -static_cast<int>(code / per_binade));
        return number % 2 == 0 ? size : -size;
    });
    leave_bare(inputs);
}

// --- tail

/// Sets each row of a to zero except for a few terms at its end. In the last set of inputs, only the first term is
/// nonzero. That set exposes terms that are left over from an earlier launch.
void tail(Maker& maker) {
    const std::int64_t k = maker.request().k;
    std::set<std::int64_t> lengths{1};
    for (const std::int64_t tile : {8, 16, 32, 64, 128}) {
        if (k > tile && k % tile != 0) lengths.insert(k % tile);
    }
    const auto add = [&](const std::string& part, std::int64_t first, std::int64_t last) {
        MadeInputs& inputs = maker.add(part);
        for (const char* name : {"a", "b"}) {
            MadeArray& array = inputs.at(name);
            const Draws draw = maker.draws(name);
            const bool is_a = array.name == "a";
            fill(array, [&](auto r, auto c) {
                const std::int64_t p = is_a ? c : r % k;
                return is_a && (p < first || p >= last)
                           ? 0.0
                           : static_cast<double>(draw.signed_whole(r * array.shape.back() + c, 1, 4));
            });
        }
        leave_bare(inputs);
    };
    for (const std::int64_t length : lengths) add(std::to_string(length), k - length, k);
    add("first", 0, 1);
}

// --- ties

/// How the sum of an output is split into terms. The sum has two parts, R + C (see ties()). R is written as `terms_a`
/// digits of `digits_a` bits each, and an element of a can hold such a digit exactly. C is written as `terms_b` digits
/// of `digits_b` bits each, and an element of b can hold such a digit exactly. Each digit is one term.
struct TieLayout {
    int digits_a = 1, digits_b = 1, terms_a = 1, terms_b = 1, out_bits = 0;
    std::int64_t terms() const { return terms_a + terms_b; }
};

TieLayout tie_layout(const InputRequest& r) {
    TieLayout layout;
    layout.out_bits = r.format("out").precision;
    layout.digits_a = std::min(r.format("a").precision, layout.out_bits + 2);
    layout.digits_b = std::min(r.format("b").precision, layout.out_bits + 2);
    layout.terms_a = (layout.out_bits + 2 + layout.digits_a - 1) / layout.digits_a;
    layout.terms_b = (layout.out_bits + layout.digits_b - 1) / layout.digits_b;
    return layout;
}

bool has_ties(const InputRequest& r) {
    const TieLayout layout = tie_layout(r);
    const double place_a = std::ldexp(1.0, layout.digits_a * (layout.terms_a - 1)),
                 place_b = std::ldexp(1.0, layout.digits_b * (layout.terms_b - 1));
    return layout.out_bits + 2 < r.accumulator_bits() && layout.terms() <= r.k && r.declaration.alpha == 1 &&
           greatest_of(r.format("out")) >= std::ldexp(1.0, layout.out_bits + 2) &&
           greatest_of(r.format("b")) >= place_a && greatest_of(r.format("a")) >= place_b;
}

/// Returns digit `place` of `number`, where a digit has `digits` bits.
double digit(std::int64_t number, int digits, int place) {
    return static_cast<double>(number >> (digits * place) & ((std::int64_t{1} << digits) - 1));
}

/// Makes sums of p + 2 bits, where p is the precision of the output. In units of a quarter of an ulp, sums end in 1, 2
/// (a tie) or 3. The nearest codes are even for some sums and odd for others. Each sum is R + C, where R depends on the
/// row alone and is a multiple of 4 quarters, and C depends on the column alone. All terms that are not needed for R
/// and C cancel in groups of three.
void ties(Maker& maker) {
    MadeInputs& inputs = maker.add();
    const InputRequest& r = maker.request();
    const TieLayout layout = tie_layout(r);
    const std::int64_t unit = std::int64_t{1} << layout.out_bits, groups = (r.k - layout.terms()) / 3;
    const std::int64_t first = r.k - layout.terms() - 3 * groups, cancelling = first + layout.terms();
    const Draws rows = maker.draws("a"), columns = maker.draws("b"), others = maker.draws("ab");
    // In a group of three terms, the elements of a are u, w - u and -w, and the three elements of b are equal. The
    // three products therefore add up to zero.
    const double room = std::ldexp(1.0, r.accumulator_bits() - 2) / static_cast<double>(std::max<std::int64_t>(r.k, 1));
    const std::int64_t factor = room >= 64 ? 4 : 1,
                       most = std::min(greatest_whole_of(r.format("a")),
                                       static_cast<std::int64_t>(room / static_cast<double>(factor)));
    fill(inputs.at("a"), [&](auto row, auto p) -> double {
        const double sign = rows.whole(2 * row, 0, 1) == 0 ? 1 : -1;
        // The part R (here `high`) lies in [2, 2.75) times `unit` and the part C in (0, 1) times `unit`. The sum is
        // then in the binade from 2 to 4 times `unit`.
        const std::int64_t high = 2 * unit + 4 * rows.whole(2 * row + 1, 0, (3 * unit / 4 - 1) / 4);
        const std::int64_t at = p - first;
        if (at >= 0 && at < layout.terms_a) return sign * digit(high, layout.digits_a, static_cast<int>(at));
        if (at >= layout.terms_a && at < layout.terms())
            return sign * std::ldexp(1.0, layout.digits_b * static_cast<int>(at - layout.terms_a));
        if (p < cancelling || most < 1) return 0;
        const std::int64_t group = row * groups + (p - cancelling) / 3;
        const std::int64_t u = others.whole(2 * group, -most, most), w = u / 2;
        return static_cast<double>((p - cancelling) % 3 == 0 ? u : (p - cancelling) % 3 == 1 ? w - u : -w);
    });
    fill(inputs.at("b"), [&](auto row, auto column) -> double {
        const std::int64_t p = row % r.k, at = p - first;
        const std::int64_t low = 4 * columns.whole(2 * column, 0, unit / 4 - 1) + columns.whole(2 * column + 1, 1, 3);
        if (at >= 0 && at < layout.terms_a) return std::ldexp(1.0, layout.digits_a * static_cast<int>(at));
        if (at >= layout.terms_a && at < layout.terms())
            return digit(low, layout.digits_b, static_cast<int>(at - layout.terms_a));
        if (p < cancelling) return 0;
        const std::int64_t group = (row / r.k * groups + (p - cancelling) / 3) * r.n + column;
        return static_cast<double>(others.signed_whole(2 * group + 1, 1, factor));
    });
    leave_bare(inputs);
}

// --- cancel, swamp, wide

bool has_pairs(const InputRequest& r) { return r.k >= 2; }

/// Makes pairs of terms that nearly cancel. The terms of a pair are k / 2 apart.
void cancel(Maker& maker) {
    MadeInputs& inputs = maker.add();
    const std::int64_t k = maker.request().k, half = k / 2;
    MadeArray &a = inputs.at("a"), &b = inputs.at("b");
    const Draws of_a = maker.draws("a"), of_b = maker.draws("b");
    fill(a, [&](auto row, auto p) { return of_a.normal(row * k + (p >= half ? p - half : p)); });
    fill(b, [&](auto row, auto column) {
        const std::int64_t p = row % k, from = p >= half ? p - half : p;
        const double x = of_b.normal((row - p + from) * b.shape.back() + column);
        return p >= half && p < 2 * half ? -x * (1 - 0x1p-9) : x;
    });
}

constexpr std::int64_t swamp_terms = 96;
bool has_swamp(const InputRequest& r) { return r.k >= 2 * swamp_terms; }

/// Puts one large term and later its negative into each row, at reserved places. Terms that are added while the large
/// term is in the sum are lost. The small result therefore depends on which terms were lost.
void swamp(Maker& maker) {
    MadeInputs& inputs = maker.add();
    const InputRequest& r = maker.request();
    const auto large_of = [&](const char* name) {
        return std::min(r.format(name).bits <= 8 ? 0x1p8 : 0x1p11,
                        std::exp2(std::floor(std::log2(greatest_of(r.format(name))))));
    };
    const auto is_reserved = [&](std::int64_t p) {
        return p % (r.k / swamp_terms) == 0 && p / (r.k / swamp_terms) < swamp_terms;
    };
    const auto place = [&](std::int64_t slot) { return slot * (r.k / swamp_terms); };
    const Draws slots = maker.draws("slots"), of_a = maker.draws("a"), of_b = maker.draws("b");
    const double large_a = large_of("a"), large_b = large_of("b");
    fill(inputs.at("a"), [&](auto row, auto p) {
        if (!is_reserved(p)) return of_a.normal(row * r.k + p);
        const std::int64_t up = slots.whole(2 * row, 0, swamp_terms / 2 - 1),
                           down = slots.whole(2 * row + 1, swamp_terms / 2, swamp_terms - 1);
        return p == place(up) ? large_a : p == place(down) ? -large_a : 0.0;
    });
    fill(inputs.at("b"),
         [&](auto row, auto column) { return is_reserved(row % r.k) ? large_b : of_b.normal(row * r.n + column); });
}

/// Draws exponents from half of the range of the formats. They are limited so that no sum overflows fp32 or the output.
void wide(Maker& maker) {
    MadeInputs& inputs = maker.add();
    const InputRequest& r = maker.request();
    const double out = std::min(std::log2(greatest_of(r.format("out"))), 126.0);
    const int room = static_cast<int>((out - std::log2(static_cast<double>(r.k))) / 2) - 2;
    for (const char* name : {"a", "b"}) {
        const Format format = r.format(name);
        const double top = std::log2(greatest_of(format)), bottom = std::log2(min_normal_of(format));
        const int greatest = std::min(static_cast<int>(top / 2), room), least = static_cast<int>(bottom / 2);
        MadeArray& array = inputs.at(name);
        const Draws draw = maker.draws(name), exponents = maker.draws(fmt::format("{} exponent", name));
        fill(array, [&](auto row, auto c) {
            const std::int64_t i = row * array.shape.back() + c;
            const double size = 1 + std::fabs(2 * draw.uniform(i) - 1);
            const auto exponent = static_cast<int>(exponents.whole(i, std::min(least, greatest), greatest));
            return std::ldexp(draw.uniform(i) < 0.5 ? -size : size, exponent);
        });
    }
}

// --- scales

bool has_scales(const InputRequest& r) {
    const std::vector<std::string_view> arrays = r.arrays();
    return std::any_of(arrays.begin(), arrays.end(), [](std::string_view name) { return name.ends_with("_scale"); });
}

/// Sets scales so that each differs from the next one. The last scale of an array is subnormal if the array's format
/// has subnormal numbers. The first row of a is zero.
void scales(Maker& maker) {
    MadeInputs& inputs = maker.add();
    for (MadeArray& array : inputs.arrays) {
        if (!array.name.ends_with("_scale")) continue;
        for (std::size_t i = 0; i < array.values.size(); ++i)
            array.values[i] =
                std::ldexp(1 + static_cast<double>(i % 64) * 0x1p-6, static_cast<int>((i / 64 + i) % 7) - 3);
        const Format& format = array.format.format;
        if (array.values.size() > 2 && format.min_normal_code() > 1) array.values.back() = min_normal_of(format) / 2;
    }
    MadeArray& a = inputs.at("a");
    if (maker.request().m > 1) std::fill_n(a.values.begin(), maker.request().k, 0.0);
}

// --- groups

bool has_groups(const InputRequest& r) { return r.groups.size() >= 2; }

/// Distributes the rows over the groups in other ways: all rows to the first group, all rows to the last group, or one
/// row to each group and the remaining rows to the middle group. If group_rows is set, the largest group gets that many
/// rows.
void groups(Maker& maker) {
    const InputRequest& r = maker.request();
    const std::int64_t all = r.group_rows > 0 ? r.group_rows : r.m;
    const auto add = [&](std::string_view part, std::size_t large, std::int64_t others) {
        InputRequest request = r;
        const auto rest = others * static_cast<std::int64_t>(r.groups.size() - 1);
        if (r.group_rows == 0 && rest >= all) return;
        std::fill(request.groups.begin(), request.groups.end(), others);
        request.groups[large] = r.group_rows > 0 ? all : all - rest;
        maker.add(part, request);
    };
    add("first", 0, 0);
    add("last", r.groups.size() - 1, 0);
    add("ones", r.groups.size() / 2, 1);
}

// --- subnormal, specials

bool has_subnormals(const InputRequest& r) {
    return r.format("a").precision > 1 && r.format("b").precision > 1 && r.format("a").min_normal_code() > 1 &&
           r.format("b").min_normal_code() > 1;
}

/// Makes two sets of inputs: one in which all elements of a are subnormal, and one in which all elements of b are. The
/// elements of the other operand are large, so that the sums are multiples of a number of ordinary size.
void subnormal(Maker& maker) {
    const InputRequest& r = maker.request();
    const double max_sum = std::ldexp(1.0, r.accumulator_bits()) / static_cast<double>(r.k);
    for (const char* small : {"a", "b"}) {
        MadeInputs& inputs = maker.add(small);
        for (const char* name : {"a", "b"}) {
            const Format own = r.format(name), other = r.format(*name == 'a' ? "b" : "a");
            const std::int64_t codes = std::max<std::int64_t>(
                1, std::min((std::int64_t{1} << (own.precision - 1)) - 1, static_cast<std::int64_t>(max_sum / 3)));
            // The large operand is a small integer times 2^up. The factor 2^up is the inverse of the smallest subnormal
            // number of the other operand, if the large operand's format has such large numbers. Products are then
            // integers.
            const int up = std::min(static_cast<int>(std::log2(greatest_of(own))) - 2,
                                    -static_cast<int>(std::log2(min_subnormal_of(other))));
            MadeArray& array = inputs.at(name);
            const Draws draw(r.seed, inputs.name, name);
            fill(array, [&](auto row, auto column) {
                const std::int64_t i = row * array.shape.back() + column;
                return *name == *small ? static_cast<double>(draw.signed_whole(i, 1, codes)) * min_subnormal_of(own)
                                       : std::ldexp(static_cast<double>(draw.signed_whole(i, 1, 3)), up);
            });
        }
        leave_bare(inputs);
    }
}

bool has_specials(const InputRequest& r) { return r.format("a").has_nan() && r.m >= 2; }

/// Makes one row of a for each special case that the formats allow: NaN, inf, -inf, inf - inf, inf times zero,
/// overflow, and -0. All other rows are ordinary.
void specials(Maker& maker) {
    MadeInputs& inputs = maker.add();
    const InputRequest& r = maker.request();
    MadeArray &a = inputs.at("a"), &b = inputs.at("b");
    const Draws draw = maker.draws("places");
    std::int64_t next = 0, step = 7;
    while (std::gcd(step, r.m) != 1) ++step;
    const auto set = [&](double first, double second) {
        // Sets a random term of a row. Successive special values use rows that are far apart. Two of them share a row
        // only if there are too few rows.
        const std::int64_t row = (3 + step * next) % r.m, p = draw.whole(next, 0, r.k - 1);
        ++next;
        a.values[static_cast<std::size_t>(row * r.k + p)] = first;
        if (r.k > 1) {
            double& other = a.values[static_cast<std::size_t>(row * r.k + (p + 1) % r.k)];
            if (second != 0) other = second;
        }
        return p;
    };
    const double overflow = 8 * greatest_of(r.format("out"));
    set(std::numeric_limits<double>::quiet_NaN(), 0);
    if (r.format("a").has_inf()) {
        set(infinite, 0);
        set(-infinite, 0);
        set(infinite, -infinite);
        const std::int64_t p = set(infinite, 0);
        b.values[static_cast<std::size_t>(p * r.n)] = 0;
    }
    if (overflow < greatest_of(r.format("a")) && overflow < 0x1p100) set(overflow, 0);
    const std::int64_t row = (3 + step * next) % r.m;
    for (std::int64_t p = 0; p < r.k; ++p) a.values[static_cast<std::size_t>(row * r.k + p)] = -0.0;
}

constexpr Recipe recipes[] = {
    {"normal", "N(0, 1)", "most wrong kernels", always, normal},
    {"positive", "U(0, 1)", "truncation, sums that stall", always, positive},
    {"integers", "integers from -4 to 4; exact", "wrong layouts, tails and batches, but not the accumulator", always,
     integers},
    {"resolution", "integers whose sums just fit into the right accumulator; exact", "narrow accumulators",
     has_resolution, resolution},
    {"one-hot", "a single 1 in each row of a; the elements of b are different codes; exact",
     "permutations, swizzles, fragment layouts, operands that pass through another format", always, one_hot},
    {"tail", "a is zero except for its last terms (in one input, except for its first term); exact",
     "tails dropped or doubled, accumulators that are not cleared", always, tail},
    {"ties",
     "sums halfway between two codes of the output, and sums a quarter of an ulp away from the halfway point; exact",
     "ties away from zero, truncation, double rounding", has_ties, ties},
    {"cancel", "pairs of terms that nearly cancel, half of k apart", "lost leading bits, rounding between slices",
     has_pairs, cancel},
    {"swamp", "a large term and its negative in each row, N(0, 1) between them",
     "the order of summation, slices and promotion, even through a 16-bit output", has_swamp, swamp},
    {"wide", "exponents uniform over half of the range of the formats", "alignment, flushed operands", always, wide},
    {"scales", "scales that differ from their neighbours, a row of zeros, a subnormal scale",
     "scales that are exchanged, shifted or transposed", has_scales, scales},
    {"groups",
     "rows distributed in other ways: all in the first group, all in the last, or one row in each group but one",
     "errors with empty groups or groups of one row; a group's b or rows taken from its neighbour", has_groups, groups},
    {"subnormal", "first a, then b, consists of subnormal numbers; exact", "flushed subnormal operands", has_subnormals,
     subnormal},
    {"specials", "NaN, infinities, inf - inf, inf times 0, overflow, -0", "special values that get lost", has_specials,
     specials},
};

}  // namespace

std::span<const Recipe> product_recipes() { return recipes; }

}  // namespace macheps::check
