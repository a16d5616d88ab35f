# SPDX-License-Identifier: Apache-2.0
"""Tests the checks of kernels, error bounds, generated inputs, and the pytest plugin."""

from __future__ import annotations

import macheps as me
import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")
pytest_plugins = ["pytester"]

RNG = np.random.default_rng(3)
A, B = (me.round(RNG.standard_normal(shape, dtype=np.float32), "bf16") for shape in ((48, 256), (256, 40)))
A16, B16 = A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)
MACHINE = "sm80.mma.bf16"


def kernel(out_format="fp32"):
    return me.matmul(A16, B16, machine=MACHINE, out_format=out_format)


def test_a_right_kernel_passes():
    verdict = me.check(kernel(), A16, B16, machine=MACHINE)
    assert verdict, verdict
    assert verdict.rho < 1 and verdict.exact.shape == (48, 40)
    assert (np.abs(kernel() - verdict.exact) <= verdict.certain).all()


def test_a_wrong_kernel_fails_and_says_where():
    out = kernel()
    out[5, 7] += 1
    verdict = me.check(out, A16, B16, machine=MACHINE)
    assert verdict.outcome == "fail" and not verdict and "(5, 7)" in repr(verdict)
    assert verdict.reasons and verdict.reasons[0]["code"].startswith("KC")
    assert "KC0" in verdict._repr_html_()


def test_a_limit_that_zeros_satisfy_is_refused():
    assert me.check(kernel(), A16, B16, machine=MACHINE, atol=1e9).outcome == "refused"


def test_codes_are_declared():
    codes = me.encode(kernel(), "bf16")
    a, b = me.encode(A, "bf16"), me.encode(B, "bf16")
    assert me.check(codes, a, b, machine=MACHINE, a_format="bf16", b_format="bf16", out_format="bf16")
    with pytest.raises(me.Error, match="encode it first"):
        me.check(kernel(), A, B, machine=MACHINE, a_format="bf16")


def test_rows():
    x = RNG.standard_normal((64, 200), dtype=np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    good = e / e.sum(1, keepdims=True)
    assert me.check(good, operation="softmax", x=x).outcome in ("pass", "weak")
    assert me.check(good * np.float32(1.001), operation="softmax", x=x).outcome == "fail"


@pytest.mark.parametrize("call", [
    lambda: me.check(kernel(), A16, B16, operation="gem"), lambda: me.check(kernel(), A16, B16, machine="sm80.mma.bf17"),
    lambda: me.check(kernel(), A16, B16, require="everything"), lambda: me.check(kernel(), A16[:, :5], B16),
    lambda: me.check(kernel(), A16), lambda: me.check(kernel(), A16, B16, eps=1e-5), lambda: me.check(kernel(), A16, B16, colour=1),
    lambda: me.bound(A16, A16), lambda: me.bound(A16, B16, delta=3.0), lambda: me.bound(A16[0], B16),
])  # fmt: skip
def test_wrong_words(call):
    with pytest.raises((me.Error, TypeError)):
        call()


def test_bounds_hold():
    limits = me.bound(A16, B16, machine=MACHINE, out_format="bf16")
    off = np.abs(me.matmul(A16, B16, machine=MACHINE, out_format="bf16") - limits.exact)
    assert (off <= limits.certain).all() and (off <= limits.probable).all()
    assert np.array_equal(limits.exact, A.astype(np.float64) @ B.astype(np.float64)) or np.allclose(
        limits.exact, A.astype(np.float64) @ B.astype(np.float64), rtol=1e-12)
    narrow = me.bound(A16, B16, machine=MACHINE)
    assert (narrow.certain < limits.certain).all()


def test_inputs_lie_on_their_grids():
    made = me.make_inputs("gemm", "normal", shape=(16, 8, 64), a_format="e4m3fn", b_format="bf16")
    x = made["normal"]
    assert x["a"].shape == (16, 64) and x["b"].shape == (64, 8)
    assert np.array_equal(x["a"], me.round(x["a"], "e4m3fn")) and np.array_equal(x["b"], me.round(x["b"], "bf16"))
    with pytest.raises(me.Error):
        me.make_inputs("gemm", "no-such-recipe")


PLUGIN_TEST = """
import macheps as me, numpy as np, pytest
ml_dtypes = pytest.importorskip("ml_dtypes")

def operands(macheps_inputs):
    x = macheps_inputs("normal", shape=(48, 40, 256), a_format="bf16", b_format="bf16")["normal"]
    return x["a"].astype(ml_dtypes.bfloat16), x["b"].astype(ml_dtypes.bfloat16)

def test_right(macheps_check, macheps_inputs):
    a, b = operands(macheps_inputs)
    macheps_check.gemm(a, b, me.matmul(a, b, machine="sm80.mma.bf16"), machine="sm80.mma.bf16")

def test_wrong(macheps_check, macheps_inputs):
    a, b = operands(macheps_inputs)
    out = me.matmul(a, b, machine="sm80.mma.bf16"); out[0, 0] *= 2
    macheps_check.gemm(a, b, out, machine="sm80.mma.bf16")

@pytest.mark.macheps(atol=1e9)
def test_refused(macheps_check, macheps_inputs):
    a, b = operands(macheps_inputs)
    macheps_check.gemm(a, b, me.matmul(a, b), machine="any")
"""


def test_the_plugin(pytester, request):
    pytester.makepyfile(PLUGIN_TEST)
    loaded = request.config.pluginmanager.hasplugin("pytest_macheps") or request.config.pluginmanager.hasplugin("macheps")
    made = pytester.runpytest(*([] if loaded else ["-p", "pytest_macheps"]), "--strict-markers")
    made.assert_outcomes(passed=1, failed=2)
    made.stdout.fnmatch_lines(["*macheps: results of the checks, and their power*", "*test_right*gemm*pass*caught * of *", "*test_wrong*fail*", "*test_refused*refused*"])
