// SPDX-License-Identifier: Apache-2.0
// Evaluates a list of nodes for one row in fp32 and rounds every step, as a plain kernel does. The test of claimed bits
// (fp32_rows.hpp) and the legal kernels that a check itself runs (own_kernels.hpp) use this code.
#pragma once
#include "experiments/check/truth/nodes.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace macheps::check {

/// Returns the sum of `x` in the given order. Each addition is rounded to the order's accumulator format. The order
/// `any` adds the terms one after another.
float sum_in_order(std::span<const float> x, const SumOrder& order);

/// Returns high + low, rounded once to float.
float nearest_float(Wide x);

/// Rounds function values that are known with limited accuracy. If the accuracy does not decide which of two floats is
/// nearest, the result is the greater one if `goes_up` is true, otherwise the smaller one, and `undecided` is
/// incremented.
struct FunctionRounding {
    bool goes_up = false;
    std::int64_t undecided = 0;

    float operator()(Wide x, double relative);
};

class Fp32Row {
  public:
    using Floats = std::vector<float>;

    Fp32Row(const std::vector<Node>& nodes, bool goes_up) : nodes_(nodes), values_(nodes.size()) {
        functions_.goes_up = goes_up;
    }

    /// Evaluates the list and returns the numbers of its last node. Some lists begin with a node Step::product. For
    /// them, `products` holds the numbers of this node: the sums of a matrix product or the results of all rows.
    /// `order` is the order of those sums whose declared order is `any`. If `backwards` is true, the terms of these
    /// sums are added from the last to the first.
    const Floats& run(const Row& row, const Floats& products, const SumOrder& order = {}, bool backwards = false);
    std::int64_t undecided() const { return functions_.undecided; }

  private:
    const Floats& at(int node) const { return values_[static_cast<std::size_t>(node)]; }
    template <class Function>
    void each(const Node& node, Floats& out, Function function) const;
    template <class Function>
    void function(const Node& node, Floats& out, Function wide);
    void move(const Node& node, Floats& out) const;
    float sum(const Node& node);
    void step(const Node& node, const Row& row, const Floats& products, Floats& out);
    void numbers(const Node& node, Floats& out);

    const std::vector<Node>& nodes_;
    std::vector<Floats> values_;
    FunctionRounding functions_{};
    Arithmetic own_ = reference_arithmetic();
    SumOrder order_{};
    bool backwards_ = false;
    Floats reversed_{};
};

}  // namespace macheps::check
