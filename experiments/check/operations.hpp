// SPDX-License-Identifier: Apache-2.0
// What can be checked: operations, what they declare, and the list of nodes that each is.
#pragma once
#include "emulation/matmul/rule.hpp"
#include "experiments/check/nodes.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::check {

struct Operation;

/// The format of an array's elements, where the declaration gives one.
struct ArrayFormat {
    Format format{};
    bool is_packed = false;  ///< two codes of four bits a byte
};

/// What a kernel claims to compute. All arithmetic is fp32, in any order, but for what is said here.
struct Declaration {
    const Operation* operation = nullptr;
    std::map<std::string, ArrayFormat, std::less<>> formats{};  ///< by array
    std::int64_t canaries = 0;  ///< entries behind the output, along its first axis, that the kernel leaves alone
    std::optional<MatmulRule> machine{};                        ///< nothing: any order of fp32 sums
    std::string machine_name = "any";
    /// By arrays of scales: which elements share one, `tensor`, `row` or `column`; what the array's shape says where
    /// nothing is declared.
    std::map<std::string, std::string, std::less<>> scale_shapes{};
    std::string scale_order = "any", sum_order = "any";  ///< claims; bounds hold for every order
    double alpha = 1, beta = 1;
    std::optional<double> eps{};
    std::string functions = "cuda";  ///< whose accuracies of exp, log and rsqrt: a name of function_tables()
    bool saturates = false;          ///< overflowing outputs become the largest finite number
};

/// What a wrong kernel does otherwise. A mutant of an operation is its list made with one of these.
struct Defect {
    double eps_factor = 1;
    std::int64_t divisor_less = 0;  ///< a mean that divides by so much less
    std::int64_t dropped = 0;       ///< last terms of every reduction that are left out
    std::string_view missing{};     ///< an array that is not used, or `alpha`
    std::string_view shifted{};     ///< an array whose every element is its neighbour's
};

/// Whoever lists an operation's nodes asks this for what it needs.
struct Listing {
    const Declaration& declaration;
    const std::vector<Input>& inputs;
    const Defect& defect;
    std::int64_t columns = 0;  ///< elements of a row
    Nodes nodes{};

    /// Nothing where the check has no such array.
    std::optional<Value> input(std::string_view name);
    /// The mean over a row: a sum, and a division that may be a multiplication by the rounded reciprocal.
    Value mean(Value x) {
        return nodes.divide(nodes.sum(x, defect.dropped),
                            nodes.constant(static_cast<double>(columns - defect.divisor_less)), 2);
    }
    Value eps() { return nodes.constant(*declaration.eps * defect.eps_factor); }
};

struct ArrayRole {
    std::string_view name;
    Axis axis;
    bool is_required = false;
};

struct Operation {
    std::string_view name, summary;
    std::span<const ArrayRole> arrays;  ///< beside a and b of a product
    Value (*list)(Listing& listing);    ///< adds its nodes; the last is the output before its rounding
    bool is_product = false;            ///< begins with a matrix product of `a` and `b`
    bool has_reduction = false;
    bool is_one_per_row = false;  ///< the output has one element for each row of `x`
    bool has_eps = false, has_mean = false;
};

std::span<const Operation> all_operations();
/// Throws Error (usage) with the nearest name.
const Operation& find_operation(std::string_view name);

/// Accuracies of functions in ulp of fp32.
struct FunctionTable {
    std::string_view name;
    double exponential, logarithm, inverse_root;
    std::string_view source;
};
std::span<const FunctionTable> function_tables();
/// Throws Error (usage) with the nearest name.
const FunctionTable& find_functions(std::string_view name);

}  // namespace macheps::check
