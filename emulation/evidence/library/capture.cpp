// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/capture.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "emulation/evidence/library/layout.hpp"
#include "emulation/evidence/traces/json_lines.hpp"

#include <algorithm>
#include <charconv>
#include <future>

namespace macheps::evidence {

namespace {

using evidence::bad_json_lines;
using evidence::json_field;

constexpr int capture_schema = 1;
constexpr const char* kind_key = "macheps_library";
constexpr const char* tree_key = "macheps_tree";

/// Reads and writes one integer member of a LibraryProblem or a LibraryAlgorithm. `key` is the name of the member in
/// the header of a capture.
template <class Owner>
struct IntegerRow {
    const char* key;
    std::int64_t (*get)(const Owner&);
    void (*set)(Owner&, std::int64_t);
};
#define MACHEPS_INTEGER(Owner, member)                                                     \
    {                                                                                      \
#member, [](const Owner& x) { return static_cast<std::int64_t>(x.member); },             \
            [](Owner& x, std::int64_t value) { x.member = static_cast<decltype(x.member)>(value); } \
    }
constexpr IntegerRow<LibraryProblem> problem_rows[] = {
    MACHEPS_INTEGER(LibraryProblem, m),
    MACHEPS_INTEGER(LibraryProblem, n),
    MACHEPS_INTEGER(LibraryProblem, k),
    MACHEPS_INTEGER(LibraryProblem, whole_words),
    MACHEPS_INTEGER(LibraryProblem, fast_accumulation),
    MACHEPS_INTEGER(LibraryProblem, a_by_rows),
    MACHEPS_INTEGER(LibraryProblem, b_by_columns),
    MACHEPS_INTEGER(LibraryProblem, slices),
    MACHEPS_INTEGER(LibraryProblem, reduction),
    MACHEPS_INTEGER(LibraryProblem, scaling),
};
constexpr IntegerRow<LibraryAlgorithm> algorithm_rows[] = {
    MACHEPS_INTEGER(LibraryAlgorithm, id),        MACHEPS_INTEGER(LibraryAlgorithm, tile),
    MACHEPS_INTEGER(LibraryAlgorithm, stages),    MACHEPS_INTEGER(LibraryAlgorithm, slices),
    MACHEPS_INTEGER(LibraryAlgorithm, reduction), MACHEPS_INTEGER(LibraryAlgorithm, inner_shape),
    MACHEPS_INTEGER(LibraryAlgorithm, cluster),   MACHEPS_INTEGER(LibraryAlgorithm, swizzle),
    MACHEPS_INTEGER(LibraryAlgorithm, custom),    MACHEPS_INTEGER(LibraryAlgorithm, implementation),
};
#undef MACHEPS_INTEGER

struct FormatRow {
    const char* key;
    Format LibraryProblem::*member;
};
constexpr FormatRow format_rows[] = {{"a", &LibraryProblem::a},
                                     {"b", &LibraryProblem::b},
                                     {"out", &LibraryProblem::out},
                                     {"accumulator", &LibraryProblem::accumulator}};

constexpr int max_tree_terms = 1 << 20;

/// Returns the architecture that a header names. Captures without this field were made on an H100.
std::string architecture_of(const Json& header, const std::string& where) {
    return header.contains("architecture") ? json_field<std::string>(header, "architecture", where) : "sm_90";
}

int digits_of(const Format& format) { return static_cast<int>(2 * bytes_of(format)); }

std::uint32_t code_of(const Format& format, float value) {
    if (bytes_of(format) == 4) return bit_cast<std::uint32_t>(value);
    return encode(format, value, Round::nearest_even, Overflow::nonsaturate);
}

std::string codes_text(const LibraryProblem& p, const std::vector<float>& out, const std::vector<std::int64_t>& rows,
                       const std::vector<std::int64_t>& columns) {
    std::string text;
    for (const std::int64_t i : rows) {
        for (const std::int64_t j : columns)
            fmt::format_to(std::back_inserter(text), "{:0{}x}",
                           code_of(p.out, out[static_cast<std::size_t>(i * p.n + j)]), digits_of(p.out));
    }
    return text;
}

/// Returns the rows and columns of a grid with about `most` outputs. The grid has up to 32 rows. It has more rows only
/// if the problem does not have enough columns.
std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> places_of(const LibraryProblem& p, std::int64_t most) {
    const std::int64_t rows = std::min<std::int64_t>({p.m, 32, most});
    const std::int64_t columns = std::min(p.n, most / rows);
    return {spread(p.m, std::min(p.m, most / columns)), spread(p.n, columns)};
}

std::vector<std::string> captured_classes() {
    std::vector<std::string> classes(std::begin(library_classes), std::end(library_classes));
    classes.emplace_back(special_class);
    return classes;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](float a, float b) {
        return bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b) || (a != a && b != b);
    });
}

class RecordedPlan final : public LibraryPlan {
  public:
    RecordedPlan(const RecordedLibrary& recorded, std::size_t algorithm)
        : recorded_(recorded), algorithm_(recorded.algorithms.at(algorithm)) {}

