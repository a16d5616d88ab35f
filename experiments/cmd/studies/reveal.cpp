// SPDX-License-Identifier: Apache-2.0
// `macheps reveal`: finds the order of a summation from its results.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/host/memory_limit.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/matmul/machine_spelling.hpp"
#include "emulation/matmul/reveal_control.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/files/arrays/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace macheps::cmd::reveal {

using namespace files;

namespace {

constexpr const char* help =
    R"(Finds the order in which a matrix product adds its terms, as a tree, from its results alone (FPRev).

Examples:
  macheps reveal                                       Hopper's fp8 wgmma: 33 terms in one rounding
  macheps reveal --machine sm90.wgmma.fp8+promote128 -k 512
  macheps reveal --machine fp32.pairwise -k 16 --tree
  macheps reveal --machine pairwise:bf16 -k 16 --brackets
  macheps reveal --machine sm80.mma.fp16 -k 64 --dot | dot -Tsvg > tree.svg
  macheps reveal -f fp16 -k 64 --emit-operands x.npy   write operands for your own kernel ...
  macheps reveal -f fp16 -k 64 --results out.npy       ... and find the tree from its results)";

constexpr const char* notes = R"(Method:
  One of the k products is +M, one is -M, and each of the others is a unit too small to change M.
  The result counts the units that were added after +M and -M cancelled. Pairs of terms that are
  1, 2, 4, 8 ... apart (about k log2 k of them) determine the tree. If they leave something open,
  further pairs are measured.
  A step s1 = 0-31 adds terms 0 to 31 and nothing else. s2 = s1 + 32-63 adds those terms and s1 in
  one rounding. The method does not find the rounding mode, the order within a step, or
  compensation. If the sum is still exact when +M and -M meet, no tree can be found.

Operands for your own kernel:
  The option --emit-operands writes an .npy file of fp32 numbers with shape [2, rows, k]. x[0] has
  rows of a, x[1] has columns of b, and all numbers can be represented in --format. The first 1 +
  ceil(log2 k) rows are control rows, which have only units: first at all terms, then at the terms
  whose index has the binary digit 1, 2, 4, ... They detect a kernel that returns zeros, leaves
  out a term or reads a term twice. The pairs (i, j) with i < j follow, sorted by i and then by j.
  The option --pairs selects the pairs. near is enough for kernels that add neighbours, or terms a
  power of two apart. If it is not enough, --results reports what is still open. all determines
  every tree. first is enough for a chain of single terms.

Results of your own kernel:
  Compute out[r], the sum of x[0,r] x[1,r] over k, with your kernel, in fp32 or in the format
  of --accumulator. Use the same element of an output for every r, because kernels add in different
  orders at edges and in different tiles. If that does not matter, compute all rows in one product:
  for fp32, tf32, bf16 and fp16, x[1] is 1 everywhere; for other formats, take the diagonal.
  The option --results reads out, with shape [rows] or [rows, rows] (it uses the diagonal), from
  .npy (fp16, fp32, fp64) or from text. Pass the same -k, --format, --accumulator and --pairs.

JSON:
  {"source", "format_a", "format_b", "terms", "probes", "depth", "chain", "balanced", "blocks":
  [terms], "ways": {children: sums}, "sums": [[children], ...], "unverified", "open_pairs"}
  A child below `terms` is a term, and a child terms + i is sums[i]. `blocks` is not empty if the
  sum is a chain of blocks that are chains themselves.

Exit codes:
  1  the results do not belong to any tree, or to a sum of all terms
  2  the range of the format is too small for that many terms, or the operands take more than 1 GB without --force
  3  the results cannot be read)";

struct Arguments {
    std::string machine = "sm90.wgmma.fp8", format, accumulator = "fp32", operands, results, pairs = "near";
    int terms = 128;
    bool tree = false, brackets = false, dot = false, json = false, force = false;
};

constexpr int max_terms = 1 << 14;
constexpr double max_bytes = 1e9;  // limit for a file of operands without --force

std::pair<Format, Format> formats_named(const std::string& text) {
    const std::size_t colon = text.find(':');
    const Format a = format_named(text.substr(0, colon), "--format", Exit::usage);
    return {a, colon == std::string::npos ? a : format_named(text.substr(colon + 1), "--format", Exit::usage)};
}

