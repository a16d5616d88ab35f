// SPDX-License-Identifier: Apache-2.0
// A declaration describes the computation that a kernel claims. `declare` of declare.hpp sets its members by the names of the command line.
#pragma once
#include "emulation/matmul/rule.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace macheps::check {

struct Operation;

/// The format of an array's elements, where the declaration gives one.
struct ArrayFormat {
    Format format{};
    bool is_packed = false;  ///< two codes of four bits a byte
};

/// Reduction of the losses of all rows.
enum class Reduction : std::uint8_t { none, mean, sum };

/// The computation that a kernel claims. Arithmetic is fp32 in any order, unless a member says otherwise.
struct Declaration {
    const Operation* operation = nullptr;
    std::map<std::string, ArrayFormat, std::less<>> formats{};  ///< by array
    std::int64_t canaries = 0;  ///< entries after the output, along its first axis, that the kernel must not write
    std::optional<MatmulRule> machine{};  ///< empty: fp32 sums, as machine_name says
    std::string machine_name{};           ///< empty: default_machine
    /// The elements that share a scale, by array of scales: `tensor`, `row` or `column`. Default: as the array's shape implies.
    std::map<std::string, std::string, std::less<>> scale_shapes{};
    bool bits = false;                  ///< every output has the code that the machine gives
    std::optional<double> need_bits{};  ///< of the machine, relative to sums of |a b|
    std::string scale_order = "any";    ///< a claim; bounds hold for every order
    double alpha = 1, beta = 1;
    std::string activation = "none";               ///< applied after bias and c
    std::string a_layout = "mk", b_layout = "kn";  ///< or km, nk: stored as the transpose
    std::string scale_layout = "linear";           ///< of block scales, or cublas128x4
    std::int64_t tile_rows = 0,
                 tile_columns = 0;  ///< size of the tile of outputs that the kernel computes together; 0: not declared
    std::string operands = "stored";   ///< a row of operand_conversions, or any
    std::string conversion{};          ///< if `operands` is any: the row that fits the outputs best
    std::int64_t slices = 0;           ///< of k; 0: as the machine says
    std::optional<Format> partials{};  ///< what partial sums of slices are rounded to
    bool has_atomics = false;          ///< slices join by fp32 atomics, in any order
    std::optional<double> eps{};
    std::string functions = "cuda";         ///< how accurate functions are: find_functions
    bool saturates = false;                 ///< overflowing outputs become the largest finite number
    std::string sum_order = "any";          ///< of a row's sums, and the format of their partial sums: parse_sum_order
    std::optional<Format> inner{};          ///< a format that the kernel rounds to on its way, where the operation says
    bool has_one_pass_variance = false;     ///< E[x^2] - mean^2
    bool has_running_variance = false;      ///< Welford's: mean and squares are updated by each x, or by parts of a row
    bool subtracts_max = true;              ///< before a softmax's exponentials
    std::int64_t block = 0;                 ///< columns that an online softmax joins at a time; 0: it has them all
    Round rounding = Round::nearest_even;   ///< of the outputs
    int random_bits = 32;                   ///< of a stochastic rounding
    bool flushes = false;                   ///< outputs below the least normal number become zero
    bool has_pairs = false;                 ///< a rotary embedding turns neighbours, and not halves
    bool has_up_first = false;              ///< of a gated x the first half is `up`
    Reduction reduction = Reduction::none;  ///< of losses
    std::optional<std::int64_t> ignored{};  ///< the class whose rows have no loss
    std::string form{};                     ///< one of the operation's forms; empty: the first
    std::string granularity{}, scale_rule{};  ///< of a quantiser: rows of emulation/scaling/rules.hpp
    bool divides = false;       ///< a quantiser divides by the decode scale; else it multiplies by the encode scale
    std::string given_scale{};  ///< of a quantiser: `scale`, `encode_scale` or a number; empty: computed from x
};

/// Returns the operation of that name. Errors: throws Error (usage) with the nearest name.
const Operation& find_operation(std::string_view name);

}  // namespace macheps::check
