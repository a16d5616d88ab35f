# SPDX-License-Identifier: Apache-2.0
"""Matrix products and scales."""

from __future__ import annotations

import csv
import io
import subprocess

import macheps as me
import numpy as np
import pytest
from conftest import same_bits

RNG = np.random.default_rng(2)
A, B = RNG.standard_normal((37, 96), dtype=np.float32), RNG.standard_normal((96, 29), dtype=np.float32)


def test_fp32_chain_is_its_definition():
    small_a, small_b = A[:3, :20], B[:20, :4]
    want = np.zeros((3, 4), np.float32)
    for t in range(20):  # longdouble rounds once more than an fma, which does not change these results
        want = (small_a[:, t : t + 1].astype(np.longdouble) * small_b[t].astype(np.longdouble) + want).astype(np.float32)
    assert same_bits(me.matmul(small_a, small_b), want)


def test_exact_is_the_sum_rounded_once():
    from fractions import Fraction

    made = me.matmul(A[:2], B[:, :2], machine="exact")
    for i in range(2):
        for j in range(2):
            exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(A[i], B[:, j], strict=True))
            assert made[i, j] == np.float32(float(exact))


def test_an_order_in_a_format():
    a, b = me.round(A, "fp16"), me.round(B, "fp16")
    made = me.matmul(a, b, machine="chain:fp16", format_a="fp16")
    total = np.float64(0)
    for x, y in zip(a[0].astype(np.float64), b[:, 0].astype(np.float64), strict=True):
        total = np.float64(np.float16(total + x * y))
    assert made[0, 0] == total or abs(made[0, 0] - total) <= 2 * np.spacing(np.float16(total))


