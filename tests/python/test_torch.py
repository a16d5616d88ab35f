# SPDX-License-Identifier: Apache-2.0
"""Tests functions of tensors: results, refusals, and gradients computed by hand. Skipped if torch is missing; no script
installs it."""

from __future__ import annotations

import macheps as me
import numpy as np
import pytest
from conftest import adversarial, same_bits

torch = pytest.importorskip("torch")

X = adversarial("e4m3fn", 500)


def test_tensors_give_tensors():
    t = torch.from_numpy(X.copy())
    made = me.encode(t, "e4m3fn")
    assert isinstance(made, torch.Tensor) and same_bits(made.numpy(), me.encode(X, "e4m3fn"))
    assert same_bits(me.round(t.double(), "bf16").numpy(), me.round(X.astype(np.float64), "bf16"))
    strided = torch.stack([t, t], 1)[:, 0]
    assert not strided.is_contiguous() and same_bits(me.encode(strided, "e4m3fn").numpy(), made.numpy())
    out = torch.empty_like(t)
    assert me.round(t, "e4m3fn", out=out) is out and same_bits(out.numpy(), me.round(X, "e4m3fn"))


def test_torchs_own_casts_agree():
    finite = X[np.isfinite(X)]
    t = torch.from_numpy(finite.copy())
    assert torch.equal(me.encode(t, "bf16", dtype="torch"), t.to(torch.bfloat16))
    small = t[t.abs() <= 448]
    assert torch.equal(me.encode(small, "e4m3fn", dtype="torch").float(), small.to(torch.float8_e4m3fn).float())
    assert torch.equal(me.decode(small.to(torch.float8_e4m3fn)), small.to(torch.float8_e4m3fn).float())
    assert torch.equal(me.round(t.to(torch.bfloat16), "e5m2"), me.round(t.to(torch.bfloat16).float(), "e5m2"))
    assert torch.equal(me.round(t.half(), "e5m2"), me.round(t.half().float(), "e5m2"))


def test_gradients_are_not_lost_in_silence():
    t = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match=r'round\(\) has no gradient; use macheps.torch.round\(x, ..., grad="straight_through"\)'):
        me.round(t, "bf16")
    with pytest.raises(TypeError, match="has no gradient"):
        me.encode(t * 2, "bf16")
    with torch.no_grad():
        assert me.round(t, "bf16").tolist() == [1, 1, 1]
    assert me.tally(t, "bf16").count == 3


def test_tensors_elsewhere_are_refused():
    meta = torch.ones(3, device="meta")
    with pytest.raises(TypeError, match=r"pass x.cpu\(\)"):
        me.round(meta, "bf16")
    with pytest.raises(TypeError, match="to_dense"):
        me.round(torch.eye(3).to_sparse(), "bf16")
    with pytest.raises(TypeError):
        me.round(torch.ones(3, dtype=torch.complex64), "bf16")


def graph(x, **words):
    import macheps.torch as mt

    t = torch.tensor(x, requires_grad=True)
    (mt.round(t, "e4m3fn", **words) * torch.tensor([1.0, 1.3, -0.7, 2.0])).sum().backward()
    return t.grad.tolist()


NUMBERS = [0.1, -3.3, 1000.0, float("nan")]


def test_straight_through():
    assert graph(NUMBERS) == pytest.approx([1.0, 1.3, -0.7, 2.0])


def test_clipped():
    assert graph(NUMBERS, grad="clipped", saturate=True) == pytest.approx([1.0, 1.3, 0.0, 0.0])
    assert graph(NUMBERS, grad="clipped", saturate=True, scale=1000.0) == pytest.approx([1000.0, 0.0, 0.0, 0.0])


def test_a_scale_is_a_factor_of_the_gradient():
    import macheps.torch as mt

    # round(x, scale=s) / s has the same gradient as x * s / s.
    for scale in (0.25, 1.0, 3.0, 512.0):
        rounded, plain = (torch.tensor([0.3, -1.7], requires_grad=True) for _ in range(2))
        weights = torch.tensor([1.5, -0.25])
        (mt.round(rounded, "bf16", scale=scale) / scale * weights).sum().backward()
        ((plain * scale) / scale * weights).sum().backward()
        assert torch.equal(rounded.grad, plain.grad)
    # The gradient is cast before it is multiplied by the scale: 1.3 rounds to 1.25 in e5m2, and 1.25 * 3 = 3.75.
    t = torch.tensor([0.3], requires_grad=True)
    (mt.round(t, "bf16", scale=3.0, grad_format="e5m2") * 1.3).sum().backward()
    assert t.grad.tolist() == [3.75]


def test_a_gradient_that_is_cast():
    assert graph(NUMBERS, grad_format="e5m2") == [1.0, 1.25, -0.75, 2.0]  # two fraction bits: 1.3 to 1.25, 0.7 to 0.75
    assert graph(NUMBERS, grad="clipped", saturate=True, grad_format="e5m2") == [1.0, 1.25, 0.0, 0.0]
    assert graph(NUMBERS, grad_format="e5m2", grad_mode="toward_zero") == [1.0, 1.25, -0.625, 2.0]


def test_a_gradient_that_is_rounded_stochastically():
    import macheps.torch as mt

    t = torch.ones(20000, requires_grad=True)
    (mt.round(t, "e4m3fn", grad_format="e5m2", grad_mode="stochastic", grad_seed=4) * 1.3).sum().backward()
    assert set(t.grad.tolist()) == {1.25, 1.5} and abs(t.grad.mean().item() - 1.3) < 0.005
    want = me.round(np.full(20000, 1.3, np.float32), "e5m2", mode="stochastic", seed=4)
    assert same_bits(t.grad.numpy(), want)


def test_the_forward_pass_is_the_cast():
    import macheps.torch as mt

    t = torch.from_numpy(X.copy()).requires_grad_()
    made = mt.round(t, "e4m3fn", saturate=True)
    assert made.requires_grad and same_bits(made.detach().numpy(), me.round(X, "e4m3fn", saturate=True))
    assert mt.round(torch.ones(2, dtype=torch.bfloat16), "e4m3fn").dtype == torch.bfloat16


def test_wrong_words():
    import macheps.torch as mt

    t = torch.ones(2, requires_grad=True)
    for call in (lambda: mt.round(t, "e4m3fn", grad="none"), lambda: mt.round(t, "e4m3fn", grad_format="e4m3fm"),
                 lambda: mt.round(t, "e4m4fn"), lambda: mt.round(t, "e4m3fn", grad_format="e5m2", grad_mode="up-ish")):  # fmt: skip
        with pytest.raises(me.Error):
            call()
    for call in (lambda: mt.round([1.0], "e4m3fn"), lambda: mt.round(torch.ones(2, dtype=torch.int32), "e4m3fn")):
        with pytest.raises(TypeError):
            call()


def test_made_inputs_are_tensors_of_the_declared_format():
    types = {"fp16": torch.float16, "bf16": torch.bfloat16, "e4m3fn": torch.float8_e4m3fn, "fp32": torch.float32}
    for format, kind in types.items():
        words = {"x_format": format, "shape": (4, 8)}
        made, numbers = (me.make_inputs("cross_entropy", "normal", dtype=dtype, **words)["normal"] for dtype in ("torch", "float32"))
        assert made["x"].dtype == kind and made["target"].dtype == torch.int64
        assert same_bits(made["x"].float().numpy(), numbers["x"]) and np.array_equal(made["target"].numpy(), numbers["target"])
        assert me.check(torch.zeros(4), operation="cross_entropy", **made).outcome == "fail"
