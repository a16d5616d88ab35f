# SPDX-License-Identifier: Apache-2.0
"""Runs three steps of a released DeepSpeed, with gradients that are known, and prints what the weights do.

The model is one linear layer with eight weights of 0.5. The optimiser is SGD with rate 1. Each step has two
micro-batches, whose gradients are 0.125 and 0.375 for every weight, so each of the first two steps must move every
weight by 0.25. The loss of the third step is infinite. scripts/release-steps calls this program once for each release.

usage: deepspeed_step.py DEVICE CONFIGS.json [NAME...]   prints one JSON line for each config, by name
DEVICE is cpu or cuda. The release is the first folder in PYTHONPATH that contains `deepspeed`.
"""
import contextlib
import io
import json
import logging
import os
import sys

DEVICE = sys.argv[1]
os.environ.update(
    DS_ACCELERATOR=DEVICE,
    DS_BUILD_OPS="0",
    DS_SKIP_CUDA_CHECK="1",
    RANK="0",
    LOCAL_RANK="0",
    WORLD_SIZE="1",
    MASTER_ADDR="127.0.0.1",
    MASTER_PORT=str(20000 + os.getpid() % 20000),
)

import torch
import torch.distributed.elastic.agent.server.api as elastic

# Releases before 0.16 import these names, which newer releases of torch do not have.
if not hasattr(elastic, "log"):
    elastic.log = logging.getLogger(__name__)
if not hasattr(elastic, "_get_socket_with_port"):
    elastic._get_socket_with_port = lambda: None

RATE = 1.0
INPUT = 0.25
FACTORS = (0.5, 1.5)  # of the losses of the two micro-batches: gradients 0.125 and 0.375
MASTERS = ("fp32_groups", "fp32_groups_flat_partition", "single_partition_of_fp32_groups", "fp32_groups_flat")


def start():
    """Returns the package deepspeed. A CPU claims to support both low formats, as a GPU does."""
    if DEVICE == "cpu":
        from deepspeed.accelerator import get_accelerator

        accelerator = type(get_accelerator())
        accelerator.is_fp16_supported = lambda self: True
        accelerator.is_bf16_supported = lambda self: True
        accelerator.supported_dtypes = lambda self: [torch.float32, torch.float16, torch.bfloat16]
    import deepspeed

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    if "deepspeed.comm.torch" in sys.modules:
        sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo" if DEVICE == "cpu" else "nccl", verbose=False)
    return deepspeed


def fused_optimizer(parameters):
    """Returns an optimiser that DeepSpeed treats as its fused Adam and that makes a plain step of SGD."""
    from deepspeed.ops.adam import FusedAdam

    class PlainStep(FusedAdam):
        def __init__(self, parameters):
            torch.optim.Optimizer.__init__(self, parameters, {"lr": RATE})

        def step(self, closure=None, **unused):
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        weight.data.add_(weight.grad.to(weight.dtype), alpha=-group["lr"])

        def zero_grad(self, set_to_none=True):
            torch.optim.Optimizer.zero_grad(self, set_to_none)

    return PlainStep(parameters)


def weight_of(engine, wrapper):
    """Returns the first master weight, or the first weight of the model if there are no masters."""
    for name in MASTERS:
        groups = getattr(wrapper, name, None)
        if groups:
            first = groups[0]
            first = first[0] if isinstance(first, list) else first
            return first.detach().flatten()[0].float().item()
    return next(engine.module.parameters()).detach().flatten()[0].float().item()


def norm_of(engine):
    try:
        norm = engine.get_global_grad_norm()
        return None if norm is None else round(float(norm), 6)
    except Exception as error:
        return type(error).__name__


def steps(deepspeed, config):
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": len(FACTORS),
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        **config,
    }
    is_fused = config.pop("optimizer")["type"] == "AdamW"
    model = torch.nn.Linear(8, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.5)
    optimizer = fused_optimizer(model.parameters()) if is_fused else torch.optim.SGD(model.parameters(), lr=RATE)
    engine, wrapper, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    low = torch.float16 if config.get("fp16") else torch.bfloat16 if config.get("bf16") else torch.float32
    data = torch.full((1, 8), INPUT, dtype=low, device=DEVICE)

    def step(factor):
        before = weight_of(engine, wrapper)
        for each in FACTORS:
            engine.backward(engine(data).float().sum() * each * factor)
            engine.step()
        return before, weight_of(engine, wrapper)

    moved, norms = [], []
    for _ in range(2):
        before, after = step(1.0)
        moved.append(round(before - after, 9))
        norms.append(norm_of(engine))
    found = {"wrapper": type(wrapper).__name__, "moved": moved, "norm": norms[0]}
    try:
        before, after = step(float("inf"))
    except Exception as error:
        return {**found, "infinite_step": f"raises {type(error).__name__}", "infinite_norm": None}
    is_finite = torch.isfinite(torch.tensor(after)).item()
    infinite = "skipped" if after == before else "moves" if is_finite else "weights are lost"
    return {**found, "infinite_step": infinite, "infinite_norm": norm_of(engine)}


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        configs = json.load(file)
    deepspeed = start()
    for name in sys.argv[3:] or configs:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                found = steps(deepspeed, configs[name])
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"}
        print("STEP " + json.dumps({"config": name, **found}, default=str), flush=True)


if __name__ == "__main__":
    main()
