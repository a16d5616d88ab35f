// SPDX-License-Identifier: Apache-2.0
// Checks arrays and reports the results as text and JSON. This is the header for programs outside of macheps:
//
//     Declaration rows{.operation = &find_operation("gemm")};
//     declare(rows, "a", "e4m3fn/row");
//     const Checked checked = check_arrays(rows, {stored_array("a", {m, k}, a), ...}, {}, pool);
//     if (!checked) std::fputs(checked.text().c_str(), stderr);
#pragma once
#include "core/host/thread_pool.hpp"
#include "core/text/json.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/verdict.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// How texts spell a declaration: `--machine any` or `machine="any"`.
enum class Spelling : std::uint8_t { command_line, python };

/// The result of a check for one input.
struct Checked {
    struct File {
        std::string name, sha256;
    };

    std::string name{};   ///< the check's name in its suite; default: the operation
    std::string input{};  ///< name of the input, which is its file of arrays; empty for arrays in memory
    std::string operation{};
    Declaration declaration{};  ///< has the format of each array; `operation` is null if the operation is not supported
    Options options{};
    std::string problem{};  ///< shapes, formats and other declared properties, as text
    Outcome outcome = Outcome::pass;
    Verdict verdict{};                   ///< contains the reason if nothing could be judged
    std::vector<std::string> blind{};    ///< wrong kernels that no input of the check could have caught
    std::vector<Advice> advice{};        ///< recipes of inputs that expose wrong kernels which this weak check missed
    std::vector<std::string> assumed{};  ///< assumptions on which the limits are based
    std::vector<std::string> unused{};   ///< arrays of the input that the operation does not use
    std::vector<std::string> notes{};    ///< differences from the baseline that do not fail the check
    /// An option with which a failing kernel would have passed, such as `--inner bf16`; empty if none is known.
    std::string explaining{};
    bool may_be_a_matrix_unit = false;       ///< a matrix unit, which is not declared, could have made all errors
    std::vector<std::string> agrees_with{};  ///< wrong kernels with which the outputs of a failed check agree
    bool is_untouched = false;               ///< `out` holds the canaries of make-inputs, so the kernel has not run
    std::vector<Alternative> tighter{};      ///< tighter declarations under which a passing kernel would still pass
    std::vector<File> files{};
    std::string output_sha256{}, inputs_sha256{};  ///< set by digest(); otherwise empty
    /// Histogram of the distances between outputs and the exact results rounded once: 0, 1, 2 to 3, 4 to 7, ... codes.
    std::vector<std::int64_t> code_distances{};
    double omega = 0;  ///< for a product of only a and b: largest error / sum of magnitudes; otherwise NaN

    std::vector<std::int64_t> out_shape{};
    std::int64_t row_elements = 0;  ///< terms of a product's sums, or elements of a row
    std::string source{};           ///< file that annotations point to: the kernel's source, the suite or the input
    std::uint32_t line = 0;         ///< line in `source`; 0: unknown

    /// Returns true if each output that was judged had only one right value, so that rho and z say nothing.
    bool is_exact() const;
    /// Returns true if nothing is wrong and the check could have caught the required wrong kernels.
    explicit operator bool() const { return outcome == Outcome::pass; }
    /// Returns the verdict and its reasons as text. With `is_whole`, the text also lists the defects that the check
    /// could have noticed, and its assumptions.
    std::string text(bool is_whole = true, Spelling spelling = Spelling::command_line) const;
    /// Returns the result as an element of `checks` in the JSON document macheps.check/1.
    Json json() const;
};

/// Checks arrays with pose() and check(), and computes the remaining members of Checked. Each array has the name of one
/// of the operation's roles. Shapes are row-major: a [m,k], b [k,n], out [m,n]. Scales are decode scales: codes are
/// multiplied by them.
/// Errors: throws Error as pose() does.
Checked check_arrays(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                     const Options& options, ThreadPool& pool);

/// Sets the digest of `out`, and the digest of all other arrays that the operation has.
void digest(Checked& checked, const std::vector<files::StoredArray>& arrays);

/// Returns an array in memory. `bytes` holds the codes of its elements in `format`, little-endian and row-major.
/// Errors: throws Error (usage) if the size of `bytes` does not fit the shape.
files::StoredArray stored_array(std::string name, const Format& format, std::vector<std::int64_t> shape,
                                std::span<const std::byte> bytes);
/// Returns an array of fp32 numbers in memory. Errors: throws as the function above does.
files::StoredArray stored_array(std::string name, std::vector<std::int64_t> shape, std::span<const float> values);

/// Sets a key of the declaration by its name. Errors: throws Error (usage) for an unknown key; the message suggests the
/// nearest name. For a wrong value, throws the Error of the function declare() in declare.hpp.
void declare(Declaration& declaration, std::string_view key, const std::string& text);

/// Returns a multiple of a bound or limit as text with `digits` significant digits, or "more than 1e6" if it is larger.
std::string multiple_text(double multiple, int digits);

/// Returns the error of the output that a reason names, as a multiple of its bound, or nothing if the output has only
/// one right value or must not be finite.
std::optional<double> multiple_of(const Reason& reason);

/// Returns the meaning of each reason code, as one sentence. The codes are rule ids in SARIF, so they never change.
const std::map<std::string, std::string>& reason_codes();

/// Returns the JSON document macheps.check/1.
Json document_json(std::span<const Checked> checks);

/// Returns the exit code of several checks: 1 if any fails or is weak, otherwise 3 if any has bad input, otherwise 2 if
/// any is refused or declined, otherwise 0. Weak checks that allow_weak permits do not count.
Exit exit_of(std::span<const Checked> checks);
/// Returns the outcome that determines the exit code of exit_of().
Outcome worst_of(std::span<const Checked> checks);

}  // namespace macheps::check
