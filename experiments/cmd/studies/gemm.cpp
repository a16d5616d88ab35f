// SPDX-License-Identifier: Apache-2.0
// `macheps gemm`: the error of matrix products on machines, as CSV rows.
#include "experiments/study/product/gemm.hpp"
#include "core/field_error.hpp"
#include "core/format_table.hpp"
#include "core/host/memory_limit.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/machine/gpus.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_output.hpp"
#include "experiments/cmd/studies/gemm_via.hpp"
#include "experiments/study/sweep_axis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::gemm {

using namespace reports;

using namespace study;

namespace {

constexpr const char* help = R"(Measures the error of a matrix product on a machine against exact sums.

Examples:
  macheps gemm                                  fp8 on Hopper, Ada, Blackwell and in fp32, k = 4096
  macheps gemm --sweep k=16..65536 > gemm.csv   error growth; `macheps report gemm.csv` draws it
  macheps gemm --machine all --format fp16      every machine that accepts fp16, on the same data
  macheps gemm --format e4m3fn:e5m2 --scaling tensor --distribution lognormal
  macheps gemm --machine sm100.tcgen05.nvfp4 --scaling nvfp4
  macheps gemm -M chain:bf16,kahan:bf16,pairwise:fp16 --sweep k=16..4096  orders of summation
  macheps gemm --via ozaki1:6 -M sm90.wgmma.fp16 -k 256 --combine exact   fp64 from 21 fp16 products)";

constexpr const char* notes = R"(More examples:
  macheps gemm -d equal --scale 0.0625 --sweep k=32..65536 -m 1 -n 1
                                                  an accumulator that stops at 64, and its remedies
  macheps gemm -M chain:bf16,chain:bf16:stochastic --sweep k=16..4096      two ways of rounding
  macheps gemm --sweep scale=2^-20..2^4 --dry-run  print the plan and run nothing

Machines:
  NAME                  a name from `macheps machine list`
  NAME+promoteN         after every N terms, the partial sum is added to an fp32 accumulator
  NAME+slicesN          N slices of k, added in order in fp32
  a rule of a library   such as cutlass.fp8.default or sm80.mma.fp16+cutlass2.splitk.serial+slices4
  ORDER:FORMAT[:ROUND]  an order of summation (chain, pairwise, kahan, exact) in any format, such as fp16,
                        e5m6 or e3m4. Each operation is rounded to that format, to nearest even unless
                        ROUND is given.
  all                   each machine that accepts the operands. stderr reports how many were left out.
  Every machine that you name must accept some of the operands.

Operands:
  Operands are drawn and rounded to --format. All machines get the same operands. The exact
  product is computed from the rounded operands.

Output:
  On a terminal, and with --table, a table of the main columns is printed. Otherwise, and
  with --csv, all columns are printed. With --dry-run, --json prints the plan as JSON.

CSV columns:
  machine, format_a, format_b, output, distribution, scaling, scale, seed, m, n, k, outputs, nonfinite
  max_rel, mean_rel, rms_rel     |error| / |exact|
  max_ulp, mean_ulp              units in the last place of the output
  sqnr_db                        signal-to-quantisation-noise ratio, in dB
  max_error, rms_error           |error| / sum of |a||b|
  bias, drift                    mean error divided by that sum: with its sign, and relative to
                                 the sign of the exact value
  unit, bound, probable_bound    bounds on max_error that are known in advance, from the machine's own roundings
  lambda, first, first_exact     first and first_exact are out[0,0]
  operand_sqnr_db                the effect of rounding the operands
  evidence
  beyond_bound, beyond_probable  outputs whose error exceeds their own bound
  saturated                      outputs that overflowed but are finite (the fourth column from the end)
  bound is guaranteed: k times unit, plus underflow. probable_bound is the mean truncation error
  plus lambda standard deviations of all rounding errors. Errors are measured over the outputs that
  are finite and did not overflow.
  With --via, these columns have values: via, digit_bits, slices, products, inexact_products,
  combine, fp64_error, and plain_error, plain_max_ulp, plain_mean_ulp (errors of one fma per term
  in the output's format). The columns of the bounds are then empty, because no bound is known.

JSON:
  {"schema", "rows": [one object per row]}
  With --dry-run: {"rows", "products", "multiply_adds", "bytes"}

Exit codes:
  1  with --via, a product of digits or residues was not exact
  2  a name is unknown, or a machine accepts none of the operands
  5  the rows could not be written)";

