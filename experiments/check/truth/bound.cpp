// SPDX-License-Identifier: Apache-2.0
// Computes certain error bounds by midpoint-radius arithmetic on the list of nodes. The bound of a step follows from
// the bounds Ex and Ey of its operands and from the unit roundoff u. Terms of first and second order are kept, and the
// bound is rounded up.
#include "experiments/check/truth/nodes.hpp"
#include "experiments/check/truth/rounding_to.hpp"

#include <algorithm>
#include <limits>

namespace macheps::check {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double upward = 1 + 0x1p-40;  // covers a few fp64 operations, each with a relative error below 2^-53

struct Operand {
    double value = 0, bound = 0;

    bool is_zero_possible() const { return std::fabs(value) <= bound; }
};

/// The error bound of finite results, and whether a legal kernel may return a result that is not finite.
struct Bounded {
    double bound = 0;
    Overflowing overflow = Overflowing::never;
};

/// Returns the smallest magnitude that rounds to infinity in the format, with rounding to nearest.
double overflow_of(const Format& format) {
    const double largest = decode64(format, format.max_finite_code() << format.padding);
    return largest + half_ulp(format, largest);
}

/// Returns a bound of the error that the operand's error causes in a function of one number. `z` is the exact value of
/// the function.
double carried_by_function(Step step, Operand x, double z) {
    const double ax = std::fabs(x.value), r = x.bound / ax, size = std::fabs(z);
    if (x.bound == 0) return 0;
    switch (step) {
        case Step::inverse_root:
            // |1/sqrt(x) - 1/sqrt(x')| is greatest at x' = x - Ex, where it equals z (1/sqrt(1 - r) - 1).
            return r < 1 ? size * r / (sqrt(1 - r) * (1 + sqrt(1 - r))) : infinite;
        case Step::root:
            return r < 1 ? size * r / (1 + sqrt(1 - r)) : sqrt(ax + x.bound);
        case Step::logarithm:
            return r < 0.5 ? r / (1 - r) : infinite;
        case Step::exponential:
            return size * x.bound * (1 + x.bound);  // e^E - 1 <= E (1 + E) for E <= 1
        case Step::sigmoid: {
            // The derivative of log z is 1 - z. It grows by at most the factor e^E <= 1 + 2 E if x changes by E <= 1.
            const double t = (1 - z) * x.bound * (1 + 2 * x.bound);
            return x.bound <= 1 ? std::min(1.0, z * t * (1 + t)) : 1;
        }
        case Step::tangent:
            // The derivative of tanh x is 1 - z^2. It grows by at most the factor e^(2 E) <= 1 + 4 E if x changes by E
            // <= 1/2. For large |x|, 1 - |tanh| is at most 2 e^(-2 |x|).
            if (x.bound <= 0.5) return x.bound * std::min(1.0, (1 - z * z) * (1 + 4 * x.bound));
            return std::min(x.bound, ax > x.bound ? std::min(2.0, 2 * upward * math::exp(-2 * (ax - x.bound))) : 2.0);
        case Step::error: {
            const double t = 2 * ax * x.bound;  // e^-(|x| - E)^2 <= e^-x^2 e^t
            if (t <= 1) return x.bound * 0x1.20dd76p+0 * math::exp(-ax * ax) * (1 + 2 * t);
            // For large |x|, 1 - |erf| is at most e^-x^2.
            const double least = ax - x.bound, tail = least > 0 ? upward * math::exp(-least * least) : 2;
            return std::min(x.bound * 0x1.20dd76p+0, tail);
        }
        default:
            return x.bound;
    }
}

/// Returns a bound of the error that the operands' errors cause in a step. The step's own roundings are not included.
double carried(const Node& node, double addend, Operand x, Operand y, double z) {
    const double ax = std::fabs(x.value), ay = std::fabs(y.value);
    switch (node.step) {
        case Step::add:
        case Step::subtract:
            return x.bound + y.bound;
        case Step::accumulate:
            return x.bound + y.bound + addend * (ay + y.bound);
        case Step::multiply:
            return ax * y.bound + ay * x.bound + x.bound * y.bound;
        case Step::divide:
            return ay > y.bound ? (x.bound + std::fabs(z) * y.bound) / (ay - y.bound) : infinite;
        case Step::slack:
            return x.bound;
        case Step::either:
        case Step::larger:
            return std::max(x.bound, y.bound);
        default:
            return carried_by_function(node.step, x, z);
    }
}

/// Returns a bound of the relative error of e^x. A kernel may compute 2^(x log2 e), which rounds the argument two more
/// times.
double exponential_error(const Arithmetic& a, Operand x) {
    const Accuracy& of = a.of(Function::exponential);
    const double size = std::fabs(x.value) + x.bound,
                 argument = (a.is_reference ? 0 : 2 * a.unit_roundoff * size) + of.per_argument * size;
    return of.relative + argument * (1 + argument);
}

double function_error(const Accuracy& of, double size) { return of.relative * size + of.absolute; }

/// Returns a bound of the error that a step's own roundings cause if the result is at most `size` in magnitude.
double made(const Node& node, const Arithmetic& a, double size, Operand x, Operand y, double z) {
    const double u = a.unit_roundoff;
    switch (node.step) {
        case Step::slack:
            return a.is_reference ? 0 : node.roundings * u * (std::fabs(y.value) + y.bound);
        case Step::either:
        case Step::larger:
        case Step::absolute:
            return 0;
        case Step::round:
            return a.is_reference ? 0 : half_ulp(node.format, size);
        case Step::convert:
            return x.bound == 0 ? 0 : (node.rounding == Round::nearest_even ? 1 : 2) * half_ulp(node.format, size);
        case Step::exponential:
            return size * exponential_error(a, x) + a.of(Function::exponential).absolute + a.least;
        case Step::sigmoid: {
            // In 1 / (1 + e^-x), the error of the exponential is weighted by the share of e^-x in the sum, which is 1 -
            // z.
            const double error = exponential_error(a, x), sum = (1 - z + x.bound) * error * (1 + error) + 3 * u,
                         bound = size * (sum + a.of(Function::quotient).relative - u) + a.least;
            return !a.is_reference && x.value < -87 ? bound + size : bound;  // e^-x may overflow, or z may be flushed
        }
        case Step::logarithm:
            return function_error(a.of(Function::logarithm), size) + a.least;
        case Step::inverse_root:
            return function_error(a.of(Function::inverse_root), size);
        case Step::root:  // a kernel may also compute x (1 / sqrt(x))
            return function_error(a.of(Function::inverse_root), size) + u * size + a.of(Function::root).absolute;
        case Step::tangent:
            return function_error(a.of(Function::tangent), size) + a.least;
        case Step::error:
            return function_error(a.of(Function::error), size) + a.least;
        case Step::divide:
            return node.roundings * (u * size + a.least) + (a.of(Function::quotient).relative - u) * size;
        default:
            return node.roundings * (u * size + a.least) + node.unit_roundings * u;
    }
}

/// Returns true if a quotient has no error: the operands are exact, the division is correctly rounded, the divisor is a
/// power of two (as in many means), and fp32 can hold the quotient.
bool is_exact_quotient(const Node& node, Operand x, Operand y, double z, const Arithmetic& a) {
    if (node.step != Step::divide || x.bound != 0 || y.bound != 0 || a.of(Function::quotient).relative > 0x1p-24)
        return false;
    const Unpacked divisor = unpack(y.value);
    return (divisor.significand & (divisor.significand - 1)) == 0 && static_cast<double>(static_cast<float>(z)) == z;
}

/// Returns the error bound of one element. Returns infinity if the error has no bound or if the result may overflow. If
/// an operand that overflows to infinity still leads to a finite result, `lost` is the error of that result, otherwise
/// 0.
double element_bound(const Node& node, const Row& row, Operand x, Operand y, double z, const Arithmetic& a,
                     double overflow, double lost = 0) {
    if (!std::isfinite(z)) return 0;  // NaN and infinite results have no error bound; they are judged separately
    if (node.step == Step::exponential && z == 0) return a.least + a.of(Function::exponential).absolute;
    const double addend = a.is_reference ? 0 : row.addend_certain;  // the reference adds the addend to its finished sum
    const double before = std::max(carried(node, addend, x, y, z), lost), size = std::fabs(z) + before;
    // If the result is 0 and no operand has an error, nothing is rounded.
    if (size == 0 && node.step != Step::sigmoid) return 0;
    if (node.step == Step::sigmoid && !std::isfinite(x.value)) return 0;  // exactly 1 / (1 + 0) or 1 / infinity
    if (node.step == Step::exponential && x.bound + 2 * a.unit_roundoff * std::fabs(x.value) > 1) return infinite;
    if (lost == 0 && is_exact_quotient(node, x, y, z, a)) return 0;
    const double bound = (before + made(node, a, size, x, y, z)) * upward;
    return std::fabs(z) + bound < overflow ? bound : infinite;
}

/// Returns which non-finite results are legal in a step whose operands may overflow. `z` is the exact result, which is
/// finite, and `bound` is its error bound.
Overflowing carried_overflow(const Node& node, Operand x, Operand y, Overflowing of_x, Overflowing of_y, double z,
                             double bound) {
    const Overflowing worst = std::max(of_x, of_y), never = Overflowing::never, anything = Overflowing::to_anything;
    if (worst == never) return worst;
    switch (node.step) {
        case Step::exponential:  // if x overflows, e^x is 0 or infinity, and so is the exact result in fp64
        case Step::inverse_root:
        case Step::sigmoid:
        case Step::tangent:
        case Step::error:
            return of_x == anything ? anything : never;
        case Step::root:  // a kernel may also compute x (1 / sqrt(x)), which is NaN at infinity
            return anything;
        case Step::divide:
            return of_y == never ? of_x : of_x == never ? never : anything;
        case Step::multiply:  // infinity times zero is NaN
            return (of_x == never ? x : y).is_zero_possible() ? anything : worst;
        case Step::add:
        case Step::subtract:
        case Step::accumulate: {
            if (of_x != never && of_y != never) return anything;
            const double from = of_x != never ? x.value : node.step == Step::subtract ? -y.value : y.value;
            return std::fabs(z) > bound && std::signbit(from) == std::signbit(z) ? worst : anything;
        }
        default:
            return worst;
    }
}

/// Returns the error bound of finite results, and which non-finite results are legal, for a step whose operands or
/// result may overflow.
Bounded overflowing_bound(const Node& node, const Row& row, Operand x, Operand y, Overflowing of_x, Overflowing of_y,
                          double z, const Arithmetic& a) {
    const Overflowing worst = std::max(of_x, of_y);
    if (!std::isfinite(z)) return {0, worst == Overflowing::to_anything ? worst : Overflowing::never};
    // If the divisor of a division or the operand of an inverse root overflows to infinity, the result is 0.
    const bool is_lost = (node.step == Step::divide && of_y != Overflowing::never) ||
                         (node.step == Step::inverse_root && of_x != Overflowing::never);
    const double bound = element_bound(node, row, x, y, z, a, infinite, is_lost ? std::fabs(z) : 0);
    const Overflowing before = carried_overflow(node, x, y, of_x, of_y, z, bound);
    const bool is_rounding = !a.is_reference && (node.step == Step::round || node.step == Step::convert);
    const double threshold = is_rounding ? std::min(a.overflow, overflow_of(node.format)) : a.overflow;
    if (std::fabs(z) + (is_rounding ? x.bound : bound) < threshold) return {bound, before};
    const bool has_infinity = !is_rounding || node.format.has_inf();
    const Overflowing own = has_infinity && std::fabs(z) > bound ? Overflowing::to_infinity : Overflowing::to_anything;
    return {bound, std::max(own, before)};
}

/// Returns true if no partial sum is rounded, in whatever order the terms are added. This holds if all terms are
/// multiples of one unit, and the sum of their magnitudes is at most 2^p units, where p is the precision of the
/// accumulator.
bool is_exact_sum(const SumOrder& order, const std::vector<Wide>& x, std::size_t count, double magnitudes) {
    if (magnitudes == 0) return true;
    const double unit = ulp(order.accumulator, magnitudes);
    if (unit < 0x1p-126 || magnitudes > Format::power_of_two(order.accumulator.precision) * unit) return false;
    const double per_unit = 1 / unit;
    return std::all_of(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count), [&](const Wide& one) {
        const double units = one.high * per_unit;
        return one.low == 0 && units == std::nearbyint(units);
    });
}

