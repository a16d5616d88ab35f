// SPDX-License-Identifier: Apache-2.0
// `macheps sum`: the error of sums and dot products in any format, order and rounding, as CSV rows.
#include "experiments/study/sum/sum.hpp"
#include "core/format_table.hpp"
#include "core/host/memory_limit.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/rounding_option.hpp"
#include "experiments/cmd/frame/row_output.hpp"
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

constexpr const char* help = R"(Measures the error of sums and dot products in any format, order and rounding, as CSV.

Examples:
  macheps sum                                 eight methods in fp32, fp16 and bf16, 1024 terms
  macheps sum -d equal:0.1 -n 10 -f fp16,bf16,fp32,fp64    0.1, added ten times
  macheps sum --sweep n=2^4..2^16 -f bf16 --method recursive,pairwise,kahan,neumaier
  macheps sum -f fp16 -n 65536 --method recursive --round nearest_even,stochastic --trials 20
  macheps sum --dot -d cancel --sweep c=0..40 --method chain,dot2 -f fp32 -n 256 --seeds 1
  macheps sum -d harmonic --sweep n=2^4..2^12 -f bf16 --method recursive
  macheps sum -f e4m3fn --method recursive,machine:sm90.wgmma.fp8,machine:sm90.wgmma.fp8+promote128,exact
  macheps sum --sweep n=2^4..2^26 --dry-run   print the plan and run nothing)";

constexpr const char* notes = R"(Rounding:
  Terms are drawn or given by a formula, and rounded once to the format. The result of every
  operation is then rounded once to that format. Long recursive sums in
  narrow formats stagnate with rounding to nearest. With stochastic rounding, they do not.

Methods:
  recursive
  ascending, descending  sorted by magnitude
  pairwise
  blocked:B
  lanes32                as in a warp
  torch                  torch.sum of fp32 on a CPU
  splitk:S
  kahan, neumaier, sum2, sumK:K
  machine:NAME           a matrix unit, or ORDER:FORMAT as in `macheps gemm`
  exact
  chain, muladd, dot2    with --dot only; chain: fma; muladd: two roundings. All other methods add rounded products.

Data:
  the distributions of `macheps gemm`
  equal:VALUE            n times the number VALUE, such as 0.1 or 1/3; VALUE alone is short for this. VALUE is
                         rounded to the format first, and the exact sum is that of the rounded terms
  harmonic               1/(i+1)
  cancel:C               a dot product of value 2.25 2^-C, n even

Errors:
  Results are compared with the exact sum. Errors are given in units of u S: u is the unit
  roundoff of the format, S the sum of the magnitudes. Each row has a guaranteed bound and a
  probable bound. The probable bound assumes errors of mean zero, so truncation and stagnation can
  break it.

Output:
  On a terminal, and with --table, a table of the main columns is printed. Otherwise, and
  with --csv, all columns are printed. The CSV has a row for each data set, format, n, seed,
  method and rounding; docs/columns.md describes the columns.

JSON:
  {"schema", "rows": [one object per row]}
  With --dry-run: {"rows", "terms", "bytes"}

Exit codes:
  2  a name is unknown, or a combination is not possible
  5  the rows could not be written)";

constexpr std::int64_t max_sum_terms = std::int64_t{1} << 28;

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
        const SweepAxis axis = parse_sweep(text, axes, "use a sweep such as n=2^4..2^20 or c=0..40");
        (axis.name == "n" ? grid.sizes : exponents) = axis.integers();
    }
    for (const std::int64_t n : grid.sizes) {
        if (n <= max_sum_terms) continue;
        throw Error({.what = fmt::format("{} terms are too many", n),
                     .where = "--sweep n",
                     .fix = "use at most 2^28 terms",
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
                throw Error({.what = fmt::format("c = {} is out of range", c),
                             .where = "--sweep c",
                             .fix = "use 0 to 200",
                             .exit = Exit::usage});
            }
            grid.data.push_back(study::with_c(data, c));
        }
    }
    if (!(a.lambda > 0))
        throw Error({.what = "the number must be above 0",
                     .where = "--lambda",
                     .fix = "use a number such as 4",
                     .exit = Exit::usage});
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
            if (!a.quiet) eprint("{}\n", what);
        });
    rows.finish();
    return Exit::ok;
}

void describe_sum(Command& verb) {
    const auto a = std::make_shared<SumArguments>();
    verb.group("Sums");
    verb.option("-d,--data", a->data, "Data to add").list().takes("NAMES").default_text("positive");
    verb.integer("-n,--terms", a->n, {1, max_sum_terms}, "Number of terms").shows_default();
    verb.option("-f,--format", a->formats, "Formats of the terms and of the operations")
        .list()
        .takes(value_kind::format)
        .default_text("fp32,fp16,bf16");
    verb.option("--method", a->methods, "Orders of summation")
        .list()
        .takes("NAMES")
        .default_text("recursive,pairwise,blocked:128,lanes32,kahan,neumaier,sum2,exact");
    verb.option("--round", a->rounds, "Rounding of every operation").list().takes("MODES").default_text("nearest_even");
    verb.flag("--dot", a->dot, "Compute dot products instead of sums");
    verb.option("--sweep", a->sweeps,
                "n=2^4..2^20: 16, 32 and so on. c=0..40, for `cancel`: 0, 4, 8 and so on. n=1,7,64: a list. "
                "Repeat for a grid. Default: none")
        .repeats()
        .takes("AXIS=VALUES");
    verb.group("Repetitions and bounds");
    verb.integer("--seeds", a->seeds, seed_limits, "Seeds, separated by commas").list().default_text("0");
    verb.integer("--trials", a->trials, {1, 1 << 20}, "Number of trials with stochastic rounding on the same data")
        .shows_default();
    verb.option("--lambda", a->lambda, "Number of standard deviations in the probable bound").shows_default();
    verb.group("Limits and cost");
    verb.integer("--threads", a->threads, {0, max_threads},
                 "Number of threads. 0: every core that this process may use. The results do not depend on it")
        .shows_default();
    verb.option("--memory", a->memory, "Memory limit of the plan, such as 8G. Default: the available memory")
        .takes("SIZE");
    verb.flag("--dry-run", a->dry_run, "Print the number of rows, terms and bytes, and run nothing");
    verb.group("Output");
    verb.option("-o,--out", a->out, "Write the CSV to this file. Default: stdout").takes(value_kind::file);
    describe_row_form(verb, a->form);
    verb.flag("-q,--quiet", a->quiet, "Print no progress on stderr");
    verb.runs([a] { return run_sum_verb(*a); });
}

}  // namespace

const VerbRow verb{"sum", help, describe_sum, notes};

}  // namespace macheps::cmd::sum
