# SPDX-License-Identifier: Apache-2.0
"""Tests the checks of kernels, error bounds, generated inputs, and the pytest plugin."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points

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
    numbers = me.make_inputs("gemm", "normal", shape=(16, 8, 64), a_format="e4m3fn", b_format="bf16", dtype="float32")["normal"]
    assert np.array_equal(numbers["a"], me.round(numbers["a"], "e4m3fn")) and np.array_equal(numbers["b"], me.round(numbers["b"], "bf16"))
    assert np.array_equal(x["a"].astype(np.float32), numbers["a"]) and np.array_equal(x["b"].astype(np.float32), numbers["b"])
    with pytest.raises(me.Error):
        me.make_inputs("gemm", "no-such-recipe")


@pytest.mark.parametrize("format", ["fp32", "fp16", "bf16", "e4m3fn", "e5m2", "e2m3fn", "e3m2fn", "e2m1fn", "e2m1fn/packed"])
@pytest.mark.parametrize("dtype", [None, "codes"])
def test_the_elements_of_made_inputs_have_the_declared_format(format, dtype):
    words = {"a_format": format, "b_format": format}
    made, numbers = (me.make_inputs("gemm", "normal", shape=(5, 6, 16), dtype=kind, **words)["normal"] for kind in (dtype, "float32"))
    name = format.partition("/")[0]
    for operand in ("a", "b"):
        array = made[operand]
        if "/packed" in format:
            assert array.dtype == np.uint8
            array = np.stack([array & 15, array >> 4], -1).reshape(*array.shape[:-1], -1)
        elif name in ("fp16", "fp32"):
            assert array.dtype == {"fp16": np.float16, "fp32": np.float32}[name]
        elif dtype is None:
            assert array.dtype == me._arrays.ml_dtype_of(name)
        is_codes = array.dtype.kind in "u"
        assert np.array_equal(me.decode(array, name) if is_codes else array.astype(np.float32), numbers[operand])
    out = (numbers["a"].astype(np.float64) @ numbers["b"]).astype(np.float32)
    assert me.check(out, made["a"], made["b"], allow_weak=True, **words)  # the check accepts the arrays as they are
    assert me.check(out, made["a"], made["b"], allow_weak=True, **words).document["declared"]["a"] == format


def test_made_inputs_without_ml_dtypes(monkeypatch):
    monkeypatch.setattr("macheps._check.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "ml_dtypes")
    with pytest.raises(me.Error, match="pip install ml_dtypes.*dtype=\"codes\".*call macheps.make_inputs"):
        me.make_inputs("softmax", "normal", shape=(4, 8), x_format="bf16")
    assert me.make_inputs("softmax", "normal", shape=(4, 8), x_format="fp16")["normal"]["x"].dtype == np.float16
    assert me.make_inputs("softmax", "normal", shape=(4, 8), x_format="bf16", dtype="codes")["normal"]["x"].dtype == np.uint16


@pytest.mark.parametrize(("call", "message"), [
    (lambda: me.make_inputs("sofmax"), "did you mean 'softmax'"), (lambda: me.make_inputs("softmax", "nope"), "no recipe 'nope'"),
    (lambda: me.make_inputs("softmax", shape=(3,)), "give rows,columns"), (lambda: me.make_inputs("softmax", colour=3), "no key 'colour'"),
    (lambda: me.make_inputs("softmax", x_format="fp17"), "did you mean fp16"), (lambda: me.make_inputs("softmax", dtype="fp16"), "x_format"),
    (lambda: me.make_inputs("swiglu"), "no array of swiglu is declared"),
    (lambda: me.make_inputs("softmax", x_format="e2m1fn/packed", shape=(4, 7)), "use an even number of columns"),
])  # fmt: skip
def test_a_wrong_call_of_make_inputs_gets_an_error_with_the_right_call(call, message):
    with pytest.raises(me.Error) as refused:
        call()
    assert message in str(refused.value) and 'call macheps.make_inputs("s' in str(refused.value)
    shown = str(refused.value).partition("; call ")[2].removesuffix(")")
    assert eval(shown, {"macheps": me})


@pytest.mark.parametrize(("words", "kept"), [
    ({"shape": (4, 8), "x_format": "fp16", "gain_format": "fp17", "out_format": "fp16", "eps": 1e-6},
     'shape=(4, 8), x_format="fp16", out_format="fp16", eps=1e-06'),
    ({"recipe": ["normal", "small-rms"], "shape": (4, 8), "x_format": "bf16", "colour": 3},
     '["normal", "small-rms"], shape=(4, 8), x_format="bf16", eps=1e-5'),
    ({"recipe": "nope", "shape": (4, 8), "x_format": "bf16", "eps": 1e-6}, 'shape=(4, 8), x_format="bf16", eps=1e-06'),
    ({"recipe": "normal", "shape": (0, 8), "x_format": "bf16"}, '"normal", shape=(33, 300), x_format="bf16", eps=1e-5'),
])  # fmt: skip
def test_the_call_that_an_error_shows_repeats_what_was_right(words, kept):
    with pytest.raises(me.Error) as refused:
        me.make_inputs("rmsnorm", **words)
    assert f'call macheps.make_inputs("rmsnorm", {kept}))' in str(refused.value)
    assert eval(f'me.make_inputs("rmsnorm", {kept})', {"me": me})


PLUGIN_TEST = """
import macheps as me, numpy as np, pytest
ml_dtypes = pytest.importorskip("ml_dtypes")

