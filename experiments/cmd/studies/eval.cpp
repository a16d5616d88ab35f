// SPDX-License-Identifier: Apache-2.0
// `macheps eval`: the error of formulas in any format, over all inputs or drawn ones, as CSV rows.
#include "experiments/study/eval/eval.hpp"
#include "core/format_table.hpp"
#include "core/host/read_file.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/rounding_option.hpp"
#include "experiments/cmd/frame/row_output.hpp"
#include "experiments/cmd/frame/tell.hpp"
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
    std::string out, line = "Functions:";
    for (const study::OpRow& row : study::op_rows()) {
        const bool is_word = std::isalpha(static_cast<unsigned char>(row.name.front())) != 0;
        const bool is_logic = row.op == study::Op::both || row.op == study::Op::either || row.op == study::Op::negation;
        if (!is_word || is_logic || row.op == study::Op::neg) continue;
        if (line.size() + row.name.size() > 116) {
            out += line + "\n";
            line.clear();
        }
        line += (line.empty() ? "" : " ") + std::string(row.name);
    }
    return out + line + ". abs, min and max are fabs, fmin and fmax.\n";
}

const std::string eval_help =
    "The error of formulas in any format, over every input or drawn ones, as CSV.\n\n"
    "Examples:\n"
    "  macheps eval \"log1p(exp(x))\" --x -20:20 -f fp16,bf16     every number from -20 to 20\n"
    "  macheps eval \"(1-cos(x))/sin(x)\" \"tan(x/2)\" --x 0:3.2 -f e4m3fn,e5m2\n"
    "  macheps eval \"sqrt(x+1)-sqrt(x)\" --x 0:inf -f e4m3fn --points-out points.csv\n"
    "                                                          a row for each input as well\n"
    "  macheps eval \"x*x - y*y\" --x 1:2 --y 1:2 -f fp32 --points 2000      drawn inputs\n"
    "  macheps eval \"exp(x)-1\" --as fpcore                      the formula as other tools read it\n"
    "  macheps eval formulas.fpcore -f fp16 --only \"NMSE*\"      FPCores of a file, by name\n"
    "  macheps eval \"(FPCore (x) :precision binary16 (- (! :precision binary32 (* x x)) x))\" --keep-precision\n"
    "                                                          a square in fp32, in a formula in fp16\n"
    "  macheps eval \"exp(x)\" \"erfc(x)\" --x 0x1.8p3 -f fp64,fp32 --round up      one input\n\n"
    "A formula has names, numbers, + - * / ^ (pow), calls and if(a < b, c, d); nothing in it is rearranged. Files hold "
    "FPCore\n"
    "2.0, without arrays. Every operator is one rounding to the format; functions are correctly rounded, or those of\n"
    "core/math.hpp. The reference is the exact value of the formula, rounded once, in the mode of --round (stochastic: "
    "to nearest).\n"
    "It is found from enclosures (Arb) with more and more digits, until every value in the enclosure rounds alike. An "
    "input for which\n"
    "the digits do not suffice is counted as `unresolved`.\n" +
    function_lines() +
    "--NAME A:B is the range of the input NAME, ends included, and --NAME A is one number; all finite numbers when "
    "left out. Numbers\n"
    "are decimal or hexadecimal (0x1p-3). A formula of one input in a format of up to 16 bits is evaluated at every "
    "input, and so is\n"
    "a range with at most 1000 numbers. Other formulas are evaluated at 1000 drawn inputs; each number of the range is "
    "equally likely.\n"
    "Bits of error: log2(1 + numbers of the format between result and reference), the format's width for a NaN.\n"
    "On a terminal, and with --table: a table of the main columns; else, and with --csv, all of them.\n"
    "CSV: a row for each formula and format; docs/columns.md has the columns.\n"
    "JSON: {\"schema\", \"rows\": [one object per row]}.\n"
    "Exit codes: 2, a formula that cannot be read, an unknown name, an empty range; 3, a damaged file; 4, this build "
    "has no Arb;\n"
    "5, the rows could not be written.";

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
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), x,
                                               is_hex ? std::chars_format::hex : std::chars_format::general);
    if (error != std::errc{} || last != digits.data() + digits.size() || digits.starts_with("-") || !std::isfinite(x)) {
        throw usage_error(fmt::format("'{}' is no number", text), where,
                          "Use a number such as 304, -2.5 or 0x1p-3, or a range such as -20:20 or 0:inf");
    }
    return is_negative ? -x : x;
}

