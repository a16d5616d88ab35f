// SPDX-License-Identifier: Apache-2.0
// One row of a list of nodes in fp32, every step rounded: what a plain kernel computes. Bits that are claimed and the legal
// kernels that a check runs itself come from here.
#pragma once
#include "experiments/check/nodes.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace macheps::check {

/// The sum of `x` in an order, each addition rounded to the order's accumulator: `any` is a chain in the order of the terms.
float sum_in_order(std::span<const float> x, const SumOrder& order);

/// high + low, rounded once.
float nearest_float(Wide x);

/// Roundings of functions that are known to some digits only. If those do not decide which of two floats is nearest, the
/// lower or the greater one is taken, and counted.
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

    /// Returns the last node's numbers. `products`: of a list that begins with a matrix product, or with the results of all
    /// rows. `order`: of sums that are declared in any order, else a chain. `backwards`: their terms from the last to the first.
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