constexpr std::int64_t max_gemm_size = std::int64_t{1} << 28;

struct Arguments {
    std::vector<std::string> machines{"sm90.wgmma.fp8", "sm90.wgmma.fp8+promote128", "sm89.mma.fp8",
                                      "sm100.tcgen05.fp8", "fp32.chain"};
    std::vector<std::string> formats, distributions{"normal"}, scalings{"none"}, sweeps;
    std::vector<std::int64_t> seeds{0};
    std::int64_t m = 16, n = 16, k = 4096;
    double scale = 1, lambda = 4;
    std::string output, out;
    DeviceChoice device;
    ViaArguments via;
    bool dry_run = false, quiet = false;
    RowForm form;
};

FormatPair format_pair(const std::string& text) {
    const std::size_t colon = text.find(':');
    const Format a = format_named(text.substr(0, colon), "--format", Exit::usage);
    const Format b = colon == std::string::npos ? a : format_named(text.substr(colon + 1), "--format", Exit::usage);
    return {a, b};
}

/// Returns the formats of the operands if the user gives none. For an order of summation, it is the format of the
/// order. For a machine, it is the first format of all_formats, except fp64, that the machine accepts for both
/// operands.
FormatPair natural_formats(const SpelledRule& spelled) {
    if (spelled.order) return {spelled.order->format, spelled.order->format};
    const Machine& machine = *spelled.rule.machine;
    for (const NamedFormat& row : all_formats) {
        if (row.format != fp64 && takes(machine, {row.format, row.format})) return {row.format, row.format};
    }
    throw usage_error(machine.addend != machine.result
                          ? "this machine cannot add to its own results: the formats of C and D differ"
                          : "this machine accepts only fp64 operands, but this command stores operands in fp32",
                      std::string(machine.name), "use another machine");
}

/// Returns the number of combinations (operand formats, scaling) of the grid that the machine `spelled` accepts.
std::size_t combinations_taken(const GemmGrid& grid, const SpelledRule& spelled) {
    std::size_t taken = 0;
    for (const FormatPair& pair : grid.formats) {
        for (const OperandScaling scaling : grid.scalings) taken += takes(spelled, pair, scaling) ? 1 : 0;
    }
    return taken;
}

/// Returns the error for a named machine that accepts none of the grid's operands.
Error does_not_fit(const GemmGrid& grid, const SpelledRule& spelled) {
    const Machine& machine = *spelled.rule.machine;
    const bool has_format = std::any_of(grid.formats.begin(), grid.formats.end(), [&](const FormatPair& pair) {
        return takes(spelled, pair, OperandScaling::none) || (!spelled.order && takes(machine, pair));
    });
    std::vector<std::string_view> taken;
    if (!has_format) {
        for (const Format& format : FormatSet::known) {
            if (machine.operands.contains(format)) taken.push_back(format_name(format));
        }
        return usage_error("this machine accepts none of the given formats", spelled.name,
                           fmt::format("use --format with one of {}", fmt::join(taken, ", ")));
    }
    for (std::size_t i = 0; i < std::size(scaling_names); ++i) {
        for (const FormatPair& pair : grid.formats) {
            if (!takes(spelled, pair, static_cast<OperandScaling>(i))) continue;
            taken.push_back(scaling_names[i]);
            break;
        }
    }
    return usage_error("this machine does not support the given scaling", spelled.name,
                       fmt::format("use --scaling with one of {}", fmt::join(taken, ", ")));
}

/// Returns the machines that a name selects if it names several: every machine for `all`, the machines of a GPU for the
/// name of the GPU. Returns none for other names.
std::vector<const Machine*> group_named(const std::string& name) {
    if (lowered(name) == "all") return {all_machines.begin(), all_machines.end()};
    return machines_of_gpu(name);
}

