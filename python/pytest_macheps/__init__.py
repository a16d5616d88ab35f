# SPDX-License-Identifier: Apache-2.0
"""Checks of kernels in pytest: fixtures `macheps_check` and `macheps_inputs`, a mark, and a summary table.

    import numpy

    def my_softmax(x):  # the kernel to check
        e = numpy.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def test_my_softmax(macheps_check, macheps_inputs):
        for name, arrays in macheps_inputs(["normal", "large"], operation="softmax", shape=(64, 1000)).items():
            x = arrays["x"]
            macheps_check.softmax(my_softmax(x), x=x, allow_weak=True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

ROWS = pytest.StashKey[list["Row"]]()


class Row(NamedTuple):
    """A row of the summary table: the result of a check, and the wrong kernels that its inputs would not reveal."""

    test: str
    operation: str
    outcome: str
    errors: str
    caught: int
    mutants: int
    blind: tuple[str, ...]


class Checker:
    """Runs checks: `macheps_check.gemm(a, b, out, ...)`, `.softmax(out, x=x)`, ...

    A call raises AssertionError with the full text of the verdict if the kernel does not pass or if the check is weak.
    A check is weak if its inputs would not reveal every required wrong kernel."""

    def __init__(self, test: str, options: dict[str, Any], rows: list[Row]) -> None:
        self._test, self._options, self._rows = test, options, rows

    def __call__(self, out: Any, operation: str = "gemm", **words: Any) -> Any:
        __tracebackhide__ = True
        from macheps._check import checked
        from macheps._products import spelled

        others = {"require": "structure", **self._options, **words}
        if "promote" in others:
            others["machine"] = spelled(others.get("machine", "sliced"), others.pop("promote"))
        verdict = checked(operation, {"out": out}, others, {}, fixture="macheps_check")
        power = verdict.document.get("power", [])
        caught = sum(bool(one.get("certified") or one.get("simulated")) for one in power)
        self._rows.append(Row(self._test, operation, verdict.outcome, verdict.errors, caught, len(power), tuple(verdict.blind)))
        assert verdict, verdict.text
        return verdict

    def gemm(self, a: Any = None, b: Any = None, out: Any = None, **words: Any) -> Any:
        """Checks `out` as the product of `a` and `b`."""
        __tracebackhide__ = True
        return self(out, operation="gemm", a=a, b=b, **words)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):
            raise AttributeError(operation)

        def judge(out: Any = None, *unnamed: Any, **words: Any) -> Any:
            __tracebackhide__ = True
            if unnamed:
                from macheps._check import right_call

                raise TypeError(f"only out has no name; call {right_call(operation, 'macheps_check')}")
            return self(out, operation=operation, **words)

        return judge


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []
    config.addinivalue_line("markers", "macheps(require=..., rtol=..., allow_weak=...): requirements of the checks in this test")


@pytest.fixture
def macheps_check(request: pytest.FixtureRequest) -> Checker:
    """Checks outputs of kernels; see `macheps.check`."""
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("macheps"))):  # the nearest mark wins
        options.update(mark.kwargs)
    return Checker(request.node.nodeid, options, request.config.stash[ROWS])


@pytest.fixture
def macheps_inputs() -> Callable[..., dict[str, dict[str, Any]]]:
    """Makes inputs that reveal wrong kernels, by recipe; see `macheps.make_inputs`."""

    def make(recipe: str | list[str] | None = None, operation: str = "gemm", **words: Any) -> dict[str, dict[str, Any]]:
        import macheps

        return macheps.make_inputs(operation, recipe, **words)

    return make


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("macheps: results of the checks, and their power")
    width = max(len(row.test) for row in rows)
    for row in rows:
        blind = f"blind to {', '.join(row.blind[:4])}{' ...' if len(row.blind) > 4 else ''}" if row.blind else "blind to none"
        terminalreporter.write_line(
            f"{row.test:<{width}}  {row.operation:<10} {row.outcome:<8} {row.errors:<12} "
            f"caught {row.caught} of {row.mutants}, {blind}"
        )
