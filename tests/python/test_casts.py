# SPDX-License-Identifier: Apache-2.0
"""Casts against ml_dtypes, against the program, and against themselves by other ways."""

from __future__ import annotations

import functools
import subprocess

import macheps as me
import numpy as np
import pytest
from conftest import a_million, adversarial, same_bits

ml_dtypes = pytest.importorskip("ml_dtypes")

FORMATS = [f.format for f in me.formats()]
MODES = ["nearest_even", "nearest_away", "toward_zero", "up", "down", "to_odd", "stochastic"]
ORACLES = {
    "bf16": "bfloat16", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2", "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz", "e4m3b11fnuz": "float8_e4m3b11fnuz", "e3m4": "float8_e3m4", "e4m3ieee": "float8_e4m3",
    "e2m3fn": "float6_e2m3fn", "e3m2fn": "float6_e3m2fn", "e2m1fn": "float4_e2m1fn", "e8m0fnu": "float8_e8m0fnu",
}  # fmt: skip


def oracle_codes(x: np.ndarray, format: str) -> np.ndarray:
    kind = np.dtype(getattr(ml_dtypes, ORACLES[format]))
    with np.errstate(all="ignore"):
        return x.astype(kind).view({1: np.uint8, 2: np.uint16}[kind.itemsize])