/// Returns the first format of all_formats, except fp64, that the machine accepts.
Format natural_format(const Machine& machine) {
    for (const NamedFormat& row : all_formats) {
        if (row.format != fp64 && machine.operands.contains(row.format)) return row.format;
    }
    throw usage_error("this machine accepts only fp64 operands, but this command stores operands in fp32",
                      std::string(machine.name), "use another machine");
}

RevealLimits limits_of(const std::string& accumulator) {
    if (accumulator == "fp16") {
        return {.precision = 11, .largest_exponent = 15, .min_exponent = -24};
    }
    if (accumulator == "bf16") return {.precision = 8};
    return {};
}

std::vector<TermPair> pairs_of(const Arguments& a) {
    if (a.pairs == "near") return near_pairs(a.terms);
    std::vector<TermPair> pairs;
    for (int i = 0; i < (a.pairs == "first" ? 1 : a.terms - 1); ++i) {
        for (int j = i + 1; j < a.terms; ++j) pairs.emplace_back(i, j);
    }
    return pairs;
}

std::string size_text(double bytes) {
    return bytes < 1e6   ? fmt::format("{:.0f} kB", std::max(bytes / 1e3, 1.0))
           : bytes < 1e9 ? fmt::format("{:.0f} MB", bytes / 1e6)
                         : fmt::format("{:.1f} GB", bytes / 1e9);
}

Exit emit(const Arguments& a, const RevealOperands& operands) {
    const std::int64_t k = a.terms, controls = control_rows(a.terms),
                       pair_count = a.pairs == "all"     ? k * (k - 1) / 2
                                    : a.pairs == "first" ? k - 1
                                                         : static_cast<std::int64_t>(near_pairs(a.terms).size()),
                       rows = controls + pair_count;
    const double bytes = 2.0 * 4.0 * static_cast<double>(rows) * static_cast<double>(k);
    const std::string size = fmt::format("{} rows ({} controls and {} pairs) of {} terms, {}", rows, controls,
                                         pair_count, k, size_text(bytes));
    if (bytes > max_bytes && !a.force) {
        throw usage_error("the operands are too large: " + size, "--emit-operands",
                          fmt::format("use fewer terms (a few hundred show the order){}, or add --force",
                                      a.pairs == "all" ? ", or --pairs near" : ""));
    }
    require_memory(bytes, std::nullopt, "the operands");
    eprint("writing {}: {}\n", a.operands, size);
    const std::vector<TermPair> pairs = pairs_of(a);
    const std::size_t half = static_cast<std::size_t>(rows * k);
    std::vector<float> values(2 * half);
    for (std::int64_t row = 0; row < rows; ++row) {
        float *left = &values[static_cast<std::size_t>(row * k)], *right = left + half;
        if (row < controls) {
            fill_control(operands, a.terms, static_cast<int>(row), left, right);
        } else {
            operands.fill(a.terms, pairs[static_cast<std::size_t>(row - controls)], left, right);
        }
    }
    write_npy(a.operands, values, {2, rows, k});
    eprint("wrote {}: M = {:g}, u = {:g}, b {}\n", a.operands, operands.mask_a * double{operands.mask_b},
           operands.unit(),
           operands.mask_b == 1 && operands.unit_b == 1 ? "is 1 everywhere" : "varies: take the diagonal");
    return Exit::ok;
}

/// A kernel's results for the control rows, and the sizes that its results for the pairs of terms give. The size of a
/// pair is the number of terms in the smallest partial sum that contains both terms.
struct KernelResults {
    std::vector<double> controls{};
    std::vector<TermPair> pairs{};
    std::vector<int> sizes{};
};

KernelResults read_results(const Arguments& a, const RevealOperands& operands) {
    const std::vector<double> results = read_numbers(a.results);
    const auto controls = static_cast<std::size_t>(control_rows(a.terms));
    KernelResults read{.pairs = pairs_of(a)};
    const std::size_t count = controls + read.pairs.size();
    if (results.size() != count && results.size() != count * count) {
        throw Error(
            {.what = fmt::format("the file has {} results", results.size()),
             .where = a.results,
             .fix = fmt::format("for {} terms there are {} control rows and {} pairs with --pairs {}: pass one result "
                                "for each, or a square matrix of them (its diagonal is used)",
                                a.terms, controls, read.pairs.size(), a.pairs)});
    }
    const std::size_t step = results.size() == count ? 1 : count + 1;
    // Results may be decimals with nine digits. Each decimal is converted to the nearest fp32 number.
    const auto result = [&](std::size_t row) { return static_cast<float>(results[row * step]); };
    for (std::size_t row = 0; row < controls; ++row) read.controls.push_back(result(row));
    check_controls(operands, a.terms, read.controls);
    for (std::size_t p = 0; p < read.pairs.size(); ++p)
        read.sizes.push_back(operands.size_of(a.terms, read.pairs[p], result(controls + p)));
    return read;
}

