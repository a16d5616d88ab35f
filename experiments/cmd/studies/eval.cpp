// SPDX-License-Identifier: Apache-2.0
// `macheps eval`: the error of formulas in any format, over all inputs or over random inputs, as CSV rows.
#include "experiments/study/eval/eval.hpp"
#include "core/format_table.hpp"
#include "core/host/read_file.hpp"
#include "core/text/float_chars.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/rounding_option.hpp"
#include "experiments/cmd/frame/row_output.hpp"
#include "experiments/policy/sites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::cmd::eval {

using namespace reports;

using namespace policy;

namespace {

using study::EvalGrid;

/// Returns the names of the functions, broken into lines for --help.
std::string function_lines() {
    std::string out, line = " ";
    for (const study::OpRow& row : study::op_rows()) {
        const bool is_word = std::isalpha(static_cast<unsigned char>(row.name.front())) != 0;
        const bool is_logic = row.op == study::Op::both || row.op == study::Op::either || row.op == study::Op::negation;
        if (!is_word || is_logic || row.op == study::Op::neg) continue;
        if (line.size() + row.name.size() > 96) {
            out += line + "\n";
            line = " ";
        }
        line += " " + std::string(row.name);
    }
    return out + line + ".\n  abs, min and max are fabs, fmin and fmax.";
}

constexpr const char* help =
    R"text(Measures the error of formulas in any format, over every input or over drawn inputs, as CSV.

Examples:
  macheps eval "log1p(exp(x))" --x -20:20 -f fp16,bf16              every number from -20 to 20
  macheps eval "(1-cos(x))/sin(x)" "tan(x/2)" --x 0:3.2 -f e4m3fn,e5m2
  macheps eval "sqrt(x+1)-sqrt(x)" --x 0:inf -f e4m3fn --points-out points.csv
  macheps eval "x*x - y*y" --x 1:2 --y 1:2 -f fp32 --points 2000    drawn inputs
  macheps eval "exp(x)" "erfc(x)" --x 0x1.8p3 -f fp64,fp32 --round up   one input
  macheps eval "exp(x)-1" --as fpcore                               the formula for other tools
  macheps eval formulas.fpcore -f fp16 --only "NMSE*"               FPCores of a file)text";

const std::string notes = fmt::format(R"text(More examples:
  macheps eval "(FPCore (x) :precision binary16 (- (! :precision binary32 (* x x)) x))" --keep-precision
                                        a square in fp32, in a formula in fp16

Formulas:
  A formula has names, numbers, + - * / ^ (pow), calls and if(a < b, c, d). It is evaluated as
  written, without rearrangement. Files contain FPCore 2.0, without arrays. Every operator is
  rounded once to the format. Functions are correctly rounded, or those of core/math.hpp. A
  constant such as 0.1 or PI is rounded to the format in the result, but is exact in the reference.

Functions:
{}

Reference:
  The reference is the exact value of the formula, rounded once in the mode of --round (for
  stochastic: to nearest). It is found from enclosures (Arb) of increasing precision, until every
  value in the enclosure rounds to the same number. An input for which the maximum precision does
  not suffice is counted as `unresolved`.

Inputs:
  The option --NAME A:B gives the range of the input NAME, including both ends, and --NAME A is
  one number. Without it, the input takes all finite numbers. Numbers are decimal or hexadecimal
  (0x1p-3). A formula with one input in a format of up to 16 bits is evaluated at every input. So
  is a range with at most 1000 numbers. Other formulas are evaluated at 1000 drawn inputs; each
  number in the range is equally likely. The columns worst_x and x list several inputs in the
  order in which they first appear in the formula, or in the order of an FPCore's argument list.

Bits of error:
  log2(1 + number of format values between the result and the reference); the width of the format
  for a NaN.

Wrong zeros:
  The column underflow counts results of 0 whose last zero has an exact value other than 0, as in
  x*x. The column digits_lost (in tables: all digits lost) counts the other ones: a cancellation
  left nothing, as in (1+x)-1.

Output:
  On a terminal, and with --table, a table of the main columns is printed. Otherwise, and
  with --csv, all columns are printed. The CSV has a row for each formula and format;
  docs/columns.md describes the columns.

JSON:
  {{"schema", "rows": [one object per row]}}

Exit codes:
  2  a formula cannot be read, a name is unknown, or a range is empty
  3  a file is damaged
  4  this build does not include Arb
  5  the rows could not be written)text",
                                      function_lines());

