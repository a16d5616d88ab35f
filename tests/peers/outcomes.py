#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the first steps of macheps with those of the PyTorch models in scripts/gpu/torch_training.py, on a CPU.

    build/peers/torch/bin/python tests/peers/outcomes.py torch --macheps build/quick/experiments/macheps

For a gpt2 and a llama, the fp32 losses of 8 steps must agree to a relative difference of 2^-24. In fp16 with a loss
scaler, both programs must skip the same steps.
Exit codes: 0 all agree, 1 they do not, 2 usage, 77 torch cannot be imported.
"""
import argparse
import csv
import os
import subprocess
import sys
import tempfile

import peer

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/gpu/torch_training.py")
STEPS = 8


def rows(path, keys):
    with open(path, newline="") as file:
        return {tuple(row[key] for key in keys): row for row in csv.DictReader(file)}


def compare(program, folder):
    common = ["--policies", "fp32,amp-fp16-busy", "--seeds", "0", "--steps", str(STEPS), "--inputs", folder]
    for more in (["--prepare", program], ["--device", "cpu", "--orders", "given", "--jobs", "1", "--seconds", "600", "--out", folder]):
        done = subprocess.run([sys.executable, SCRIPT, *common, *more], capture_output=True, text=True)
        if done.returncode != 0:
            raise peer.Failure(f"{more[0]}: exit code {done.returncode}: {done.stdout} {done.stderr}")
    theirs = rows(os.path.join(folder, "training.csv"), ("model", "policy", "step"))
    for model in ("gpt2", "llama"):
        ours = rows(os.path.join(folder, model, "steps.csv"), ("policy", "step"))
        farthest, skipped = 0.0, 0
        for (policy, step), row in ours.items():
            other = theirs[model, policy, step]
            if row["skipped"] != other["skipped"]:
                raise peer.Failure(f"{model} {policy}: step {step} is skipped by only one of PyTorch and macheps")
            skipped += int(row["skipped"])
            if policy == "fp32":
                farthest = max(farthest, abs(float(row["loss"]) / float(other["loss"]) - 1))
        if farthest > 2**-24:
            raise peer.Failure(f"{model} fp32: the losses differ by {farthest:.2g} (relative)")
        print(f"{model}: fp32 losses of {STEPS} steps agree to a relative {farthest:.1g}; under a loss scaler both skip the same {skipped} steps")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=["torch"])
    parser.add_argument("--macheps", default="build/quick/experiments/macheps")
    arguments = parser.parse_args()
    torch = peer.need("torch")
    try:
        with tempfile.TemporaryDirectory() as folder:
            compare(os.path.abspath(arguments.macheps), folder)
    except peer.Failure as failure:
        print(f"differs: {failure}")
        return 1
    print(f"torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
