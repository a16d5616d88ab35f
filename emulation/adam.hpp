// SPDX-License-Identifier: Apache-2.0
// Arguments and scalar definition of Backend::adam, which rounds like the Adam kernels of torch, Apex and DeepSpeed.
// The kernels are in emulation/adam.inl. (Backend::adamw is macheps's own variant.)
#pragma once
#include "emulation/definitions.hpp"

namespace macheps {

struct AdamConstants;

namespace adam {

using elementwise::Operations;
// Functions that the kernels use in addition to operators. A SIMD target has its own versions of them.
MACHEPS_HD inline double widen(float x) { return x; }
MACHEPS_HD inline float narrow(double x) { return static_cast<float>(x); }

/// Identifies a kernel of emulation/adam.inl. It is made from an object of the kernel's type, as in
/// `Kernel kernel = adam::Fused{}`.
struct Kernel;

}  // namespace adam

/// Constants of one step, computed once per tensor from struct Adam. Constants that a framework keeps in fp32 are
/// floats. Fields without a comment have the same meaning as in struct Adam.
struct AdamConstants {
    double lr, beta1, beta2, eps, weight_decay;
    /// `gains_decay`: a decay term is added to the gradient. `loses_decay`: the weight is decreased directly. Both are
    /// false if weight_decay == 0.
    bool adds_decay_to_gradient, gains_decay, loses_decay;
    float lr_fp32, beta1_fp32, beta2_fp32, eps_fp32, decay;
    float weight1, weight2;             ///< 1 - beta1 and 1 - beta2
    float kept;                         ///< 1 - lr weight_decay
    float kept_rounded, beta2_rounded;  ///< kept and beta2, rounded to `arithmetic`
    float step_size;                    ///< lr / bias_correction1
    float fused_step_size;              ///< lr / correction1, where correction1 is fp32
    float root_correction;              ///< sqrt(bias_correction2)
    float correction1, correction2;     ///< bias_correction1 and bias_correction2
    Format arithmetic;
    Cast value_cast, moment1_cast, moment2_cast;
};

#define MACHEPS_MATH_FN MACHEPS_HD inline
#define MACHEPS_MATH_REAL float
#define MACHEPS_MATH_WIDE double
#include "emulation/adam.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL
#undef MACHEPS_MATH_WIDE

namespace adam {

struct Kernel {
    std::string_view name;
    bool rounds;  ///< whether every result that the framework stores in a tensor is rounded to Adam::arithmetic
    std::size_t place;

    template <elementwise::OneOf<Kernels> K>
    constexpr Kernel(K) : name(K::name), rounds(K::rounds), place(elementwise::place_in<K>(Kernels{})) {}
};

/// All kernels of emulation/adam.inl, in the order of its list.
inline constexpr auto kernels = elementwise::rows_of<Kernel>(Kernels{});

}  // namespace adam

/// Arguments of one Adam step on one tensor. The new p, m and v are cast by value_cast, moment1_cast and moment2_cast
/// before they are stored. The update in UpdateStats is the new p before its cast, minus the old p.
struct Adam {
    adam::Kernel kernel = adam::Single{};
    double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    double bias_correction1 = 1, bias_correction2 = 1;  ///< 1 - beta1^t and 1 - beta2^t
    bool adds_decay_to_gradient = false;                ///< Adam with L2, not AdamW
    Format arithmetic = fp32;                           ///< format of the stored results, if the kernel `rounds`
    Cast value_cast{}, moment1_cast{}, moment2_cast{};
};

inline AdamConstants adam_constants(const Adam& a) {
    const auto as_fp32 = [](double x) { return static_cast<float>(x); };
    const float correction1 = as_fp32(a.bias_correction1);
    const float kept = as_fp32(1.0 - a.lr * a.weight_decay);
    const Format arithmetic = a.kernel.rounds ? a.arithmetic : fp32;
    const auto rounded = [&](float x) { return quantize(arithmetic, x, Round::nearest_even, Overflow::nonsaturate); };
    return {.lr = a.lr,
            .beta1 = a.beta1,
            .beta2 = a.beta2,
            .eps = a.eps,
            .weight_decay = a.weight_decay,
            .adds_decay_to_gradient = a.adds_decay_to_gradient,
            .gains_decay = a.weight_decay != 0 && a.adds_decay_to_gradient,
            .loses_decay = a.weight_decay != 0 && !a.adds_decay_to_gradient,
            .lr_fp32 = as_fp32(a.lr),
            .beta1_fp32 = as_fp32(a.beta1),
            .beta2_fp32 = as_fp32(a.beta2),
            .eps_fp32 = as_fp32(a.eps),
            .decay = as_fp32(a.weight_decay),
            .weight1 = as_fp32(1.0 - a.beta1),
            .weight2 = as_fp32(1.0 - a.beta2),
            .kept = kept,
            .kept_rounded = rounded(kept),
            .beta2_rounded = rounded(as_fp32(a.beta2)),
            .step_size = as_fp32(a.lr / a.bias_correction1),
            .fused_step_size = as_fp32(a.lr / double{correction1}),
            .root_correction = as_fp32(sqrt(a.bias_correction2)),
            .correction1 = correction1,
            .correction2 = as_fp32(a.bias_correction2),
            .arithmetic = arithmetic,
            .value_cast = a.value_cast,
            .moment1_cast = a.moment1_cast,
            .moment2_cast = a.moment2_cast};
}

namespace definition {

template <class Kernel>
MACHEPS_HD inline Updated adam(float p, float g, float m, float v, const AdamConstants& s, std::uint64_t i) {
    macheps::adam::Element x{p, g, m, v};
    Kernel::step(x, s, [&](float value) {
        if (is_fp32(s.arithmetic)) return value;
        return quantize(s.arithmetic, canonical(value), Round::nearest_even, Overflow::nonsaturate);
    });
    return {store_as(s.value_cast, x.p, i), store_as(s.moment1_cast, x.m, i), store_as(s.moment2_cast, x.v, i),
            canonical(x.p - p)};
}

}  // namespace definition

}  // namespace macheps
