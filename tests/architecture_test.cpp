// SPDX-License-Identifier: Apache-2.0
// Checks rules for the source tree that a compiler does not enforce. For example, a room (a part of the product with
// its own folder) may include only certain other rooms, only through certain headers, and without cycles.
// docs/architecture.md describes the rules.
#include "tests/test.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace architecture_test {

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

/// Maps each room of the product to the rooms that its files may include.
const std::map<std::string, Names> rooms{
    {"core", {"core"}},
    {"emulation", {"core", "emulation"}},
    {"reports", {"core", "reports"}},
    {"experiments/files", {"core", "experiments/files"}},
    {"experiments/study", {"core", "emulation", "reports", "experiments/files", "experiments/study"}},
    {"experiments/check",
     {"core", "emulation", "reports", "experiments/files", "experiments/study", "experiments/check"}},
    {"experiments/policy", {"core", "emulation", "reports", "experiments/files", "experiments/policy"}},
    {"experiments/configs",
     {"core", "emulation", "reports", "experiments/files", "experiments/policy", "experiments/configs"}},
    {"experiments/training",
     {"core", "emulation", "reports", "experiments/files", "experiments/policy", "experiments/training"}},
    {"experiments",
     {"core", "emulation", "reports", "experiments/files", "experiments/study", "experiments/check",
      "experiments/policy", "experiments/configs", "experiments/training", "experiments"}},
    {"python",
     {"core", "emulation", "reports", "experiments/files", "experiments/study", "experiments/check",
      "experiments/policy", "experiments/configs", "experiments/training", "python"}},
};

/// For each of these folders, lists the headers (doors) that files outside the folder may include. If the list is
/// empty, files outside may not include anything from the folder.
const std::map<std::string, Names> doors{
    {"emulation/cpu",
     {"cpu_backend.hpp", "matmul/machine/instruction_grid.hpp", "ops/casts/cast64.hpp", "ops/casts/codes.hpp",
      "ops/casts/fidelity.hpp", "simd/simd.hpp", "simd/targets.hpp"}},
    {"emulation/cpu/matmul", {"machine/instruction_grid.hpp", "matmul.hpp"}},
    {"emulation/gpu",
     {"device/compiled_code.hpp", "device/cuda_device.hpp", "device/device.hpp", "device/threads.hpp",
      "device_backend.hpp", "gpu.hpp"}},
    {"emulation/gpu/kernels", {"rows.hpp", "tensor.hpp"}},
    {"emulation/gpu/matmul", {"matmul.hpp", "matrix_units.hpp"}},
    {"emulation/evidence/gpu/matrix", {"probes.hpp", "replay.hpp"}},
    {"emulation/evidence/gpu/scalar", {"groups.hpp", "probes.hpp", "replay.hpp"}},
    {"emulation/evidence/library", {"capture.hpp", "child.hpp", "fit.hpp", "probes.hpp", "torch.hpp"}},
    {"emulation/scaling", {"cast_plan.hpp", "history.hpp", "rules.hpp", "scaling.hpp"}},
    {"experiments/check",
     {"check.hpp", "checked.hpp", "declare/declare.hpp", "declare/operations.hpp", "inputs.hpp", "options.hpp",
      "verdicts/baseline.hpp", "verdicts/run.hpp"}},
    {"experiments/cmd", {}},
    {"experiments/configs",
     {"framework.hpp", "history/history.hpp", "import.hpp", "memory/advise.hpp", "memory/memory_recipe.hpp",
      "memory/tensors.hpp", "memory/training_format.hpp", "remedy/remedies.hpp", "requirements.hpp",
      "symptoms/causes.hpp", "symptoms/checks.hpp", "symptoms/match.hpp", "symptoms/symptoms.hpp"}},
    {"experiments/policy",
     {"diff.hpp", "language/copied_preset.hpp", "language/expand.hpp", "language/preset_alias.hpp",
      "language/words.hpp", "memory_bytes.hpp", "policy.hpp", "scaler/scaler.hpp", "scaler/trace.hpp", "sites.hpp",
      "training.hpp"}},
    {"experiments/policy/scaler", {"scaler.hpp", "trace.hpp"}},
    {"experiments/study",
     {"eval/eval.hpp", "eval/exact_number.hpp", "eval/testfloat_function.hpp", "machine/eval.hpp",
      "product/error_bound.hpp", "product/exact_product.hpp", "product/gemm.hpp", "product/via.hpp",
      "scale/scale_trace.hpp", "scale/scaled_array.hpp", "solve/solve.hpp", "sum/sum.hpp", "sweep_axis.hpp"}},
    {"experiments/training/sweep",
     {"engines.hpp", "grow.hpp", "results/gather.hpp", "results/merge.hpp", "results/status.hpp", "run.hpp",
      "shard.hpp", "store/layout.hpp", "sweep.hpp"}},
};

