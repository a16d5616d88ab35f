// SPDX-License-Identifier: Apache-2.0
// Sets the processor's floating-point modes: rounding direction, flush to zero, denormals are zero, precision. Host
// only.
//
// Each thread has its own modes, and any code in the process can change them. For example, loading a library that was
// built with -ffast-math sets flush-to-zero. macheps computes in the default modes of IEEE 754: round to nearest even,
// subnormals kept.
#pragma once

namespace macheps {

/// An object that sets the default modes for this thread, and restores the previous modes when it is destroyed. This
/// takes a few nanoseconds if the modes need no change. The library creates a DefaultFloatModes at each of its entry
/// points (an operation of a Backend, a thread of a pool, a run, a grid of products, a file that is read), so that its
/// results do not depend on its caller. Inline arithmetic in headers (core/math.hpp, core/types/float.hpp) computes in
/// the modes of the code that it is compiled into. If those modes can differ from the default, create a
/// DefaultFloatModes there.
class DefaultFloatModes {
  public:
    DefaultFloatModes() noexcept;
    ~DefaultFloatModes();
    DefaultFloatModes(const DefaultFloatModes&) = delete;
    DefaultFloatModes& operator=(const DefaultFloatModes&) = delete;

  private:
    unsigned long long vector_;  ///< MXCSR on x86, FPCR on Arm
    unsigned short x87_ = 0;     ///< x87 control word; the C library converts decimals with its rounding mode
    bool is_changed_ = false;
};

/// Sets the default modes in this thread until it ends, and in the threads that it starts from now on.
void set_default_float_modes() noexcept;

}  // namespace macheps
