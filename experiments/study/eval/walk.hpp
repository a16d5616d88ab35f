// SPDX-License-Identifier: Apache-2.0
// Evaluates the tree of a formula, either in a number format or with enclosures of real numbers.
#pragma once
#include "core/error.hpp"
#include "experiments/study/eval/tree.hpp"

#include <vector>

namespace macheps::study {

/// Maximum number of iterations of all loops together in one evaluation. A loop that exceeds it counts as endless.
inline constexpr int max_loop_turns = 100000;

/// Thrown if the loops of an evaluation exceed max_loop_turns.
struct EndlessLoop : Error {
    using Error::Error;
};

/// Evaluates an expression. System provides the arithmetic: a type Number and the functions literal, apply, compare and
/// test. A System that rounds to a format also has enter, leave and cast. If a System does not have these functions,
/// contexts and casts change nothing.
template <class System>
class Walk {
  public:
    using Number = typename System::Number;
    Walk(System& system, const Expression& expression) : system_(system), expression_(expression) {}

    /// Returns the value of the expression. Errors: throws EndlessLoop (usage) if a loop does not end.
    Number value(const std::vector<Number>& inputs) {
        start(inputs);
        return number(expression_.body);
    }
    bool accepts(const std::vector<Number>& inputs) {
        start(inputs);
        return expression_.precondition.empty() || truth(expression_.precondition.front());
    }

  private:
    void start(const std::vector<Number>& inputs) {
        slots_ = inputs;
        slots_.resize(static_cast<std::size_t>(expression_.slots));
        turns_ = 0;
    }
    Number& slot(int i) { return slots_[static_cast<std::size_t>(i)]; }

    Number number(const Node& node) {
        switch (node.kind) {
            case Node::Kind::number:
            case Node::Kind::constant:
                return system_.literal(node);
            case Node::Kind::variable:
                return slot(node.slot);
            case Node::Kind::call:
                return call(node);
            case Node::Kind::choice:
                return number(node.children[truth(node.children[0]) ? 1 : 2]);
            case Node::Kind::let: {
                bind(node, 0, node.is_sequential);
                return number(node.children.back());
            }
            case Node::Kind::loop: {
                bind(node, 1, node.is_sequential);
                while (truth(node.children.front())) {
                    if (++turns_ > max_loop_turns) {
                        throw EndlessLoop({.what = "a loop does not end after 100000 iterations",
                                           .where = expression_.name.empty() ? "expression" : expression_.name,
                                           .fix = "change the condition of the loop, or the inputs",
                                           .exit = Exit::usage});
                    }
                    bind(node, 1 + node.slots.size(), node.is_sequential);
                }
                return number(node.children.back());
            }
            case Node::Kind::context:
                return inside(node, [&] { return number(node.children.front()); });
            case Node::Kind::cast: {
                Number value = number(node.children.front());
                if constexpr (requires { system_.cast(value); }) value = system_.cast(value);
                return value;
            }
        }
        return Number{};
    }
    template <class Use>
    auto inside(const Node& node, const Use& use) {
        if constexpr (requires { system_.leave(); }) {
            system_.enter(expression_.contexts[static_cast<std::size_t>(node.slot)]);
            const auto value = use();
            system_.leave();
            return value;
        } else {
            return use();
        }
    }
    /// Evaluates one child for each slot, starting with child `first`, and stores the values in the slots. If
    /// `is_sequential`, stores each value before the next child is evaluated. Otherwise stores all values at the end.
    void bind(const Node& node, std::size_t first, bool is_sequential) {
        std::vector<Number> values;
        for (std::size_t i = 0; i < node.slots.size(); ++i) {
            Number value = number(node.children[first + i]);
            if (is_sequential) {
                slot(node.slots[i]) = value;
            } else {
                values.push_back(value);
            }
        }
        for (std::size_t i = 0; i < values.size(); ++i) slot(node.slots[i]) = values[i];
    }
    Number call(const Node& node) {
        std::vector<Number> arguments;
        for (const Node& child : node.children) arguments.push_back(number(child));
        if (node.op != Op::add && node.op != Op::mul) return system_.apply(node.op, arguments);
        // + and * take any number of operands and are evaluated from left to right.
        Number out = arguments.front();
        for (std::size_t i = 1; i < arguments.size(); ++i) out = system_.apply(node.op, {out, arguments[i]});
        return out;
    }
    bool truth(const Node& node) {
        if (node.kind == Node::Kind::constant) return node.text == "TRUE";
        if (node.kind == Node::Kind::context) return inside(node, [&] { return truth(node.children.front()); });
        const auto all = [&](bool wanted) {
            for (const Node& child : node.children) {
                if (truth(child) != wanted) return false;
            }
            return true;
        };
        switch (node.op) {
            case Op::both:
                return all(true);
            case Op::either:
                return !all(false);
            case Op::negation:
                return !truth(node.children[0]);
            case Op::is_nan:
            case Op::is_inf:
            case Op::is_finite:
            case Op::is_normal:
            case Op::sign_bit:
                return system_.test(node.op, number(node.children[0]));
            default:
                break;
        }
        std::vector<Number> arguments;
        for (const Node& child : node.children) arguments.push_back(number(child));
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            // != compares all pairs of operands. The other operators compare neighbouring operands.
            const std::size_t last = node.op == Op::unequal ? arguments.size() : std::min(i + 2, arguments.size());
            for (std::size_t j = i + 1; j < last; ++j) {
                if (!system_.compare(node.op, arguments[i], arguments[j])) return false;
            }
        }
        return true;
    }

    System& system_;
    const Expression& expression_;
    std::vector<Number> slots_{};
    int turns_ = 0;
};

}  // namespace macheps::study
