# SPDX-License-Identifier: Apache-2.0
"""Tests which arrays and arguments the functions accept and refuse, and the results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import macheps as me
import numpy as np
import pytest
from conftest import adversarial, same_bits

ml_dtypes = pytest.importorskip("ml_dtypes")

X = adversarial("e4m3fn", 500)[:3000].reshape(30, 100)
WANT = me.encode(X, "e4m3fn")


def read_only(x):
    made = x.copy()
    made.flags.writeable = False
    return made


class OnlyDlpack:
    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **words):
        return self.x.__dlpack__(**words)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


class OnlyArray:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x


@pytest.mark.parametrize("given", [
    X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1], read_only(X), X.astype(">f4"), X.astype(np.float64),
    OnlyDlpack(X), OnlyArray(X), X.T.copy().T,
], ids=["plain", "fortran", "strided", "reversed", "read-only", "big-endian", "fp64", "dlpack", "__array__", "transposed"])  # fmt: skip
def test_same_bits_from_every_layout(given):
    assert same_bits(me.encode(given, "e4m3fn"), WANT)


def test_narrower_types_are_exact():
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    assert same_bits(me.encode(halves, "e4m3fn"), me.encode(halves.astype(np.float32), "e4m3fn"))
    brains = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16)
    assert same_bits(me.encode(brains, "e5m2"), me.encode(brains.astype(np.float32), "e5m2"))
    bytes_ = np.arange(256, dtype=np.uint8)
    assert same_bits(me.round(bytes_, "bf16"), me.round(bytes_.astype(np.float32), "bf16"))
    assert me.round(np.array([True, False]), "bf16").tolist() == [1.0, 0.0]
    codes = bytes_.view(ml_dtypes.float8_e4m3fn)
    assert same_bits(me.decode(codes), me.decode(bytes_, "e4m3fn"))


def test_codes_as_other_libraries_types():
    made = me.encode(X, "e4m3fn", dtype="ml_dtypes")
    assert made.dtype == ml_dtypes.float8_e4m3fn and same_bits(made.view(np.uint8), WANT)
    assert same_bits(me.decode(made), me.decode(WANT, "e4m3fn"))
    with pytest.raises(me.Error, match="no type for tf32"):
        me.encode(X, "tf32", dtype="ml_dtypes")


def test_empty_and_single_numbers():
    assert me.round(np.zeros((0, 3), np.float32), "bf16").shape == (0, 3)
    assert me.encode([], "e4m3fn").shape == (0,)
    assert me.decode(np.zeros((2, 0), np.uint8), "e4m3fn").shape == (2, 0)
    assert me.tally([], "bf16").rates()["underflow"] == 0.0
    zero_d = me.round(np.array(0.1, np.float32), "bf16")
    assert zero_d.shape == () and isinstance(zero_d, np.ndarray)
    assert isinstance(me.round(0.1, "bf16"), np.float64) and isinstance(me.round(np.float32(0.1), "bf16"), np.float32)
    assert me.encode(1, "e4m3fn") == 0x38


def test_out_is_filled():
    x = X.copy()
    assert me.round(x, "e4m3fn", out=x) is x and same_bits(x, me.round(X, "e4m3fn"))
    codes = np.empty(X.shape, np.uint8)
    assert me.encode(X, "e4m3fn", out=codes) is codes and same_bits(codes, WANT)
    buffer = np.arange(1000, dtype=np.float32) / 7
    want = me.round(buffer[:900].copy(), "e4m3fn")
    me.round(buffer[:900], "e4m3fn", out=buffer[100:])
    assert same_bits(buffer[100:], want)


class OnGpu:
    """An array of a library that stores arrays on a GPU."""

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **words):
        raise AssertionError("macheps must not copy an array on a GPU silently")


class OnGpuWithArray(OnGpu):
    """An array on a GPU whose __array__ raises an error, as in CuPy."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")


def test_arrays_on_a_gpu_are_refused():
    for function in (lambda x: me.round(x, "bf16"), lambda x: me.encode(x, "bf16"), lambda x: me.decode(x, "bf16"), lambda x: me.matmul(x, x),
                     lambda x: me.scale(x, "row", "e4m3fn"), lambda x: me.check(x, x, x)):  # fmt: skip
        with pytest.raises(TypeError, match=r"computes on the CPU, but this array is on device \(2, 0\): copy it"):
            function(OnGpu())
        with pytest.raises(TypeError, match=r"Please use `.get\(\)`"):
            function(OnGpuWithArray())


@pytest.mark.parametrize(("out", "error"), [
    (np.empty((30, 100), np.float64), TypeError), (np.empty((30, 99), np.float32), me.Error), ([1.0], TypeError),
    (np.empty((30, 200), np.float32)[:, ::2], me.Error), (read_only(X), me.Error), (np.empty((30, 100), ">f4"), TypeError),
])  # fmt: skip
def test_out_that_does_not_fit(out, error):
    with pytest.raises(error):
        me.round(X, "e4m3fn", out=out)


