# SPDX-License-Identifier: Apache-2.0
"""Compares casts with ml_dtypes, with the macheps program, and with other functions of the package."""

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
        keep = ~np.isnan(x)  # for NaN, macheps (like CUDA) gives the largest value, and ml_dtypes gives -0
        ours, theirs, x = ours[keep], theirs[keep], x[keep]
    differ = ours != theirs
    # In e8m0fnu, macheps gives the smallest scale for zero, and the magnitude of a negative number. ml_dtypes gives NaN
    # for both. Between 2**-127 and 2**-126, macheps rounds to nearest, and ml_dtypes does not.
    if format == "e8m0fnu":
        differ &= (x > 0) & ((x <= 2.0**-127) | (x >= 1.5 * 2.0**-127))
    nans = np.isnan(me.decode(ours, format)) & np.isnan(x)
    assert not (differ & ~nans).any(), x[differ & ~nans][:8]


@pytest.mark.parametrize("format", sorted(ORACLES))
def test_the_profile_of_ml_dtypes_gives_its_codes(format):
    x = adversarial(format)
    assert same_bits(me.encode(x, format, profile="mldtypes"), oracle_codes(x, format))
    values = me.round(x, format, profile="mldtypes")
    assert np.array_equal(values, oracle_codes(x, format).view(getattr(ml_dtypes, ORACLES[format])).astype(np.float32), equal_nan=True)


QUICK = {"cuda_sat", "mldtypes", "torch_sat", "onnx.19", "onnx.28.nosat", "onnx_reference.1.23", "x86.vcvtps2ph"}


