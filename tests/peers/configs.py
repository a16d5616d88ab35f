# SPDX-License-Identifier: Apache-2.0
"""Compares `macheps policy import` with the parsers of the frameworks: both must refuse the same configs, and the values
of the parsed configs must be the same.

usage: configs.py deepspeed|transformers|accelerate|axolotl|llamafactory --macheps PATH [--configs DIR]

DIR contains published configs of projects (deepspeed/*.json, accelerate/*.yaml, axolotl/*, llamafactory/*). Without it,
only the cases written here are compared. No GPU is needed, because both programs assume a CPU or get the name of the
same device.
"""
import argparse
import copy
import itertools
import json
import logging
import os
import pathlib
import random
import sys
import types
import warnings

from axolotl_configs import compare_axolotl
from importing import WORK, Comparison, errors, field, imported, letter, published
from llamafactory_configs import compare_llamafactory
from peer import Failure, need

# DeepSpeed

# Rules of macheps for errors that DeepSpeedConfig itself raises. Assertions of DeepSpeed's engine are not compared,
# because they need a model and a process group.
PARSER_RULES = {"fp16-and-bf16", "loss-scale", "loss-scale-window", "min-loss-scale", "fp16-masters", "bf16-masters", "communication-dtype",
                "sequence-communication-dtype", "unknown-key", "key-of-other-version", "wrong-type"}


def deepspeed_cases():
    """Yields random combinations of good and bad values for every key. They are the same in every run."""
    choices = {
        "fp16.enabled": [None, True, False, "false", "auto"],
        "fp16.loss_scale": [None, 0, 128, 0.5, -1, True],
        "fp16.initial_scale_power": [None, 8, 32],
        "fp16.loss_scale_window": [None, 500, 0],
        "fp16.hysteresis": [None, 0, 1, 4],
        "fp16.consecutive_hysteresis": [None, True],
        "fp16.min_loss_scale": [None, 2, 0],
        "fp16.fp16_master_weights_and_grads": [None, None, None, True],
        "fp16.hystersis": [None] * 9 + [2],
        "bf16.enabled": [None, None, True, False, "auto"],
        "bf16.check_grad_overflow": [None, None, True, False],
        "communication_data_type": [None, None, "fp32", "BF16", "float32"],
        "seq_parallel_communication_data_type": [None, None, None, "bf16", "half"],
        "gradient_clipping": [None, 0.5, 1.0],
        "data_types.grad_accum_dtype": [None, None, "fp32", "bf16"],
        "zero_optimization.stage": [None, 0, 1, 2, 3],
        "zero_optimization.offload_optimizer.device": [None, None, "cpu"],
        "zero_optimization.stge": [None] * 9 + [1],
    }
    rng = random.Random(7)
    for _ in range(1500):
        config = {}
        for path, values in choices.items():
            value = rng.choice(values)
            if value is None:
                continue
            *parents, leaf = path.split(".")
            node = config
            for parent in parents:
                node = node.setdefault(parent, {})
            node[leaf] = value
        yield config


def concrete(config):
    """Returns the config that DeepSpeed gets from a program that replaces \"auto\". A batch size is set. Keys whose
    value only a launcher knows are removed if they are \"auto\"."""
    config = copy.deepcopy(config)
    for key in ("train_batch_size", "gradient_accumulation_steps"):
        config.pop(key, None)
    config["train_micro_batch_size_per_gpu"] = 1
    for section in ("zero_optimization", "optimizer", "scheduler"):
        if isinstance(config.get(section), dict):
            drop_auto(config[section])
    if config.get("gradient_clipping") == "auto":
        config.pop("gradient_clipping")
    return config


def drop_auto(node):
    for key in list(node):
        if node[key] == "auto":
            del node[key]
        elif isinstance(node[key], dict):
            drop_auto(node[key])


