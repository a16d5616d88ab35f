// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/model_choice.hpp"

#include "core/field_error.hpp"
#include "core/host/memory_limit.hpp"

#include <fmt/format.h>

namespace macheps::cmd {

using namespace training;

void ModelChoice::add_options(Command& verb) {
    verb.option("--model", kind, "Kind of model").takes("KIND:{gpt2,llama}").shows_default();
    verb.option("--size", size, "Size of the model").takes("SIZE:{tiny,small,base}").shows_default();
    verb.integer("--layers", layers, {1, max_size}, "Number of blocks. Default: set by --size");
    verb.flag("--untied", untied, "Give lm_head separate weights, as every llama has");
}

ModelConfig ModelChoice::config() const {
    ModelConfig model = named_size(size, parse_model_kind(kind)).model;
    model.layers = layers.value_or(model.layers);
    if (untied) model.tied = false;
    validate(model);
    // Measured memory, in bytes, that the table to be printed takes for each layer. The verbs that have the options of
    // ModelChoice do not have --memory, so the limit is memory_limit().
    constexpr double bytes_a_layer = 150e3;
    if (const MemoryLimit limit = memory_limit();
        static_cast<double>(model.layers) * bytes_a_layer > static_cast<double>(limit.bytes)) {
        throw FieldError("layers",
                         fmt::format("the table of {} layers takes more memory than {}", model.layers, limit.whose),
                         "use fewer layers; all except the first and the last are alike");
    }
    return model;
}

std::string ModelChoice::describe() const {
    const ModelConfig model = config();
    return fmt::format("{} {}: {} block{} of width {}", kind, size, model.layers, model.layers == 1 ? "" : "s",
                       model.width);
}

}  // namespace macheps::cmd
