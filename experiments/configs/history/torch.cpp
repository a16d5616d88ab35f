// SPDX-License-Identifier: Apache-2.0
// Faults and changed defaults of PyTorch.
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"

namespace macheps::configs {

namespace faults_of_torch {

namespace {

using Context = ImportContext;

/// Returns whether the config computes in bf16 on a device that only emulates it.
bool emulates_bf16(const Context& c) {
    const DeviceProfile& device = c.device();
    return device.is_cuda_like() && !device.bf16 && c.resolved().word("compute") == "B";
}

bool has_autocast(const Context& c) {
    return c.has("autocast") && c.flag("autocast.enabled") && c.device().is_cuda_like() &&
           c.text("autocast.device_type") != "cpu";
}

/// Returns whether a fused AdamW of torch runs under a GradScaler of torch.
bool scales_fused_adamw(const Context& c) {
    const std::string_view name = c.framework().name;
    const bool is_fused = name == "torch"     ? c.flag("fused")
                          : name == "nanogpt" ? c.resolved().word("opt_kernel") == "fused"
                                              : c.text("optim") == "adamw_torch_fused";
    return is_fused && c.resolved().word("scaler").starts_with("torch");
}

/// Returns whether gradients in bf16 are clipped by torch. A framework that shares the root of the config with another
/// one may still change the fields, so only the other one answers.
bool clips_bf16_gradients(const Context& c) {
    if (c.root_is_shared()) return false;
    const ResolvedField* clip = c.resolved().find("clip");
    if (clip == nullptr || c.resolved().word("clip") != "torch" || c.resolved().word("grad") != "B") return false;
    for (const auto& [name, value] : clip->value.parts) {
        if (name == "max") return std::get<double>(value) > 0;
    }
    return false;
}

const FaultRow rows[] = {
    {.id = "torch-bf16-emulated",
     .package = "torch",
     .first_bad = "2.3.0",
     .newest_seen = "2.15.0",
     .is_change = true,
     .code = FindingCode::warning,
     .trigger = "bf16 on a GPU without it, such as V100 and T4",
     .keys = {"bf16"},
     .importers = "transformers axolotl accelerate deepspeed torch",
     .holds = emulates_bf16,
     .computes =
         "is_bf16_supported makes a bf16 tensor and answers yes; up to 2.2.2 it asked for compute capability 8.0",
     .consequence = "bf16 is emulated and slow, and `auto` chooses bf16 rather than fp16",
     .remedy = "fp16 with a loss scaler, or fp32 if the weights were trained in bf16",
     .sentence = "torch {v} reports bf16 as supported on GPUs that only emulate it: the run is slow",
     .finding = "transformers/bf16-emulated axolotl/bf16-emulated accelerate/bf16-emulated deepspeed/bf16-emulated "
                "torch/bf16-emulated",
     .evidence = FaultEvidence::read,
     .seen = "2.0.1 to 2.15.0",
     .source = "torch/cuda/__init__.py 2.2.2:144, 2.3.0:141",
     .sample = "per_device_train_batch_size: 4\nbf16: true\n",
     .sample_device = "v100"},
    {.id = "torch-rms-norm-fp32",
     .package = "torch",
     .first_bad = "2.12.0",
     .newest_seen = "2.15.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "autocast on CUDA, torch.nn.RMSNorm or F.rms_norm",
     .keys = {"autocast"},
     .holds = has_autocast,
     .question = "the model uses torch.nn.RMSNorm or F.rms_norm",
     .computes = "rms_norm is on the fp32 list of autocast; before, it used the format of its input",
     .consequence = "norms are computed in fp32 and need more memory",
     .remedy = "compare runs of the same version",
     .sentence = "under autocast, torch {v} computes rms_norm in fp32; before 2.12 it used the format of the input",
     .evidence = FaultEvidence::read,
     .seen = "the headers of 2.4 to 2.11.0 and 2.12.1 to 2.15; 2.12.0 was not read",
     .source = "ATen/autocast_mode.h 2.12.1:876",
     .sample = "autocast:\n  device_type: cuda\n  dtype: bfloat16\nmax_norm: 1.0\n"},
    {.id = "torch-fp32-precision",
     .package = "torch",
     .first_bad = "2.9.0",
     .newest_seen = "2.15.0",
     .is_change = true,
     .code = FindingCode::error,
     .trigger = "allow_tf32 together with fp32_precision",
     .keys = {"allow_tf32", "fp32_precision"},
     .holds = [](const Context& c) { return c.has("allow_tf32") && c.has("fp32_precision"); },
     .computes = "RuntimeError if the old setting is read after the new one was written",
     .consequence = "the program stops",
     .remedy = "only one of the two settings",
     .sentence = "torch {v} raises a RuntimeError if a program uses both allow_tf32 and fp32_precision",
     .signature = "you have used mix of the legacy and new APIs to set the TF32 status",
     .evidence = FaultEvidence::run,
     .seen = "raised in 2.15.0",
     .source = "torch/backends/cuda/__init__.py; issue #179445",
     .sample = "allow_tf32: true\nfp32_precision: ieee\nmax_norm: 1.0\n"},
    {.id = "torch-math-sdp",
     .package = "torch",
     .first_bad = "2.5.0",
     .newest_seen = "2.15.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "scaled_dot_product_attention on the math path in bf16 or fp16",
     .question = "attention in bf16 or fp16 takes the math path",
     .computes = "operands are widened to fp32 unless allow_fp16_bf16_reduction_math_sdp is set",
     .consequence = "other bits than 2.4",
     .remedy = "compare runs of the same version",
     .sentence = "torch {v} widens the operands of attention on the math path to fp32; 2.4 did not",
     .evidence = FaultEvidence::read,
     .seen = "2.5.1",
     .source = "torch/backends/cuda/__init__.py 2.5.1:28"},
    {.id = "torch-fused-adamw-amp",
     .package = "torch",
     .first_bad = "2.0.0",
     .first_good = "2.0.1",
     .code = FindingCode::warning,
     .trigger = "fused AdamW with GradScaler",
     .keys = {"fused", "grad_scaler"},
     .importers = "torch transformers nanogpt",
     .holds = scales_fused_adamw,
     .computes = "reports say that the loss is worse than with the AdamW that is not fused, or becomes NaN",
     .consequence = "a worse loss, or NaN after some thousand steps",
     .remedy = "torch 2.0.1, or AdamW without fused",
     .cure = "fused=false",
     .sentence = "reports say that fused AdamW with GradScaler trains worse in torch {v}, or to NaN",
     .evidence = FaultEvidence::thread,
     .seen = "only the reports; those about NaN used builds shortly before 2.0.0",
     .source = "issue #96755, issue #95781; nanoGPT issue #167",
     .sample = "autocast:\n  device_type: cuda\n  dtype: float16\ngrad_scaler:\n  enabled: true\nfused: true\n"},
    {.id = "torch-tf32-default",
     .package = "torch",
     .first_bad = "1.7",
     .first_good = "1.12",
     .code = FindingCode::note,
     .trigger = "allow_tf32 not set, a GPU with tf32",
     .keys = {"allow_tf32", "float32_matmul_precision"},
     .holds =
         [](const Context& c) {
             return !c.has("allow_tf32") && !c.has("float32_matmul_precision") && c.device().torch_says_tf32();
         },
     .computes = "allow_tf32 is true by default: fp32 matmuls use tf32",
     .consequence = "the operands of fp32 matmuls are rounded to tf32",
     .remedy = "allow_tf32: false",
     .cure = "allow_tf32=false",
     .sentence = "`allow_tf32` is not set: it is true by default in torch {v}, so fp32 matmuls use tf32",
     .evidence = FaultEvidence::thread,
     .seen = "only the documentation",
     .source = "the notes on CUDA semantics in the documentation of torch",
     .sample = "max_norm: 1.0\nautocast:\n  enabled: false\n"},
    {.id = "torch-clip-bf16-norm",
     .package = "torch",
     .newest_seen = "2.15.0",
     .is_change = true,
     .code = FindingCode::note,
     .trigger = "clip_grad_norm_ on bf16 gradients",
     .keys = {"max_norm", "model_dtype"},
     .importers = "torch transformers axolotl llamafactory trl torchtune lightning",
     .holds = clips_bf16_gradients,
     .computes = "the norm of bf16 gradients is computed in bf16, with 8 bits of significand",
     .consequence = "the logged norm has steps of 1/128 of its power of two",
     .remedy = "compute the norm from gradients that are widened to fp32",
     .sentence = "clip_grad_norm_ of torch {v} returns the norm of bf16 gradients in bf16, with 8 bits of significand",
     .signature = "gradient norms with 8 significant bits",
     .evidence = FaultEvidence::read,
     .seen = "2.15.0",
     .source = "torch/nn/utils/clip_grad.py 2.15.0:164; NeMo Automodel PR #825",
     .sample = "model_dtype: bfloat16\nmax_norm: 1.0\n"},
};

}  // namespace

}  // namespace faults_of_torch

std::span<const FaultRow> torch_faults() { return faults_of_torch::rows; }

}  // namespace macheps::configs
