// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/costs.hpp"

#include "core/host/publish.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/plan.hpp"
#include "reports/rows/checksum.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <utility>

namespace macheps::training {

namespace {

struct Times {
    double wall, processor;  ///< seconds
};
/// Describes a model for the user: "gpt2, 2 layers x 64, context 64".
std::string model_words(const ModelConfig& model) {
    return fmt::format("{}, {} layer{} x {}, context {}", model.kind == ModelKind::gpt2 ? "gpt2" : "llama",
                       model.layers, model.layers == 1 ? "" : "s", model.width, model.context);
}

Times times_now() {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double>(now).count(),
            static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec)};
}

}  // namespace

std::string cost_task(const Experiment& experiment) {
    const ModelConfig& m = experiment.model;
    const TrainOptions& o = experiment.options;
    return fmt::format(
        "{} {}x{} heads {}/{} hidden {} context {} vocabulary {}{} activation {}; {} steps of {}x{}, ranks {}, "
        "optimizer "
        "{}{}; evaluations {}/{}, samples {}/{}",
        m.kind == ModelKind::gpt2 ? "gpt2" : "llama", m.layers, m.width, m.heads, m.kv_heads, m.hidden, m.context,
        m.vocabulary, m.tied ? " tied" : "", to_string(m.activation), o.steps, o.batch, o.micro_batches, o.ranks,
        static_cast<int>(o.optimizer), o.recompute ? " recompute" : "", o.eval_every, o.eval_batches, o.probe_every,
        o.histogram_every);
}

Costs::Costs(std::filesystem::path folder) : folder_(std::move(folder)) {
    const std::filesystem::path path = folder_ / CostRow::file;
    if (std::filesystem::exists(path)) rows_ = reports::CsvReader<CostRow>(path).rows();
}

const CostRow* Costs::find(const std::string& task, const SweepPolicy& policy) const {
    const std::string text = reports::to_hex(policy.checksum);
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const CostRow& row) {
        return row.task == task && row.policy == policy.name && row.text == text;
    });
    return found == rows_.end() ? nullptr : &*found;
}

void Costs::measure(const Experiment& experiment, const std::vector<const SweepPolicy*>& rows,
                    const std::function<void(const std::string&)>& note) {
    const std::string task = cost_task(experiment);
    std::unique_ptr<CpuBackend> backend;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (find(task, *rows[i]) != nullptr) continue;
        if (note) note(fmt::format("timing {} with {}", rows[i]->name, model_words(experiment.model)));
        if (!backend) backend = std::make_unique<CpuBackend>(1);
        Experiment one = experiment;
        one.policies = {experiment.policies[i]};
        one.seeds = {0};
        Backend* const engines[] = {backend.get()};
        // The plan estimates wall-clock time. If other processes use the machine too, this estimate is too long. It is
        // therefore multiplied by the processor time of this process divided by the elapsed time.
        const Times before = times_now();
        const Plan plan = make_plan(engines, one);
        const Times after = times_now();
        const double share = std::clamp((after.processor - before.processor) / (after.wall - before.wall), 0.01, 1.0);
        rows_.push_back({.task = task,
                         .policy = rows[i]->name,
                         .text = reports::to_hex(rows[i]->checksum),
                         .seconds = plan.seconds * share,
                         .row_bytes = plan.policies.front().row_bytes,
                         .memory_bytes = std::max(plan.min_bytes, plan.peak_bytes)});
        is_new_ = true;
    }
}

void Costs::keep() const {
    if (!is_new_) return;
    std::string text = reports::csv::header<CostRow>() + "\n";
    for (const CostRow& row : rows_) reports::csv::append_line(text, row);
    publish(folder_ / CostRow::file, text);
}

}  // namespace macheps::training
