#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the loss scalers of macheps with the frameworks' own classes on random patterns of overflows.

    build/peers/torch/bin/python tests/peers/scalers.py torch --macheps build/quick/experiments/macheps
    build/peers/deepspeed-0.16.5/bin/python tests/peers/scalers.py deepspeed

The peer is torch (GradScaler, and FSDP's ShardedGradScaler, both with tensors on the CPU) or deepspeed (DynamicLossScaler, and
the update of FP16_Optimizer, in the version that this interpreter has). The scale, tracker and hysteresis of
every step must be equal bit for bit. Both scalers must also skip the same steps and raise an error at the same step.
Exit codes: 0 all are equal, 1 there is a difference, 2 usage error, 77 the peer cannot be imported.
"""
import argparse
import math
import random
import sys

import peer


def pattern(rng, steps):
    """Returns the numbers of randomly drawn steps that overflow. The first step has number 1. Overflows are rare,
    frequent or consecutive, depending on the draw."""
    rate = rng.choice([0.0, 0.02, 0.1, 0.3, 0.6, 0.95])
    length = rng.choice([1, 1, 2, 5])
    chosen = set()
    for step in range(1, steps + 1):
        if rng.random() < rate / length:
            chosen.update(range(step, min(steps, step + length - 1) + 1))
    return sorted(chosen)


def number(x):
    """Returns the number as text that macheps reads back exactly."""
    return repr(float(x))


class Case:
    """A loss scaler of the peer, and the command-line arguments for the same scaler in macheps.

    `step(overflow)` makes one step with the peer's scaler and returns (skipped, raised). `scale()`, `tracker()` and
    `hysteresis()` return the state of that scaler. `hysteresis()` returns None if the scaler has no hysteresis.
    """

    def __init__(self, arguments, step, scale, tracker, hysteresis=lambda: None):
        self.arguments, self.step, self.scale, self.tracker, self.hysteresis = arguments, step, scale, tracker, hysteresis


def compare(program, case, overflows, steps):
    """Runs the peer's scaler and that of macheps, and returns the number of compared steps. Raises peer.Failure at the
    first difference."""
    expected, raised = [], False
    for step in range(1, steps + 1):
        used = case.scale()
        skipped, raised = case.step(step in overflows)
        expected.append((used, step in overflows, skipped, case.scale(), case.tracker(), case.hysteresis(), raised))
        if raised:
            break
    arguments = ["scaler", *case.arguments, "--steps", str(steps)]
    if overflows:
        arguments += ["--overflow-at", ",".join(map(str, sorted(overflows)))]
    found = peer.rows(program, *arguments, code=1 if raised else 0)
    what = " ".join(arguments)
    if len(found) != len(expected):
        raise peer.Failure(f"{what}: {len(found)} rows, the peer made {len(expected)} steps")
    for step, (row, wanted) in enumerate(zip(found, expected), 1):
        hysteresis = int(row["hysteresis"]) if row["hysteresis"] else None
        got = (float(row["scale"]), row["overflow"] == "1", row["skipped"] == "1", float(row["scale_after"]),
               int(row["tracker"]), hysteresis, row["raised"] == "1")
        if int(row["step"]) != step or got != wanted:
            raise peer.Failure(f"{what}\n  step {step}\n  macheps {got}\n  peer    {wanted}")
    return len(expected)


# --- torch


def torch_cases():
    torch = peer.need("torch")
    torch.manual_seed(0)

    def drive(kind, arguments, scaler):
        parameter = torch.nn.Parameter(torch.zeros(3))

        class Counting(torch.optim.SGD):
            steps = 0

            def step(self, closure=None):
                self.steps += 1
                return super().step(closure)

        optimizer = Counting([parameter], lr=0.0)
        loss = torch.zeros(())
        scaler.scale(loss)  # the first call creates the scale

        def step(overflow):
            scaler.scale(loss)
            parameter.grad = torch.ones(3)
            if overflow:
                parameter.grad[1] = rng_choice([math.inf, -math.inf, math.nan])
            before = optimizer.steps
            scaler.step(optimizer)
            scaler.update()
            return optimizer.steps == before, False

        return Case([kind, *arguments], step, lambda: float(scaler._scale.item()),
                    lambda: int(scaler._growth_tracker.item()))

    rng_choice = random.Random(7).choice

    def settings(rng):
        powers = rng.random() < 0.5
        init = 2.0 ** rng.randint(-3, 127) if powers else rng.uniform(0.01, 1e6)
        init = float(torch.tensor(init, dtype=torch.float32).item())
        growth = 2.0 if powers else rng.uniform(1.001, 8)
        backoff = 0.5 if powers else rng.uniform(0.1, 0.999)
        window = rng.choice([1, 2, 3, 7, 20])
        arguments = ["--init", number(init), "--growth", number(growth), "--backoff", number(backoff), "--window", str(window)]
        keywords = dict(init_scale=init, growth_factor=growth, backoff_factor=backoff, growth_interval=window)
        return arguments, keywords

    def plain(rng):
        arguments, keywords = settings(rng)
        return drive("torch", arguments, torch.amp.GradScaler("cpu", **keywords))

    groups = {"torch.amp.GradScaler": plain}
    dist = torch.distributed
    if dist.is_available():
        import os
        import tempfile

        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

        store = os.path.join(tempfile.mkdtemp(), "store")
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)

        def sharded(rng):
            arguments, keywords = settings(rng)
            # ShardedGradScaler passes "cpu" to its base class. The update then runs in Python.
            scaler = ShardedGradScaler(device="cpu", process_group=dist.group.WORLD, **keywords)
            return drive("torch-sharded", [*arguments, "--set", "on_cpu=true"], scaler)

        groups["ShardedGradScaler on a CPU"] = sharded
    return torch.__version__, groups


# --- DeepSpeed


def deepspeed_cases():
    import logging

    peer.need("torch")
    deepspeed = peer.need("deepspeed")
    import torch
    from deepspeed.runtime.fp16 import fused_optimizer, loss_scaler, unfused_optimizer

    logging.disable(logging.CRITICAL)
    loss_scaler.dist.get_rank = lambda *_: 0  # there is no process group
    version = deepspeed.__version__.split("+")[0]

    def settings(rng):
        init = rng.choice([2.0 ** rng.randint(0, 40), float(rng.randint(1, 100000)), rng.uniform(0.01, 1000)])
        least = rng.choice([1, 1, 0.25, 3, 2.0 ** -20])
        window = rng.choice([1, 2, 3, 7, 20])
        return init, least, window

    def zero(rng):
        init, least, window = settings(rng)
        hysteresis, consecutive = rng.choice([0, 1, 1, 2, 2, 3, 5]), rng.random() < 0.5
        scaler = loss_scaler.DynamicLossScaler(init_scale=init, scale_window=window, min_scale=least,
                                               delayed_shift=hysteresis, consecutive_hysteresis=consecutive,
                                               dtype=torch.half)
        arguments = ["ds-zero", "--version", version, "--init", number(init), "--window", str(window), "--hysteresis",
                     str(hysteresis), "--min-scale", number(least)]
        if consecutive:
            arguments.append("--consecutive-hysteresis")

        def step(overflow):
            try:
                scaler.update_scale(overflow)
            except Exception as error:
                if "already at minimum" not in str(error):
                    raise
                return True, True
            return overflow, False

        return Case(arguments, step, lambda: float(scaler.cur_scale),
                    lambda: scaler.cur_iter - scaler.last_overflow_iter - 1, lambda: scaler.cur_hysteresis)

    def of_optimizer(module, name):
        """Returns a function that makes random cases for an optimiser class. A case calls the method _update_scale of
        the class on a stand-in object, which has only the attributes that the method reads and writes."""
        import types

        def make(rng):
            init, least, window = settings(rng)
            state = types.SimpleNamespace(dynamic_loss_scale=True, cur_scale=init, cur_iter=0, last_overflow_iter=-1,
                                          scale_factor=2.0, scale_window=window, min_loss_scale=least)
            optimizer = types.SimpleNamespace(verbose=False, loss_scale_config=state, **vars(state))
            update = getattr(module, name)._update_scale
            # Older versions keep the state in the optimiser itself, newer versions in its loss_scale_config.
            holder = state if "loss_scale_config" in update.__code__.co_names else optimizer

            def step(overflow):
                update(optimizer, overflow)
                return overflow, False

            arguments = ["ds-fused", "--version", version, "--init", number(init), "--window", str(window), "--min-scale",
                         number(least)]
            return Case(arguments, step, lambda: float(holder.cur_scale),
                        lambda: holder.cur_iter - holder.last_overflow_iter - 1)

        return make

    return version, {
        "DynamicLossScaler": zero,
        "fused FP16_Optimizer": of_optimizer(fused_optimizer, "FP16_Optimizer"),
        "unfused FP16_UnfusedOptimizer": of_optimizer(unfused_optimizer, "FP16_UnfusedOptimizer"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=["torch", "deepspeed"])
    parser.add_argument("--macheps", default="build/quick/experiments/macheps", help="the program")
    parser.add_argument("--steps", type=int, default=10000, help="compare at least this many steps of each scaler")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    version, groups = torch_cases() if options.peer == "torch" else deepspeed_cases()
    failed = 0
    for name, make in groups.items():
        rng, compared, traces, overflows, raises = random.Random(f"{options.seed} {name}"), 0, 0, 0, 0
        try:
            while compared < options.steps:
                case, steps = make(rng), rng.randint(1, 200)
                chosen = set(pattern(rng, steps))
                made = compare(options.macheps, case, chosen, steps)
                compared, traces = compared + made, traces + 1
                overflows += sum(step <= made for step in chosen)
                raises += made < steps
            print(f"{options.peer} {version} {name}: {compared} steps in {traces} traces agree, {overflows} with an overflow, "
                  f"{raises} traces ended by the peer")
        except peer.Failure as failure:
            failed += 1
            print(f"{options.peer} {version} {name}: differs after {compared} steps\n{failure}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
