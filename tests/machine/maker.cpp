// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/maker.hpp"

#include <algorithm>

namespace macheps::machine_oracle {
namespace {

int min_exponent(const Type& type) {
    return type.specials == Specials::e8m0 ? -127 : type.emin() - (type.precision - 1);
}

std::uint64_t sign_bit(const Type& type) { return std::uint64_t{1} << (type.bits - 1); }

}  // namespace

std::uint64_t make_code(const Type& type, bool negative, int e, std::uint64_t fraction) {
    if (type.specials == Specials::e8m0) return static_cast<std::uint64_t>(std::clamp(e, -127, 127) + 127);
    const int fraction_bits = type.precision - 1;
    fraction &= (std::uint64_t{1} << fraction_bits) - 1;
    e = std::clamp(e, min_exponent(type), type.emax());
    std::uint64_t magnitude = 0;
    if (e < type.emin()) {
        const int shift = type.emin() - e;
        magnitude = ((std::uint64_t{1} << fraction_bits) + fraction) >> shift;
    } else {
        magnitude = static_cast<std::uint64_t>(e + type.bias) << fraction_bits | fraction;
        const bool has_nan_on_top = type.specials == Specials::e4m3fn || type.specials == Specials::ue4m3;
        if (has_nan_on_top && magnitude == 0x7f) --magnitude;
    }
    magnitude <<= type.ignored;
    return negative && type.specials != Specials::ue4m3 ? magnitude | sign_bit(type) : magnitude;
}

Maker::Maker(const Instruction& instruction, std::mt19937_64& random) : in(instruction), random_(random) {
    const auto n = static_cast<std::size_t>(in.products), blocks = static_cast<std::size_t>(in.scales);
    made.a.assign(n, 0);
    made.b.assign(n, 0);
    made.sa.assign(blocks, 0);
    made.sb.assign(blocks, 0);
    slots_ = in.model == Model::grouped ? in.products / 16 : in.products;
    if (in.model == Model::integer) return;
    least_ = min_exponent(in.a) + min_exponent(in.b);
    greatest_ = in.a.emax() + in.b.emax();
    if (in.scales > 0) {
        least_ += 2 * min_exponent(in.scale);
        greatest_ += 2 * in.scale.emax();
        set_scales(0);
    }
}

std::pair<int, int> Maker::two_slots() {
    if (slots_ == 1) return {0, 0};
    if (in.model == Model::emulated_fp8 && chance(60)) {  // both in one fp16 step (k mod 4 is 0 or 1, or 2 or 3)
        const int half = 2 * between(0, 1), quad = 4 * between(0, slots_ / 4 - 1), i = quad + half + between(0, 1);
        const int j = 4 * between(0, slots_ / 4 - 1) + half;
        return {i, j == i ? j + 1 : j};
    }
    const int per_step = std::max(1, in.step * slots_ / in.products);
    const int range = chance(60) && per_step > 1 ? per_step : slots_;
    const int first = between(0, slots_ / range - 1) * range, i = between(0, range - 1), j = between(0, range - 2);
    return {first + i, first + (j < i ? j : j + 1)};
}

int Maker::leader(int room) {
    const int low = std::max(least_, in.d.emin() - in.d.precision), high = std::min(greatest_, in.d.emax() - 1);
    if (low + room > high - 6 && chance(60)) return high - between(0, 2);  // narrow types have room only near the top
    if (chance(60)) return std::clamp(between(-12, 12), std::min(low + room, high), high);
    return low + room < high ? between(low + room, high) : between(low, high);
}

int Maker::far_below(int room, int distance) {
    const int top = leader(room);
    return top - between(0, distance);
}

Maker::Digits Maker::some_digits() {
    static constexpr Digits choices[] = {Digits::any, Digits::any, Digits::ones, Digits::none, Digits::few};
    return choices[below(5)];
}

std::uint64_t Maker::code(const Type& type, Sized number) {
    const int n = type.precision - 1;
    std::uint64_t fraction = 0;
    switch (number.digits) {
        case Digits::any:
            fraction = bits(n);
            break;
        case Digits::ones:
            fraction = ~std::uint64_t{0} - below(3);
            break;
        case Digits::none:
            break;
        case Digits::few:
            fraction = std::uint64_t{1} << below(static_cast<std::uint64_t>(n) + 1);
            fraction |= below(2);
            break;
    }
    return make_code(type, number.negative, number.exponent, fraction) | bits(type.ignored);
}

std::uint64_t Maker::finite_code(const Type& type) {
    for (;;) {
        const std::uint64_t code = bits(type.bits);
        if (decode(type, code).kind == Kind::finite) return code;
    }
}

std::uint64_t Maker::special_code(const Type& type) {
    const std::uint64_t sign = chance(50) ? sign_bit(type) : 0, step = std::uint64_t{1} << type.ignored;
    switch (type.specials) {
        case Specials::ieee: {
            const std::uint64_t inf = infinity(type, false), quiet = step << (type.precision - 2);
            switch (below(6)) {
                case 0:
                    return sign | inf | quiet;
                case 1:
                    return sign | inf | step;  // signalling, smallest payload
                case 2:
                    return sign | inf | quiet | bits(type.precision - 2) << type.ignored;
                case 3:
                    return sign | (chance(50) ? 0 : step);
                default:
                    return sign | inf;
            }
        }
        case Specials::e4m3fn:
        case Specials::ue4m3:
            return sign | (chance(60) ? 0x7f : 0);
        case Specials::fnuz:
            return chance(60) ? 0x80 : 0;
        case Specials::e8m0:
            return chance(60) ? 0xff : 0;
        default:
            return sign;
    }
}

std::uint64_t Maker::subnormal_code(const Type& type) {
    return code(type, {chance(50), between(min_exponent(type), type.emin() - 1), Digits::any});
}

int Maker::scale_sum(int block) const {
    if (in.scales == 0) return 0;
    const auto i = static_cast<std::size_t>(block);
    return decode(in.scale, made.sa[i]).exponent + decode(in.scale, made.sb[i]).exponent;
}

void Maker::set_block(int block, int e) {
    const int low = min_exponent(in.scale), high = in.scale.emax();
    e = std::clamp(e, 2 * low, 2 * high);
    const int left = std::clamp(e / 2 + between(-3, 3), std::max(low, e - high), std::min(high, e - low));
    const auto i = static_cast<std::size_t>(block);
    made.sa[i] = code(in.scale, {false, left, some_digits()});
    made.sb[i] = code(in.scale, {false, e - left, some_digits()});
}

void Maker::set_scales(int e) {
    for (int block = 0; block < in.scales; ++block) set_block(block, e);
}

void Maker::put_pair(Term term) {
    const bool normal = chance(75);
    const int low_a = normal ? in.a.emin() : min_exponent(in.a), low_b = normal ? in.b.emin() : min_exponent(in.b);
    const int e = std::clamp(term.exponent, min_exponent(in.a) + min_exponent(in.b), in.a.emax() + in.b.emax());
    int low = std::max(low_a, e - in.b.emax()), high = std::min(in.a.emax(), e - low_b);
    if (low > high) {  // only subnormals can have this exponent
        low = std::max(min_exponent(in.a), e - in.b.emax());
        high = std::min(in.a.emax(), e - min_exponent(in.b));
    }
    const int left = between(low, high);
    const bool left_negative = chance(50);
    const auto k = static_cast<std::size_t>(term.slot);
    made.a[k] = code(in.a, {left_negative, left, term.digits});
    made.b[k] = code(in.b, {left_negative != term.negative, e - left, term.digits});
}

void Maker::put(Term term) {
    if (in.model != Model::grouped) {
        term.exponent -= scale_sum(block_of(term.slot));
        return put_pair(term);
    }
    set_block(block_of(term.slot), term.exponent);
    const int used = chance(50) ? 16 : between(1, 3), first = 16 * term.slot;
    for (int k = first; k < first + 16; ++k) {
        put_pair({k, term.negative != chance(20), between(-4, 4), Digits::any});
        if (k >= first + used) made.a[static_cast<std::size_t>(k)] = 0;
    }
}

void Maker::put_power(Power power) {
    const int block = block_of(power.slot);
    if (in.model != Model::grouped)
        return put_pair({power.slot, power.negative, power.exponent - scale_sum(block), Digits::none});
    for (int k = 0; k < 16; ++k) made.a[static_cast<std::size_t>(16 * power.slot + k)] = 0;
    put_pair({16 * power.slot, power.negative, 0, Digits::none});
    const int low = min_exponent(in.scale), high = in.scale.emax();
    const int e = std::clamp(power.exponent, 2 * low, 2 * high);
    const int left = between(std::max(low, e - high), std::min(high, e - low));
    const auto i = static_cast<std::size_t>(block);
    made.sa[i] = code(in.scale, {false, left, Digits::none});
    made.sb[i] = code(in.scale, {false, e - left, Digits::none});
}

void Maker::put_zero(int slot) {
    const int width = in.products / slots_;
    for (int k = width * slot; k < width * (slot + 1); ++k) {
        const auto i = static_cast<std::size_t>(k);
        const bool left = chance(50);
        const Type& type = left ? in.a : in.b;
        const bool signed_zero = type.specials != Specials::fnuz && chance(50);
        (left ? made.a : made.b)[i] = (signed_zero ? sign_bit(type) : 0) | bits(type.ignored);
        const Type& other = left ? in.b : in.a;
        (left ? made.b : made.a)[i] =
            chance(50) ? finite_code(other) : code(other, {chance(50), other.emax(), Digits::any});
    }
}

void Maker::put_zero_scale(int slot) {
    if (in.scales == 0 || !decode(in.scale, 0).is_zero()) return;
    const auto i = static_cast<std::size_t>(block_of(slot));
    (chance(50) ? made.sa : made.sb)[i] = 0;
}

void Maker::mirror(int from, int to) {
    if (from == to) return;
    const int width = in.products / slots_;
    for (int k = 0; k < width; ++k) {
        const auto i = static_cast<std::size_t>(width * from + k), j = static_cast<std::size_t>(width * to + k);
        made.b[j] = made.b[i];
        made.a[j] = decode(in.a, made.a[i]).is_zero() ? made.a[i] : made.a[i] ^ sign_bit(in.a);
    }
    if (in.scales == 0) return;
    const auto i = static_cast<std::size_t>(block_of(from)), j = static_cast<std::size_t>(block_of(to));
    made.sa[j] = made.sa[i];
    made.sb[j] = made.sb[i];
}

std::uint64_t Maker::nudged(const Type& type, std::uint64_t code, int ulps) const {
    const std::uint64_t sign = code & sign_bit(type), step = std::uint64_t{1} << type.ignored;
    const auto moved = static_cast<std::int64_t>(code - sign) + ulps * static_cast<std::int64_t>(step);
    if (moved < 0) return code;
    const std::uint64_t next = sign | static_cast<std::uint64_t>(moved);
    return (next & sign_bit(type)) == sign && next >> (type.bits - 1) <= 1 && decode(type, next).kind == Kind::finite
               ? next
               : code;
}

void Maker::cancel_with_c(int ulps) {
    made.c = 0;
    const Number d = decode(in.d, evaluate(in, made.a, made.b, 0, made.sa, made.sb));
    if (d.kind != Kind::finite) return;
    made.c = rounded({-d.value.m, d.value.q}, in.c, Rounding::toward_zero, in.c.precision);
    if (decode(in.c, made.c).kind != Kind::finite) made.c = 0;
    made.c = nudged(in.c, made.c, ulps);
}

}  // namespace macheps::machine_oracle
