// SPDX-License-Identifier: Apache-2.0
// Runs `macheps eval`: evaluates formulas in number formats, for all inputs of a format or for random inputs. Each
// formula and format gives one row.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/study/eval/format.hpp"
#include "reports/rows/formula_row.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace macheps::study {

/// Closed range of an input. Its ends may be infinite.
struct InputRange {
    std::string name{};
    double least = 0, greatest = 0;
    bool is_one() const { return least == greatest && std::signbit(least) == std::signbit(greatest); }
};

struct EvalGrid {
    std::vector<Expression> expressions{};
    std::vector<Format> formats{};
    Round round = Round::nearest_even;
    Functions functions = Functions::correct;
    bool flushes = false;  ///< subnormal results become zeros
    std::vector<InputRange> ranges{};
    std::int64_t points = 0;  ///< points to draw for each formula; 0: all points, or usual_points
    std::int64_t seed = 0;
};

/// Number of points to draw if no number was requested and there are too many points to evaluate all.
inline constexpr std::int64_t usual_points = 1000;

/// Checks that the grid can be evaluated. Errors: throws Error (usage) for a format that is not supported, a range of
/// an unknown input, a range without numbers, and a function that `--functions macheps` lacks. Throws Error (no_device)
/// in a build without Arb.
void require_possible(const EvalGrid& grid);

/// Calls `row` for each formula and format and, if given, `point` for each input. The rows do not depend on the number
/// of threads.
void run_eval(ThreadPool& pool, const EvalGrid& grid, const std::function<void(const reports::FormulaRow&)>& row,
              const std::function<void(const reports::FormulaPointRow&)>& point,
              const std::function<void(const std::string&)>& progress);

}  // namespace macheps::study
