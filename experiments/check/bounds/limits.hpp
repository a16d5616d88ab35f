// SPDX-License-Identifier: Apache-2.0
// What each output may be: a problem is a declaration with its data, and its limits follow from both.
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

/// An element that must have certain bits, and has others.
struct Finding {
    std::string array;
    std::int64_t index = 0, count = 0;  ///< the first one, and how many there are
    double got = 0, want = 0;
};

struct Problem {
    Declaration declaration{};
    Format output = fp32;
    std::int64_t rows = 0, columns = 0;  ///< of the lists: a row has so many elements
    std::int64_t group_rows = 0;         ///< rows of one batch, judged apart from the others
    std::vector<Input> inputs{};
    std::optional<std::int64_t> changed_canary{};  ///< the first element behind the output that the kernel wrote to
    std::shared_ptr<const Products> products{};

    /// The first element of the rows beyond a group that the kernel wrote to, counted in the output.
    std::optional<std::int64_t> changed_padding{};
    std::shared_ptr<const Sample> sample{};  ///< of whose outputs this is the problem; null: of all
    std::optional<Screen> screen{};          ///< of all outputs, where there is a sample of them
    std::string unscreened{};                ///< why there is none

    /// Limits of outputs are computed again at every use if those of all outputs take more bytes than this.
    std::int64_t most_limit_bytes = INT64_MAX;

    std::vector<Finding> findings{};  ///< what is wrong with arrays that the kernel wrote beside its output

    bool is_one_per_row() const { return declaration.operation->is_one_per_row; }
    /// One number for all rows: they go into a second list.
    bool is_reduced() const { return declaration.reduction != Reduction::none; }
    std::int64_t outputs() const { return is_reduced() ? 1 : is_one_per_row() ? rows : rows * columns; }
};

/// Of every output, in order.
struct Limits {
    Format format = fp32;
    bool is_narrow = false;  ///< the output is rounded once more than what the list computes
    bool saturates = false, flushes = false;
    bool is_bitwise = false;  ///< signs of zeros count
    Round rounding = Round::nearest_even;
    int random_bits = 32;                                ///< of a stochastic rounding
    std::int64_t rows = 0, columns = 0, group_rows = 0;  ///< how the outputs lie
    std::int64_t tile_rows = 0, tile_columns = 0;        ///< of the kernel, judged beside those of 16x16; 0: not said
    std::vector<std::int64_t> starts{};                  ///< of groups that differ in their rows; else empty
    LimitColumn<double> exact{}, low{};                  ///< the exact result is their sum, to within the certificate
    LimitColumn<double> before{};                        ///< certain bound of the error before the last rounding
    LimitColumn<double> certain{}, probable{};
    LimitColumn<double> deviation{};      ///< what errors are scaled by in mean squares
    LimitColumn<Overflowing> overflow{};  ///< whether an output may be other than finite and within its bound
    /// The results before the last rounding of a kernel that is exact except for the declared roundings of intermediate
    /// results. Empty if nothing is rounded on the way.
    LimitColumn<double> rounded_inside{};
    /// For each intermediate rounding and output: rounding_kind of the rounded number. Outputs of equal kind share the error.
    std::vector<LimitColumn<std::uint32_t>> inner_kinds{};
    std::shared_ptr<const Sample> sample{};  ///< which of a larger array's outputs these are; null: all of them
    std::int64_t escalated = 0;              ///< outputs that were computed again, as exact integers
    /// The first output whose bound is infinite, or whose reference is not certain enough: nothing can be said of it.
    std::int64_t declined = -1;

    std::int64_t size() const { return rows * columns; }
    /// Takes the columns from a panel of all outputs.
    void hold(Panel all);
    /// Reads the columns from panels.
    void read_from(const std::shared_ptr<Panels>& from, std::size_t inner);
    /// Replaces the exact result of an output.
    void replace(std::size_t i, double high, double low);
    /// Forgets the columns.
    void drop();
    /// Of a kernel's 16x16 tile so many rows and columns are next to each other here.
    std::int64_t tile() const { return sample ? std::max<std::int64_t>(16 / sample->every(), 1) : 16; }
    bool is_exact(std::size_t i) const { return before[i] == 0; }
    /// Null if the columns are held.
    std::shared_ptr<Panels> panels{};
};

/// Returns the fractional part of |x| / ulp in a format, in units of 2^-30. Equal parts have equal rounding errors, in ulp.
std::uint32_t rounding_kind(const HalfUlp& half_ulp, double x);

/// `delta`: the probability with which any probable bound may be exceeded by a legal kernel, over all outputs.
Limits limits_of(const Problem& problem, double delta, ThreadPool& pool);

/// Returns, for each output of a row, the part of its probable bound that does not depend on how the roundings fall.
std::vector<double> systematic_errors(const Problem& problem, std::int64_t row);

/// Where each batch or group of the outputs begins, in rows, and where the last one ends.
std::vector<std::int64_t> group_starts_of(const Limits& limits);

/// Stores numbers as a kernel does: rounding, overflow and flushing as the limits say; a stochastic rounding is the nearest
/// here.
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
/// The numbers below and above x that a kernel may store for it, equal where x is one itself.
struct Neighbours {
    double below = 0, above = 0;
};
Neighbours neighbours(const Limits& limits, double x);
/// Numbers of this magnitude, and greater ones, overflow; infinite where rounding inward keeps them finite.
double overflow_threshold(const Limits& limits);

/// What was taken for granted of the arithmetic inside, in words.
std::vector<std::string> assumptions_of(const Problem& problem);

}  // namespace macheps::check