std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

const fs::path root = MACHEPS_SOURCE_DIR;

bool is_source(const fs::path& path) {
    static const std::set<std::string> endings{".hpp", ".cpp", ".cu", ".inl"};
    return endings.contains(path.extension().string());
}

/// Returns the quoted includes of `text`.
Names includes_in(std::string_view text) {
    Names names;
    constexpr std::string_view word = "#include \"";
    for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
        if (at > 0 && text[at - 1] != '\n') continue;
        const std::size_t from = at + word.size(), to = text.find('"', from);
        names.emplace_back(text.substr(from, to - from));
    }
    return names;
}

/// Maps each source file of the product to the files that it includes. Paths are relative to the root.
using Includes = std::map<std::string, Names>;
Includes read_includes() {
    Includes all;
    for (const auto& [room, may] : rooms) {
        for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
            if (!entry.is_regular_file() || !is_source(entry.path())) continue;
            all[fs::relative(entry.path(), root).string()] = includes_in(text_of(entry.path()));
        }
    }
    return all;
}

/// Returns the public headers: the files that the CMakeLists.txt of a room lists in its file set HEADERS.
std::set<std::string> public_headers() {
    static const std::set<std::string> ends{"PUBLIC", "PRIVATE", "INTERFACE", "FILE_SET"};
    std::set<std::string> found;
    for (const auto& [room, may] : rooms) {
        const std::string list = text_of(root / room / "CMakeLists.txt");
        const std::size_t at = list.find("FILE_SET HEADERS");
        if (at == std::string::npos) continue;
        constexpr std::string_view word = " FILES";
        std::istringstream files(list.substr(list.find(word, at) + word.size()));
        for (std::string file; files >> file && !ends.contains(file);) {
            const bool is_last = file.ends_with(')');
            found.insert(room + '/' + file.substr(0, file.find(')')));
            if (is_last) break;
        }
    }
    return found;
}

/// Returns a text `a includes b` for each include whose target is not in `headers` (public headers and their includes).
Names unpublished(const Includes& headers) {
    Names missing;
    for (const auto& [file, includes] : headers) {
        for (const std::string& name : includes) {
            if (!headers.contains(name)) missing.push_back(file + " includes " + name);
        }
    }
    return missing;
}

std::string folder_of(std::string_view path) { return std::string(path.substr(0, path.rfind('/'))); }
bool is_within(std::string_view path, std::string_view folder) {
    return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}
/// Returns the innermost room that contains the file, or its top folder if no room contains it.
std::string room_of(std::string_view path) {
    std::string found;
    for (const auto& [room, may] : rooms) {
        if (is_within(path, room) && room.size() > found.size()) found = room;
    }
    return found.empty() ? std::string(path.substr(0, path.find('/'))) : found;
}

/// Returns a text `a includes b` for each include that `rooms` does not allow.
Names wrong_rooms(const Includes& all) {
    Names wrong;
    for (const auto& [file, includes] : all) {
        const Names& may = rooms.at(room_of(file));
        for (const std::string& name : includes) {
            if (std::find(may.begin(), may.end(), room_of(name)) == may.end())
                wrong.push_back(file + " includes " + name);
        }
    }
    return wrong;
}

Names passed_doors(const Includes& all) {
    Names wrong;
    for (const auto& [file, includes] : all) {
        for (const std::string& name : includes) {
            for (const auto& [folder, open] : doors) {
                if (!is_within(name, folder) || is_within(file, folder)) continue;
                const std::string inside = name.substr(folder.size() + 1);
                if (std::find(open.begin(), open.end(), inside) == open.end()) {
                    wrong.push_back(file + " includes " + name);
                }
            }
        }
    }
    return wrong;
}

