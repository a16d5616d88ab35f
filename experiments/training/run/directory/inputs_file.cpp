// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/directory/inputs_file.hpp"

#include "core/host/version.hpp"
#include "experiments/files/arrays/safetensors.hpp"
#include "experiments/training/model/transformer.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace macheps::training {

namespace {

void add_weights(Backend& backend, Transformer& model, const std::string& prefix, files::SafetensorsWriter& writer) {
    for (const auto& parameter : model.parameters()) {
        const ConstView value = parameter->value.view();
        std::vector<std::int64_t> shape;
        for (int i = 0; i < value.shape.rank(); ++i) shape.push_back(value.shape[i]);
        std::vector<float> values(static_cast<std::size_t>(value.count()));
        backend.download(value, values);
        writer.add(prefix + parameter->name, std::move(shape), std::span<const float>(values));
    }
}

/// Appends the tokens of each sample and its last target. The other targets are not stored, because they are the tokens
/// shifted by one position.
void append_samples(const Batch& batch, std::int64_t context, std::vector<std::int32_t>& samples) {
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        samples.push_back(batch.tokens[i]);
        if ((i + 1) % static_cast<std::size_t>(context) == 0) samples.push_back(batch.targets[i]);
    }
}

}  // namespace

void write_inputs(Backend& backend, const Experiment& experiment, const SharedInputs& inputs,
                  const std::string& manifest) {
    const std::int64_t batch = experiment.options.batch, context = experiment.model.context;
    const std::int64_t batches = experiment.options.steps * experiment.options.micro_batches;
    files::SafetensorsWriter writer;
    for (const std::int64_t seed : experiment.seeds) {
        const auto stream_seed = static_cast<std::uint64_t>(seed);
        const std::string prefix = fmt::format("seed{}:", seed);
        Transformer model(backend, experiment.model, batch, inputs.fp32, stream_seed);
        model.initialise(stream_seed);
        add_weights(backend, model, prefix, writer);
        std::vector<std::int32_t> samples;
        for (std::int64_t i = 0; i < batches; ++i) {
            const auto draw = static_cast<std::uint32_t>(i);
            append_samples(inputs.data->batch(Split::train, stream_seed, draw, batch, context), context, samples);
        }
        writer.add(prefix + "samples", {batches, batch, context + 1}, std::span<const std::int32_t>(samples));
    }
    writer.metadata("manifest", manifest);
    writer.metadata("created_by", "macheps " + version());
    writer.metadata("git", git_revision());
    writer.write(experiment.inputs_file);
}

}  // namespace macheps::training
