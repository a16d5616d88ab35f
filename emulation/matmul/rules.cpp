// SPDX-License-Identifier: Apache-2.0
#include "emulation/matmul/rules.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/library_rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace macheps {

namespace {

constexpr const Machine* hopper_fp8 = find_machine("sm90.wgmma.fp8");
constexpr const Machine* blackwell_fp8 = find_machine("sm100.tcgen05.fp8");
static_assert(hopper_fp8->k == 32 && blackwell_fp8->k == 32);

constexpr MatmulRule hopper(Promotion promotion, ScaleOrder order = ScaleOrder::joint) {
    return {.machine = hopper_fp8,
            .promotion = promotion,
            .promotion_interval = promotion == Promotion::none ? 0 : 128,
            .scale_order = order};
}
constexpr MatmulRule sliced(SliceJoin join) { return {.machine = nullptr, .join = join, .slices = 0}; }

constexpr auto P = Evidence::published, I = Evidence::inferred, H = Evidence::hardware;
constexpr std::string_view h100_torch = "outputs of PyTorch 2.11.0 with CUDA 13.0 on an H100";

constexpr NamedMatmulRule gpu_rules[] = {
    {"cutlass.fp8.default", hopper(Promotion::add), P,
     "NVIDIA/cutlass include/cutlass/gemm/collective/fp8_accumulation.hpp",
     "after every 4 wgmma (128 terms of k), the partial sum is added to an fp32 accumulator; alpha = fl(sA sB) at the "
     "end"},
    {"cutlass.fp8.fast", hopper(Promotion::none), P,
     "NVIDIA/cutlass include/cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp",
     "FP8FastAccum: one chain of wgmma over all of k; alpha = fl(sA sB) at the end"},
    {"cutlass.fp8.blockwise", hopper(Promotion::fma_left), P,
     "NVIDIA/cutlass include/cutlass/gemm/collective/fp8_accumulation.hpp",
     "after every 128 terms of k, main = fma(fl(partial sA), sB, main), with the scales of that block"},
    {"deepgemm.sm90.1d2d", hopper(Promotion::fma_joint), P,
     "deepseek-ai/DeepGEMM deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh",
     "a scaled by 1x128, b by 128x128: after every 128 terms of k, final = fma(fl(sA sB), partial, final); output "
     "bf16"},
    {"deepgemm.sm90.1d1d", hopper(Promotion::fma_joint), P,
     "deepseek-ai/DeepGEMM deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d1d.cuh",
     "both operands scaled by 1x128: the same sum as deepgemm.sm90.1d2d; output fp32"},
    {"torch.rowwise.sm90", hopper(Promotion::add, ScaleOrder::a_first), P,
     "pytorch aten/src/ATen/native/cuda/RowwiseScaledMM.cu",
     "_scaled_mm with row scales, use_fast_accum=False: promoted after every 128 terms of k; fl(sB fl(sA acc)), + "
     "bias, one rounding; PyTorch 2.11 with CUDA 13 calls cuBLASLt instead: cublaslt.fp8.outer"},
    {"torch.rowwise.sm90.fast", hopper(Promotion::none, ScaleOrder::a_first), P,
     "pytorch aten/src/ATen/native/cuda/RowwiseScaledMM.cu",
     "_scaled_mm with row scales, use_fast_accum=True: one chain; fl(sB fl(sA acc)), + bias, one rounding; PyTorch "
     "2.11 with CUDA 13 calls cuBLASLt instead: cublaslt.fp8.outer.fast"},
    {"vllm.cutlass", hopper(Promotion::none, ScaleOrder::b_first), P,
     "vllm csrc/quantization/cutlass_w8a8/c3x/scaled_mm_sm90_fp8_dispatch.cuh",
     "cutlass_scaled_mm: FP8FastAccum, then fl(sA fl(sB acc)), + bias, one rounding"},
    {"cublaslt.fp8.fast", hopper(Promotion::none), H, h100_torch,
     "CUBLASLT_MATMUL_DESC_FAST_ACCUM = 1: one chain of wgmma; the scales are one factor, alpha = fl(sA sB)"},
    {"cublaslt.fp8.split", hopper(Promotion::add), H, h100_torch,
     "CUBLASLT_MATMUL_DESC_FAST_ACCUM = 0: promoted after every 128 terms of k; the scales are one factor, alpha = "
     "fl(sA sB)"},
    {"cublaslt.fp8.outer", hopper(Promotion::add, ScaleOrder::b_first), H, h100_torch,
     "_scaled_mm with row scales, use_fast_accum=False: promoted after every 128 terms of k, then fl(sA fl(sB acc)) "
     "and one rounding. The outputs of cuBLASLt are column-major: its A is PyTorch's B"},
    {"cublaslt.fp8.outer.fast", hopper(Promotion::none, ScaleOrder::b_first), H, h100_torch,
     "_scaled_mm with row scales, use_fast_accum=True: one chain, then fl(sA fl(sB acc)) and one rounding"},
    {"cublaslt.fp8.1d2d", hopper(Promotion::fma_joint), H, h100_torch,
     "_scaled_mm with one operand scaled by 1x128, the other by 128x128: after every 128 terms of k, main = "
     "fma(partial, fl(sA sB), main)"},
    {"cublaslt.fp8.1d1d", hopper(Promotion::fma_left), H, h100_torch,
     "_scaled_mm with both operands scaled by 1x128: after every 128 terms of k, main = fma(fl(partial sA), sB, main). "
     "The outputs of cuBLASLt are column-major: its A is PyTorch's B"},
    {"cublaslt.fp8.sm100",
     {.machine = blackwell_fp8},
     I,
     "cuBLASLt CUBLASLT_MATMUL_DESC_FAST_ACCUM; MMA-Sim",
     "one chain of tcgen05: with 25 fraction bits, promotion is not needed, and FAST_ACCUM should have no effect; "
     "NVIDIA "
     "documents neither this nor the order in which the scales are multiplied"},
    {"triton.fp8", hopper(Promotion::none), H, "outputs of Triton 3.6.0 on an H100; triton pull requests 2300 and 3479",
     "tl.dot by wgmma with max_num_imprecise_acc = 2^30, the default on capability 90; promote = N selects another "
     "value. If a tile is too small for wgmma, or if max_num_imprecise_acc = 0, Triton converts the operands to fp16 "
     "and uses mma.sync, which gives other sums",
     true},
    {"cutlass2.splitk.serial", sliced(SliceJoin::serial), P,
     "NVIDIA/cutlass include/cutlass/gemm/kernel/gemm.h, include/cutlass/epilogue/thread/linear_combination.h",
     "slice by slice through D: D = round(alpha acc + D) in the output's format"},
    {"cutlass2.splitk.parallel", sliced(SliceJoin::workspace), P,
     "NVIDIA/cutlass include/cutlass/reduction/kernel/reduce_split_k.h",
     "a workspace of fp32 partial sums, added in ascending order; the epilogue is applied once"},
    {"cutlass3.streamk", sliced(SliceJoin::stream_k), P,
     "NVIDIA/cutlass include/cutlass/gemm/kernel/sm90_tile_scheduler_stream_k.hpp",
     "deterministic stream-K with slices of equal length: the first slice is stored in a workspace, fp32 atomics add "
     "the middle slices to it in order, and the last slice adds the workspace to its own sum"},
    {"cublaslt.splitk.inplace", sliced(SliceJoin::serial), I,
     "cuBLASLt CUBLASLT_REDUCTION_SCHEME_INPLACE; facebookexperimental/triton pull requests 2752 to 2769",
     "slices are added to the output in its format, one after another; the slice boundaries are reconstructed from "
     "other "
     "publications"},
    {"cublaslt.splitk.compute", sliced(SliceJoin::workspace), I,
     "cuBLASLt CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; facebookexperimental/triton pull requests 2752 to 2769",
     "fp32 workspace, slices in ascending order; the slice boundaries are reconstructed from other publications. An "
     "nvjet kernel on an H100 uses them (k = 4096, 3 slices), but CUTLASS kernels in cuBLAS use others"},
    {"cublaslt.splitk.output", sliced(SliceJoin::rounded_workspace), I,
     "cuBLASLt CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE; facebookexperimental/triton pull requests 2752 to 2769",
     "partial sums are rounded to the format of the output; the slice boundaries are reconstructed from other "
     "publications"},
};

constexpr auto rules = [] {
    std::array<NamedMatmulRule, std::size(gpu_rules) + std::size(library_rules)> all;
    std::copy(std::begin(library_rules), std::end(library_rules),
              std::copy(std::begin(gpu_rules), std::end(gpu_rules), all.begin()));
    return all;
}();

using Kind = ScaleLayout::Kind;

bool takes_scales_in(Promotion p) { return p == Promotion::fma_joint || p == Promotion::fma_left; }

[[noreturn]] void impossible(std::string what, std::string_view where, std::string fix) {
    throw Error({.what = std::move(what), .where = std::string(where), .fix = std::move(fix)});
}

void require_machine(const Machine& machine, std::string_view where) {
    if (machine.result == fp64) {
        impossible(fmt::format("{} adds in fp64, but tensors hold fp32 values", machine.name), where,
                   "use fp32.chain, exact or a machine with fp32 results");
    }
    if (machine.addend != machine.result) {
        impossible(fmt::format("{} reads C as {} and writes D as {}, so it cannot add to its own results", machine.name,
                               format_name(machine.addend), format_name(machine.result)),
                   where, "use a form in which C and D have the same format");
    }
}

void require_operand(const Machine& machine, const Format& grid, const char* operand, std::string_view where) {
    if (reads(machine, grid)) return;
    impossible(fmt::format("{} cannot read operand {}, which is {}", machine.name, operand, format_name(grid)), where,
               fmt::format("round the operand to one of {}, or use another machine", operand_names(machine)));
}

void require_promotion(const MatmulRule& rule, std::string_view where) {
    if (rule.promotion == Promotion::none) return;
    const Machine& machine = *rule.machine;
    // In an order of summation, promotion is allowed only to apply scales that change along k. Otherwise, adding
    // partial sums would make it a different order.
    const bool may_be_cut = is_order_of_summation(machine) && takes_scales_in(rule.promotion);
    if ((is_order_of_summation(machine) && !may_be_cut) || machine.has_scales()) {
        impossible(fmt::format("{} does not support promotion: {}", machine.name,
                               machine.has_scales() ? "it applies the scales itself"
                                                    : "it is a definition, not a chain of instructions"),
                   where, "leave out the promotion, or use a machine such as sm90.wgmma.fp8");
    }
    if (rule.promotion_interval <= 0 || rule.promotion_interval % machine.k != 0) {
        impossible(fmt::format("a promotion after every {} terms of k is not possible on {}, whose instruction has {} "
                               "products",
                               rule.promotion_interval, machine.name, machine.k),
                   where, fmt::format("use a multiple of {}, such as 128", machine.k));
    }
}

/// Throws Error if a stochastic rounding needs more than one random word per output.
void require_one_draw(const MatmulUse& use, std::string_view where) {
    if (use.bias_after && use.out_cast.round == Round::stochastic) {
        impossible(
            "a bias that is added after the rounding rounds every output twice, but stochastic rounding has only "
            "one random number per output",
            where, "round to nearest even, or add the bias before the rounding: bias_after = false");
    }
}

void require_blocks(const MatmulRule& rule, const MatmulUse& use, std::string_view where) {
    if (!rule.has_blocks()) return;
    const Machine& machine = *rule.machine;
    if (rule.promotion != Promotion::none || rule.slices > 1 || machine.has_scales() ||
        use.a_scales.kind == Kind::blocks || use.b_scales.kind == Kind::blocks) {
        impossible(
            fmt::format("the rule for {} divides k into blocks, but k is also divided in another way", machine.name),
            where, "leave out promotion, split_k and block scales, or use the name of the machine instead of the rule");
    }
    if (rule.lanes > 1 && !machine.sum.is_plain_chain()) {
        impossible(fmt::format("alternating chains are not possible on {}, which is not an fp32 chain", machine.name),
                   where, "use fp32.chain");
    }
    const bool is_scaled = use.a_scales.kind != Kind::none || use.b_scales.kind != Kind::none;
    if (rule.bias_first && (use.bias_after || is_scaled)) {
        impossible("a bias cannot start the sums if it is also added after the rounding, or if the operands are scaled",
                   where, "leave out bias_after and the scales");
    }
}

void require_addend(const MatmulRule& rule, const MatmulUse& use, std::string_view where) {
    if (!use.has_addend) return;
    if (const std::string why = why_no_addend(rule); !why.empty()) {
        impossible(why, where, "leave out the addend, or use a machine such as sm90.wgmma.fp16 instead of a rule");
    }
}

void require_slices(const MatmulRule& rule, const MatmulUse& use, std::string_view where) {
    if (rule.slices < 1) {
        impossible("the number of k slices is missing", where, "set split_k = 2 or more (1: no slices)");
    }
    if (rule.slices == 1) return;
    const int k = rule.machine->k;
    if (rule.slice_granule <= 0 || rule.slice_granule % k != 0) {
        impossible(
            fmt::format("slices at multiples of {} terms are not possible on {}, whose instruction has {} products",
                        rule.slice_granule, rule.machine->name, k),
            where, fmt::format("set slice_granule to a multiple of {}, such as 64 or 128", k));
    }
    if (rounds_slices(rule) && use.out_cast.round == Round::stochastic) {
        impossible(
            fmt::format("the join {} rounds every slice, but stochastic rounding has only one random number per output",
                        to_string(rule.join)),
            where, "round to nearest even, or join the slices in a workspace");
    }
    if (rule.join == SliceJoin::serial && rule.scale_order != ScaleOrder::joint &&
        (use.a_scales.kind == Kind::outer || use.b_scales.kind == Kind::outer)) {
        impossible(fmt::format("the join serial multiplies by one factor, but scale_order is {}, which needs two",
                               to_string(rule.scale_order)),
                   where, "set scale_order = \"joint\"");
    }
}

void require_block_scales(const MatmulRule& rule, const ScaleLayout& scales, const char* operand,
                          std::string_view where) {
    const Machine& machine = *rule.machine;
    if (machine.reads_values && scales.kind != Kind::none && scales.kind != Kind::tensor) {
        impossible(fmt::format("{} reads values, but operand {} consists of codes with scales", machine.name, operand),
                   where, "multiply the codes by their scales first");
    }
    if (scales.kind != Kind::blocks) return;
    if (machine.has_scales()) {
        if (!(scales.format == machine.scale)) {
            impossible(fmt::format("operand {} has scales in {}, but {} needs scales in {}", operand,
                                   format_name(scales.format), machine.name, format_name(machine.scale)),
                       where, "use the scaling of the machine: mx32 for e8m0fnu, nvfp4 for e4m3fn");
        }
        if (scales.k_block % machine.scale_block == 0) return;
        impossible(fmt::format("operand {} has one scale for every {} terms of k, but {} needs one for every {}",
                               operand, scales.k_block, machine.name, machine.scale_block),
                   where, fmt::format("use blocks of {}", machine.scale_block));
    }
    if (!takes_scales_in(rule.promotion)) {
        impossible(
            fmt::format("the scales of operand {}, which change along k, are not applied: {} has no scales{}", operand,
                        machine.name, rule.promotion == Promotion::add ? ", and its promotion only adds" : ""),
            where,
            "use a block-scaled machine (sm100.tcgen05.mxfp8), or a rule that scales partial sums "
            "(deepgemm.sm90.1d2d, cutlass.fp8.blockwise)");
    }
    if (scales.k_block % rule.promotion_interval != 0) {
        impossible(fmt::format("a promotion interval of {} terms does not divide a block of scales, which has {} terms",
                               rule.promotion_interval, scales.k_block),
                   where, fmt::format("promote after every {}", scales.k_block));
    }
    if (rule.slices > 1 && rule.slice_granule % scales.k_block != 0) {
        impossible(fmt::format("slices at multiples of {} terms do not match blocks of scales, which have {} terms",
                               rule.slice_granule, scales.k_block),
                   where, fmt::format("set slice_granule = {}", scales.k_block));
    }
}

ScaleLayout layout_of(const OperandScales& scales, const Format& block_format) {
    if (scales.data == nullptr) return {};
    if (scales.k_stride == 0) return {.kind = Kind::outer};
    return {.kind = Kind::blocks, .k_block = scales.k_block, .format = block_format};
}

/// Returns whether some library promotes partial sums on this machine. Libraries do this only on machines that keep 13
/// fraction bits.
bool is_promoted_somewhere(const Machine& machine) { return machine.sum.fraction_bits == 13; }

}  // namespace