def compare_deepspeed(options):
    need("torch")
    deepspeed = need("deepspeed")
    from deepspeed.runtime.config import DeepSpeedConfig
    logging.disable(logging.CRITICAL)
    version = deepspeed.__version__.split("+")[0]
    typed = tuple(int(part) for part in version.split(".")[:2]) >= (0, 17)
    done = Comparison()
    files = [(name, json.loads(pathlib.Path(name).read_text())) for name in published(options, "deepspeed/*.json") if is_json(name)]
    written = [(f"case {i}", config) for i, config in enumerate(deepspeed_cases())]
    for name, config in files + written:
        config = concrete(config)
        path = WORK / "ds.json"
        path.write_text(json.dumps(config))
        ours = imported(options.macheps, "deepspeed", version, path)
        name = f"{name} {json.dumps(config)}" if name.startswith("case") else name
        try:
            theirs = DeepSpeedConfig(copy.deepcopy(config))
        except Exception as error:  # assertions, ValueError, pydantic's
            done.same(f"{name} refused ({str(error).splitlines()[0]})", bool(errors(ours)) or both_auto(config), True)
            done.refused += 1
            continue
        done.same(f"{name} refused by the parser", errors(ours) & PARSER_RULES - parsers_of_engine(typed), set())
        compare_parsed(done, name, ours, theirs, typed)
    done.finish(f"DeepSpeed {version}")


def both_auto(config):
    """Returns whether the switch of fp16 or of bf16 is \"auto\". DeepSpeed 0.16.5 reads \"auto\" as true, so it refuses
    configs in which both are \"auto\". macheps only warns, because another program replaces \"auto\"."""
    return any(config.get(section, {}).get("enabled") == "auto" for section in ("fp16", "bf16"))


def parsers_of_engine(typed):
    # In 0.16.5, the parser checks fp16 master weights against the ZeRO stage, and the engine checks them against the CPU
    # optimiser. Neither of them checks the window of the loss scale.
    return set() if typed else {"fp16-masters", "loss-scale-window"}


def compare_parsed(done, name, ours, theirs, typed):
    fp16 = theirs.float16_config.enabled if typed else theirs.fp16_enabled
    bf16 = theirs.bfloat16_config.enabled if typed else theirs.bfloat16_enabled
    low = "H" if fp16 else "B" if bf16 else "F"
    uses_autocast = getattr(theirs, "torch_autocast_enabled", False)
    if theirs.amp_enabled or uses_autocast:
        return
    done.same(f"{name} compute", field(ours, "compute")["kind"], low)
    clip = field(ours, "clip")
    done.same(f"{name} clip", clip.get("max", 0), max(theirs.gradient_clipping, 0))
    if theirs.communication_data_type is not None:
        done.same(f"{name} reduce", field(ours, "reduce")["kind"], letter(theirs.communication_data_type))
    done.same(f"{name} predivide", field(ours, "predivide")["kind"], "prescale" if theirs.prescale_gradients else "postscale")
    if not fp16:
        return
    scaler = field(ours, "scaler")
    scale = theirs.float16_config.loss_scale if typed else theirs.loss_scale
    if scale != 0:
        done.same(f"{name} static scale", (scaler["kind"], scaler.get("init_scale")), ("static", float(scale)))
        return
    arguments = theirs.float16_config.dynamic_loss_scale_args() if typed else theirs.dynamic_loss_scale_args
    if theirs.zero_enabled:
        if arguments is None:  # then the scaler's own defaults apply
            from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler
            from inspect import signature
            defaults = {k: p.default for k, p in signature(DynamicLossScaler.__init__).parameters.items()}
            arguments = {"init_scale": defaults["init_scale"], "scale_window": defaults["scale_window"], "delayed_shift": defaults["delayed_shift"],
                         "consecutive_hysteresis": defaults["consecutive_hysteresis"], "min_scale": defaults["min_scale"]}
        expected = ("ds-zero", arguments["init_scale"], arguments["scale_window"], arguments["delayed_shift"], arguments["consecutive_hysteresis"], arguments["min_scale"])
        found = (scaler["kind"], scaler["init_scale"], scaler["growth_interval"], scaler["hysteresis"], scaler["consecutive_hysteresis"], scaler["min_scale"])
        done.same(f"{name} scaler", found, expected)
    elif arguments is not None:
        done.same(f"{name} scaler", (scaler["kind"], scaler["init_scale"], scaler["growth_interval"], scaler["min_scale"]),
                  ("ds-fused", arguments["init_scale"], arguments["scale_window"], arguments["min_scale"]))


def is_json(name):
    try:
        json.loads(pathlib.Path(name).read_text())
        return True
    except ValueError:
        return False


# Transformers


