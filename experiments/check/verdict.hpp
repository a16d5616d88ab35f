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
/// Returns limits of no outputs.
std::shared_ptr<Limits> no_limits();

/// Selects the outputs of a product that are judged.
struct Sampling {
    std::int64_t every = 1;           ///< judge one of `every` outputs; 1: all
    std::optional<double> seconds{};  ///< judge as many outputs as this time allows for exact products
    double delta = 1e-9;              ///< probability that a legal kernel exceeds the screen of all outputs
    /// If the limits of all outputs take more bytes than this, they are recomputed whenever they are read.
    std::int64_t max_limit_bytes = INT64_MAX;
    bool reads_in_place = false;  ///< the arrays outlive the problem, so that their numbers need not be copied

    bool is_all() const { return every == 1 && !seconds; }
};

/// A reason why a check did not pass.
struct Reason {
    std::string code, test, text{};
    std::int64_t index = -1;  ///< the output that is farthest off, or first
    std::int64_t count = 0;   ///< outputs that the test refuses
    double got = 0, want = 0, bound = 0, ratio = 0;
    std::string mutant{};  ///< for a weak check: the wrong kernel that it could not have caught
};

/// The results of the tests T0 to T3.
struct Judgement {
    std::vector<Reason> reasons{};
    double rho = 0;  ///< the largest error, in units of its certain bound
    /// (mean square - 1) / sqrt(8 / n) over all outputs. If the mean square is above 1, equal outputs count as one.
    double z = 0;
    double z_part = 0;  ///< the largest z of any row, column, tile or group
    double z_rows = 0, z_columns = 0, z_tiles = 0,
           z_groups = 0;  ///< the largest z of each kind; 0 if none is positive
    double bias = 0, bias_limit = 0;
    double mean_square = 0;  ///< of errors divided by their deviations
    std::int64_t outputs = 0, exact_outputs = 0;
    /// Codes of T2 and T3 that would refuse the outputs but do not decide, because errors are not independent there.
    std::vector<std::string> dismissed{};
};

/// A legal kernel that comes near the limit of a test that assumes independent errors.
struct Dependence {
    std::string kernel{}, test{};  ///< the order of summation; T2 or T3
    std::int64_t index = -1;       ///< the output, or the first output of the block
    double ratio = 0;              ///< the kernel's error, or its mean square's excess, divided by the limit
};

/// Statistics of the bounds, over outputs that are not zero. An output that may underflow in fp32 or in its format does
/// not count as lost, because no kernel could give more digits there.
struct Fitness {
    double bits = 0;        ///< -log2 of the median of bound / |y|, before the output's rounding
    double lost_share = 0;  ///< share of the outputs whose bound is larger than the output
    double counted = 0;     ///< number of outputs that lost_share is a share of
    double min_bits = 0;    ///< -log2 of the largest bound / sum of |a b| of a product's sums
    std::int64_t worst = -1;
};

/// Comparison of the codes of outputs with the machine's. All NaNs count as equal.
struct BitsCount {
    std::int64_t equal = 0, differ = 0;
    std::int64_t first = -1;  ///< first output that differs; -1: none
};

/// The result of a screen of all outputs, by sums with random signs.
struct Screen {
    static constexpr std::int64_t width = 64;  ///< number of outputs in a sum
    /// Returns the sign of a column, 1 or -1. It is the same in every run.
    static double sign(std::int64_t column);

    /// The sum with the largest error relative to its bound, and its output with the largest error.
    struct Worst {
        std::int64_t sums = 0;  ///< number of sums that exceed the bound
        std::int64_t index = -1;
        double got = 0, want = 0, bound = 0, ratio = 0;
    };

    std::int64_t sums = 0;     ///< number of sums
    std::int64_t outputs = 0;  ///< number of outputs in the sums; sums that may overflow are left out
    Worst special{}, certain{}, probable{};
    double ratio = 0;         ///< the largest error of a sum, in units of its probable bound
    double median_limit = 0;  ///< median of the probable bounds of the sums
};

/// Classes of mutants, in rising order. A check must notice every mutant up to the required class.
enum class Power : std::uint8_t { null, structure, precision, all };

