// SPDX-License-Identifier: Apache-2.0
// A declaration describes the computation that a kernel claims. The function declare() of declare.hpp sets its members
// by their names on the command line.
#pragma once
#include "emulation/matmul/rule.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace macheps::check {

struct Operation;

/// The declared format of an array's elements.
struct ArrayFormat {
    Format format{};
    bool is_packed = false;  ///< two 4-bit codes per byte
};

/// Reduction of the losses of all rows.
enum class Reduction : std::uint8_t { none, mean, sum };

/// The computation that a kernel claims. Unless a member says otherwise, arithmetic is fp32, rows are summed in any
/// order, and products are summed over slices of k (`sliced`).
struct Declaration {
    const Operation* operation = nullptr;
    std::map<std::string, ArrayFormat, std::less<>> formats{};  ///< by name of the array
    std::int64_t canaries = 0;  ///< entries after the output, along its first axis, that the kernel must not write
    std::optional<MatmulRule> machine{};  ///< a matrix unit; empty: fp32 sums, see machine_name
    std::string machine_name{};           ///< empty: `sliced`
    /// The elements that share a scale, by name of the array of scales: `tensor`, `row`, `column`, or a block such as
    /// 1x128. Default: derived from the array's shape.
    std::map<std::string, std::string, std::less<>> scale_shapes{};
    bool bits = false;                  ///< every output must have exactly the machine's bits
    std::optional<double> need_bits{};  ///< accuracy that the machine must guarantee, in bits relative to sum |a b|
    std::string scale_order = "any";    ///< order of applying scales; bounds hold for every order
    double alpha = 1, beta = 1;
    std::string activation = "none";               ///< applied after bias and c
    std::string a_layout = "mk", b_layout = "kn";  ///< or `km`, `nk`: the transpose is stored
    std::string scale_layout = "linear";           ///< layout of block scales: `linear` or `cublas128x4`
    std::int64_t tile_rows = 0,
                 tile_columns = 0;  ///< size of the tile of outputs that the kernel computes together; 0: not declared
    std::string operands = "stored";   ///< a name in operand_conversions, or `any`
    std::string conversion{};          ///< if `operands` is `any`: the conversion that fits best
    std::int64_t slices = 0;           ///< number of slices of k; 0: as the machine specifies
    std::optional<Format> partials{};  ///< format to which the sums of slices are rounded
    bool has_atomics = false;          ///< slices join by fp32 atomics, in any order
    std::optional<double> eps{};
    std::string functions = "cuda";           ///< table of function accuracies, see find_functions
    bool saturates = false;                   ///< overflowing outputs become the largest finite number
    std::string sum_order = "any";            ///< order and format of a row's sums, see parse_sum_order
    std::optional<Format> inner{};            ///< format to which intermediate results are rounded; empty: fp32
    bool has_one_pass_variance = false;       ///< the variance is E[x^2] - mean^2
    bool has_running_variance = false;        ///< each x or each part of a row updates mean and squares (Welford)
    bool subtracts_max = true;                ///< subtracts the maximum before a softmax's exponentials
    std::int64_t block = 0;                   ///< columns per step of an online softmax; 0: the whole row at once
    Round rounding = Round::nearest_even;     ///< rounding of the outputs
    int random_bits = 32;                     ///< number of random bits of stochastic rounding
    bool flushes = false;                     ///< outputs below the smallest normal number become zero
    bool has_pairs = false;                   ///< a rotary embedding rotates neighbours instead of halves
    bool has_up_first = false;                ///< gated operations: the first half of x is `up`, the second is the gate
    Reduction reduction = Reduction::none;    ///< reduction of the losses of all rows
    std::optional<std::int64_t> ignored{};    ///< rows with this target have no loss
    std::string form{};                       ///< one of the operation's forms; empty: the first
    std::string granularity{}, scale_rule{};  ///< quantiser: a name in granularities, a name in quantiser_rules()
    bool divides = false;       ///< quantiser: divides by the decode scale; else multiplies by the encode scale
    std::string given_scale{};  ///< quantiser: `scale`, `encode_scale` or a number; empty: computed from x
};

/// Returns the operation of that name. Errors: throws Error (usage) with the nearest name.
const Operation& find_operation(std::string_view name);

}  // namespace macheps::check
