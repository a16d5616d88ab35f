// SPDX-License-Identifier: Apache-2.0
// The processor's floating-point modes: rounding direction, flush to zero, denormals are zero, precision. Host only.
//
// They belong to a thread, and whoever shares the process can change them: a library that was built with -ffast-math sets
// flush-to-zero while it is loaded. macheps computes in the modes of IEEE 754's default: to nearest even, subnormals kept.
#pragma once

namespace macheps {

/// While it is there, this thread computes in the default modes; afterwards in those that it had before. A few
/// nanoseconds where nothing has to be changed. The library takes one at each of its doors (an operation of a Backend, a
/// thread of a pool, a run, a grid of products, a file that is read), so that what it returns does not depend on its
/// caller. Inline arithmetic of a header (core/math.hpp, core/types/float.hpp) computes in the modes of the code that it is
/// compiled into: take one around it where those are in doubt.
class DefaultFloatModes {
  public:
    DefaultFloatModes() noexcept;
    ~DefaultFloatModes();
    DefaultFloatModes(const DefaultFloatModes&) = delete;
    DefaultFloatModes& operator=(const DefaultFloatModes&) = delete;

  private:
    unsigned long long vector_;  ///< MXCSR on x86, FPCR on Arm
    unsigned short x87_ = 0;     ///< on x86: the C library reads its rounding direction when it converts decimals
    bool is_changed_ = false;
};

/// Sets them for the rest of this thread's life, and of the threads that it starts.
void set_default_float_modes() noexcept;

}  // namespace macheps
