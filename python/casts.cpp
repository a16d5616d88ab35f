// SPDX-License-Identifier: Apache-2.0
// Python bindings for rounding, encoding and decoding. The caller passes the output arrays, because NumPy allocates
// them faster than an extension module does.
#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "core/profile_table.hpp"
#include "core/rounding_names.hpp"
#include "emulation/cpu/ops/casts/cast64.hpp"
#include "emulation/cpu/ops/casts/codes.hpp"
#include "python/engine.hpp"
#include "python/rooms.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

namespace macheps::python {

namespace {

/// A cast whose format, rounding mode and profile have been looked up by name. The Python package caches it, so later
/// calls skip the lookup.
struct ReadyCast {
    Cast cast{};
    double scale = 1;  ///< multiplies fp64 numbers; cast.encode_scale is its fp32 value
    std::string format{};
    std::optional<Profile> profile{};  ///< if present, its conventions replace cast.overflow
};

Round round_of(const std::string& name) {
    std::string names;
    for (const RoundName& row : round_names) {
        if (name == row.name || name == row.acronym) return row.value;
        names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
    throw Error({.what = "'" + name + "' is not a valid rounding mode",
                 .where = "mode",
                 .fix = "use one of " + names,
                 .exit = Exit::usage});
}

/// Looks up the names of a cast. An empty `profile` means no profile. An empty `mode` means the default mode of the
/// profile for this format, or nearest_even without a profile. Only for e8m0fnu can the default mode of a profile
/// differ from nearest_even.
ReadyCast ready_cast(const std::string& format, const std::string& mode, bool saturate, double scale,
                     const std::string& profile) {
    const Format f = format_named(format, "format", Exit::usage);
    ReadyCast ready{.cast = {.format = f,
                             .overflow = saturate ? Overflow::saturate : Overflow::nonsaturate,
                             .encode_scale = static_cast<float>(scale)},
                    .scale = scale,
                    .format = std::string(format_name(f))};
    if (!profile.empty()) {
        const NamedProfile& row = profile_row(profile, "profile", Exit::usage);
        require_format(row, f, "profile", Exit::usage);
        ready.profile = row.profile;
    }
    const Round by_default = ready.profile ? ready.profile->default_round(f) : Round::nearest_even;
    ready.cast.round = mode.empty() ? by_default : round_of(mode);
    return ready;
}

/// Returns the cast with the key that selects its random words. With stream 0, `macheps convert` uses the same words
/// for the same seed.
Cast with_key(const ReadyCast& ready, std::uint64_t seed, std::uint32_t stream) {
    Cast cast = ready.cast;
    if (cast.round == Round::stochastic) cast.key = {seed, stream, site_id("convert")};
    return cast;
}

nb::object tuple_of(const Tally& t, double amax, double amin_nz) {
    return nb::make_tuple(t.count, t.nan_in, t.inf_in, t.zero_in, t.underflow, t.to_subnormal, t.overflow, t.saturated,
                          amax, amin_nz);
}

/// Counts of a cast: `narrow` if its inputs are fp32 numbers, `wide` if they are fp64 numbers (`is_wide`).
struct Counts {
    Tally narrow{};
    Tally64 wide{};
    bool is_wide = false;

    nb::object tuple() const {
        if (is_wide) return tuple_of(wide.counts, wide.amax, wide.amin_nz);
        return tuple_of(narrow, double{narrow.amax}, double{narrow.amin_nz});
    }
};

void require_equal(std::size_t x, std::size_t out) {
    if (x == out) return;
    throw Error({.what = "there are " + std::to_string(out) + " outputs for " + std::to_string(x) + " elements",
                 .where = "out",
                 .fix = "use an array with the shape of the input",
                 .exit = Exit::usage});
}

[[noreturn]] void bad_type(std::string where) {
    throw Error({.what = "the type of the elements is not supported",
                 .where = std::move(where),
                 .fix = "call the functions of the package macheps, which convert the array",
                 .exit = Exit::usage});
}

template <class T>
bool is(const nb::dlpack::dtype& type) {
    return type == nb::dtype<T>();
}

/// Returns the size of an element in bytes. Returns 0 if each element is a vector, which no function of this module
/// supports.
std::size_t width_of(const nb::dlpack::dtype& type) { return type.lanes == 1 ? type.bits / 8u : 0; }

/// Converts n numbers one by one, as the profile defines, and calls store(i, code) for each. Adds the effects of the
/// cast to `*counts` unless it is null.
template <class Source, class Store>
void by_profile(ThreadPool& pool, const Profile& profile, const Cast& cast, double scale, const Source* x,
                std::int64_t n, std::int64_t first, Counts* counts, const Store& store) {
    constexpr std::int64_t block = 1 << 14;
    const auto factor = static_cast<Source>(scale);
    std::mutex adding;
    pool.run((n + block - 1) / block, [&](std::int64_t b) {
        Counts part;
        for (std::int64_t i = b * block, end = std::min(n, i + block); i < end; ++i) {
            const Source z = scale == 1 ? x[i] : x[i] * factor;  // multiplying by 1 could change the bits of a NaN
            RandomBits random;
            if (cast.round == Round::stochastic) {
                random = {random_bits(cast.key, static_cast<std::uint64_t>(first + i)), 32};
            }
            const std::uint64_t code = encode64(profile, cast.format, z, cast.round, random);
            store(i, code);
            if (counts == nullptr) continue;
            const double q = decode64(cast.format, code);
            if constexpr (sizeof(Source) == 8) {
                part.wide.add(cast.format, x[i], z, q);
            } else {
                part.narrow.add(cast.format, x[i], z, static_cast<float>(q));
            }
        }
        if (counts == nullptr) return;
        const std::lock_guard lock(adding);
        counts->wide += part.wide;
        counts->narrow += part.narrow;
    });
}

/// Maximum number of elements that are rounded without releasing the GIL.
constexpr std::int64_t few = 1024;

nb::object round_into(const ReadyCast& ready, const AnyArray& x, const AnyOutput& out, std::uint64_t seed,
                      std::uint32_t stream, std::int64_t word, bool counts) {
    require_equal(x.size(), out.size());
    const Cast cast = with_key(ready, seed, stream);
    const auto n = static_cast<std::int64_t>(x.size());
    Counts made{.is_wide = is<double>(x.dtype())};
    if (!(x.dtype() == out.dtype()) || !(made.is_wide || is<float>(x.dtype()))) bad_type("round_into");
    const auto by_source = [&](Engine& engine, const auto* from, auto* to, std::int64_t first, std::int64_t count) {
        by_profile(engine.pool, *ready.profile, cast, ready.scale, from + first, count, word + first,
                   counts ? &made : nullptr, [&](std::int64_t i, std::uint64_t code) {
                       to[first + i] = static_cast<std::remove_pointer_t<decltype(to)>>(decode64(cast.format, code));
                   });
    };
    const auto work = [&](Engine& engine) {
        in_chunks(n, cast_chunk, [&](std::int64_t first, std::int64_t count) {
            if (ready.profile && made.is_wide) {
                by_source(engine, static_cast<const double*>(x.data()), static_cast<double*>(out.data()), first, count);
            } else if (ready.profile) {
                by_source(engine, static_cast<const float*>(x.data()), static_cast<float*>(out.data()), first, count);
            } else if (made.is_wide) {
                cast_array64(engine.simd, engine.pool, static_cast<const double*>(x.data()) + first,
                             static_cast<double*>(out.data()) + first, count, cast, ready.scale,
                             counts ? &made.wide : nullptr, word + first);
            } else {
                cast_array(engine.simd, engine.pool, static_cast<const float*>(x.data()) + first,
                           static_cast<float*>(out.data()) + first, count, cast, counts ? &made.narrow : nullptr,
                           word + first);
            }
        });
    };
    n <= few ? with_engine_at_once(std::cref(work)) : with_engine(std::cref(work));
    return counts ? made.tuple() : nb::none();
}

template <class Code>
void encode_as(const ReadyCast& ready, const Cast& cast, const AnyArray& x, const AnyOutput& out, std::int64_t word,
               Counts* counts) {
    const auto n = static_cast<std::int64_t>(x.size());
    const bool is_wide = is<double>(x.dtype());
    with_engine([&](Engine& engine) {
        in_chunks(n, cast_chunk, [&](std::int64_t first, std::int64_t count) {
            Code* codes = static_cast<Code*>(out.data()) + first;
            const auto store = [&](std::int64_t i, std::uint64_t code) { codes[i] = static_cast<Code>(code); };
            if (ready.profile && is_wide) {
                by_profile(engine.pool, *ready.profile, cast, ready.scale, static_cast<const double*>(x.data()) + first,
                           count, word + first, counts, store);
            } else if (ready.profile) {
                by_profile(engine.pool, *ready.profile, cast, ready.scale, static_cast<const float*>(x.data()) + first,
                           count, word + first, counts, store);
            } else if (is_wide) {
                encode_array64(engine.simd, engine.pool, static_cast<const double*>(x.data()) + first, codes, count,
                               cast, ready.scale, counts != nullptr ? &counts->wide : nullptr, word + first);
            } else if constexpr (!std::is_same_v<Code, std::uint64_t>) {
                encode_array(engine.simd, engine.pool, static_cast<const float*>(x.data()) + first, codes, count, cast,
                             counts != nullptr ? &counts->narrow : nullptr, word + first);
            }
        });
    });
}

nb::object encode_into(const ReadyCast& ready, const AnyArray& x, const AnyOutput& out, std::uint64_t seed,
                       std::uint32_t stream, std::int64_t word, bool counts) {
    require_equal(x.size(), out.size());
    const Cast cast = with_key(ready, seed, stream);
    Counts made{.is_wide = is<double>(x.dtype())};
    Counts* into = counts ? &made : nullptr;
    if (!made.is_wide && !is<float>(x.dtype())) bad_type("encode_into");
    switch (width_of(out.dtype())) {
        case 1:
            encode_as<std::uint8_t>(ready, cast, x, out, word, into);
            break;
        case 2:
            encode_as<std::uint16_t>(ready, cast, x, out, word, into);
            break;
        case 4:
            encode_as<std::uint32_t>(ready, cast, x, out, word, into);
            break;
        case 8:
            if (!made.is_wide) bad_type("encode_into");  // the Python package encodes only fp64 numbers to 8-byte codes
            encode_as<std::uint64_t>(ready, cast, x, out, word, into);
            break;
        default:
            bad_type("encode_into");
    }
    return counts ? made.tuple() : nb::none();
}

/// Fills `out` with the words of a stream from position `first` on. Stochastic rounding uses the same words.
void random_words_into(std::uint64_t seed, std::uint32_t stream, std::uint64_t first, const AnyOutput& out) {
    if (width_of(out.dtype()) != 4) bad_type("random_words");
    auto* words = static_cast<std::uint32_t*>(out.data());
    const RngKey key{seed, stream, site_id("convert")};
    with_engine([&](Engine& engine) {
        in_chunks(static_cast<std::int64_t>(out.size()), cast_chunk, [&](std::int64_t begin, std::int64_t count) {
            constexpr std::int64_t block = 1 << 14;
            engine.pool.run((count + block - 1) / block, [&](std::int64_t b) {
                for (std::int64_t i = begin + b * block; i < begin + std::min(count, (b + 1) * block); ++i)
                    words[i] = random_bits(key, first + static_cast<std::uint64_t>(i));
            });
        });
    });
}

template <class Code>
void decode_as(const Format& format, const AnyArray& codes, const FloatsOut& out) {
    with_engine([&](Engine& engine) {
        in_chunks(static_cast<std::int64_t>(codes.size()), cast_chunk, [&](std::int64_t first, std::int64_t count) {
            decode_array(engine.simd, engine.pool, format, static_cast<const Code*>(codes.data()) + first,
                         out.data() + first, count);
        });
    });
}

void decode_into(const std::string& format, const AnyArray& codes, const FloatsOut& out) {
    require_equal(codes.size(), out.size());
    const Format f = format_named(format, "format", Exit::usage);
    switch (width_of(codes.dtype())) {
        case 1:
            return decode_as<std::uint8_t>(f, codes, out);
        case 2:
            return decode_as<std::uint16_t>(f, codes, out);
        case 4:
            return decode_as<std::uint32_t>(f, codes, out);
        default:
            bad_type("decode_into");
    }
}

}  // namespace

void add_casts(nb::module_& m) {
    nb::class_<ReadyCast>(m, "Cast", "A format, a rounding mode, the result of an overflow, and a scale.")
        .def_prop_ro(
            "format", [](const ReadyCast& cast) { return cast.format; }, "The format's name in macheps.")
        .def_prop_ro(
            "draws", [](const ReadyCast& cast) { return cast.cast.round == Round::stochastic; },
            "Whether the cast needs random words.")
        .def_prop_ro(
            "code_bits", [](const ReadyCast& cast) { return cast.cast.format.container_bits(); },
            "Bits of the container of a code.");
    m.def("cast", &ready_cast, nb::arg("format"), nb::arg("mode"), nb::arg("saturate"), nb::arg("scale"),
          nb::arg("profile"));
    m.def("round_into", &round_into, nb::arg("cast"), nb::arg("x").noconvert(), nb::arg("out").noconvert(),
          nb::arg("seed"), nb::arg("stream"), nb::arg("word"), nb::arg("counts"));
    m.def("encode_into", &encode_into, nb::arg("cast"), nb::arg("x").noconvert(), nb::arg("out").noconvert(),
          nb::arg("seed"), nb::arg("stream"), nb::arg("word"), nb::arg("counts"));
    m.def("random_words", &random_words_into, nb::arg("seed"), nb::arg("stream"), nb::arg("first"),
          nb::arg("out").noconvert());
    m.def("decode_into", &decode_into, nb::arg("format"), nb::arg("codes").noconvert(), nb::arg("out").noconvert());
}

}  // namespace macheps::python
