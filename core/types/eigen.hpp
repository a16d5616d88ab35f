// SPDX-License-Identifier: Apache-2.0
// NumTraits for Float<F>, so that Eigen can compute in any format. Optional: no other file of macheps includes this
// header. Each scalar operation rounds once. Eigen determines the order of the operations, and it does not vectorise
// them, because Float has no packet types.
#pragma once
#include "core/types/float.hpp"

#include <Eigen/Core>

namespace Eigen {

template <macheps::Format F>
struct NumTraits<macheps::Float<F>> : GenericNumTraits<macheps::Float<F>> {
    using Real = macheps::Float<F>;
    using NonInteger = Real;
    using Literal = Real;
    using Nested = Real;
    enum {
        IsComplex = 0,
        IsInteger = 0,
        IsSigned = F.has_sign() ? 1 : 0,
        RequireInitialization = 0,
        ReadCost = 1,
        AddCost = 16,
        MulCost = 16
    };

    static constexpr Real epsilon() { return std::numeric_limits<Real>::epsilon(); }
    /// Returns the tolerance of isApprox() and similar functions, a few units of rounding.
    static constexpr Real dummy_precision() { return Real(4 * F.machine_epsilon()); }
    static constexpr Real highest() { return (std::numeric_limits<Real>::max)(); }
    static constexpr Real lowest() { return std::numeric_limits<Real>::lowest(); }
    static constexpr Real infinity() { return std::numeric_limits<Real>::infinity(); }
    static constexpr Real quiet_NaN() { return std::numeric_limits<Real>::quiet_NaN(); }
    static constexpr int digits10() { return std::numeric_limits<Real>::digits10; }
};

}  // namespace Eigen
