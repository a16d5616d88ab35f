#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what Triton's tl.dot computes on a GPU, as raw codes.

    scripts/gpu/triton_capture.py OUTDIR [--seconds 40]

Computes products of 128 x 128 outputs and k = 1024, in tiles of 128 x 128 (wgmma on Hopper) and of 32 x 32 (mma.sync).
Operands come from scripts/gpu/operands.py. The output files have the format of scripts/gpu/captures.py. Each record
also has the matrix instructions of the PTX with their counts. The items run in a separate process. If the compiler or
the device crashes this process, a new process continues with the next variant.

Needs torch, triton and numpy; Triton needs a C compiler to launch kernels.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

BEGIN = time.monotonic()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import captures
import operands

M, N, K = 128, 128, 1024
CLASSES = ("plain", "cancelling", "positive", "swamp", "wide")

# name: formats of a and b, tile (m, n, k), input_precision, max_num_imprecise_acc, accumulator, other options.
VARIANTS = {}


def add(name, a, b=None, tile=(128, 128, 128), precision=None, imprecise=None, acc="fp32", fused=True, warps=4, stages=3):
    VARIANTS[name] = {"a": a, "b": b or a, "tile": tile, "precision": precision, "imprecise": imprecise, "acc": acc,
                      "fused": fused, "warps": warps, "stages": stages}


add("e4m3fn.default", "e4m3fn")
for interval in (0, 32, 64, 128):
    add(f"e4m3fn.imprecise{interval}", "e4m3fn", imprecise=interval)
add("bf16", "bf16", tile=(128, 128, 64))
add("fp16", "fp16", tile=(128, 128, 64))
for words in ("tf32", "ieee", "tf32x3"):
    add(f"fp32.{words}", "fp32", tile=(128, 128, 32) if words != "ieee" else (32, 32, 32), precision=words)
small = (32, 32, 128)
add("e4m3fn.small", "e4m3fn", tile=small)
add("bf16.small", "bf16", tile=(32, 32, 64))
add("fp16.small", "fp16", tile=(32, 32, 64))
add("fp32.tf32.small", "fp32", tile=(32, 32, 32), precision="tf32")
add("e4m3fn.unfused", "e4m3fn", fused=False)
add("e5m2.default", "e5m2")
add("e5m2.e4m3fn.default", "e5m2", "e4m3fn")
add("e5m2.imprecise32", "e5m2", imprecise=32)
add("fp32.tf32x3.small", "fp32", tile=(32, 32, 32), precision="tf32x3")
add("fp32.default", "fp32", tile=(128, 128, 32))
add("fp16.acc16", "fp16", tile=(128, 128, 64), acc="fp16")
add("bf16.unfused", "bf16", tile=(128, 128, 64), fused=False)
add("e4m3fn.imprecise64.tile64", "e4m3fn", tile=(128, 128, 64), imprecise=64)
add("e4m3fn.small.imprecise32", "e4m3fn", tile=small, imprecise=32)
add("e4m3fn.warps8", "e4m3fn", warps=8)
add("fp32.bf16x3", "fp32", tile=(128, 128, 32), precision="bf16x3")
add("fp32.bf16x6", "fp32", tile=(128, 128, 32), precision="bf16x6")

try:
    import triton
    import triton.language as tl
except Exception as missing:  # the parent process does not need Triton, and the worker reports the error
    triton, why_not = None, f"{type(missing).__name__}: {missing}"
else:

    @triton.jit
    def product(a_ptr, b_ptr, out_ptr, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                PRECISION: tl.constexpr, IMPRECISE: tl.constexpr, ACC: tl.constexpr, FUSED: tl.constexpr):  # fmt: skip
        # a is [m, k] and b is [n, k], both stored by rows. A tile of b is [BLOCK_K, BLOCK_N] with k contiguous.
        rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        terms = tl.arange(0, BLOCK_K)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
        for start in range(0, k, BLOCK_K):
            a = tl.load(a_ptr + rows[:, None] * k + (start + terms)[None, :])
            b = tl.load(b_ptr + columns[None, :] * k + (start + terms)[:, None])
            if FUSED:
                acc = tl.dot(a, b, acc, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=ACC)
            else:
                acc += tl.dot(a, b, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=ACC)
        tl.store(out_ptr + rows[:, None] * n + columns[None, :], acc)


