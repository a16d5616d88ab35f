// SPDX-License-Identifier: Apache-2.0
// Builds the problem of a matrix product from its arrays. Handles the layouts of operands, batches, groups of rows, and
// block scales.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/declare/declare_products.hpp"
#include "experiments/check/declare/listings.hpp"
#include "experiments/check/pose/arrange.hpp"
#include "experiments/check/pose/budget.hpp"
#include "experiments/check/pose/poser.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::check {

namespace {

/// Returns true if the product of these matrices has the shape of `out`.
bool agree(const Shape& a, const Shape& b, const Shape& out) {
    return out.size() >= 2 && a.back() == b[b.size() - 2] && out.back() == b.back() &&
           out[out.size() - 2] == a[a.size() - 2];
}

/// Returns the options for other layouts of a and b with which the shapes would agree; empty if there are none.
std::string other_layouts(const Declaration& d, const Shape& a, const Shape& b, const Shape& out) {
    const auto transposed = [](Shape shape) {
        std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
        return shape;
    };
    const std::string a_option = d.a_layout == "mk" ? "--a-layout km" : "--a-layout mk",
                      b_option = d.b_layout == "kn" ? "--b-layout nk" : "--b-layout kn";
    if (agree(a, transposed(b), out)) return b_option;
    if (agree(transposed(a), b, out)) return a_option;
    return agree(transposed(a), transposed(b), out) ? a_option + " " + b_option : "";
}

[[noreturn]] void shapes_disagree(const Poser& poser, const Decoded& a, const Decoded& b, const Shape& out) {
    const Declaration& d = poser.declaration();
    // Messages show the shapes as stored in the file.
    const auto stored = [](Shape shape, bool is_transposed) {
        if (is_transposed) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
        return text_of(shape);
    };
    const std::string layouts = other_layouts(d, a.shape, b.shape, out);
    poser.bad("out",
              fmt::format("shapes disagree: a {}, b {}, out {}", stored(a.shape, d.a_layout == "km"),
                          stored(b.shape, d.b_layout == "nk"), text_of(out)),
              !layouts.empty() ? fmt::format("declare {}; with transposed operands the shapes agree", layouts)
              : poser.find("offsets") != nullptr || poser.find("groups") != nullptr
                  ? "use the shapes a [m,k], b [groups,k,n], out [m,n]"
                  : "use the shapes a [m,k], b [k,n], out [m,n], each with the same batch dimensions in front");
}

/// Returns operands whose shapes, batches and groups are set, but whose values are not.
ProductOperands arranged(const Poser& poser, const Decoded& a, const Decoded& b, const Shape& out) {
    const std::size_t rank = a.shape.size(), b_rank = b.shape.size();
    ProductOperands of{.batches = product_of(a.shape, 0, rank - 2),
                       .m = a.shape[rank - 2],
                       .n = b.shape.back(),
                       .k = a.shape[rank - 1],
                       .a_format = a.format,
                       .b_format = b.format};
    const std::int64_t matrices = product_of(b.shape, 0, b_rank - 2);
    Shape shape(a.shape.begin(), a.shape.end() - 1);
    shape.push_back(of.n);
    if (b.shape[b_rank - 2] != of.k || out != shape) shapes_disagree(poser, a, b, out);
    const bool has_sizes = poser.find("groups") != nullptr;
    if (!has_sizes && poser.find("offsets") == nullptr) {
        of.has_one_b = matrices == 1;
        if (matrices != 1 && matrices != of.batches) shapes_disagree(poser, a, b, out);
        return of;
    }
    if (has_sizes && rank == 3 && b_rank == 3 && matrices == of.batches) {
        of.has_one_b = false;
        return of;
    }
    if (rank != 2 || b_rank != 3) shapes_disagree(poser, a, b, out);
    const char* name = has_sizes ? "groups" : "offsets";
    of.batches = matrices;
    of.has_one_b = false;
    of.starts = group_starts(poser.integers(name).values, has_sizes, matrices, of.m, poser.find(name)->where);
    return of;
}

/// If a has the shape [groups, m, k], each group has room for m rows. Returns the number of used rows of each group in
/// this case, otherwise an empty vector.
std::vector<std::int64_t> padded_sizes(const Poser& poser, const ProductOperands& of, const Decoded& a) {
    if (poser.find("groups") == nullptr || a.shape.size() != 3) return {};
    std::vector<std::int64_t> sizes = poser.integers("groups").values;
    if (static_cast<std::int64_t>(sizes.size()) != of.batches)
        poser.bad("groups", fmt::format("the array has {} numbers, but b has {} matrices", sizes.size(), of.batches),
                  "save the number of rows of each group");
    bool is_any = false;
    for (const std::int64_t size : sizes) {
        if (size < 0 || size > of.m)
            poser.bad("groups", fmt::format("a group cannot have {} rows, because it has room for {}", size, of.m),
                      "save the number of rows of each group");
        is_any = is_any || size > 0;
    }
    if (!is_any) poser.bad("groups", "all groups are empty", "save a launch in which some group has rows");
    return sizes;
}

/// Rounds fp32 operands to tf32 if the declaration says that the kernel does so.
void convert_operands(const Declaration& d, ProductOperands& of) {
    const OperandConversion* how = find_operand_conversion(d.operands == "any" ? d.conversion : d.operands);
    if (how == nullptr || !how->rounding) return;
    const Round mode = *how->rounding;
    for (auto [values, format] : {std::pair{&of.a, &of.a_format}, std::pair{&of.b, &of.b_format}}) {
        if (!(*format == fp32)) continue;
        *format = tf32;
        for (double& x : *values) x = decode64(tf32, encode64(tf32, x, mode, Overflow::nonsaturate));
    }
}

/// Throws unless the declared form belongs to the activation.
void require_form(const Declaration& d) {
    if (d.form.empty()) return;
    std::vector<std::string_view> names;
    for (const Form& form : listing::forms_of(d.activation)) names.push_back(form.name);
    if (std::find(names.begin(), names.end(), d.form) != names.end()) return;
    throw Error({.what = fmt::format("the activation {} has no form '{}'", d.activation, d.form),
                 .where = "--form",
                 .fix = names.empty() ? "remove it" : fmt::format("use one of {}", fmt::join(names, ", ")),
                 .exit = Exit::usage});
}

struct BlockScales {
    std::vector<double> factors{};
    std::int64_t k_block = 0;
    Format format = fp32;
};

/// Returns the block scales in the array `name`. They are empty if the declaration has no blocks for this array.
BlockScales block_scales(const Poser& poser, const ProductOperands& of, const char* name) {
    const Declaration& d = poser.declaration();
    const auto declared = d.scale_shapes.find(name);
    if (declared == d.scale_shapes.end()) return {};
    const std::optional<ScaleBlock> block = scale_block(declared->second);
    if (!block) return {};
    const bool is_b = std::string_view(name) == "b_scale";
    Decoded scales = poser.decode(name);
    const auto storage = d.scale_layout == "cublas128x4" ? ScaleStorage::cublas128x4 : ScaleStorage::linear;
    const bool is_stored_by_columns = is_b && d.b_layout == "nk" && storage == ScaleStorage::linear;
    if (is_stored_by_columns && scales.shape.size() >= 2) transpose(scales);
    const std::int64_t matrices = is_b ? of.matrices_of_b() : of.starts.empty() ? of.batches : 1;
    const auto place = fmt::format("{} ({})", poser.find(name)->where, name);
    return {block_factors(scales, *block, storage, matrices, is_b ? of.n : of.m, of.k, is_b, place), block->k,
            scales.format};
}

void require_machine(const Declaration& d, const ProductOperands& of, const MatmulUse& use) {
    require_possible(*d.machine, use, "--machine");
    for (const Format& format : {of.a_format, of.b_format}) {
        if (decoded_format(*d.machine->machine, format) == format) continue;
        throw Error({.what = fmt::format("{} reads {} as {}, but the check uses the operands as they are stored",
                                         d.machine_name, format_name(format),
                                         format_name(decoded_format(*d.machine->machine, format))),
                     .where = "--machine",
                     .fix = "declare how they are converted (operands), or save them as the machine reads them",
                     .exit = Exit::usage});
    }
}

SumFreedom freedom_of(const Declaration& d, const Format& output) {
    SumFreedom freedom{.output = output};
    freedom.is_sliced = machine_name_of(d) == "sliced";
    freedom.joined_slices = static_cast<double>(d.slices);
    if (d.partials) {
        freedom.slices = d.slices;
        freedom.partials = *d.partials;
    }
    // Each atomic addition may flush up to three subnormal numbers: both addends and their sum.
    if (d.has_atomics) freedom.flushes = 3 * static_cast<double>(std::max<std::int64_t>(d.slices, 1));
    return freedom;
}

/// Restricts the problem, its operands and its inputs to the outputs in `part`.
void take_part(Posed& posed, ProductOperands& of, const std::shared_ptr<const Sample>& part) {
    Problem& problem = posed.problem;
    of = part->operands(of);
    for (Input& input : problem.inputs) input = part->input(input);
    posed.out = part->outputs(posed.out);
    problem.rows = part->rows();
    problem.columns = part->columns();
    problem.sample = part;
}

/// Compares sums of all outputs with their bounds (screen()), unless an activation is applied. Then restricts the
/// problem to a sample that has one output in `every`.
void take_sample(Posed& posed, ProductOperands& of, const SumFreedom& freedom, std::int64_t every,
                 const Sampling& sampling, ThreadPool& pool) {
    Problem& problem = posed.problem;
    const Declaration& d = problem.declaration;
    if (d.activation == "none")
        problem.screen = screen({.of = of,
                                 .rule = d.machine,
                                 .freedom = freedom,
                                 .inputs = problem.inputs,
                                 .alpha = d.alpha,
                                 .beta = d.beta,
                                 .output = problem.output,
                                 .rounding = d.rounding},
                                posed.out, sampling.delta, pool);
    else
        problem.unscreened = fmt::format("outputs of the activation {} are not sums", d.activation);
    take_part(posed, of, std::make_shared<const Sample>(of, every));
}

}  // namespace