/// Reads ranges such as `--x -20:20 --y=0:inf`. The parser does not know these options, so their words are in rest(). A
/// range in a separate word that does not begin with a minus sign has been parsed as a formula. It is removed from the
/// formulas.
void add_ranges(EvalGrid& grid, const Command& verb, std::vector<std::string>& expressions) {
    const std::vector<std::string> rest = verb.rest(), &words = verb.command_line();
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (std::find(rest.begin(), rest.end(), words[i]) == rest.end()) continue;
        std::string name = words[i], range;
        if (!name.starts_with("--") || name.size() < 3) {
            throw usage_error(fmt::format("'{}' is no option", name), "macheps eval",
                              "--NAME A:B is the range of an input NAME");
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
        constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;
        study::Cores cores = is_file_name(text)
                                 ? study::parse_cores(read_file(text, most_bytes), text, a.keeps_precision)
                                 : study::parse_cores(text, "expression", a.keeps_precision);
        for (study::Expression& each : cores.expressions) {
            if (a.only.empty() || glob_match(a.only, each.name)) grid.expressions.push_back(std::move(each));
        }
        for (const study::SkippedCore& skipped : cores.skipped) tell("left out: {}: {}\n", skipped.name, skipped.why);
    }
    if (grid.expressions.empty())
        throw usage_error("no formula is left", a.only.empty() ? "EXPRESSION" : "--only", "see the names in the file");
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
            if (!a.quiet) tell("{}\n", what);
        });
    rows.finish();
    if (!a.points_out.empty()) {
        publish(a.points_out, points);
        tell("wrote {}\n", a.points_out);
    }
    return Exit::ok;
}

void describe_eval(Command& verb) {
    const auto a = std::make_shared<EvalArguments>();
    verb.option("EXPRESSION", a->expressions, "Formulas, or files of FPCores that end in .fpcore").required();
    verb.option("-f,--format", a->formats, "Formats of inputs and operations")
        .list()
        .takes(value_kind::format)
        .default_text("fp16,bf16");
    verb.option("--round", a->round, "Rounding of every operation").takes("MODE").shows_default();
    verb.option("--functions", a->functions, "correct: correctly rounded; macheps: those of core/math.hpp")
        .one_of({"correct", "macheps"})
        .shows_default();
    verb.option("--subnormals", a->subnormals, "flush: results below the least normal number become zero")
        .one_of({"keep", "flush"})
        .shows_default();
    verb.integer("--points", a->points, {0, 100000000}, "Drawn inputs; 0: all, where they are few").shows_default();
    verb.integer("--seed", a->seed, seed_limits, "Of drawn inputs and stochastic rounding").shows_default();
    verb.option("--only", a->only, "FPCores whose names this pattern meets; all when left out").takes("GLOB");
    verb.flag("--keep-precision", a->keeps_precision,
              "An FPCore's own :precision, :round, ! and cast hold, in place of --format and --round");
    verb.option("--as", a->as, "Print the formulas as FPCore and run nothing; rows when left out").one_of({"fpcore"});
    verb.option("--points-out", a->points_out, "Write a row for each input into this CSV file; nothing when left out")
        .takes(value_kind::file);
    verb.option("-o,--out", a->out, "Write the CSV into this file; to stdout when left out").takes(value_kind::file);
    verb.integer("--threads", a->threads, {0, most_threads},
                 "Threads; 0: every core this process may use. The results do not depend on it")
        .shows_default();
    describe_row_form(verb, a->form);
    verb.flag("-q,--quiet", a->quiet, "No progress on stderr");
    verb.allow_rest();
    verb.runs([a, &verb] { return run_eval_verb(verb, *a); });
}

}  // namespace

const VerbRow verb{"eval", eval_help.c_str(), describe_eval};

}  // namespace macheps::cmd::eval