@pytest.mark.parametrize("format", sorted(ORACLES))
def test_codes_are_those_of_ml_dtypes(format):
    x = adversarial(format)
    ours, theirs = me.encode(x, format), oracle_codes(x, format)
    if not me.finfo(format).has_nan:
        keep = ~np.isnan(x)  # a NaN becomes the largest value here, as in CUDA, and -0 there
        ours, theirs, x = ours[keep], theirs[keep], x[keep]
    differ = ours != theirs
    if format == "e8m0fnu":  # zero and negative numbers: the least scale here, NaN there
        differ &= x > 0
    nans = np.isnan(me.decode(ours, format)) & np.isnan(x)
    assert not (differ & ~nans).any(), x[differ & ~nans][:8]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_codes_are_the_programs(format, mode, program):
    x = adversarial(format, 512)
    for saturate in (False, True):
        words = [program, "convert", "--to", format, "--round", mode, "--seed", "9", *(["--saturate"] if saturate else [])]
        theirs = subprocess.run(words, input=x.tobytes(), stdout=subprocess.PIPE, check=True).stdout
        ours = me.encode(x, format, mode=mode, saturate=saturate, seed=9)
        assert ours.tobytes() == theirs


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_fp64_codes_are_the_programs(format, mode, program):
    x = adversarial(format, 512, np.float64)
    words = [program, "convert", "--from", "fp64", "--to", format, "--round", mode, "--seed", "9"]
    theirs = subprocess.run(words, input=x.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    assert me.encode(x, format, mode=mode, seed=9).tobytes() == theirs


def test_fp64_is_rounded_once():
    """Through fp32 the first would become a tie, and the tie would go down."""
    x = np.array([1 + 2.0**-8 + 2.0**-40, -(1 + 2.0**-8 + 2.0**-40), 1 + 2.0**-8 - 2.0**-40])
    assert me.round(x, "bf16").tolist() == [1 + 2.0**-7, -(1 + 2.0**-7), 1.0]
    assert me.round(x.astype(np.float32), "bf16").tolist() == [1.0, -1.0, 1.0]
    assert me.encode(x, "bf16").tolist() == [0x3F81, 0xBF81, 0x3F80]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("format", FORMATS)
def test_round_is_decode_of_encode(format, dtype):
    x = adversarial(format, 512, dtype)
    for mode in ("nearest_even", "down"):
        made = me.round(x, format, mode=mode)
        codes = me.decode(me.encode(x, format, mode=mode), format)
        assert made.dtype == x.dtype
        assert np.array_equal(made.astype(np.float64), codes.astype(np.float64), equal_nan=True)
        assert np.array_equal(np.signbit(made), np.signbit(codes)) or format in ("e8m0fnu",)


@pytest.mark.parametrize("format", FORMATS)
def test_a_tally_of_fp64_is_that_of_fp32(format):
    x = adversarial(format, 256)
    narrow, wide = me.tally(x, format), me.tally(x.astype(np.float64), format)
    assert narrow == wide
    assert narrow.count == x.size and narrow.nan_in == np.isnan(x).sum() and narrow.zero_in == (x == 0).sum()


def test_random_words_do_not_depend_on_pieces():
    x = np.random.default_rng(1).standard_normal(10_000).astype(np.float32)
    for source in (x, x.astype(np.float64)):
        whole = me.encode(source, "e4m3fn", mode="stochastic", seed=3, stream=2)
        assert same_bits(whole, me.encode(source.reshape(100, 100), "e4m3fn", mode="stochastic", seed=3, stream=2).ravel())
        assert not same_bits(whole, me.encode(source, "e4m3fn", mode="stochastic", seed=4, stream=2))
        assert not same_bits(whole, me.encode(source, "e4m3fn", mode="stochastic", seed=3, stream=3))
    with_fp64 = me.round(x.astype(np.float64), "bf16", mode="stochastic", seed=3)
    assert same_bits(with_fp64.astype(np.float32), me.round(x, "bf16", mode="stochastic", seed=3))


def test_random_words_do_not_depend_on_chunks():
    """The module looks for signals every 2**22 elements."""
    count = 2**22 + 1000
    x = np.full(count, 1.01, np.float32)
    whole = me.encode(x, "e4m3fn", mode="stochastic", seed=1)
    assert np.mean(whole == me.encode(np.float32(1.0), "e4m3fn")) == pytest.approx(0.92, abs=0.001)
    assert not same_bits(whole[-1000:], whole[:1000])
    ahead = me.encode(x.astype(np.float64)[: 2**22 + 1000], "e4m3fn", mode="stochastic", seed=1)
    assert same_bits(ahead, whole)


def fp64_through_fp32(into, cast, x, made, seed, stream, counts):
    """fp64 numbers become fp32 first, and are rounded a second time."""
    return into(cast, x.astype(np.float32).astype(x.dtype), made, seed, stream, counts)


def random_words_of_the_chunk(into, cast, x, made, seed, stream, counts):
    """Each chunk begins with the first random word of the stream."""
    for first in range(0, x.size, 2**22):
        last = into(cast, x.ravel()[first : first + 2**22], made.reshape(-1)[first : first + 2**22], seed, stream, counts)
    return last


@pytest.mark.parametrize(("fault", "test"), [(fp64_through_fp32, test_fp64_is_rounded_once), (random_words_of_the_chunk, test_random_words_do_not_depend_on_chunks)],
                         ids=lambda one: one.__name__)  # fmt: skip
def test_an_injected_fault_is_noticed(fault, test, monkeypatch):
    for name in ("round_into", "encode_into"):
        monkeypatch.setattr(me._core, name, functools.partial(fault, getattr(me._core, name)))
    with pytest.raises(AssertionError):
        test()


def test_bits_do_not_depend_on_threads():
    x = adversarial("e4m3fn", 300_000)
    before = me.threads()
    made = []
    try:
        for count in (1, 2, 8):
            me.set_threads(count)
            made.append(me.encode(x, "e4m3fn", mode="stochastic", seed=5).tobytes() + me.round(x, "bf16").tobytes())
    finally:
        me.set_threads(before)
    assert made[0] == made[1] == made[2]


def test_scale_multiplies_before_rounding():
    x = np.array([3.0, 0.1], np.float32)
    assert same_bits(me.round(x, "e4m3fn", scale=0.125), me.round(x * np.float32(0.125), "e4m3fn"))
    assert same_bits(me.round(x.astype(np.float64), "e4m3fn", scale=0.3), me.round(x.astype(np.float64) * 0.3, "e4m3fn"))
    assert me.tally(x.astype(np.float64), "e4m3fn", scale=1e6).overflow == 2


def test_tallies_add_up():
    x = np.array([0.0, 1e-9, 500.0, np.nan, np.inf, 1.0], np.float32)
    total = me.Tally()
    me.round(x, "e4m3fn", tally=total)
    me.encode(x, "e4m3fn", tally=total)
    assert total == me.tally(x, "e4m3fn") + me.tally(x, "e4m3fn")
    assert (total.nan_in, total.inf_in, total.underflow, total.overflow) == (2, 2, 2, 2)
    assert total.amin_nz == pytest.approx(1e-9) and total.amax == 500.0


def test_saturation_as_documented():
    assert me.encode([448.0, 464.0, 465.0, 1e9], "e4m3fn").tolist() == [126, 126, 127, 127]
    assert me.encode([448.0, 464.0, 465.0, 1e9], "e4m3fn", saturate=True).tolist() == [126, 126, 126, 126]


def test_fp64_codes_are_the_bits():
    x = np.array([1.5, -0.0, np.inf])
    assert same_bits(me.encode(x, "fp64"), x.view(np.uint64))
    assert same_bits(me.decode(x.view(np.uint64), "fp64"), x)
    assert same_bits(me.encode(x.astype(np.float32), "fp64"), x.view(np.uint64))


@pytest.mark.slow
@pytest.mark.parametrize("format", ["e4m3fn", "e5m2", "bf16", "e2m1fn"])
def test_every_fp32_number(format):
    """All 2**32 inputs, to nearest even."""
    for high in range(256):
        x = (np.arange(1 << 24, dtype=np.uint32) + np.uint32(high << 24)).view(np.float32)
        ours, theirs = me.encode(x, format), oracle_codes(x, format)
        differ = (ours != theirs) & ~np.isnan(x)
        assert not differ.any(), x[differ][:4]


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_a_million_codes_are_the_programs(format, mode, program):
    x = a_million(format)
    assert x.size == 2**20
    for saturate in (False, True):
        words = [program, "convert", "--to", format, "--round", mode, "--seed", "9", *(["--saturate"] if saturate else [])]
        theirs = subprocess.run(words, input=x.tobytes(), stdout=subprocess.PIPE, check=True).stdout
        assert me.encode(x, format, mode=mode, saturate=saturate, seed=9).tobytes() == theirs