    LibraryAlgorithm algorithm() const override { return algorithm_.algorithm; }
    const LibraryPlaces* places() const override { return &places_; }
    void upload(const LibraryOperands& operands) override { class_ = operands.name; }
    void launch() override {}
    std::vector<float> download() override {
        const LibraryProblem& p = recorded_.problem;
        std::vector<float> out(static_cast<std::size_t>(p.m * p.n));
        for (const auto& [name, values] : algorithm_.outputs) {
            if (name != class_) continue;
            std::size_t at = 0;
            for (const std::int64_t i : recorded_.rows) {
                for (const std::int64_t j : recorded_.columns)
                    out[static_cast<std::size_t>(i * p.n + j)] = values[at++];
            }
            return out;
        }
        bad_json_lines(fmt::format("there are no outputs of the class '{}'", class_), p.name());
    }

  private:
    RecordedLibrary recorded_;
    RecordedAlgorithm algorithm_;
    LibraryPlaces places_{recorded_.rows, recorded_.columns};
    std::string class_{};
};

}  // namespace

CapturedProblem capture_library(MatmulLibrary& library, const LibraryProblem& problem, std::uint64_t seed,
                                const CaptureSize& size) {
    CapturedProblem captured;
    const std::vector<std::string> classes = captured_classes();
    const auto [rows, columns] = places_of(problem, size.outputs);
    std::vector<LibraryOperands> operands;
    std::vector<LibraryAlgorithm> seen;
    Json algorithms = Json::array();
    LibraryProblem smaller = problem;
    smaller.workspace /= 2;  // with half of the workspace, the library may prefer another algorithm
    for (int choice = 0; choice <= size.choices; ++choice) {
        const bool is_smaller = choice == size.choices;
        const LibraryProblem& p = is_smaller ? smaller : problem;
        const LibraryAnswer answer = library.plan(p, is_smaller ? 0 : choice);
        if (answer.plan == nullptr) {
            if (choice == 0) captured.declined = answer.declined;
            if (seen.empty()) return captured;
            continue;
        }
        const LibraryAlgorithm algorithm = answer.plan->algorithm();
        Json entry{{"workspace", p.workspace}, {"words", algorithm.to_string()}};
        for (const auto& row : algorithm_rows) entry[row.key] = row.get(algorithm);
        if (const auto known = std::find(seen.begin(), seen.end(), algorithm); known != seen.end()) {
            if (is_smaller) entry["as"] = known - seen.begin();
            if (is_smaller) algorithms.push_back(entry);
            continue;
        }
        if (operands.empty()) {  // generate the operands of all classes in parallel
            std::vector<std::future<LibraryOperands>> made;
            for (const std::string& name : classes)
                made.push_back(
                    std::async(std::launch::async, [&, name] { return library_operands(problem, name, seed); }));
            for (std::future<LibraryOperands>& each : made) operands.push_back(each.get());
        }
        for (std::size_t c = 0; c < classes.size(); ++c) {
            const std::vector<float> out = answer.plan->run(operands[c]);
            if (c == 0) entry["varies"] = !same_bits(out, answer.plan->run(operands[c]));
            const Json line{
                {"algorithm", seen.size()}, {"class", classes[c]}, {"out", codes_text(problem, out, rows, columns)}};
            captured.capture.lines += line.dump() + '\n';
            captured.outputs += rows.size() * columns.size();
        }
        if (seen.empty()) captured.chosen = algorithm.to_string();
        seen.push_back(algorithm);
        algorithms.push_back(entry);
    }
    captured.algorithms = static_cast<int>(seen.size());
    Json header{{kind_key, capture_schema},
                {"problem", problem.name()},
                {"library", library.name()},
                {"architecture", library.architecture()}};
    for (const FormatRow& row : format_rows) header[row.key] = format_name(problem.*row.member);
    for (const auto& row : problem_rows) header[row.key] = row.get(problem);
    header["seed"] = seed;
    header["rows"] = rows;
    header["columns"] = columns;
    header["algorithms"] = algorithms;
    captured.capture.name = problem.name();
    captured.capture.header = header.dump();
    return captured;
}

bool is_library_capture(const Json& header) { return header.contains(kind_key); }