FoundTree tree_of_results(const Arguments& a, const RevealOperands& operands) {
    const KernelResults read = read_results(a, operands);
    FoundTree found = tree_of_pairs(a.terms, read.pairs, read.sizes);
    if (found.gap.empty() && (found.open.empty() || a.pairs == "near")) return found;
    if (a.pairs == "all") throw no_tree(found.gap);
    const std::string open =
        found.gap.empty() ? fmt::format("it is not known whether terms {} and {} are added together before other terms",
                                        found.open[0].pair.first, found.open[0].pair.second)
                          : found.gap;
    throw Error({.what = fmt::format("the measured pairs are not enough: {}", open),
                 .where = a.results,
                 .fix = "emit and measure all pairs: --pairs all",
                 .exit = Exit::check_failed});
}

struct Revealed {
    SumTree tree;
    std::string source, unverified{};
    Format a, b;
    std::size_t open = 0;  ///< number of pairs that were not measured (FoundTree::open)
};

/// Reveals the tree of an order of summation by sums in the format of the order. The operands (masks and units, see
/// RevealOperands) are chosen in the same way as for a machine.
Revealed of_order(const Arguments& arguments, const SpelledRule& spelled) {
    const SumOrder& order = *spelled.order;
    if (order.round != Round::nearest_even && order.round != Round::nearest_away) {
        throw usage_error("the method needs sums that are rounded to nearest", spelled.name,
                          "leave out the rounding: it does not change the order");
    }
    const auto [a, b] =
        arguments.format.empty() ? std::pair{order.format, order.format} : formats_named(arguments.format);
    const Format& f = order.format;
    const RevealLimits limits{.vanishing_bits = f.precision + 1,
                              .precision = f.precision,
                              .largest_exponent = std::min(60, std::ilogb(decode(f, f.max_finite_code() << f.padding))),
                              .min_exponent = std::max(-120, f.emin() - f.fraction_bits())};
    const RevealOperands operands = reveal_operands(a, b, arguments.terms, limits);
    const PairSizes sizes = [&](std::span<const TermPair> pairs) {
        std::vector<int> list;
        std::vector<float> left(static_cast<std::size_t>(arguments.terms)), right(left.size());
        std::vector<double> products(left.size());
        for (const TermPair& pair : pairs) {
            operands.fill(arguments.terms, pair, left.data(), right.data());
            for (std::size_t i = 0; i < left.size(); ++i) products[i] = double{left[i]} * double{right[i]};
            list.push_back(operands.size_of(arguments.terms, pair, order.sum(products, {}, 0)));
        }
        return list;
    };
    Revealed out{.tree = reveal_tree(arguments.terms, sizes), .source = spelled.name, .a = a, .b = b};
    verify_tree(out.tree, sizes, 4096);
    return out;
}

Revealed of_machine(const Arguments& arguments) {
    const SpelledRule spelled = parse_machine(arguments.machine);
    if (spelled.order) return of_order(arguments, spelled);
    const Format natural = natural_format(*spelled.rule.machine);
    const auto [a, b] = arguments.format.empty() ? std::pair{natural, natural} : formats_named(arguments.format);
    Revealed out{.tree = {}, .source = spelled.name, .a = a, .b = b};
    try {
        out.unverified = check_matmul_rule(spelled.rule, {.a = a, .b = b}, spelled.name, spelled.named);
    } catch (const Error& error) {
        Error::Parts parts = error.parts();
        parts.exit = Exit::usage;
        throw Error(std::move(parts));
    }
    CpuBackend backend(1);
    const PairSizes sizes = matmul_pair_sizes(backend, spelled.rule, a, b, arguments.terms);
    out.tree = reveal_tree(arguments.terms, sizes);
    verify_tree(out.tree, sizes, 4096);
    return out;
}