/// Adds the machines of a group that accept the operands, and reports on stderr how many are left out.
void add_group(GemmGrid& grid, const std::string& name, const std::vector<const Machine*>& group) {
    std::size_t left_out = 0;
    const auto is_chosen = [&](const SpelledRule& spelled) {
        return std::any_of(grid.machines.begin(), grid.machines.end(),
                           [&](const SpelledRule& each) { return each.name == spelled.name; });
    };
    for (const Machine* machine : group) {
        const SpelledRule spelled{std::string(machine->name), {.machine = machine}};
        if (combinations_taken(grid, spelled) == 0) {
            ++left_out;
        } else if (!is_chosen(spelled)) {
            grid.machines.push_back(spelled);
        }
    }
    if (grid.machines.empty()) {
        throw FieldError("formats, scalings", "no machine accepts operands with these formats and scales",
                         "use other formats or scalings");
    }
    if (left_out == 0) return;
    eprint("{}: {} of {} machines accept none of these operands and are left out\n", name, left_out, group.size());
}

/// Adds the named machines, then those of `all` and of GPUs. A named machine must accept some of the operands.
/// Combinations and machines that are left out are reported on stderr.
void add_machines(GemmGrid& grid, const Arguments& a) {
    std::vector<std::string> groups;
    for (const std::string& name : a.machines) {
        if (group_named(name).empty()) {
            grid.machines.push_back(parse_machine(name));
        } else {
            groups.push_back(name);
        }
    }
    for (const std::string& name : a.formats) grid.formats.push_back(format_pair(name));
    if (grid.formats.empty()) {
        if (grid.machines.empty())
            throw usage_error(fmt::format("`--machine {}` needs a format", groups.front()), "--format",
                              "add a format, such as --format fp16");
        grid.formats.push_back(natural_formats(grid.machines.front()));
    }
    const std::size_t combinations = grid.formats.size() * grid.scalings.size();
    for (const SpelledRule& spelled : grid.machines) {
        const std::size_t taken = combinations_taken(grid, spelled);
        if (taken == 0) throw does_not_fit(grid, spelled);
        if (taken == combinations) continue;
        eprint("{}: accepts {} of the {} combinations of formats and scalings; the others are left out\n", spelled.name,
               taken, combinations);
    }
    for (const std::string& name : groups) add_group(grid, name, group_named(name));
}

GemmGrid grid_of(const Arguments& a) {
    GemmGrid grid;
    grid.distributions.clear();
    for (const std::string& name : a.distributions) grid.distributions.push_back(*find_distribution(name));
    grid.scalings.clear();
    for (const std::string& name : a.scalings) grid.scalings.push_back(*find_scaling(name));
    if (a.via.via.empty()) {
        add_machines(grid, a);
    } else {
        grid.machines = via_machines(a.machines);
    }
    grid.seeds = a.seeds;
    grid.m = {a.m}, grid.n = {a.n}, grid.k = {a.k};
    grid.scales = {a.scale};
    grid.lambda = a.lambda;
    if (!a.output.empty()) {
        grid.output = format_named(a.output, "--output", Exit::usage);
        if (!grid.output->has_sign())
            throw usage_error(a.output + " has no sign", "--output", "use a format with a sign, such as bf16");
    }
    for (const std::string& text : a.sweeps) {
        const SweepAxis axis = parse_sweep(text);
        if (axis.name == "scale") {
            grid.scales = axis.values;
        } else {
            (axis.name == "m" ? grid.m : axis.name == "n" ? grid.n : grid.k) = axis.integers();
        }
    }
    for (const auto* sizes : {&grid.m, &grid.n, &grid.k}) {
        for (const std::int64_t size : *sizes) {
            if (size < 1 || size > max_gemm_size)
                throw usage_error("sizes must be from 1 to 2^28", "-m, -n, -k", "use sizes in this range");
        }
    }
    for (const double scale : grid.scales) {
        if (!std::isfinite(scale)) throw usage_error("the factor is not finite", "--scale", "use a finite number");
    }
    if (!(a.lambda > 0)) throw usage_error("the number must be above 0", "--lambda", "use a number such as 4");
    return grid;
}

