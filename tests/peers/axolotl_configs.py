# SPDX-License-Identifier: Apache-2.0
"""Compares Axolotl's validators, its resolve_dtype and its builder's precision settings with `macheps policy import`.

Both programs get the device as an argument. Axolotl gets a dictionary of the device's capabilities, which it would
otherwise request from torch.
"""
import contextlib
import copy
import io
import json
import logging
import os
import pathlib
import random
import types

from importing import WORK, Comparison, errors, field, function_of, imported, letter, published
from peer import need

# Rules of macheps for errors that Axolotl raises only in code that does not run here: in the training loop, in
# Accelerate, or when a file is opened.
LATER_RULES = {"unscale-low-gradients", "fp8-cpu-ram-efficient-loading", "missing-file"}

# Words of errors with which Axolotl refuses a published config for a reason that does not concern precision.
OTHER_REASONS = ("ring_flash_attn", "mistral-common", "flash_attn_rms_norm", "early_stopping_patience", "EBFT", "warmup_steps", "save_strategy",
                 "output_dir", "RLHF training")

# Parts of the warnings of Axolotl's validators about precision, and the rules of macheps for the same problems.
WARNINGS = {
    "torch_compile is strongly recommended for FP8": "fp8-without-compile",
    "FP8 + FSDP2 + activation checkpointing": "fp8-activation-checkpointing",
    "Full fine tune w/o FA2": "fp16-packing-without-flash",
    "sample_packing & torch sdpa with bf16": "sdpa-packing-zero-loss",
    "q_galore_adamw8bit benefits": "q-galore-precision",
    "fp32_norm_classes is set but": "norm-classes-alone",
    "bf16 requested, but AMP is not supported": "bf16-unsupported",
    "bf16 support detected, but not enabled": "bf16-unused",
}

# Keys that every config must have.
REQUIRED = ["micro_batch_size: 1", "gradient_accumulation_steps: 1", "learning_rate: 1e-4", "datasets: [{path: my/data, type: alpaca}]"]

SAMPLES = ("{base_model: my/model, bf16: auto, tf32: auto, fp8: true, fp8_enable_fsdp_float8_all_gather: true, micro_batch_size: 1}",)


def capabilities(device):
    """Returns the result of gpu_capabilities() of axolotl/cli/config.py on a device. fp8 needs compute capability 9.0 or
    higher, and tf32 needs an NVIDIA GPU."""
    capability = {"v100": (7, 0), "t4": (7, 5), "a100": (8, 0), "l40": (8, 9), "h100": (9, 0), "b200": (10, 0), "mi300x": (9, 4)}.get(device)
    is_nvidia = capability is not None and device != "mi300x"
    return {"bf16": device != "cpu", "fp8": capability is not None and capability >= (9, 0), "tf32": is_nvidia and capability >= (8, 0), "n_gpu": 1,
            "compute_capability": f"sm_{capability[0]}{capability[1]}" if capability else None}


class Listener:
    """A log that keeps its messages."""

    def __init__(self):
        self.said = []

    def __getattr__(self, _):
        return lambda text, *_: self.said.append(text)


class Axolotl:
    """Axolotl on a simulated device."""

    def __init__(self):
        need("torch")
        self.transformers = need("transformers")
        self.yaml = need("yaml")
        self.config = need("axolotl.utils.config")
        self.validation = need("axolotl.utils.schemas.validation")
        self.dictionary = need("axolotl.utils.dict").DictDefault
        schema = need("axolotl.utils.schemas.config")
        schema.is_fp8_available = lambda: True  # the installed packages do not matter for the config
        self.log = schema.LOG = self.validation.LOG = Listener()
        self.set_precision = function_of("axolotl", "core/builders/base.py", "_configure_precision_settings")
        nothing = {name: lambda *_, **__: True for name in ("check_cuda_p2p_ib_support", "setup_fsdp_envs", "setup_deepspeed_env",
                                                            "setup_parallelism_envs", "setup_torch_compile_env")}
        self.set_environment = function_of("axolotl", "utils/trainer.py", "prepare_optim_env", DictDefault=self.dictionary, json=json, os=os,
                                           is_torch_bf16_gpu_available=lambda: self.device["bf16"], **nothing)
        training_arguments = self.transformers.training_args
        for module in (self.config, training_arguments):
            module.is_torch_bf16_gpu_available = lambda: self.device["bf16"]
        training_arguments.is_torch_tf32_available = lambda: self.device["tf32"]
        training_arguments.enable_tf32 = lambda _: None

    def resolve(self, text, device):
        """Returns the config after load_cfg, and the TrainingArguments made from it. Raises the errors of Axolotl and
        Transformers."""
        self.log.said.clear()
        self.device = capabilities(device)
        self.validation.is_torch_npu_available = lambda: device == "npu"
        cfg = self.dictionary(self.yaml.safe_load(text))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            self.config.prepare_plugins(cfg)  # prints a traceback for a plugin without its package, and continues
        torch_version = "2.11.0"  # the oldest that Axolotl 0.18 supports; the installed version does not matter for the numbers
        cfg = self.config.validate_config(cfg, copy.deepcopy(self.device), {"torch_version": torch_version})
        self.set_environment(cfg)
        self.was_auto = cfg.bf16 == "auto"
        cfg.device = "cpu" if device == "cpu" else "npu:0" if device == "npu" else "cuda:0"
        self.config.resolve_dtype(cfg)
        keywords = {}
        self.set_precision(types.SimpleNamespace(cfg=cfg), keywords)
        if cfg.max_grad_norm is not None:
            keywords["max_grad_norm"] = cfg.max_grad_norm
        return cfg, self.transformers.TrainingArguments(output_dir=str(WORK / "out"), report_to=[], **keywords)


