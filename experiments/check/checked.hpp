// SPDX-License-Identifier: Apache-2.0
// Arrays judged from end to end, and what there is to tell of them. This is what programs outside call:
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
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// One input of a check, judged.
struct Checked {
    struct File {
        std::string name, sha256;
    };

    std::string name{};   ///< of the check: a suite's name of it, or its operation
    std::string input{};  ///< what tells the inputs of a check apart: the file; empty for arrays in memory
    std::string operation{};
    Declaration
        declaration{};  ///< with the format of every array; without an operation where there is none of that name
    Options options{};
    std::string problem{};  ///< shapes, formats and what else was declared, in words
    Outcome outcome = Outcome::pass;
    Verdict verdict{};                   ///< a reason even where there was nothing to judge
    std::vector<std::string> blind{};    ///< wrong kernels that no input of the check could have caught
    std::vector<Advice> advice{};        ///< inputs that would have shown what this weak check could not
    std::vector<std::string> assumed{};  ///< what the limits rest on
    std::vector<std::string> unused{};   ///< arrays that the operation does not have
    std::vector<std::string> notes{};    ///< what a baseline says and does not fail
    /// An option with which a failing kernel would have passed, such as `--inner bf16`; empty if none is known.
    std::string explaining{};
    std::vector<Alternative> tighter{};  ///< tighter declarations under which a passing kernel would still pass
    std::vector<File> files{};
    std::string output_sha256{}, inputs_sha256{};  ///< by digest(); else empty
    /// By how many codes outputs differ from the exact results rounded once: 0, 1, 2 to 3, 4 to 7, ... codes.
    std::vector<std::int64_t> code_distances{};
    double omega = 0;  ///< of a product and nothing behind it: the largest error in sums of magnitudes; NaN of all else

    std::vector<std::int64_t> out_shape{};
    std::int64_t row_elements = 0;  ///< terms of a product's sums, or elements of a row
    std::string source{};           ///< the file that an annotation stands in: the kernel's, the suite, or the input
    std::uint32_t line = 0;         ///< there; 0: not known

    /// True where nothing is wrong and something could have been found out.
    explicit operator bool() const { return outcome == Outcome::pass; }
    /// The verdict and its reasons for people; with `is_whole` also what the check could have seen, and what it assumed.
    std::string text(bool is_whole = true) const;
    /// An element of `checks` in the document macheps.check/1.
    Json json() const;
};

/// Judges arrays: pose() and check() with the figures that they leave out. Arrays have the names of the operation's
/// roles; shapes are row-major, a [m,k], b [k,n], out [m,n]; scales are decode scales, which multiply.
/// Errors: throws Error as pose() does.
Checked check_arrays(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                     const Options& options, ThreadPool& pool);

/// Adds the digests of the bits of `out`, and of all other arrays that the operation has.
void digest(Checked& checked, const std::vector<files::StoredArray>& arrays);

/// An array in memory: elements of `format`, whose codes stand in `bytes`, little-endian and row-major. Errors: throws
/// Error (usage) where the shape has another number of elements.
files::StoredArray stored_array(std::string name, const Format& format, std::vector<std::int64_t> shape,
                                std::span<const std::byte> bytes);
/// The same of fp32 numbers.
files::StoredArray stored_array(std::string name, std::vector<std::int64_t> shape, std::span<const float> values);

/// `declare` by the key's name. Errors: throws Error (usage) with the nearest name for an unknown key.
void declare(Declaration& declaration, std::string_view key, const std::string& text);

/// What each code of a reason stands for, in a sentence. The codes are ids of rules, and stay for ever.
const std::map<std::string, std::string>& reason_codes();

/// The document macheps.check/1.
Json document_json(std::span<const Checked> checks);

/// Of several checks together: 1 if any failed or is weak, else 3 if an input was bad, else 2, else 0.
Exit exit_of(std::span<const Checked> checks);
/// The outcome that decides exit_of().
Outcome worst_of(std::span<const Checked> checks);

}  // namespace macheps::check
