// SPDX-License-Identifier: Apache-2.0
// The cost of a run, measured once for each task and policy and stored beside the plan. Planning again then takes no
// time, and gives each shard the same units as before.
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
    std::string task{};            ///< the model and how much of it is trained, see cost_task()
    std::string policy{}, text{};  ///< name of the policy, and checksum of its sources
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

/// Returns everything that decides how long a run takes: the model, and the number and size of the steps, but not the
/// learning rate.
std::string cost_task(const Experiment& experiment);

class Costs {
  public:
    /// Reads costs.csv in `folder` if it exists.
    explicit Costs(std::filesystem::path folder);

    const CostRow* find(const std::string& task, const SweepPolicy& policy) const;
    /// Times the policies of the experiment whose cost is not known yet, on one thread. `rows` are the policies of the
    /// experiment. `note`, which may be empty, is called for each of them.
    void measure(const Experiment& experiment, const std::vector<const SweepPolicy*>& rows,
                 const std::function<void(const std::string&)>& note);
    /// Writes the file if something was added. Errors: Exit::cannot_write.
    void keep() const;

  private:
    std::filesystem::path folder_{};
    std::vector<CostRow> rows_{};
    bool is_new_ = false;
};

}  // namespace macheps::training