RecordedLibrary parse_library_capture(std::string_view text, const std::string& where) {
    const Json header = evidence::json_lines_header(text, where);
    const std::string first = where + ":1";
    if (json_field<int>(header, kind_key, first) != capture_schema)
        bad_json_lines("the version of the capture is not supported", first);
    RecordedLibrary recorded;
    for (const FormatRow& row : format_rows)
        recorded.problem.*row.member = format_named(json_field<std::string>(header, row.key, first), first);
    for (const auto& row : problem_rows) row.set(recorded.problem, json_field<std::int64_t>(header, row.key, first));
    recorded.library = json_field<std::string>(header, "library", first);
    recorded.architecture = architecture_of(header, first);
    recorded.gpu = json_field<std::string>(header, "gpu", first);
    recorded.driver = json_field<std::string>(header, "driver", first);
    recorded.toolkit = json_field<std::string>(header, "toolkit", first);
    recorded.date = json_field<std::string>(header, "date", first);
    recorded.seed = json_field<std::uint64_t>(header, "seed", first);
    recorded.rows = json_field<std::vector<std::int64_t>>(header, "rows", first);
    recorded.columns = json_field<std::vector<std::int64_t>>(header, "columns", first);
    if (recorded.problem.name() != json_field<std::string>(header, "problem", first))
        bad_json_lines("the name of the problem does not match its fields", first);
    for (const auto* places : {&recorded.rows, &recorded.columns}) {
        const std::int64_t end = places == &recorded.rows ? recorded.problem.m : recorded.problem.n;
        for (const std::int64_t place : *places) {
            if (place < 0 || place >= end) bad_json_lines("a recorded row or column lies outside the product", first);
        }
    }
    for (const Json& entry : json_field<Json>(header, "algorithms", first)) {
        if (entry.contains("as")) continue;
        RecordedAlgorithm algorithm;
        algorithm.workspace = json_field<std::int64_t>(entry, "workspace", first);
        algorithm.varies = json_field<bool>(entry, "varies", first);
        for (const auto& row : algorithm_rows)
            row.set(algorithm.algorithm, json_field<std::int64_t>(entry, row.key, first));
        recorded.algorithms.push_back(std::move(algorithm));
    }
    const std::size_t outputs = recorded.rows.size() * recorded.columns.size();
    const auto digits = static_cast<std::size_t>(digits_of(recorded.problem.out));
    std::string_view rest = text.substr(text.find('\n') + 1);
    for (int number = 2; !rest.empty(); ++number) {
        const std::string here = fmt::format("{}:{}", where, number);
        const std::size_t stop = std::min(rest.find('\n'), rest.size() - 1);
        const Json line = evidence::parse_json_line(rest.substr(0, stop), here);
        rest.remove_prefix(stop + 1);
        const auto codes = json_field<std::string>(line, "out", here);
        const auto at = json_field<std::size_t>(line, "algorithm", here);
        if (codes.size() != outputs * digits || at >= recorded.algorithms.size())
            bad_json_lines("outputs are missing, or their algorithm is unknown", here);
        std::vector<float> values;
        for (std::size_t i = 0; i < codes.size(); i += digits) {
            std::uint32_t code = 0;
            const char* const end = codes.data() + i + digits;
            if (std::from_chars(codes.data() + i, end, code, 16).ptr != end)
                bad_json_lines("an output is not a hexadecimal code", here);
            values.push_back(digits == 8 ? bit_cast<float>(code) : decode(recorded.problem.out, code));
        }
        recorded.algorithms[at].outputs.emplace_back(json_field<std::string>(line, "class", here), std::move(values));
    }
    return recorded;
}

std::unique_ptr<LibraryPlan> recorded_plan(const RecordedLibrary& recorded, std::size_t algorithm) {
    return std::make_unique<RecordedPlan>(recorded, algorithm);
}

evidence::Capture tree_capture(const LibraryProblem& p, const LibraryAlgorithm& algorithm, const MatmulLibrary& library,
                               const SumTree& tree) {
    const Json header{{tree_key, capture_schema},           {"problem", p.name()},
                      {"library", library.name()},          {"architecture", library.architecture()},
                      {"algorithm", algorithm.to_string()}, {"slices", algorithm.slices}};
    const Json line{{"terms", p.k}, {"steps", tree_steps(tree)}};
    return {.name = "reveal." + p.name(), .header = header.dump(), .lines = line.dump() + '\n'};
}

bool is_tree_capture(const Json& header) { return header.contains(tree_key); }

RecordedTree parse_tree_capture(std::string_view text, const std::string& where) {
    const std::string first = where + ":1", second = where + ":2";
    const Json header = evidence::json_lines_header(text, where);
    const Json line = evidence::parse_json_line(text.substr(text.find('\n') + 1), second);
    RecordedTree recorded{.problem = json_field<std::string>(header, "problem", first),
                          .algorithm = json_field<std::string>(header, "algorithm", first),
                          .library = json_field<std::string>(header, "library", first),
                          .architecture = architecture_of(header, first),
                          .gpu = json_field<std::string>(header, "gpu", first)};
    if (header.contains("slices")) {
        recorded.slices = json_field<int>(header, "slices", first);
    } else if (const std::size_t at = recorded.algorithm.find("splitk ");
               at != std::string::npos) {  // without the field, the text of the algorithm gives it
        const char* const begin = recorded.algorithm.data() + at + 7;
        std::from_chars(begin, recorded.algorithm.data() + recorded.algorithm.size(), recorded.slices);
    }
    const int terms = json_field<int>(line, "terms", second);
    if (terms < 1 || terms > max_tree_terms) bad_json_lines("the number of terms of the tree is out of range", second);
    (void)json_field<std::string>(line, "steps", second);  // throws if `steps` is missing; its text would lack newlines
    recorded.tree = parse_tree_steps(terms, line["steps"].string());
    return recorded;
}

}  // namespace macheps::evidence
