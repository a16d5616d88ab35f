// SPDX-License-Identifier: Apache-2.0
// `macheps convert`: converts raw arrays of numbers to codes and back, through standard input and output.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/profile_table.hpp"
#include "core/rng.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/rounding_option.hpp"
#include "experiments/cmd/frame/unheld.hpp"
#include "experiments/cmd/numbers/convert_scaled.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/npy.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::convert {

using namespace files;

static_assert(std::endian::native == std::endian::little, "raw arrays are little-endian");

namespace {

constexpr const char* help =
    "Converts raw arrays of numbers to codes of a format, or codes to numbers: stdin to stdout, any length.\n\n"
    "Examples:\n"
    "  macheps convert --to e4m3fn < x.f32 > codes.u8                 fp32 numbers to codes, nearest even\n"
    "  macheps convert --from e4m3fn --to fp32 < codes.u8 > x.f32     codes to numbers, exactly\n"
    "  macheps convert --from fp64 --to bf16 --round rz < x.f64       fp64 numbers, rounded once, toward zero\n"
    "  macheps convert --from fp16 --to e5m2 --profile mldtypes       as that library makes them (NaN, infinities)\n"
    "  macheps convert --to e4m3fnuz --profile onnx.24                as ONNX's Cast of opset 24, saturate = 1\n"
    "  macheps convert --to e2m1fn --refuse nan,inf                   fail at a NaN or an infinity, which fp4 lacks\n"
    "  macheps convert --to bf16 < x.npy > codes.npy                  an .npy file, of the same shape\n"
    "  macheps convert --to e4m3fn --scale-rule te_block --granularity 1x128 x.npy -o codes.npz     codes and "
    "scales\n\n"
    "Every value is little-endian, one after another, without a header: numpy's tofile and fromfile. A value takes "
    "its\n"
    "format's container: 1 byte for 8 bits and fewer (right-aligned), 2 for fp16 and bf16, 4 for fp32 and tf32, 8 for "
    "fp64.\n"
    "Any format converts to any other, with one rounding. With --round stochastic, element i takes the 32 bits of "
    "place "
    "i in\nthe stream of --seed.\n\n"
    "If the target format has no NaN, infinity, sign, zero or -0, a note on stderr counts the elements that had one "
    "and "
    "shows\nwhat the first of them became; --refuse makes that an error. What an implementation makes of them is a "
    "profile:\n`macheps formats --profiles` shows every profile in every format.\n\n"
    "An .npy file on stdin is recognised by its first bytes: its type says what --from would say (codes in integers "
    "need "
    "it),\n"
    "and stdout gets an .npy file of the same shape: float16, float32 and float64 for fp16, fp32, tf32 and fp64, else "
    "codes.\n\n"
    "With --granularity an array of fp32 numbers, rows by columns, becomes an .npz of arrays: `codes` of its shape, a "
    "byte\n"
    "each for formats of up to 8 bits; `scales`, the decode scales of the groups in fp32, as rows and columns of "
    "groups;\n"
    "`scale_codes` beside them where a scale is stored as a byte (e8m0, e4m3); `tensor_scale` of NVFP4; `decoded`, "
    "the\n"
    "values that codes and scales stand for, in fp32. They are the bits that a policy with this cast trains with.";

struct Arguments {
    std::string from, to, profile, round;
    std::vector<std::string> refuse;
    bool saturate = false;
    std::uint64_t seed = 0;
    ScaledConversion scaled;
};

/// The settings of a conversion. It converts one element at a time.
struct Conversion {
    Format from, to;
    bool has_profile;
    Profile profile;
    Round round;
    Overflow overflow;
    RngKey key;
    PropertySet refused;

    std::uint64_t operator()(std::uint64_t container, std::uint64_t element) const {
        const RandomBits random{.value = round == Round::stochastic ? random_bits(key, element) : 0, .bits = 32};
        // fp32 and fp64 numbers are encoded with the payload of a NaN, which some profiles keep.
        if (from == fp32) return encoded(bit_cast<float>(static_cast<std::uint32_t>(container)), random);
        if (from == fp64) return encoded(bit_cast<double>(container), random);
        // Numbers of narrower formats go through fp32, as in libraries. fp32 holds each of them exactly.
        return encoded(decode(from, container), random);
    }

