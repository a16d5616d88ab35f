// SPDX-License-Identifier: Apache-2.0
// `macheps policy explain --params N`: the bytes of a model of that many parameters.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/model_choice.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/policy/memory_bytes.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace macheps::cmd::policies {

/// `7e9`, `7.5B`, `350M`: a number of parameters that was given with --params. Throws Error (usage) for any other text.
double parameters_of(const std::string& text);

/// A model that nobody trains here, by its sizes.
class MemoryChoice {
  public:
    void add_options(Command& verb);
    bool is_asked() const { return !params_.empty(); }
    /// Samples of a micro-batch; nothing where none were asked for.
    std::optional<std::int64_t> batch() const { return batch_; }

    /// `own` is called `name`, and stands above the recipes of training systems. Throws Error (usage) for sizes that cannot be.
    std::string text(const std::string& name, const policy::MemoryRecipe& own, const ModelChoice& model) const;
    std::string csv(const std::string& name, const policy::MemoryRecipe& own, const ModelChoice& model) const;
    Json json(const std::string& name, const policy::MemoryRecipe& own, const ModelChoice& model) const;

  private:
    struct Row;
    static RowTable<Row> table();
    std::vector<Row> rows(const std::string& name, const policy::MemoryRecipe& own, const ModelChoice& model) const;
    std::optional<policy::ActivationShape> shape(const ModelChoice& model) const;

    std::string params_;
    std::optional<double> trainable_;
    std::optional<std::int64_t> shards_, width_, heads_, context_, batch_, vocabulary_, galore_rank_;
    bool has_checkpoints_ = false, has_flash_ = false;
};

}  // namespace macheps::cmd::policies
