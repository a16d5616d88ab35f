// SPDX-License-Identifier: Apache-2.0
// Code that the reference models share: basic functions of doubles or of scalars on a tape, and functions that compute
// losses, gradients and finite differences from the forward pass of a model. A model is a type Shape with the members
// `context` and `vocabulary`, and two functions that are overloaded for this type. parameter_sizes(shape) returns the
// sizes of the parameters. forward_of<S>(shape, parameters, tokens) returns a row of logits for every position of one
// sample.
#pragma once
#include "tests/oracle/tape.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace macheps::oracle {

/// Parameters by name.
using Parameters = std::map<std::string, std::vector<double>>;

template <class S>
using Row = std::vector<S>;
template <class S>
using Named = std::map<std::string, Row<S>>;

template <class S>
double greatest(const Row<S>& x) {
    double most = -std::numeric_limits<double>::infinity();
    for (const S& v : x) most = std::max(most, value_of(v));
    return most;
}

template <class S>
S sum(const Row<S>& x) {
    S total = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) total = total + x[i];
    return total;
}

template <class S>
Row<S> add(const Row<S>& a, const Row<S>& b) {
    Row<S> out;
    out.reserve(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) out.push_back(a[i] + b[i]);
    return out;
}

template <class S>
Row<S> linear(const Row<S>& x, const Row<S>& weight, const Row<S>* bias) {
    const std::span<const S> entries(weight);
    Row<S> out;
    out.reserve(weight.size() / x.size());
    for (std::size_t o = 0; o < weight.size() / x.size(); ++o) {
        const S product = dot(std::span<const S>(x), entries.subspan(o * x.size(), x.size()));
        out.push_back(bias ? product + (*bias)[o] : product);
    }
    return out;
}

/// Returns the softmax of x. Subtracting a constant from all entries of x does not change the softmax. Therefore the
/// maximum is subtracted as a constant, without a derivative.
template <class S>
Row<S> softmax(const Row<S>& x) {
    using std::exp;
    const double most = greatest(x);
    Row<S> powers, out;
    for (const S& v : x) powers.push_back(exp(v - most));
    const S total = sum(powers);
    for (const S& power : powers) out.push_back(power / total);
    return out;
}

template <class S>
S cross_entropy(const Row<S>& x, int target) {
    using std::exp;
    using std::log;
    const double most = greatest(x);
    Row<S> powers;
    for (const S& v : x) powers.push_back(exp(v - most));
    return log(sum(powers)) - (x[static_cast<std::size_t>(target)] - most);
}

/// Returns channels [first, first + count) of a row.
template <class S>
Row<S> slice(const Row<S>& x, std::size_t first, std::size_t count) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
    return Row<S>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

// --- from a forward pass to losses, gradients and finite differences