def cases():
    """Yields random combinations of good and bad values for the keys that decide precision. They are the same in every
    run."""
    choices = {
        "bf16": [None, None, "auto", True, True, False, "full", '"false"', "t", 1],
        "fp16": [None, None, None, True, False, '"no"'],
        "tf32": [None, None, "auto", True, False, "maybe"],
        "bfloat16": [None] * 5 + [True, False],
        "float16": [None] * 5 + [True],
        "float32": [None] * 5 + [True],
        "fp8": [None] * 6 + [True, False],
        "fp8_enable_fsdp_float8_all_gather": [None] * 8 + [True, False],
        "adapter": [None, None, "lora", "qlora", '""', "nolora"],
        "load_in_8bit": [None, None, None, True, False],
        "load_in_4bit": [None, None, True, False],
        "gptq": [None] * 8 + [True],
        "merge_lora": [None] * 12 + [True],
        "model_quantization_config": [None] * 8 + ["Mxfp4Config"],
        "bnb_config_kwargs": [None] * 6 + ["{bnb_4bit_quant_type: fp4}"],
        "peft_autocast_adapter_dtype": [None] * 4 + [False],
        "optimizer": [None, None, None, "adamw_torch_fused", "adamw_bnb_8bit", "adamw_8bit", "adamw_torch_8bit", "q_galore_adamw8bit", "muon", "flash_adamw"],
        "fsdp": [None] * 8 + ["[full_shard]"],
        "fsdp_version": [None, None, None, 1, 2],
        "fsdp_config": [None] * 4 + ["{offload_params: false}", "{offload_params: true}", "{fsdp_offload_params: true}", "{fsdp_version: 2}", "{version: 2}",
                                     "{use_orig_params: true, fsdp_version: 2}", "{activation_checkpointing: true}"],
        "sample_packing": [None, True, True],
        "deepspeed": [None] * 8 + [str(WORK / "ds.json")],
        "fp32_norms": [None] * 6 + [True],
        "fp32_norm_classes": [None] * 8 + ["[RMSNorm]"],
        "flash_optimum": [None] * 9 + [True],
        "torch_compile": [None] * 3 + [True],
        "max_grad_norm": [None, None, 0.5],
        "gradient_checkpointing": [None, True, False, "offload"],
        "attn_implementation": [None, None, "sdpa", "flash_attention_2", "flex_attention", "fp8", "flash", "my/kernel"],
        "sage_attention": [None] * 4 + [True],
        "sdp_attention": [None] * 4 + [True],
        "rl": [None, None, "dpo"],
    }
    rng = random.Random(11)
    for _ in range(2500):
        # A case has only a few keys, because nearly every config with all keys is refused.
        keys = rng.sample(sorted(choices), rng.randint(2, 8))
        lines = []
        for key in keys:
            value = rng.choice(choices[key])
            if value is not None:
                lines.append(f"{key}: {str(value).lower() if isinstance(value, bool) else value}")
        device = rng.choice(["a100", "a100", "a100", "h100", "l40", "v100", "t4", "b200", "mi300x", "cpu", "npu"])
        yield device, lines


