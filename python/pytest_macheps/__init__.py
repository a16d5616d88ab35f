# SPDX-License-Identifier: Apache-2.0
"""Checks of kernels in pytest: fixtures `macheps_check` and `macheps_inputs`, a mark, and a summary table.

    @pytest.mark.macheps(require="precision")
    def test_gemm(macheps_check, macheps_inputs):
        for name, x in macheps_inputs("normal", shape=(64, 48, 256), a_format="bf16", b_format="bf16").items():
            out = my_kernel(x["a"], x["b"])
            macheps_check.gemm(x["a"], x["b"], out, machine="sm80.mma.bf16", a_format=..., ...)
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
    rho: float
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
        import macheps

        verdict = macheps.check(out, operation=operation, **{**self._options, **words})
        power = verdict.document.get("power", [])
        caught = sum(bool(one.get("certified") or one.get("simulated")) for one in power)
        self._rows.append(Row(self._test, operation, verdict.outcome, verdict.rho, caught, len(power), tuple(verdict.blind)))
        assert verdict, verdict.text
        return verdict

    def gemm(self, a: Any, b: Any, out: Any, **words: Any) -> Any:
        """Checks `out` as the product of `a` and `b`."""
        __tracebackhide__ = True
        return self(out, operation="gemm", a=a, b=b, **words)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):
            raise AttributeError(operation)

        def judge(out: Any, **words: Any) -> Any:
            __tracebackhide__ = True
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
            f"{row.test:<{width}}  {row.operation:<10} {row.outcome:<8} rho {row.rho:<8.3g} "
            f"caught {row.caught} of {row.mutants}, {blind}"
        )
