// SPDX-License-Identifier: Apache-2.0
// A reverse-mode tape of double scalars. It has only the derivatives of + - * / sqrt exp log erf tanh and of dot
// products. Therefore it contains no backward pass of a layer that was derived by hand.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace macheps::oracle {

class Tape;

/// A scalar on a tape.
struct Var {
    Tape* tape = nullptr;
    std::uint32_t index = 0;
    double value = 0;
};

class Tape {
  public:
    /// Returns a new independent variable.
    Var leaf(double value) { return node(value); }

    Var unary(double value, Var a, double da) {
        edges_.push_back({a.index, da});
        return node(value);
    }
    Var binary(double value, Var a, double da, Var b, double db) {
        edges_.push_back({a.index, da});
        edges_.push_back({b.index, db});
        return node(value);
    }
    /// Returns the sum of a[i] b[i]. Only the two indices of a term are kept, because the partial derivative for one
    /// factor is the value of the other factor.
    Var dot(std::span<const Var> a, std::span<const Var> b) {
        double sum = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            sum += a[i].value * b[i].value;
            products_.push_back({a[i].index, b[i].index});
        }
        return node(sum);
    }

    /// Returns d root / d node for every node, by index.
    std::vector<double> adjoints(Var root) const {
        std::vector<double> adjoint(nodes_.size(), 0.0);
        adjoint[root.index] = 1.0;
        for (std::size_t i = root.index + std::size_t{1}; i-- > 0;) {
            const double seed = adjoint[i];
            if (seed == 0) continue;
            const std::size_t first_edge = i > 0 ? nodes_[i - 1].end_edge : 0;
            for (std::size_t e = first_edge; e < nodes_[i].end_edge; ++e)
                adjoint[edges_[e].parent] += seed * edges_[e].partial;
            const std::size_t first_product = i > 0 ? nodes_[i - 1].end_product : 0;
            for (std::size_t p = first_product; p < nodes_[i].end_product; ++p) {
                const auto [a, b] = products_[p];
                adjoint[a] += seed * nodes_[b].value;
                adjoint[b] += seed * nodes_[a].value;
            }
        }
        return adjoint;
    }

  private:
    struct Edge {
        std::uint32_t parent;
        double partial;
    };
    struct Product {
        std::uint32_t a, b;
    };
    struct Node {
        double value;
        std::size_t end_edge, end_product;  // ends of the node's parents, which begin at the previous node's ends
    };

    Var node(double value) {
        nodes_.push_back({value, edges_.size(), products_.size()});
        return {this, static_cast<std::uint32_t>(nodes_.size() - 1), value};
    }

    std::vector<Node> nodes_;
    std::vector<Edge> edges_;
    std::vector<Product> products_;
};

inline Var operator+(Var a, Var b) { return a.tape->binary(a.value + b.value, a, 1, b, 1); }
inline Var operator-(Var a, Var b) { return a.tape->binary(a.value - b.value, a, 1, b, -1); }
inline Var operator*(Var a, Var b) { return a.tape->binary(a.value * b.value, a, b.value, b, a.value); }
inline Var operator/(Var a, Var b) {
    const double quotient = a.value / b.value;
    return a.tape->binary(quotient, a, 1 / b.value, b, -quotient / b.value);
}
inline Var operator+(Var a, double b) { return a.tape->unary(a.value + b, a, 1); }
inline Var operator-(Var a, double b) { return a.tape->unary(a.value - b, a, 1); }
inline Var operator*(Var a, double b) { return a.tape->unary(a.value * b, a, b); }

inline Var sqrt(Var a) {
    const double root = std::sqrt(a.value);
    return a.tape->unary(root, a, 0.5 / root);
}
inline Var exp(Var a) {
    const double power = std::exp(a.value);
    return a.tape->unary(power, a, power);
}
inline Var log(Var a) { return a.tape->unary(std::log(a.value), a, 1 / a.value); }
inline Var erf(Var a) {
    constexpr double two_over_sqrt_pi = 1.1283791670955126;
    return a.tape->unary(std::erf(a.value), a, two_over_sqrt_pi * std::exp(-a.value * a.value));
}
inline Var tanh(Var a) {
    const double t = std::tanh(a.value);
    return a.tape->unary(t, a, 1 - t * t);
}
inline Var dot(std::span<const Var> a, std::span<const Var> b) { return a[0].tape->dot(a, b); }
inline double value_of(Var a) { return a.value; }

// The same functions for plain doubles, so that one template gives both the loss and its derivative.
inline double dot(std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}
inline double value_of(double a) { return a; }

}  // namespace macheps::oracle