struct EvalArguments {
    std::vector<std::string> expressions, formats{"fp16", "bf16"};
    std::string round = "nearest_even", functions = "correct", subnormals = "keep", only, as, points_out, out;
    std::int64_t points = 0, seed = 0, threads = 0;
    bool keeps_precision = false, quiet = false;
    RowForm form;
};

double range_end(const std::string& text, const std::string& where) {
    if (text == "inf" || text == "+inf") return HUGE_VAL;
    if (text == "-inf") return -HUGE_VAL;
    std::string_view digits = text;
    const bool is_negative = digits.starts_with("-");
    if (is_negative || digits.starts_with("+")) digits.remove_prefix(1);
    const bool is_hex = digits.starts_with("0x") || digits.starts_with("0X");
    if (is_hex) digits.remove_prefix(2);
    double x = 0;
    const auto [last, error] = number_from_chars(digits.data(), digits.data() + digits.size(), x,
                                                 is_hex ? std::chars_format::hex : std::chars_format::general);
    if (error != std::errc{} || last != digits.data() + digits.size() || digits.starts_with("-") || !std::isfinite(x)) {
        throw usage_error(fmt::format("'{}' is not a valid number", text), where,
                          "use a number such as 304, -2.5 or 0x1p-3, or a range such as -20:20 or 0:inf");
    }
    return is_negative ? -x : x;
}

/// Reads ranges such as `--x -20:20 --y=0:inf`. The parser does not know these options, because their names are those
/// of the inputs of a formula, so rest() contains their words. If the range is a separate word without a minus sign at
/// its beginning, the parser has taken it for a formula, so it is removed from `expressions`.
void add_ranges(EvalGrid& grid, const Command& verb, std::vector<std::string>& expressions) {
    const std::vector<std::string> rest = verb.rest(), &words = verb.command_line();
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (std::find(rest.begin(), rest.end(), words[i]) == rest.end()) continue;
        std::string name = words[i], range;
        if (!name.starts_with("--") || name.size() < 3) {
            throw usage_error(fmt::format("'{}' is not a valid option", name), "macheps eval",
                              "use --NAME A:B for the range of an input NAME");
        }
        if (const std::size_t equals = name.find('='); equals != std::string::npos) {
            range = name.substr(equals + 1);
            name.resize(equals);
        } else if (i + 1 < words.size()) {
            range = words[++i];
            const auto taken = std::find(expressions.begin(), expressions.end(), range);
            if (taken != expressions.end()) expressions.erase(taken);
        }
        const std::size_t colon = range.find(':');
        const double least = range_end(range.substr(0, colon), name),
                     greatest = colon == std::string::npos ? least : range_end(range.substr(colon + 1), name);
        grid.ranges.push_back({name.substr(2), least, greatest});
    }
}

/// Returns whether a text is the name of a file of FPCores, by its ending.
bool is_file_name(const std::string& text) { return text.ends_with(".fpcore"); }

void add_expressions(EvalGrid& grid, const EvalArguments& a, const std::vector<std::string>& expressions) {
    for (const std::string& text : expressions) {
        if (!is_file_name(text) && !text.starts_with("(FPCore")) {
            grid.expressions.push_back(study::parse_infix(text));
            continue;
        }
        constexpr std::uint64_t max_bytes = std::uint64_t{64} << 20;
        study::Cores cores = is_file_name(text)
                                 ? study::parse_cores(read_file(text, max_bytes), text, a.keeps_precision)
                                 : study::parse_cores(text, "expression", a.keeps_precision);
        for (study::Expression& each : cores.expressions) {
            if (a.only.empty() || glob_match(a.only, each.name)) grid.expressions.push_back(std::move(each));
        }
        for (const study::SkippedCore& skipped : cores.skipped) eprint("left out: {}: {}\n", skipped.name, skipped.why);
    }
    if (grid.expressions.empty())
        throw usage_error("no formula is left", a.only.empty() ? "EXPRESSION" : "--only",
                          "check the formulas and their names");
}

