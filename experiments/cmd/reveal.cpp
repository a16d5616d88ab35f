// SPDX-License-Identifier: Apache-2.0
// `macheps reveal`: the order in which a sum is made, from its results.
#include "emulation/matmul/reveal.hpp"
#include "core/format_table.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/json.hpp"
#include "experiments/cmd/tell.hpp"
#include "experiments/files/npy.hpp"
#include "experiments/numerics/machine_spelling.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

namespace macheps {

namespace {

constexpr const char* help =
    R"(The order in which a matrix product adds its terms, as a tree, from its results alone (FPRev).

Examples:
  macheps reveal                                       Hopper's fp8 wgmma: 33 numbers meet in one rounding
  macheps reveal --machine sm90.wgmma.fp8+promote128 -k 512
  macheps reveal --machine fp32.pairwise -k 16 --tree
  macheps reveal --machine sm80.mma.fp16 -k 64 --dot | dot -Tsvg > tree.svg
  macheps reveal -f fp16 -k 64 --emit-operands x.npy   operands for a kernel of yours ...
  macheps reveal -f fp16 -k 64 --results out.npy       ... and the tree from what it returned

Of k products one is +M, one -M, the others a unit that vanishes beside M. What is left of the units counts the terms
that joined after the two met; all pairs give the tree. Steps print as s1 = 0-31: terms 0 to 31 and nothing else; s2 = s1 +
32-63: those terms and s1, in one rounding. Not seen: roundings, the order within a step, compensation. A sum that is
exact where two masks meet has no tree.

Operands of a kernel: --emit-operands writes an .npy file of fp32 [2, pairs, k], x[0] rows of a and x[1] columns of b,
numbers of --format: pairs (i, j), i < j, in the order (0,1), (0,2), ..., (1,2), ... Let out[p] = the sum of x[0,p] x[1,p]
over k by your kernel, in fp32 or as --accumulator says, each at the same element of an output: kernels sum edges and
tiles in other orders. Where that is no concern all rows go into one product: x[1] is 1 everywhere for fp32, tf32, bf16
and fp16; elsewhere take the diagonal. --results reads out, [pairs] or [pairs, pairs] (its diagonal), from .npy (fp16,
fp32, fp64) or from text, with the same -k, --format, --accumulator and --pairs. With --pairs first only pairs (0, j) are
used: enough for a chain of single terms.

JSON: {"source", "format_a", "format_b", "terms", "probes", "depth", "chain", "balanced", "ways": {children: sums},
"sums": [[children], ...], "unverified"}: children below `terms` are terms, terms + i is sums[i].
Exit codes: 1, the results are those of no tree; 2, the format's range is too small for so many terms; 3, results that
cannot be read.)";

struct Arguments {
    std::string machine = "sm90.wgmma.fp8", format, accumulator = "fp32", operands, results, pairs = "all";
    int terms = 128;
    bool tree = false, brackets = false, dot = false, json = false;
};

constexpr int most_terms = 1 << 14;
constexpr std::size_t most_values = std::size_t{1} << 30;  // of a file of operands: 4 GiB

Error usage(std::string what, std::string where, std::string fix) {
    return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
}

std::pair<Format, Format> formats_named(const std::string& text) {
    const std::size_t colon = text.find(':');
    const Format a = format_named(text.substr(0, colon), "--format", Exit::usage);
    return {a, colon == std::string::npos ? a : format_named(text.substr(colon + 1), "--format", Exit::usage)};
}

/// The widest format that the machine takes.
Format natural_format(const Machine& machine) {
    for (const NamedFormat& row : all_formats) {
        if (row.format != fp64 && machine.operands.contains(row.format)) return row.format;
    }
    throw usage("takes fp64 operands, and tensors here hold fp32", std::string(machine.name), "name another machine");
}

RevealLimits limits_of(const std::string& accumulator) {
    if (accumulator == "fp16") {
        return {.precision = 11, .largest_exponent = 15, .least_exponent = -24};
    }
    if (accumulator == "bf16") return {.precision = 8};
    return {};
}

std::vector<TermPair> pairs_of(int terms, bool only_first) {
    std::vector<TermPair> pairs;
    for (int i = 0; i < (only_first ? 1 : terms - 1); ++i) {
        for (int j = i + 1; j < terms; ++j) pairs.emplace_back(i, j);
    }
    return pairs;
}

Exit emit(const Arguments& a, const RevealOperands& operands) {
    const std::vector<TermPair> pairs = pairs_of(a.terms, a.pairs == "first");
    const std::size_t k = static_cast<std::size_t>(a.terms), half = pairs.size() * k;
    if (2 * half > most_values) {
        throw usage(fmt::format("{} pairs of {} terms are {} GiB", pairs.size(), a.terms, (2 * half) >> 28), "-k",
                    "take fewer terms: order shows in a few hundred");
    }
    std::vector<float> values(2 * half);
    for (std::size_t p = 0; p < pairs.size(); ++p)
        operands.fill(a.terms, pairs[p], &values[p * k], &values[half + p * k]);
    write_npy(a.operands, values, {2, static_cast<std::int64_t>(pairs.size()), a.terms});
    tell("wrote {}: {} pairs of {} terms, M = {:g}, u = {:g}, b {}\n", a.operands, pairs.size(), a.terms,
         operands.mask_a * double{operands.mask_b}, operands.unit(),
         operands.mask_b == 1 && operands.unit_b == 1 ? "is 1 everywhere" : "varies: take the diagonal");
    return Exit::ok;
}

/// Answers out of a file of results.
SumTree tree_of_results(const Arguments& a, const RevealOperands& operands) {
    const std::vector<TermPair> pairs = pairs_of(a.terms, a.pairs == "first");
    const std::vector<double> results = read_numbers(a.results);
    const std::size_t count = pairs.size();
    if (results.size() != count && results.size() != count * count) {
        throw Error({.what = fmt::format("{} results", results.size()),
                     .where = a.results,
                     .fix = fmt::format("{} terms have {} pairs: give that many, or their square (the diagonal is "
                                        "read)",
                                        a.terms, count)});
    }
    const std::size_t step = results.size() == count ? 1 : count + 1;
    const PairSizes sizes = [&](std::span<const TermPair> asked) {
        std::vector<int> list;
        for (const auto& [i, j] : asked) {
            const std::int64_t n = a.terms, row = i;
            const std::int64_t place = row * n - row * (row + 1) / 2 + (j - i - 1);
            if (static_cast<std::size_t>(place) >= count) {
                throw Error({.what = fmt::format("the pairs with term 0 do not tell how terms {} and {} meet", i, j),
                             .where = a.results,
                             .fix = "emit and measure all pairs: --pairs all",
                             .exit = Exit::check_failed});
            }
            // Decimals of nine digits stand for the fp32 number nearest to them.
            const auto result = static_cast<float>(results[static_cast<std::size_t>(place) * step]);
            list.push_back(operands.size_of(a.terms, {i, j}, result));
        }
        return list;
    };
    SumTree tree = reveal_tree(a.terms, sizes);
    if (a.pairs != "first") verify_tree(tree, sizes, static_cast<std::int64_t>(count));
    return tree;
}

struct Revealed {
    SumTree tree;
    std::string source, unverified{};
    Format a, b;
};

Revealed of_machine(const Arguments& arguments) {
    const SpelledRule spelled = parse_machine(arguments.machine);
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
                    {"ways", ways},
                    {"sums", r.tree.sums},
                    {"unverified", r.unverified}});
        return;
    }
    if (a.dot) {
        fmt::print("{}", tree_dot(r.tree, fmt::format("{}, {}, k = {}", r.source, formats, r.tree.terms)));
        return;
    }
    if (a.brackets) {
        fmt::print("{}", tree_brackets(r.tree));
        return;
    }
    fmt::print("{}, {}\n{}\n", r.source, formats, tree_summary(r.tree));
    if (!r.unverified.empty()) fmt::print("unverified: {}\n", r.unverified);
    fmt::print("\n{}", a.tree ? tree_indented(r.tree) : tree_steps(r.tree));
}