def compare_transformers(options):
    need("torch")
    transformers = need("transformers")
    need("accelerate")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    version = transformers.__version__
    torch_version = sys.modules["torch"].__version__.split("+")[0]
    versions = f"transformers={version},torch={torch_version}"
    is_5 = int(version.split(".")[0]) >= 5
    done = Comparison()
    flags = [None, True, False]
    for fp16, bf16, fp16_eval, bf16_eval, tf32, use_cpu in itertools.product([None, True], [None, True], [None, True], [None, True], flags, [None, True]):
        arguments = {"fp16": fp16, "bf16": bf16, "fp16_full_eval": fp16_eval, "bf16_full_eval": bf16_eval, "tf32": tf32, "use_cpu": use_cpu}
        compare_arguments(done, options, transformers, versions, {k: v for k, v in arguments.items() if v is not None})
    for extra in ({"bf16": "false"}, {"optim": "adamw_torch_fused"}, {"optim": "adafactor"}, {"half_precision_backend": "apex", "bf16": True, "use_cpu": True},
                  {"half_precision_backend": "auto"}, {"no_cuda": True, "bf16": True}, {"fp16_opt_level": "O2"}, {"evaluation_strategy": "no"}, {"max_grad_norm": 0.5},
                  {"bf_16": True}, {"gradient_checkpointing": True}, {"logging_nan_inf_filter": False}):
        compare_arguments(done, options, transformers, versions, extra)
    compare_filling(done, options, versions, is_5)
    done.finish(f"Transformers {version}")


def compare_arguments(done, options, transformers, versions, arguments):
    path = WORK / "arguments.json"
    path.write_text(json.dumps({"output_dir": "out", **arguments}))
    ours = imported(options.macheps, "transformers", versions, path)
    os.environ.pop("ACCELERATE_MIXED_PRECISION", None)
    try:
        theirs, = transformers.HfArgumentParser(transformers.TrainingArguments).parse_json_file(str(path))
    except Exception as error:
        done.same(f"{arguments} refused ({str(error).splitlines()[0]})", bool(errors(ours)), True)
        done.refused += 1
        return
    done.same(f"{arguments} refused", errors(ours), set())
    precision = os.environ.get("ACCELERATE_MIXED_PRECISION") or getattr(theirs, "mixed_precision", "no")
    # On a CPU Accelerate has no fp16 autocast.
    done.same(f"{arguments} compute", field(ours, "compute")["kind"], {"no": "F", "fp16": "F", "bf16": "B"}[precision])
    done.same(f"{arguments} clip", field(ours, "clip").get("max", 0), float(theirs.max_grad_norm))
    done.same(f"{arguments} optimiser", field(ours, "opt_kernel")["kind"], "fused" if "fused" in str(theirs.optim.value) else "single")
    done.same(f"{arguments} checkpointing", field(ours, "ckpt")["kind"], theirs.gradient_checkpointing)


def compare_filling(done, options, versions, is_5):
    """Compares the values that HfTrainerDeepSpeedConfig fills in for \"auto\", and the mismatches that it reports."""
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig
    switches = ["auto", True, False, None]
    for fp16, bf16, full_eval, in_fp16, in_bf16, clip, norm in itertools.product([False, True], [False, True], [False, True], switches, switches, ["auto", 1.0, 0.5], [1.0, 0.5]):
        if fp16 and bf16:
            continue
        section = {"zero_optimization": {"stage": 2}, "gradient_clipping": clip}
        if in_fp16 is not None:
            section["fp16"] = {"enabled": in_fp16}
        if in_bf16 is not None:
            section["bf16"] = {"enabled": in_bf16}
        arguments = types.SimpleNamespace(fp16=fp16, bf16=bf16, fp16_full_eval=full_eval, bf16_full_eval=False, max_grad_norm=norm, fp16_backend="auto", fp16_opt_level="O1",
                                          world_size=1, per_device_train_batch_size=8, gradient_accumulation_steps=1, learning_rate=5e-5, adam_beta1=0.9, adam_beta2=0.999,
                                          adam_epsilon=1e-8, weight_decay=0.0, save_on_each_node=False)
        theirs = HfTrainerDeepSpeedConfig(copy.deepcopy(section))
        theirs.trainer_config_process(arguments)
        path = WORK / "arguments.json"
        path.write_text(json.dumps({"output_dir": "out", "fp16": fp16, "bf16": bf16, "fp16_full_eval": full_eval, "max_grad_norm": norm, "deepspeed": section}))
        ours = imported(options.macheps, "transformers", versions, path, device="h100")
        what = f"{section} under fp16 {fp16}, bf16 {bf16}, fp16_full_eval {full_eval}, max_grad_norm {norm}"
        done.same(f"{what} mismatch", "deepspeed-mismatch" in errors(ours), bool(theirs.mismatches))
        is_fp16, is_bf16 = theirs.is_true("fp16.enabled"), theirs.is_true("bf16.enabled")
        if is_fp16 and is_bf16:
            done.same(f"{what} both", "fp16-and-bf16" in errors(ours), True)
            continue
        done.same(f"{what} compute", field(ours, "compute")["kind"], "H" if is_fp16 else "B" if is_bf16 else "F")
        done.same(f"{what} clip", field(ours, "clip").get("max", 0), theirs.get_value("gradient_clipping"))