Exit run_eval_verb(const Command& verb, const EvalArguments& a) {
    EvalGrid grid;
    std::vector<std::string> expressions = a.expressions;
    add_ranges(grid, verb, expressions);
    add_expressions(grid, a, expressions);
    if (!a.as.empty()) {
        for (const study::Expression& each : grid.expressions) print("{}\n", study::fpcore_text(each));
        return Exit::ok;
    }
    for (const std::string& name : a.formats) grid.formats.push_back(format_named(name, "--format", Exit::usage));
    grid.round = round_named(a.round);
    grid.functions = a.functions == "macheps" ? study::Functions::macheps : study::Functions::correct;
    grid.flushes = a.subnormals == "flush";
    grid.points = a.points;
    grid.seed = a.seed;
    study::require_possible(grid);
    ThreadPool pool(a.threads == 0 ? available_threads() : static_cast<int>(a.threads));
    RowOutput<FormulaRow> rows(a.out, a.form);
    std::string points = reports::csv::header<FormulaPointRow>() + "\n";
    std::function<void(const FormulaPointRow&)> point;
    if (!a.points_out.empty()) point = [&](const FormulaPointRow& row) { reports::csv::append_line(points, row); };
    study::run_eval(
        pool, grid, [&](const FormulaRow& row) { rows.add(row); }, point,
        [&](const std::string& what) {
            if (!a.quiet) eprint("{}\n", what);
        });
    rows.finish();
    if (!a.points_out.empty()) {
        publish(a.points_out, points);
        eprint("wrote {}\n", a.points_out);
    }
    return Exit::ok;
}

void describe_eval(Command& verb) {
    const auto a = std::make_shared<EvalArguments>();
    verb.group("Formulas and inputs");
    verb.option("EXPRESSION", a->expressions, "Formulas, or files with FPCores whose names end in .fpcore").required();
    verb.integer("--points", a->points, {0, 100000000},
                 "Number of drawn inputs. 0: evaluate every input if there are few, otherwise draw 1000")
        .shows_default();
    verb.integer("--seed", a->seed, seed_limits, "Seed of drawn inputs and of stochastic rounding").shows_default();
    verb.option("--only", a->only, "Evaluate only FPCores whose names match this pattern. Default: all").takes("GLOB");
    verb.group("Arithmetic");
    verb.option("-f,--format", a->formats, "Formats of the inputs and of the operations")
        .list()
        .takes(value_kind::format)
        .default_text("fp16,bf16");
    verb.option("--round", a->round, "Rounding of every operation").takes("MODE").shows_default();
    verb.option("--functions", a->functions,
                "correct: correctly rounded functions. macheps: the functions of core/math.hpp")
        .one_of({"correct", "macheps"})
        .shows_default();
    verb.option("--subnormals", a->subnormals, "keep: keep subnormal results. flush: replace them by zero")
        .one_of({"keep", "flush"})
        .shows_default();
    verb.flag("--keep-precision", a->keeps_precision,
              "Use :precision, :round, ! and cast of an FPCore instead of --format and --round");
    verb.group("Output");
    verb.option("-o,--out", a->out, "Write the CSV to this file. Default: stdout").takes(value_kind::file);
    verb.option("--points-out", a->points_out, "Write a row for each input to this CSV file. Default: none")
        .takes(value_kind::file);
    verb.option("--as", a->as, "Print the formulas as FPCore and run nothing. Default: evaluate them")
        .one_of({"fpcore"});
    describe_row_form(verb, a->form);
    verb.integer("--threads", a->threads, {0, max_threads},
                 "Number of threads. 0: every core that this process may use. The results do not depend on it")
        .shows_default();
    verb.flag("-q,--quiet", a->quiet, "Print no progress on stderr");
    verb.allow_rest();
    verb.runs([a, &verb] { return run_eval_verb(verb, *a); });
}

}  // namespace

const VerbRow verb{"eval", help, describe_eval, notes.c_str()};

}  // namespace macheps::cmd::eval