/// Throws Error (usage) if a machine cannot multiply operands of the grid by its rule. Called before any product is
/// computed.
void require_possible(const GemmGrid& grid) {
    for (const GemmData& data : all_data(grid)) {
        for (const SpelledRule& spelled : grid.machines) {
            if (spelled.order || !takes(spelled, data.formats, data.scaling)) continue;
            const Format output = grid.output.value_or(spelled.rule.machine->result);
            try {
                require_possible(spelled.rule, use_of(data.formats, data.scaling, output), spelled.name);
            } catch (const Error& error) {
                Error::Parts parts = error.parts();
                parts.exit = Exit::usage;
                throw Error(std::move(parts));
            }
        }
    }
}

/// Cost of a grid, estimated before it is run.
struct GridCost {
    std::size_t rows = 0, products = 0;
    double multiply_adds = 0;  ///< on machines; excludes the exact sums, computed once for each set of operands
    double bytes = 0;          ///< for the largest shape
};

GridCost cost_of(const GemmGrid& grid) {
    GridCost cost;
    for (const GemmData& data : all_data(grid)) {
        std::size_t machines = 0;
        for (const SpelledRule& spelled : grid.machines) machines += takes(spelled, data.formats, data.scaling) ? 1 : 0;
        const double a = double(data.m) * double(data.k), b = double(data.k) * double(data.n),
                     out = double(data.m) * double(data.n);
        cost.rows += machines;
        cost.products += machines > 0 ? 1 : 0;
        cost.multiply_adds += double(machines) * out * double(data.k);
        // Each operand is stored three times: as drawn, as rounded, and split for the exact sums. Each output is stored
        // with its exact value.
        cost.bytes = std::max(cost.bytes, (a + b) * (4 + 4 + 4 + 8) + out * (4 + 4 + 48));
    }
    return cost;
}

Exit print_cost(const GridCost& cost, bool json) {
    if (json) {
        print_json({{"rows", cost.rows},
                    {"products", cost.products},
                    {"multiply_adds", cost.multiply_adds},
                    {"bytes", cost.bytes}});
    } else {
        print("{} rows from {} sets of operands, {:.3g} multiply-adds on machines, {:.1f} MiB\n", cost.rows,
              cost.products, cost.multiply_adds, cost.bytes / (1 << 20));
    }
    return cost.rows > 0 ? Exit::ok : Exit::usage;
}

/// Progress on stderr. On a terminal it is one line that is redrawn, elsewhere one line for each set of operands.
class ProgressLine {
  public:
    explicit ProgressLine(bool is_quiet) : quiet_(is_quiet), terminal_(isatty(STDERR_FILENO) == 1) {}
    ~ProgressLine() {
        if (drawn_) redraw("");
    }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    void show(const GemmProgress& p) {
        if (quiet_) return;
        const std::string where =
            fmt::format("{} {} seed {}, {} x {} x {}", format_name(p.data.formats.a), to_string(p.data.distribution),
                        p.data.seed, p.data.m, p.data.n, p.data.k);
        if (!terminal_) {
            if (where != last_) eprint("[{}/{}] {}\n", p.done + 1, p.rows, where);
            last_ = where;
            return;
        }
        const auto now = std::chrono::steady_clock::now();
        if (drawn_ && now - at_ < std::chrono::milliseconds(100)) return;
        at_ = now;
        redraw("[{}/{}] {}: {}", p.done + 1, p.rows, where, p.machine);
        drawn_ = true;
    }

  private:
    bool quiet_, terminal_, drawn_ = false;
    std::string last_;
    std::chrono::steady_clock::time_point at_{};
};

