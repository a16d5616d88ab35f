// SPDX-License-Identifier: Apache-2.0
// The verdict on a kernel's output, and the options of a check.
#pragma once
#include "core/error.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

struct Limits;
/// Returns empty limits, for a verdict without outputs.
std::shared_ptr<Limits> no_limits();

/// Selects the outputs of a matrix product that are judged.
struct Sampling {
    std::int64_t every = 1;           ///< judge one of `every` outputs; 1: all
    std::optional<double> seconds{};  ///< judge as many outputs as can be computed exactly in this time
    double delta = 1e-9;              ///< probability that a legal kernel fails the screen of all outputs
    /// If the limits of all outputs take more bytes than this, they are not kept, but recomputed each time they are
    /// read.
    std::int64_t max_limit_bytes = INT64_MAX;
    bool reads_in_place = false;  ///< the arrays outlive the problem, so their numbers are not copied

    bool is_all() const { return every == 1 && !seconds; }
};

/// A reason why a check did not pass.
struct Reason {
    std::string code, test, text{};
    std::int64_t index = -1;  ///< index of the output with the largest error, or of the first rejected output
    std::int64_t count = 0;   ///< number of outputs that the test rejects
    double got = 0, want = 0, bound = 0, ratio = 0;
    std::string mutant{};  ///< for a weak check: the wrong kernel that it could not have caught
};

/// Results of the tests T0 (structure and special values), T1 (certain bounds), T2 (probable bounds) and T3 (mean
/// squares and bias).
struct Judgement {
    std::vector<Reason> reasons{};
    double rho = 0;  ///< the largest error, in units of its certain bound
    /// The number (mean_square - 1) / sqrt(8 / n) for all n outputs. If it is large, outputs that share a rounding
    /// error count as one output.
    double z = 0;
    double z_part = 0;  ///< the largest z of any row, column, tile or group
    double z_rows = 0, z_columns = 0, z_tiles = 0,
           z_groups = 0;  ///< the largest z of each kind; 0 if none is positive
    double bias = 0, bias_limit = 0;
    double mean_square = 0;  ///< of errors divided by their deviations
    std::int64_t outputs = 0, exact_outputs = 0;
    /// Codes of T2 and T3 that would reject outputs. They do not make the check fail, because the errors of these
    /// outputs are not independent.
    std::vector<std::string> dismissed{};
};

/// A legal kernel whose errors come near a limit of T2 or T3. These limits assume independent errors, so the kernel
/// shows that errors are not independent on this data.
struct Dependence {
    std::string kernel{}, test{};  ///< `kernel`: order of summation; `test`: T2 or T3
    std::int64_t index = -1;       ///< the output, or the first output of the block
    double ratio = 0;              ///< the kernel's error (T2) or excess mean square (T3), divided by the limit
};

/// Statistics of the bounds over all outputs that are not zero. An output counts as lost if its bound is larger than
/// the output itself. Outputs that may underflow in fp32 or in their format do not count as lost, because no kernel
/// could be more accurate there.
struct Fitness {
    double bits = 0;  ///< median accuracy: -log2 of the median of bound / |y|; the bound does not include y's rounding
    double lost_share = 0;  ///< share of the outputs whose bound is larger than the output
    double counted = 0;     ///< number of outputs from which lost_share is computed
    double min_bits = 0;    ///< for a product: -log2 of the largest bound / (sum of |a b|)
    std::int64_t worst = -1;
};

/// Comparison of the output codes with the codes that the declared machine computes. All NaNs count as equal.
struct BitsCount {
    std::int64_t equal = 0, differ = 0;
    std::int64_t first = -1;  ///< first output that differs; -1: none
};

/// Result of the screen of a product. If only a sample of the outputs is judged, the screen tests all outputs: it adds
/// 64 of them at a time with random signs, and compares the error of each sum with its bound (bounds/screen.hpp).
struct Screen {
    static constexpr std::int64_t width = 64;  ///< number of outputs in a sum
    /// Returns the sign of a column, 1 or -1. It is the same in every run.
    static double sign(std::int64_t column);

    /// The sums that fail one test: their number, the values of the sum with the largest error relative to its bound,
    /// and the index of the output with the largest error in this sum.
    struct Worst {
        std::int64_t sums = 0;  ///< number of sums that exceed the bound
        std::int64_t index = -1;
        double got = 0, want = 0, bound = 0, ratio = 0;
    };

    std::int64_t sums = 0;     ///< number of sums
    std::int64_t outputs = 0;  ///< number of outputs in the sums; sums that may overflow are left out
    /// Sums with an output that is not finite, sums above the certain bound, and sums above the probable bound.
    Worst special{}, certain{}, probable{};
    double ratio = 0;         ///< largest error of a sum, divided by the probable bound of the sum
    double median_limit = 0;  ///< median of the probable bounds of the sums
};

