# SPDX-License-Identifier: Apache-2.0
"""Compares LLaMA-Factory's get_train_args with `macheps policy import`: both must refuse the same configs, and macheps must
report LLaMA-Factory's own warnings.

Both programs get the device as an argument. Both derive from the config whether there are several ranks: a config with
DeepSpeed or FSDP has several.
"""
import json
import logging
import os
import pathlib
import random
import sys
import types

from importing import WORK, Comparison, errors, field, function_of, imported, letter, published
from peer import need

# macheps reports errors under these rules although LLaMA-Factory's parser accepts the config. LLaMA-Factory raises some
# of the errors later: its parser accepts any word for an option with a list of choices, and the Trainer refuses
# DeepSpeed with FSDP. Other errors exist only in macheps, such as a missing file, or weights in another format than the
# products.
LATER_RULES = {"pure-bf16-fp16-checkpoint", "fp8-msamp", "missing-file", "no-such-choice", "deepspeed-and-fsdp"}

# Parts of LLaMA-Factory's error messages that are not about precision. A config that fails with one of them is not
# compared.
OTHER_REASONS = ("Please provide `model_name_or_path`",)

# Maps part of each LLaMA-Factory warning to the macheps rule that reports the same problem.
WARNINGS = {
    "We recommend enable `upcast_layernorm`": "recommend-upcast-layernorm",
    "We recommend enable mixed precision": "recommend-mixed-precision",
    "Using GaLore or APOLLO with mixed precision": "galore-memory",
    "Evaluating model in 4/8-bit mode": "quantised-evaluation",
    "fp8_enable_fsdp_float8_all_gather requires": "all-gather-without-fp8",
}

SAMPLES = (
    "{stage: sft, do_train: true, finetuning_type: lora, quantization_bit: 4, bf16: true, upcast_layernorm: false}",
    "{stage: pt, do_train: true, finetuning_type: full, use_galore: true, pure_bf16: true, galore_rank: 128}",
)
REQUIRED = ["model_name_or_path: my/model", "dataset: my_data", "output_dir: out"]