std::span<const NamedMatmulRule> all_matmul_rules() { return rules; }

const NamedMatmulRule* find_matmul_rule(std::string_view name) {
    const auto found = std::find_if(std::begin(rules), std::end(rules), [&](const auto& r) { return r.name == name; });
    return found == std::end(rules) ? nullptr : found;
}

std::string to_string(const MatmulRule& rule) {
    std::string text{rule.machine == nullptr ? std::string_view("any machine") : rule.machine->name};
    if (rule.promotion != Promotion::none) {
        text += fmt::format(", promote {} {}", to_string(rule.promotion), rule.promotion_interval);
    }
    if (rule.slices != 1) {
        text += rule.slices == 0 ? fmt::format(", split_k {}", to_string(rule.join))
                                 : fmt::format(", split_k {} {}", rule.slices, to_string(rule.join));
        if (rule.slice_granule != MatmulRule{}.slice_granule) text += fmt::format(" of {}", rule.slice_granule);
    }
    if (rule.blocks.limit != 0) {
        const KBlocks& blocks = rule.blocks;
        text += fmt::format(", blocks of {}", blocks.limit);
        if (blocks.wide_k != 0) text += fmt::format(" ({} above k = {})", blocks.wide_limit, blocks.wide_k);
        if (blocks.split == KBlocks::Split::halve_last)
            text += fmt::format(", the last two of equal length (rounded to a multiple of {})", blocks.multiple);
        if (blocks.split == KBlocks::Split::level)
            text += fmt::format(" at most, as equal as multiples of {} allow", blocks.multiple);
        if (blocks.split == KBlocks::Split::halve_all)
            text += fmt::format(", but two halves if k is at most {}", 2 * blocks.limit);
    }
    if (rule.lanes > 1) text += fmt::format(", {} alternating chains", rule.lanes);
    if (rule.bias_first) text += ", bias first";
    if (rule.scale_order != ScaleOrder::joint) text += fmt::format(", scale_order {}", to_string(rule.scale_order));
    return text;
}

