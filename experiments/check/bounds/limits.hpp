// SPDX-License-Identifier: Apache-2.0
// Limits of each output. A problem is a declaration with its data, and the limits follow from both.
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

/// Elements of an array that do not have the bits that they must have.
struct Finding {
    std::string array;
    std::int64_t index = 0, count = 0;  ///< the first such element, and their number
    double got = 0, want = 0;
};

struct Problem {
    Declaration declaration{};
    Format output = fp32;
    std::int64_t rows = 0, columns = 0;  ///< rows, and elements of each, that the list of nodes is evaluated for
    std::int64_t group_rows = 0;         ///< rows of one batch, which is also judged on its own
    std::vector<Input> inputs{};
    std::optional<std::int64_t> changed_canary{};  ///< first element after the output that the kernel wrote to
    std::shared_ptr<const Products> products{};

    /// Index in the output of the first element that the kernel wrote to in the unused rows of a group.
    std::optional<std::int64_t> changed_padding{};
    std::shared_ptr<const Sample> sample{};  ///< the sample whose outputs these are; null: all outputs
    std::optional<Screen> screen{};          ///< screen of all outputs if these are a sample
    std::string unscreened{};                ///< reason why a sample has no screen

    /// If the limits of all outputs take more bytes than this, they are recomputed whenever they are read.
    std::int64_t max_limit_bytes = INT64_MAX;

    std::vector<Finding> findings{};  ///< errors in arrays that the kernel wrote in addition to its output

    bool is_one_per_row() const { return declaration.operation->is_one_per_row; }
    /// Returns true if a second list reduces the results of all rows to one number.
    bool is_reduced() const { return declaration.reduction != Reduction::none; }
    std::int64_t outputs() const { return is_reduced() ? 1 : is_one_per_row() ? rows : rows * columns; }
};

/// The limits of all outputs, in row-major order.
struct Limits {
    Format format = fp32;
    bool is_narrow = false;  ///< the output format is narrower than fp32, so the result of the list is rounded
    bool saturates = false, flushes = false;
    bool is_bitwise = false;  ///< zeros must have the right sign
    Round rounding = Round::nearest_even;
    int random_bits = 32;                                ///< of a stochastic rounding
    std::int64_t rows = 0, columns = 0, group_rows = 0;  ///< shape of the outputs, and rows of one batch
    std::int64_t tile_rows = 0, tile_columns = 0;        ///< judged in addition to 16x16 tiles; 0: not declared
    std::vector<std::int64_t> starts{};                  ///< first rows of groups of different sizes; else empty
    LimitColumn<double> exact{}, low{};                  ///< their sum is exact up to the reference's error
    LimitColumn<double> before{};                        ///< certain bound of the error before the last rounding
    LimitColumn<double> certain{}, probable{};
    LimitColumn<double> deviation{};      ///< errors are divided by it in mean squares
    LimitColumn<Overflowing> overflow{};  ///< whether an output may be other than finite and within its bound
    /// The results before the last rounding of a kernel that is exact except for the declared roundings of intermediate
    /// results. Empty if nothing is rounded on the way.
    LimitColumn<double> rounded_inside{};
    /// The rounding_kind() of each intermediate rounding and output. Outputs of one kind share that rounding's error.
    std::vector<LimitColumn<std::uint32_t>> inner_kinds{};
    std::shared_ptr<const Sample> sample{};  ///< the sample whose outputs these are; null: all outputs
    std::int64_t escalated = 0;              ///< number of outputs that were recomputed as exact integers
    /// The first output that cannot be judged: its bound is infinite or its reference too inaccurate. -1: none.
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
    /// Returns how many neighbouring rows, or columns, here belong to one 16x16 tile of the kernel. A sample has fewer.
    std::int64_t tile() const { return sample ? std::max<std::int64_t>(16 / sample->every(), 1) : 16; }
    bool is_exact(std::size_t i) const { return before[i] == 0; }
    /// Null if the columns are held.
    std::shared_ptr<Panels> panels{};
};

/// Returns the fractional part of |x| / ulp of a format, in units of 2^-30. Equal parts have equal errors in ulp.
std::uint32_t rounding_kind(const HalfUlp& half_ulp, double x);

/// Computes all limits. `delta` is the probability that a legal kernel exceeds any probable bound of the outputs.
Limits limits_of(const Problem& problem, double delta, ThreadPool& pool);

/// Returns, for each output of a row, the part of its probable bound that does not depend on how the roundings fall.
std::vector<double> systematic_errors(const Problem& problem, std::int64_t row);

/// Returns the first row of each batch or group of the outputs, and the end of the last one.
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
/// Returns the smallest magnitude that overflows; infinity if outputs are not rounded to nearest.
double overflow_threshold(const Limits& limits);

/// Returns the assumptions about the arithmetic inside the kernel, as text.
std::vector<std::string> assumptions_of(const Problem& problem);

}  // namespace macheps::check
