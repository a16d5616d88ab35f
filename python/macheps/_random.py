# SPDX-License-Identifier: Apache-2.0
"""Random words for stochastic rounding: a generator whose state advances, or a seed for one call."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from . import _core
from ._arrays import Array
from ._errors import Error
from ._whole import whole

_END = 2**62  #: upper limit of positions, which keeps the signed counters of the extension module from overflowing


class Generator:
    """A stream of random words for stochastic rounding. Each call that rounds with it takes the next words.

    A call on n elements takes n words and advances the position by n, so no word is used twice. The words depend only
    on the seed, the stream and the position, on every machine and for any number of threads. Threads may share a
    generator. Then the order of their calls determines which words each thread gets.

    Parameters
    ----------
    seed : int
        From 0 to 2**64 - 1.
    stream : int
        From 0 to 2**32 - 1. Different streams of the same seed have different words.

    Examples
    --------
    >>> import macheps as me
    >>> g = me.Generator(1)
    >>> x = 1.0
    >>> for _ in range(1000):
    ...     x = me.round(x + 2.0**-10, "bf16", mode="stochastic", generator=g)
    >>> bool(1.8 < x < 2.2)
    True
    >>> g
    Generator(seed=1, stream=0, position=1000)
    >>> saved = g.state
    >>> first = me.round([0.1] * 5, "bf16", mode="stochastic", generator=g)
    >>> g.state = saved
    >>> bool((me.round([0.1] * 5, "bf16", mode="stochastic", generator=g) == first).all())
    True
    """

    __slots__ = ("_lock", "_position", "_seed", "_stream")

    def __init__(self, seed: int, stream: int = 0) -> None:
        self._lock = threading.Lock()
        self._seed, self._stream = words_of(seed, stream)
        self._position = 0

    @property
    def seed(self) -> int:
        """The seed of the generator."""
        return self._seed

    @property
    def stream(self) -> int:
        """The stream of the generator."""
        return self._stream

    @property
    def position(self) -> int:
        """The number of words taken so far."""
        return self._position

    @property
    def state(self) -> dict[str, int]:
        """Seed, stream and position, as plain numbers that can be saved. Assign a saved state to restore it."""
        return {"seed": self._seed, "stream": self._stream, "position": self._position}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        if not isinstance(state, dict) or set(state) != {"seed", "stream", "position"}:
            raise Error("the state is incomplete", "state", "assign a state that Generator.state returned")
        seed, stream = words_of(state["seed"], state["stream"])
        position = whole(state["position"], "position", 0, _END - 1)
        with self._lock:
            self._seed, self._stream, self._position = seed, stream, position

    def words(self, count: int) -> Array:
        """Takes the next `count` random words from the stream and returns them as unsigned integers of 32 bits.

        Examples
        --------
        >>> import macheps as me
        >>> g = me.Generator(7)
        >>> len(g.words(4)), g.position
        (4, 4)
        """
        made = np.empty(whole(count, "count", 0, 2**62), np.uint32)
        seed, stream, first = self._take(made.size)
        _core.random_words(seed, stream, first, made)
        return made

    def _take(self, count: int) -> tuple[int, int, int]:
        """Reserves `count` words for the caller. Returns the seed, the stream and the first position."""
        with self._lock:
            first = self._position
            if first + count > _END:
                raise Error("the stream has no more random words", "generator", "use a Generator with another seed or stream")
            self._position = first + count
            return self._seed, self._stream, first

    def __getstate__(self) -> dict[str, int]:
        return self.state

    def __setstate__(self, state: dict[str, int]) -> None:
        self._lock = threading.Lock()
        self.state = state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Generator) and self.state == other.state

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed}, stream={self._stream}, position={self._position})"


def words_of(seed: Any, stream: Any) -> tuple[int, int]:
    """Returns a seed and a stream. Raises `Error` if one of them is out of range."""
    return whole(seed, "seed", 0, 2**64 - 1), whole(stream, "stream", 0, 2**32 - 1)


def require_words(seed: int | None, generator: Generator | None, where: str = "mode", prefix: str = "") -> None:
    """Raises `Error` if a stochastic rounding has no source of random words, or two sources."""
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"{prefix}generator is a macheps.Generator, not {type(generator).__name__}")
    if seed is not None and generator is not None:
        raise Error(f"{prefix}seed and {prefix}generator cannot be used together", f"{prefix}seed", "leave one of them out")
    if seed is None and generator is None:
        raise Error("stochastic rounding has no random words", where,
                    f"pass {prefix}generator=macheps.Generator(1), which gives new words in every call, or {prefix}seed=1 for one call")


def random_words(draws: bool, seed: int | None, stream: int, generator: Generator | None, count: int) -> tuple[int, int, int]:
    """Returns the seed, stream and first position of the words for `count` elements, or zeros if `draws` is false."""
    if not draws:
        words_of(0 if seed is None else seed, stream)
        return 0, 0, 0
    require_words(seed, generator)
    if generator is not None:
        if stream != 0:
            raise Error("stream and generator cannot be used together", "stream", "create the Generator with that stream")
        return generator._take(count)
    return (*words_of(seed, stream), 0)


def call_seed(seed: int | None, generator: Generator | None) -> int:
    """Returns the seed of one call: the given seed, or 64 bits from the generator."""
    require_words(seed, generator)
    if generator is None:
        return words_of(seed, 0)[0]
    low, high = generator.words(2).tolist()
    return int(high) << 32 | int(low)


__all__ = ["Generator", "call_seed", "random_words", "require_words", "words_of"]
