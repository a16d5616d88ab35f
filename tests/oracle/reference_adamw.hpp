// SPDX-License-Identifier: Apache-2.0
// The optimiser's arithmetic in fp64, for tests of the trainer. Includes nothing of macheps.
#pragma once
#include "tests/oracle/reference_gpt.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace macheps::oracle {

/// Learning rate of `step` (from 0). While step < warmup, the rate is base (step + 1) / warmup. Then it follows half a
/// cosine from base at step = warmup down to min_lr at the last step, steps - 1. After that it stays at min_lr. In a
/// run that is too short for the cosine (steps <= warmup + 1), the rate stays at base.
struct Schedule {
    double base = 1e-3, min_lr = 1e-4;
    long warmup = 20, steps = 300;

    double operator()(long step) const {
        if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
        if (steps <= warmup + 1) return base;
        const double progress = static_cast<double>(step - warmup) / static_cast<double>(steps - 1 - warmup);
        return min_lr + 0.5 * (base - min_lr) * (1.0 + std::cos(std::acos(-1.0) * std::min(progress, 1.0)));
    }
};

/// Returns the Euclidean norm over all entries of all parameters.
inline double global_norm(const Parameters& gradient) {
    double squares = 0;
    for (const auto& [name, values] : gradient)
        for (const double g : values) squares += g * g;
    return std::sqrt(squares);
}

/// Multiplies every entry by min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_ does. A max_norm of 0
/// changes nothing. Returns the norm before clipping.
inline double clip_by_global_norm(Parameters& gradient, double max_norm) {
    const double norm = global_norm(gradient);
    if (max_norm == 0) return norm;
    const double factor = std::min(1.0, max_norm / (norm + 1e-6));
    for (auto& [name, values] : gradient)
        for (double& g : values) g *= factor;
    return norm;
}

/// AdamW, "Decoupled Weight Decay Regularization" (arXiv:1711.05101) in PyTorch's form: eps is added after the bias
/// correction of the root, and decay multiplies the weight by 1 - lr * weight_decay. Only matrices decay.
struct AdamW {
    double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
    Parameters moment1 = {}, moment2 = {};
    long taken = 0;

    static bool decays(const std::string& name) {
        return name.ends_with(".weight") && name.find("norm") == std::string::npos;
    }

    /// Takes one step of size lr. The gradient is used without clipping.
    void step(Parameters& parameters, const Parameters& gradient, double lr) {
        ++taken;
        const double correction1 = 1 - std::pow(beta1, static_cast<double>(taken));
        const double correction2 = 1 - std::pow(beta2, static_cast<double>(taken));
        for (auto& [name, values] : parameters) {
            const std::vector<double>& g = gradient.at(name);
            if (g.size() != values.size()) throw std::invalid_argument("oracle: wrong size of gradient " + name);
            std::vector<double>&m = moment1[name], &v = moment2[name];
            m.resize(values.size(), 0.0);
            v.resize(values.size(), 0.0);
            const double keep = decays(name) ? 1 - lr * weight_decay : 1;
            for (std::size_t i = 0; i < values.size(); ++i) {
                m[i] = beta1 * m[i] + (1 - beta1) * g[i];
                v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
                values[i] = keep * values[i] - lr * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + eps);
            }
        }
    }
};

}  // namespace macheps::oracle