/// Classes of mutants (wrong kernels). A check must notice every mutant of the required class and of the classes before
/// it.
enum class Power : std::uint8_t { null, structure, precision, all };

/// A wrong kernel, and whether the tests notice it.
struct Mutant {
    std::string name;
    std::string_view kind;  ///< null, structure, scale, operation, precision, range, specials, size
    Power required_by = Power::structure;
    bool certified = false;  ///< it changes an output by more than twice its bound, so T1 always rejects it
    bool caught = false;     ///< the tests reject its exact results, rounded once to the output format
    /// For a fault that has a size: the smallest size that the tests would have noticed (Sharpness lists these sizes).
    std::optional<double> threshold{};
    double largest = 0;  ///< its largest change of an output before it was caught, divided by the output's bound
};

/// The smallest defects that the tests would have noticed in these outputs. Infinity means that no size would have been
/// noticed.
struct Sharpness {
    double scale_of_all = 0, scale_of_row = 0;  ///< relative
    double scale_of_column = 0, scale_of_tile = 0, scale_of_group = 0;
    double bias_share = 0;           ///< share of the bias whose loss in every column is noticed; infinite: no bias
    int accumulator_bits = 0;        ///< the widest wrong accumulator that would have been noticed; 0: none
    std::int64_t dropped_terms = 0;  ///< smallest number of dropped last terms that was tried and noticed; 0: none
    double stale_share = 0;          ///< share of outputs at which a copy of the preceding output would be noticed
};

/// Another declaration under which the same output passes.
struct Alternative {
    std::string option;   ///< `--machine fp32.chain`
    double narrower = 1;  ///< median factor by which its certain bounds are narrower; below 1 if they are wider
};

/// A recipe for inputs that expose a wrong kernel which a weak check missed.
struct Advice {
    std::string mutant;
    std::string recipe;  ///< the most familiar recipe that exposes the mutant about as clearly as the best recipe
};

/// The outcome of a check.
enum class Outcome : std::uint8_t {
    pass,
    fail,
    weak,       ///< no test fails, but a wrong kernel would also have passed
    refused,    ///< meaningless outputs, such as zeros, satisfy a limit of the user
    declined,   ///< some output has no certain bound, or no check supports the declaration yet
    bad_input,  ///< a file cannot be read, or its arrays do not fit the operation
};
std::string_view to_string(Outcome outcome);
Exit exit_of(Outcome outcome);

/// Options of a check.
struct Options {
    Power require = Power::structure;
    bool certain_only = false;
    bool allow_weak = false;               ///< a weak check does not fail
    double delta = 1e-9;                   ///< probability that a legal kernel exceeds any probable bound of the check
    Sampling sampling{};                   ///< selects outputs of a product
    std::optional<double> rtol{}, atol{};  ///< additional limit: |error| <= atol + rtol |exact|
    std::map<std::string, double, std::less<>> metric_limits{};  ///< limits of metrics, by their names in metrics()
    /// A file with the outputs of a second run of the kernel on the same inputs, which must have the same bits. `*` is
    /// replaced by the file name of the input without its folder and extension. If this is empty, there is no
    /// comparison.
    std::string deterministic_with{};
    std::optional<std::int64_t> memory{};  ///< bytes that the check may plan to use; default: the limit of this process
    /// Whether the verdict keeps the limits of all outputs. If it does not, a large check computes them panel by panel.
    bool holds_limits = true;
};

/// A well-known error measure. It affects the outcome only if the user sets a limit for it.
struct Metric {
    std::string_view name;
    double value = 0;
    bool is_least = false;  ///< larger values are better, so a limit is a minimum
};

/// Outcome of a check, with its reasons and all statistics.
struct Verdict {
    Outcome outcome = Outcome::pass;
    std::vector<Reason> reasons{};
    Judgement judgement{};
    std::vector<Metric> metrics{};
    std::vector<Mutant> mutants{};
    Sharpness sharpness{};
    std::optional<Dependence> dependence{};  ///< set if errors are not independent, so that T2 and T3 do not decide
    Fitness fitness{};
    std::optional<BitsCount> bits{};  ///< set if the declaration requires bits
    std::optional<Screen> screen{};   ///< set if only a sample of the outputs was judged
    std::string unscreened{};         ///< if a sample was judged without a screen: the reason
    /// An error of this size in a single output is large enough for the screen to notice it in any case. The unit is
    /// the median bound of the sampled outputs. The bounds of the sums differ, and the size is computed from their
    /// median.
    double screen_bounds = 0;
    /// The limits of each output. They contain no values if they were computed panel by panel.
    std::shared_ptr<Limits> limits = no_limits();

    /// Returns the mutants of the required classes that the tests did not notice.
    std::vector<const Mutant*> blind(Power require) const;
};

}  // namespace macheps::check
