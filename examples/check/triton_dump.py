#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps a Triton kernel for `macheps check`: a softmax over rows, with one program per row.

usage: triton_dump.py out.safetensors, then
macheps check out.safetensors --op softmax

`tl.exp` compiles to an approximation in hardware. If the check fails by a little at large |x|, declare what the kernel
does (`--functions`) instead of widening a limit.
"""
import sys

import torch
import triton
import triton.language as tl
from safetensors.torch import save_file


@triton.jit
def softmax_kernel(x_at, out_at, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_at + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_at + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


def main():
    torch.manual_seed(7)
    rows, columns = 64, 1000  # not a power of two, so the kernel needs its mask
    x = (torch.randn(rows, columns, device="cuda") * 3).to(torch.bfloat16)
    out = torch.full_like(x, float("nan"))  # outputs that the kernel does not write stay NaN, and T0 reports them
    softmax_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    save_file({"x": x.cpu(), "out": out.cpu()}, sys.argv[1])


if __name__ == "__main__":
    main()
