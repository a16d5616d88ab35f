# SPDX-License-Identifier: Apache-2.0
"""Compares two things with plain NumPy: the counts of scaled casts, and products with a bias and a scale. Also tests
which verdicts convert to True."""

from __future__ import annotations

import macheps as me
import numpy as np
import pytest
from conftest import same_bits

RNG = np.random.default_rng(5)


def special_rows(format: str) -> np.ndarray:
    """Returns rows of 64 numbers: zeros, infinities, NaN, and numbers around the smallest normal number and the largest
    number of the format."""
    info = me.finfo(format)
    x = RNG.standard_normal((16, 64)).astype(np.float32)
    x[0, :8], x[1, 0], x[1, 1], x[2, 0], x[3, :] = 0, np.inf, -np.inf, np.nan, 0
    edges = np.array([1, 0.5, 0.25, 0.75, 0.999, 1.001, 2**-30], np.float32)
    x[4, :7], x[4, 7:] = edges * np.float32(info.smallest_normal or 1), 0
    x[4, 8] = info.max  # makes the scale of this row 1 if scales are powers of two
    x[5, :4] = np.float32(info.max) * np.array([1, -1, 0.99, 0.5], np.float32)
    return x


@pytest.mark.parametrize("format", ["e4m3fn", "e5m2", "e2m1fn", "e2m3fn", "e3m2fn"])
@pytest.mark.parametrize("granularity", ["row", "mx32", "1x128"])
def test_counts_of_a_cast_with_scales(format, granularity):
    x = special_rows(format)
    if granularity == "1x128":
        x = np.hstack([x, x])
    if granularity != "mx32":  # an infinity or NaN would decide the scale of a whole row
        x[1:3] = RNG.standard_normal(x[1:3].shape)
    s = me.scale(x, granularity, format)
    counts, info = s.tally(), me.finfo(format)
    elements = np.abs(me.decode(s.codes, format).astype(np.float64))  # without the scales
    finite = np.isfinite(x)
    assert counts.count == x.size
    assert counts.nan_in == int(np.isnan(x).sum()) and counts.inf_in == int(np.isinf(x).sum())
    assert counts.zero_in == int((x == 0).sum()) > 60
    assert counts.underflow == int((finite & (x != 0) & (s.decoded == 0)).sum())
    assert counts.to_subnormal == int((finite & (elements > 0) & (elements < info.smallest_normal)).sum())
    assert counts.saturated == int((finite & (elements == info.max)).sum())
    some = np.abs(x[finite & (x != 0)])
    assert counts.amax == some.max() and counts.amin_nz == some.min()


def test_the_smallest_normal_number_is_not_subnormal():
    info = me.finfo("e4m3fn")
    x = np.full((1, 32), info.smallest_normal, np.float32)
    x[0, 0], x[0, 1], x[0, 2] = info.max, info.smallest_normal / 2, 0
    counts = me.scale(x, "mx32", "e4m3fn").tally()  # all scales are 1
    assert (counts.to_subnormal, counts.underflow, counts.zero_in, counts.saturated) == (1, 0, 1, 1)


@pytest.mark.parametrize("machine", ["fp32.chain", "pairwise:fp32", "chain:fp16", "chain:bf16", "sm90.wgmma.fp8"])
@pytest.mark.parametrize("out_format", [None, "bf16", "fp16"])
def test_scale_comes_before_bias_on_every_machine(machine, out_format):
    a = me.round(RNG.standard_normal((9, 40)).astype(np.float32), "e4m3fn")
    b = me.round(RNG.standard_normal((40, 7)).astype(np.float32), "e4m3fn")
    bias = RNG.standard_normal(7).astype(np.float32)
    formats = {"format_a": "e4m3fn"} if machine.startswith("sm90") else {}
    sums = me.matmul(a, b, machine=machine, **formats)
    wanted = sums * np.float32(0.75) + bias
    made = me.matmul(a, b, machine=machine, bias=bias, scale=0.75, out_format=out_format, **formats)
    own = machine.partition(":")[2] or "fp32"  # an order of summation gives results in its own format
    assert same_bits(made, me.round(wanted, out_format or own))


def test_a_promotion_is_that_of_the_named_machine():
    a = me.round(RNG.standard_normal((8, 512)).astype(np.float32), "e4m3fn")
    b = me.round(RNG.standard_normal((512, 8)).astype(np.float32), "e4m3fn")
    plain = me.matmul(a, b, machine="sm90.wgmma.fp8", format_a="e4m3fn")
    for none in (None, 0):
        assert same_bits(me.matmul(a, b, machine="sm90.wgmma.fp8", promote=none, format_a="e4m3fn"), plain)
    for promote in (32, 64, 128):
        made = me.matmul(a, b, machine="sm90.wgmma.fp8", promote=promote, format_a="e4m3fn")
        assert same_bits(made, me.matmul(a, b, machine=f"sm90.wgmma.fp8+promote{promote}", format_a="e4m3fn"))
        assert not same_bits(made, plain)
    for promote in (1, 31, 33):
        with pytest.raises(me.Error, match=rf"promote{promote}: {promote} is not a multiple"):
            me.matmul(a, b, machine="sm90.wgmma.fp8", promote=promote, format_a="e4m3fn")


@pytest.mark.parametrize(
    ("granularity", "format", "machine"),
    [("tensor", "e4m3fn", "fp32.chain"), ("mx32", "e4m3fn", "sm100.tcgen05.mxfp8"), ("nvfp4", "e2m1fn", "sm100.tcgen05.nvfp4")],
)
def test_a_product_of_scaled_operands_has_all_their_scales(granularity, format, machine):
    a, b = RNG.standard_normal((16, 128), dtype=np.float32) * 3, RNG.standard_normal((128, 32), dtype=np.float32) * 5
    left, right = me.scale(a, granularity, format), me.scale(b, granularity, format, axis=None if granularity == "tensor" else 0)
    sizes = np.abs(left.decoded).astype(np.float64) @ np.abs(right.decoded).astype(np.float64)
    exact = left.decoded.astype(np.float64) @ right.decoded.astype(np.float64)
    # An element is a sum of 128 products. The bound allows for partial sums that are truncated or rounded to at least
    # 23 bits, and for three roundings of scales.
    assert (np.abs(me.matmul(left, right, machine=machine) - exact) <= 132 * 2.0**-23 * sizes).all()


def test_only_a_pass_is_true_and_a_weak_verdict_where_it_was_allowed():
    for outcome in ("pass", "fail", "weak", "refused", "declined"):
        for allow_weak in (False, True):
            verdict = me.Verdict(outcome, "", {}, np.zeros(0), np.zeros(0), np.zeros(0), allow_weak)
            assert bool(verdict) == (outcome == "pass" or (outcome == "weak" and allow_weak))