/// A wrong kernel, and whether the tests notice it.
struct Mutant {
    std::string name;
    std::string_view kind;  ///< null, structure, scale, operation, precision, range, specials, size
    Power required_by = Power::structure;
    bool certified = false;  ///< it changes an output by more than twice its bound, so T1 refuses it in any case
    bool caught = false;     ///< the tests refuse its exact results, rounded once
    /// For a fault that has a size: the smallest size that the tests would have noticed (see Sharpness).
    std::optional<double> threshold{};
    double largest = 0;  ///< its largest change, in bounds, among the outputs that were tested until it was caught
};

/// The smallest defects that the tests would have noticed in these outputs. Infinite: none would have been noticed.
struct Sharpness {
    double scale_of_all = 0, scale_of_row = 0;  ///< relative
    double scale_of_column = 0, scale_of_tile = 0, scale_of_group = 0;
    double bias_share = 0;           ///< share of the bias that every column lacks; infinite without a bias
    int accumulator_bits = 0;        ///< the widest accumulator that would have been noticed; 0: none, or no product
    std::int64_t dropped_terms = 0;  ///< number of missing last terms; 0: none that was tried would be noticed
    double stale_share = 0;          ///< share of outputs where a stale value (the preceding output) would be noticed
};

/// Another declaration under which the same output passes.
struct Alternative {
    std::string option;   ///< `--machine fp32.chain`
    double narrower = 1;  ///< median factor by which its certain bounds are narrower; below 1 if they are wider
};

/// A recipe whose inputs show a wrong kernel that a weak check missed.
struct Advice {
    std::string mutant;
    std::string recipe;  ///< shows the mutant about as well as the best recipe
};

/// The outcome of a check.
enum class Outcome : std::uint8_t {
    pass,
    fail,
    weak,       ///< no test fails, but a wrong kernel would also have passed
    refused,    ///< meaningless outputs, such as zeros, satisfy a limit of the user
    declined,   ///< some output has no certain bound, or no check supports the declaration yet
    bad_input,  ///< a file cannot be read, or its arrays are not those of the operation
};
std::string_view to_string(Outcome outcome);
Exit exit_of(Outcome outcome);

/// Options of a check.
struct Options {
    Power require = Power::structure;
    bool certain_only = false;
    bool allow_weak = false;               ///< a weak check does not fail
    double delta = 1e-9;                   ///< probability that any probable bound of the check is exceeded
    Sampling sampling{};                   ///< of a product's outputs
    std::optional<double> rtol{}, atol{};  ///< |error| <= atol + rtol |exact|, in addition
    std::map<std::string, double, std::less<>> metric_limits{};  ///< by the names of metrics()
    /// A file with the outputs of another run of the kernel on the same inputs, which must have the same bits. `*` is
    /// replaced by the name of the input, without its folder and ending. Empty: no comparison.
    std::string deterministic_with{};
    std::optional<std::int64_t> memory{};  ///< bytes that may be planned for; default: the limit of this process
    /// The verdict keeps the limits of all outputs. Without them a large check computes them in panels.
    bool holds_limits = true;
};

/// A well-known error measure. It decides nothing unless the user limits it.
struct Metric {
    std::string_view name;
    double value = 0;
    bool is_least = false;  ///< a limit is the smallest value that passes
};

/// The outcome of a check, its reasons, and all figures.
struct Verdict {
    Outcome outcome = Outcome::pass;
    std::vector<Reason> reasons{};
    Judgement judgement{};
    std::vector<Metric> metrics{};
    std::vector<Mutant> mutants{};
    Sharpness sharpness{};
    std::optional<Dependence> dependence{};  ///< set if errors are not independent, so that T2 and T3 do not decide
    Fitness fitness{};
    std::optional<BitsCount> bits{};  ///< set if the declaration claims bits
    std::optional<Screen> screen{};   ///< set if only a sample of the outputs was judged
    std::string unscreened{};         ///< the reason if a sample has no screen
    /// Median error of one output that the screen would not notice, in bounds of the sampled outputs.
    double screen_bounds = 0;
    /// The limits of each output, without columns if they were computed in panels.
    std::shared_ptr<Limits> limits = no_limits();

    /// Returns the mutants of the required classes that the tests did not notice.
    std::vector<const Mutant*> blind(Power require) const;
};

}  // namespace macheps::check
