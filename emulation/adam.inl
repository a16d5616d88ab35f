// SPDX-License-Identifier: Apache-2.0
// The Adam kernels of training frameworks. Each kernel is a type. This file is included several times and therefore
// lacks an include guard: emulation/adam.hpp includes it for float and double, and emulation/cpu/ops/adam.cpp includes
// it for vectors, once per SIMD target. All of them compile the same formulas, so their results have the same bits.
//
// Include this file inside a namespace, after defining MACHEPS_MATH_FN, MACHEPS_MATH_REAL (a type that holds one or
// more fp32 numbers) and MACHEPS_MATH_WIDE (a type that holds as many fp64 numbers). The operators of both types, and
// the functions sqrt, fma, widen and narrow, must be in scope.
//
// step() computes the new p, m and v before anything is stored. It calls `rounded` on the result of each line that the
// framework stores in a tensor. A kernel whose framework keeps all numbers in registers has rounds = false. Such a kernel
// either does not call `rounded`, or is passed a `rounded` that returns its argument unchanged.
//
// To add a kernel, define a type with `name`, `rounds` and step(), and add the type to the list at the end.
namespace adam {

using Real = MACHEPS_MATH_REAL;
using Wide = MACHEPS_MATH_WIDE;

struct Element {
    Real p, g, m, v;
};

/// torch/optim/adam.py, _single_tensor_adam. Each line is one tensor operation of torch. Its inputs and its result have
/// the format `arithmetic`; scalars are fp32. The foreach implementation has the same lines.
struct Single {
    static constexpr const char* name = "single";
    static constexpr bool rounds = true;
    template <class Rounded>
    static MACHEPS_MATH_FN void step(Element& x, const AdamConstants& s, const Rounded& rounded) {
        if (s.gains_decay) x.g = rounded(x.g + Real(s.decay) * x.p);
        if (s.loses_decay) x.p = rounded(x.p * Real(s.kept));
        // torch.lerp(m, g, weight) starts from m if weight < 0.5, and from g otherwise.
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

/// The lines of `Single` as torch compiles them for a CPU: lerp and addcmul end with a fused multiply-add, and addcdiv
/// divides last. (torch's CPU code calls the sqrt of MKL, which is wrong by one ulp for one fp32 number in 150. The
/// sqrt used here is correctly rounded.)
struct SingleCpu {
    static constexpr const char* name = "single-cpu";
    static constexpr bool rounds = true;
    template <class Rounded>
    static MACHEPS_MATH_FN void step(Element& x, const AdamConstants& s, const Rounded& rounded) {
        lines(x, s, s.kept, s.beta2_fp32, rounded);
    }

    /// Computes the step. The weight is multiplied by `kept`, and the second moment by `beta2`.
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

/// torch's foreach implementation on a CPU. Before it multiplies a list of tensors by a number, it rounds the number to
/// the format of the tensors.
struct ForeachCpu {
    static constexpr const char* name = "foreach-cpu";
    static constexpr bool rounds = true;
    template <class Rounded>
    static MACHEPS_MATH_FN void step(Element& x, const AdamConstants& s, const Rounded& rounded) {
        SingleCpu::lines(x, s, s.kept_rounded, s.beta2_rounded, rounded);
    }
};

/// torch's fused kernel for a CPU. It performs the operations of SingleCpu but keeps all intermediate results in fp32
/// registers, for tensors of any format.
struct FusedCpu : SingleCpu {
    static constexpr const char* name = "fused-cpu";
    static constexpr bool rounds = false;
};

/// torch's fused kernel for CUDA (adam_math). The hyperparameters are fp64, so operations with them are fp64. Every
/// assignment rounds to fp32.
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

/// AdamFunctor of multi_tensor_adam.cu (Apex, DeepSpeed). All numbers are fp32.
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
