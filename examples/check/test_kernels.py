# SPDX-License-Identifier: Apache-2.0
"""Tests the kernels of kernels.py in pytest. Copy this file and call your own kernels.

usage: pytest test_kernels.py        needs NumPy, pytest and the wheel of macheps

`macheps_inputs` makes arrays that reveal wrong kernels. Their elements have the declared formats: fp16 here, bf16 and fp8
with the package ml_dtypes, or tensors of PyTorch with dtype="torch". `macheps_check.suite` runs the kernel on each input,
and checks the outputs together against everything that was declared for the inputs. The sizes are small, so the checks
take seconds, and not multiples of a tile.
"""
import kernels

EPS = 1e-5


def test_softmax(macheps_check, macheps_inputs):
    inputs = macheps_inputs("softmax", shape=(33, 300), x_format="fp16", out_format="fp16")
    macheps_check.suite("softmax", lambda x: kernels.softmax(x, wrong=False), inputs)


def test_gemm(macheps_check, macheps_inputs):
    inputs = macheps_inputs("gemm", shape=(33, 40, 500), a_format="fp16", b_format="fp16", out_format="fp16")
    macheps_check.suite("gemm", lambda a, b: kernels.gemm(a, b, wrong=False), inputs)


def test_rmsnorm(macheps_check, macheps_inputs):
    inputs = macheps_inputs("rmsnorm", shape=(33, 300), x_format="fp16", gain_format="fp16", out_format="fp16", eps=EPS)
    macheps_check.suite("rmsnorm", lambda x, gain: kernels.norm(x, gain, EPS, wrong=False), inputs)