def compare_axolotl(options):
    axolotl = Axolotl()
    logging.disable(logging.CRITICAL)
    version = need("axolotl").__version__
    (WORK / "ds.json").write_text('{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}\n')
    done = Comparison()
    texts = [(pathlib.Path(name).name, device, pathlib.Path(name).read_text()) for name in published(options, "axolotl/*.y*ml") for device in ("a100", "h100", "v100")]
    texts += [("case {" + ", ".join(lines) + "}", device, "\n".join(["base_model: my/model", *REQUIRED, *lines]) + "\n") for device, lines in cases()]
    texts += [(f"sample {text}", device, text[:-1] + ", " + ", ".join(REQUIRED[1:]) + "}\n") for text in SAMPLES for device in ("a100", "h100")]
    for name, device, text in texts:
        path = WORK / "axolotl.yaml"
        path.write_text(text)
        ours = imported(options.macheps, "axolotl", version, path, device=device)
        what = f"{name} on {device}"
        refused = errors(ours) - LATER_RULES
        try:
            cfg, arguments = axolotl.resolve(text, device)
        except Exception as error:  # pydantic's, ValueError, ImportError
            if any(reason in str(error) for reason in OTHER_REASONS):
                continue
            # On a CPU Axolotl warns that training will fail, and Transformers then raises an error.
            fails = "doesn't support bf16" in str(error) and any(f["rule"] == "axolotl/bf16-unsupported" for f in ours["findings"])
            done.same(f"{what} refused ({reason_of(error)})", bool(refused) or fails, True)
            done.refused += 1
            continue
        done.same(f"{what} refused by Axolotl", refused, set())
        if not refused:
            warned = {rule for text, rule in WARNINGS.items() if any(text in said for said in axolotl.log.said)}
            told = {f["rule"].split("/", 1)[1] for f in ours["findings"]} & set(WARNINGS.values())
            done.same(f"{what} warned", told - misjudged(axolotl.was_auto, device), warned - misjudged(axolotl.was_auto, device))
            compare_resolved(done, what, ours, cfg, arguments, device)
    done.finish(f"Axolotl {version}")


def misjudged(was_auto, device):
    """Returns the rules that are not compared, because Axolotl's validator judges settings that change later. macheps
    judges the final settings."""
    # This validator runs before the defaults are filled in, and warns about fp32 if bf16 was left at auto.
    rules = {"q-galore-precision"}
    if device in ("v100", "t4"):
        rules.add("bf16-unused")  # torch counts emulated bf16 as supported
    if was_auto:
        rules.add("fp16-packing-without-flash")  # fp16 overrides `auto`, which the validator does not count as false
    return rules


def reason_of(error):
    lines = str(error).splitlines()
    return " ".join(lines[1:3] if len(lines) > 1 else lines)[:200]


def compare_resolved(done, what, ours, cfg, arguments, device):
    loaded = letter(cfg.torch_dtype)
    low = "B" if arguments.bf16 else "H" if arguments.fp16 else loaded
    if cfg.fp8:
        done.same(f"{what} fp8", (field(ours, "fp8")["kind"], os.environ["ACCELERATE_MIXED_PRECISION"]), ("ao_tensorwise", "fp8"))
        done.same(f"{what} all-gather", field(ours, "fp8")["all_gather"], bool(cfg.fp8_enable_fsdp_float8_all_gather))
    elif not isinstance(cfg.deepspeed, str):
        done.same(f"{what} compute", field(ours, "compute")["kind"], low if low != "F" else "T" if arguments.tf32 else "F")
    if not cfg.deepspeed:
        done.same(f"{what} scaler", field(ours, "scaler")["kind"], "torch" if arguments.fp16 and device != "cpu" else "none")
    is_sharded = bool(cfg.fsdp or cfg.fsdp_config)
    if not is_sharded and not cfg.deepspeed:
        quantised = {"qlora": cfg.load_in_4bit and (cfg.bnb_config_kwargs or {}).get("bnb_4bit_quant_type", "nf4"), "lora": cfg.load_in_8bit and "int8"}
        base = quantised.get(cfg.adapter)
        if not (cfg.gptq or cfg.model_quantization_config):
            # If weights are not quantised, prepare_model_for_kbit_training casts them to fp32.
            is_upcast = cfg.adapter in ("lora", "qlora") and not base and (cfg.load_in_4bit or cfg.load_in_8bit)
            done.same(f"{what} store", field(ours, "store")["kind"], base or ("F" if is_upcast else loaded))
        if not cfg.adapter:
            done.same(f"{what} norms", field(ours, "norm")["kind"], loaded if cfg.attn_needs_dtype_cast or cfg.cut_cross_entropy else "F")
    if not cfg.deepspeed:  # otherwise DeepSpeed's file decides
        done.same(f"{what} clip", field(ours, "clip").get("max", 0), arguments.max_grad_norm)
    done.same(f"{what} checkpointing", field(ours, "ckpt")["kind"], bool(cfg.gradient_checkpointing))
