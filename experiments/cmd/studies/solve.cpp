// SPDX-License-Identifier: Apache-2.0
// `macheps solve`: linear systems, factored in low precision and refined, as CSV rows.
#include "experiments/study/solve/solve.hpp"
#include "core/format_table.hpp"
#include "core/host/memory_limit.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_output.hpp"
#include "experiments/study/sweep_axis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::solve {

using namespace reports;

using namespace study;

namespace {

/// Returns the possible verdicts with their meanings, one per line. They come from the table that also names the
/// verdicts in the CSV rows.
std::string verdict_lines() {
    std::string text;
    for (const SolveVerdictRow& row : solve_verdicts)
        text += fmt::format("{}  {:<16} {}", text.empty() ? "" : "\n", row.name, row.words);
    return text;
}

constexpr const char* help =
    R"(Solves linear systems with low-precision factors and iterative refinement, with a verdict for each.

Examples:
  macheps solve                                               LU, LU-IR, GMRES-IR in three formats
  macheps solve --matrix randsvd --sweep kappa=1e1..1e6 -f e4m3fn,bf16,fp16 --method ir,gmres-ir
  macheps solve --factor fp16 --method ir --steps steps.csv   also writes every intermediate x
  macheps solve --matrix hilbert -n 12 --factor fp16 --scale none,scalar,two-sided
  macheps solve --matrix lehmer --factorisation lu,cholesky,qr --factor fp16 --shift 2
  macheps solve --factor fp32 --method ir --require converged   exit 1 unless every system converges
  macheps solve --preset hplmxp -n 64 --lu block:32 --factor fp16 --dry-run)";

const std::string notes = fmt::format(R"(More examples:
  macheps solve --matrix hplmxp -n 64 --lu block:32 --factor fp16 -M sm90.wgmma.fp16 --method gmres-ir

Factorisation:
  PA = LU is computed in --factor, and every operation is rounded once. With --lu block:NB
  and --machine, that matrix unit computes the trailing update, with C as its
  addend. --factorisation computes a Cholesky or QR factorisation instead of LU.

Refinement:
  LU-IR corrects x with the factors in three precisions (substitution, work, residual). GMRES-IR
  corrects x by GMRES, preconditioned with the factors, in five precisions. In cuSOLVER, --method
  lu, ir, gmres-ir and gmres are called CUSOLVER_IRS_REFINE_NONE, _CLASSICAL, _GMRES and
  _GMRES_NOPCOND.

Errors:
  x is compared with a reference solution of 113 significand bits, whose error has a proven bound.
  If the bound cannot be proven, `reference` is `uncertain` and the forward error is empty.

Verdicts (one for each row; a factorisation that fails is a verdict, not an error):
{}

Matrices:
  randsvd:K,MODE  singular values from 1 to 1/K; MODE 1: one large, 2: one small, 3: geometric, 4: arithmetic
  uniform, hilbert, lehmer, minij, moler, kahan:ANGLE, wilkinson, tridiag:A,B,C, hplmxp
  file:PATH       Matrix Market or npy

Output:
  On a terminal, and with --table, a table of the main columns is printed. Otherwise, and
  with --csv, all columns are printed. The CSV has a row for each system, format, machine, scaling
  and method; docs/columns.md describes the columns.

JSON:
  {{"schema", "rows": [one object per row]}}
  With --dry-run: {{"rows", "flops", "bytes"}}

Exit codes:
  1  with --require converged, a system did not converge
  2  a name is unknown, or a combination is not possible
  3  a file does not contain a square real matrix
  5  the rows could not be written)",
                                      verdict_lines());

struct SolveArguments {
    std::vector<std::string> matrices, factors{"bf16", "fp16", "fp32"}, factorisations{"lu"}, machines, scales,
        methods{"lu", "ir", "gmres-ir"}, sweeps;
    std::vector<std::int64_t> seeds{0};
    std::int64_t n = 100, max_steps = 30, threads = 0;
    std::string substitution, work = "fp64", residual, gmres, precond, operands, accumulator;
    std::string lu = "right", pivot = "partial", stop = "residual", preset, require, out, steps, memory;
    double gmres_tolerance = 1e-4, shift = 0;
    bool fused = false, dry_run = false, quiet = false;
    RowForm form;
};

Error solve_error(std::string what, std::string where, std::string fix) {
    return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
}

