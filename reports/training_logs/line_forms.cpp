// SPDX-License-Identifier: Apache-2.0
#include "reports/training_logs/line_forms.hpp"

#include "reports/training_logs/named_values.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace macheps::reports {

namespace {

/// Returns the text after the first `key` in `line`, or nothing.
std::optional<std::string_view> after(std::string_view line, std::string_view key) {
    const std::size_t at = line.find(key);
    if (at == std::string_view::npos) return std::nullopt;
    return line.substr(at + key.size());
}

/// Returns the word at the front of `text`, after blanks.
std::string_view first_word(std::string_view text) {
    const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = text.find_first_of(" ,:|/]}\t\r\n", first);
    return text.substr(first, end == std::string_view::npos ? end : end - first);
}

std::optional<double> number_after(std::string_view line, std::string_view key) {
    const std::optional<std::string_view> rest = after(line, key);
    return rest ? log_number(first_word(*rest)) : std::nullopt;
}
std::optional<std::int64_t> integer_after(std::string_view line, std::string_view key) {
    const std::optional<std::string_view> rest = after(line, key);
    return rest ? log_integer(first_word(*rest)) : std::nullopt;
}

/// A name under which programs write a quantity into a map. The first name of the table that a map has is used.
struct MapName {
    std::string_view name;
    std::string_view quantity;
};
constexpr MapName map_names[] = {
    {"loss", "loss"},   {"grad_norm", "grad_norm"}, {"learning_rate", "lr"},     {"lr", "lr"},
    {"epoch", "epoch"}, {"eval_loss", "eval_loss"}, {"loss_scale", "loss_scale"}};

std::optional<std::string_view> value_of(const NamedValues& values, std::string_view name) {
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == name; });
    return found == values.end() ? std::nullopt : std::optional(found->second);
}

/// Returns the number of the step in a map: `step`, or `global_step/max_steps` of ms-swift ("10/200").
std::optional<std::int64_t> step_of(const NamedValues& values) {
    for (const std::string_view name : {"step", "global_step", "global_step/max_steps"}) {
        const std::optional<std::string_view> value = value_of(values, name);
        if (value) return log_integer(first_word(*value));
    }
    return std::nullopt;
}

TrainingRow row_of(const NamedValues& values, const LogBuilder& log) {
    TrainingRow row;
    const auto read = [&](std::string_view quantity, std::string_view name) {
        std::optional<double>& cell = row.*find_quantity(quantity);
        const std::optional<std::string_view> value = value_of(values, name);
        if (value && !cell) cell = log_number(*value);
    };
    for (const auto& [quantity, name] : log.chosen_names()) read(quantity, name);
    for (const MapName& name : map_names) {
        if (!log.chosen_names().contains(std::string(name.quantity))) read(name.quantity, name.name);
    }
    return row;
}

/// Adds the row that a map contains. Returns false if the map has neither a loss nor the loss of an evaluation.
bool add_map(const NamedValues& values, LogBuilder& log) {
    log.see_names(values);
    TrainingRow row = row_of(values, log);
    if (!row.loss && !row.eval_loss) return false;
    if (const std::optional<std::int64_t> step = step_of(values)) {
        row.step = *step;
        log.add(row);
    } else if (row.loss) {
        log.add_unnumbered(row);
    } else {
        log.add_evaluation(*row.eval_loss);
    }
    return true;
}

/// Reads the map that begins with `opening`. A progress bar may precede it.
bool read_map(std::string_view line, std::string_view opening, LogBuilder& log) {
    const std::size_t at = line.find(opening);
    if (at == std::string_view::npos) return false;
    line.remove_prefix(at);
    const std::optional<NamedValues> values = take_named_values(line);
    return values && add_map(*values, log);
}

bool read_trainer_state(std::string_view line, LogBuilder& log) {
    if (!line.starts_with('{')) return false;
    const std::optional<NamedValues> values = take_named_values(line);
    return values && step_of(*values) && add_map(*values, log);
}

bool read_dictionary(std::string_view line, LogBuilder& log) { return read_map(line, "{'", log); }

bool read_json_line(std::string_view line, LogBuilder& log) { return read_map(line, "{\"", log); }