  private:
    template <class Source>
    std::uint64_t encoded(Source x, RandomBits random) const {
        if (has_profile) return encode64(profile, to, x, round, random);
        return encode64(to, x, round, overflow, random);
    }
};

/// Reads the next bytes of stdin: `most`, or fewer if it ends before.
std::string read_some(std::size_t most) {
    std::string bytes(most, '\0');
    bytes.resize(std::fread(bytes.data(), 1, most, stdin));
    if (std::ferror(stdin) == 0) return bytes;
    throw Error({.what = fmt::format("cannot read: {}", std::strerror(errno)), .where = "standard input"});
}

/// Converts the whole elements in `in`. `element` is the index of the first one.
std::string converted(const Conversion& convert, const std::string& in, std::uint64_t element, UnheldCounts& unheld) {
    const std::size_t in_bytes = element_bytes(convert.from), out_bytes = element_bytes(convert.to);
    std::string out(in.size() / in_bytes * out_bytes, '\0');
    for (std::size_t i = 0; i < in.size() / in_bytes; ++i) {
        std::uint64_t container = 0;
        std::memcpy(&container, in.data() + i * in_bytes, in_bytes);
        const std::uint64_t code = convert(container, element + i);
        unheld.see(decode64(convert.from, container), element + i, code);
        std::memcpy(out.data() + i * out_bytes, &code, out_bytes);
    }
    return out;
}

/// Returns NumPy's type for a format's values, or for its codes.
std::string npy_type(const Format& format) {
    const std::size_t bytes = element_bytes(format);
    const bool is_float = format == fp16 || format == fp32 || format == tf32 || format == fp64;
    return fmt::format("{}{}{}", bytes == 1 ? '|' : '<', is_float ? 'f' : 'u', bytes);
}

Exit convert_npy(Conversion convert, const Arguments& a, const std::string& bytes) {
    const StoredArray array = parse_npy(bytes, "x", "standard input");
    if (a.from.empty() && !array.format) {
        throw Error({.what = fmt::format("elements of type {} may be codes of any format", array.type),
                     .where = "standard input",
                     .fix = "name it with --from",
                     .exit = Exit::usage});
    }
    if (a.from.empty()) convert.from = *array.format;
    const bool is_other =
        array.format && !(*array.format == convert.from) && !(convert.from == tf32 && *array.format == fp32);
    if (is_other || array.width != element_bytes(convert.from)) {
        throw Error({.what = fmt::format("the file's elements are of type {}, not {}", array.type, a.from),
                     .where = "standard input",
                     .fix = "leave out --from, or name the format of the file's codes"});
    }
    UnheldCounts unheld(convert.to, convert.refused);
    const std::string header = npy_header(npy_type(convert.to), array.shape),
                      codes = converted(convert, array.bytes, 0, unheld);
    print_bytes(header.data(), header.size());
    print_bytes(codes.data(), codes.size());
    unheld.tell_notes();
    return Exit::ok;
}

Exit run(const Command& verb, const Arguments& a) {
    const Format to = format_named(a.to, "--to", Exit::usage);
    const PropertySet refused = refused_properties(a.refuse);
    if (a.scaled.is_asked(verb)) {
        return a.scaled.run(verb, to, a.round.empty() ? Round::nearest_even : round_named(a.round), a.seed, refused);
    }
    Profile profile;
    if (!a.profile.empty()) {
        const NamedProfile& row = profile_row(a.profile, "--profile", Exit::usage);
        require_format(row, to, "--profile", Exit::usage);
        profile = row.profile;
    }
    const Conversion convert{.from = format_named(a.from.empty() ? "fp32" : a.from, "--from", Exit::usage),
                             .to = to,
                             .has_profile = !a.profile.empty(),
                             .profile = profile,
                             .round = a.round.empty() ? profile.default_round(to) : round_named(a.round),
                             .overflow = a.saturate ? Overflow::saturate : Overflow::nonsaturate,
                             .key = {a.seed, 0, site_id("convert")},
                             .refused = refused};
    if (isatty(STDOUT_FILENO) != 0) {
        throw Error({.what = "raw bytes are no text for a terminal",
                     .where = "standard output",
                     .fix = "send them to a file or a program: > codes.bin (macheps show prints single numbers)",
                     .exit = Exit::usage});
    }
    const std::size_t in_bytes = element_bytes(convert.from);
    constexpr std::size_t piece = std::size_t{1} << 19;  // bytes, of whole elements
    std::uint64_t element = 0;
    UnheldCounts unheld(to, refused);
    for (;;) {
        std::string in = read_some(piece);
        if (element == 0 && in.starts_with(npy_magic)) {
            while (std::feof(stdin) == 0) in += read_some(piece);
            return convert_npy(convert, a, in);
        }
        if (in.size() % in_bytes != 0) {
            throw Error({.what = fmt::format("{} bytes are no whole number of {} values of {} bytes",
                                             element * in_bytes + in.size(), format_name(convert.from), in_bytes),
                         .where = "standard input",
                         .fix = "name what the bytes are with --from"});
        }
        const std::string out = converted(convert, in, element, unheld);
        print_bytes(out.data(), out.size());
        element += in.size() / in_bytes;
        if (in.size() < piece) break;
    }
    unheld.tell_notes();
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.option("--from", a->from, "What stdin holds (macheps formats); fp32, or what an .npy file says, when left out")
        .takes(value_kind::format);
    verb.option("--to", a->to, "What stdout gets").takes(value_kind::format).required();
    verb.option("-r,--round", a->round,
                "nearest_even, nearest_away, toward_zero, up, down, to_odd, stochastic; or rne, rna, rz, ru, rd, ro, "
                "sr. Without it: nearest_even, or the rounding of the profile for e8m0fnu")
        .takes("ROUND:{nearest_even,nearest_away,toward_zero,up,down,to_odd,stochastic}");
    const Option saturate = verb.flag("-s,--saturate", a->saturate, "Hold an overflow at the largest finite value");
    verb.option("--profile", a->profile,
                "NaN, infinities and overflow as an implementation has them: ieee, cuda_sat, cuda_nosat, ptx, "
                "mldtypes, mldtypes_sat, torch_legacy, torch_sat, onnx.24, onnx.24.nosat, ... (macheps formats "
                "--profiles); by IEEE 754 and OCP when left out")
        .excludes(saturate);
    verb.integer("--seed", a->seed, seed_limits, "Of the random bits for --round stochastic").shows_default();
    add_refuse_option(verb, a->refuse);
    a->scaled.add_options(verb);
    verb.runs([a, &verb] { return run(verb, *a); });
}

}  // namespace

const VerbRow verb{"convert", help, describe};

}  // namespace macheps::cmd::convert