Bounded sum_bound(const Node& node, const std::vector<Wide>& x, const std::vector<double>& bounds, double z,
                  const Arithmetic& a) {
    double errors = 0, magnitudes = 0;
    const std::size_t count = x.size() - std::min(x.size(), static_cast<std::size_t>(node.skipped));
    for (std::size_t i = 0; i < count; ++i) {
        if (!std::isfinite(x[i].high)) continue;
        errors += bounds[i];
        magnitudes += std::fabs(x[i].high) + bounds[i];
    }
    const auto terms = static_cast<std::int64_t>(count);
    const double additions = count > 0 ? static_cast<double>(count - 1) : 0;
    // The factor `up` covers the rounding errors of `errors` and `magnitudes`, which are fp64 sums of nonnegative
    // numbers.
    const double up = (1 + (additions + 4) * 0x1p-52) * upward;
    if (errors == 0 && node.roundings == 0 && magnitudes < a.overflow && is_exact_sum(node.order, x, count, magnitudes))
        return {};
    if (a.is_reference) return {(errors + additions * a.unit_roundoff * magnitudes) * up};
    const Format& accumulator = node.order.accumulator;
    double bound = errors + sum_error(node.order, terms) * magnitudes + node.roundings * a.unit_roundoff * magnitudes;
    if (node.order.is_narrow()) bound += static_cast<double>(terms) * half_ulp(accumulator, 0);
    const double most = node.order.is_narrow()
                            ? decode64(accumulator, accumulator.max_finite_code() << accumulator.padding)
                            : a.overflow;
    bound *= up;
    if (magnitudes + bound < most) return {bound};
    // No partial sum whose sign is opposite to that of the result is larger than `opposite`. If such sums cannot
    // overflow, infinities of opposite signs are never added.
    const double opposite = (magnitudes - std::fabs(z)) / 2 + bound;
    return {bound, opposite < most && std::fabs(z) > bound ? Overflowing::to_infinity : Overflowing::to_anything};
}