/// Reads the line of the pipeline engine: `steps: 10 loss: 2.31 iter time (s): 0.5 samples/sec: 60.0`.
bool read_pipeline_engine(std::string_view line, LogBuilder& log) {
    const std::optional<std::int64_t> step = integer_after(line, "steps: ");
    const std::optional<double> loss = number_after(line, " loss: ");
    if (!step || !loss || line.find("iter time (s): ") == std::string_view::npos) return false;
    log.add({.step = *step, .loss = loss});
    return true;
}

/// Reads DeepSpeed's messages about skipped steps, the steps so far, and the loss.
bool read_deepspeed(std::string_view line, LogBuilder& log) {
    if (read_skip_message(line, log) || read_pipeline_engine(line, log)) return true;
    const std::optional<std::int64_t> step = integer_after(line, "step=");
    const std::optional<double> skipped = number_after(line, "skipped=");
    if (!step || !skipped) return false;
    log.add_total_skips({.step = *step, .lr = number_after(line, "lr=[")}, *skipped);
    return true;
}

constexpr std::pair<std::string_view, std::string_view> megatron_names[] = {
    {"lm loss", "loss"},          {"lm_loss", "loss"},        {"learning rate", "lr"},
    {"loss scale", "loss_scale"}, {"grad norm", "grad_norm"}, {"number of skipped iterations", "skipped"}};

/// Returns the row number in a part such as ` [2026-01-05 10:00:01] iteration        1/     100 `.
std::optional<std::int64_t> iteration_of(std::string_view part) {
    const std::optional<std::string_view> rest = after(part, "iteration ");
    return rest && rest->find('/') != std::string_view::npos ? log_integer(first_word(*rest)) : std::nullopt;
}

bool read_megatron(std::string_view line, LogBuilder& log) {
    if (line.find('|') == std::string_view::npos) return false;
    if (const auto evaluated = integer_after(line, "validation loss at iteration ")) {
        const std::optional<double> loss = number_after(line, "loss value:");
        if (loss) log.add({.step = *evaluated, .eval_loss = loss});
        return loss.has_value();
    }
    TrainingRow row;
    bool has_step = false, has_rate = false;
    while (!line.empty()) {
        const std::size_t bar = std::min(line.find('|'), line.size());
        const std::string_view part = line.substr(0, bar);
        line.remove_prefix(std::min(bar + 1, line.size()));
        const std::size_t colon = part.rfind(": ");
        if (const auto step = iteration_of(part)) row.step = *step, has_step = true;
        if (colon == std::string_view::npos) continue;
        for (const auto& [name, quantity] : megatron_names) {
            if (!part.substr(0, colon).ends_with(name)) continue;
            row.*find_quantity(quantity) = log_number(part.substr(colon + 2));
            has_rate = has_rate || quantity == "lr";
        }
    }
    if (!has_step || !has_rate) return false;
    log.add(row);
    return true;
}

bool read_nanogpt(std::string_view line, LogBuilder& log) {
    const std::optional<double> loss = number_after(line, ": loss ");
    if (const auto step = integer_after(line, "iter "); step && loss) {
        log.add({.step = *step, .loss = loss});
        return true;
    }
    const std::optional<double> evaluated = number_after(line, ", val loss ");
    const std::optional<std::int64_t> step = integer_after(line, "step ");
    if (!evaluated || !step || line.find(": train loss ") == std::string_view::npos) return false;
    log.add({.step = *step, .eval_loss = evaluated});
    return true;
}

bool read_llmc(std::string_view line, LogBuilder& log) {
    const std::optional<std::int64_t> step = line.starts_with("s:") ? integer_after(line, "s:") : std::nullopt;
    if (!step) return false;
    const TrainingRow row{.step = *step,
                          .loss = number_after(line, " trl:"),
                          .grad_norm = number_after(line, " norm:"),
                          .lr = number_after(line, " lr:"),
                          .eval_loss = number_after(line, " tel:")};
    if (!row.loss && !row.eval_loss) return line.find(" eval:") != std::string_view::npos;
    log.add(row);
    return true;
}

