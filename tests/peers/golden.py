#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints results of PyTorch on this CPU for tests/golden/torch_cpu/FILE. The tests reproduce these results without PyTorch.

    build/peers/torch/bin/python tests/peers/golden.py > tests/golden/torch_cpu/intel-amx.json
    ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 build/peers/torch/bin/python tests/peers/golden.py > tests/golden/torch_cpu/intel-avx512-bf16.json

The operands are made from hashed integers, so the tests can compute the same operands. Each operand has a sign, a
significand of eight bits and one of thirteen exponents. The exact result of each matrix product is zero, because the
second half of k contains the terms of the first half, negated and in another order. Therefore each number that PyTorch
computes for such a product consists of rounding errors.
"""
import json
import os
import sys

import numpy
import peer

torch = None


def words(stream, count):
    """Returns `count` hashed 32-bit integers: MurmurHash3's finaliser, applied to the counters of a stream."""
    x = (numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(0x9E3779B1) + numpy.uint64(stream * 0x85EBCA6B)) & numpy.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = ((x ^ (x >> numpy.uint64(shift))) * numpy.uint64(factor)) & numpy.uint64(0xFFFFFFFF)
    return (x ^ (x >> numpy.uint64(16))).astype(numpy.int64)


def numbers(stream, count):
    word = words(stream, count)
    value = (128 + (word & 127)) * numpy.exp2((word >> 7) % 13 - 13.0)
    return numpy.where(word >> 30 & 1, -value, value).astype(numpy.float32)


def operands(stream, m, n, k):
    """Returns a [m, k] and b [k, n]. With h = k / 2, the term h + p of each product is the negated term 7 p mod h, or
    the negated term p if 7 divides h."""
    half = k // 2
    a, b = numbers(2 * stream, m * k).reshape(m, k).copy(), numbers(2 * stream + 1, k * n).reshape(k, n).copy()
    twin = numpy.arange(half) * 7 % half if half % 7 else numpy.arange(half)
    a[:, half:2 * half], b[half:2 * half] = -a[:, twin], b[twin]
    return torch.from_numpy(a), torch.from_numpy(b)


def hexed(tensor):
    kind = torch.int32 if tensor.dtype == torch.float32 else torch.int16
    digits = 8 if kind == torch.int32 else 4
    codes = tensor.contiguous().view(kind).flatten().tolist()
    return "".join(f"{code & (16**digits - 1):0{digits}x}" for code in codes)


def main():
    global torch
    torch = peer.need("torch")
    torch.set_num_threads(1)
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    products = []
    for stream, (word, m, n, k, has_bias) in enumerate((("bf16", 64, 48, 1000, False), ("bf16", 33, 17, 1500, False), ("bf16", 16, 16, 16, False),
                                                        ("bf16", 40, 24, 256, True), ("fp16", 64, 48, 256, False), ("fp32", 24, 40, 1000, False))):
        a, b = (x.to(kinds[word]) for x in operands(stream, m, n, k))
        row = {"format": word, "m": m, "n": n, "k": k, "stream": stream, "bias": has_bias}
        if has_bias:  # a small bias, so that the last bits of the sum matter
            bias = torch.from_numpy(numbers(100 + stream, n) / 512).to(kinds[word])
            out = torch.nn.functional.linear(a, b.t().contiguous(), bias)
        else:
            out = a @ b
        products.append({**row, "out": hexed(out)})
    sums = []
    for stream, n in enumerate((64, 777, 5000, 100000, 300007)):
        values = torch.from_numpy(numbers(200 + stream, n))
        sums.append({"n": n, "stream": 200 + stream, "sum": hexed(values.sum().reshape(1)), "mean": hexed(values.mean().reshape(1))})
    with open("/proc/cpuinfo") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    build = [line.strip(" -") for line in torch.__config__.show().splitlines() if "oneDNN" in line or "MKL-DNN" in line or "Math Kernel" in line]
    print(json.dumps({"torch": torch.__version__, "libraries": [line.strip() for line in build], "isa": os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL"),
                      "cpu": [flag for flag in ("avx512_bf16", "avx512_fp16", "amx_bf16") if flag in flags],
                      "products": products, "sums": sums}, indent=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
