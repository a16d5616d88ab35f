# SPDX-License-Identifier: Apache-2.0
"""Casts in a torch graph. The forward pass rounds, and the backward pass follows the rule that the caller names."""

from __future__ import annotations

from typing import Any

from . import _casts
from ._arrays import needed
from ._errors import Error
from ._formats import finfo
from ._random import Generator, require_words

torch = needed("torch")

_RULES = ("straight_through", "clipped")


class _Round(torch.autograd.Function):  # type: ignore[misc, name-defined]
    """Casts in the forward pass. The backward pass can cast the gradient and zero it beyond the format's range."""

    @staticmethod
    def forward(context: Any, x: Any, cast: dict[str, Any], grad: str, backward: dict[str, Any] | None) -> Any:
        context.grad, context.backward, context.scale = grad, backward, cast["scale"]
        if grad == "clipped":
            limit = finfo(cast["format"]).max
            context.save_for_backward((x * cast["scale"]).abs() <= limit)
        return _casts.round(x.detach(), **cast).to(x.dtype)

    @staticmethod
    def backward(context: Any, given: Any) -> Any:
        if context.grad == "clipped":
            (reached,) = context.saved_tensors
            given = given * reached
        if context.backward is not None:
            given = _casts.round(given.detach(), **context.backward).to(given.dtype)
        if context.scale != 1:
            given = given * context.scale
        return given, None, None, None


def round(
    x: Any,
    format: str,
    mode: str = "nearest_even",
    saturate: bool = False,
    scale: float = 1.0,
    seed: int | None = None,
    stream: int = 0,
    grad: str = "straight_through",
    grad_format: str | None = None,
    grad_mode: str = "nearest_even",
    grad_saturate: bool = False,
    grad_seed: int | None = None,
    grad_stream: int = 0,
    *,
    generator: Generator | None = None,
    grad_generator: Generator | None = None,
) -> Any:
    """Rounds a CPU tensor as `macheps.round` does, with a gradient.

    With ``scale`` s, the result is round(s x). In the backward pass, the gradient with respect to s x is cast to
    ``grad_format``, if that is given, and then multiplied by s.

    Parameters
    ----------
    x, format, mode, saturate, scale, seed, stream, generator
        See `macheps.round`.
    grad : str
        ``straight_through`` passes the gradient on. ``clipped`` does the same, but gives zero where |s x| exceeds the
        format's largest finite value or is NaN.
    grad_format : str, optional
        Format to which the gradient is cast, with grad_mode, grad_saturate, grad_seed, grad_stream and grad_generator.
        Both passes may use the same generator: the backward pass takes words that the forward pass has not used.

    Examples
    --------
    >>> import torch, macheps.torch
    >>> x = torch.tensor([0.1, 1000.0], requires_grad=True)
    >>> macheps.torch.round(x, "e4m3fn", saturate=True, grad="clipped").sum().backward()
    >>> x.grad
    tensor([1., 0.])
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"macheps.torch.round needs a tensor, not {type(x).__name__}; for arrays, use macheps.round")
    if grad not in _RULES:
        raise Error(f"unknown rule for gradients '{grad}'", "grad", f"use one of {', '.join(_RULES)}")
    if not x.dtype.is_floating_point:
        raise TypeError(f"macheps.torch.round needs a floating-point tensor, not {x.dtype}")
    cast = {"format": format, "mode": mode, "saturate": saturate, "scale": float(scale), "seed": seed, "stream": stream,
            "generator": generator}
    backward = None
    if grad_format is not None:
        backward = {"format": grad_format, "mode": grad_mode, "saturate": grad_saturate, "seed": grad_seed,
                    "stream": grad_stream, "generator": grad_generator}
        # Unknown names, and a missing source of random words, are reported now, not in the backward pass.
        if _casts._cast(grad_format, grad_mode, grad_saturate, 1.0).draws:
            require_words(grad_seed, grad_generator, "grad_mode", "grad_")
    return _Round.apply(x, cast, grad, backward)
