# SPDX-License-Identifier: Apache-2.0
"""Checks of kernels in pytest: fixtures `macheps_check` and `macheps_inputs`, a mark, and a summary table.

    import numpy

    def my_softmax(x):  # the kernel to check: fp16 in, fp16 out
        e = numpy.exp(x.astype(numpy.float32) - x.max(axis=1, keepdims=True))
        return (e / e.sum(axis=1, keepdims=True)).astype(numpy.float16)

    def test_my_softmax(macheps_check, macheps_inputs):
        inputs = macheps_inputs("softmax", shape=(64, 1000), x_format="fp16", out_format="fp16")
        macheps_check.suite("softmax", my_softmax, inputs)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

ROWS = pytest.StashKey[list["Row"]]()
#: Maps the shape and a digest of each array that `macheps_inputs` made in this test to the names of its inputs.
MADE = pytest.StashKey[dict[Any, list[str]]]()
#: Outcomes, the gravest first.
OUTCOMES = ("fail", "refused", "declined", "weak", "pass")
#: Number of inputs of a suite for which an AssertionError contains the full text of the verdict.
MOST_TEXTS = 3


class Row(NamedTuple):
    """A row of the summary table: the result of a check, and the wrong kernels that its inputs would not reveal."""

    test: str
    operation: str
    inputs: str
    outcome: str
    errors: str
    caught: int
    mutants: int
    blind: tuple[str, ...]


def _digest(array: Any) -> Any:
    """Returns the shape and a digest of an array, or None for an object that is not an array."""
    from macheps._arrays import _to_numpy

    try:
        numbers = _to_numpy(array, "check")[0]
    except (TypeError, ValueError):
        return None
    return numbers.shape, hashlib.sha256(numbers.tobytes()).digest()


def _gravity(verdict: Any) -> tuple[int, bool, float]:
    """Returns a key that sorts verdicts, the gravest first. Exact outputs come last: their rho says nothing."""
    return OUTCOMES.index(verdict.outcome), verdict.errors == "exact", -verdict.rho


def _shown(name: str, verdict: Any) -> str:
    """Returns the name of an input, and its shapes and formats."""
    problem = verdict.document["problem"].removeprefix(verdict.document["op"]).strip()
    return f"{name} ({problem})" if name else problem


def _row_of(test: str, inputs: str, verdicts: list[Any]) -> Row:
    """Returns the row of a check with these verdicts, one for each input."""
    worst = min(verdicts, key=_gravity)
    blind = {name: None for verdict in verdicts for name in verdict.blind}
    mutants = {one["mutant"] for verdict in verdicts for one in verdict.document.get("power", [])} | blind.keys()
    return Row(test, worst.document["op"], inputs, worst.outcome, worst.errors, len(mutants) - len(blind), len(mutants), tuple(blind))


class Checker:
    """Checks a kernel: `macheps_check.gemm(a, b, out)`, `.softmax(x, out)`, `.rmsnorm(x, out, eps=1e-5)`, ...

    Every operation takes its operands in the order of `macheps check --help OP`, then the kernel's output. All arrays can
    also be passed by name, as in `softmax(x=x, out=out)`. Optional arrays, declarations and options are passed by name,
    as in `macheps.check`. `name="..."` names the input in messages; arrays of `macheps_inputs` have the name of their
    recipe.

    A call raises AssertionError with the full text of the verdict if the kernel does not pass or if the check is weak.
    A check is weak if its inputs would not reveal every required wrong kernel. Each call is a check of its own. `suite`
    checks the kernel on several inputs, which are one check."""

    def __init__(self, test: str, options: dict[str, Any], rows: list[Row], made: dict[Any, list[str]] | None = None) -> None:
        self._test, self._options, self._rows = test, options, rows
        self._made = {} if made is None else made

    def __call__(self, *arrays: Any, operation: str = "gemm", name: str = "", **words: Any) -> Any:
        __tracebackhide__ = True
        from macheps._check import _nearest_operation, arrays_by_name, right_call, shows_call

        with shows_call(right_call(_nearest_operation(operation), "macheps_check")):
            named = arrays_by_name(operation, arrays, {word: value for word, value in words.items() if value is not None})
            verdict = self._verdicts(operation, [named], words)[0]
        name = name or self._made_name({**named, **words})
        self._rows.append(_row_of(self._test, _shown(name, verdict), [verdict]))
        if not verdict:
            raise AssertionError(f"input {name}: {verdict.text}" if name else verdict.text)
        return verdict

    def suite(self, operation: str, kernel: Callable[..., Any], inputs: Mapping[str, Mapping[str, Any]], **words: Any) -> Any:
        """Runs a kernel on each input and checks the outputs as one check. Returns the verdicts by name of input.

        `inputs` is the result of `macheps_inputs`. The kernel gets the arrays of an input in their order, as in
        `kernel(a, b)`. It returns its output, or a dictionary such as `{"out": y, "scale": s}`. It is enough if one of
        the inputs reveals a wrong kernel, so a suite of the default recipes needs no `allow_weak`. `words` are
        declarations and options for all inputs."""
        __tracebackhide__ = True
        from macheps._check import _nearest_operation, call_of_make_inputs, needed_words, shows_call
        from macheps._errors import Error

        nearest = _nearest_operation(operation)
        words_of_call = "".join(f", {word}" for word in needed_words(nearest))
        call = f'macheps_check.suite("{nearest}", kernel, {call_of_make_inputs(nearest, "macheps_inputs")}{words_of_call})'
        with shows_call(call):
            if not callable(kernel):
                raise Error(f"the kernel is not a function, but a {type(kernel).__name__}", "kernel", "")
            if not isinstance(inputs, Mapping) or not inputs or not all(isinstance(arrays, Mapping) for arrays in inputs.values()):
                raise Error("inputs is not a dictionary with the arrays of each input", "inputs", "pass the result of macheps_inputs")
        outputs = [kernel(*arrays.values()) for arrays in inputs.values()]
        given = [{**arrays, **(made if isinstance(made, Mapping) else {"out": made})}
                 for arrays, made in zip(inputs.values(), outputs)]  # fmt: skip
        with shows_call(call):
            verdicts = dict(zip(inputs, self._verdicts(operation, given, words)))
        failed = [(name, verdict) for name, verdict in verdicts.items() if not verdict]
        failed.sort(key=lambda each: _gravity(each[1]))
        worst = f", worst: {_shown(*failed[0])}" if failed else ""
        self._rows.append(_row_of(self._test, f"{len(inputs)} inputs{worst}", list(verdicts.values())))
        texts = [f"input {name}: {verdict.text}" for name, verdict in failed[:MOST_TEXTS]]
        lines = [f"input {name}: {verdict.outcome}, {verdict.errors}" for name, verdict in failed[MOST_TEXTS:]]
        if failed:
            raise AssertionError("\n".join([f"{len(failed)} of {len(inputs)} inputs did not pass", *texts, *lines]))
        return verdicts

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):
            raise AttributeError(operation)

        def judge(*arrays: Any, **words: Any) -> Any:
            __tracebackhide__ = True
            return self(*arrays, **{**words, "operation": operation})

        return judge

    def _verdicts(self, operation: str, inputs: list[dict[str, Any]], words: dict[str, Any]) -> list[Any]:
        """Returns the verdicts on the inputs of one check."""
        from macheps._check import checked_inputs
        from macheps._products import spelled

        others = {"require": "structure", **self._options, **words}
        if "promote" in others:
            others["machine"] = spelled(others.get("machine", "sliced"), others.pop("promote"))
        return checked_inputs(operation, inputs, others, {})

    def _made_name(self, arrays: Mapping[str, Any]) -> str:
        """Returns the name of the input to which all operands belong that `macheps_inputs` made, or an empty text."""
        names = [self._made[key] for name, array in arrays.items() if name != "out" and (key := _digest(array)) in self._made]
        return next((name for name in names[0] if all(name in others for others in names)), "") if names else ""


def _operation_and_recipe(unnamed: tuple[Any, ...], operation: Any, recipe: Any) -> tuple[str, Any]:
    """Returns the operation and the recipes of a call of `macheps_inputs`, which may pass both without names."""
    from macheps._check import call_of_make_inputs, operation_names
    from macheps._errors import Error

    for value in unnamed:
        if operation is None and isinstance(value, str) and value in operation_names():
            operation = value
        elif recipe is None:
            recipe = value
        else:
            call = call_of_make_inputs(operation or "gemm", "macheps_inputs")
            raise Error("only an operation and its recipes can be passed without names", "macheps_inputs", f"call {call}")
    return operation or "gemm", recipe


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []
    config.addinivalue_line("markers", "macheps(require=..., rtol=..., allow_weak=...): requirements of the checks in this test")


@pytest.fixture
def macheps_check(request: pytest.FixtureRequest) -> Checker:
    """Checks outputs of kernels; see `Checker` and `macheps.check`."""
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("macheps"))):  # the nearest mark wins
        options.update(mark.kwargs)
    made = request.node.stash.setdefault(MADE, {})
    return Checker(request.node.nodeid, options, request.config.stash[ROWS], made)


@pytest.fixture
def macheps_inputs(request: pytest.FixtureRequest) -> Callable[..., dict[str, dict[str, Any]]]:
    """Makes inputs that reveal wrong kernels: `macheps_inputs(operation, recipes, shape=..., x_format=...)`.

    The arguments are those of `macheps.make_inputs`. Without `recipes`, all recipes that apply are used. The call
    `macheps_inputs(recipes, operation=...)` also works."""
    made_here = request.node.stash.setdefault(MADE, {})

    def make(*unnamed: Any, operation: str | None = None, recipe: str | list[str] | None = None, **words: Any) -> Any:
        from macheps._check import call_of_make_inputs, inputs_by_recipe, shows_call

        operation, recipe = _operation_and_recipe(unnamed, operation, recipe)
        with shows_call(call_of_make_inputs(operation, "macheps_inputs")):
            made = inputs_by_recipe(operation, recipe, **words)
        for name, arrays in made.items():
            for array in arrays.values():
                made_here.setdefault(_digest(array), []).append(name)
        return made

    return make


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("macheps: results of the checks, and their power")
    width = max(len(row.test) for row in rows)
    inputs_width = max(len(row.inputs) for row in rows)
    for row in rows:
        blind = f"blind to {', '.join(row.blind[:4])}{' ...' if len(row.blind) > 4 else ''}" if row.blind else "blind to none"
        terminalreporter.write_line(
            f"{row.test:<{width}}  {row.operation:<10} {row.inputs:<{inputs_width}}  {row.outcome:<8} {row.errors:<12} "
            f"caught {row.caught} of {row.mutants}, {blind}"
        )