class Factory:
    """LLaMA-Factory on a simulated device, with all the packages that a config may ask for."""

    def __init__(self):
        os.environ["DISABLE_VERSION_CHECK"] = "1"
        self.torch = need("torch")
        transformers = need("transformers")
        omegaconf = need("omegaconf")
        datasets = types.ModuleType("datasets")  # evaluation_args.py uses one enumeration of this package
        datasets.DownloadMode = type("DownloadMode", (), {"REUSE_DATASET_IF_EXISTS": "reuse_dataset_if_exists"})
        sys.modules.setdefault("datasets", datasets)
        self.parser = need("llamafactory.hparams.parser")
        self.misc = need("llamafactory.extras.misc")
        self.arguments = transformers.training_args
        self.deepspeed = need("transformers.integrations.deepspeed")
        self.omegaconf = omegaconf.OmegaConf
        self.version = need("importlib.metadata").version("llamafactory")
        self.transformers_version = transformers.__version__
        self.warned = []
        constants = need("llamafactory.extras.constants")
        nothing = types.SimpleNamespace(info_rank0=lambda *_: None, warning_rank0=lambda *_: None)
        self.quantise = function_of("llamafactory", "model/model_utils/quantization.py", "configure_quantization", logger=nothing,
                                    QuantizationMethod=constants.QuantizationMethod, check_version=lambda *_, **__: None,
                                    BitsAndBytesConfig=types.SimpleNamespace, HqqConfig=types.SimpleNamespace, EetqConfig=types.SimpleNamespace,
                                    is_deepspeed_zero3_enabled=self.deepspeed.is_deepspeed_zero3_enabled, is_fsdp_enabled=lambda: self.is_fsdp,
                                    get_current_device=lambda: "cpu")
        quiet = types.SimpleNamespace(warning_rank0=lambda text, *_: self.warned.append(text), info_rank0=lambda *_: None, info=lambda *_: None)
        self.parser.logger = quiet
        self.parser.check_version = lambda *_, **__: None
        self.parser._set_transformers_logging = lambda: None
        self.parser.transformers.set_seed = lambda *_: None
        self.parser.get_current_device = lambda: "cpu"
        for module in (self.parser, self.arguments):
            module.is_torch_bf16_gpu_available = lambda: self.has_bf16
        self.arguments.is_torch_tf32_available = lambda: self.has_tf32
        self.arguments.enable_tf32 = lambda _: None
        parallel = self.arguments.ParallelMode
        self.arguments.TrainingArguments.parallel_mode = property(
            lambda arguments: parallel.DISTRIBUTED if arguments.deepspeed or arguments.fsdp else parallel.NOT_PARALLEL)

    def parse(self, path, device, checkpoint):
        """Returns the result of get_train_args, the macheps rules of its warnings, and the quantisation config of the
        base model. Raises the errors of LLaMA-Factory."""
        self.has_bf16, self.has_tf32 = device != "cpu", device in ("a100", "h100")
        self.warned.clear()
        self.deepspeed.unset_hf_deepspeed_config()
        for name in ("ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
            os.environ.pop(name, None)
        config = self.omegaconf.to_container(self.omegaconf.load(path))
        parsed = self.parser.get_train_args(config)
        rules = {rule for text, rule in WARNINGS.items() if any(text in warned for warned in self.warned)}
        model, _, training, *_ = parsed
        model.compute_dtype = self.compute_dtype(model, device, checkpoint)
        self.is_fsdp = bool(training.fsdp)
        loading = {}
        self.quantise(types.SimpleNamespace(), None, model, True, loading)
        return parsed, rules, loading.get("quantization_config")

    def compute_dtype(self, model_args, device, checkpoint):
        """Returns the compute dtype that patch_config chooses: the dtype of the flags if they set one, and otherwise
        the dtype that the device allows for the checkpoint's dtype."""
        if model_args.compute_dtype is not None:
            return model_args.compute_dtype
        self.misc._is_bf16_available, self.misc._is_fp16_available = device != "cpu", device != "cpu"
        return self.misc.infer_optim_dtype({"fp32": self.torch.float32, "fp16": self.torch.float16, "bf16": self.torch.bfloat16}[checkpoint])


def cases():
    """Yields random combinations of good and bad values for the keys that decide precision. Every run yields the same
    cases."""
    choices = {
        "do_train": [True, True, True, True, False, None],
        "finetuning_type": [None, "lora", "full", "full", "freeze", "oft", "qlora"],
        "bf16": [None, None, True, True, False, '"false"'],
        "fp16": [None, None, None, True, False],
        "pure_bf16": [None, None, True, False],
        "tf32": [None, None, None, True, False],
        "bf16_full_eval": [None] * 5 + [True],
        "fp16_full_eval": [None] * 5 + [True],
        "quantization_bit": [None, None, 4, 8, 2],
        "quantization_method": [None, None, "bnb", "hqq", "eetq"],
        "quantization_type": [None, "nf4", "fp4"],
        "quantization_device_map": [None] * 4 + ["auto"],
        "double_quantization": [None, True, False],
        "upcast_layernorm": [None, True, False],
        "upcast_lmhead_output": [None, True],
        "use_galore": [None, None, True],
        "galore_layerwise": [None, None, True],
        "use_apollo": [None, None, True],
        "apollo_layerwise": [None, None, True],
        "use_badam": [None, None, True],
        "badam_mode": [None, "layer", "ratio"],
        "fp8": [None, None, True, False],
        "fp8_backend": [None, "auto", "torchao", "te"],
        "fp8_enable_fsdp_float8_all_gather": [None, None, True, False],
        "pissa_init": [None, None, True],
        "resize_vocab": [None, None, True],
        "create_new_adapter": [None, None, True],
        "adapter_name_or_path": [None, None, "a", '"a,b"', "[a]"],
        "infer_dtype": [None, "bfloat16"],
        "stage": [None, "sft", "pt", "dpo", "kto"],
        "deepspeed": [None, None, str(WORK / "z2.json"), str(WORK / "z3.json")],
        "fsdp": [None, None, "full_shard"],
        "max_grad_norm": [None, 0.5],
        "disable_gradient_checkpointing": [None, True],
        "optim": [None, "adamw_torch", "adamw_8bit", "adamw_torch_fused"],
        "bf_16": [None] * 9 + [True],
    }
    rng = random.Random(13)
    for _ in range(2500):
        keys = sorted({"do_train", "finetuning_type", *rng.sample(sorted(choices), rng.randint(1, 6))})
        lines = []
        for key in keys:
            value = rng.choice(choices[key])
            if value is not None:
                lines.append(f"{key}: {str(value).lower() if isinstance(value, bool) else value}")
        yield rng.choice(["a100", "a100", "h100", "v100", "cpu"]), rng.choice(["fp32", "bf16", "fp16"]), lines


def compare_llamafactory(options):
    factory = Factory()
    logging.disable(logging.CRITICAL)
    versions = f"llamafactory={factory.version},transformers={factory.transformers_version}"
    for stage in (2, 3):
        (WORK / f"z{stage}.json").write_text(json.dumps({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": stage},
                                                         "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto"}))
    done = Comparison()
    texts = [(pathlib.Path(name).name, device, "bf16", with_engines(options, pathlib.Path(name).read_text()))
             for name in published(options, "llamafactory/*.y*ml") for device in ("a100", "h100", "v100")]
    texts += [("case {" + ", ".join(lines) + "}", device, checkpoint, "\n".join(REQUIRED + lines) + "\n") for device, checkpoint, lines in cases()]
    texts += [(f"sample {text}", device, checkpoint, text[:-1] + ", " + ", ".join(REQUIRED) + "}\n")
              for text in SAMPLES for device in ("a100", "h100") for checkpoint in ("fp32", "bf16")]
    for name, device, checkpoint, text in texts:
        path = WORK / "factory.yaml"
        path.write_text(text)
        ours = imported(options.macheps, "llamafactory", versions, path, ("--checkpoint-dtype", checkpoint), device)
        what = f"{name} on {device} from {checkpoint}"
        refused = errors(ours) - LATER_RULES
        try:
            parsed, rules, quantised = factory.parse(path, device, checkpoint)
        except Exception as error:  # assertions, ValueError, a word that is not in a list
            if not any(reason in str(error) for reason in OTHER_REASONS):
                done.same(f"{what} refused ({str(error)[:200]})", bool(refused), True)
                done.refused += 1
            continue
        done.same(f"{what} refused by LLaMA-Factory", refused, set())
        if not refused:
            done.same(f"{what} warned", {f["rule"].split("/", 1)[1] for f in ours["findings"]} & set(WARNINGS.values()), rules)
            compare_parsed(done, what, ours, parsed, quantised, device, checkpoint)
    done.finish(f"LLaMA-Factory {factory.version} with Transformers {factory.transformers_version}")


def with_engines(options, text):
    """Replaces the paths of DeepSpeed files in the config by the paths of the local copies."""
    return text.replace("examples/deepspeed/", f"{options.configs}/deepspeed/llama-factory__deepspeed__")


def compare_parsed(done, what, ours, parsed, quantised, device, checkpoint):
    model, _, training, finetuning, _ = parsed
    compute = letter(model.compute_dtype)
    stored = {"fp32": "F", "fp16": "H", "bf16": "B"}[checkpoint]
    is_full = finetuning.finetuning_type in ("full", "freeze")
    # adapter.py casts trained weights to fp32, except under ZeRO-3, where the engine decides.
    casts = training.do_train and is_full and not finetuning.pure_bf16 and not finetuning.use_badam
    base = "F" if casts else stored
    if not training.deepspeed and not training.fsdp:
        autocast = "no" if device == "cpu" and training.mixed_precision == "fp16" else training.mixed_precision
        low = {"no": base, "fp16": "H", "bf16": "B"}[autocast]
        if hasattr(quantised, "bnb_4bit_compute_dtype") and autocast == "no":
            low = letter(quantised.bnb_4bit_compute_dtype)
        done.same(f"{what} autocast", field(ours, "oplist")["kind"] != "none", autocast != "no")
        done.same(f"{what} compute", field(ours, "compute")["kind"], "T" if low == "F" and training.tf32 else low)
        done.same(f"{what} scaler", field(ours, "scaler")["kind"], "torch" if autocast == "fp16" else "none")
        done.same(f"{what} store", field(ours, "store")["kind"] if quantised is None else None, base if quantised is None else None)
    told = [f["message"] for f in ours["findings"] if f["rule"] == "llamafactory/compute-dtype-alone"]
    is_flagged = training.fp16 or training.bf16 or finetuning.pure_bf16
    expected = [] if is_flagged or compute == "F" else [{"H": "fp16", "B": "bf16"}[compute]]
    done.same(f"{what} compute dtype", [word for message in told for word in ("fp16", "bf16") if f"compute dtype {word} " in message], expected)
    done.same(f"{what} adapter", field(ours, "adapter")["kind"] != "none", finetuning.finetuning_type in ("lora", "oft"))
    if quantised is not None:
        width = getattr(quantised, "nbits", 8)
        done.same(f"{what} base", field(ours, "store")["kind"], getattr(quantised, "bnb_4bit_quant_type", f"int{width}"))
    if not training.deepspeed:
        done.same(f"{what} clip", field(ours, "clip").get("max", 0), training.max_grad_norm)
    done.same(f"{what} checkpointing", field(ours, "ckpt")["kind"], not model.disable_gradient_checkpointing)
    # When LLaMA-Factory sets the environment variable for fp8, Transformers 5 has already fixed the precision. So fp8
    # is off.
    done.same(f"{what} fp8", field(ours, "fp8")["kind"], "none")
