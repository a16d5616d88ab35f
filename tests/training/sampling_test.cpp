// SPDX-License-Identifier: Apache-2.0
// Tests that an fp32 run records the unrounded values: it has a row for every site at which another policy rounds.
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/trainer.hpp"
#include "reports/rows/csv.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <map>
#include <string>
#include <utility>

namespace sampling_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;

namespace {

using Place = std::pair<std::int64_t, std::string>;  // step and site

/// Returns the number of elements at each sampled step and site of a policy's run.
template <class Row>
std::map<Place, std::uint64_t> counts(const std::filesystem::path& directory, const std::string& policy) {
    std::map<Place, std::uint64_t> counts;
    for (const Row& row : CsvReader<Row>(directory / Row::file).rows()) {
        if (row.run == policy + "/0") counts[{row.step, row.site}] += row.count;
    }
    return counts;
}

}  // namespace

TEST_CASE("a run in fp32 samples every site at which another policy rounds", "[experiments][sampling]") {
    const std::filesystem::path directory = test::memory_folder() / "sampling";
    std::filesystem::remove_all(directory);
    Experiment experiment;
    for (const char* name : {"fp32", "amp-fp16", "pure-bf16", "fp8-tensorwise"}) {
        experiment.policies.push_back(load_policy(name));
    }
    experiment.model = {.layers = 1, .width = 16, .heads = 2, .context = 8, .vocabulary = 20};
    experiment.options.steps = 3;
    experiment.options.batch = 2;
    experiment.options.probe_every = 2;
    experiment.options.histogram_every = 2;
    experiment.seeds = {0};
    experiment.directory = directory;
    CpuBackend backend(1);
    const std::atomic<bool> never{false};
    REQUIRE(run_experiment(backend, experiment, {}, never));

    const auto unrounded = counts<SiteRow>(directory, "fp32"), histograms = counts<ExponentRow>(directory, "fp32");
    CHECK(unrounded == histograms);
    for (const char* policy : {"amp-fp16", "pure-bf16", "fp8-tensorwise"}) {
        for (const auto& [place, count] : counts<SiteRow>(directory, policy)) {
            CAPTURE(policy, place.first, place.second);
            // Parameters are rounded when they are stored. This does not happen at a site of the model, so fp32 has no
            // row for it.
            if (place.second.find(".weight:") != std::string::npos ||
                place.second.find(".bias:") != std::string::npos) {
                continue;
            }
            REQUIRE(unrounded.contains(place));
            CHECK(unrounded.at(place) == count);
        }
    }
    for (const ExponentRow& row : CsvReader<ExponentRow>(directory / ExponentRow::file).rows()) {
        REQUIRE(row.kind.has_value());
        CHECK(*row.kind == row.exponent.kind);
        CHECK(row.floor_log2.has_value() == (*row.kind == ExponentBin::Kind::number));
        if (row.floor_log2) CHECK(*row.floor_log2 == row.exponent.exponent);
    }
    std::filesystem::remove_all(directory);
}

}  // namespace sampling_test
