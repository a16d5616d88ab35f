// SPDX-License-Identifier: Apache-2.0
#include "core/host/float_environment.hpp"

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace macheps {

namespace {

/// The floating-point modes in the registers of a thread.
struct Modes {
    unsigned long long vector = 0;
    unsigned short x87 = 0;
};

#if defined(__x86_64__)

/// Values of MXCSR and of the x87 control word that mask all exceptions, round to nearest even, turn FTZ and DAZ off,
/// and use the full 64-bit precision of the x87. The lowest six bits of MXCSR are not modes but flags that arithmetic
/// sets.
constexpr Modes wanted{0x1f80, 0x037f};
constexpr unsigned long long vector_modes = ~0x3full;
constexpr unsigned short x87_modes = 0x0f3f;

Modes modes_now() {
    unsigned int vector = 0;
    unsigned short x87 = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(vector));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return {vector, x87};
}

void set(const Modes& modes) {
    const auto vector = static_cast<unsigned int>(modes.vector);
    __asm__ volatile("ldmxcsr %0" : : "m"(vector) : "memory");
    __asm__ volatile("fldcw %0" : : "m"(modes.x87) : "memory");
}

#elif defined(__aarch64__)

constexpr Modes wanted{0, 0};
constexpr unsigned long long vector_modes = ~0ull;
constexpr unsigned short x87_modes = 0;

Modes modes_now() {
    unsigned long long vector = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(vector));
    return {vector, 0};
}

void set(const Modes& modes) { __asm__ volatile("msr fpcr, %0" : : "r"(modes.vector) : "memory"); }

#else

/// Standard C can set the rounding direction but not flush-to-zero.
constexpr Modes wanted{FE_TONEAREST, 0};
constexpr unsigned long long vector_modes = ~0ull;
constexpr unsigned short x87_modes = 0;

Modes modes_now() { return {static_cast<unsigned long long>(std::fegetround()), 0}; }
void set(const Modes& modes) { std::fesetround(static_cast<int>(modes.vector)); }

#endif

bool is_wanted(const Modes& modes) {
    return ((modes.vector ^ wanted.vector) & vector_modes) == 0 && ((modes.x87 ^ wanted.x87) & x87_modes) == 0;
}

}  // namespace

DefaultFloatModes::DefaultFloatModes() noexcept {
    const Modes before = modes_now();
    vector_ = before.vector;
    x87_ = before.x87;
    is_changed_ = !is_wanted(before);
    if (is_changed_) set(wanted);
}

DefaultFloatModes::~DefaultFloatModes() {
    if (is_changed_) set({vector_, x87_});
}

void set_default_float_modes() noexcept { set(wanted); }

}  // namespace macheps
