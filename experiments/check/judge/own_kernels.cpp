// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge/own_kernels.hpp"

#include "core/codec.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/bounds/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

const Defect no_defect{};

/// Returns orders of summation that libraries use: one chain from either end, interleaved chains, chains over blocks,
/// and a tree.
std::vector<OwnOrder> usual_orders(bool is_product) {
    std::vector<OwnOrder> all{{"a chain", {}}, {"a chain from the last term on", {}, true}};
    if (is_product) all.push_back({"a chain of fused multiply-adds", {}, false, true});
    for (const std::int64_t width : {4, 32, 128})
        all.push_back({fmt::format("{} lanes", width), {SumShape::lanes, width}});
    all.push_back({"blocks of 128", {SumShape::blocks, 128}});
    all.push_back({"a tree", {SumShape::pairwise}});
    return all;
}

std::vector<OwnOrder> orders_of(const Problem& problem) {
    const Declaration& d = problem.declaration;
    if (problem.products != nullptr) {
        if (d.machine) return {{fmt::format("machine {}", d.machine_name)}};
        std::vector<OwnOrder> all = usual_orders(true);
        if (d.slices > 1) all.push_back({fmt::format("{} slices", d.slices), {}, false, true, d.slices});
        return all;
    }
    const SumOrder declared = parse_sum_order(d.sum_order);
    const bool has_sums = d.operation->has_reduction;
    if (!has_sums || declared.shape != SumShape::any) return {{has_sums ? sum_order_text(declared) : "fp32"}};
    return usual_orders(false);
}

float in_format(const Format& format, float x) {
    return static_cast<float>(
        decode64(format, encode64(format, static_cast<double>(x), Round::nearest_even, Overflow::nonsaturate)));
}

std::vector<float> floats(const double* from, std::int64_t count) { return {from, from + count}; }

}  // namespace

OwnKernels::OwnKernels(const Problem& problem)
    : problem_(problem),
      listing_(listing_of(problem, problem.inputs, no_defect)),
      list_(listing_.nodes.list(), false),
      orders_(orders_of(problem)),
      made_(orders_.size()) {}

std::int64_t OwnKernels::terms() const {
    if (problem_.products != nullptr) return problem_.products->operands().k;
    return problem_.is_reduced() ? problem_.rows * problem_.columns : problem_.columns;
}

bool OwnKernels::makes_rows() const {
    return problem_.products != nullptr ? problem_.declaration.machine.has_value() : !problem_.is_one_per_row();
}

void OwnKernels::make(std::int64_t output) {
    const std::int64_t width = problem_.is_reduced() || problem_.is_one_per_row() ? 1 : problem_.columns,
                       row = output / width, column = output % width;
    const bool has_column = problem_.products != nullptr && !problem_.declaration.machine;
    place_ = has_column ? 0 : static_cast<std::size_t>(column);
    if (made_row_ == row && (!has_column || made_column_ == column)) return;
    made_row_ = row;
    made_column_ = column;
    if (problem_.is_reduced()) return make_reduced();
    if (has_column) return make_products(row, column);
    return problem_.products != nullptr ? make_machine_row(row) : make_row(row);
}

void OwnKernels::make_row(std::int64_t row) {
    const Row r{.row = row, .columns = problem_.columns, .count = problem_.columns, .inputs = &problem_.inputs};
    for (std::size_t w = 0; w < orders_.size(); ++w)
        made_[w] = list_.run(r, {}, orders_[w].order, orders_[w].backwards);
}

/// Computes the single output of an operation that reduces all rows. Each row is summed as a chain. The results of the
/// rows are then summed in each order.
void OwnKernels::make_reduced() {
    std::vector<float> results;
    for (std::int64_t row = 0; row < problem_.rows; ++row) {
        const Row r{.row = row, .columns = problem_.columns, .count = problem_.columns, .inputs = &problem_.inputs};
        results.push_back(list_.run(r, {}).front());
    }
    const Listing across = across_of(problem_, problem_.inputs, no_defect);
    Fp32Row list(across.nodes.list(), false);
    const Row r{.columns = problem_.rows, .count = problem_.rows, .inputs = &problem_.inputs};
    for (std::size_t w = 0; w < orders_.size(); ++w)
        made_[w] = list.run(r, results, orders_[w].order, orders_[w].backwards);
}

void OwnKernels::make_products(std::int64_t row, std::int64_t column) {
    const ProductOperands& of = problem_.products->operands();
    std::vector<float> products(static_cast<std::size_t>(of.k));
    for (std::int64_t p = 0; p < of.k; ++p) {
        products[static_cast<std::size_t>(p)] = static_cast<float>(of.a_at(row, p) * of.b_at(row, p, column));
    }
    const Row r{.row = row, .columns = problem_.columns, .first = column, .count = 1, .inputs = &problem_.inputs};
    const Declaration& d = problem_.declaration;
    for (std::size_t w = 0; w < orders_.size(); ++w) {
        const OwnOrder& order = orders_[w];
        float sum = 0;
        if (order.fuses) {
            for (std::int64_t s = 0; s < order.slices; ++s) {
                float part = 0;
                for (std::int64_t p = s * of.k / order.slices; p < (s + 1) * of.k / order.slices; ++p)
                    part = std::fma(static_cast<float>(of.a_at(row, p)), static_cast<float>(of.b_at(row, p, column)),
                                    part);
                sum += order.slices > 1 && d.partials ? in_format(*d.partials, part) : part;
            }
        } else {
            std::vector<float> terms = products;
            if (order.backwards) std::reverse(terms.begin(), terms.end());
            sum = sum_in_order(terms, order.order);
        }
        made_[w] = list_.run(r, {sum});
    }
}

/// Computes one row of a matrix product by emulating the declared machine, as the test of claimed bits does.
void OwnKernels::make_machine_row(std::int64_t row) {
    static thread_local CpuBackend backend(1);
    const ProductOperands& of = problem_.products->operands();
    const MatmulRule& rule = *problem_.declaration.machine;
    const std::int64_t matrix = of.batch_of_b(row), plane = of.k * of.n;
    if (matrix != matrix_) b_ = floats(of.unscaled_b().data() + matrix * plane, plane);
    matrix_ = matrix;
    const std::vector<float> a = floats(of.unscaled_a().data() + row * of.k, of.k);
    std::vector<float> a_factors, b_factors, sums(static_cast<std::size_t>(of.n));
    Matmul args{.m = 1, .n = of.n, .k = of.k};
    args.a = {.data = a.data(), .ld = of.k, .format = of.a_format};
    args.b = {.data = b_.data(), .ld = of.n, .format = of.b_format};
    if (of.k_block > 0) {
        a_factors = floats(of.a_factors.data() + row * of.blocks(), of.blocks());
        b_factors = floats(of.b_factors.data() + matrix * of.blocks() * of.n, of.blocks() * of.n);
        args.a.scales = {.data = a_factors.data(), .k_block = of.k_block, .outer_stride = of.blocks(), .k_stride = 1};
        args.b.scales = {.data = b_factors.data(), .k_block = of.k_block, .outer_stride = 1, .k_stride = of.n};
    }
    args.out = sums.data();
    args.ld_out = of.n;
    args.rule = rule;
    if (rounds_slices(rule)) args.out_cast = Cast{.format = problem_.output};
    backend.matmul(args);
    const Row r{.row = row, .columns = problem_.columns, .count = problem_.columns, .inputs = &problem_.inputs};
    made_.front() = list_.run(r, sums);
}

}  // namespace macheps::check