bool read_torchtitan(std::string_view line, LogBuilder& log) {
    const std::optional<std::int64_t> step = integer_after(line, "step:");
    const std::optional<double> loss = number_after(line, " loss:");
    if (!step || !loss) return false;
    log.add({.step = *step, .loss = loss, .grad_norm = number_after(line, "grad_norm:")});
    return true;
}

bool read_torchtune(std::string_view line, LogBuilder& log) {
    const std::optional<std::int64_t> step = integer_after(line, "Step ");
    const std::optional<double> loss = number_after(line, "| loss:");
    if (!step || !loss) return false;
    log.add({.step = *step,
             .loss = loss,
             .grad_norm = number_after(line, " grad_norm:"),
             .lr = number_after(line, " lr:")});
    return true;
}

bool read_litgpt(std::string_view line, LogBuilder& log) {
    const std::optional<std::int64_t> step = integer_after(line, "| iter ");
    const std::optional<double> loss = number_after(line, "loss train:");
    if (!step || !loss) return false;
    log.add({.step = *step,
             .loss = loss,
             .epoch = number_after(line, "Epoch "),
             .eval_loss = number_after(line, ", val:")});
    return true;
}

constexpr LineForm forms[] = {
    {"Transformers (console)", "{'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 2e-05, 'epoch': 0.1}", "'loss'",
     "step", true, true, true, read_dictionary},
    {"JSON lines (ms-swift, Axolotl, torchtune)", "{\"loss\": 2.31, \"grad_norm\": 1.2, \"learning_rate\": 2e-05}",
     "\"loss\"", "step", true, true, true, read_json_line},
    {"DeepSpeed", "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
     "deepspeed", "step", false, false, false, read_deepspeed},
    {"Megatron-LM, GPT-NeoX", " iteration 10/ 100 | learning rate: 1.5E-04 | lm loss: 9.1E+00 | loss scale: 1.0 |",
     "iteration", "iteration", true, false, false, read_megatron},
    {"nanoGPT", "iter 10: loss 9.12, time 120.51ms, mfu 41.20%", "iter ", "iter", true, false, false, read_nanogpt},
    {"llm.c", "s:10 trl:9.12 lr:0.000100 norm:1.20", "trl:", "step", true, false, false, read_llmc},
    {"torchtitan", "step: 10  loss: 9.12  grad_norm: 1.20  memory: 5.10GiB", "step:", "step", true, false, false,
     read_torchtitan},
    {"torchtune", "Step 10 | loss:9.12 lr:2e-05 grad_norm:1.20", "Step ", "step", true, false, false, read_torchtune},
    {"LitGPT", "Epoch 1 | iter 10 step 2 | loss train: 9.12, val: n/a | iter time: 98.5 ms", "loss train", "iter", true,
     false, false, read_litgpt},
};

}  // namespace

std::span<const LineForm> line_forms() { return forms; }

/// DeepSpeed prints scales as integers, so a scale below 1 is printed as 0.
bool read_skip_message(std::string_view line, LogBuilder& log) {
    if (line.find("loss scale already at minimum") != std::string_view::npos) {
        log.end_at_floor();
        return true;
    }
    const bool is_overflow = (line.find("OVERFLOW!") != std::string_view::npos ||
                              line.find("Overflow detected.") != std::string_view::npos) &&
                             line.find("kipping step") != std::string_view::npos;
    if (!is_overflow) return false;
    const std::optional<double> scale = number_after(line, "Attempted loss scale:");
    const std::optional<double> next = number_after(line, "reducing to ");
    log.add_skip(scale, next ? next : scale);  // a step of hysteresis keeps the scale
    return true;
}

constinit const LineForm trainer_state_form{
    "Transformers (trainer_state.json)",
    "\"log_history\": [{\"step\": 10, \"loss\": 2.31, \"grad_norm\": 1.2}, ...]",
    "log_history",
    "step",
    true,
    true,
    true,
    read_trainer_state};

constinit const LineForm& deepspeed_form =
    *std::find_if(std::begin(forms), std::end(forms), [](const LineForm& form) { return form.read == read_deepspeed; });

}  // namespace macheps::reports
