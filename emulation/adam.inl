// SPDX-License-Identifier: Apache-2.0
// The Adam kernels of training frameworks. Each kernel is a type and is written once. There is no include guard:
// emulation/adam.hpp includes this file for float and double, and emulation/cpu/ops/adam.cpp includes it once per SIMD
// target for its vectors, so their bits agree by construction. The including file must include it inside its namespace,
// after it has defined MACHEPS_MATH_FN, MACHEPS_MATH_REAL (fp32) and MACHEPS_MATH_WIDE (the same number of fp64
// numbers), with their operators, sqrt, fma, widen and narrow in scope.
//
// step() computes the new p, m and v before anything is stored. `rounded` rounds the result of a line that the
// framework stores in a tensor. Kernels that keep all numbers in registers do not call it.
//
// To add a kernel, define a type with a name and a step(), and add the type to the list at the end.
namespace adam {

using Real = MACHEPS_MATH_REAL;
using Wide = MACHEPS_MATH_WIDE;

struct Element {
    Real p, g, m, v;
};

/// torch/optim/adam.py, _single_tensor_adam. Each line is one kernel, which reads and returns numbers of the
/// arithmetic. Scalars are fp32. foreach has the same lines.
struct Single {
    static constexpr const char* name = "single";
    static constexpr bool rounds = true;
    template <class Rounded>
    static MACHEPS_MATH_FN void step(Element& x, const AdamConstants& s, const Rounded& rounded) {
        if (s.gains_decay) x.g = rounded(x.g + Real(s.decay) * x.p);
        if (s.loses_decay) x.p = rounded(x.p * Real(s.kept));
        // lerp starts at the nearer end.
        x.m = s.weight1 < 0.5f ? rounded(x.m + Real(s.weight1) * (x.g - x.m))
                               : rounded(x.g - (x.g - x.m) * Real(1.0f - s.weight1));
        x.v = rounded(Real(s.beta2_fp32) * x.v);
        x.v = rounded(x.v + (Real(s.weight2) * x.g) * x.g);
        const Real root = rounded(sqrt(x.v));
        const Real corrected = rounded(root / Real(s.root_correction));
        const Real denominator = rounded(corrected + Real(s.eps_fp32));
        x.p = x.p - Real(s.step_size) * (x.m / denominator);
    }
};

/// The same lines as compiled by torch for a CPU: lerp and addcmul end with a fused multiply-add, and addcdiv divides
/// last. (torch calls MKL's sqrt there, which is wrong by one ulp for one fp32 number in 150. This sqrt is correct.)
struct SingleCpu {
    static constexpr const char* name = "single-cpu";
    static constexpr bool rounds = true;
    template <class Rounded>
    static MACHEPS_MATH_FN void step(Element& x, const AdamConstants& s, const Rounded& rounded) {
        lines(x, s, s.kept, s.beta2_fp32, rounded);
    }

    /// Computes the lines. `kept` multiplies the weight, and `beta2` multiplies the second moment.
    template <class Rounded>
    static MACHEPS_MATH_FN void lines(Element& x, const AdamConstants& s, float kept, float beta2,
                                      const Rounded& rounded) {
        if (s.gains_decay) x.g = rounded(fma(Real(s.decay), x.p, x.g));
        if (s.loses_decay) x.p = rounded(x.p * Real(kept));
        x.m = s.weight1 < 0.5f ? rounded(fma(Real(s.weight1), x.g - x.m, x.m))
                               : rounded(fma(Real(s.weight1 - 1.0f), x.g - x.m, x.g));
        x.v = rounded(Real(beta2) * x.v);
        x.v = rounded(fma(Real(s.weight2) * x.g, x.g, x.v));
        const Real root = rounded(sqrt(x.v));
        const Real corrected = rounded(root / Real(s.root_correction));
        const Real denominator = rounded(corrected + Real(s.eps_fp32));
        x.p = x.p - Real(s.step_size) * x.m / denominator;
    }
};

/// foreach on a CPU. When it multiplies a list by a number, it first makes a tensor in the format of the list from the
/// number.
struct ForeachCpu {
    static constexpr const char* name = "foreach-cpu";
    static constexpr bool rounds = true;
    template <class Rounded>
    static MACHEPS_MATH_FN void step(Element& x, const AdamConstants& s, const Rounded& rounded) {
        SingleCpu::lines(x, s, s.kept_rounded, s.beta2_rounded, rounded);
    }
};

/// torch's fused kernel for a CPU: the operations of SingleCpu in registers, for any format of the tensors.
struct FusedCpu : SingleCpu {
    static constexpr const char* name = "fused-cpu";
    static constexpr bool rounds = false;
};

/// torch's adam_math. The hyperparameters are fp64, so operations with them are fp64. Every assignment rounds to fp32.
struct Fused {
    static constexpr const char* name = "fused";
    static constexpr bool rounds = false;
    template <class Rounded>
    static MACHEPS_MATH_FN void step(Element& x, const AdamConstants& s, const Rounded&) {
        if (s.gains_decay) x.g = narrow(widen(x.g) + widen(x.p) * Wide(s.weight_decay));
        if (s.loses_decay) x.p = narrow(widen(x.p) - Wide(s.lr * s.weight_decay) * widen(x.p));
        x.m = narrow(Wide(s.beta1) * widen(x.m) + Wide(1.0 - s.beta1) * widen(x.g));
        x.v = narrow(Wide(s.beta2) * widen(x.v) + Wide(1.0 - s.beta2) * widen(x.g) * widen(x.g));
        const Real root = sqrt(x.v) / Real(s.root_correction);
        const Real denominator = narrow(widen(root) + Wide(s.eps));
        x.p = x.p - Real(s.fused_step_size) * x.m / denominator;
    }
};

/// AdamFunctor of multi_tensor_adam.cu. Everything is fp32.
struct MultiTensor {
    static constexpr const char* name = "multi-tensor";
    static constexpr bool rounds = false;
    template <class Rounded>
    static MACHEPS_MATH_FN void step(Element& x, const AdamConstants& s, const Rounded&) {
        const Real beta1(s.beta1_fp32), beta2(s.beta2_fp32), one(1.0f), decay(s.decay);
        if (s.adds_decay_to_gradient) x.g = x.g + decay * x.p;
        x.m = beta1 * x.m + (one - beta1) * x.g;
        x.v = beta2 * x.v + (one - beta2) * x.g * x.g;
        const Real mean = x.m / Real(s.correction1), square = x.v / Real(s.correction2);
        const Real denominator = sqrt(square) + Real(s.eps_fp32);
        Real update = mean / denominator;
        if (!s.adds_decay_to_gradient) update = update + decay * x.p;
        x.p = x.p - Real(s.lr_fp32) * update;
    }
};

using Kernels = Operations<Single, Fused, SingleCpu, ForeachCpu, FusedCpu, MultiTensor>;

}  // namespace adam
