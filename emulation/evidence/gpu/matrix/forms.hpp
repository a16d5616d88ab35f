// SPDX-License-Identifier: Apache-2.0
// The forms of matrix instructions that `macheps verify` runs, one row each: mma.sync of sm_80 to sm_90, wgmma of
// sm_90a. Plain data for host and device. Source: PTX ISA 9.0, "Warp Level Matrix Instructions" and "Asynchronous
// Warpgroup Level Matrix Instructions".
#pragma once
#include "core/format.hpp"

#include <array>
#include <string>

namespace macheps::evidence {

enum class Unit : std::uint8_t { mma, wgmma };

/// Types of operands and results, with their names in PTX.
enum class PtxType : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, f32, f64 };

// The formats are returned as copies, because device code must not take the address of a constant of namespace scope.
MACHEPS_HD constexpr Format format_of(PtxType type) {
    switch (type) {
        case PtxType::f16: {
            constexpr Format f = fp16;
            return f;
        }
        case PtxType::bf16: {
            constexpr Format f = bf16;
            return f;
        }
        case PtxType::tf32: {
            constexpr Format f = tf32;
            return f;
        }
        case PtxType::e4m3: {
            constexpr Format f = e4m3fn;
            return f;
        }
        case PtxType::e5m2: {
            constexpr Format f = e5m2;
            return f;
        }
        case PtxType::f64: {
            constexpr Format f = fp64;
            return f;
        }
        default: {
            constexpr Format f = fp32;
            return f;
        }
    }
}
MACHEPS_HD constexpr int bytes_of(PtxType type) { return format_of(type).container_bits() / 8; }

constexpr const char* name_of(PtxType type) {
    constexpr const char* names[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "f32", "f64"};
    return names[static_cast<int>(type)];
}

/// One form of a matrix instruction, that is, its shape, types and other properties. The instruction computes d = a b +
/// c with a [m, k], b [k, n], c and d [m, n]. The form runs `chain` such instructions one after the other. Each one
/// takes the d of the previous instruction as its c and adds the next k products.
struct InstructionForm {
    Unit unit = Unit::mma;
    int m = 16, n = 8, k = 16;
    PtxType a = PtxType::f16, b = PtxType::f16;
    PtxType d = PtxType::f32;  ///< type of c and d

    // Only wgmma:
    bool a_in_registers = false;
    bool negates_a = false, negates_b = false;        ///< imm-scale-a, imm-scale-b = -1
    bool transposes_a = false, transposes_b = false;  ///< a is M-major, b is N-major; 16-bit types only
    bool ignores_addend = false;                      ///< scale-d = 0: c counts as +0, whatever its value

    int chain = 1;  ///< number of instructions; for wgmma, all are in one commit group

    MACHEPS_HD constexpr int products() const { return chain * k; }
    /// Returns the number of bytes in a row of the operand a of one instruction, which is at least 16.
    MACHEPS_HD constexpr int row_bytes() const { return k * bytes_of(a); }
    constexpr bool operator==(const InstructionForm&) const = default;

    /// Returns whether this form is plain: a single instruction that uses none of the options of wgmma above. All other
    /// forms are called variants.
    MACHEPS_HD constexpr bool is_plain() const {
        return chain == 1 && !a_in_registers && !negates_a && !negates_b && !transposes_a && !transposes_b &&
               !ignores_addend;
    }
    /// Returns whether the form has a trace. Only plain forms with the smallest n (8) have traces.
    MACHEPS_HD constexpr bool is_traced() const { return is_plain() && n == 8; }
    /// Returns the lowest compute capability that has the form, times ten.
    constexpr int min_capability() const {
        if (unit == Unit::wgmma) return 90;
        if (a == PtxType::e4m3 || a == PtxType::e5m2) return 89;
        return a == PtxType::f64 && m == 16 ? 90 : 80;
    }
    /// Returns whether the form needs code for sm_90a. Such code does not run on newer devices.
    constexpr bool needs_sm90a() const { return unit == Unit::wgmma; }
    /// Returns the instruction's name in the machine code of sm_90a.
    constexpr const char* sass() const {
        const bool fp8 = a == PtxType::e4m3 || a == PtxType::e5m2;
        if (unit == Unit::wgmma) return fp8 ? "QGMMA" : "HGMMA";
        if (a == PtxType::f64) return "DMMA";
        return !fp8 ? "HMMA" : d == PtxType::f16 ? "F2FP HMMA HADD2" : "F2FP HMMA FADD";
    }
    /// Returns the form with default values for the properties that do not change the inline assembly.
    constexpr InstructionForm ptx() const {
        InstructionForm form = *this;
        form.chain = 1;
        form.ignores_addend = false;
        return form;
    }
    /// Returns `mma` or `wgmma`, as in Machine::instruction.
    std::string instruction() const { return unit == Unit::mma ? "mma" : "wgmma"; }
    /// Returns the qualifier that find_instruction takes: `m16n8k16.f32.f16.f16.f32`, `m64n8k32.f32.e4m3.e5m2`.
    std::string qualifier() const {
        std::string text = std::string("m") + std::to_string(m) + std::string("n") + std::to_string(n) +
                           std::string("k") + std::to_string(k) + "." + name_of(d) + "." + name_of(a) + "." +
                           name_of(b);
        if (unit == Unit::mma) text += std::string(".") + name_of(d);
        return text;
    }
    /// Returns the name, with variants after a plus: `wgmma.m64n8k16.f32.f16.f16`,
    /// `wgmma.m64n8k16.f32.f16.f16+registers+chain4`.
    std::string name() const {
        std::string text = instruction() + "." + qualifier();
        if (a_in_registers) text += "+registers";
        if (negates_a) text += "+negated_a";
        if (negates_b) text += "+negated_b";
        if (transposes_a) text += "+transposed_a";
        if (transposes_b) text += "+transposed_b";
        if (ignores_addend) text += "+no_addend";
        if (chain > 1) text += std::string("+chain") + std::to_string(chain);
        return text;
    }
};