void print_tree(const Arguments& a, const Revealed& r) {
    const std::string formats =
        r.a == r.b ? std::string(format_name(r.a)) : fmt::format("{} times {}", format_name(r.a), format_name(r.b));
    if (a.json) {
        Json ways = Json::object();
        for (const auto& [way, count] : r.tree.ways()) ways[std::to_string(way)] = count;
        print_json({{"source", r.source},
                    {"format_a", format_name(r.a)},
                    {"format_b", format_name(r.b)},
                    {"terms", r.tree.terms},
                    {"probes", r.tree.probes},
                    {"depth", r.tree.depth()},
                    {"chain", r.tree.is_chain()},
                    {"balanced", r.tree.is_balanced()},
                    {"blocks", r.tree.blocks()},
                    {"ways", ways},
                    {"sums", r.tree.sums},
                    {"unverified", r.unverified},
                    {"open_pairs", r.open}});
        return;
    }
    const std::string open = r.open == 0 ? ""
                                         : fmt::format(
                                               "the tree fits the measured pairs, but is not certain: where three or "
                                               "more values are rounded together, "
                                               "{} pair{} not measured (use --pairs all)\n",
                                               r.open, r.open == 1 ? " was" : "s were");
    if (!open.empty() && (a.dot || a.brackets)) eprint_text(open);
    if (a.dot) {
        print_text(tree_dot(r.tree, fmt::format("{}, {}, k = {}", r.source, formats, r.tree.terms)));
        return;
    }
    if (a.brackets) {
        print_text(tree_brackets(r.tree));
        return;
    }
    print("{}, {}\n", r.source, formats);
    print_text(tree_summary(r.tree) + "\n");
    if (!r.unverified.empty()) print("unverified: {}\n", r.unverified);
    print_text(open);
    print_text("\n" + (a.tree ? tree_indented(r.tree) : tree_steps(r.tree)));
}

Exit reveal(const Arguments& a) {
    if (a.operands.empty() && a.results.empty()) {
        print_tree(a, of_machine(a));
        return Exit::ok;
    }
    if (a.format.empty())
        throw usage_error("the format is missing", "--format", "pass the format of your kernel's operands");
    const auto [left, right] = formats_named(a.format);
    const RevealOperands operands = reveal_operands(left, right, a.terms, limits_of(a.accumulator));
    if (!a.operands.empty()) return emit(a, operands);
    FoundTree found = tree_of_results(a, operands);
    print_tree(a,
               {.tree = std::move(found.tree), .source = a.results, .a = left, .b = right, .open = found.open.size()});
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.group("Sum");
    const Option machine =
        verb.option("-M,--machine,--gpu", a->machine,
                    "Machine, rule or ORDER:FORMAT, as for `macheps gemm`: NAME[+promoteN][+slicesN]")
            .takes("NAME")
            .shows_default();
    verb.integer("-k,--terms", a->terms, {1, max_terms}, "Number of terms of the sum").shows_default();
    verb.option("-f,--format", a->format,
                "Format of the operands, or A:B if a and b differ. Default: the machine's widest format")
        .takes(value_kind::format);
    verb.group("Your own kernel");
    Option emit_operands =
        verb.option("--emit-operands", a->operands,
                    "Write operands for your own kernel to this file. Default: run a machine instead")
            .takes(value_kind::file);
    Option results = verb.option("--results", a->results,
                                 "Read the results of your kernel from this file. Default: run a machine instead")
                         .takes(value_kind::file);
    verb.option("--accumulator", a->accumulator, "Format in which the kernel adds and returns its results")
        .one_of({"fp32", "fp16", "bf16"})
        .shows_default();
    verb.option("--pairs", a->pairs,
                "Pairs of terms to measure. near: terms that are 1, 2, 4, 8 ... apart. all: all pairs. "
                "first: pairs with term 0")
        .one_of({"near", "all", "first"})
        .shows_default();
    verb.flag("--force", a->force, "Write the operands even if they take more than 1 GB").needs(emit_operands);
    emit_operands.excludes(results).excludes(machine);
    results.excludes(machine);
    verb.group("Output");
    Option tree = verb.flag("--tree", a->tree, "Print the tree indented, the root first");
    Option brackets = verb.flag("--brackets", a->brackets, "Print the tree as nested brackets, on one line");
    Option dot = verb.flag("--dot", a->dot, "Print the tree as Graphviz text");
    const Option json = verb.flag("--json", a->json, "Print the tree as JSON");
    tree.excludes(brackets).excludes(dot).excludes(json);
    brackets.excludes(dot).excludes(json);
    dot.excludes(json);
    verb.runs([a] { return reveal(*a); });
}

}  // namespace

const VerbRow verb{"reveal", help, describe, notes};

}  // namespace macheps::cmd::reveal
