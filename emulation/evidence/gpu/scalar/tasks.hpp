// SPDX-License-Identifier: Apache-2.0
// Tasks for the comparison of a device with the host (blocks.hpp). A task maps each of 2^32 inputs to 64 bits, with the
// same source on host and device. This file includes the host/device headers of core and emulation, so compiling it for
// a GPU also compiles these headers for a GPU.
#pragma once
#include "core/codec.hpp"
#include "core/format.hpp"
#include "core/format_table.hpp"
#include "core/hd.hpp"
#include "core/math.hpp"
#include "core/math64.hpp"
#include "core/profile_table.hpp"
#include "core/rng.hpp"
#include "core/rounding.hpp"
#include "core/tally.hpp"
#include "core/tensor.hpp"
#include "core/ulp.hpp"
#include "emulation/definitions.hpp"
#include "emulation/evidence/gpu/scalar/inputs.hpp"
#include "emulation/matmul/matmul.hpp"
#include "emulation/reduce.hpp"
#include "emulation/scaling/scaling.hpp"

#include <string>
#include <utility>
#include <vector>

namespace macheps::sweep {

enum class Kind {
    // fp32 functions of the float with bits u
    exp,
    expm1,
    log,
    log1p,
    tanh,
    erf,
    rsqrt,
    sin,
    cos,
    gelu_erf,
    gelu_tanh,
    gelu_erf_backward,
    gelu_tanh_backward,
    // fp64 functions of wide_input(u)
    exp64,
    log64,
    sin64,
    cos64,
    pow64,
    encode32,   ///< encodes the float with bits u, then decodes the code
    encode64,   ///< encodes wide_input(u)
    profile32,  ///< encodes the float with bits u under a profile
    profile64,  ///< encodes wide_input(u) under a profile
    decode,     ///< decodes container u
    steps,      ///< gives the neighbours of container u, and its ulp
    philox,     ///< gives block u of a random stream
    tally,      ///< gives the counts of the cast of one float
    lane_sum    ///< gives lane_sum() over a short row that depends on u
};

struct Task {
    Kind kind;
    Format format = fp32;
    Round mode = Round::nearest_even;
    Overflow overflow = Overflow::nonsaturate;
    int random_bits = 32;
    Profile profile{};
};

using evidence::mix;
using evidence::wide_input;

MACHEPS_HD inline std::uint64_t tally_of_one(const Task& task, float x) {
    Tally tally;
    tally.add(task.format, x, x, quantize(task.format, x, task.mode, task.overflow));
    const std::uint64_t counts = tally.nan_in | tally.inf_in << 1 | tally.zero_in << 2 | tally.underflow << 3 |
                                 tally.to_subnormal << 4 | tally.overflow << 5 | tally.saturated << 6;
    return counts | std::uint64_t{bit_cast<std::uint32_t>(tally.amax)} << 32;
}

/// Returns a hash of the two neighbours of a code and of its ulp.
MACHEPS_HD inline std::uint64_t steps_of(Format f, std::uint64_t container) {
    const std::uint64_t code = container & ((f.sign_bit() | f.magnitude_mask()) << f.padding);
    const std::uint64_t up = nextafter(f, code, from_ordinal(f, greatest_ordinal(f)));
    const std::uint64_t down = nextafter(f, code, from_ordinal(f, min_ordinal(f)));
    const double value = decode64(f, code), unit = value == value ? ulp(f, value) : 0;
    return mix(up) + 3 * mix(down) + bit_cast<std::uint64_t>(unit);
}

MACHEPS_HD inline std::uint64_t evaluate(const Task& task, std::uint32_t u) {
    const auto x = bit_cast<float>(u);
    const RandomBits random{static_cast<std::uint32_t>(mix(u)) >> (32 - task.random_bits), task.random_bits};
    switch (task.kind) {
        case Kind::exp:
            return bit_cast<std::uint32_t>(math::exp(x));
        case Kind::expm1:
            return bit_cast<std::uint32_t>(math::expm1(x));
        case Kind::log:
            return bit_cast<std::uint32_t>(math::log(x));
        case Kind::log1p:
            return bit_cast<std::uint32_t>(math::log1p(x));
        case Kind::tanh:
            return bit_cast<std::uint32_t>(math::tanh(x));
        case Kind::erf:
            return bit_cast<std::uint32_t>(math::erf(x));
        case Kind::rsqrt:
            return bit_cast<std::uint32_t>(math::rsqrt(x));
        case Kind::sin:
            return bit_cast<std::uint32_t>(math::sin(x));
        case Kind::cos:
            return bit_cast<std::uint32_t>(math::cos(x));
        case Kind::gelu_erf:
            return bit_cast<std::uint32_t>(definition::map<elementwise::GeluErf>(x));
        case Kind::gelu_tanh:
            return bit_cast<std::uint32_t>(definition::map<elementwise::GeluTanh>(x));
        case Kind::gelu_erf_backward:
            return bit_cast<std::uint32_t>(definition::map_backward<elementwise::GeluErf>(x, 1.0f));
        case Kind::gelu_tanh_backward:
            return bit_cast<std::uint32_t>(definition::map_backward<elementwise::GeluTanh>(x, 1.0f));
        case Kind::exp64:
            return bit_cast<std::uint64_t>(math::exp(wide_input(u)));
        case Kind::log64:
            return bit_cast<std::uint64_t>(math::log(wide_input(u)));
        case Kind::sin64:
            return bit_cast<std::uint64_t>(math::sin(wide_input(u)));
        case Kind::cos64:
            return bit_cast<std::uint64_t>(math::cos(wide_input(u)));
        case Kind::pow64: {
            const double power = math::pow_int(wide_input(u), static_cast<int>(mix(u) & 63) - 32);
            return power == power ? bit_cast<std::uint64_t>(power) : 0x7ff8000000000000u;  // NaN bits are not portable
        }
        case Kind::encode32: {
            const std::uint64_t code = encode64(task.format, x, task.mode, task.overflow, random);
            return mix(code) + bit_cast<std::uint64_t>(decode64(task.format, code));
        }
        case Kind::encode64:
            return encode64(task.format, wide_input(u), task.mode, task.overflow, random);
        case Kind::decode: {
            // Containers of more than 32 bits have more codes than there are inputs. mix() spreads the inputs over the
            // codes.
            const std::uint64_t code = task.format.container_bits() > 32 ? mix(u) : u;
            return bit_cast<std::uint64_t>(decode64(task.format, code)) +
                   bit_cast<std::uint32_t>(decode(task.format, code));
        }
        case Kind::profile32:
            return encode64(task.profile, task.format, x, task.mode, random);
        case Kind::profile64:
            return encode64(task.profile, task.format, wide_input(u), task.mode, random);
        case Kind::steps:
            return steps_of(task.format, task.format.container_bits() > 32 ? mix(u) : u);
        case Kind::philox: {
            const PhiloxBlock block = random_block({.seed = 0x123456789abcdefu, .step = u >> 16, .site = u * 7}, u);
            return mix(block.word[0] + (std::uint64_t{block.word[1]} << 32)) + block.word[2] +
                   (std::uint64_t{block.word[3]} << 32);
        }
        case Kind::tally:
            return tally_of_one(task, x);
        case Kind::lane_sum: {
            const std::int64_t n = u % 1500 < 8 ? 1024 + u % 7000 : u % 100;
            const auto term = [u](std::int64_t i) {
                return static_cast<float>(static_cast<std::int32_t>(mix(u + static_cast<std::uint64_t>(i) * 977))) *
                       0x1p-20f;
            };
            return bit_cast<std::uint32_t>(lane_sum<float>(n, term));
        }
    }
    return 0;
}

inline constexpr std::uint32_t block_inputs = 1u << 16, blocks = 1u << 16;

struct NamedTask {
    std::string name;
    Task task;
};
struct Part {
    std::string name;
    std::string summary;
    std::vector<NamedTask> tasks;
};

/// Returns the tasks in groups, which are called parts. The most important parts come first.
inline std::vector<Part> all_parts() {
    Part math{"math", "fp32 functions", {}};
    Part nearest{"nearest", "every format, rounding to nearest even, encode and decode", {}};
    Part modes{"modes", "every format in every other mode, encode and decode", {}};
    Part from64{"from64", "every format encoded from fp64", {}};
    Part profiles{"profiles", "every format under every profile", {}};
    Part rest{"rest", "decoding, neighbours, fp64 functions, random bits, tallies, the lane rule", {}};

    const std::pair<const char*, Kind> fp32_functions[] = {{"exp", Kind::exp},
                                                           {"tanh", Kind::tanh},
                                                           {"log", Kind::log},
                                                           {"erf", Kind::erf},
                                                           {"rsqrt", Kind::rsqrt},
                                                           {"expm1", Kind::expm1},
                                                           {"log1p", Kind::log1p},
                                                           {"sin", Kind::sin},
                                                           {"cos", Kind::cos},
                                                           {"gelu_erf", Kind::gelu_erf},
                                                           {"gelu_tanh", Kind::gelu_tanh},
                                                           {"gelu_erf_backward", Kind::gelu_erf_backward},
                                                           {"gelu_tanh_backward", Kind::gelu_tanh_backward}};
    for (const auto& [name, kind] : fp32_functions) math.tasks.push_back({name, {.kind = kind}});
    const std::pair<const char*, Kind> others[] = {
        {"exp64", Kind::exp64}, {"log64", Kind::log64},   {"sin64", Kind::sin64},      {"cos64", Kind::cos64},
        {"pow64", Kind::pow64}, {"philox", Kind::philox}, {"lane_sum", Kind::lane_sum}};
    for (const auto& [name, kind] : others) rest.tasks.push_back({name, {.kind = kind}});

    const std::pair<const char*, Round> other_modes[] = {{"sr", Round::stochastic},    {"rz", Round::toward_zero},
                                                         {"rna", Round::nearest_away}, {"ru", Round::up},
                                                         {"rd", Round::down},          {"odd", Round::to_odd}};
    for (const NamedFormat& row : all_formats) {
        const std::string name(row.name);
        const Format f = row.format;
        for (const Overflow overflow : {Overflow::nonsaturate, Overflow::saturate}) {
            const std::string suffix = overflow == Overflow::saturate ? ".sat" : "";
            nearest.tasks.push_back(
                {name + ".rne" + suffix, {.kind = Kind::encode32, .format = f, .overflow = overflow}});
            from64.tasks.push_back(
                {name + ".rne" + suffix, {.kind = Kind::encode64, .format = f, .overflow = overflow}});
            for (const auto& [mode_name, mode] : other_modes) {
                modes.tasks.push_back({name + "." + mode_name + suffix,
                                       {.kind = Kind::encode32, .format = f, .mode = mode, .overflow = overflow}});
            }
        }
        modes.tasks.push_back(
            {name + ".sr8", {.kind = Kind::encode32, .format = f, .mode = Round::stochastic, .random_bits = 8}});
        from64.tasks.push_back({name + ".sr", {.kind = Kind::encode64, .format = f, .mode = Round::stochastic}});
        for (const NamedProfile& profile : all_profiles) {
            const std::string both = name + "." + std::string(profile.name);
            profiles.tasks.push_back({both, {.kind = Kind::profile32, .format = f, .profile = profile.profile}});
            profiles.tasks.push_back(
                {both + ".from64", {.kind = Kind::profile64, .format = f, .profile = profile.profile}});
            if (!profile.profile.truncation_overflows) continue;
            profiles.tasks.push_back(
                {both + ".rz",
                 {.kind = Kind::profile32, .format = f, .mode = Round::toward_zero, .profile = profile.profile}});
        }
        rest.tasks.push_back({name + ".decode", {.kind = Kind::decode, .format = f}});
        rest.tasks.push_back({name + ".steps", {.kind = Kind::steps, .format = f}});
        rest.tasks.push_back({name + ".tally", {.kind = Kind::tally, .format = f}});
    }
    return {math, nearest, modes, from64, profiles, rest};
}

/// Returns the tasks that do not depend on a format: math functions, random bits, and lane_sum().
inline std::vector<NamedTask> math_tasks() {
    std::vector<NamedTask> tasks;
    for (const Part& part : all_parts()) {
        for (const NamedTask& named : part.tasks) {
            const bool formatless = part.name == "rest" && named.name.find('.') == std::string::npos;
            if (part.name == "math" || formatless) tasks.push_back(named);
        }
    }
    return tasks;
}

}  // namespace macheps::sweep
