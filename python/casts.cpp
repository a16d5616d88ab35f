// SPDX-License-Identifier: Apache-2.0
// Rounding, encoding, decoding: the outputs are the caller's arrays, which NumPy makes faster than a module does.
#include "core/float_environment.hpp"
#include "core/format_table.hpp"
#include "core/rounding_names.hpp"
#include "emulation/cpu/ops/cast64.hpp"
#include "emulation/cpu/ops/codes.hpp"
#include "python/engine.hpp"
#include "python/rooms.hpp"

#include <nanobind/stl/string.h>

#include <functional>
#include <string>
#include <type_traits>

namespace macheps::python {

namespace {

/// A cast that has been named: a keyword call looks it up once.
struct ReadyCast {
    Cast cast{};
    double scale = 1;  ///< of fp64 numbers; cast.encode_scale is it in fp32
    std::string format{};
};

Round round_of(const std::string& name) {
    std::string names;
    for (const RoundName& row : round_names) {
        if (name == row.name || name == row.acronym) return row.value;
        names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
    throw Error({.what = "'" + name + "' is no rounding mode", .where = "mode", .fix = "one of " + names,
                 .exit = Exit::usage});
}

ReadyCast ready_cast(const std::string& format, const std::string& mode, bool saturate, double scale) {
    const Format f = format_named(format, "format", Exit::usage);
    return {.cast = {.format = f,
                     .round = round_of(mode),
                     .overflow = saturate ? Overflow::saturate : Overflow::nonsaturate,
                     .encode_scale = static_cast<float>(scale)},
            .scale = scale,
            .format = std::string(format_name(f))};
}

/// The random words are those of `macheps convert` with this seed, in stream 0.
Cast with_key(const ReadyCast& ready, std::uint64_t seed, std::uint32_t stream) {
    Cast cast = ready.cast;
    if (cast.round == Round::stochastic) cast.key = {seed, stream, site_id("convert")};
    return cast;
}

nb::object tuple_of(const Tally& t, double amax, double amin_nz) {
    return nb::make_tuple(t.count, t.nan_in, t.inf_in, t.zero_in, t.underflow, t.to_subnormal, t.overflow, t.saturated,
                          amax, amin_nz);
}

/// Counts of both kinds of source.
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
    throw Error({.what = std::to_string(out) + " outputs for " + std::to_string(x) + " elements",
                 .where = "out",
                 .fix = "give an array of the input's shape",
                 .exit = Exit::usage});
}

[[noreturn]] void bad_type(std::string where) {
    throw Error({.what = "elements of a type that the module has no word for",
                 .where = std::move(where),
                 .fix = "call the functions of the package macheps, which convert",
                 .exit = Exit::usage});
}

template <class T>
bool is(const nb::dlpack::dtype& type) {
    return type == nb::dtype<T>();
}

/// Element sizes of a type whose bits are what matters.
std::size_t width_of(const nb::dlpack::dtype& type) { return type.lanes == 1 ? type.bits / 8u : 0; }

/// Up to so many elements are rounded with the interpreter in hand.
constexpr std::int64_t few = 1024;

nb::object round_into(const ReadyCast& ready, const AnyArray& x, const AnyOutput& out, std::uint64_t seed,
                      std::uint32_t stream, bool counts) {
    require_equal(x.size(), out.size());
    const Cast cast = with_key(ready, seed, stream);
    const auto n = static_cast<std::int64_t>(x.size());
    Counts made{.is_wide = is<double>(x.dtype())};
    if (!(x.dtype() == out.dtype()) || !(made.is_wide || is<float>(x.dtype()))) bad_type("round_into");
    const auto work = [&](Engine& engine) {
        in_chunks(n, cast_chunk, [&](std::int64_t first, std::int64_t count) {
            if (made.is_wide) {
                cast_array64(engine.simd, engine.pool, static_cast<const double*>(x.data()) + first,
                             static_cast<double*>(out.data()) + first, count, cast, ready.scale,
                             counts ? &made.wide : nullptr, first);
            } else {
                cast_array(engine.simd, engine.pool, static_cast<const float*>(x.data()) + first,
                           static_cast<float*>(out.data()) + first, count, cast, counts ? &made.narrow : nullptr, first);
            }
        });
    };
    n <= few ? with_engine_at_once(std::cref(work)) : with_engine(std::cref(work));
    return counts ? made.tuple() : nb::none();
}

template <class Code>
void encode_as(const ReadyCast& ready, const Cast& cast, const AnyArray& x, const AnyOutput& out, Counts* counts) {
    const auto n = static_cast<std::int64_t>(x.size());
    const bool is_wide = is<double>(x.dtype());
    with_engine([&](Engine& engine) {
        in_chunks(n, cast_chunk, [&](std::int64_t first, std::int64_t count) {
            Code* codes = static_cast<Code*>(out.data()) + first;
            if (is_wide) {
                encode_array64(engine.simd, engine.pool, static_cast<const double*>(x.data()) + first, codes, count, cast,
                               ready.scale, counts != nullptr ? &counts->wide : nullptr, first);
            } else if constexpr (!std::is_same_v<Code, std::uint64_t>) {
                encode_array(engine.simd, engine.pool, static_cast<const float*>(x.data()) + first, codes, count, cast,
                             counts != nullptr ? &counts->narrow : nullptr, first);
            }
        });
    });
}

nb::object encode_into(const ReadyCast& ready, const AnyArray& x, const AnyOutput& out, std::uint64_t seed,
                       std::uint32_t stream, bool counts) {
    require_equal(x.size(), out.size());
    const Cast cast = with_key(ready, seed, stream);
    Counts made{.is_wide = is<double>(x.dtype())};
    Counts* into = counts ? &made : nullptr;
    if (!made.is_wide && !is<float>(x.dtype())) bad_type("encode_into");
    switch (width_of(out.dtype())) {
        case 1: encode_as<std::uint8_t>(ready, cast, x, out, into); break;
        case 2: encode_as<std::uint16_t>(ready, cast, x, out, into); break;
        case 4: encode_as<std::uint32_t>(ready, cast, x, out, into); break;
        case 8:
            if (!made.is_wide) bad_type("encode_into");  // the wrapper makes fp64 numbers of those for fp64 codes
            encode_as<std::uint64_t>(ready, cast, x, out, into);
            break;
        default: bad_type("encode_into");
    }
    return counts ? made.tuple() : nb::none();
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
        case 1: return decode_as<std::uint8_t>(f, codes, out);
        case 2: return decode_as<std::uint16_t>(f, codes, out);
        case 4: return decode_as<std::uint32_t>(f, codes, out);
        default: bad_type("decode_into");
    }
}

}  // namespace

void add_casts(nb::module_& m) {
    nb::class_<ReadyCast>(m, "Cast", "A format, a rounding mode, what an overflow becomes, and a scale.")
        .def_prop_ro("format", [](const ReadyCast& cast) { return cast.format; }, "The format's name in macheps.")
        .def_prop_ro("code_bits", [](const ReadyCast& cast) { return cast.cast.format.container_bits(); },
                     "Bits of the container of a code.");
    m.def("cast", &ready_cast, nb::arg("format"), nb::arg("mode"), nb::arg("saturate"), nb::arg("scale"));
    m.def("round_into", &round_into, nb::arg("cast"), nb::arg("x").noconvert(), nb::arg("out").noconvert(),
          nb::arg("seed"), nb::arg("stream"), nb::arg("counts"));
    m.def("encode_into", &encode_into, nb::arg("cast"), nb::arg("x").noconvert(), nb::arg("out").noconvert(),
          nb::arg("seed"), nb::arg("stream"), nb::arg("counts"));
    m.def("decode_into", &decode_into, nb::arg("format"), nb::arg("codes").noconvert(), nb::arg("out").noconvert());
}

}  // namespace macheps::python
