// SPDX-License-Identifier: Apache-2.0
// Computes the limits of each output. They follow from the problem, which is a declaration with its data.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/bounds/panels.hpp"
#include "experiments/check/bounds/products.hpp"
#include "experiments/check/bounds/sample.hpp"
#include "experiments/check/bounds/screen.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/truth/rounding_to.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace macheps::check {

/// Wrong elements of an array whose bits are prescribed.
struct Finding {
    std::string array;
    std::int64_t index = 0, count = 0;  ///< index of the first wrong element, and their number
    double got = 0, want = 0;
};

struct Problem {
    Declaration declaration{};
    Format output = fp32;
    std::int64_t rows = 0, columns = 0;  ///< number of rows on which the list of nodes runs, and of elements per row
    std::int64_t group_rows = 0;         ///< rows per batch; each batch is also judged on its own
    std::vector<Input> inputs{};
    std::optional<std::int64_t> changed_canary{};  ///< first element that the kernel wrote after the output's end
    std::shared_ptr<const Products> products{};

    /// Index of the first output element that the kernel wrote in an unused row of a group.
    std::optional<std::int64_t> changed_padding{};
    std::shared_ptr<const Sample> sample{};  ///< the sample to judge; null: all outputs are judged
    std::optional<Screen> screen{};          ///< result of the screen of all outputs if only a sample is judged
    std::string unscreened{};                ///< reason why a sample has no screen

    /// If the limits of all outputs take more bytes than this, they are recomputed whenever they are read.
    std::int64_t max_limit_bytes = INT64_MAX;

    std::vector<Finding> findings{};  ///< errors in arrays that the kernel wrote in addition to its output

    bool is_one_per_row() const { return declaration.operation->is_one_per_row; }
    /// Returns true if a second list of nodes reduces the results of all rows to one number.
    bool is_reduced() const { return declaration.reduction != Reduction::none; }
    std::int64_t outputs() const { return is_reduced() ? 1 : is_one_per_row() ? rows : rows * columns; }
};

/// The limits of all outputs, in row-major order.
struct Limits {
    Format format = fp32;
    bool is_narrow = false;  ///< the output format is narrower than fp32, so results are rounded at the end
    bool saturates = false, flushes = false;
    bool is_bitwise = false;  ///< zeros must have the right sign
    Round rounding = Round::nearest_even;
    int random_bits = 32;                                ///< number of random bits of stochastic rounding
    std::int64_t rows = 0, columns = 0, group_rows = 0;  ///< shape of the outputs, and rows per batch
    std::int64_t tile_rows = 0, tile_columns = 0;        ///< declared tile, judged in addition to 16x16 tiles; 0: none
    std::vector<std::int64_t> starts{};                  ///< first row of each group if group sizes differ; else empty
    LimitColumn<double> exact{}, low{};                  ///< the sum of both is exact up to the reference's error
    LimitColumn<double> before{};                        ///< certain bound of the error before the last rounding
    LimitColumn<double> certain{}, probable{};
    LimitColumn<double> deviation{};      ///< expected size of the error; tests of mean squares divide each error by it
    LimitColumn<Overflowing> overflow{};  ///< whether an output may legally be infinite or NaN
    /// Results, before the last rounding, of a kernel whose only errors are the declared roundings of intermediate
    /// results. Empty if no intermediate result is rounded.
    LimitColumn<double> rounded_inside{};
    /// The rounding_kind() of each output, for each intermediate rounding. Outputs of the same kind have the same error
    /// from that rounding.
    std::vector<LimitColumn<std::uint32_t>> inner_kinds{};
    std::shared_ptr<const Sample> sample{};  ///< the sample that is judged; null: all outputs
    std::int64_t escalated = 0;              ///< number of outputs that were recomputed as exact integers
    /// The first output that cannot be judged: its bound is infinite or its reference too inaccurate. -1: none.
    std::int64_t declined = -1;

    std::int64_t size() const { return rows * columns; }
    /// Stores the numbers of `all`, a panel of all outputs, in the columns.
    void hold(Panel all);
    /// Makes the columns read their numbers from panels. `inner` is the number of intermediate roundings.
    void read_from(const std::shared_ptr<Panels>& from, std::size_t inner);
    /// Replaces the exact result of an output.
    void replace(std::size_t i, double high, double low);
    /// Clears the columns.
    void drop();
    /// Returns how many neighbouring rows of these outputs belong to one 16x16 tile of the kernel. The number of
    /// neighbouring columns is the same. In a sample of one in N outputs, it is 16 / N, but at least 1.
    std::int64_t tile() const { return sample ? std::max<std::int64_t>(16 / sample->every(), 1) : 16; }
    bool is_exact(std::size_t i) const { return before[i] == 0; }
    /// Panels that the columns read; null if the columns hold their numbers.
    std::shared_ptr<Panels> panels{};
};

/// Returns the fractional part of |x| / ulp in units of 2^-30, where ulp is the spacing of the format's numbers at x.
/// Numbers of the same kind have the same rounding error in ulps.
std::uint32_t rounding_kind(const HalfUlp& half_ulp, double x);

/// Computes all limits. `delta` is the probability that a legal kernel exceeds at least one of the probable bounds. With
/// a defect, these are the limits of a kernel that is legal except for the defect. Such a kernel reads the inputs of
/// `problem` as they are, so the inputs must be those of Mutated::inputs().
Limits limits_of(const Problem& problem, double delta, ThreadPool& pool, const Defect& defect = {});

/// Returns the systematic part of the probable bound, for each output of a row. This part does not depend on whether
/// the single roundings are up or down.
std::vector<double> systematic_errors(const Problem& problem, std::int64_t row);

/// Returns the first row of each batch or group, followed by the number of rows.
std::vector<std::int64_t> group_starts_of(const Limits& limits);

/// Rounds numbers to the output format as a kernel does, with the rounding, overflow and flushing of the limits.
/// Stochastic rounding is replaced by round to nearest even.
class Storing {
  public:
    explicit Storing(const Limits& limits);

    double operator()(double x) const {
        double y = 0;
        return is_fast_ && normal_.round(x, y) ? y : by_codec(x);
    }

  private:
    double by_codec(double x) const;

    Format format_;
    Round rounding_;
    bool saturates_, flushes_, is_fast_;
    NearestNormal normal_;
};
inline double stored(const Limits& limits, double x) { return Storing(limits)(x); }
/// The numbers of the output format below and above x. Both equal x if x is a number of the format.
struct Neighbours {
    double below = 0, above = 0;
};
Neighbours neighbours(const Limits& limits, double x);
/// Returns the smallest magnitude of this sign that overflows; infinity if outputs are rounded towards zero or
/// stochastically.
double overflow_threshold(const Limits& limits, bool negative);

/// Returns the assumptions about the arithmetic inside the kernel, as text.
std::vector<std::string> assumptions_of(const Problem& problem);

}  // namespace macheps::check