void pose_product(const Poser& poser, Posed& posed, ThreadPool& pool, const Sampling& sampling) {
    Declaration& d = posed.problem.declaration;
    require_form(d);
    Decoded a = poser.decode("a"), b = poser.decode("b");
    if (a.shape.size() < 2 || b.shape.size() < 2)
        poser.bad("a",
                  fmt::format("the shapes a {}, b {} are not those of matrices", text_of(a.shape), text_of(b.shape)),
                  "save matrices, or batches of matrices");
    if (d.a_layout == "km") transpose(a);
    if (d.b_layout == "nk") transpose(b);
    ProductOperands of = arranged(poser, a, b, posed.out_shape);
    d.formats["a"].format = a.format;
    d.formats["b"].format = b.format;
    const std::vector<std::int64_t> sizes = padded_sizes(poser, of, a);
    of.a = std::move(a.values);
    of.b = std::move(b.values);
    convert_operands(d, of);
    const BlockScales a_scales = block_scales(poser, of, "a_scale"), b_scales = block_scales(poser, of, "b_scale");
    MatmulUse use{.a = of.a_format, .b = of.b_format};
    if (a_scales.k_block > 0)
        use.a_scales = {.kind = ScaleLayout::Kind::blocks, .k_block = a_scales.k_block, .format = a_scales.format};
    if (b_scales.k_block > 0)
        use.b_scales = {.kind = ScaleLayout::Kind::blocks, .k_block = b_scales.k_block, .format = b_scales.format};
    if (a_scales.k_block > 0 || b_scales.k_block > 0) {
        of.scale_format = a_scales.k_block > 0 ? a_scales.format : b_scales.format;
        set_block_factors(of, a_scales.factors, a_scales.k_block, b_scales.factors, b_scales.k_block);
    }
    if (d.machine && d.slices > 0 && d.machine->slices <= 1) d.machine->slices = static_cast<int>(d.slices);
    if (d.machine) require_machine(d, of, use);
    const bool is_scaled = d.alpha != 1 || poser.find("a_scale") != nullptr || poser.find("b_scale") != nullptr;
    if (d.machine && d.machine->join == SliceJoin::serial && d.machine->slices > 1 && is_scaled)
        throw Declined("slices that are joined one by one are rounded after each scaling, which no bound covers",
                       "--machine");
    posed.problem.rows = of.rows();
    posed.problem.columns = of.n;
    posed.problem.group_rows = of.m;
    poser.add_inputs(posed.problem, posed.out_shape);
    const SumFreedom freedom = freedom_of(d, posed.problem.output);
    const std::int64_t every =
        sampling.seconds ? std::max(sampling.every, every_within(of, d.machine, freedom, *sampling.seconds, pool))
                         : sampling.every;
    if (every > 1 && !sizes.empty()) throw Declined("groups with room for more rows cannot be sampled", "--sample");
    if (every > 1) take_sample(posed, of, freedom, every, sampling, pool);
    if (!sizes.empty()) take_part(posed, of, std::make_shared<const Sample>(Sample::of_groups(of, sizes)));
    posed.problem.products = std::make_shared<const Products>(std::move(of), d.machine, pool, freedom);
}

}  // namespace macheps::check