std::int64_t block_of(const std::string& text) {
    if (text == "right") return 0;
    constexpr std::string_view word = "block:";
    std::int64_t block = 0;
    const char* end = text.data() + text.size();
    if (text.starts_with(word)) {
        const auto [last, error] = std::from_chars(text.data() + word.size(), end, block);
        if (error == std::errc{} && last == end && block >= 1 && block <= max_stored_size) return block;
    }
    throw solve_error(fmt::format("unknown variant '{}'", text), "--lu",
                      "use right, or block:NB with NB from 1 to 4096");
}

Method method_named(const std::string& name) {
    for (const MethodName& row : method_names) {
        if (row.name == name) return row.method;
    }
    return Method::lu;
}

/// Adds the matrices. `randsvd` without a number is added once for each condition number of the sweep.
void add_matrices(SolveGrid& grid, const SolveArguments& a, const std::vector<double>& conditions) {
    std::vector<std::string> names = a.matrices;
    if (names.empty()) names.push_back(conditions.empty() ? "randsvd:1e3" : "randsvd");
    for (const std::string& name : names) {
        if (name != "randsvd" || conditions.empty()) {
            grid.matrices.push_back(parse_matrix(name));
            continue;
        }
        for (const double condition : conditions) grid.matrices.push_back(parse_matrix(name, condition));
    }
}

SolveGrid solve_grid(const SolveArguments& a) {
    SolveGrid grid;
    grid.seeds = a.seeds;
    grid.sizes = {a.n};
    std::vector<double> conditions;
    constexpr SweepRule axes[] = {{.name = "n", .is_size = true}, {.name = "kappa", .factor = 10}};
    for (const std::string& text : a.sweeps) {
        const SweepAxis axis = parse_sweep(text, axes, "use a sweep such as kappa=1e1..1e10 or n=50,100,200");
        if (axis.name == "n") {
            grid.sizes = axis.integers();
        } else {
            conditions = axis.values;
        }
    }
    add_matrices(grid, a, conditions);
    for (const std::string& name : a.factors) grid.factors.push_back(solver_format(name, "--factor"));
    grid.machines.clear();
    for (const std::string& name : a.machines) {
        SpelledRule spelled = parse_machine(name);
        if (spelled.order)
            throw solve_error("an order of summation has no addend, which the blocked update needs", "--machine",
                              "use a machine from `macheps machine list`");
        grid.machines.push_back(std::move(spelled));
    }
    if (grid.machines.empty()) grid.machines.push_back(std::nullopt);
    grid.factorisations.clear();
    for (const std::string& name : a.factorisations) grid.factorisations.push_back(*find_factorisation(name));
    for (const std::string& name : a.scales) grid.scales.push_back(*find_scale(name));
    grid.methods.clear();
    for (const std::string& name : a.methods) grid.methods.push_back(method_named(name));
    const auto optional_format = [](const std::string& name, const char* option, bool is_wide) {
        return name.empty() ? std::optional<Format>{} : solver_format(name, option, is_wide);
    };
    grid.substitution = optional_format(a.substitution, "--substitution", false);
    grid.work = solver_format(a.work, "--work");
    grid.residual = optional_format(a.residual, "--residual", true);
    grid.gmres = optional_format(a.gmres, "--gmres", false);
    grid.precond = optional_format(a.precond, "--precond", true);
    grid.operands = optional_format(a.operands, "--operands", false);
    grid.accumulator = optional_format(a.accumulator, "--accumulator", false);
    grid.block = block_of(a.lu);
    grid.pivots = a.pivot == "partial";
    grid.fused = a.fused;
    grid.stop = a.stop == "oracle" ? Stop::oracle : Stop::residual;
    grid.max_steps = static_cast<int>(a.max_steps);
    grid.gmres_tolerance = a.gmres_tolerance;
    grid.shift = a.shift;
    if (!(a.shift >= 0) || a.shift > 1e6)
        throw solve_error("the number must be from 0 to 10^6", "--shift", "use a number such as 2");
    if (!(a.gmres_tolerance > 0))
        throw solve_error("the number must be above 0", "--gmres-tol", "use a number such as 1e-4");
    return grid;
}

