// SPDX-License-Identifier: Apache-2.0
#include "core/codec.hpp"
#include "experiments/check/nodes.hpp"

#include <algorithm>

namespace macheps::check {

namespace {

Wide step_of(const Node& node, Wide x, Wide y) {
    switch (node.step) {
        case Step::add:
        case Step::accumulate:
            return x + y;
        case Step::subtract:
            return x - y;
        case Step::multiply:
            return x * y;
        case Step::divide:
            return x / y;
        case Step::exponential:
            return exponential(x);
        case Step::logarithm:
            return logarithm(x);
        case Step::inverse_root:
            return inverse_root(x);
        default:
            return x;  // either, and round, whose exact value is what it rounds
    }
}

Wide greatest_of(const std::vector<Wide>& x) {
    Wide most = x.front();
    for (const Wide& each : x) {
        if (std::isnan(each.high)) return each;
        if (each.high > most.high || (each.high == most.high && each.low > most.low)) most = each;
    }
    return most;
}

Wide sum_of(const std::vector<Wide>& x, std::int64_t skipped) {
    Wide total{};
    const std::size_t count = x.size() - std::min(x.size(), static_cast<std::size_t>(skipped));
    for (std::size_t i = 0; i < count; ++i) total = total + x[i];
    return total;
}

}  // namespace

void reference(const std::vector<Node>& nodes, const Row& row, Columns<Wide>& out) {
    out.resize(nodes.size());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        const Node& node = nodes[n];
        out[n].resize(node.is_row ? 1 : static_cast<std::size_t>(row.count));
        if (node.step == Step::sum || node.step == Step::greatest) {
            const auto& x = out[static_cast<std::size_t>(node.x)];
            out[n][0] = node.step == Step::sum ? sum_of(x, node.skipped) : greatest_of(x);
            continue;
        }
        const std::vector<Wide>* x = node.x < 0 ? nullptr : &out[static_cast<std::size_t>(node.x)];
        const std::vector<Wide>* y = node.y < 0 ? x : &out[static_cast<std::size_t>(node.y)];
        for (std::size_t i = 0; i < out[n].size(); ++i) {
            if (node.step == Step::constant) {
                out[n][i] = {node.constant, 0};
            } else if (node.step == Step::input) {
                const Input& input = (*row.inputs)[static_cast<std::size_t>(node.array)];
                out[n][i] = {input.at(row.row, row.first + static_cast<std::int64_t>(i), row.columns), 0};
            } else if (node.step == Step::product) {
                out[n][i] = (*row.products)[i].sum;
            } else {
                out[n][i] = step_of(node, (*x)[x->size() == 1 ? 0 : i], (*y)[y->size() == 1 ? 0 : i]);
            }
        }
    }
}

Arithmetic reference_arithmetic() {
    return {.unit_roundoff = 0x1p-100,
            .least = 0x1p-1022,
            .overflow = 0x1p1023,
            .exponential = 0x1p-51,
            .logarithm = 0x1p-51,
            .inverse_root = 0x1p-96,
            .is_reference = true};
}

Arithmetic kernel_arithmetic(double exponential_ulps, double logarithm_ulps, double inverse_root_ulps) {
    // An ulp is at most two unit roundoffs of the value.
    return {.exponential = exponential_ulps * 0x1p-23,
            .logarithm = logarithm_ulps * 0x1p-23,
            .inverse_root = inverse_root_ulps * 0x1p-23};
}

}  // namespace macheps::check
