// SPDX-License-Identifier: Apache-2.0
// `macheps check`: outputs of a kernel against what its formats, its K and its order of summation allow.
#include "experiments/check/check.hpp"
#include "core/publish.hpp"
#include "core/read_file.hpp"
#include "experiments/cmd/check_inputs.hpp"
#include "experiments/cmd/check_output.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/json.hpp"
#include "experiments/files/raw_word.hpp"
#include "reports/sha256.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace macheps {

namespace {

constexpr const char* help =
    "Is a kernel's output as accurate as its formats, its K and its order allow, and would we have noticed?\n\n"
    "Examples:\n"
    "  macheps check out.npz --op gemm                               a [m,k], b [k,n], out [m,n] of one file\n"
    "  macheps check out.npz --op gemm --a bf16 --b bf16 --out bf16  codes that the file calls |V2 or <u2\n"
    "  macheps check out.npz --op gemm --a bf16 --b bf16 --out bf16 --machine sm80.mma.bf16\n"
    "                                                                what these tensor cores may lose, too\n"
    "  macheps check x.npy y.npy out=y --op softmax                  one array a file; y is the output\n"
    "  macheps check norm.safetensors gain=w --op rmsnorm --eps 1e-5 --allow-weak\n"
    "  macheps check out.npz --op gemm --bounds limits.npz --json    limits of each output, for an own assert\n\n"
    "Files: .npz (compressed too), .npy (the array has the file's name), .safetensors, .pt; and bare numbers, declared "
    "as\n"
    "a.bin:bf16[192,1000], with /packed or /columns behind the format, @BYTES behind the sizes. Arrays by name: a, b, "
    "out and\n"
    "a_scale, b_scale (decode scales: they multiply), bias, c, residual of gemm; x, out, gain, shift of the others, "
    "whose\n"
    "rows are the last axis. ROLE=NAME renames. What the file does not say is declared: --a e4m3fn; e2m1fn/packed has\n"
    "two codes a byte, the lower half first.\n\n"
    "Verdicts: pass. fail: an output that no legal kernel gives, or errors that are too large together. weak: no test\n"
    "fails, but a wrong kernel would have passed too (--require says how wrong). refused: a limit of yours that zeros\n"
    "satisfy. declined: nothing certain can be said.\n"
    "Exit codes: 0 pass; 1 fail, weak; 2 usage, refused, declined; 3 an input file.";

struct Arguments {
    std::vector<std::string> words, limits;
    std::string op, require = "structure", bounds, delta = "1e-9", rtol, atol;
    std::vector<std::string> declared =
        std::vector<std::string>(check::declare_keys().size());  ///< by key: what was given, if anything
    std::deque<bool> flags = std::deque<bool>(check::declare_keys().size());
    bool allow_weak = false, certain_only = false, json = false;
};

constexpr const char* powers[] = {"null", "structure", "precision", "all"};

Error usage(std::string what, std::string where, std::string fix) {
    return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
}

std::string sha256_text(std::string_view bytes) {
    std::string text;
    for (const std::uint8_t byte : sha256(bytes)) text += fmt::format("{:02x}", byte);
    return text;
}

check::Declaration declaration_of(const Arguments& a) {
    check::Declaration d{.operation = &check::find_operation(a.op)};
    const std::vector<check::DeclareKey>& keys = check::declare_keys();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::string text = a.flags[i] ? "true" : a.declared[i];
        if (!text.empty()) check::declare(d, keys[i], text, keys[i].option());
    }
    return d;
}

check::Options options_of(const Arguments& a) {
    check::Options options{.certain_only = a.certain_only};
    options.require =
        static_cast<check::Power>(std::find(std::begin(powers), std::end(powers), a.require) - std::begin(powers));
    options.delta = check::declared_number(a.delta, "--delta", 1e-300, 0.5);
    if (!a.rtol.empty()) options.rtol = check::declared_number(a.rtol, "--rtol", 0, 1e300);
    if (!a.atol.empty()) options.atol = check::declared_number(a.atol, "--atol", 0, 1e300);
    std::vector<std::string_view> names;
    for (const check::Metric& metric : check::metrics({}, {})) names.push_back(metric.name);
    for (const std::string& limit : a.limits) {
        const std::size_t equals = limit.find('=');
        const std::string name = limit.substr(0, equals);
        if (equals == std::string::npos || std::find(names.begin(), names.end(), name) == names.end())
            throw usage(fmt::format("'{}' is no limit", limit), "--limit",
                        fmt::format("METRIC=X with one of {}", fmt::join(names, ", ")));
        options.metric_limits[name] = check::declared_number(limit.substr(equals + 1), "--limit", -1e300, 1e300);
    }
    return options;
}

