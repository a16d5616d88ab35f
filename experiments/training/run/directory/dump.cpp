// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/directory/dump.hpp"

#include "experiments/training/run/checkpoint.hpp"

#include <fmt/format.h>

#include <utility>

namespace macheps::training {

void StepDump::take(const Slot& slot, ConstView values, float decode_scale) {
    add(slot.name, values);
    const policy::CastRule& rule = slot.rule;
    if (!rule.has_scale()) return;
    if (!rule.granularity->is_axis_free()) {
        holds_[slot.name] = fmt::format("values, decoded from {}", to_string(rule));
        return;
    }
    holds_[slot.name] =
        fmt::format("codes of {}; the values are the codes times {}.decode_scale", to_string(rule), slot.name);
    Captured& scale = entry(slot.name + ".decode_scale");
    scale.shape.clear();
    scale.values = {decode_scale};
}

void StepDump::on_batch(std::int64_t, std::int64_t, const Batch& batch) {
    tokens_.insert(tokens_.end(), batch.tokens.begin(), batch.tokens.end());
    targets_.insert(targets_.end(), batch.targets.begin(), batch.targets.end());
}

void StepDump::on_rank(Transformer& model, std::int64_t rank) { add_gradients(model, ".rank" + std::to_string(rank)); }

void StepDump::add_state(const Optimizer& optimizer, const std::string& ending) {
    Checkpoint state;
    optimizer.save(state);
    if (ending.empty()) {
        add_scalar("beta1_power", state.optimizer[0]);
        add_scalar("beta2_power", state.optimizer[1]);
    }
    for (Checkpoint::State& tensor : state.state) {
        Captured& to = entry(tensor.name + ending);
        to.shape = std::move(tensor.shape);
        to.values = std::move(tensor.values);
    }
}

void StepDump::add_gradients(Transformer& model, const std::string& ending) {
    for (const auto& parameter : model.parameters()) add(parameter->name + ":grad" + ending, parameter->grad);
}

StepDump::Captured& StepDump::entry(const std::string& name) {
    const auto [place, is_new] = index_.try_emplace(name, captured_.size());
    if (is_new) captured_.push_back({.name = name, .shape = {}, .values = {}});
    return captured_[place->second];
}

void StepDump::add(const std::string& name, ConstView values) {
    Captured& to = entry(name);
    to.shape.clear();
    for (int i = 0; i < values.shape.rank(); ++i) to.shape.push_back(values.shape[i]);
    to.values.resize(static_cast<std::size_t>(values.count()));
    backend_.download(values, to.values);
}

void StepDump::write(const std::filesystem::path& path, std::int64_t batch, std::int64_t context,
                     const std::map<std::string, std::string>& metadata) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(tokens_.size()) / (batch * context), batch,
                                          context};
    writer_.add("tokens", shape, std::span<const std::int32_t>(tokens_));
    writer_.add("targets", shape, std::span<const std::int32_t>(targets_));
    for (const Captured& tensor : captured_) {
        writer_.borrow(tensor.name, files::Dtype::f32, tensor.shape, std::as_bytes(std::span(tensor.values)));
    }
    for (const auto& [key, value] : metadata) writer_.metadata(key, value);
    for (const auto& [name, what] : holds_) writer_.metadata("holds:" + name, what);
    writer_.write(path);
}

}  // namespace macheps::training