def operands(macheps_inputs):
    x = macheps_inputs("normal", shape=(48, 40, 256), a_format="bf16", b_format="bf16")["normal"]
    return x["a"], x["b"]

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
    assert len(example.strip().splitlines()) <= 10
    assert f"```python\n{example}```" in (SOURCE / "docs/check.md").read_text(encoding="utf-8")
    pytester.makepyfile(example)
    run_with_plugin(pytester, request).assert_outcomes(passed=1)
    pytester.makepyfile(example.replace("e.sum(axis=1", "e[:, :-8].sum(axis=1"))
    run_with_plugin(pytester, request).assert_outcomes(failed=1)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_the_example_test_file_passes_for_right_kernels_and_fails_for_wrong_ones(pytester, request, is_wrong):
    folder = SOURCE / "examples/check"
    tests = (folder / "test_kernels.py").read_text(encoding="utf-8")
    count = tests.count("wrong=False")
    assert count == tests.count("def test_") == 3
    pytester.makepyfile(kernels=(folder / "kernels.py").read_text(encoding="utf-8"),
                        test_kernels=tests.replace("wrong=False", f"wrong={is_wrong}"))  # fmt: skip
    run_with_plugin(pytester, request).assert_outcomes(**{"failed" if is_wrong else "passed": count})