/// Bounds the error of steps that take an element from another place of the row: extremes, selections and moves.
void placed_bound(const Node& node, const Row& row, const std::vector<double>& x, std::vector<double>& out) {
    switch (node.step) {
        case Step::greatest:
        case Step::least:
            out[0] = *std::max_element(x.begin(), x.end());
            return;
        case Step::select: {
            const double place = (*row.inputs)[static_cast<std::size_t>(node.array)].at(row.row, 0, row.columns);
            if (place >= 0 && place < static_cast<double>(x.size())) out[0] = x[static_cast<std::size_t>(place)];
            return;
        }
        default:
            for (std::size_t i = 0; i < out.size(); ++i)
                out[i] = x[static_cast<std::size_t>(
                    moved(node.move, static_cast<std::int64_t>(i), static_cast<std::int64_t>(out.size())).from)];
    }
}

/// Bounds the error of a step without operands. Returns false if the step has operands.
bool is_source(const Node& node, const Row& row, const std::vector<Wide>& z, const Arithmetic& a,
               std::vector<double>& out) {
    if (node.step == Step::input) return true;
    if (node.step == Step::constant) {
        // A kernel rounds constants to its compute format. The reference uses the declared values.
        const bool is_exact =
            node.constant_low == 0 &&
            (a.is_reference || static_cast<double>(static_cast<float>(node.constant)) == node.constant);
        out[0] = is_exact ? 0 : a.unit_roundoff * std::fabs(node.constant);
        return true;
    }
    if (node.step != Step::product) return false;
    for (std::size_t i = 0; i < z.size(); ++i) {
        const ProductSum& product = (*row.products)[i];
        out[i] = !std::isfinite(z[i].high) ? 0 : a.is_reference ? product.certificate : product.certain;
    }
    return true;
}

