#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs correct or wrong kernels in NumPy and writes the files that `macheps check` judges.

usage: kernels.py OUT [--wrong]

OUT/softmax.npz, OUT/gemm.npz, OUT/norm_usual.npz and OUT/norm_small.npz hold the inputs and outputs of each kernel in
fp16. Intermediate results are fp32. With --wrong, each kernel has a bug that occurs in practice:

  softmax   the last columns, which do not fill a block of 16, are left out of the sum
  gemm      sums are kept in fp16
  norm      eps is added after the square root
"""
import argparse
import pathlib

import numpy as np


def numbers(shape, seed):
    """Returns numbers from -4 to 4 that look random. They are the same on every machine and exact in fp16."""
    n = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(1000003 * seed)
    n = (n * np.uint64(2654435761)) % np.uint64(1 << 32) >> np.uint64(19)
    return ((n.astype(np.float32) - 4096) / 1024).astype(np.float16).reshape(shape)


def softmax(x, wrong):
    x = x.astype(np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    summed = e[:, : e.shape[1] // 16 * 16] if wrong else e
    return (e / summed.sum(axis=1, keepdims=True)).astype(np.float16)


def gemm(a, b, wrong):
    if not wrong:
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    out = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for k in range(a.shape[1]):
        out += a[:, k : k + 1] * b[k]
    return out


def norm(x, gain, eps, wrong):
    x, gain = x.astype(np.float32), gain.astype(np.float32)
    square = np.mean(x * x, axis=1, keepdims=True, dtype=np.float32)
    root = np.sqrt(square) + np.float32(eps) if wrong else np.sqrt(square + np.float32(eps))
    return (x / root * gain).astype(np.float16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--wrong", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    x = numbers((64, 1000), 1)
    np.savez(options.out / "softmax.npz", x=x, out=softmax(x, options.wrong))
    a, b = numbers((96, 200), 2), numbers((200, 80), 3)
    np.savez(options.out / "gemm.npz", a=a, b=b, out=gemm(a, b, options.wrong))
    x, gain = numbers((32, 512), 4), numbers((512,), 5)
    np.savez(options.out / "norm_usual.npz", x=x, gain=gain, out=norm(x, gain, 1e-5, options.wrong))
    x = (x.astype(np.float32) / 1024).astype(np.float16)  # so small that an eps of 1e-5 matters
    np.savez(options.out / "norm_small.npz", x=x, gain=gain, out=norm(x, gain, 1e-5, options.wrong))


if __name__ == "__main__":
    main()
