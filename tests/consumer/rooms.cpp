// SPDX-License-Identifier: Apache-2.0
// A program that uses the libraries emulation and reports. It runs a cast and a matmul, writes rows to a file, and
// reads them back.
#include "check.hpp"

#include "emulation/cpu/cpu_backend.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"

#include <filesystem>
#include <vector>

using namespace macheps::reports;

int main() {
    using namespace macheps;
    CpuBackend backend(1);
    Tensor a = backend.empty({2, 3}), b = backend.empty({3, 2}), out = backend.empty({2, 2});
    backend.upload(std::vector<float>{1, 2, 3, 4, 5, 600}, a);
    backend.upload(std::vector<float>{1, 0, 0, 1, 1, 1}, b);
    Tally tally;
    backend.cast(a, a, {.format = e4m3fn, .overflow = Overflow::saturate}, &tally);
    CONSUMER_CHECK(tally.count == 6 && tally.overflow == 1);
    Matmul matmul{.m = 2, .n = 2, .k = 3};
    matmul.a = {.data = a.data(), .ld = 3};
    matmul.b = {.data = b.data(), .ld = 2};
    matmul.out = out.data();
    matmul.ld_out = 2;
    backend.matmul(matmul);
    std::vector<float> got(4);
    backend.download(out, got);
    CONSUMER_CHECK((got == std::vector<float>{4, 5, 452, 453}));

    const std::filesystem::path file = std::filesystem::path("consumer_rows") / EvalRow::file;
    std::filesystem::remove_all(file.parent_path());
    std::filesystem::create_directories(file.parent_path());
    const EvalRow row{.run = "a,b", .policy = "fp32", .step = 7, .eval_loss = 0.1, .perplexity = 1.1};
    {
        CsvWriter<EvalRow> rows(file);
        rows.append(row);
        rows.flush();
    }
    const CsvReader<EvalRow> read(file);
    CONSUMER_CHECK(read.rows().size() == 1 && read.rows()[0] == row);
    return failures == 0 ? 0 : 1;
}