/// Records in `to` which elements of which nodes may overflow. If `to` is null, makes the bounds of these elements
/// infinite instead.
class OverflowRecord {
  public:
    OverflowRecord(Overflows* to, std::size_t nodes) : to_(to) {
        if (to_ == nullptr) return;
        to_->clear();
        to_->nodes.resize(nodes);
        last_ = nodes - 1;
    }
    bool is_any() const { return to_ != nullptr && to_->is_any; }
    Overflowing at(std::size_t node, std::size_t i) const {
        return to_ == nullptr ? Overflowing::never : to_->at(node, i);
    }
    void set(std::size_t node, std::size_t i, Overflowing overflow, std::vector<double>& bounds) const {
        if (overflow == Overflowing::never) return;
        if (to_ == nullptr) {
            bounds[i] = infinite;
            return;
        }
        to_->is_any = true;
        to_->is_inside = to_->is_inside || node != last_;
        to_->nodes[node].resize(bounds.size(), Overflowing::never);
        to_->nodes[node][i] = std::max(to_->nodes[node][i], overflow);
    }
    /// Copies the overflow of an operand to the result of a step that only selects or moves elements.
    void carry(const Node& node, std::size_t n, const Row& row, std::vector<double>& bounds) const {
        const auto x = static_cast<std::size_t>(node.x);
        if (to_ == nullptr || !to_->is_any || to_->nodes[x].empty()) return;
        const std::vector<Overflowing>& from = to_->nodes[x];
        for (std::size_t i = 0; i < bounds.size(); ++i) {
            std::size_t place = i;
            if (node.step == Step::select) {
                const double at = (*row.inputs)[static_cast<std::size_t>(node.array)].at(row.row, 0, row.columns);
                if (!(at >= 0 && at < static_cast<double>(from.size()))) continue;
                place = static_cast<std::size_t>(at);
            } else if (node.step == Step::move) {
                place = static_cast<std::size_t>(
                    moved(node.move, static_cast<std::int64_t>(i), static_cast<std::int64_t>(bounds.size())).from);
            }
            const bool is_extreme = node.step == Step::greatest || node.step == Step::least;
            set(n, i, is_extreme ? *std::max_element(from.begin(), from.end()) : from[place], bounds);
        }
    }

