// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/train/plan.hpp"

#include "core/host/memory_limit.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/option_names.hpp"
#include "experiments/cmd/frame/print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::cmd::train {

using namespace training;

namespace {

std::string size_of(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string duration_text(double seconds) {
    if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
    const auto minutes = static_cast<std::int64_t>(seconds / 60 + 0.5);
    return minutes < 60 ? fmt::format("{} min", minutes) : fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::int64_t total(const MemoryEstimate& m) {
    return m.parameters + m.gradients + m.master + m.optimizer + m.activations;
}

std::string as_text(const Plan& plan) {
    std::string text = fmt::format("runs        {} = {} polic{} x {} seed{} ({})\n", plan.runs, plan.policies.size(),
                                   plan.policies.size() == 1 ? "y" : "ies", plan.seeds.size(),
                                   plan.seeds.size() == 1 ? "" : "s", fmt::join(plan.seeds, ", "));
    text += fmt::format("each        {} steps, {} tokens\n", plan.steps, plan.tokens);
    text += fmt::format("model       {} parameters\n", plan.parameters);
    text += fmt::format("data        {}\n", plan.data);
    text += fmt::format("device      {}\n", plan.device);
    text += fmt::format("directory   {}\n", plan.directory.string());
    text += fmt::format("disk        about {}{}\n", size_of(plan.disk_bytes),
                        plan.free_bytes ? fmt::format(" of {} free", size_of(*plan.free_bytes)) : "");
    text += fmt::format("memory      about {}; this process used up to {} while it measured\n", size_of(plan.min_bytes),
                        size_of(plan.peak_bytes));
    text += fmt::format("time        about {}\n\n", duration_text(plan.seconds));
    std::size_t width = 6;
    for (const auto& policy : plan.policies) width = std::max(width, policy.policy.size());
    text += fmt::format("{:<{}}  {:>10}  {:>10}  {:>10}  {:>10}  {:>14}\n", "policy", width, "a step", "sampled",
                        "an eval", "all runs", "in a framework");
    const auto ms = [](double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); };
    for (const auto& policy : plan.policies) {
        text +=
            fmt::format("{:<{}}  {:>10}  {:>10}  {:>10}  {:>10}  {:>14}\n", policy.policy, width,
                        ms(policy.step_seconds), policy.sampled_step_seconds ? ms(*policy.sampled_step_seconds) : "-",
                        ms(policy.evaluation_seconds), duration_text(policy.seconds), size_of(total(policy.memory)));
    }
    text += plan.timed_tokens == 0
                ? "\nTimes were measured on this computer: the mean of 3 to 32 steps after a warm-up "
                  "step, one sampled step, and one held-out batch.\n"
                : fmt::format(
                      "\nTimes were extrapolated from smaller steps on {} tokens, in proportion to the "
                      "numbers of multiply-adds and weights. They may be wrong by a factor of two.\n",
                      plan.timed_tokens);
    text +=
        "`in a framework`: memory of parameters, gradients, master copies, optimiser state and activations in the "
        "policy's formats.\n";
    return text;
}

Json as_json(const Plan& plan, const Command& verb) {
    Json policies = Json::array(), problems = Json::array();
    for (const auto& p : plan.policies) {
        policies.push_back(
            {{"policy", p.policy},
             {"timed_steps", p.timed_steps},
             {"step_seconds", json_number(p.step_seconds)},
             {"sampled_step_seconds", p.sampled_step_seconds ? json_number(*p.sampled_step_seconds) : Json()},
             {"evaluation_seconds", json_number(p.evaluation_seconds)},
             {"seconds", json_number(p.seconds)},
             {"row_bytes", p.row_bytes},
             {"framework_bytes",
              {{"parameters", p.memory.parameters},
               {"gradients", p.memory.gradients},
               {"master", p.memory.master},
               {"optimizer", p.memory.optimizer},
               {"activations", p.memory.activations}}}});
    }
    for (const Error& problem : plan.problems)
        problems.push_back({{"text", in_options(verb, problem)}, {"exit", static_cast<int>(problem.exit())}});
    return {{"directory", plan.directory.string()},
            {"data", plan.data},
            {"device", plan.device},
            {"runs", plan.runs},
            {"seeds", plan.seeds},
            {"steps", plan.steps},
            {"tokens", plan.tokens},
            {"parameters", plan.parameters},
            {"seconds", json_number(plan.seconds)},
            {"timed_tokens", plan.timed_tokens},
            {"least_bytes", plan.min_bytes},
            {"peak_bytes", plan.peak_bytes},
            {"disk_bytes", plan.disk_bytes},
            {"free_bytes", plan.free_bytes ? Json(*plan.free_bytes) : Json()},
            {"policies", policies},
            {"problems", problems}};
}

}  // namespace

Exit print_plan(const Plan& plan, const Command& verb, bool as_json_document) {
    if (as_json_document) {
        print_json(as_json(plan, verb));
    } else {
        print_text(as_text(plan));
    }
    for (const Error& problem : plan.problems) eprint("macheps: {}\n", in_options(verb, problem));
    return plan.problems.empty() ? Exit::ok : plan.problems.front().exit();
}

}  // namespace macheps::cmd::train
