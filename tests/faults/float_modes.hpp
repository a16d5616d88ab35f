// SPDX-License-Identifier: Apache-2.0
// Floating-point modes that another library may have left in a thread.
#pragma once
#include <cfenv>
#include <iterator>
#include <string_view>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace macheps::test {

struct FloatMode {
    std::string_view name;
    int rounding;
    bool flush_to_zero, denormals_are_zero;
};

inline constexpr FloatMode float_modes[] = {
    {"ftz", FE_TONEAREST, true, false}, {"daz", FE_TONEAREST, false, true},  {"ftz+daz", FE_TONEAREST, true, true},
    {"up", FE_UPWARD, false, false},    {"down", FE_DOWNWARD, false, false}, {"zero", FE_TOWARDZERO, false, false},
};

/// Sets a mode in this thread: the rounding direction in all units, and FTZ and DAZ in the SSE unit.
inline void set(const FloatMode& mode) {
    std::fesetround(mode.rounding);
#if defined(__x86_64__)
    _MM_SET_FLUSH_ZERO_MODE(mode.flush_to_zero ? _MM_FLUSH_ZERO_ON : _MM_FLUSH_ZERO_OFF);
    _mm_setcsr((_mm_getcsr() & ~0x40u) | (mode.denormals_are_zero ? 0x40u : 0u));
#endif
}

/// Returns whether the thread is in this mode.
inline bool is_set(const FloatMode& mode) {
    bool same = std::fegetround() == mode.rounding;
#if defined(__x86_64__)
    same = same && ((_mm_getcsr() & 0x8000u) != 0) == mode.flush_to_zero &&
           ((_mm_getcsr() & 0x40u) != 0) == mode.denormals_are_zero;
#endif
    return same;
}

/// Restores the modes with which a thread starts.
inline void set_default_modes() { set({"", FE_TONEAREST, false, false}); }

/// Keeps the thread in a mode as long as the object exists.
class InFloatMode {
  public:
    explicit InFloatMode(const FloatMode& mode) { set(mode); }
    ~InFloatMode() { set_default_modes(); }
    InFloatMode(const InFloatMode&) = delete;
    InFloatMode& operator=(const InFloatMode&) = delete;
};

}  // namespace macheps::test
