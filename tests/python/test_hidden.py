# SPDX-License-Identifier: Apache-2.0
"""Tests arrays with hidden information, such as masks and units, and arguments that should be integers but are not.
Every function must handle them correctly or refuse them. It must never drop information silently."""

from __future__ import annotations

import subprocess
import sys

import macheps as me
import numpy as np
import pytest

SQUARE = np.eye(4, dtype=np.float32)
CODES = np.zeros((4, 4), np.uint8)


class WithUnit(np.ndarray):
    """An array with a physical unit, like the arrays of libraries for units."""

    unit = "km"


class MaskedBehindArray:
    def __array__(self, dtype=None, copy=None):
        return np.ma.masked_equal(SQUARE, 1)


def nullable():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({str(i): pandas.array([1.0, None, 3.0, 4.0], dtype="Float64") for i in range(4)})


def nullable_column():
    return nullable()["0"]


def sparse():
    return pytest.importorskip("scipy.sparse").csr_array(SQUARE)


def arrow():
    return pytest.importorskip("pyarrow").array([1.0, None])


def polars():
    return pytest.importorskip("polars").DataFrame({"a": [1.0, None], "b": [1.0, 2.0]})


def quantised():
    torch = pytest.importorskip("torch")
    return torch.quantize_per_tensor(torch.eye(4), 0.1, 0, torch.quint8)


def sparse_tensor():
    return pytest.importorskip("torch").eye(4).to_sparse()


def masked_tensor():
    torch = pytest.importorskip("torch")
    from torch.masked import masked_tensor

    return masked_tensor(torch.eye(4), torch.eye(4) == 0)


