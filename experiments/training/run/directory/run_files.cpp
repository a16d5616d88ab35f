// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/directory/run_files.hpp"

namespace macheps::training {

void RunFiles::flush() {
    growing_.for_each([](auto& writer) { writer.flush(); });
    runs_.flush();
}

std::array<reports::csv::FileMark, row_files.size()> RunFiles::marks() const {
    return std::apply([](const auto&... writer) { return std::array{writer.mark()...}; }, growing_.each);
}

void RunFiles::end_run(const reports::RunRow& row) {
    growing_.for_each([](auto& writer) { writer.sync(); });
    runs_.append(row);
    runs_.sync();
}

}  // namespace macheps::training