@pytest.mark.parametrize("profile", [p.profile if p.profile in QUICK else pytest.param(p.profile, marks=pytest.mark.slow) for p in me.profiles()])
def test_profiles_are_the_programs(profile, program):
    formats = next(p.formats for p in me.profiles() if p.profile == profile)
    for format in formats:
        for dtype, source in ((np.float32, "fp32"), (np.float64, "fp64")):
            x = adversarial(format, 128, dtype)
            words = [program, "convert", "--from", source, "--to", format, "--profile", profile]
            theirs = subprocess.run(words, input=x.tobytes(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
            assert me.encode(x, format, profile=profile).tobytes() == theirs
            if format != "fp64":
                made = me.decode(me.encode(x, format, profile=profile), format)
                assert np.array_equal(me.round(x, format, profile=profile).astype(np.float64), made.astype(np.float64), equal_nan=True)


def test_onnx_by_its_reference():
    onnx = pytest.importorskip("onnx")
    from onnx.reference.ops.op_cast import cast_to

    if not onnx.__version__.startswith("1.23."):
        pytest.skip(f"the profile is of onnx 1.23, and this is {onnx.__version__}")
    names = {"e4m3fn": "FLOAT8E4M3FN", "e4m3fnuz": "FLOAT8E4M3FNUZ", "e5m2": "FLOAT8E5M2", "e5m2fnuz": "FLOAT8E5M2FNUZ",
             "e8m0fnu": "FLOAT8E8M0", "e2m1fn": "FLOAT4E2M1", "e2m3fn": "FLOAT6E2M3", "e3m2fn": "FLOAT6E3M2"}  # fmt: skip
    for format, name in names.items():
        x = adversarial(format)
        for saturate, suffix in ((True, ""), (False, ".nosat")):
            with np.errstate(all="ignore"):
                theirs = np.asarray(cast_to(x, getattr(onnx.TensorProto, name), saturate)).view(np.uint8)
            assert same_bits(me.encode(x, format, profile=f"onnx_reference.1.23{suffix}"), theirs), format


def test_what_a_format_cannot_hold_is_refused_when_asked():
    """The argument `refuse` names a property that a format may lack, such as NaN, a sign or zero. A value that needs
    the property is refused if and only if the format lacks it."""
    numbers = {"nan": np.nan, "inf": np.inf, "sign": -1.0, "zero": 0.0, "negative_zero": -0.0}
    for info in me.formats():
        holds = {"nan": info.has_nan, "inf": info.has_inf, "sign": info.has_sign, "zero": info.has_zero,
                 "negative_zero": info.has_negative_zero}  # fmt: skip
        for name, number in numbers.items():
            x = np.array([1.0, number])
            me.round(x, info.format)  # without `refuse`, the number is converted
            if holds[name]:
                me.round(x, info.format, refuse=name)
                continue
            for call in (me.round, me.encode):
                with pytest.raises(me.Error, match=rf"element 1 is .* and {info.format} has no "):
                    call(x, info.format, refuse=[name])
                with pytest.raises(me.Error, match="element 1 is"):
                    call(x.astype(np.float32), info.format, refuse="all")
    with pytest.raises(me.Error, match="unknown property"):
        me.round(1.0, "bf16", refuse="nans")
    with pytest.raises(me.Error, match="element 0 is inf"):  # infinite after scaling
        me.round(np.array([3e38], np.float32), "e2m1fn", scale=10, refuse="inf")


def test_a_nan_in_formats_without_nan_follows_the_profile():
    for format, largest in (("e2m1fn", 6.0), ("e2m3fn", 7.5), ("e3m2fn", 28.0), ("mxint8", 127 / 64)):
        assert me.round(np.nan, format) == largest
        if format == "mxint8":
            with pytest.raises(me.Error, match="does not convert to mxint8"):
                me.round(np.nan, format, profile="mldtypes")
            continue
        assert me.round(np.nan, format, profile="cuda_sat") == largest
        for profile in ("mldtypes", "onnx.28"):
            made = me.round([np.nan, -np.nan], format, profile=profile)
            assert (made == 0).all() and np.signbit(made).tolist() == [True, False]


def test_a_generator_advances():
    """Each call uses new random words. With a constant seed, an element would get the same word in every call, and
    would always be rounded in the same direction."""
    x, g = np.ones(4000), me.Generator(1)
    for step in range(64):
        before = g.position
        x = me.round(x + 2.0**-10, "bf16", mode="stochastic", generator=g)
        assert g.position == before + x.size
    # Each of the 64 additions rounds up by 2**-7 with probability 1/8. The mean of x is then 1 + 64 * 2**-10, and its
    # variance is 64 * 2**-14 * (1/8) (7/8).
    deviation = (64 * 2.0**-14 * 7 / 64 / x.size) ** 0.5
    assert abs(x.mean() - (1 + 64 * 2.0**-10)) < 5 * deviation
    assert len(np.unique(x)) > 5


def test_a_generator_takes_the_words_of_one_call():
    """If an array is cast in pieces with one generator, the result has the same bits as one call with the seed. words()
    returns the words that rounding uses."""
    x = np.random.default_rng(1).standard_normal(1001).astype(np.float32)
    for source in (x, x.astype(np.float64)):
        whole = me.encode(source, "e4m3fn", mode="stochastic", seed=3, stream=2)
        g = me.Generator(3, stream=2)
        pieces = [me.encode(source[a:b], "e4m3fn", mode="stochastic", generator=g) for a, b in ((0, 1), (1, 6), (6, 7), (7, 700), (700, 1001))]
        assert same_bits(np.concatenate(pieces), whole) and g.position == 1001
    # A number one third of a step above 1 rounds up if the random word is at least 2/3 of 2**32.
    g = me.Generator(5)
    up = me.round(np.full(64, 1 + 2.0**-7 / 3), "bf16", mode="stochastic", generator=g) > 1
    assert np.array_equal(up, me.Generator(5).words(64) >= 2**32 - np.floor(2**32 / 3))


def test_a_generators_state_is_saved_and_restored():
    import copy
    import pickle

    g = me.Generator(7)
    g.words(3)
    state = g.state
    assert state == {"seed": 7, "stream": 0, "position": 3}
    others = [pickle.loads(pickle.dumps(g)), copy.deepcopy(g), me.Generator(0)]
    others[2].state = state
    want = me.round([0.1] * 9, "bf16", mode="stochastic", generator=g)
    for other in others:
        assert same_bits(me.round([0.1] * 9, "bf16", mode="stochastic", generator=other), want) and other == g
    for wrong in ({}, {**state, "position": -1}, {**state, "seed": 2**64}, 3):
        with pytest.raises(me.Error):
            g.state = wrong
    assert g.state == {**state, "position": 12}
    with pytest.raises(me.Error):
        me.Generator(-1)


def test_stochastic_rounding_needs_its_words():
    import contextlib

    x = np.ones((2, 32), np.float32)
    calls = [
        lambda **words: me.round(x, "bf16", mode="stochastic", **words),
        lambda **words: me.encode(x, "bf16", mode="stochastic", **words),
        lambda **words: me.tally(x, "bf16", mode="stochastic", **words),
        lambda **words: me.scale(x, "mx32", "e4m3fn", mode="stochastic", **words),
        lambda **words: me.matmul(x, x.T, machine="chain:bf16:stochastic", format_a="bf16", **words),
    ]
    with contextlib.suppress(ImportError, me.Error):
        import macheps.torch as mt
        import torch

        calls.append(lambda **words: mt.round(torch.ones(3, requires_grad=True), "bf16", mode="stochastic", **words))
        with pytest.raises(me.Error, match="pass grad_generator=macheps.Generator"):
            mt.round(torch.ones(3, requires_grad=True), "bf16", grad_format="e5m2", grad_mode="stochastic")
    for call in calls:
        with pytest.raises(me.Error, match=r"pass generator=macheps.Generator\(1\), .* or seed=1 for one call"):
            call()
        with pytest.raises(me.Error, match="together"):
            call(seed=1, generator=me.Generator(1))
        with pytest.raises(TypeError, match="Generator"):
            call(generator=np.random.default_rng(1))
        call(seed=1)
        g = me.Generator(1)
        call(generator=g)
        assert g.position > 0
    g = me.Generator(1)
    me.round(x, "bf16", generator=g)
    assert g.position == 0  # rounding to nearest takes no words
    with pytest.raises(me.Error, match="pass random="):
        me.show(0.1, "bf16", mode="stochastic")
    assert me.show(0.1, "bf16", mode="stochastic", random=2**32 - 1)[0].value > me.show(0.1, "bf16", mode="stochastic", random=0)[0].value


def test_products_and_scales_take_new_words_from_a_generator():
    a = np.full((1, 64), 0.1, np.float32)
    b = me.round(a, "bf16")
    g = me.Generator(1)
    sums = {float(me.matmul(b, b.T, machine="chain:bf16:stochastic", format_a="bf16", generator=g)[0, 0]) for _ in range(20)}
    codes = {me.scale(a, "mx32", "e4m3fn", mode="stochastic", generator=g).codes.tobytes() for _ in range(20)}
    assert len(sums) > 3 and len(codes) > 3
    seeded = {float(me.matmul(b, b.T, machine="chain:bf16:stochastic", format_a="bf16", seed=4)[0, 0]) for _ in range(3)}
    assert len(seeded) == 1


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_codes_are_the_programs(format, mode, program):
    x = adversarial(format, 512)
    for saturate in (False, True):
        words = [program, "convert", "--to", format, "--round", mode, "--seed", "9", *(["--saturate"] if saturate else [])]
        theirs = subprocess.run(words, input=x.tobytes(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        ours = me.encode(x, format, mode=mode, saturate=saturate, seed=9)
        assert ours.tobytes() == theirs


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_fp64_codes_are_the_programs(format, mode, program):
    x = adversarial(format, 512, np.float64)
    words = [program, "convert", "--from", "fp64", "--to", format, "--round", mode, "--seed", "9"]
    theirs = subprocess.run(words, input=x.tobytes(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    assert me.encode(x, format, mode=mode, seed=9).tobytes() == theirs


def test_fp64_is_rounded_once():
    """fp64 numbers are rounded directly. Rounded to fp32 first, the first number would become a tie and round down."""
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
    """The module processes chunks of 2**22 elements and checks for signals in between. The random word of an element
    must not depend on its chunk."""
    count = 2**22 + 1000
    x = np.full(count, 1.01, np.float32)
    whole = me.encode(x, "e4m3fn", mode="stochastic", seed=1)
    assert np.mean(whole == me.encode(np.float32(1.0), "e4m3fn")) == pytest.approx(0.92, abs=0.001)
    assert not same_bits(whole[-1000:], whole[:1000])
    ahead = me.encode(x.astype(np.float64)[: 2**22 + 1000], "e4m3fn", mode="stochastic", seed=1)
    assert same_bits(ahead, whole)


def fp64_through_fp32(into, cast, x, made, seed, stream, word, counts):
    """A fault for test_an_injected_fault_is_noticed: fp64 numbers are rounded to fp32 first, and then a second time."""
    return into(cast, x.astype(np.float32).astype(x.dtype), made, seed, stream, word, counts)


def random_words_of_the_chunk(into, cast, x, made, seed, stream, word, counts):
    """A fault for test_an_injected_fault_is_noticed: each chunk begins with the first random word of the stream."""
    for first in range(0, x.size, 2**22):
        last = into(cast, x.ravel()[first : first + 2**22], made.reshape(-1)[first : first + 2**22], seed, stream, word, counts)
    return last


def random_words_of_the_first_call(into, cast, x, made, seed, stream, word, counts):
    """A fault for test_an_injected_fault_is_noticed: each call begins with the first random word of the stream, as if
    the seed were constant."""
    return into(cast, x, made, seed, stream, 0, counts)


@pytest.mark.parametrize(("fault", "test"), [(fp64_through_fp32, test_fp64_is_rounded_once), (random_words_of_the_chunk, test_random_words_do_not_depend_on_chunks),
                                             (random_words_of_the_first_call, test_a_generator_advances),
                                             (random_words_of_the_first_call, test_a_generator_takes_the_words_of_one_call)],
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


def test_a_stream_out_of_range_is_refused_whether_it_is_used_or_not():
    x = np.ones(32, np.float32)
    for mode in ("nearest_even", "stochastic"):
        for words in ({"stream": -1}, {"stream": 2**32}, {"seed": -1}, {"seed": 2**64}):
            for call in (me.round, me.encode, me.tally):
                with pytest.raises(me.Error):
                    call(x, "bf16", mode=mode, **words)


def test_rates_are_shares_of_all_elements():
    x = np.array([0, -0.0, 1e-9, 2.0**-9, 1, 448, 1e6, np.inf, np.nan, np.nan], np.float32)
    counted = me.tally(x, "e4m3fn", saturate=True)
    assert counted.count == 10
    wanted = {"zero_in": 2, "underflow": 1, "to_subnormal": 1, "nan_in": 2, "inf_in": 1}
    assert {name: counted.rates()[name] for name in wanted} == {name: n / 10 for name, n in wanted.items()}
    for name, rate in counted.rates().items():
        assert rate == getattr(counted, name) / 10
    assert counted.overflow > 0 and counted.saturated > 0


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
    """Rounds all 2**32 fp32 numbers to nearest even, and compares the codes with those of ml_dtypes."""
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
        theirs = subprocess.run(words, input=x.tobytes(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        assert me.encode(x, format, mode=mode, saturate=saturate, seed=9).tobytes() == theirs


def test_refused_properties_are_those_that_show_names():
    for format in me.formats():
        for value in (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0):
            [shown] = me.show(value, format.format)
            refused = set()
            for name in ("nan", "inf", "sign", "zero", "negative_zero"):
                try:
                    me.round(np.array([value]), format.format, refuse=name)
                except me.Error:
                    refused.add(name)
            assert refused == set(shown.unheld), (format.format, value)
