// SPDX-License-Identifier: Apache-2.0
// `macheps policy explain --params N`: the bytes of a model with N parameters.
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

/// Reads a number of parameters given with --params: `7e9`, `7.5B`, `350M`. Throws Error (usage) for any other text.
double parameters_of(const std::string& text);

/// A model that is not trained here and is described only by its sizes.
class MemoryChoice {
  public:
    void add_options(Command& verb);
    bool is_asked() const { return !params_.empty(); }
    /// Returns the samples of a micro-batch, or nothing if --batch was not given.
    std::optional<std::int64_t> batch() const { return batch_; }

    /// Each of these functions returns a table with the bytes of the model. Each row is for one memory recipe. The
    /// first row is for the recipe `own` and is called `name`. The other rows are for recipes of training systems. The
    /// functions throw Error (usage) for impossible sizes.
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