std::string operand_names(const Machine& machine) {
    std::vector<std::string_view> names;
    for (const Format& format : FormatSet::known) {
        if (machine.operands.contains(format)) names.push_back(format_name(format));
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string why_no_addend(const MatmulRule& rule) {
    const Machine& machine = *rule.machine;
    const SumModel model = machine.sum.model;
    if (model == SumModel::pairwise || model == SumModel::kahan || model == SumModel::exact) {
        return fmt::format("{} does not accept an addend", machine.name);
    }
    if (rule.slices > 1) return "the sum is divided into slices of k, and an addend does not belong to any of them";
    if (rule.has_blocks()) return fmt::format("{} is divided into blocks of k, which begin with +0", machine.name);
    return {};
}

void require_possible(const MatmulRule& rule, const MatmulUse& use, std::string_view where) {
    if (rule.machine == nullptr || find_machine(rule.machine->name) == nullptr) {
        impossible(fmt::format("unknown machine '{}'", rule.machine == nullptr ? "" : rule.machine->name), where,
                   "use a machine from all_machines");
    }
    require_machine(*rule.machine, where);
    require_operand(*rule.machine, use.a, "a", where);
    require_operand(*rule.machine, use.b, "b", where);
    require_promotion(rule, where);
    require_addend(rule, use, where);
    require_one_draw(use, where);
    require_slices(rule, use, where);
    require_blocks(rule, use, where);
    require_block_scales(rule, use.a_scales, "a", where);
    require_block_scales(rule, use.b_scales, "b", where);
}

void require_possible(const Matmul& args) {
    const bool bias_after = args.bias != nullptr && args.bias_after_cast;
    require_one_draw({.bias_after = bias_after, .out_cast = args.out_cast}, "matmul");
    // A plain fp32.chain without scales along k is always possible.
    const bool is_plain = args.rule.machine == &fp32_chain && !args.rule.has_blocks() &&
                          args.rule.promotion == Promotion::none && args.rule.slices == 1 &&
                          args.a.scales.k_stride == 0 && args.b.scales.k_stride == 0;
    if (is_plain) return;
    const Format scale = args.rule.machine == nullptr ? fp32 : args.rule.machine->scale;
    require_possible(args.rule,
                     {.a = args.a.format,
                      .b = args.b.format,
                      .a_scales = layout_of(args.a.scales, scale),
                      .b_scales = layout_of(args.b.scales, scale),
                      .has_bias = args.bias != nullptr,
                      .bias_after = bias_after,
                      .out_cast = args.out_cast,
                      .has_addend = args.addend != nullptr},
                     "matmul");
}

MatmulRule with_block_scales(MatmulRule rule, const ScaleLayout& a, const ScaleLayout& b) {
    const bool by_block = a.kind == Kind::blocks || b.kind == Kind::blocks;
    if (!by_block || rule.machine->has_scales() || rule.promotion != Promotion::none) return rule;
    rule.promotion = Promotion::fma_joint;
    rule.promotion_interval = static_cast<int>(a.kind != Kind::blocks   ? b.k_block
                                               : b.kind != Kind::blocks ? a.k_block
                                                                        : min_of(a.k_block, b.k_block));
    return rule;
}

std::string check_matmul_rule(const MatmulRule& rule, const MatmulUse& use, std::string_view where,
                              const NamedMatmulRule* named) {
    require_possible(rule, use, where);
    const Machine& machine = *rule.machine;
    if (is_order_of_summation(machine) && rule.slices == 1) return {};  // a definition, which does not model hardware
    std::vector<std::string> open;
    if (machine.evidence == Evidence::inferred) {
        open.push_back(
            fmt::format("{} follows related machines, because its behaviour has not been published", machine.name));
    }
    if (named != nullptr && named->evidence == Evidence::inferred) {
        open.push_back(fmt::format("{}: {}", named->name, named->summary));
    }
    const bool by_row = use.a_scales.kind == Kind::outer || use.b_scales.kind == Kind::outer;
    const bool by_block = use.a_scales.kind == Kind::blocks || use.b_scales.kind == Kind::blocks;
    if (rule.promotion != Promotion::none && !is_promoted_somewhere(machine)) {
        open.push_back(fmt::format("no library is known to promote on {}, which keeps {} fraction bits", machine.name,
                                   machine.sum.fraction_bits));
    } else if (rule.promotion != Promotion::none && &machine != hopper_fp8) {
        open.push_back(fmt::format("promotion is documented for {}, not for {}", hopper_fp8->name, machine.name));
    } else if (rule.promotion != Promotion::none && rule.promotion_interval != 128 &&
               !(named != nullptr && named->takes_interval)) {
        open.push_back(
            fmt::format("libraries promote after every 128 terms of k, not every {}", rule.promotion_interval));
    }
    if (takes_scales_in(rule.promotion) && !by_block) {
        open.push_back(fmt::format("no library promotes by {} without block scales", to_string(rule.promotion)));
    }
    if (by_row && rule.scale_order == ScaleOrder::joint && !machine.has_scales() && !takes_scales_in(rule.promotion)) {
        open.push_back(
            "no library is known that first multiplies the scales of row and column: torch and vLLM apply the two "
            "scales one after the other");
    }
    if (rule.slices > 1 && (by_row || by_block)) {
        open.push_back("no source describes k slices of row-scaled or block-scaled operands");
    }
    if (rule.slices > 1 && rule.join == SliceJoin::serial && use.has_bias) {
        open.push_back("the serial join adds the bias in a separate addition after the last slice");
    }
    if (rule.slices > 1 && is_order_of_summation(machine) && &machine != &fp32_chain) {
        open.push_back(fmt::format("no library has a kernel with k slices of {}", machine.name));
    }
    return fmt::format("{}", fmt::join(open, "; "));
}

}  // namespace macheps