def test_the_accumulator_of_hopper_stalls(program):
    made = subprocess.run([program, "gemm", "-d", "equal", "--scale", "0.0625", "--sweep", "k=16384..65536", "-m", "1", "-n", "1",
                           "-f", "e4m3fn", "-M", "sm90.wgmma.fp8,sm90.wgmma.fp8+promote128", "-q"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    rows = [row for row in csv.DictReader(io.StringIO(made))]
    assert rows
    for row in rows:
        a = np.full((1, int(row["k"])), 0.0625, np.float32)
        ours = me.matmul(a, a.T, machine=row["machine"], format_a="e4m3fn")
        assert float(ours[0, 0]) == float(row["first"])
    assert [float(row["first"]) for row in rows if row["k"] == "65536"] == [64.0, 256.0]


def test_operands_must_be_on_their_grid():
    with pytest.raises(me.Error, match="round them first"):
        me.matmul(A, B, machine="sm90.wgmma.fp8", format_a="e4m3fn")
    with pytest.raises(TypeError, match="fp32 numbers"):
        me.matmul(A.astype(np.float64) / 3, B)
    with pytest.raises(me.Error, match="shapes disagree"):
        me.matmul(A, A)
    with pytest.raises(me.Error, match="unknown machine"):
        me.matmul(A, B, machine="sm90.wgmma.fp9")
    with pytest.raises(me.Error):
        me.matmul(me.round(A, "fp16"), me.round(B, "fp16"), machine="sm90.wgmma.fp8", format_a="fp16")
    with pytest.raises(me.Error, match="bias"):
        me.matmul(A, B, bias=np.zeros(5, np.float32))


def test_bias_scale_and_output_format():
    bias = RNG.standard_normal(29, dtype=np.float32)
    made = me.matmul(A, B, bias=bias, scale=0.5, out_format="bf16")
    assert same_bits(made, me.round(me.matmul(A, B) * np.float32(0.5) + bias, "bf16"))


def test_empty_products():
    assert me.matmul(A[:0], B).shape == (0, 29)
    assert me.matmul(A[:, :0], B[:0]).tolist() == np.zeros((37, 29)).tolist()


def test_out_and_rows_in_pieces():
    out = np.empty((37, 29), np.float32)
    assert me.matmul(A, B, out=out) is out and same_bits(out, me.matmul(A, B))
    assert same_bits(np.vstack([me.matmul(A[i : i + 1], B) for i in range(37)]), out)


@pytest.mark.parametrize(("granularity", "format"), [
    ("tensor", "e4m3fn"), ("row", "e4m3fn"), ("1x128", "e4m3fn"), ("128x128", "e5m2"), ("mx32", "e2m1fn"), ("mx32", "e4m3fn"), ("nvfp4", "e2m1fn"),
])  # fmt: skip
def test_scales_and_codes_give_the_decoded_values(granularity, format):
    x = RNG.standard_normal((256, 256), dtype=np.float32) * np.exp(RNG.standard_normal((256, 1))).astype(np.float32)
    s = me.scale(x, granularity, format)
    down, across = (-(-n // m) for n, m in zip(x.shape, s.scales.shape, strict=True))
    scales = np.repeat(np.repeat(s.scales, down, 0), across, 1)[:256, :256]
    values = me.decode(s.codes, format) * scales
    if s.tensor_scale is not None:
        values = values * np.float32(s.tensor_scale)
    assert same_bits(values, s.decoded)
    error = np.abs(s.decoded - x) / np.abs(x).max()
    assert error.max() < me.finfo(format).unit_roundoff * 2
    if s.scale_codes is not None:
        kind = "e4m3fn" if granularity == "nvfp4" else "e8m0fnu"
        assert same_bits(me.decode(s.scale_codes, kind), s.scales)
    counts = s.tally()
    assert counts.count == x.size and counts.underflow == int(((s.decoded == 0) & (x != 0)).sum())
    assert "Scaled(" in repr(s) and "<table" in s._repr_html_()


def test_scales_are_the_programs(tmp_path, program):
    x = RNG.standard_normal((64, 96), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    for granularity, format in (("mx32", "e4m3fn"), ("nvfp4", "e2m1fn"), ("row", "e4m3fn"), ("tensor", "e5m2")):
        subprocess.run([program, "convert", "--to", format, "--granularity", granularity, str(tmp_path / "x.npy"), "-o",
                        str(tmp_path / "x.npz")], check=True, capture_output=True)  # fmt: skip
        theirs, ours = np.load(tmp_path / "x.npz"), me.scale(x, granularity, format)
        assert same_bits(theirs["codes"], ours.codes) and same_bits(theirs["scales"], ours.scales)
        assert same_bits(theirs["decoded"], ours.decoded)


def test_scaled_operands():
    a, b = RNG.standard_normal((16, 128), dtype=np.float32), RNG.standard_normal((128, 32), dtype=np.float32)
    sa, sb = me.scale(a, "mx32", "e4m3fn"), me.scale(b, "mx32", "e4m3fn", axis=0)
    exact = sa.decoded.astype(np.float64) @ sb.decoded.astype(np.float64)
    made = me.matmul(sa, sb, machine="sm100.tcgen05.mxfp8")
    assert np.abs(made - exact).max() < 1e-4 * np.abs(exact).max()
    ta, tb = me.scale(a, "tensor", "e4m3fn"), me.scale(b, "tensor", "e4m3fn")
    made = me.matmul(ta, tb, machine="sm90.wgmma.fp8", promote=128)
    exact = ta.decoded.astype(np.float64) @ tb.decoded.astype(np.float64)
    assert np.abs(made - exact).max() < 1e-3 * np.abs(exact).max()
    ra, rb = me.scale(a, "row", "e4m3fn"), me.scale(b, "column", "e4m3fn")
    exact = ra.decoded.astype(np.float64) @ rb.decoded.astype(np.float64)
    assert np.abs(me.matmul(ra, rb, machine="sm90.wgmma.fp8", promote=128) - exact).max() < 1e-3 * np.abs(exact).max()
    with pytest.raises(me.Error, match="wrong axis"):
        me.matmul(sa, me.scale(b, "mx32", "e4m3fn", axis=1), machine="sm100.tcgen05.mxfp8")


def test_wrong_words_of_scales():
    x = np.ones((4, 64), np.float32)
    for call in (lambda: me.scale(x, "mx33", "e4m3fn"), lambda: me.scale(x, "mx32", "e9m9"), lambda: me.scale(x[:, :40], "mx32", "e4m3fn"),
                 lambda: me.scale(x[0], "row", "e4m3fn"), lambda: me.scale(x, "row", "e4m3fn", axis=2),
                 lambda: me.scale(x, "row", "e4m3fn", rule="none")):  # fmt: skip
        with pytest.raises(me.Error):
            call()
