#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares gradients that macheps reduces between two ranks with those of PyTorch's DistributedDataParallel over gloo.

    build/peers/torch/bin/python tests/peers/ddp.py torch --macheps build/quick/experiments/macheps

`macheps train --config FILE --ranks 2 --dump-step` writes the gradients of each rank, the buckets in which macheps
reduces them, and the reduced gradients. This script starts two DDP processes with the same parameters, makes their
backward passes produce the gradients of the two ranks, and lets DDP reduce them. DDP rebuilds its buckets in the order
in which gradients become ready. In fp32 and in bf16, the order of the parameters in each bucket must be the same, and
every reduced gradient must be equal bit for bit.
Exit codes: 0 all agree, 1 they do not, 2 usage, 77 torch cannot be imported.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import peer
import training

torch = None


def module_of(tensors, names, rank, dtype):
    """Returns a module whose backward pass yields the rank's gradients, starting with the last parameter."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.values = torch.nn.ParameterList([tensors[name + ":value"].to(dtype) for name in names])
            self.wanted = [tensors[f"{name}:grad.rank{rank}"].to(dtype) for name in names]

        def forward(self):
            total = torch.zeros((), dtype=dtype)
            for value, gradient in zip(self.values, self.wanted):
                total = total + (value * gradient).sum()
            return total

    return Module()


def work(folder, rank, ranks, dtype):
    """Runs one DDP process. Rank 0 writes the reduced gradients and the parameter names of each bucket to ddp.pt."""
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    tensors, _ = training.load_all(os.path.join(folder, "step.safetensors"))
    names = training.parameters(tensors)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)

    model = DistributedDataParallel(module_of(tensors, names, rank, dtype))
    for _ in range(2):  # DDP rebuilds its buckets after the first backward pass
        model.zero_grad(set_to_none=True)
        model().backward()
    reduced = {name: value.grad for name, value in zip(names, model.module.values)}

    seen = []
    hooked = DistributedDataParallel(module_of(tensors, names, rank, dtype))
    name_of = {id(value): name for name, value in zip(names, hooked.module.values)}

    def watch(state, bucket):
        seen.append((bucket.index(), [name_of[id(value)] for value in bucket.parameters()]))
        return default_hooks.allreduce_hook(state, bucket)

    hooked.register_comm_hook(None, watch)
    for _ in range(2):
        seen.clear()
        hooked.zero_grad(set_to_none=True)
        hooked().backward()
    if rank == 0:
        torch.save({"reduced": reduced, "buckets": [names for _, names in sorted(seen)]}, os.path.join(folder, "ddp.pt"))
    dist.destroy_process_group()


def compare(program, word, ranks):
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[word]
    with tempfile.TemporaryDirectory() as folder:
        tensors, metadata = training.dump_all(program, folder, f"{{autocast: {{enabled: false}}, model_dtype: {word}, max_norm: 0}}\n", "--ranks", str(ranks),
                                              "--layers", "2", "--width", "128", "--vocabulary", "512")
        workers = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "torch", "--work", folder, str(rank), str(ranks), word])
                   for rank in range(ranks)]
        codes = [worker.wait(timeout=300) for worker in workers]
        if any(codes):
            raise peer.Failure(f"{word}: a DDP process failed: exit codes {codes}")
        theirs = torch.load(os.path.join(folder, "ddp.pt"))
    ours = json.loads(metadata["buckets"])
    if ours != theirs["buckets"]:
        raise peer.Failure(f"{word}: buckets differ: ours {ours}, DDP's {theirs['buckets']}")
    for name, reduced in theirs["reduced"].items():
        far, differ, count = training.ulps(tensors[name + ":grad"], reduced, dtype)
        if differ:
            raise peer.Failure(f"{word}: {differ} of {count} gradients of {name} differ, by {far} ulp at most")
    moved = sum(int((tensors[name + ":grad.rank0"] != tensors[name + ":grad.rank1"]).sum()) for name in theirs["reduced"])
    if len(ours) < 2 and dtype == torch.float32 or moved == 0:
        raise peer.Failure(f"{word}: the comparison proves nothing with {len(ours)} buckets and {moved} gradients that differ between ranks")
    print(f"DDP of {ranks} processes, {word}: {len(ours)} buckets of {[len(bucket) for bucket in ours]} parameters in the same order, "
          f"{len(theirs['reduced'])} gradients equal by bits")
    return len(theirs["reduced"]) + len(ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=["torch"])
    parser.add_argument("--macheps", default="build/quick/experiments/macheps")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    global torch
    torch = training.torch = peer.need("torch")
    if arguments.work:
        folder, rank, ranks, word = arguments.work
        work(folder, int(rank), int(ranks), {"float32": torch.float32, "bfloat16": torch.bfloat16}[word])
        return 0
    try:
        total = sum(compare(os.path.abspath(arguments.macheps), word, 2) for word in ("float32", "bfloat16"))
    except peer.Failure as failure:
        print(f"differs: {failure}")
        return 1
    print(f"torch {torch.__version__}: {total} comparisons")
    return 0


if __name__ == "__main__":
    sys.exit(main())