/// Returns the nodes of a cycle in the graph, or nothing if the graph has no cycle. The first node is repeated at the
/// end.
Names circle_in(const std::map<std::string, std::set<std::string>>& graph) {
    std::set<std::string> done;
    Names path;
    const std::function<bool(const std::string&)> visit = [&](const std::string& node) {
        if (const auto again = std::find(path.begin(), path.end(), node); again != path.end()) {
            path.erase(path.begin(), again);
            path.push_back(node);
            return true;
        }
        if (done.contains(node) || !graph.contains(node)) return false;
        path.push_back(node);
        for (const std::string& next : graph.at(node)) {
            if (visit(next)) return true;
        }
        path.pop_back();
        done.insert(node);
        return false;
    };
    for (const auto& [node, next] : graph) {
        if (visit(node)) return path;
    }
    return {};
}

Names circle_of_files(const Includes& all) {
    std::map<std::string, std::set<std::string>> graph;
    for (const auto& [file, includes] : all) graph[file].insert(includes.begin(), includes.end());
    return circle_in(graph);
}

/// Returns a cycle of includes between folders, or nothing if there is no cycle. Includes between a folder and its own
/// subfolders do not count, because headers placed directly in a folder define the interface that its subfolders share.
Names circle_of_folders(const Includes& all) {
    std::map<std::string, std::set<std::string>> graph;
    for (const auto& [file, includes] : all) {
        for (const std::string& name : includes) {
            const std::string from = folder_of(file), to = folder_of(name);
            if (from != to && !is_within(from, to) && !is_within(to, from)) graph[from].insert(to);
        }
    }
    return circle_in(graph);
}

/// Includes that together break every rule. core includes emulation. emulation/evidence includes a header of
/// emulation/cpu that is not one of its doors. Two files, and therefore their folders, include each other.
const Includes broken{{"core/a.hpp", {"emulation/cpu/cpu_backend.hpp"}},
                      {"emulation/cpu/cpu_backend.hpp", {"emulation/cpu/ops/cast.hpp"}},
                      {"emulation/cpu/ops/cast.hpp", {"emulation/evidence/x.hpp"}},
                      {"emulation/evidence/x.hpp", {"emulation/cpu/ops/cast.hpp"}}};

}  // namespace

TEST_CASE("files of a room (a part of the product) include only files of the rooms that docs/architecture.md allows",
          "[architecture]") {
    CHECK(wrong_rooms(read_includes()) == Names{});
    CHECK(wrong_rooms(broken) == Names{"core/a.hpp includes emulation/cpu/cpu_backend.hpp"});
}

TEST_CASE("if entry headers are listed for a folder, files outside the folder include only these headers",
          "[architecture]") {
    CHECK(passed_doors(read_includes()) == Names{});
    CHECK(passed_doors(broken) == Names{"emulation/evidence/x.hpp includes emulation/cpu/ops/cast.hpp"});
    for (const auto& [folder, open] : doors) {
        for (const std::string& door : open) {
            CAPTURE(folder, door);
            CHECK(fs::is_regular_file(root / folder / door));
        }
    }
}

TEST_CASE("no cycle of includes exists between files or between folders", "[architecture]") {
    const Includes all = read_includes();
    CHECK(circle_of_files(all) == Names{});
    CHECK(circle_of_folders(all) == Names{});
    CHECK(circle_of_files(broken) ==
          Names{"emulation/cpu/ops/cast.hpp", "emulation/evidence/x.hpp", "emulation/cpu/ops/cast.hpp"});
    CHECK(circle_of_folders(broken) == Names{"emulation/cpu/ops", "emulation/evidence", "emulation/cpu/ops"});
}

TEST_CASE("a public header includes only public headers and begins with a comment", "[architecture]") {
    Includes headers;
    Names missing, silent;
    for (const std::string& file : public_headers()) {
        const std::string text = text_of(root / file);
        if (text.empty()) missing.push_back(file);
        headers[file] = includes_in(text);
        std::istringstream lines(text);
        std::string licence, comment;
        std::getline(lines, licence);
        std::getline(lines, comment);
        if (!licence.starts_with("// SPDX") || !comment.starts_with("// ")) silent.push_back(file);
    }
    CHECK(headers.size() > 100);
    CHECK(missing == Names{});
    CHECK(silent == Names{});
    CHECK(unpublished(headers) == Names{});
    CHECK(unpublished({{"core/a.hpp", {"core/b.hpp"}}}) == Names{"core/a.hpp includes core/b.hpp"});
}

