// SPDX-License-Identifier: Apache-2.0
// Is a kernel's output as accurate as its formats, its K and its order of summation allow, and would we have noticed if it
// were not? The door of this folder.
#pragma once
#include "core/error.hpp"
#include "experiments/check/bounds/fitness.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/power/power.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

enum class Outcome : std::uint8_t {
    pass,
    fail,
    weak,       ///< no test fails, and a wrong kernel would have passed too
    refused,    ///< a user's limit that an output of zeros satisfies
    declined,   ///< nothing certain can be said about some output
    bad_input,  ///< a file that cannot be read, or arrays that are not the operation's
};
std::string_view to_string(Outcome outcome);
Exit exit_of(Outcome outcome);

struct Options {
    Power require = Power::structure;
    bool certain_only = false;
    bool allow_weak = false;                                     ///< a weak check is no failure
    double delta = 1e-9;                                         ///< of all probable bounds of a check together
    Sampling sampling{};                                         ///< of a product's outputs
    std::optional<double> rtol{}, atol{};                        ///< |error| <= atol + rtol |exact|, in addition
    std::map<std::string, double, std::less<>> metric_limits{};  ///< by the names of metrics()
    /// A file with what another run of the kernel made of the same inputs: the same bits. `*` stands for the name of the
    /// input, without its folder and ending. Empty: there is none.
    std::string deterministic_with{};
    std::optional<std::int64_t> memory{};  ///< bytes that may be planned for; by default what this process may take
    /// The verdict keeps the limits of all outputs. Without them a large check computes them in panels.
    bool holds_limits = true;
};

/// Numbers that people know. They decide nothing unless the user limits them.
struct Metric {
    std::string_view name;
    double value = 0;
    bool is_least = false;  ///< a limit on it is the least value that passes
};

struct Verdict {
    Outcome outcome = Outcome::pass;
    std::vector<Reason> reasons{};
    Judgement judgement{};
    std::vector<Metric> metrics{};
    std::vector<Mutant> mutants{};
    Sharpness sharpness{};
    std::optional<Dependence> dependence{};  ///< set if errors are not independent, so that T2 and T3 do not decide
    Fitness fitness{};
    std::optional<BitsCount> bits{};  ///< where they are claimed
    std::optional<Screen> screen{};   ///< of all outputs, where a sample of them was judged
    std::string unscreened{};         ///< why there is none of a sample
    /// What one output of a sum of the screen may be off by unnoticed, in bounds of sampled outputs: the middle.
    double screen_bounds = 0;
    Limits limits{};  ///< without columns if they were computed in panels

    /// Mutants that went unnoticed; of those that `require` asks for.
    std::vector<const Mutant*> blind(Power require) const;
};

/// The problem that arrays pose under a declaration: `out` stands apart. Names are those of the operation's roles, and `a`
/// and `b` of a product. Errors: throws Error: usage for what the declaration lacks or cannot be, bad input for arrays
/// that are missing, empty, of other shapes than each other, or of another format than was declared.
struct Posed {
    Problem problem{};
    Numbers out{};
    std::vector<std::int64_t> out_shape{};
};
/// Of a product only the outputs of a sample are in it, where `sampling` says so, beside a screen of all.
Posed pose(const Declaration& declaration, const std::vector<files::StoredArray>& arrays, ThreadPool& pool,
           const Sampling& sampling = {});

/// Judges `out` and the check itself.
Verdict check(const Problem& problem, NumberView out, const Options& options, ThreadPool& pool);

std::vector<Metric> metrics(const Limits& limits, NumberView got, ThreadPool& pool);

}  // namespace macheps::check