@pytest.mark.parametrize("x", [
    np.array([1 + 2j]), np.array([1], np.int64), np.array([1], np.uint32), np.array(["1"]), np.array([object()]), [[1.0], [1.0, 2.0]],
    np.array([1], np.longdouble), None, "0.1", {"a": 1}, np.array(["2020-01-01"], "M8[D]"), [2**60], np.array([(1, 2.0)], "i4,f4"),
])  # fmt: skip
def test_types_that_are_no_numbers(x):
    for function in (lambda: me.round(x, "bf16"), lambda: me.encode(x, "bf16"), lambda: me.tally(x, "bf16")):
        with pytest.raises(TypeError):
            function()


def test_words_that_are_wrong_say_what_where_and_how():
    with pytest.raises(me.Error) as caught:
        me.round(X, "e4m3fm")
    assert caught.value.what == "unknown format 'e4m3fm'" and caught.value.where and caught.value.fix
    assert isinstance(caught.value, ValueError)
    for call in (
        lambda: me.round(X, "e4m3"), lambda: me.round(X, "bf16", mode="nearest"), lambda: me.round(X, "bf16", scale=-1.0),
        lambda: me.round(X, "bf16", scale=float("nan")), lambda: me.round(X, "bf16", seed=-1, mode="stochastic"),
        lambda: me.round(X, "bf16", stream=2**32), lambda: me.decode([256], "e4m3fn"), lambda: me.decode([1]),
        lambda: me.decode(WANT.view(ml_dtypes.float8_e4m3fn), "e5m2"), lambda: me.number(256, "e4m3fn"),
        lambda: me.number(-1, "e4m3fn"), lambda: me.set_threads(0), lambda: me.encode(X, "bf16", dtype="jax"),
    ):  # fmt: skip
        with pytest.raises(me.Error) as caught:
            call()
        assert caught.value.what and caught.value.fix, caught.value
    with pytest.raises(TypeError, match="format is a name"):
        me.round(X, None)
    with pytest.raises(TypeError):
        me.decode(np.array([1.5]), "e4m3fn")


def test_error_survives_pickling():
    import pickle

    error = pickle.loads(pickle.dumps(me.Error("a", "b", "c")))
    assert (error.what, error.where, error.fix, str(error)) == ("a", "b", "c", "b: a (c)")


def test_host_modes_change_no_bit():
    """Results do not depend on the rounding mode of the processor, which another library may have changed."""
    libm = __import__("ctypes").CDLL("libm.so.6")
    libm.fesetround(0x800)  # toward +infinity on x86
    try:
        made = me.encode(X, "e4m3fn"), me.round(X.astype(np.float64), "bf16"), me.matmul(np.abs(X[:, :4]), np.abs(X[:4, :5]))
    finally:
        libm.fesetround(0)
    assert same_bits(made[0], WANT) and same_bits(made[1], me.round(X.astype(np.float64), "bf16"))
    assert np.array_equal(made[2], me.matmul(np.abs(X[:, :4]), np.abs(X[:4, :5])), equal_nan=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_fork():
    x = np.tile(X.ravel(), 400)
    want = me.encode(x, "e4m3fn").tobytes()
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0 if me.encode(x, "e4m3fn").tobytes() == want and me.matmul(X[:4, :4], X[:4, :4]).shape == (4, 4) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_threads_of_python_take_turns():
    x = np.tile(X.ravel(), 100)
    want = me.encode(x, "e4m3fn").tobytes()
    wrong = []

    def work():
        for _ in range(20):
            if me.encode(x, "e4m3fn").tobytes() != want:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


INTERRUPTED = """
import macheps as me, numpy as np, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell script ignores SIGINT in its background processes
x = np.ones(2**23, np.float64); a = np.ones((1024, 4096), np.float32); wide = np.ones((8, 2**14), np.float32)
me.round(x[:8], "bf16"); b = np.ascontiguousarray(wide.T).repeat(512, 1)
print("ready", flush=True)
try:
    while True:
        {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("call", [
    'me.encode(x, "e4m3fn", mode="stochastic", seed=1, out=np.empty(2**23, np.uint8))',
    'me.matmul(a, a.T, machine="exact")', 'me.matmul(wide, b, machine="exact")', 'me.matmul(wide, b, machine="pairwise:fp16")',
    "me.check((a[:256] @ a[:256].T), a[:256], a[:256].T)", "me.bound(a[:512], a[:512].T)",
    'me.scale(np.ones((4096, 8192), np.float32), "mx32", "e2m1fn")', "me.Generator(1).words(2**30)",
    'me.make_inputs("gemm", shape=(1024, 1024, 4096))',
], ids=["encode", "matmul", "wide matmul", "wide order", "check", "bound", "scale", "words", "make_inputs"])  # fmt: skip
def test_ctrl_c(call):
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED.format(call=call)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    sent = time.monotonic()
    assert child.stdout.readline() == "interrupted\n"
    took = time.monotonic() - sent
    child.kill()  # do not wait for threads that still compute
    child.wait()
    assert took < 5  # 1 s on an idle machine


def test_bad_number_of_threads_in_the_environment():
    made = subprocess.run([sys.executable, "-c", "import macheps as me; me.round(1.0, 'bf16')"], capture_output=True, text=True,
                          env={**os.environ, "MACHEPS_THREADS": "many"})
    assert made.returncode == 1 and "MACHEPS_THREADS: 'many' is not a valid number of threads" in made.stderr