HIDDEN = {
    "masked": lambda: np.ma.masked_equal(SQUARE, 1),
    "masked codes": lambda: np.ma.masked_equal(CODES, 0),
    "list of masked": lambda: [np.ma.masked_equal(row, 1) for row in SQUARE],
    "nested list with a masked number": lambda: [[1.0, np.ma.masked], [2.0, 3.0]],
    "__array__ is masked": MaskedBehindArray,
    "unit": lambda: SQUARE.view(WithUnit),
    "complex": lambda: SQUARE + 1j,
    "object": lambda: SQUARE.astype(object),
    "text": lambda: SQUARE.astype(str),
    "time": lambda: CODES.astype("m8[s]"),
    "structured": lambda: np.zeros((4, 4), [("a", "f4")]),
    **{f.__name__: f for f in (nullable, nullable_column, sparse, arrow, polars, quantised, sparse_tensor, masked_tensor)},
}
DOORS = {
    "round": lambda x: me.round(x, "bf16"),
    "encode": lambda x: me.encode(x, "bf16"),
    "decode": lambda x: me.decode(x, "e4m3fn"),
    "tally": lambda x: me.tally(x, "bf16"),
    "scale": lambda x: me.scale(x, "row", "e4m3fn"),
    "matmul a": lambda x: me.matmul(x, SQUARE),
    "matmul b": lambda x: me.matmul(SQUARE, x),
    "matmul bias": lambda x: me.matmul(SQUARE, SQUARE, bias=x),
    "check out": lambda x: me.check(x, SQUARE, SQUARE),
    "check a": lambda x: me.check(SQUARE, x, SQUARE),
    "check bias": lambda x: me.check(SQUARE, SQUARE, SQUARE, bias=x),
    "bound": lambda x: me.bound(SQUARE, x),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", HIDDEN)
def test_an_array_that_means_more_than_its_numbers_is_refused(kind, door):
    given = HIDDEN[kind]()
    with pytest.raises((TypeError, me.Error)):
        DOORS[door](given)


@pytest.mark.parametrize("kind", ["masked", "nullable", "quantised", "unit"])
def test_the_refusal_names_the_loss(kind):
    words = {"masked": "lose the mask", "nullable": "missing elements", "quantised": "dequantize", "unit": "WithUnit"}
    given = HIDDEN[kind]()
    with pytest.raises(TypeError, match=words[kind]):
        me.round(given, "bf16")


def test_classes_that_hide_nothing_are_accepted():
    want = me.round(SQUARE, "bf16").tobytes()
    pandas = pytest.importorskip("pandas")
    for given in (np.ma.array(SQUARE), np.matrix(SQUARE), SQUARE.view(np.recarray), pandas.DataFrame(SQUARE), list(SQUARE),
                  SQUARE.tolist()):  # fmt: skip
        assert np.asarray(me.round(given, "bf16"), np.float32).tobytes() == want
    column = pandas.Series(pandas.array([1.0, 2.0], dtype="Float64"))
    assert me.round(column, "bf16").tolist() == [1.0, 2.0]
    assert np.isnan(me.round(pandas.Series([1.0, np.nan]), "bf16")[1])


def test_outputs_with_a_mask_are_refused():
    for function in (lambda out: me.round(SQUARE, "bf16", out=out), lambda out: me.matmul(SQUARE, SQUARE, out=out)):
        with pytest.raises(TypeError, match="writes into NumPy arrays"):
            function(np.ma.masked_equal(SQUARE.copy(), 1))


def test_integers_beyond_a_container_are_refused():
    with pytest.raises(me.Error, match="not codes of e4m3fn"):
        me.check(SQUARE, np.full((4, 4), 300), CODES, a_format="e4m3fn", b_format="e4m3fn")
    with pytest.raises(me.Error, match="int64"):
        me.check(np.zeros((1, 4), np.float32), operation="embedding", table=SQUARE, index=np.array([2**63], np.uint64))


@pytest.mark.parametrize("codes", [np.uint8([200]), np.int8([-1]), np.uint8([16]), np.int64([16])])
def test_numbers_beyond_the_codes_of_a_narrow_format_are_refused(codes):
    with pytest.raises(me.Error, match="not codes of e2m1fn"):
        me.decode(codes, "e2m1fn")
    assert me.decode(np.uint8([15]), "e2m1fn").tolist() == [-6.0]


NOT_WHOLE = [1.5, 1.0, True, np.True_, np.float64(2), np.float32(1.5), "1", -3, 2**64, None, np.array([1, 2]), np.array([1.0]),
             float("nan")]  # fmt: skip
WHOLE_NUMBERS = {
    "round seed": lambda n: me.round(0.1, "bf16", mode="stochastic", seed=n),
    "round stream": lambda n: me.round(0.1, "bf16", mode="stochastic", seed=1, stream=n),
    "encode seed": lambda n: me.encode(0.1, "bf16", mode="stochastic", seed=n),
    "tally seed": lambda n: me.tally(0.1, "bf16", mode="stochastic", seed=n),
    "scale seed": lambda n: me.scale(SQUARE, "row", "e4m3fn", mode="stochastic", seed=n),
    "scale axis": lambda n: me.scale(SQUARE, "row", "e4m3fn", axis=n),
    "matmul seed": lambda n: me.matmul(SQUARE, SQUARE, machine="chain:bf16:stochastic", seed=n),
    "matmul promote": lambda n: me.matmul(SQUARE, SQUARE, machine="sm90.wgmma.fp8", format_a="e4m3fn", promote=n),
    "check promote": lambda n: me.check(SQUARE, SQUARE, SQUARE, machine="sm90.wgmma.fp8", promote=n),
    "make_inputs seed": lambda n: me.make_inputs("gemm", "normal", shape=(4, 4, 4), seed=n),
    "make_inputs shape": lambda n: me.make_inputs("gemm", "normal", shape=(4, n, 4)),
    "generator seed": me.Generator,
    "generator stream": lambda n: me.Generator(1, n),
    "generator words": lambda n: me.Generator(1).words(n),
    "generator position": lambda n: setattr(me.Generator(1), "state", {"seed": 1, "stream": 0, "position": n}),
    "number code": lambda n: me.number(n, "fp16"),
    "show random": lambda n: me.show(0.1, "bf16", mode="stochastic", random=n),
    "set_threads": me.set_threads,
}
MEANS_NOTHING_GIVEN = {"scale axis", "matmul promote", "check promote"}  # None is the default of these arguments


@pytest.mark.parametrize("door", WHOLE_NUMBERS)
def test_only_whole_numbers_are_whole(door):
    for number in NOT_WHOLE:
        if number is None and door in MEANS_NOTHING_GIVEN:
            continue
        with pytest.raises(me.Error) as refused:
            WHOLE_NUMBERS[door](number)
        assert refused.value.what, number


def test_integers_of_numpy_are_whole():
    assert me.make_inputs("gemm", "normal", shape=(np.int32(4), 4, 4), seed=np.int64(3)).keys() == {"normal"}
    assert me.Generator(np.uint64(2**64 - 1)).seed == 2**64 - 1


SUBINTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
code = '''
import sys; sys.path[:] = {path!r}
try:
    import macheps
except ImportError as refused:
    print(refused, flush=True)
'''.format(path=__import__("sys").path)
interpreters.run_string(other, code)
import macheps
print("alive", macheps.round(0.1, "bf16"), flush=True)
"""


def test_a_subinterpreter_is_refused():
    made = subprocess.run([sys.executable, "-c", SUBINTERPRETER], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "macheps cannot be imported in a subinterpreter" in made.stdout and "alive 0.1" in made.stdout
