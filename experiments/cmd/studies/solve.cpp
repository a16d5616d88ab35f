// SPDX-License-Identifier: Apache-2.0
// `macheps solve`: linear systems, factored in low precision and refined, as CSV rows.
#include "experiments/study/solve/solve.hpp"
#include "core/format_table.hpp"
#include "core/host/memory_limit.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_output.hpp"
#include "experiments/cmd/frame/tell.hpp"
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

/// Lists the verdicts, one per line, from the same table that the rows use.
std::string verdict_lines() {
    std::string text;
    for (const SolveVerdictRow& row : solve_verdicts) text += fmt::format("  {:<16} {}\n", row.name, row.words);
    return text;
}

const std::string solve_help =
    "Solves linear systems with factors of low precision, refined, and says how each ended, as CSV.\n\n"
    "Examples:\n"
    "  macheps solve                                        LU, LU-IR and GMRES-IR with bf16, fp16 and fp32 factors\n"
    "  macheps solve --matrix randsvd --sweep kappa=1e1..1e6 --factor e4m3fn,bf16,fp16 --method ir,gmres-ir\n"
    "  macheps solve --factor fp16 --method ir --steps steps.csv     every x on the way, into a second file\n"
    "  macheps solve --matrix hilbert -n 12 --factor fp16 --scale none,scalar,two-sided\n"
    "  macheps solve --matrix lehmer --factorisation lu,cholesky,qr --factor fp16 --shift 2\n"
    "  macheps solve --factor fp32 --method ir --require converged   exit 1 unless every system converges\n"
    "  macheps solve --matrix hplmxp -n 64 --lu block:32 --factor fp16 -M sm90.wgmma.fp16 --method gmres-ir\n"
    "  macheps solve --preset hplmxp -n 64 --lu block:32 --factor fp16 --dry-run\n\n"
    "PA = LU is computed in --factor, every operation rounded once; with --lu block:NB and --machine, the trailing "
    "update\n"
    "is that matrix unit's, C its addend. --factorisation takes Cholesky or QR in LU's place.\n"
    "LU-IR corrects x with the factors in three precisions (substitution, work, residual), GMRES-IR by GMRES that "
    "they\n"
    "precondition, in five. x is compared with a reference solution of 113 digits, whose error has a proven bound; "
    "without\n"
    "that proof `reference` is `uncertain` and the forward error is empty.\n"
    "A row has one verdict. A factorisation that fails is a verdict, not an error:\n" +
    verdict_lines() +
    "Matrices: randsvd:K,MODE (singular values 1 to 1/K: 1 one large, 2 one small, 3 geometric, 4 arithmetic), "
    "uniform,\n"
    "hilbert, lehmer, minij, moler, kahan:ANGLE, wilkinson, tridiag:A,B,C, hplmxp, and file:PATH (Matrix Market or "
    "npy).\n"
    "Libraries call --method lu, ir, gmres-ir and gmres CUSOLVER_IRS_REFINE_NONE, _CLASSICAL, _GMRES and "
    "_GMRES_NOPCOND.\n"
    "On a terminal, and with --table: a table of the main columns; else, and with --csv, all of them.\n"
    "CSV: a row for each system, format, machine, scaling and method; docs/columns.md has the columns.\n"
    "JSON: {\"schema\", \"rows\": [one object per row]}; --dry-run: {\"rows\", \"flops\", \"bytes\"}.\n"
    "Exit codes: 1, --require converged and a system that did not; 2, an unknown name, or a combination that means\n"
    "nothing; 3, a file that holds no square real matrix; 5, the rows could not be written.";

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
        if (error == std::errc{} && last == end && block >= 1 && block <= most_stored_size) return block;
    }
    throw solve_error(fmt::format("no way to factor '{}'", text), "--lu", "right, or block:NB with NB from 1 to 4096");
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
        const SweepAxis axis = parse_sweep(text, axes, "such as kappa=1e1..1e10 or n=50,100,200");
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
        if (spelled.order) throw solve_error("an order of summation takes no addend", "--machine", "name a machine");
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
    if (!(a.shift >= 0) || a.shift > 1e6) throw solve_error("must be 0 to 10^6", "--shift", "such as 2");
    if (!(a.gmres_tolerance > 0)) throw solve_error("must be above 0", "--gmres-tol", "such as 1e-4");
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
        print("{} rows, {:.3g} operations in the factors' formats, {:.1f} MiB\n", cost.rows, cost.flops,
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
            if (!a.quiet) tell("{}\n", what);
        });
    rows.finish();
    if (!a.steps.empty()) {
        publish(a.steps, steps);
        tell("wrote {}\n", a.steps);
    }
    if (a.require.empty() || failed == 0) return Exit::ok;
    tell("{} of {} systems did not converge\n", failed, cost.rows);
    return Exit::check_failed;
}

void describe_precisions(Command& verb, SolveArguments& a) {
    verb.option("-f,--factor", a.factors, "Formats of L and U, u_f")
        .list()
        .takes(value_kind::format)
        .default_text("bf16,fp16,fp32");
    verb.option("--substitution", a.substitution, "Format of the triangular solves, u_s; the factor's when left out")
        .takes(value_kind::format);
    verb.option("--work", a.work, "Format of x and b, u").takes(value_kind::format).shows_default();
    verb.option("--residual", a.residual, "Format of b - A x, u_r: fp128, or fp64 with narrower work, when left out")
        .takes(value_kind::format);
    verb.option("--gmres", a.gmres, "Format of GMRES, u_g; that of the work when left out").takes(value_kind::format);
    verb.option("--precond", a.precond,
                "Format of its products with A and the factors, u_p: fp128, or fp64 with narrower work, when left out")
        .takes(value_kind::format);
}

