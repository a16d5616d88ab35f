// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/symptoms/checks.hpp"
#include "core/text/quote.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace macheps::configs {

namespace {

/// In the lines, RATE stands for a tenth of the learning rate. Fields of TrainingArguments and of Lightning's Trainer
/// exist in all releases that the importers know.
constexpr CheckRow rows[] = {
    {.id = "first-nan",
     .question = "which module gives the first NaN or infinity? Training stops there with an error that names it",
     .torch = R"(def stop_at(name):
    def hook(module, inputs, output):
        for x in output if isinstance(output, (tuple, list)) else [output]:
            if torch.is_tensor(x) and not torch.isfinite(x).all():
                raise RuntimeError(f"{name}: the output is not finite")
    return hook
for name, module in model.named_modules():
    module.register_forward_hook(stop_at(name)))",
     .trainer = R"(TrainingArguments(debug="underflow_overflow"))"},
    {.id = "backward-nan",
     .question = "which operation of the backward pass gives the first NaN? The error names it; training is slow",
     .torch = "torch.autograd.set_detect_anomaly(True)",
     .lightning = "Trainer(detect_anomaly=True)"},
    {.id = "nan-filter",
     .question = "at which step does the loss become NaN? The log then shows NaN instead of 0",
     .torch = no_lines,
     .trainer = "TrainingArguments(logging_nan_inf_filter=False, logging_steps=1)",
     .deepspeed = no_lines,
     .lightning = no_lines},
    {.id = "masked-labels",
     .question = "does each row of data have labels? If the smallest count is 0, all labels of a row are masked",
     .torch = R"(print(min((batch["labels"] != -100).sum(-1).min().item() for batch in loader)))",
     .trainer = R"(loader = trainer.get_train_dataloader()
print(min((batch["labels"] != -100).sum(-1).min().item() for batch in loader)))"},
    {.id = "masked-eval-labels",
     .question = "does each row of the evaluation data have labels? If the smallest count is 0, a row has none",
     .torch = R"(print(min((batch["labels"] != -100).sum(-1).min().item() for batch in eval_loader)))",
     .trainer = R"(loader = trainer.get_eval_dataloader()
print(min((batch["labels"] != -100).sum(-1).min().item() for batch in loader)))"},
    {.id = "trainable",
     .question = "how many parameter tensors are trained? 0 means that all are frozen",
     .torch = "print(sum(p.requires_grad for p in model.parameters()))",
     .trainer = "print(sum(p.requires_grad for p in trainer.model.parameters()))",
     .lightning = "print(sum(p.requires_grad for p in trainer.lightning_module.parameters()))"},
    {.id = "input-grads",
     .question = "do gradients flow with these lines? Then the inputs of the checkpointed layers needed no gradient",
     .torch = "model.get_input_embeddings().register_forward_hook(lambda module, inputs, y: y.requires_grad_(True))",
     .trainer = R"(model.enable_input_require_grads()
TrainingArguments(gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False}))"},
    {.id = "zero-grads",
     .question = "which share of each gradient is 0? A share that grows from the last layer to the first is underflow",
     .torch = R"(for name, p in model.named_parameters():
    if p.requires_grad:
        p.register_hook(lambda g, name=name: print(name, (g == 0).float().mean().item())))"},
    {.id = "run-fp32",
     .question = "does training go wrong in fp32, too? Then no format is the cause",
     .torch = R"(model.float()
with torch.autocast("cuda", enabled=False):
    loss = model(**batch).loss)",
     .trainer = R"(model.float()