namespace detail {

struct FormList {
    std::array<InstructionForm, 320> forms{};
    int count = 0;
    constexpr void add(const InstructionForm& form) { forms[static_cast<std::size_t>(count++)] = form; }
};

constexpr void add_mma(FormList& list) {
    using T = PtxType;
    const auto add = [&](int m, int k, T a, T b, T d) {
        list.add({.unit = Unit::mma, .m = m, .n = 8, .k = k, .a = a, .b = b, .d = d});
    };
    for (const int k : {16, 8}) {
        add(16, k, T::f16, T::f16, T::f32);
        add(16, k, T::f16, T::f16, T::f16);
        add(16, k, T::bf16, T::bf16, T::f32);
        add(16, k / 2, T::tf32, T::tf32, T::f32);
    }
    for (const int k : {32, 16}) {
        for (const T d : {T::f32, T::f16}) {
            for (const T a : {T::e4m3, T::e5m2}) {
                for (const T b : {T::e4m3, T::e5m2}) add(16, k, a, b, d);
            }
        }
    }
    add(8, 4, T::f64, T::f64, T::f64);
    for (const int k : {4, 8, 16}) add(16, k, T::f64, T::f64, T::f64);
    // Chains of instructions. The accumulators stay in their registers from one instruction to the next.
    for (const int chain : {2, 4, 8}) {
        for (const T d : {T::f32, T::f16}) {
            list.add({.k = 16, .d = d, .chain = chain});
            list.add({.k = 32, .a = T::e4m3, .b = T::e4m3, .d = d, .chain = chain});
        }
    }
}

constexpr void add_wgmma(FormList& list) {
    using T = PtxType;
    struct Types {
        T a, b, d;
        int k;
    };
    constexpr Types types[] = {
        {T::f16, T::f16, T::f32, 16},   {T::f16, T::f16, T::f16, 16},   {T::bf16, T::bf16, T::f32, 16},
        {T::tf32, T::tf32, T::f32, 8},  {T::e4m3, T::e4m3, T::f32, 32}, {T::e4m3, T::e5m2, T::f32, 32},
        {T::e5m2, T::e4m3, T::f32, 32}, {T::e5m2, T::e5m2, T::f32, 32}, {T::e4m3, T::e4m3, T::f16, 32},
        {T::e4m3, T::e5m2, T::f16, 32}, {T::e5m2, T::e4m3, T::f16, 32}, {T::e5m2, T::e5m2, T::f16, 32}};
    for (const Types& t : types) {
        const bool two_bytes = t.k == 16;
        InstructionForm plain{.unit = Unit::wgmma, .m = 64, .n = 8, .k = t.k, .a = t.a, .b = t.b, .d = t.d};
        list.add(plain);
        InstructionForm form = plain;
        form.a_in_registers = true;
        list.add(form);
        form = plain;
        form.ignores_addend = true;
        list.add(form);
        form = plain;
        form.negates_a = true;
        list.add(form);
        form.negates_b = true;
        list.add(form);
        form.negates_a = false;
        list.add(form);
        if (two_bytes) {
            form = plain;
            form.transposes_a = true;
            list.add(form);
            form.transposes_b = true;
            list.add(form);
            form.transposes_a = false;
            list.add(form);
            form.a_in_registers = true;
            list.add(form);
        }
        for (const int chain : {2, 4, 8}) {
            form = plain;
            form.chain = chain;
            list.add(form);
        }
        for (const int n : {16, 64, 128, 256}) {
            form = plain;
            form.n = n;
            list.add(form);
        }
    }
}

}  // namespace detail

/// All forms, both plain and variants.
inline constexpr auto instruction_form_list = [] {
    detail::FormList list;
    detail::add_mma(list);
    detail::add_wgmma(list);
    return list;
}();
inline constexpr int instruction_forms = instruction_form_list.count;

constexpr const InstructionForm& instruction_form(int index) {
    return instruction_form_list.forms[static_cast<std::size_t>(index)];
}

/// Returns the index of the first form that uses the same inline assembly as form number `index`.
constexpr int ptx_index(int index) {
    const InstructionForm wanted = instruction_form(index).ptx();
    for (int i = 0; i < instruction_forms; ++i) {
        if (instruction_form(i) == wanted) return i;
    }
    return index;
}

/// Returns the index of the form of that name, or -1.
inline int find_instruction_form(const std::string& name) {
    for (int i = 0; i < instruction_forms; ++i) {
        if (instruction_form(i).name() == name) return i;
    }
    return -1;
}

/// Returns whether the form of that name is a variant. Variants have no traces.
inline bool is_variant_form(const std::string& name) {
    return !instruction_form(find_instruction_form(name)).is_traced();
}

}  // namespace macheps::evidence