TEST_CASE("docs/reference.md names only public headers", "[architecture]") {
    const std::set<std::string> headers = public_headers();
    std::istringstream page(text_of(root / "docs/reference.md"));
    int count = 0;
    for (std::string name; std::getline(page, name, '`');) {
        if (!name.ends_with(".hpp")) continue;
        ++count;
        CAPTURE(name);
        CHECK(headers.contains(name));
    }
    CHECK(count > 30);
}

TEST_CASE("every included file exists", "[architecture]") {
    Names missing;
    for (const auto& [file, includes] : read_includes()) {
        for (const std::string& name : includes) {
            if (!fs::is_regular_file(root / name)) missing.push_back(file + " includes " + name);
        }
    }
    CHECK(missing == Names{});
}

TEST_CASE("no test or benchmark compiles or includes a file of experiments/cmd", "[architecture]") {
    Names wrong;
    for (const char* top : {"tests", "bench"}) {
        for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
            const bool is_text = is_source(entry.path()) || entry.path().filename() == "CMakeLists.txt";
            if (!entry.is_regular_file() || !is_text || entry.path().filename() == "architecture_test.cpp") continue;
            if (text_of(entry.path()).find("experiments/cmd") != std::string::npos)
                wrong.push_back(entry.path().string());
        }
    }
    CHECK(wrong == Names{});
}

/// Returns the lines of code in the rooms `in_rooms` that match `words`. Ignores comments, and the files `but_for`.
Names lines_with(const std::regex& words, const Names& in_rooms, const std::set<std::string>& but_for) {
    Names found;
    for (const std::string& room : in_rooms) {
        for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
            const std::string file = fs::relative(entry.path(), root).string();
            if (!is_source(entry.path()) || but_for.contains(file)) continue;
            std::istringstream text(text_of(entry.path()));
            for (std::string line; std::getline(text, line);) {
                if (std::regex_search(line.substr(0, line.find("//")), words)) found.push_back(file + ": " + line);
            }
        }
    }
    return found;
}

// With std::filesystem's iterators, code easily ignores an error. In this case, a folder that cannot be read looks
// empty.
TEST_CASE("only the source file core/host/read_file.cpp lists folders", "[architecture]") {
    static const std::regex words(R"(directory_iterator|\b(opendir|fdopendir|readdir|scandir|nftw|ftw|glob)\()");
    CHECK(lines_with(words, {"core", "emulation", "reports", "experiments", "python"}, {"core/host/read_file.cpp"}) ==
          Names{});
}

// If tests wrote to fixed folders, two checkouts, users or CI jobs on one machine would write the same files.
TEST_CASE("tests write only into folders that their process created", "[architecture]") {
    static const std::regex words(R"(temp_directory_path|"/(dev/shm|tmp)\b)");
    CHECK(lines_with(words, {"tests", "examples"}, {"tests/architecture_test.cpp", "tests/scratch.hpp"}) == Names{});
}

// A name from an input file must not be printed unchanged. It can contain text that controls the terminal, or that
// forges a command in the log of a CI job.
TEST_CASE("only two source files of the program print, and they print only visible characters", "[architecture]") {
    static const std::regex words(
        R"(\bfwrite\(|\bf?(printf|puts)\(|\bf?putc(har)?\(|fmt::print\(|std::(cout|cerr|clog)\b|\bwrite\(STD(OUT|ERR)_FILENO)");
    CHECK(lines_with(words,
                     {"core", "emulation/cpu", "emulation/machine", "emulation/matmul", "emulation/evidence", "reports",
                      "experiments"},
                     {"experiments/cmd/frame/print.cpp", "experiments/cmd/frame/eprint.cpp",
                      "emulation/evidence/library/child.cpp",         // a child process that writes to its parent
                      "emulation/evidence/gpu/sweep/core_sweep.cu"})  // a program that does not link macheps_core
          == Names{});
}

TEST_CASE("a source file of the product has at most 800 lines, and a folder has at most 25 source files",
          "[architecture]") {
    Names long_files, full_folders;
    std::map<std::string, int> files;
    for (const auto& [room, may] : rooms) {
        for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
            static const std::set<std::string> of_the_page{".js", ".css", ".html"};
            if (!is_source(entry.path()) && !of_the_page.contains(entry.path().extension().string())) continue;
            const std::string text = text_of(entry.path());
            const auto lines = std::count(text.begin(), text.end(), '\n');
            if (lines > 800) long_files.push_back(entry.path().string() + ": " + std::to_string(lines));
            const std::string file = fs::relative(entry.path(), root).string();
            if (room_of(file) == room) ++files[folder_of(file)];
        }
    }
    for (const auto& [folder, count] : files) {
        if (count > 25) full_folders.push_back(folder + ": " + std::to_string(count));
    }
    CHECK(files.size() > 40);
    CHECK(full_folders == Names{});
    CHECK(long_files == Names{});
}