Exit gemm(const Arguments& a) {
    const GemmGrid grid = grid_of(a);
    if (!a.via.via.empty()) {
        return run_gemm_via(a.via, grid, a.formats, a.device,
                            {.out = a.out, .form = a.form, .quiet = a.quiet, .dry_run = a.dry_run});
    }
    require_possible(grid);
    const GridCost cost = cost_of(grid);
    if (a.dry_run) return print_cost(cost, a.form.json);
    const std::optional<std::int64_t> memory = a.device.memory_bytes();
    if (a.device.device == "cpu") require_memory(cost.bytes, memory, "the largest of these products");
    const std::unique_ptr<Backend> backend = make_backend(a.device);
    ThreadPool pool(a.device.threads == 0 ? available_threads() : a.device.threads);
    RowOutput<GemmRow> rows(a.out, a.form);
    {
        ProgressLine line(a.quiet);
        run_gemm(
            *backend, pool, grid, [&rows](const GemmRow& row) { rows.add(row); },
            [&line](const GemmProgress& progress) { line.show(progress); });
    }
    rows.finish();
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.group("Products");
    verb.option("-M,--machine,--gpu", a->machines,
                "Machines. A GPU such as h100 stands for its machines that accept the formats, and `all` for every "
                "such machine")
        .list()
        .takes("NAMES")
        .default_text(fmt::format("{}", fmt::join(a->machines, ", ")));
    verb.option("-f,--format", a->formats,
                "Formats of the operands, or A:B if a and b differ. Default: the widest format of the first machine")
        .list()
        .takes(value_kind::format);
    verb.integer("-m,--rows", a->m, {1, max_gemm_size}, "Rows of a").shows_default();
    verb.integer("-n,--columns", a->n, {1, max_gemm_size}, "Columns of b").shows_default();
    verb.integer("-k,--terms", a->k, {1, max_gemm_size}, "Terms per output").shows_default();
    verb.option("--sweep", a->sweeps,
                "Values of m, n, k or scale. k=16..65536: 16, 32, 64 and so on up to 65536. k=100,1000: a list. "
                "Repeat for a grid. Default: none")
        .repeats()
        .takes("AXIS=VALUES");
    verb.group("Operands and output format");
    std::vector<std::string> names;
    for (const NamedDistribution& row : all_distributions) names.emplace_back(row.name);
    verb.option("-d,--distribution", a->distributions,
                "uniform: in [-1,1). positive: in [0,1). lognormal: with random signs. equal: all 1. "
                "outliers: normal, with one of 128 numbers multiplied by 64")
        .list()
        .one_of(names)
        .default_text("normal");
    verb.option("--scaling", a->scalings,
                "none: no scaling. tensor and row: multiply by the largest finite number / amax. "
                "deepgemm: blocks of 128. "
                "mx32 and nvfp4: for machines with block scales. The result is scaled back")
        .list()
        .one_of({std::begin(scaling_names), std::end(scaling_names)})
        .default_text("none");
    verb.option("--scale", a->scale, "Factor that multiplies the drawn operands").shows_default();
    verb.integer("--seeds", a->seeds, seed_limits, "Seeds, separated by commas").list().default_text("0");
    verb.option("--output", a->output, "Round outputs to this format. Default: the format of the machine's result")
        .takes(value_kind::format);
    verb.option("--lambda", a->lambda,
                "Number of standard deviations in the probable bound. "
                "An output exceeds the bound with a probability below 2 exp(-lambda^2/2)")
        .shows_default();
    verb.group("Emulation of wide products (--via)");
    describe_via(verb, a->via);
    verb.group("Device and cost");
    add_device_options(verb, a->device);
    verb.flag("--dry-run", a->dry_run, "Print the number of rows, operations and bytes, and run nothing");
    verb.group("Output");
    verb.option("-o,--out", a->out, "Write the CSV to this file. Default: stdout").takes(value_kind::file);
    describe_row_form(verb, a->form);
    verb.flag("-q,--quiet", a->quiet, "Print no progress on stderr");
    verb.runs([a] { return gemm(*a); });
}

}  // namespace

const VerbRow verb{"gemm", help, describe, notes};

}  // namespace macheps::cmd::gemm