Exit reveal(const Arguments& a) {
    if (a.operands.empty() && a.results.empty()) {
        print_tree(a, of_machine(a));
        return Exit::ok;
    }
    if (a.format.empty()) throw usage("no format", "--format", "name the format of your kernel's operands");
    const auto [left, right] = formats_named(a.format);
    const RevealOperands operands = reveal_operands(left, right, a.terms, limits_of(a.accumulator));
    if (!a.operands.empty()) return emit(a, operands);
    print_tree(a, {.tree = tree_of_results(a, operands), .source = a.results, .a = left, .b = right});
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    const Option machine =
        verb.option("-M,--machine", a->machine, "A machine or rule, as for `macheps gemm`: NAME[+promoteN][+slicesN]")
            .takes("NAME")
            .shows_default();
    verb.integer("-k,--terms", a->terms, {1, most_terms}, "Terms of the sum").shows_default();
    verb.option("-f,--format", a->format,
                "Format of the operands, A:B where a and b differ; the machine's widest when left out")
        .takes(value_kind::format);
    Option emit_operands = verb.option("--emit-operands", a->operands,
                                       "Write operands for a kernel of yours; a machine runs when left out")
                               .takes(value_kind::file);
    Option results = verb.option("--results", a->results, "Read what the kernel returned; a machine runs when left out")
                         .takes(value_kind::file);
    verb.option("--accumulator", a->accumulator, "What the kernel sums in, and returns")
        .one_of({"fp32", "fp16", "bf16"})
        .shows_default();
    verb.option("--pairs", a->pairs, "Pairs of the kernel's operands").one_of({"all", "first"}).shows_default();
    emit_operands.excludes(results).excludes(machine);
    results.excludes(machine);
    Option tree = verb.flag("--tree", a->tree, "Indented, the root first");
    Option brackets = verb.flag("--brackets", a->brackets, "Nested brackets, on one line");
    Option dot = verb.flag("--dot", a->dot, "Graphviz");
    const Option json = verb.flag("--json", a->json, "JSON");
    tree.excludes(brackets).excludes(dot).excludes(json);
    brackets.excludes(dot).excludes(json);
    dot.excludes(json);
    verb.runs([a] { return reveal(*a); });
}

}  // namespace

const VerbRow reveal_verb{"reveal", help, describe};

}  // namespace macheps
