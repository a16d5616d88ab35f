// SPDX-License-Identifier: Apache-2.0
// The cost of a run. It is measured once for each task and policy, and stored next to the plan. The next time the plan
// is used, nothing has to be timed, and each shard gets the same units again.
#pragma once
#include "experiments/training/sweep/sweep.hpp"
#include "reports/rows/event.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace macheps::training {

struct CostRow {
    std::string task{};            ///< the model and the amount of training, see cost_task()
    std::string policy{}, text{};  ///< `text`: checksum of the policy's sources
    double seconds = 0;            ///< of one run, on one thread
    std::int64_t row_bytes = 0;    ///< of one run
    std::int64_t memory_bytes = 0;

    static constexpr std::string_view file = "costs.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(reports::column("task", &CostRow::task), reports::column("policy", &CostRow::policy),
                   reports::column("text", &CostRow::text), reports::column("seconds", &CostRow::seconds),
                   reports::column("row_bytes", &CostRow::row_bytes),
                   reports::column("memory_bytes", &CostRow::memory_bytes));
    }
};

/// Returns a text with all settings that determine how long a run takes, such as the model and the number and size of
/// the steps. The learning rate is not one of them.
std::string cost_task(const Experiment& experiment);

class Costs {
  public:
    /// Reads costs.csv in `folder` if it exists.
    explicit Costs(std::filesystem::path folder);

    const CostRow* find(const std::string& task, const SweepPolicy& policy) const;
    /// Measures the cost of each policy of the experiment whose cost is not known yet, on one thread. `rows` lists the
    /// same policies as the experiment, in the same order. `note`, which may be empty, is called before each
    /// measurement.
    void measure(const Experiment& experiment, const std::vector<const SweepPolicy*>& rows,
                 const std::function<void(const std::string&)>& note);
    /// Writes costs.csv if a cost was added. Errors: Exit::cannot_write.
    void keep() const;

  private:
    std::filesystem::path folder_{};
    std::vector<CostRow> rows_{};
    bool is_new_ = false;
};

}  // namespace macheps::training