# Accelerate

# Rules of macheps for errors that the launcher itself raises. Errors of the Accelerator are not compared, because they
# need a device and the packages for fp8.
LAUNCHER_RULES = {"mixed-precision", "bare-no", "sync-module-states", "unknown-key", "key-of-other-version"}


def accelerate_cases():
    for kind, precision in itertools.product(['"NO"', "MULTI_GPU", "FSDP"], ['"no"', "no", "fp16", "BF16", "bf16", "fp32", None]):
        text = f"distributed_type: {kind}\nnum_processes: 2\n"
        yield text + (f"mixed_precision: {precision}\n" if precision else "")
    for line in ("fp16: true", "unknown: 1", "downcast_bf16: 'no'", "fsdp_config: {fsdp_sync_module_states: false}", "fsdp_config: {fsdp_unknown: 1}",
                 "fsdp_config: {sync_module_states: false, cpu_ram_efficient_loading: false}", "dynamo_backend: INDUCTOR"):
        yield f"distributed_type: FSDP\nnum_processes: 2\n{line}\n"


def launched(version, path):
    """Returns the environment in which the launcher starts processes, or None if DeepSpeed's file decides."""
    from accelerate.commands import launch
    from accelerate.utils import launch as environment
    parser = launch.launch_command_parser()
    args = parser.parse_args(["--config_file", str(path), "script.py"])
    checked = launch._validate_launch_command(args)
    args = checked[0]
    if args.use_deepspeed:
        return None
    args.main_process_port = 0  # any free port
    if args.multi_gpu or args.use_fsdp:
        return environment.prepare_multi_gpu_env(args)
    return environment.prepare_simple_launcher_cmd_env(args)[1]


def compare_accelerate(options):
    need("torch")
    accelerate = need("accelerate")
    need("yaml")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    version = accelerate.__version__
    done = Comparison()
    os.environ.pop("ACCELERATE_MIXED_PRECISION", None)
    texts = [(name, pathlib.Path(name).read_text()) for name in published(options, "accelerate/*.yaml")]
    texts += [(f"case {text!r}", text) for text in accelerate_cases()]
    sys.modules["accelerate.utils.launch"].is_fp8_available = lambda: True  # installed packages do not matter here
    for name, text in texts:
        path = WORK / "launch.yaml"
        path.write_text(text)
        ours = imported(options.macheps, "accelerate", version, path, device="h100")
        try:
            theirs = launched(version, path)
        except Exception as error:
            is_about_processes = any(word in str(error) for word in ("num_processes", "distributed_type", "GPU ids", "mpirun"))
            if not is_about_processes:
                done.same(f"{name} refused ({str(error).splitlines()[0]})", bool(errors(ours)), True)
                done.refused += 1
            continue
        done.same(f"{name} refused by the launcher", errors(ours) & LAUNCHER_RULES, set())
        if theirs is None:
            continue
        asked = theirs.get("ACCELERATE_MIXED_PRECISION", "no").split(".")[-1].lower()
        compute = field(ours, "compute")["kind"]
        on_cpu = field(ours, "device")["kind"] == "cpu"
        expected = {"no": "F", "fp16": "F" if on_cpu else "H", "bf16": "B"}.get(asked)
        if expected:
            done.same(f"{name} compute", compute, expected)
        else:
            done.same(f"{name} fp8", field(ours, "fp8")["kind"] != "none", True)
    done.finish(f"Accelerate {version}")


COMPARISONS = {"deepspeed": compare_deepspeed, "transformers": compare_transformers, "accelerate": compare_accelerate,
               "axolotl": compare_axolotl, "llamafactory": compare_llamafactory}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("framework", choices=COMPARISONS)
    options.add_argument("--macheps", required=True)
    options.add_argument("--configs", type=pathlib.Path, default=os.environ.get("MACHEPS_SHARED") and pathlib.Path(os.environ["MACHEPS_SHARED"]) / "configs")
    chosen = options.parse_args()
    COMPARISONS[chosen.framework](chosen)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(failure)
        sys.exit(1)