TrainingArguments(fp16=False, bf16=False))",
     .deepspeed = R"("fp16": {"enabled": false}, "bf16": {"enabled": false})",
     .lightning = R"(Trainer(precision="32-true"))"},
    {.id = "lower-rate",
     .question = "does it train with a tenth of the learning rate and clipped gradients? Then the rate is too large",
     .torch = R"(for group in optimizer.param_groups:
    group["lr"] = RATE
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))",
     .trainer = "TrainingArguments(learning_rate=RATE, warmup_steps=100, max_grad_norm=1.0)",
     .deepspeed = R"("optimizer": {"type": "AdamW", "params": {"lr": RATE}}, "gradient_clipping": 1.0)",
     .lightning = "Trainer(gradient_clip_val=1.0)"},
    {.id = "spike-batch",
     .question = "is one batch the cause? The jump then moves with another order of the data",
     .torch = "torch.manual_seed(1)",
     .trainer = "TrainingArguments(data_seed=1)"},
    {.id = "finite-weights",
     .question = "which weights are not finite? A saved checkpoint with such weights is lost",
     .torch = "print([name for name, p in model.named_parameters() if not torch.isfinite(p).all()])",
     .trainer = "print([name for name, p in trainer.model.named_parameters() if not torch.isfinite(p).all()])"},
    {.id = "weights-dtype",
     .question = "which formats do the weights have? Weights trained in bf16 may overflow in fp16; weights without an "
                 "fp32 copy lose small updates",
     .torch = "print({p.dtype for p in model.parameters()})",
     .trainer = "print({p.dtype for p in trainer.model.parameters()})"},
    {.id = "adam-eps",
     .question = "does it train with a larger eps? 1e-8 is 0 in fp16",
     .torch = "optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, eps=1e-6)",
     .trainer = "TrainingArguments(adam_epsilon=1e-6)",
     .deepspeed = R"("optimizer": {"type": "AdamW", "params": {"lr": RATE, "eps": 1e-6}})"},
    {.id = "unscale",
     .question = "are gradients unscaled before they are clipped? These are the lines in the right order",
     .torch = R"(scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update())",
     .trainer = no_lines,
     .deepspeed = no_lines,
     .lightning = no_lines},
    {.id = "skipped",
     .question = "does every step overflow? The scale then falls, or the count of skipped steps grows, in every step",
     .torch = "print(scaler.get_scale())",
     .trainer = "print(trainer.accelerator.scaler.get_scale())",
     .deepspeed = "print(engine.skipped_steps)",
     .lightning = "print(trainer.precision_plugin.scaler.get_scale())"},
    {.id = "used-rate",
     .question = "which learning rate does the optimiser use?",
     .torch = R"(print([group["lr"] for group in optimizer.param_groups]))",
     .trainer = "print(trainer.lr_scheduler.get_last_lr(), trainer.args.max_steps, trainer.args.warmup_steps)",
     .deepspeed = "print(engine.get_lr())",
     .lightning = R"(print([group["lr"] for group in trainer.optimizers[0].param_groups]))"},
    {.id = "unclipped-norm",
     .question = "how large is the norm before clipping? With this limit, nothing is clipped",
     .torch = "print(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9))",
     .trainer = "TrainingArguments(max_grad_norm=1e9)",
     .deepspeed = R"("gradient_clipping": 1e9)",
     .lightning = "Trainer(gradient_clip_val=1e9)"},
    {.id = "full-eval",
     .question = "is the evaluation loss finite if the model is not cast for the evaluation?",
     .torch = R"(with torch.no_grad(), torch.autocast("cuda", enabled=False):
    print(model.float()(**batch).loss))",
     .trainer = "TrainingArguments(fp16_full_eval=False, bf16_full_eval=False)",
     .deepspeed = no_lines,
     .lightning = no_lines},
    {.id = "weights-move",
     .question = "do the weights change in a step? 0 means that the steps have no effect",
     .torch = R"(p = next(p for p in model.parameters() if p.requires_grad)
before = p.detach().clone()
optimizer.step()
print((p.detach() - before).abs().max().item()))",
     .trainer = R"(before = [p.detach().clone() for p in trainer.model.parameters() if p.requires_grad]
trainer.args.max_steps = 2
trainer.train()
after = [p.detach() for p in trainer.model.parameters() if p.requires_grad]
print(max((a - b.to(a.device)).abs().max().item() for a, b in zip(after, before))))"},
    {.id = "eager-attention",
     .question = "is the loss finite with the plain attention? Then the attention kernel or the packing is the cause",
     .torch = R"(model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="eager"))",
     .lightning = no_lines},
};

constexpr CheckStack stacks[] = {
    {"Transformers Trainer", &CheckRow::trainer, "transformers trl llamafactory longspec", "Transformers"},
    {"DeepSpeed", &CheckRow::deepspeed, "deepspeed", "DeepSpeed"},
    {"Lightning", &CheckRow::lightning, "lightning", "CSV (Lightning"},
    {"torch", &CheckRow::torch, "torch accelerate apex nanogpt", "nanoGPT"},
};

}  // namespace

std::span<const CheckRow> check_rows() { return rows; }

std::span<const CheckStack> check_stacks() { return stacks; }

const CheckStack* stack_of_framework(std::string_view framework) {
    const auto found = std::find_if(std::begin(stacks), std::end(stacks), [&](const CheckStack& one) {
        const std::vector<std::string> names = words_of(one.frameworks);
        return std::find(names.begin(), names.end(), framework) != names.end();
    });
    return found == std::end(stacks) ? nullptr : found;
}

const CheckStack* stack_of_log(std::string_view form) {
    const auto found = std::find_if(std::begin(stacks), std::end(stacks),
                                    [&](const CheckStack& one) { return form.starts_with(one.logs); });
    return found == std::end(stacks) ? nullptr : found;
}

std::optional<Check> find_check(std::string_view id, const CheckStack& stack, double rate) {
    const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const CheckRow& one) { return one.id == id; });
    if (row == std::end(rows)) return {};
    const std::string_view own = (*row).*stack.lines, lines = own.empty() ? row->torch : own;
    if (lines == no_lines) return {};
    Check check{.text = std::string(row->question)};
    std::istringstream text{std::string(lines)};
    for (std::string line; std::getline(text, line);) {
        constexpr std::string_view mark = "RATE";
        if (const std::size_t at = line.find(mark); at != std::string::npos)
            line.replace(at, mark.size(), fmt::format("{:.3g}", rate));
        check.lines.push_back(line);
    }
    return check;
}

}  // namespace macheps::configs