/// Sets the values of `--preset` for options that were not given.
void apply_preset(const Command& verb, SolveArguments& a) {
    if (a.preset.empty()) return;
    const std::vector<std::string> given = verb.given();
    const auto is_given = [&](const char* option) {
        return std::find(given.begin(), given.end(), option) != given.end();
    };
    if (!is_given("--matrix")) a.matrices = {"hplmxp"};
    if (!is_given("--pivot")) a.pivot = "none";
    if (!is_given("--method")) a.methods = {"gmres-ir"};
    if (!is_given("--factor")) a.factors = {"fp16"};
}

Exit print_solve_cost(const SolveCost& cost, bool json) {
    if (json) {
        print_json({{"rows", cost.rows}, {"flops", cost.flops}, {"bytes", cost.bytes}});
    } else {
        print("{} rows, {:.3g} operations in the formats of the factors, {:.1f} MiB\n", cost.rows, cost.flops,
              cost.bytes / (1 << 20));
    }
    return Exit::ok;
}

Exit run_solve_verb(const Command& verb, SolveArguments a) {
    apply_preset(verb, a);
    const SolveGrid grid = solve_grid(a);
    require_possible(grid);
    const int threads = a.threads == 0 ? available_threads() : static_cast<int>(a.threads);
    const SolveCost cost = cost_of(grid, threads);
    if (a.dry_run) return print_solve_cost(cost, a.form.json);
    require_memory(cost.bytes, DeviceChoice{.memory = a.memory}.memory_bytes(), "the largest of these systems");
    ThreadPool pool(threads);
    RowOutput<SolveRow> rows(a.out, a.form);
    std::string steps = reports::csv::header<SolveStepRow>() + "\n";
    std::size_t failed = 0;
    run_solve(
        pool, grid,
        [&](const SolveRow& row) {
            failed += row.verdict != to_string(Verdict::converged);
            rows.add(row);
        },
        [&](const SolveStepRow& row) {
            if (!a.steps.empty()) reports::csv::append_line(steps, row);
        },
        [&](const std::string& what) {
            if (!a.quiet) eprint("{}\n", what);
        });
    rows.finish();
    if (!a.steps.empty()) {
        publish(a.steps, steps);
        eprint("wrote {}\n", a.steps);
    }
    if (a.require.empty() || failed == 0) return Exit::ok;
    eprint("{} of {} systems did not converge\n", failed, cost.rows);
    return Exit::check_failed;
}

void describe_systems(Command& verb, SolveArguments& a) {
    verb.group("Systems");
    verb.option("--matrix", a.matrices,
                "A matrix, such as randsvd:1e3, randsvd:1e6,2, hilbert or file:a.mtx. Repeat for several. "
                "Default: randsvd:1e3")
        .repeats()
        .takes("MATRIX");
    verb.integer("-n,--size", a.n, {1, max_stored_size}, "Number of rows of the matrix").shows_default();
    verb.integer("--seeds", a.seeds, seed_limits, "Seeds, separated by commas").list().default_text("0");
    verb.option("--sweep", a.sweeps,
                "kappa=1e1..1e12, for `randsvd` without a number: 1e1, 1e2 and so on. "
                "n=16..256: 16, 32 and so on. n=50,100: a list. Repeat for a grid. Default: none")
        .repeats()
        .takes("AXIS=VALUES");
    verb.option("--preset", a.preset,
                "hplmxp: the matrix of the HPL-MxP benchmark, no pivoting, fp16 factors and GMRES-IR. Default: none")
        .one_of({"hplmxp"});
}

void describe_precisions(Command& verb, SolveArguments& a) {
    verb.group("Precisions");
    verb.option("-f,--factor", a.factors, "Formats of the factors (u_f)")
        .list()
        .takes(value_kind::format)
        .default_text("bf16,fp16,fp32");
    verb.option("--substitution", a.substitution,
                "Format of the triangular solves (u_s). Default: the format of the factors")
        .takes(value_kind::format);
    verb.option("--work", a.work, "Format of x and b (u)").takes(value_kind::format).shows_default();
    verb.option("--residual", a.residual,
                "Format of b - A x (u_r). Default: fp128, or fp64 if --work is narrower than fp64")
        .takes(value_kind::format);
    verb.option("--gmres", a.gmres, "Format of GMRES (u_g). Default: the format of --work").takes(value_kind::format);
    verb.option("--precond", a.precond,
                "Format of the products of GMRES with A and the factors (u_p). "
                "Default: fp128, or fp64 if --work is narrower than fp64")
        .takes(value_kind::format);
}