def write_script(path, text):
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_the_pytest_job_on_the_page_runs(tmp_path, is_wrong):
    page = (SOURCE / "docs/check.md").read_text(encoding="utf-8")
    workflow = page.partition("### A job with pytest")[2].partition("```yaml\n")[2].partition("```")[0]
    assert [line.partition(":")[0] for line in workflow.splitlines() if line[:1].strip()] == ["name", "on", "jobs"]
    job = workflow.partition("run: |\n")[2]
    folder = SOURCE / "examples/check"
    for name in ("bin", "ci", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "ci/macheps-0.1.0-cp310-abi3-manylinux_2_36_x86_64.whl").touch()
    (tmp_path / "tests/kernels.py").write_text((folder / "kernels.py").read_text(encoding="utf-8"), encoding="utf-8")
    tests = (folder / "test_kernels.py").read_text(encoding="utf-8").replace("wrong=False", f"wrong={is_wrong}")
    (tmp_path / "tests/test_kernels.py").write_text(tests, encoding="utf-8")
    # `python3 -m venv` is replaced, so that no package is installed. The `pip` that it makes only looks for the wheel.
    write_script(tmp_path / "bin/python3", '[ "$1 $2" = "-m venv" ] && mkdir -p "$3/bin" && cp bin/pip bin/python "$3/bin"\n')
    write_script(tmp_path / "bin/pip", '[ "$1" = install ] && [ -f "$2" ] && shift 2 && [ "$*" = "numpy ml_dtypes pytest" ]\n')
    plugin = "" if "macheps" in {one.name for one in entry_points(group="pytest11")} else "-p pytest_macheps"
    write_script(tmp_path / "bin/python", f"PYTEST_ADDOPTS='{plugin}' exec '{sys.executable}' \"$@\"\n")
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    environment.pop("MACHEPS_WHEEL", None)
    ran = subprocess.run(["sh", "-e", "-c", textwrap.dedent(job)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == (1 if is_wrong else 0), ran.stdout + ran.stderr
    assert (tmp_path / "junit.xml").read_text(encoding="utf-8").count("<failure") == (3 if is_wrong else 0)


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
    (lambda c: c.softmax(X, X, X), "softmax has the arrays x, out, but the call has 3 arrays without names", "softmax"),
    (lambda c: c.softmax(X, X, x=X), "x is given twice", "softmax"),
    (lambda c: c.softmax(X, X, out=X), "softmax has the arrays x, out", "softmax"),
    (lambda c: c(X, "softmax"), "'softmax' is not an array", "gemm"),
    (lambda c: c(X, operation="softmax"), "softmax needs the array x", "softmax"),
    (lambda c: c(), "gemm needs the array out", "gemm"),
    (lambda c: c.softmax(X, x=X, gain=X), "softmax has no array gain", "softmax"),
    (lambda c: c.softmax(X, x=X, epsilon=1e-5), "no argument 'epsilon' (did you mean 'eps'?", "softmax"),
    (lambda c: c.softmax(X, x=X, x_fmt="bf16"), "no argument 'x_fmt' (did you mean 'x_format'?", "softmax"),
    (lambda c: c.softmax(X.astype(np.int32), x=X), 'as in out_format="bf16"', "softmax"),
    (lambda c: c.softmax(X.astype(np.complex64), x=X), "out has elements of type complex64", "softmax"),
    (lambda c: c.softmax("out.npy", x=X), "'out.npy' is not an array", "softmax"),
    (lambda c: c.softmax(np.array(["out"]), x=X), "out has elements of type <U3", "softmax"),
    (lambda c: c.softmax(X, x=X.tolist()), "x is a list of Python numbers", "softmax"),
    (lambda c: c.softmax(X, x=X.astype(np.float64)), "x is an array of float64", "softmax"),
    (lambda c: c.softmax(OnGpu(), x=X), "out: check() computes on the CPU", "softmax"),
    (lambda c: c.rmsnorm(X, x=X), "rmsnorm needs an eps", "rmsnorm"),
    (lambda c: c.gemm(X, X.T), "gemm needs the array b; the last array without a name is out", "gemm"),
    (lambda c: c.gemm(a=X, b=X.T), "gemm needs the array out", "gemm"),
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


WRONG_SUITES = [  # (call, part of the message)
    (lambda c: c.suite("sofmax", abs, {"normal": {"x": X}}), "did you mean 'softmax'"),
    (lambda c: c.suite("softmax", {"normal": {"x": X}}, abs), "the kernel is not a function, but a dict"),
    (lambda c: c.suite("softmax", X, {"normal": {"x": X}}), "the kernel is not a function, but a ndarray"),
    (lambda c: c.suite("softmax", abs, {"x": X}), "inputs is not a dictionary with the arrays of each input"),
    (lambda c: c.suite("softmax", abs, {}), "inputs is not a dictionary with the arrays of each input"),
    (lambda c: c.suite("softmax", abs, X), "inputs is not a dictionary with the arrays of each input"),
    (lambda c: c.suite("softmax", abs, {"normal": {"x": X}}, colour=1), "no argument 'colour'"),
    (lambda c: c.suite("softmax", lambda x: None, {"normal": {"x": X}}), "softmax needs the array out"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG_SUITES)
def test_an_error_about_a_wrong_suite_shows_the_right_call(call, message):
    from pytest_macheps import Checker

    with pytest.raises((me.Error, TypeError)) as refused:
        call(Checker("test", {}, []))
    assert message in str(refused.value)
    shown = str(refused.value).partition("call macheps_check")[2].removesuffix(")")
    assert shown.startswith('.suite("softmax", kernel, ')
    made = me.make_inputs("softmax", "normal", shape=(4, 8), x_format="fp16")
    names = {"macheps_check": Checker("test", {}, []), "macheps_inputs": me.make_inputs, "kernel": lambda x: x, "inputs": made}
    with pytest.raises(AssertionError):  # the call is right, and the kernel is wrong
        eval("macheps_check" + shown, names)


DECLARED_TEST = """
import ml_dtypes, numpy as np, pytest
import macheps as me

WORDS = {"shape": (32, 500), "x_format": "fp16", "out_format": "fp16", "eps": 1e-5}
RECIPES = ["normal", "small-rms"]

def rmsnorm(x, gain=1, eps=1e-5, dtype=np.float16):
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        return (x / np.sqrt((x ** 2).sum(1, keepdims=True) / x.shape[1] + eps) * np.asarray(gain, np.float64)).astype(dtype)

def refuses(*parts):
    return pytest.raises(me.Error, match=".*".join(parts))

def test_declarations_of_the_inputs_hold_for_the_suite(macheps_check, macheps_inputs):
    inputs = macheps_inputs("rmsnorm", RECIPES, **WORDS)
    assert macheps_check.suite("rmsnorm", rmsnorm, inputs)["normal"].document["declared"]["eps"] == 1e-5
    macheps_check.suite("rmsnorm", rmsnorm, inputs, eps="0.00001")  # the same value
    macheps_check.suite("rmsnorm", rmsnorm, {name: dict(arrays) for name, arrays in inputs.items()})  # copies
    macheps_check.suite("rmsnorm", rmsnorm, me.make_inputs("rmsnorm", RECIPES, **WORDS))
    with refuses("made for eps=1e-05, but the check declares eps=1e-06", r"call macheps_check.suite\\(.rmsnorm., kernel, inputs"):
        macheps_check.suite("rmsnorm", rmsnorm, inputs, eps=1e-6)
    with refuses("made for out_format='fp16', but the check declares out='bf16'"):
        macheps_check.suite("rmsnorm", rmsnorm, inputs, out="bf16")
    with refuses("out has elements of fp32, but is declared as fp16", "return fp16 from the kernel"):
        macheps_check.suite("rmsnorm", lambda x: rmsnorm(x, dtype=np.float32), inputs)
    with refuses("made for rmsnorm, but the check is for layernorm", "suite.*rmsnorm"):
        macheps_check.suite("layernorm", rmsnorm, inputs)
    others = macheps_inputs("rmsnorm", RECIPES, **{**WORDS, "eps": 1e-6})
    with refuses("made for eps=1e-05, but other inputs of the check were made for eps=1e-06"):
        macheps_check.suite("rmsnorm", rmsnorm, {"normal": inputs["normal"], "small-rms": others["small-rms"]})

@pytest.mark.macheps(eps=1e-6)
def test_a_mark_may_not_contradict_the_inputs(macheps_check, macheps_inputs):
    with refuses("made for eps=1e-05, but the check declares eps=1e-06"):
        macheps_check.suite("rmsnorm", rmsnorm, macheps_inputs("rmsnorm", RECIPES, **WORDS))

def test_declarations_of_the_inputs_hold_for_single_checks(macheps_check, macheps_inputs):
    x, gain = macheps_inputs("rmsnorm", "small-rms", **WORDS, gain_format="fp16")["small-rms"].values()
    assert macheps_check.rmsnorm(x, rmsnorm(x, gain), gain=gain).document["declared"]["eps"] == 1e-5
    macheps_check.rmsnorm(x, rmsnorm(x))  # a kernel without gain
    with refuses("out has elements of fp32, but is declared as fp16", r"call macheps_check.rmsnorm\\(x, out, gain=gain\\)"):
        macheps_check.rmsnorm(x, rmsnorm(x, gain, dtype=np.float32), gain=gain)
    with refuses("made for eps=1e-05, but the check declares eps=1e-06"):
        macheps_check.rmsnorm(x, rmsnorm(x), eps=1e-6)

def test_a_single_check_of_arrays_that_were_made_twice_declares_what_differs(macheps_check, macheps_inputs):
    x = macheps_inputs("rmsnorm", "small-rms", **WORDS)["small-rms"]["x"]
    macheps_inputs("rmsnorm", "small-rms", **{**WORDS, "out_format": "bf16"})
    with refuses("made twice, with out_format='fp16' and with out_format='bf16'", "pass out_format"):
        macheps_check.rmsnorm(x, rmsnorm(x))
    macheps_check.rmsnorm(x, rmsnorm(x), out_format="fp16")
    macheps_check.rmsnorm(x, rmsnorm(x, dtype=ml_dtypes.bfloat16), out_format="bf16", allow_weak=True)

@pytest.mark.parametrize("dtype", [None, "codes", "float32"])
@pytest.mark.parametrize(("format", "machine"), [("bf16", "sm80.mma.bf16"), ("tf32", "sm80.mma.tf32"), ("e4m3fn", "sm90.wgmma.fp8")])
def test_the_machine_and_the_formats_of_codes_hold(macheps_check, macheps_inputs, dtype, format, machine):
    inputs = macheps_inputs("gemm", "normal", shape=(16, 16, 64), a_format=format, b_format=format, machine=machine, dtype=dtype)
    def kernel(a, b):
        if dtype == "codes" and format != "tf32":
            a, b = me.decode(a, format), me.decode(b, format)
        return me.matmul(a, b, machine=machine, format_a=format, format_b=format)
    if dtype == "float32":
        with refuses(f"{machine} reads|does not read|cannot read|not a format"):
            macheps_check.suite("gemm", lambda a, b: a @ b, inputs, allow_weak=True)
        return
    declared = macheps_check.suite("gemm", kernel, inputs, allow_weak=True)["normal"].document["declared"]
    assert (declared["machine"], declared["a"]) == (machine, format)
"""


def test_what_was_declared_for_inputs_is_declared_for_their_checks(pytester, request):
    pytester.makepyfile(DECLARED_TEST)
    run_with_plugin(pytester, request).assert_outcomes(passed=13)


MISSING_TEST = """
import numpy as np

def test_missing(macheps_check, macheps_inputs):
    inputs = macheps_inputs("rmsnorm", "normal", shape=(8, 40), x_format="fp16", gain_format="fp16", out_format="fp16")
    macheps_check.suite("rmsnorm", lambda x, gain: x, inputs, rtol=0.01)

def test_wrong_inputs(macheps_inputs):
    macheps_inputs("rmsnorm", "normal", shape=(8, 40), x_format="fp17", out_format="fp16")
"""


def test_an_error_about_a_wrong_call_is_shown_without_the_code_of_the_package(pytester, request):
    pytester.makepyfile(MISSING_TEST)
    made = run_with_plugin(pytester, request)
    made.assert_outcomes(failed=2)
    text = made.stdout.str()
    assert 'call macheps_check.suite("rmsnorm", kernel, inputs, rtol=0.01, eps=1e-5)' in text
    assert 'call macheps_inputs("rmsnorm", "normal", shape=(8, 40), x_format="fp16", out_format="fp16", eps=1e-5)' in text
    assert "contextlib" not in text and "_check.py" not in text and "pytest_macheps/__init__.py" not in text


GITHUB_TEST = """
import numpy as np, pytest

def softmax(x, dropped=0):
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    return (e / e[:, :e.shape[1] - dropped].sum(1, keepdims=True)).astype(np.float16)

def test_wrong(macheps_check, macheps_inputs):
    inputs = macheps_inputs("softmax", ["normal"], shape=(8, 40), x_format="fp16")
    macheps_check.suite("softmax", lambda x: softmax(x, 8), inputs)

def test_weak(macheps_check):
    x = np.zeros((4, 8), np.float16)
    macheps_check.softmax(x, softmax(x), name="50 %,\\n of x")

def test_expected(macheps_check, macheps_inputs):
    x = macheps_inputs("softmax", ["normal"], shape=(8, 40), x_format="fp16")["normal"]["x"]
    with pytest.raises(AssertionError):
        macheps_check.softmax(x, softmax(x, 8))

def test_right(macheps_check, macheps_inputs):
    macheps_check.suite("softmax", softmax, macheps_inputs("softmax", ["normal"], shape=(8, 40), x_format="fp16"), allow_weak=True)
"""


@pytest.mark.parametrize("is_github", [True, False])
def test_a_job_of_github_gets_an_annotation_for_each_failed_check(pytester, request, monkeypatch, is_github):
    monkeypatch.setenv("GITHUB_ACTIONS", str(is_github).lower())
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    file = pytester.mkdir("tests") / "test_github.py"
    file.write_text(GITHUB_TEST, encoding="utf-8")
    made = run_with_plugin(pytester, request)
    made.assert_outcomes(failed=2, passed=2)
    lines = [line for line in made.outlines if line.startswith("::")]
    line_of = {name: number for number, text in enumerate(GITHUB_TEST.split("\n"), 1)
               for name in ("lambda x: softmax(x, 8)", "50 %") if name in text}  # fmt: skip
    if not is_github:
        assert lines == []
        return
    first, second = lines
    assert first.startswith(f"::error file=tests/test_github.py,line={line_of['lambda x: softmax(x, 8)']},title=KC020::normal (8 rows of 40 ")
    assert "; at (" in first and " times the bound%0AKC0" in first
    assert second.startswith(f"::warning file=tests/test_github.py,line={line_of['50 %']},title=KC050::50 %25,%0A of x (4 rows of 8 ")


def operations():
    from macheps._check import operation_names

    return operation_names()


@pytest.mark.parametrize("operation", operations())
def test_every_operation_takes_its_arrays_in_order_and_by_name(operation):
    from macheps._check import needed_by, needed_words, operands_in_order, right_call
    from pytest_macheps import Checker

    is_gemm, is_quantize = operation == "gemm", operation == "quantize"
    words = {"eps": 1e-5} if needed_words(operation) == ["eps=1e-5"] else {"granularity": "1x128"} if is_quantize else {}
    gated = {"gate_format": "fp16", "up_format": "fp16"} if needed_by(operation) == ("gate", "up") else {}
    shape = (4, 128) if is_quantize else (4, 8)
    x = me.make_inputs(operation, "normal", shape=(4, 4, 8) if is_gemm else shape, **gated, **words)["normal"]
    assert list(x) == list(needed_by(operation)) == operands_in_order(operation)[:len(x)]
    is_row_sum = operation in ("sum", "mean", "max", "min", "amax", "argmax", "norm2", "logsumexp", "cross_entropy")
    out = np.full((4, 4) if is_gemm else (4,) if is_row_sum else shape, 3, np.int64 if operation == "argmax" else np.float32)
    if is_quantize:
        out, words["scale"] = out.astype(ml_dtypes.float8_e4m3fn), np.ones((4, 1), np.float32)
    judge = getattr(Checker("test", {}, []), operation)
    first = next(iter(x))
    others = {name: array for name, array in x.items() if name != first}
    calls = [lambda: judge(*x.values(), out, **words), lambda: judge(out=out, **x, **words), lambda: judge(*x.values(), out=out, **words),
             lambda: judge(x[first], out=out, **others, **words), lambda: judge(out, **x, **words)]  # fmt: skip
    results = set()
    for call in calls:
        with pytest.raises(AssertionError) as refused:
            call()
        results.add(str(refused.value))
    assert len(results) == 1 and results.pop().startswith(f"fail  {operation} ")  # all of these calls check the same arrays
    # The call that errors show works, too.
    arrays = {**x, "out": out, "scale": words.get("scale")}
    with pytest.raises(AssertionError):
        eval(right_call(operation, "c"), {"c": Checker("test", {}, []), **arrays})


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


def test_hints_are_spelled_as_arguments():
    x, gain = RNG.standard_normal((16, 300)).astype(np.float16), RNG.standard_normal(300).astype(np.float16)
    wide = x.astype(np.float64)

    def norm(eps, inner):
        y = (wide / np.sqrt((wide**2).mean(1, keepdims=True) + eps)).astype(inner).astype(np.float64)
        return me.check((y * gain).astype(np.float16), operation="rmsnorm", x=x, gain=gain, eps=1e-5)

    text = norm(1e-5, np.float16).text
    assert 'would pass with inner="fp16". If the kernel is meant to work that way, declare inner="fp16"' in text
    assert "--" not in text
    x = x * np.float16(1e-3)
    wide = x.astype(np.float64)
    assert norm(1e-6, np.float64).text.split("\n")[1] == "  the outputs agree with the wrong kernel `eps 1e-06 for 1e-05`"
    product = A16.astype(np.float64) @ B16.astype(np.float64)
    size = np.abs(A16.astype(np.float64)) @ np.abs(B16.astype(np.float64))
    for error, is_mentioned in ((1e-5, True), (0.1, False)):
        text = me.check((product + error * size).astype(np.float32), A16, B16).text
        assert text.startswith("fail") and "--" not in text
        assert ("uses them, declare machine (macheps machine list)" in text) == is_mentioned


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
    made.stdout.fnmatch_lines([
        "*input normal: fail *", "*macheps: results of the checks, and their power*",
        "*test_right*gemm*normal (bf16[[]48, 256[]] x bf16[[]256, 40[]], machine sm80.mma.bf16 -> fp32)*pass*caught * of *",
        "*test_wrong*normal (*fail*", "*test_refused*refused*"])  # fmt: skip


SUITE_TEST = """
import numpy as np

def rmsnorm(x, eps=1e-5, dropped=0):
    x = x.astype(np.float64)
    squares = (x[:, :-dropped] if dropped else x) ** 2
    with np.errstate(all="ignore"):
        return (x / np.sqrt(squares.sum(1, keepdims=True) / x.shape[1] + eps)).astype(np.float16)

def inputs(macheps_inputs):
    return macheps_inputs("rmsnorm", ["normal", "small-rms"], shape=(32, 500), x_format="fp16", out_format="fp16", eps=1e-5)

def test_alone(macheps_check, macheps_inputs):  # the input `normal` does not reveal a wrong eps
    x = inputs(macheps_inputs)["normal"]["x"]
    macheps_check.rmsnorm(x, rmsnorm(x), eps=1e-5)

def test_right(macheps_check, macheps_inputs):
    assert macheps_check.suite("rmsnorm", rmsnorm, inputs(macheps_inputs), eps=1e-5)["normal"].outcome == "pass"

def test_another_eps(macheps_check, macheps_inputs):
    macheps_check.suite("rmsnorm", lambda x: rmsnorm(x, 1e-6), inputs(macheps_inputs), eps=1e-5)

def test_dropped(macheps_check, macheps_inputs):
    macheps_check.suite("rmsnorm", lambda x: rmsnorm(x, dropped=4), inputs(macheps_inputs), eps=1e-5)

def test_blind(macheps_check, macheps_inputs):
    only = {"normal": inputs(macheps_inputs)["normal"]}
    macheps_check.suite("rmsnorm", rmsnorm, only, eps=1e-5)

def test_named(macheps_check):
    x = np.random.default_rng(1).standard_normal((8, 40)).astype(np.float16)
    macheps_check.rmsnorm(x, rmsnorm(x, dropped=4), eps=1e-5, name="my data")
"""


def test_the_inputs_of_a_suite_are_one_check(pytester, request):
    pytester.makepyfile(SUITE_TEST)
    made = run_with_plugin(pytester, request)
    made.assert_outcomes(passed=1, failed=5)
    text = made.stdout.str()
    made.stdout.fnmatch_lines(["*input normal: weak *", "*could not have caught a wrong kernel: eps 1e-06 for 1e-05*"])
    assert "1 of 2 inputs did not pass" in text and "input small-rms: fail" in text  # another eps
    assert "2 of 2 inputs did not pass" in text  # dropped terms
    assert "input my data: fail" in text
    made.stdout.fnmatch_lines(["*test_right*2 inputs *pass*blind to*", "*test_another_eps*2 inputs, worst: small-rms (32 rows of 500*fail*",
                               "*test_blind*1 inputs, worst: normal*weak*", "*test_named*my data (8 rows of 40*fail*"])  # fmt: skip


@pytest.mark.parametrize("words", ['"softmax", ["normal"]', '["normal"], operation="softmax"', '"normal", "softmax"',
                                   'operation="softmax", recipe="normal"'])  # fmt: skip
def test_the_inputs_of_a_test_are_asked_for_in_either_order(pytester, request, words):
    pytester.makepyfile(f"""
        def test_order(macheps_inputs):
            assert list(macheps_inputs({words}, shape=(4, 8))["normal"]) == ["x"]
        """)
    run_with_plugin(pytester, request).assert_outcomes(passed=1)