void describe_factorisation(Command& verb, SolveArguments& a) {
    std::vector<std::string> kinds;
    for (const FactorisationName& row : factorisation_names) kinds.emplace_back(row.name);
    verb.option("--factorisation", a.factorisations,
                "lu: with partial pivoting; cholesky: of symmetric positive definite matrices; qr: Householder's. A "
                "row each")
        .list()
        .one_of(kinds)
        .default_text("lu");
    verb.option("--shift", a.shift,
                "Of cholesky: adds this many unit roundoffs of the factor's format of itself to each diagonal element "
                "before the "
                "cast, so that the rounded matrix stays definite")
        .shows_default();
    verb.option("--lu", a.lu, "right: column by column; block:NB: panels of NB columns, then a blocked update")
        .takes("WAY")
        .shows_default();
    verb.option("-M,--machine", a.machines, "Machines of the blocked update, a row each; none when left out")
        .list()
        .takes("NAMES");
    verb.option(
            "--operands", a.operands,
            "Format to which L and U are rounded for the blocked update; the factor's, or the machine's widest, when "
            "left out")
        .takes(value_kind::format);
    verb.option("--accumulator", a.accumulator,
                "Without a machine: the format in which the update is summed; fp32, or fp64 with fp64 factors, when "
                "left out")
        .takes(value_kind::format);
    verb.option("--pivot", a.pivot, "partial; none: the diagonal").one_of({"partial", "none"}).shows_default();
    verb.flag("--fused", a.fused, "a - l u with one rounding");
    std::vector<std::string> scales;
    for (const ScaleName& row : scale_names) scales.emplace_back(row.name);
    verb.option("--scale", a.scales,
                "By powers of two, where the format's largest number is below 10^6: none; scalar: one factor; "
                "two-sided: rows, "
                "columns and a factor; symmetric: the same for a row and its column. two-sided, or symmetric with "
                "cholesky, when "
                "left out")
        .list()
        .one_of(scales);
}

void describe_solve(Command& verb) {
    const auto a = std::make_shared<SolveArguments>();
    verb.option(
            "--matrix", a->matrices,
            "A matrix, such as randsvd:1e3, randsvd:1e6,2, hilbert or file:a.mtx; repeat for several; randsvd:1e3 when "
            "left out")
        .repeats()
        .takes("MATRIX");
    verb.integer("-n,--size", a->n, {1, most_stored_size}, "Rows of the matrix").shows_default();
    verb.integer("--seeds", a->seeds, seed_limits, "Seeds, joined by commas").list().default_text("0");
    verb.option("--sweep", a->sweeps,
                "kappa=1e1..1e12 multiplies by ten, for `randsvd` without a number; n=16..256 doubles; lists work. "
                "Repeat for "
                "a grid; none when left out")
        .repeats()
        .takes("AXIS=VALUES");
    describe_precisions(verb, *a);
    std::vector<std::string> methods;
    for (const MethodName& row : method_names) methods.emplace_back(row.name);
    verb.option("--method", a->methods,
                "lu: no refinement; ir: corrections by the factors; gmres-ir: by GMRES that they precondition; gmres: "
                "by GMRES alone")
        .list()
        .one_of(methods)
        .default_text("lu,ir,gmres-ir");
    describe_factorisation(verb, *a);
    verb.option("--stop", a->stop, "residual: as LAPACK's dsgesv stops; oracle: by the errors against the reference")
        .one_of({"residual", "oracle"})
        .shows_default();
    verb.integer("--max-steps", a->max_steps, {0, 1000}, "Of refinement").shows_default();
    verb.option("--gmres-tol", a->gmres_tolerance, "By how much GMRES reduces its residual").shows_default();
    verb.option("--preset", a->preset, "hplmxp: its matrix, no pivoting, fp16 factors, GMRES-IR; none when left out")
        .one_of({"hplmxp"});
    verb.option("--require", a->require, "converged: exit 1 unless every row is; nothing when left out")
        .one_of({"converged"});
    verb.option("--steps", a->steps, "Write every x on the way into this CSV file; nothing when left out")
        .takes(value_kind::file);
    verb.option("-o,--out", a->out, "Write the CSV into this file; to stdout when left out").takes(value_kind::file);
    verb.integer("--threads", a->threads, {0, most_threads},
                 "Threads; 0: every core this process may use. The results do not depend on it")
        .shows_default();
    verb.option("--memory", a->memory, "Memory that may be planned for, such as 8G; what there is when left out")
        .takes("SIZE");
    verb.flag("--dry-run", a->dry_run, "Print how many rows, operations and bytes. Runs nothing");
    describe_row_form(verb, a->form);
    verb.flag("-q,--quiet", a->quiet, "No progress on stderr");
    verb.runs([a, &verb] { return run_solve_verb(verb, *a); });
}

}  // namespace

const VerbRow verb{"solve", solve_help.c_str(), describe_solve};

}  // namespace macheps::cmd::solve
