// SPDX-License-Identifier: Apache-2.0
// The names that configs have for optimisers. All importers share one table. A row says which releases of a framework
// know the name, which algorithm it selects, and the format of its moments.
#pragma once
#include "experiments/configs/framework.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace macheps::configs {

/// An algorithm. `word` is the value of the field `optimizer`.
struct OptimiserKind {
    std::string_view word;   ///< adamw, adam and sgd are words of the policy language; macheps emulates only these
    std::string_view title;  ///< for messages: "AdamW"
    double moments = 2;      ///< numbers of state for each weight; 0 if the state of a matrix is only a few vectors
};

/// Format of the moments.
enum class Moments : std::uint8_t { of_weights, fp32, int8, int4, fp8 };

struct OptimiserRow {
    std::string_view framework, name;  ///< `name` as the config has it
    std::string_view kind;             ///< OptimiserKind::word
    Moments moments = Moments::of_weights;
    bool rounds_once = false;  ///< the step computes in fp32 and rounds only its results, as a fused kernel does
    std::string_view since{}, until{};  ///< releases that know the name: from `since` up to, but not including, `until`
    std::string_view raises_since{};    ///< from this release on, the name is accepted, but then an error is raised
};

std::span<const OptimiserRow> optimisers();
/// Returns nullptr if no row has the word.
const OptimiserKind* find_optimiser_kind(std::string_view word);
/// Returns the algorithm of a class of torch, bitsandbytes or torchao, in lower case: without its module, `Paged` and
/// the width of the moments. The algorithm of "bitsandbytes.optim.PagedAdamW8bit" is "adamw".
std::string algorithm_of(std::string_view class_name);
/// Returns the format of the moments of such a class, from the width at the end of its name. Classes of bitsandbytes
/// without a width in their names have fp32 moments. Names that begin with `Paged` belong to bitsandbytes.
Moments moments_of_class(std::string_view class_name);
/// Returns whether the optimiser keeps its moments in the format of the weights. This is so without a row.
inline bool follows_weights(const OptimiserRow* row) { return row == nullptr || row->moments == Moments::of_weights; }
/// Returns the number of moments of each weight, from the fields `optimizer` and `opt_state`.
double moments_of(const ResolvedConfig& config);
/// Returns the row of a name that the framework knows in the version of the import. Axolotl and LLaMA-Factory pass
/// names on to Transformers, so they also have its names. Returns nullptr if the name is unknown.
const OptimiserRow* find_optimiser(const ImportContext& context, std::string_view framework, std::string_view name);
/// Returns the key of LLaMA-Factory that replaces the optimiser (`use_galore`, `loraplus_lr_ratio`), as a row of the
/// table, or nullptr if no such key is set. If several are set, the first row applies, as in LLaMA-Factory.
const OptimiserRow* llamafactory_optimiser(const ImportContext& context);

/// Returns what an eps of Adam does that fp16 rounds to 0, or an empty text for a larger eps.
std::string fp16_eps_is_zero(double eps);
/// Returns what an eps of Adam does that fp16 does not round to 0, but that is so small that some updates in fp16 are
/// much larger than the learning rate. Returns an empty text for any other eps.
std::string fp16_eps_is_small(double eps);
/// The smallest of the usual values of eps with which updates in fp16 stay below 100 times the learning rate.
inline constexpr double fp16_safe_eps = 1e-4;

/// Sets `opt_kernel`, and sets `opt_state` if the optimiser does not keep its moments in the format of the weights.
/// `key` is the key that names the optimiser.
void set_optimiser(ImportContext& context, const OptimiserRow& row, std::string_view key);
/// Sets `opt_kernel` and `opt_state` for a class that does not keep its moments in the format of the weights. The steps
/// of such classes compute in fp32 and round only their results. For other classes, the function sets nothing.
void set_class_moments(ImportContext& context, std::string_view class_name, std::string_view key);
/// Sets the kernel and quantised moments again after DeepSpeed's importer has set them, if the DeepSpeed section names no
/// optimiser of its own. The engine then wraps the optimiser of the row. DeepSpeed decides the format of other moments.
void keep_under_deepspeed(ImportContext& context, const OptimiserRow* row, std::string_view key);
/// Reports a name that the framework does not know (rule `unknown-optimiser`) or for which it raises an error (rule
/// `optimiser-raises`). Both are errors.
void report_optimiser(ImportContext& context, std::string_view key);

}  // namespace macheps::configs