// If a suite has a slow ctest entry but no [slow] cases, the entry always passes. If it has [slow] cases but no slow
// entry, these cases never run.
TEST_CASE("a test suite is marked SLOW if and only if it contains slow tests", "[architecture]") {
    static const std::regex suite(R"((?:^|\n)[ ]*macheps_test\(([a-z0-9_]+)([^)]*)\))"), file(R"([a-z0-9_/]+\.cpp)");
    const std::string list = text_of(root / "tests/CMakeLists.txt");
    Names wrong;
    bool has_suites = false;
    for (std::sregex_iterator at(list.begin(), list.end(), suite), end; at != end; ++at) {
        const std::string arguments = (*at)[2];
        bool has_slow = false;
        for (std::sregex_iterator each(arguments.begin(), arguments.end(), file); each != end; ++each) {
            const fs::path path = root / "tests" / each->str();
            has_slow = has_slow || (fs::exists(path) && text_of(path).find("[slow]\"") != std::string::npos);
        }
        if (has_slow != (arguments.find(" SLOW") != std::string::npos)) wrong.push_back((*at)[1]);
        has_suites = true;
    }
    CHECK(wrong == Names{});
    CHECK(has_suites);
}

TEST_CASE("every folder of sources has a README", "[architecture]") {
    std::set<std::string> folders;
    for (const auto& [file, includes] : read_includes()) folders.insert(folder_of(file));
    Names silent;
    for (const std::string& folder : folders) {
        if (!fs::is_regular_file(root / folder / "README.md")) silent.push_back(folder);
    }
    CHECK(silent == Names{});
}

TEST_CASE("the files and folders that docs/architecture.md names exist", "[architecture]") {
    const std::string page = text_of(root / "docs/architecture.md");
    Names tree;
    for (const char* top : {"core", "emulation", "reports", "experiments"}) {
        for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
            tree.push_back(entry.path().string() + (entry.is_directory() ? "/" : ""));
            if (entry.is_directory()) tree.push_back(entry.path().string());
        }
    }
    Names missing;
    for (std::size_t open = page.find('`'); open != std::string::npos;) {
        const std::size_t close = page.find('`', open + 1);
        if (close == std::string::npos) break;
        const std::string name = page.substr(open + 1, close - open - 1);
        open = page.find('`', close + 1);
        const bool is_path = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_./-") == std::string::npos &&
                             (name.find('/') != std::string::npos || name.ends_with(".hpp") || name.ends_with(".cpp"));
        if (!is_path || name.find("/import/") != std::string::npos) continue;
        // The page gives paths relative to the root, or relative to the folder that a paragraph describes.
        const bool found =
            fs::exists(root / name) ||
            std::any_of(tree.begin(), tree.end(), [&](const std::string& path) { return path.ends_with('/' + name); });
        if (!found) missing.push_back(name);
    }
    CHECK(missing == Names{});
}

TEST_CASE("the suites and presets that docs/contributing.md names exist", "[architecture]") {
    const std::string page = text_of(root / "docs/contributing.md"), presets = text_of(root / "CMakePresets.json");
    const std::string suites = text_of(root / "tests/CMakeLists.txt") + text_of(root / "python/CMakeLists.txt");
    static const std::regex row(R"(\n\| `([a-z_.]+)` \| \d+ \|)"), preset(R"(--preset ([a-z]+))");
    int count = 0;
    for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at, ++count) {
        const std::string name = (*at)[1];
        CAPTURE(name);
        CHECK((suites.find("macheps_test(" + name + " ") != std::string::npos ||
               suites.find("NAME " + name + " ") != std::string::npos));
    }
    CHECK(count >= 10);
    for (std::sregex_iterator at(page.begin(), page.end(), preset), end; at != end; ++at) {
        CAPTURE((*at)[1].str());
        CHECK(presets.find("{\"name\": \"" + (*at)[1].str() + "\", \"inherits\"") != std::string::npos);
    }
}

}  // namespace architecture_test