/// Reads all files, and calls arrays by their roles.
std::vector<StoredArray> read_all(const Arguments& a, const check::Declaration& d, CheckedFiles& files) {
    std::vector<std::string> roles{"out"};
    if (d.operation->is_product) roles.insert(roles.end(), {"a", "b"});
    for (const check::ArrayRole& role : d.operation->arrays) roles.emplace_back(role.name);
    std::vector<StoredArray> arrays;
    std::vector<std::pair<std::string, std::string>> names;
    std::string all;
    for (const std::string& word : a.words) {
        const std::size_t equals = word.find('=');
        const std::string role = word.substr(0, equals);
        if (equals != std::string::npos && std::find(roles.begin(), roles.end(), role) != roles.end()) {
            names.emplace_back(role, word.substr(equals + 1));
            continue;
        }
        files.files.push_back(word);
        const FileWord file = parse_file_word(word);
        for (StoredArray& array : read_arrays(file)) arrays.push_back(std::move(array));
        all += sha256_text(read_file(file.path));
    }
    if (files.files.empty()) throw usage("no file", "FILE", "give the arrays of the kernel");
    files.digest = files.files.size() == 1 ? all : sha256_text(all);
    for (const auto& renamed : names) {
        const auto& role = renamed.first;
        const auto& name = renamed.second;
        const auto array =
            std::find_if(arrays.begin(), arrays.end(), [&](const StoredArray& each) { return each.name == name; });
        if (array == arrays.end())
            throw Error({.what = fmt::format("there is no array '{}'", name),
                         .where = role + "=" + name,
                         .fix = "rename one that the files have"});
        array->name = role;
    }
    for (const StoredArray& array : arrays) {
        if (std::find(roles.begin(), roles.end(), array.name) == roles.end()) files.unused.push_back(array.name);
    }
    return arrays;
}

Exit run(const Arguments& a) {
    const check::Declaration declaration = declaration_of(a);
    const check::Options options = options_of(a);
    CheckedFiles files;
    const std::vector<StoredArray> arrays = read_all(a, declaration, files);
    ThreadPool pool(available_threads());
    const check::Posed posed = check::pose(declaration, arrays, pool);
    const check::Verdict verdict = check::check(posed.problem, posed.out, options, pool);
    if (!a.bounds.empty()) {
        publish(a.bounds, npz_text({{"exact", posed.out_shape, verdict.limits.exact},
                                    {"certain", posed.out_shape, verdict.limits.certain},
                                    {"probable", posed.out_shape, verdict.limits.probable}}));
    }
    if (a.json) {
        print_json(check_json(posed.problem, verdict, options, files));
    } else {
        const std::string text = check_text(posed.problem, verdict, options, files);
        std::fwrite(text.data(), 1, text.size(), stdout);
    }
    if (verdict.outcome == check::Outcome::weak && a.allow_weak) return Exit::ok;
    return check::exit_of(verdict.outcome);
}

constexpr const VerbRow* below[] = {&check_make_inputs, &check_power};

void describe(Command& verb) {
    if (verb.goes_on_with(below)) return;
    const auto a = std::make_shared<Arguments>();
    std::vector<std::string> operations;
    for (const check::Operation& operation : check::all_operations()) operations.emplace_back(operation.name);
    verb.option("FILE", a->words, "Files of arrays, and ROLE=NAME").required().takes(value_kind::file);
    verb.option("--op", a->op, "What the kernel computes; nothing is guessed when left out")
        .required()
        .one_of(operations);
    const std::vector<check::DeclareKey>& keys = check::declare_keys();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const check::DeclareKey& key = keys[i];
        if (key.takes == check::DeclareKey::Takes::flag) {
            verb.flag(key.option(), a->flags[i], key.help);
            continue;
        }
        Option option = verb.option(key.option(), a->declared[i], key.help).takes(key.value.c_str());
        if (key.words != nullptr) {
            const std::vector<std::string_view> words = key.words();
            option.one_of({words.begin(), words.end()});
        }
        if (!key.default_text().empty()) option.default_text(key.default_text());
    }
    verb.option("--require", a->require, "Which wrong kernels the check must be able to catch")
        .one_of({std::begin(powers), std::end(powers)})
        .shows_default();
    verb.flag("--allow-weak", a->allow_weak, "A weak check exits with 0");
    verb.flag("--certain-only", a->certain_only, "A probable bound that is exceeded is no failure");
    verb.option("--delta", a->delta, "How often a legal kernel may exceed a probable bound").takes("X").shows_default();
    verb.option("--rtol", a->rtol, "Besides: |error| <= atol + rtol |exact|; no limit when left out").takes("X");
    verb.option("--atol", a->atol, "See --rtol; 0 when left out").takes("X");
    verb.option("--limit", a->limits,
                "Repeat for several: besides, a limit on max, ulp, fro, sqnr, cosine or calc_diff")
        .repeats()
        .takes("METRIC=X");
    verb.option("--bounds", a->bounds,
                "Write exact, certain and probable of each output here (.npz); nothing when left out")
        .takes(value_kind::file);
    verb.flag("--json", a->json, "JSON");
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow check_verb{"check", help, describe};

}  // namespace macheps
