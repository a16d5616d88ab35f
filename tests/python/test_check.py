# SPDX-License-Identifier: Apache-2.0
"""Tests the checks of kernels, error bounds, generated inputs, and the pytest plugin."""

from __future__ import annotations

import textwrap

import macheps as me
import numpy as np
import pytest
from conftest import SOURCE

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


def test_the_example_of_the_plugin_runs_and_is_on_the_page(pytester, request):
    import pytest_macheps

    example = textwrap.dedent(pytest_macheps.__doc__.partition("\n\n")[2])
    assert len(example.strip().splitlines()) == 10
    assert f"```python\n{example}```" in (SOURCE / "docs/check.md").read_text(encoding="utf-8")
    pytester.makepyfile(example)
    run_with_plugin(pytester, request).assert_outcomes(passed=1)
    pytester.makepyfile(example.replace("e.sum(axis=1", "e[:, :-8].sum(axis=1"))
    run_with_plugin(pytester, request).assert_outcomes(failed=1)


X = RNG.standard_normal((8, 20), dtype=np.float32)


class OnGpu:
    def __dlpack__(self):
        raise AssertionError("the array must not be read")

    def __dlpack_device__(self):
        return 2, 0  # CUDA, device 0


WRONG_CALLS = [  # (call, part of the message, operation whose right call the message shows)
    (lambda c: c.sofmax(X, x=X), "did you mean 'softmax'", "softmax"),
    (lambda c: c.softmax(X), "softmax needs the array x", "softmax"),
    (lambda c: c.softmax(x=X), "softmax needs the array out", "softmax"),
    (lambda c: c.softmax(None, x=X), "softmax needs the array out", "softmax"),
    (lambda c: c.softmax(X, X), "only out has no name", "softmax"),
    (lambda c: c.softmax(X, x=X, gain=X), "softmax has no array gain", "softmax"),
    (lambda c: c.softmax(X, x=X, epsilon=1e-5), "no argument 'epsilon' (did you mean 'eps'?", "softmax"),
    (lambda c: c.softmax(X, x=X, x_fmt="bf16"), "no argument 'x_fmt' (did you mean 'x_format'?", "softmax"),
    (lambda c: c.softmax(X.astype(np.int32), x=X), 'as in out_format="bf16"', "softmax"),
    (lambda c: c.softmax(X.astype(np.complex64), x=X), "out has elements of type complex64", "softmax"),
    (lambda c: c.softmax("out.npy", x=X), "out has elements of type <U7", "softmax"),
    (lambda c: c.softmax(X, x=X.tolist()), "x is a list of Python numbers", "softmax"),
    (lambda c: c.softmax(X, x=X.astype(np.float64)), "x is an array of float64", "softmax"),
    (lambda c: c.softmax(OnGpu(), x=X), "out: check() computes on the CPU", "softmax"),
    (lambda c: c.rmsnorm(X, x=X), "rmsnorm needs an eps", "rmsnorm"),
    (lambda c: c.gemm(X, X.T), "gemm needs the array out", "gemm"),
    (lambda c: c.gemm(X @ X.T, X, X.T), "shapes disagree", "gemm"),
    (lambda c: c.swiglu(X), "swiglu needs the array gate", "swiglu"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message", "operation"), WRONG_CALLS)
def test_an_error_about_a_wrong_call_shows_the_right_one(call, message, operation):
    from macheps._check import right_call
    from pytest_macheps import Checker

    with pytest.raises((me.Error, TypeError)) as refused:
        call(Checker("test", {}, []))
    assert message in str(refused.value)
    assert f"call {right_call(operation, 'macheps_check')}" in str(refused.value)


def test_the_right_calls_have_the_arrays_that_each_operation_needs():
    from macheps._check import _words, needed_by, right_call

    assert right_call("gemm") == "macheps.check(out, a, b)"
    assert right_call("rmsnorm") == 'macheps.check(out, operation="rmsnorm", x=x, eps=1e-5)'
    for operation in (one["operation"] for one in _words()["operations"]):
        gated = {"gate_format": "fp32", "up_format": "fp32"} if needed_by(operation) == ("gate", "up") else {}
        made = me.make_inputs(operation, "normal", shape=(4, 4, 8) if operation == "gemm" else (4, 8), **gated)
        arrays = dict(made["normal"])
        assert set(arrays) == set(needed_by(operation)), operation
        out = np.zeros((4, 4) if operation == "gemm" else (4, 8), np.float32)
        try:
            eps = {"eps": 1e-5} if "eps=" in right_call(operation) else {}
            me.check(out, operation=operation, **arrays, **eps)
        except me.Error as refused:
            assert "needs" not in refused.what, operation


def test_exact_outputs_have_no_rho():
    x = RNG.standard_normal((16, 64), dtype=np.float32)
    assert me.check(x.max(1), operation="max", x=x).errors == "exact"
    assert me.check(kernel(), A16, B16, machine=MACHINE).errors.startswith("rho 0.")
    out = kernel()
    out[0, 0] = 1e30
    assert me.check(out, A16, B16, machine=MACHINE).errors == "rho more than 1e6"


def run_with_plugin(pytester, request):
    loaded = request.config.pluginmanager.hasplugin("pytest_macheps") or request.config.pluginmanager.hasplugin("macheps")
    return pytester.runpytest(*([] if loaded else ["-p", "pytest_macheps"]), "--strict-markers")


def test_the_plugin(pytester, request):
    pytester.makepyfile(PLUGIN_TEST)
    made = run_with_plugin(pytester, request)
    made.assert_outcomes(passed=1, failed=2)
    made.stdout.fnmatch_lines(["*macheps: results of the checks, and their power*", "*test_right*gemm*pass*caught * of *", "*test_wrong*fail*", "*test_refused*refused*"])
