// SPDX-License-Identifier: Apache-2.0
// `macheps sum`: ways to add the same numbers, as CSV rows.
#include "experiments/analysis/sum.hpp"
#include "core/format_table.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/device.hpp"
#include "experiments/cmd/json.hpp"
#include "experiments/cmd/rounding_option.hpp"
#include "experiments/cmd/row_output.hpp"
#include "experiments/numerics/sweep_axis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace macheps {

namespace {

using namespace analysis;

constexpr const char* sum_help =
    "Adds the same numbers in several ways, formats and roundings, against the exact sum, as CSV.\n\n"
    "Examples:\n"
    "  macheps sum                                          eight methods in fp32, fp16 and bf16, n = 1024\n"
    "  macheps sum -d harmonic --sweep n=2^4..2^12 -f bf16,fp16 --method recursive    where a sum stops growing\n"
    "  macheps sum -f bf16 -n 4096 --method recursive,kahan --round nearest_even,stochastic --trials 20\n"
    "  macheps sum --dot -d cancel --sweep c=0..40 --method chain,dot2 -f fp32        cancellation, and its cure\n"
    "  macheps sum -d positive,uniform --round toward_zero --sweep n=16..1024 --dry-run\n\n"
    "Methods: recursive, ascending, descending (by magnitude), pairwise, blocked:B, lanes32 (a warp), splitk:S, kahan,\n"
    "neumaier, sum2, sumK:K, exact; with --dot also chain (fma), muladd and dot2, and the others add rounded products.\n"
    "Data: the distributions of `macheps gemm`, harmonic (1, 1/2, 1/3, ...), cancel:C (with --dot: terms near 1, their sum\n"
    "2.25 2^-C); each is rounded to the format, to nearest even, and the exact sum is that of the rounded numbers.\n"
    "Errors are in units of u S, u = 2^-p, S the sum of the magnitudes. bound_unit is certain, probable_unit is exceeded\n"
    "with a probability below 2 exp(-lambda^2/2): proved for stochastic rounding, a model to nearest, and false once a sum\n"
    "stagnates. stagnated_at is the first term from which on none moved a recursive sum.\n"
    "CSV: a row for each method, format, rounding, data and n; docs/columns.md has the columns.\n"
    "JSON: {\"schema\", \"rows\": [one object per row]}; --dry-run: {\"rows\", \"terms\"}.\n"
    "Exit codes: 2, an unknown name, or a combination that means nothing; 5, the rows could not be written.";

constexpr std::int64_t most_terms = std::int64_t{1} << 24;

struct SumArguments {
    std::vector<std::string> data{"positive"}, formats{"fp32", "fp16", "bf16"}, rounds{"nearest_even"}, sweeps;
    std::vector<std::string> methods{"recursive", "pairwise", "blocked:128", "lanes32", "kahan", "neumaier", "sum2", "exact"};
    std::vector<std::int64_t> seeds{0};
    std::int64_t n = 1024, trials = 1, threads = 0;
    double lambda = 4;
    std::string out;
    bool dot = false, dry_run = false, json = false, quiet = false;
};

SumGrid sum_grid(const SumArguments& a) {
    SumGrid grid{.seeds = a.seeds, .sizes = {a.n}, .trials = a.trials, .lambda = a.lambda, .dot = a.dot};
    grid.rounds.clear();
    std::vector<std::string> data = a.data;
    constexpr SweepRule axes[] = {{.name = "n", .is_size = true}, {.name = "c", .step = 4}};
    for (const std::string& text : a.sweeps) {
        const SweepAxis axis = parse_sweep(text, axes, "such as n=2^4..2^20 or c=0..40");
        if (axis.name == "n") {
            grid.sizes = axis.integers();
            continue;
        }
        data.clear();
        for (const std::string& name : a.data) {
            if (name != "cancel") {
                data.push_back(name);
                continue;
            }
            for (const std::int64_t c : axis.integers()) data.push_back(fmt::format("cancel:{}", c));
        }
    }
    for (const std::int64_t n : grid.sizes) {
        if (n > most_terms) {
            throw Error({.what = fmt::format("{} terms", n), .where = "-n", .fix = "take up to 2^24", .exit = Exit::usage});
        }
    }
    for (const std::string& name : data) grid.data.push_back(parse_sum_data(name));
    for (const std::string& name : a.formats) grid.formats.push_back(format_named(name, "--format", Exit::usage));
    for (const std::string& name : a.rounds) grid.rounds.push_back(round_named(name));
    for (const std::string& name : a.methods) grid.methods.push_back(parse_sum_method(name));
    if (!(a.lambda > 0) || !std::isfinite(a.lambda)) {
        throw Error({.what = "must be above 0", .where = "--lambda", .fix = "such as 4", .exit = Exit::usage});
    }
    return grid;
}

Exit run_sum_verb(const SumArguments& a) {
    const SumGrid grid = sum_grid(a);
    require_possible(grid);
    if (a.dry_run) {
        const std::size_t each = grid.data.size() * grid.seeds.size() * grid.formats.size() * grid.rounds.size() * grid.methods.size();
        double terms = 0;
        for (const std::int64_t n : grid.sizes) terms += static_cast<double>(n) * static_cast<double>(each);
        if (a.json) {
            print_json({{"rows", each * grid.sizes.size()}, {"terms", terms}});
        } else {
            fmt::print("{} rows, {:.3g} terms in one trial each\n", each * grid.sizes.size(), terms);
        }
        return Exit::ok;
    }
    ThreadPool pool(a.threads == 0 ? available_threads() : static_cast<int>(a.threads));
    RowOutput<SumRow> rows(a.out, a.json);
    run_sum(
        pool, grid, [&](const SumRow& row) { rows.add(row); },
        [&](const std::string& what) {
            if (!a.quiet) tell("{}\n", what);
        });
    rows.finish();
    return Exit::ok;
}

void describe_sum(Command& verb) {
    const auto a = std::make_shared<SumArguments>();
    verb.option("-d,--data", a->data, "What is added, joined by commas").list().takes("DATA").default_text("positive");
    verb.integer("-n,--terms", a->n, {1, most_terms}, "Terms of a sum").shows_default();
    verb.option("-f,--format", a->formats, "Formats of the numbers and of every operation")
        .list()
        .takes(value_kind::format)
        .default_text("fp32,fp16,bf16");
    verb.option("--method", a->methods, "Ways to add").list().takes("METHODS").default_text(
        fmt::format("{}", fmt::join(a->methods, ",")));
    verb.option("--round", a->rounds, "Rounding of every operation; data are rounded to nearest even").list().takes("MODES").default_text(
        "nearest_even");
    verb.integer("--trials", a->trials, {1, 100000}, "Of stochastic rounding").shows_default();
    verb.flag("--dot", a->dot, "Dot products: the sum of x_i y_i");
    verb.option("--lambda", a->lambda, "Of the probable bound").shows_default();
    verb.integer("--seeds", a->seeds, seed_limits, "Seeds, joined by commas").list().default_text("0");
    verb.option("--sweep", a->sweeps, "n=16..65536 doubles; c=0..40, of `cancel`, adds 4; lists work. Repeat for a grid; none when left out")
        .repeats()
        .takes("AXIS=VALUES");
    verb.option("-o,--out", a->out, "Write the CSV into this file; to stdout when left out").takes(value_kind::file);
    verb.integer("--threads", a->threads, {0, most_threads},
                 "Threads; 0: every core this process may use. The results do not depend on it")
        .shows_default();
    verb.flag("--dry-run", a->dry_run, "Print how many rows and terms. Runs nothing");
    verb.flag("--json", a->json, "Print the rows, or the plan, as JSON");
    verb.flag("-q,--quiet", a->quiet, "No progress on stderr");
    verb.runs([a] { return run_sum_verb(*a); });
}

}  // namespace

const VerbRow sum_verb{"sum", sum_help, describe_sum};

}  // namespace macheps