namespace reference {

template <class Shape>
void check(const Shape& shape, const Parameters& parameters, std::span<const int> tokens, int batch) {
    if (tokens.size() != static_cast<std::size_t>(batch) * static_cast<std::size_t>(shape.context))
        throw std::invalid_argument("oracle: tokens and targets must be batch * context long");
    for (const int token : tokens)
        if (token < 0 || token >= shape.vocabulary)
            throw std::invalid_argument("oracle: a token beyond the vocabulary");
    const auto sizes = parameter_sizes(shape);
    for (const auto& [name, size] : sizes) {
        const auto found = parameters.find(name);
        if (found == parameters.end()) throw std::invalid_argument("oracle: missing parameter " + name);
        if (found->second.size() != size) throw std::invalid_argument("oracle: wrong size of parameter " + name);
    }
    for (const auto& [name, values] : parameters)
        if (!sizes.contains(name)) throw std::invalid_argument("oracle: unknown parameter " + name);
}

template <class Shape>
std::span<const int> sample(const Shape& shape, std::span<const int> tokens, int b) {
    const std::size_t context = static_cast<std::size_t>(shape.context);
    return tokens.subspan(static_cast<std::size_t>(b) * context, context);
}

/// Returns the cross-entropy of every token of a batch whose shapes have been checked.
template <class S, class Shape>
Row<S> token_losses_of(const Shape& shape, const Named<S>& p, std::span<const int> tokens, std::span<const int> targets,
                       int batch) {
    Row<S> losses;
    for (int b = 0; b < batch; ++b) {
        const std::vector<Row<S>> rows = forward_of<S>(shape, p, reference::sample(shape, tokens, b));
        const std::span<const int> wanted = reference::sample(shape, targets, b);
        for (std::size_t t = 0; t < rows.size(); ++t) losses.push_back(cross_entropy(rows[t], wanted[t]));
    }
    return losses;
}

template <class Shape>
Parameters random_parameters(const Shape& shape, std::uint64_t seed, double spread) {
    std::mt19937_64 random(seed);  // the C++ standard fixes the bits of this engine, but not those of distributions
    Parameters parameters;
    for (const auto& [name, size] : parameter_sizes(shape)) {
        const bool is_norm_weight = name.find("norm") != std::string::npos && name.ends_with(".weight");
        std::vector<double>& values = parameters[name];
        for (std::size_t i = 0; i < size; ++i)
            values.push_back((is_norm_weight ? 1.0 : 0.0) +
                             spread * (static_cast<double>(random() >> 11) * 0x1p-52 - 1.0 + 0x1p-53));
    }
    return parameters;
}

template <class Shape>
std::vector<double> logits(const Shape& shape, const Parameters& parameters, std::span<const int> tokens, int batch) {
    reference::check(shape, parameters, tokens, batch);
    std::vector<double> out;
    for (int b = 0; b < batch; ++b)
        for (const Row<double>& row : forward_of<double>(shape, parameters, reference::sample(shape, tokens, b)))
            out.insert(out.end(), row.begin(), row.end());
    return out;
}

template <class Shape>
std::vector<double> token_losses(const Shape& shape, const Parameters& parameters, std::span<const int> tokens,
                                 std::span<const int> targets, int batch) {
    reference::check(shape, parameters, tokens, batch);
    reference::check(shape, parameters, targets, batch);
    return reference::token_losses_of<double>(shape, parameters, tokens, targets, batch);
}

template <class Shape>
double loss(const Shape& shape, const Parameters& parameters, std::span<const int> tokens, std::span<const int> targets,
            int batch) {
    return sum(reference::token_losses(shape, parameters, tokens, targets, batch)) /
           static_cast<double>(targets.size());
}

template <class Shape>
Parameters gradient(const Shape& shape, const Parameters& parameters, std::span<const int> tokens,
                    std::span<const int> targets, int batch) {
    reference::check(shape, parameters, tokens, batch);
    reference::check(shape, parameters, targets, batch);
    Parameters total;
    for (const auto& [name, values] : parameters) total[name].assign(values.size(), 0.0);
    for (int b = 0; b < batch; ++b) {  // one tape for each sample bounds the memory
        Tape tape;
        Named<Var> leaves;
        for (const auto& [name, values] : parameters)
            for (const double value : values) leaves[name].push_back(tape.leaf(value));
        const Row<Var> losses = reference::token_losses_of<Var>(shape, leaves, reference::sample(shape, tokens, b),
                                                                reference::sample(shape, targets, b), 1);
        const std::vector<double> adjoints = tape.adjoints(sum(losses) * (1.0 / static_cast<double>(targets.size())));
        for (const auto& [name, vars] : leaves)
            for (std::size_t i = 0; i < vars.size(); ++i) total[name][i] += adjoints[vars[i].index];
    }
    return total;
}

template <class Shape>
double finite_difference(const Shape& shape, Parameters& parameters, std::span<const int> tokens,
                         std::span<const int> targets, int batch, const std::string& name, std::size_t index,
                         double* error) {
    reference::check(shape, parameters, tokens, batch);
    reference::check(shape, parameters, targets, batch);
    constexpr std::size_t rows = 7;
    double& entry = parameters.at(name).at(index);
    const double centre = entry;
    const auto at = [&](double x) {
        entry = x;
        return sum(reference::token_losses_of<double>(shape, parameters, tokens, targets, batch)) /
               static_cast<double>(targets.size());
    };
    const double noise = 64 * 0x1p-53 * (1.0 + at(centre));

    // table[i][j] is the estimate with the step h = 2^-(3+i), after the error terms h^2 .. h^(2j) have been removed.
    // Removing term j multiplies the estimate with the smaller step by 4^j / (4^j - 1). The product of these factors is
    // small, so the noise from rounding grows by less than a factor of 2 in total.
    std::array<std::array<double, rows>, rows> table{};
    double best = 0, best_error = std::numeric_limits<double>::infinity(), step = 0.125;
    for (std::size_t i = 0; i < rows; ++i, step /= 2) {
        const double above = centre + step, below = centre - step;
        table[i][0] = (at(above) - at(below)) / (above - below);
        double power = 4;
        for (std::size_t j = 1; j <= i; ++j, power *= 4) {
            table[i][j] = (power * table[i][j - 1] - table[i - 1][j - 1]) / (power - 1);
            const double moved =
                std::max(std::fabs(table[i][j] - table[i][j - 1]), std::fabs(table[i][j] - table[i - 1][j - 1]));
            const double estimate = moved + 2 * noise / step;
            if (estimate < best_error) best = table[i][j], best_error = estimate;
        }
    }
    entry = centre;
    if (error) *error = best_error;
    return best;
}

}  // namespace reference
}  // namespace macheps::oracle
