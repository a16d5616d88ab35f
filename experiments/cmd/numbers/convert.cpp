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
    R"(Converts raw arrays of numbers to codes of a format, or back, from stdin to stdout, at any length.

Examples:
  macheps convert --to e4m3fn < x.f32 > codes.u8               fp32 to codes, to nearest even
  macheps convert --from e4m3fn --to fp32 < codes.u8 > x.f32  codes to fp32 numbers, exactly
  macheps convert --from fp64 --to bf16 --round rz < x.f64    rounded once, toward zero
  macheps convert --from fp16 --to e5m2 --profile mldtypes    as that library does
  macheps convert --to e2m1fn --refuse nan,inf                fail at a NaN or an infinity
  macheps convert --to bf16 < x.npy > codes.npy               an .npy file, with the same shape
  macheps convert --to e4m3fn --scale-rule te_block --granularity 1x128 x.npy -o codes.npz)";

constexpr const char* notes = R"(More examples:
  macheps convert --to e4m3fnuz --profile onnx.24              as ONNX's Cast of opset 24, saturate = 1

Values:
  The values are little-endian, one after another, without a header, as in NumPy's tofile and
  fromfile. Each value takes the container of its format: 1 byte for 8 bits or fewer
  (right-aligned), 2 for fp16 and bf16, 4 for fp32 and tf32, 8 for fp64. Any format converts to
  any other, with one rounding. With --round stochastic, element i uses 32 random bits at position
  i of the stream of --seed.

Properties that a format lacks:
  If the target format has no NaN, infinity, sign, zero or -0, a note on stderr counts the
  elements with such a property and shows what the first of them became. --refuse makes this an
  error. A profile describes how an implementation converts such elements: `macheps
  formats --profiles` shows every profile in every format.

.npy files:
  An .npy file on stdin is recognised by its first bytes. Its type replaces --from, but codes that
  are stored as integers still need --from. stdout then gets an .npy file of the same shape:
  float16, float32 or float64 for fp16, fp32, tf32 and fp64, and codes for other formats.

Codes and scales (--granularity):
  An array of fp32 numbers (rows by columns) becomes an .npz file of these arrays:
  codes         the shape of the input, one byte each for formats of up to 8 bits
  scales        the decode scales of the groups in fp32, as rows and columns of groups
  scale_codes   if a scale is stored as a byte (e8m0, e4m3)
  tensor_scale  for NVFP4
  decoded       the values of the codes and scales, in fp32
  These are the bits that training uses under a policy with this cast.)";

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
        // Numbers in fp32 and fp64 are encoded directly, so that a NaN keeps its payload. Some profiles copy it to the
        // code.
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

/// Reads the next `most` bytes of stdin, or fewer if stdin ends first.
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
        unheld.observe(decode64(convert.from, container), element + i, code);
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
        throw Error({.what = fmt::format("elements of type {} can be codes of any format", array.type),
                     .where = "standard input",
                     .fix = "give the format with --from",
                     .exit = Exit::usage});
    }
    if (a.from.empty()) convert.from = *array.format;
    const bool is_other =
        array.format && !(*array.format == convert.from) && !(convert.from == tf32 && *array.format == fp32);
    if (is_other || array.width != element_bytes(convert.from)) {
        throw Error({.what = fmt::format("the elements of the file have type {}, not {}", array.type, a.from),
                     .where = "standard input",
                     .fix = "leave out --from, or give the format of the codes in the file"});
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
        throw Error(
            {.what = "raw bytes cannot be printed on a terminal",
             .where = "standard output",
             .fix = "send them to a file or a program: > codes.bin; to print single numbers, use `macheps show`",
             .exit = Exit::usage});
    }
    const std::size_t in_bytes = element_bytes(convert.from);
    constexpr std::size_t piece = std::size_t{1} << 19;  // in bytes; consists of whole elements
    std::uint64_t element = 0;
    UnheldCounts unheld(to, refused);
    for (;;) {
        std::string in = read_some(piece);
        if (element == 0 && in.starts_with(npy_magic)) {
            while (std::feof(stdin) == 0) in += read_some(piece);
            return convert_npy(convert, a, in);
        }
        if (in.size() % in_bytes != 0) {
            throw Error({.what = fmt::format("{} bytes are not a whole number of {} values of {} bytes",
                                             element * in_bytes + in.size(), format_name(convert.from), in_bytes),
                         .where = "standard input",
                         .fix = "give the format of the bytes with --from"});
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
    verb.group("Conversion");
    verb.option("--to", a->to, "Format of the values on stdout").takes(value_kind::format).required();
    verb.option("--from", a->from,
                "Format of the values on stdin (see macheps formats). Default: fp32, or the type of an .npy file")
        .takes(value_kind::format);
    verb.option("-r,--round", a->round,
                "Rounding mode. The acronyms rne, rna, rz, ru, rd, ro and sr are the same modes in this order. "
                "Default: nearest_even, or the profile's mode for e8m0fnu")
        .takes("ROUND:{nearest_even,nearest_away,toward_zero,up,down,to_odd,stochastic}");
    const Option saturate = verb.flag("-s,--saturate", a->saturate, "Replace an overflow by the largest finite value");
    verb.option("--profile", a->profile,
                "Treat NaN, infinities and overflow as an implementation does. "
                "Some profiles: ieee, cuda_sat, ptx, mldtypes, torch_sat, onnx.24 (see macheps formats --profiles). "
                "Default: as IEEE 754 and OCP do")
        .excludes(saturate);
    verb.integer("--seed", a->seed, seed_limits, "Seed of the random bits for --round stochastic").shows_default();
    add_refuse_option(verb, a->refuse);
    verb.group("Codes and scales of an .npy file");
    a->scaled.add_options(verb);
    verb.runs([a, &verb] { return run(verb, *a); });
}

}  // namespace

const VerbRow verb{"convert", help, describe, notes};

}  // namespace macheps::cmd::convert