def instructions(ptx):
    """Returns how often each matrix instruction occurs, and each instruction that shows how partial sums are added."""
    found = collections.Counter()
    for line in ptx.splitlines():
        word = re.match(r"\s*(?:@\S+\s+)?((?:wgmma\.mma_async|mma\.sync|add\.f32|add\.rn\.f32|add\.rn\.f32x2|fma\.rn\.f32|"
                        r"cvt\.\w+\.\w*tf32|wgmma\.wait_group|cvt\.rn\.f16x2)\S*)", line)
        if word:
            found[word.group(1)] += 1
    return dict(found)


def run_variant(recorder, torch, name, v, launched):
    import torch_capture

    types = {"fp32": (tl.float32, torch.float32), "fp16": (tl.float16, torch.float16)}
    acc, out_type = types[v["acc"]]
    block_m, block_n, block_k = v["tile"]
    rows, columns = captures.grid(M, N)

    def launch(a, b):
        out = torch.full((M, N), float("nan"), dtype=out_type, device="cuda")
        compiled = product[(M // block_m, N // block_n)](
            a, b, out, N, K, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, PRECISION=v["precision"],
            IMPRECISE=v["imprecise"], ACC=acc, FUSED=v["fused"], num_warps=v["warps"], num_stages=v["stages"])
        torch.cuda.synchronize()
        return out, compiled

    for kind in CLASSES:
        seed = operands.seed_of(f"{v['a']}:{v['b']}/{kind}/{M}x{N}x{K}")
        facts = {"op": "tl.dot", "variant": name, **v, "m": M, "n": N, "k": K, "layout": "nt", "class": kind, "seed": seed,
                 "rows": rows.tolist(), "columns": columns.tolist()}

        def run(record):
            codes = operands.product(v["a"], v["b"], kind, M, N, K, seed)
            a, b = (torch_capture.tensor(x, f, "cuda") for x, f in zip(codes, (v["a"], v["b"])))
            (first, compiled), (second, _) = launch(a, b), launch(a, b)
            whole, again = torch_capture.codes(first), torch_capture.codes(second)
            launched.append(name)
            record["equal_twice"] = bool((whole == again).all())
            record["sha256"] = {"out": captures.hash_of(whole)}
            record["formats"] = {"out": v["acc"]}
            record["kernel_key"] = name
            try:
                record["instructions"] = instructions(compiled.asm["ptx"])
                record["metadata"] = str(compiled.metadata)[:1500] if kind == CLASSES[0] else None
            except Exception as error:
                record["instructions"] = f"{type(error).__name__}: {error}"
            return {"out": whole[rows][:, columns]}

        if not recorder.item("triton", f"{name}/{kind}", facts, run):
            torch.cuda.synchronize()  # raises an error if the device is lost; then a new process continues
            return  # a variant that does not compile for one class does not compile for the others
        if recorder.is_over():
            return


def worker(chosen):
    recorder = captures.Recorder(chosen.outdir, chosen.seconds, BEGIN)
    if triton is None:
        recorder.log(why_not)
        return 0
    import torch

    recorder.machine({"torch": torch.__version__, "triton": triton.__version__, "cuda": torch.version.cuda,
                      "gpu": torch.cuda.get_device_name(0), "operands": operands.self_check(),
                      "operands_expected": operands.SELF_CHECK,
                      "compilers": {name: shutil.which(name) for name in ("cc", "gcc", "clang")}})
    launched = []
    for place, (name, v) in enumerate(VARIANTS.items()):
        if place < chosen.skip:
            continue
        if recorder.is_over():
            recorder.log(f"not run, because the time is up: {', '.join(list(VARIANTS)[place:])}")
            break
        (recorder.folder / "begun.txt").write_text(str(place))
        run_variant(recorder, torch, name, v, launched)
    recorder.close()
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir")
    parser.add_argument("--seconds", type=float, default=40, help="do not start an item after this time (default: 40)")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first variants")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        return worker(chosen)
    folder = pathlib.Path(chosen.outdir)
    folder.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    environment.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())
    skip = chosen.skip
    while skip < len(VARIANTS):
        left = chosen.seconds - (time.monotonic() - BEGIN)
        if left < 6:
            break
        (folder / "begun.txt").write_text(str(skip))
        words = [sys.executable, __file__, chosen.outdir, "--worker", "--seconds", f"{left:.1f}", "--skip", str(skip)]
        try:
            status = subprocess.run(words, env=environment, timeout=left).returncode
        except subprocess.TimeoutExpired:
            print("triton_capture: stopped, because the time is up", flush=True)
            break
        if status == 0:
            break
        begun = int((folder / "begun.txt").read_text())
        print(f"triton_capture: {list(VARIANTS)[begun]} ended the process with {status}", flush=True)
        skip = begun + 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
