#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps a PyTorch kernel for `macheps check`: a scaled fp8 matrix product on a Hopper GPU or later.

usage: pytorch_dump.py out.safetensors, then
macheps check out.safetensors --op gemm --a e4m3fn/row --b e4m3fn/column --out bf16 --machine sm90.wgmma.fp8

safetensors stores bf16 and fp8 with their type names. The operands are saved as the kernel read them, so the check
covers only the product. The quantisation before it needs a separate check.
"""
import sys

import torch
from safetensors.torch import save_file


def quantised(x, dim):
    """Returns e4m3fn codes and their decode scales, one for each row or column."""
    scale = x.abs().amax(dim=dim, keepdim=True).float() / torch.finfo(torch.float8_e4m3fn).max
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


def main():
    torch.manual_seed(7)
    # The sizes are not multiples of the tile size, so there are partial tiles. torch requires multiples of 16 for fp8.
    m, n, k = 192, 160, 1008
    a, a_scale = quantised(torch.randn(m, k, device="cuda"), 1)
    b, b_scale = quantised(torch.randn(k, n, device="cuda"), 0)
    # torch requires b to have contiguous columns.
    b_columns = b.t().contiguous().t()
    out = torch._scaled_mm(a, b_columns, scale_a=a_scale, scale_b=b_scale, out_dtype=torch.bfloat16)
    arrays = {"a": a, "b": b, "a_scale": a_scale, "b_scale": b_scale, "out": out}
    save_file({name: array.contiguous().cpu() for name, array in arrays.items()}, sys.argv[1])


if __name__ == "__main__":
    main()
