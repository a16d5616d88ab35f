// SPDX-License-Identifier: Apache-2.0
// `macheps sum`: the error of sums and dot products in any format, order and rounding, as CSV rows.
#include "experiments/study/sum/sum.hpp"
#include "core/format_table.hpp"
#include "core/host/memory_limit.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/rounding_option.hpp"
#include "experiments/cmd/frame/row_output.hpp"
#include "experiments/cmd/frame/tell.hpp"
#include "experiments/study/sweep_axis.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::sum {

using namespace reports;

using namespace study;

namespace {

using study::SumGrid;

constexpr const char* sum_help =
    "The error of sums and dot products in any format, order and rounding, against the exact sum, as CSV.\n\n"
    "Examples:\n"
    "  macheps sum                                        eight methods in fp32, fp16 and bf16, 1024 terms\n"
    "  macheps sum --sweep n=2^4..2^16 -f bf16 --method recursive,pairwise,kahan,neumaier\n"
    "  macheps sum -f fp16,bf16 -n 65536 --method recursive --round nearest_even,stochastic --trials 20\n"
    "                                                     to nearest stagnates, stochastic rounding does not\n"
    "  macheps sum --dot -d cancel --sweep c=0..40 --method chain,dot2 -f fp32 -n 256 --seeds 1\n"
    "  macheps sum -d harmonic --sweep n=2^4..2^12 -f bf16 --method recursive\n"
    "  macheps sum -f e4m3fn --method recursive,machine:sm90.wgmma.fp8,machine:sm90.wgmma.fp8+promote128,exact\n"
    "  macheps sum --sweep n=2^4..2^26 --dry-run          what would be run\n\n"
    "Terms are drawn, or given by a formula, and rounded once to the format; then every operation is rounded once to "
    "it.\n"
    "Methods: recursive; ascending, descending: sorted by magnitude; pairwise; blocked:B; lanes32: a warp; torch: "
    "torch.sum of\n"
    "fp32 on a CPU; splitk:S; kahan; neumaier; sum2; sumK:K; machine:NAME, a matrix unit or ORDER:FORMAT as in "
    "`macheps gemm`; exact. With --dot also chain\n"
    "(fma), muladd (two roundings) and dot2; the other methods add rounded products.\n"
    "Data: the distributions of `macheps gemm`; harmonic: 1/(i+1); cancel:C: a dot product of 2.25 2^-C, n even.\n"
    "Errors are given in units of u S: u is the format's unit roundoff, S the sum of magnitudes. Two bounds stand "
    "beside\n"
    "them: a certain one, and a probable one that needs errors of mean zero; truncation and stagnation break it.\n"
    "On a terminal, and with --table: a table of the main columns; else, and with --csv, all of them.\n"
    "CSV: a row for each data set, format, n, seed, method and rounding; docs/columns.md has the columns.\n"
    "JSON: {\"schema\", \"rows\": [one object per row]}; --dry-run: {\"rows\", \"terms\", \"bytes\"}.\n"
    "Exit codes: 2, an unknown name, or a combination that means nothing; 5, the rows could not be written.";

constexpr std::int64_t most_sum_terms = std::int64_t{1} << 28;

struct SumArguments {
    std::vector<std::string> data{"positive"}, formats{"fp32", "fp16", "bf16"},
        methods{"recursive", "pairwise", "blocked:128", "lanes32", "kahan", "neumaier", "sum2", "exact"},
        rounds{"nearest_even"}, sweeps;
    std::vector<std::int64_t> seeds{0};
    std::int64_t n = 1024, trials = 1, threads = 0;
    double lambda = 4;
    std::string out, memory;
    bool dot = false, dry_run = false, quiet = false;
    RowForm form;
};

SumGrid sum_grid(const SumArguments& a) {
    SumGrid grid;
    grid.is_dot = a.dot;
    for (const std::string& name : a.methods) grid.methods.push_back(study::parse_sum_method(name, a.dot));
    for (const std::string& name : a.formats) grid.formats.push_back(format_named(name, "--format", Exit::usage));
    grid.rounds.clear();
    for (const std::string& name : a.rounds) grid.rounds.push_back(round_named(name));
    grid.seeds = a.seeds;
    grid.sizes = {a.n};
    grid.trials = a.trials;
    grid.lambda = a.lambda;
    std::vector<std::int64_t> exponents;
    constexpr SweepRule axes[] = {{.name = "n", .is_size = true}, {.name = "c", .step = 4}};
    for (const std::string& text : a.sweeps) {
        const SweepAxis axis = parse_sweep(text, axes, "such as n=2^4..2^20 or c=0..40");
        (axis.name == "n" ? grid.sizes : exponents) = axis.integers();
    }
    for (const std::int64_t n : grid.sizes) {
        if (n <= most_sum_terms) continue;
        throw Error({.what = fmt::format("{} terms are too many", n),
                     .where = "--sweep n",
                     .fix = "up to 2^28",
                     .exit = Exit::usage});
    }
    for (const std::string& name : a.data) {
        const study::SumData data = study::parse_sum_data(name);
        if (data.kind != study::SumData::Kind::cancel || data.c >= 0 || exponents.empty()) {
            grid.data.push_back(data);
            continue;
        }
        for (const std::int64_t c : exponents) {
            if (c < 0 || c > 200) {
                throw Error({.what = fmt::format("c = {}", c),
                             .where = "--sweep c",
                             .fix = "from 0 to 200",
                             .exit = Exit::usage});
            }
            grid.data.push_back(study::with_c(data, c));
        }
    }
    if (!(a.lambda > 0))
        throw Error({.what = "must be above 0", .where = "--lambda", .fix = "such as 4", .exit = Exit::usage});
    return grid;
}

Exit run_sum_verb(const SumArguments& a) {
    const SumGrid grid = sum_grid(a);
    study::require_possible(grid);
    const study::SumCost cost = study::cost_of(grid);
    const int threads = a.threads == 0 ? available_threads() : static_cast<int>(a.threads);
    const double bytes = cost.bytes * threads;
    if (a.dry_run) {
        if (a.form.json) {
            print_json({{"rows", cost.rows}, {"terms", cost.terms}, {"bytes", bytes}});
        } else {
            print("{} rows, {:.3g} terms, {:.1f} MiB\n", cost.rows, cost.terms, bytes / (1 << 20));
        }
        return Exit::ok;
    }
    require_memory(bytes, DeviceChoice{.memory = a.memory}.memory_bytes(), "the longest of these sums");
    ThreadPool pool(threads);
    RowOutput<SumRow> rows(a.out, a.form);
    study::run_sums(
        pool, chosen_simd(), grid, [&](const SumRow& row) { rows.add(row); },
        [&](const std::string& what) {
            if (!a.quiet) tell("{}\n", what);
        });
    rows.finish();
    return Exit::ok;
}

void describe_sum(Command& verb) {
    const auto a = std::make_shared<SumArguments>();
    verb.option("-d,--data", a->data, "What is added").list().takes("NAMES").default_text("positive");
    verb.integer("-n,--terms", a->n, {1, most_sum_terms}, "Terms of a sum").shows_default();
    verb.option("-f,--format", a->formats, "Formats of terms and operations")
        .list()
        .takes(value_kind::format)
        .default_text("fp32,fp16,bf16");
    verb.option("--method", a->methods, "Orders of summation")
        .list()
        .takes("NAMES")
        .default_text("recursive,pairwise,blocked:128,lanes32,kahan,neumaier,sum2,exact");
    verb.option("--round", a->rounds, "Rounding of every operation").list().takes("MODES").default_text("nearest_even");
    verb.flag("--dot", a->dot, "Dot products");
    verb.integer("--trials", a->trials, {1, 1 << 20}, "Of stochastic rounding, on the same data").shows_default();
    verb.integer("--seeds", a->seeds, seed_limits, "Seeds, joined by commas").list().default_text("0");
    verb.option(
            "--sweep", a->sweeps,
            "n=2^4..2^20 doubles; c=0..40, for `cancel`, goes by 4; lists work. Repeat for a grid; none when left out")
        .repeats()
        .takes("AXIS=VALUES");
    verb.option("--lambda", a->lambda, "Of the probable bound").shows_default();
    verb.option("-o,--out", a->out, "Write the CSV into this file; to stdout when left out").takes(value_kind::file);
    verb.integer("--threads", a->threads, {0, most_threads},
                 "Threads; 0: every core this process may use. The results do not depend on it")
        .shows_default();
    verb.option("--memory", a->memory, "Memory that may be planned for, such as 8G; what there is when left out")
        .takes("SIZE");
    verb.flag("--dry-run", a->dry_run, "Print how many rows, terms and bytes. Runs nothing");
    describe_row_form(verb, a->form);
    verb.flag("-q,--quiet", a->quiet, "No progress on stderr");
    verb.runs([a] { return run_sum_verb(*a); });
}

}  // namespace

const VerbRow verb{"sum", sum_help, describe_sum};

}  // namespace macheps::cmd::sum
