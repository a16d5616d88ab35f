// SPDX-License-Identifier: Apache-2.0
// The elementwise operations. Each operation is a type and is written once. There is no include guard:
// emulation/elementwise.hpp includes this file for float, and emulation/cpu/ops/elementwise.cpp includes it for the
// vectors of each SIMD target. Scalar and vector code therefore return the same bits. The including file must define
// MACHEPS_MATH_FN and MACHEPS_MATH_REAL first and include this file inside its namespace, where the operators and the
// functions of core/math.inl are in scope. When a result is stored, every NaN becomes the canonical quiet NaN.
//
// To add an operation, define a type with a name, the cost of an element (in additions of vector elements) and the
// formula, and add the type to a list at the end. The CPU and CUDA engines then run the operation, and the tests that
// loop over the lists compare the engines.
namespace elementwise {

using Real = MACHEPS_MATH_REAL;

// --- operations on two operands

struct Add {
    static constexpr const char* name = "add";
    static constexpr int cost = 1;
    static MACHEPS_MATH_FN Real value(Real a, Real b) { return a + b; }
};

struct Multiply {
    static constexpr const char* name = "multiply";
    static constexpr int cost = 1;
    static MACHEPS_MATH_FN Real value(Real a, Real b) { return a * b; }
};

// --- operations on one operand. backward() returns the gradient of x. dy is the gradient of the value.

struct GeluErf {
    static constexpr const char* name = "gelu_erf";
    static constexpr int cost = 16, backward_cost = 24;
    /// y = (0.5 x) (1 + erf(x sqrt_half))
    static MACHEPS_MATH_FN Real value(Real x) {
        return (Real(0.5f) * x) * (Real(1.0f) + math::erf(x * Real(sqrt_half)));
    }
    /// dx = dy (0.5 (1 + erf(x sqrt_half)) + x (inverse_sqrt_2pi exp(-0.5 (x x))))
    static MACHEPS_MATH_FN Real backward(Real x, Real dy) {
        const Real half(0.5f), one(1.0f), below = half * (one + math::erf(x * Real(sqrt_half)));
        const Real density = Real(inverse_sqrt_2pi) * math::exp(Real(-0.5f) * (x * x));
        return dy * (below + x * density);
    }
};

/// t = tanh(k0 (x + k1 ((x x) x)))
struct GeluTanh {
    static constexpr const char* name = "gelu_tanh";
    static constexpr int cost = 16, backward_cost = 24;
    /// y = (0.5 x) (1 + t)
    static MACHEPS_MATH_FN Real value(Real x) { return (Real(0.5f) * x) * (Real(1.0f) + inner(x)); }
    /// dx = dy (0.5 (1 + t) + (0.5 x) ((1 - t t) (k0 (1 + 3k1 (x x)))))
    /// If x x overflows, which happens for |x| above 1.8e19, the result is 0 * Inf = NaN. Other implementations of this
    /// formula have the same result.
    static MACHEPS_MATH_FN Real backward(Real x, Real dy) {
        const Real half(0.5f), one(1.0f), t = inner(x);
        const Real slope = (one - t * t) * (Real(gelu_k0) * (one + Real(gelu_3k1) * (x * x)));
        return dy * (half * (one + t) + (half * x) * slope);
    }

  private:
    static MACHEPS_MATH_FN Real inner(Real x) {
        return math::tanh(Real(gelu_k0) * (x + Real(gelu_k1) * ((x * x) * x)));
    }
};

struct Silu {
    static constexpr const char* name = "silu";
    static constexpr int cost = 12, backward_cost = 14;
    /// y = x / (1 + exp(-x))
    static MACHEPS_MATH_FN Real value(Real x) { return x / (Real(1.0f) + math::exp(-x)); }
    /// s = 1 / (1 + exp(-x));  dx = (dy s) (1 + x (1 - s))
    static MACHEPS_MATH_FN Real backward(Real x, Real dy) {
        const Real one(1.0f), s = one / (one + math::exp(-x));
        return (dy * s) * (one + x * (one - s));
    }
};

using Binaries = Operations<Add, Multiply>;
using Unaries = Operations<GeluErf, GeluTanh, Silu>;

}  // namespace elementwise
