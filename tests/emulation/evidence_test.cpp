// SPDX-License-Identifier: Apache-2.0
// Checks that docs/evidence.md agrees with the row of every machine and names every rule of a CPU library.
#include "core/host/read_file.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/test.hpp"

#include <filesystem>
#include <map>
#include <sstream>

namespace evidence_test {

using namespace macheps;

namespace {

std::string page() { return read_file(std::filesystem::path(MACHEPS_SOURCE_DIR) / "docs/evidence.md"); }

/// Returns the words between backquotes.
std::vector<std::string> between_backquotes(const std::string& text) {
    std::vector<std::string> words;
    for (std::size_t at = text.find('`'); at != std::string::npos;) {
        const std::size_t end = text.find('`', at + 1);
        if (end == std::string::npos) break;
        words.push_back(text.substr(at + 1, end - at - 1));
        at = text.find('`', end + 1);
    }
    return words;
}

struct EvidenceRow {
    std::string evidence, from;
};

/// Returns the evidence of each machine in the page's tables. Their columns are `| machines | evidence | from where |`.
std::map<std::string, EvidenceRow> said_of_machines() {
    std::map<std::string, EvidenceRow> said;
    std::istringstream lines(page());
    for (std::string line; std::getline(lines, line);) {
        std::vector<std::string> cells;
        std::istringstream row(line);
        for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
        if (cells.size() != 4) continue;
        for (const std::string& name : between_backquotes(cells[1])) {
            if (find_machine(name) == nullptr) continue;
            CAPTURE(name);
            CHECK(said.count(name) == 0);
            said[name] = {cells[2], cells[3]};
        }
    }
    return said;
}

/// Returns the devices on which a machine was measured. Drops a remark in brackets, as in `H100, H200 (C = 0)`.
std::vector<std::string> devices_of(const Machine& machine) {
    const std::string all(machine.measured.substr(0, machine.measured.find(" (")));
    std::vector<std::string> devices;
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = std::min(all.find(", ", at), all.size());
        devices.push_back(all.substr(at, end - at));
        at = end + 2;
    }
    return devices;
}

}  // namespace

TEST_CASE("docs/evidence.md gives the evidence and the devices of every machine", "[emulation][evidence]") {
    const std::map<std::string, EvidenceRow> said = said_of_machines();
    const std::string text = page();
    for (const Machine* machine : all_machines) {
        const std::string name(machine->name);
        CAPTURE(name);
        if (machine->evidence == Evidence::definition) {
            CHECK(text.find("`" + name + "`") != std::string::npos);
            continue;
        }
        REQUIRE(said.count(name) == 1);
        CHECK(said.at(name).evidence == " " + std::string(to_string(machine->evidence)) + " ");
        for (const std::string& device : devices_of(*machine)) {
            CAPTURE(device);
            CHECK(said.at(name).from.find(device) != std::string::npos);
        }
    }
}

TEST_CASE("docs/evidence.md names every rule of a CPU library", "[emulation][evidence]") {
    const std::string text = page();
    for (const NamedMatmulRule& rule : all_matmul_rules()) {
        if (rule.versions.empty()) continue;
        CAPTURE(rule.name);
        CHECK(text.find("`" + std::string(rule.name) + "`") != std::string::npos);
    }
}

}  // namespace evidence_test