  private:
    Overflows* to_;
    std::size_t last_ = 0;
};

/// Returns which non-finite results are legal in a sum whose terms may overflow. Infinities of opposite signs add to
/// NaN. NaN is therefore excluded only if all terms have the sign of the sum.
Overflowing overflow_of_terms(const OverflowRecord& record, std::size_t node, const std::vector<Wide>& x, double z,
                              double bound) {
    if (!record.is_any()) return Overflowing::never;
    Overflowing worst = Overflowing::never;
    for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, record.at(node, i));
    if (worst != Overflowing::to_infinity) return worst;
    const bool has_one_sign = std::all_of(x.begin(), x.end(), [&](const Wide& one) { return one.high * z >= 0; });
    return has_one_sign && std::fabs(z) > bound ? worst : Overflowing::to_anything;
}

}  // namespace

double half_ulp(const Format& format, double x) { return HalfUlp(format)(x); }

void bound(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Arithmetic& a,
           Columns<double>& out, Overflows* overflows) {
    out.resize(nodes.size());
    const OverflowRecord record(overflows, nodes.size());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        const Node& node = nodes[n];
        const std::vector<Wide>& z = values[n];
        out[n].assign(z.size(), 0);
        if (is_source(node, row, z, a, out[n])) {
            for (std::size_t i = 0; node.step == Step::product && !a.is_reference && i < z.size(); ++i)
                record.set(n, i, (*row.products)[i].overflow, out[n]);
            continue;
        }
        const auto px = static_cast<std::size_t>(node.x), py = node.y < 0 ? px : static_cast<std::size_t>(node.y);
        const std::vector<Wide>&x = values[px], &y = values[py];
        const std::vector<double>&x_bounds = out[px], &y_bounds = out[py];
        switch (node.step) {
            case Step::sum: {
                Bounded sum{};
                if (std::isfinite(z[0].high)) sum = sum_bound(node, x, x_bounds, z[0].high, a);
                out[n][0] = sum.bound;
                record.set(n, 0, std::max(sum.overflow, overflow_of_terms(record, px, x, z[0].high, sum.bound)),
                           out[n]);
                continue;
            }
            case Step::greatest:
            case Step::least:
            case Step::select:
            case Step::move:
                placed_bound(node, row, x_bounds, out[n]);
                record.carry(node, n, row, out[n]);
                continue;
            case Step::keep:
                if ((*row.inputs)[static_cast<std::size_t>(node.array)].at(row.row, 0, row.columns) == node.constant)
                    continue;
                out[n] = x_bounds;
                record.carry(node, n, row, out[n]);
                continue;
            default:
                break;
        }
        // Overflow is rare, so most steps first try a faster bound without overflow. Rounding and conversion steps do
        // not try it.
        const bool is_plain = !record.is_any() && node.step != Step::round && node.step != Step::convert;
        std::vector<double>& bounds = out[n];
        for (std::size_t i = 0; i < z.size(); ++i) {
            const std::size_t p = x.size() == 1 ? 0 : i, q = y.size() == 1 ? 0 : i;
            const Operand of_x{x[p].high, x_bounds[p]}, of_y{y[q].high, y_bounds[q]};
            if (is_plain) {
                bounds[i] = element_bound(node, row, of_x, of_y, z[i].high, a, a.overflow);
                if (bounds[i] < infinite) continue;
            }
            const Bounded one =
                overflowing_bound(node, row, of_x, of_y, record.at(px, p), record.at(py, q), z[i].high, a);
            bounds[i] = std::isnan(one.bound) ? infinite : one.bound;
            if (one.overflow != Overflowing::never) record.set(n, i, one.overflow, bounds);
        }
    }
}

}  // namespace macheps::check