void describe_method(Command& verb, SolveArguments& a) {
    verb.group("Method");
    std::vector<std::string> methods;
    for (const MethodName& row : method_names) methods.emplace_back(row.name);
    verb.option("--method", a.methods,
                "lu: no refinement. ir: corrections from the factors. "
                "gmres-ir: corrections from GMRES, preconditioned with the factors. "
                "gmres: corrections from GMRES without a preconditioner")
        .list()
        .one_of(methods)
        .default_text("lu,ir,gmres-ir");
    verb.option("--stop", a.stop,
                "residual: stop as LAPACK's dsgesv does. oracle: stop by the error against the reference solution")
        .one_of({"residual", "oracle"})
        .shows_default();
    verb.integer("--max-steps", a.max_steps, {0, 1000}, "Maximum number of refinement steps").shows_default();
    verb.option("--gmres-tol", a.gmres_tolerance, "Factor by which GMRES reduces its residual").shows_default();
    verb.option("--require", a.require, "converged: exit with 1 unless every system converges. Default: no requirement")
        .one_of({"converged"});
}

void describe_factorisation(Command& verb, SolveArguments& a) {
    verb.group("Factorisation");
    std::vector<std::string> kinds;
    for (const FactorisationName& row : factorisation_names) kinds.emplace_back(row.name);
    verb.option("--factorisation", a.factorisations,
                "lu: with partial pivoting. cholesky: for symmetric positive definite matrices. "
                "qr: with Householder reflections. Each value adds a row")
        .list()
        .one_of(kinds)
        .default_text("lu");
    verb.option("--shift", a.shift,
                "Cholesky only: multiply each diagonal element by 1 + X u before the cast. "
                "u is the unit roundoff of the factor's format. The rounded matrix then stays positive definite")
        .shows_default();
    verb.option("--lu", a.lu,
                "right: column by column. block:NB: panels of NB columns, each followed by a blocked update")
        .takes("WAY")
        .shows_default();
    verb.option("-M,--machine,--gpu", a.machines,
                "Machines for the blocked update. Each machine adds a row. Default: none")
        .list()
        .takes("NAMES");
    verb.option("--operands", a.operands,
                "Format to which L and U are rounded for the blocked update. "
                "Default: the factor's format, or the machine's widest")
        .takes(value_kind::format);
    verb.option("--accumulator", a.accumulator,
                "Without a machine: the format of the sums in the update. Default: fp32, or fp64 with fp64 factors")
        .takes(value_kind::format);
    verb.option("--pivot", a.pivot, "partial: partial pivoting. none: pivots on the diagonal")
        .one_of({"partial", "none"})
        .shows_default();
    verb.flag("--fused", a.fused, "Compute a - l u with one rounding");
    std::vector<std::string> scales;
    for (const ScaleName& row : scale_names) scales.emplace_back(row.name);
    verb.option("--scale", a.scales,
                "Scaling by powers of two, applied if the format's largest number is below 10^6. "
                "none: no scaling. scalar: one factor. two-sided: rows, columns and one factor. "
                "symmetric: the same factor for a row and its column. "
                "Default: two-sided, or symmetric with cholesky")
        .list()
        .one_of(scales);
}

void describe_solve(Command& verb) {
    const auto a = std::make_shared<SolveArguments>();
    describe_systems(verb, *a);
    describe_precisions(verb, *a);
    describe_method(verb, *a);
    describe_factorisation(verb, *a);
    verb.group("Limits and cost");
    verb.integer("--threads", a->threads, {0, max_threads},
                 "Number of threads. 0: every core that this process may use. The results do not depend on it")
        .shows_default();
    verb.option("--memory", a->memory, "Memory limit of the plan, such as 8G. Default: the available memory")
        .takes("SIZE");
    verb.flag("--dry-run", a->dry_run, "Print the number of rows, operations and bytes, and run nothing");
    verb.group("Output");
    verb.option("-o,--out", a->out, "Write the CSV to this file. Default: stdout").takes(value_kind::file);
    verb.option("--steps", a->steps, "Write a row for every intermediate x to this CSV file. Default: none")
        .takes(value_kind::file);
    describe_row_form(verb, a->form);
    verb.flag("-q,--quiet", a->quiet, "Print no progress on stderr");
    verb.runs([a, &verb] { return run_solve_verb(verb, *a); });
}

}  // namespace

const VerbRow verb{"solve", help, describe_solve, notes.c_str()};

}  // namespace macheps::cmd::solve
