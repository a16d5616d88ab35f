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
import os
import sys
from collections.abc import Callable, Generator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROWS = pytest.StashKey[list["Row"]]()
#: Maps the shape and a digest of each array that `macheps_inputs` made in this test to the inputs that contain it.
MADE = pytest.StashKey[dict[Any, list["Made"]]]()
#: Annotations of the failed checks of a test, and of all tests that failed.
ANNOTATIONS = pytest.StashKey[list["Annotation"]]()
#: Outcomes, the gravest first.
OUTCOMES = ("fail", "refused", "declined", "weak", "pass")
#: Number of inputs of a suite for which an AssertionError contains the full text of the verdict.
MOST_TEXTS = 3
#: Number of annotations that GitHub shows for a step.
MOST_ANNOTATIONS = 10


class Made(NamedTuple):
    """An input that `macheps_inputs` made: a `MadeInput` of macheps and its name."""

    name: str
    arrays: Any


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


class Annotation(NamedTuple):
    """A message about a check that did not pass. GitHub shows it at the line of the test that called the check."""

    outcome: str
    file: str
    line: int
    title: str
    text: str

    def __str__(self) -> str:
        """Returns the workflow command of GitHub that prints the annotation."""
        level = "warning" if self.outcome == "weak" else "error"
        place = f"file={_escaped(self.file, ':,')},line={self.line},title={_escaped(self.title, ':,')}"
        return f"::{level} {place}::{_escaped(self.text)}"


def _escaped(text: str, more: str = "") -> str:
    """Returns a text without the characters that end a property or a line of a workflow command."""
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" or c in more else c for c in text)


def _is_github() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def _place_in(path: Path) -> tuple[str, int] | None:
    """Returns a file relative to the repository of the job, and the line in it that is running."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename != str(path):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    top = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    return (str(path.relative_to(top)) if path.is_relative_to(top) else str(path)), frame.f_lineno


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


def _sentence(reason: Mapping[str, Any], shape: tuple[int, ...]) -> str:
    """Returns a reason of a verdict in one line, with the place and the error of the worst output."""
    text, index = str(reason["text"]), reason["index"]
    if reason["test"] not in ("T0", "T1", "T2") or not 0 <= index < prod(shape):
        return text
    place: list[int] = []
    for size in reversed(shape):
        index, at = divmod(index, size)
        place.insert(0, at)
    text += f"; at ({', '.join(map(str, place))}): got {reason['got']}, exact {reason['want']}"
    ratio = reason["ratio"]
    return text + f", error {ratio:.4g} times the bound" if isinstance(ratio, float) and ratio > 0 else text


def _annotation(name: str, verdict: Any, place: tuple[str, int]) -> Annotation:
    """Returns the annotation of a check whose worst verdict this is."""
    lines = [f"{reason['code']}: {_sentence(reason, verdict.exact.shape)}" for reason in verdict.reasons]
    title, _, first = lines[0].partition(": ") if lines else (verdict.outcome, "", verdict.text.partition("\n")[0])
    return Annotation(verdict.outcome, *place, title, "\n".join([f"{_shown(name, verdict)}: {first}", *lines[1:]]))


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
    as in `macheps.check`. `name="..."` names the input in messages. Arrays of `macheps_inputs` have the name of their
    recipe, and the check uses everything that was declared when they were made.

    A call raises AssertionError with the full text of the verdict if the kernel does not pass or if the check is weak.
    A check is weak if its inputs would not reveal every required wrong kernel. Each call is a check of its own. `suite`
    checks the kernel on several inputs, which are one check."""

    def __init__(self, test: str, options: dict[str, Any], rows: list[Row], made: dict[Any, list[Made]] | None = None,
                 path: Path | None = None) -> None:  # fmt: skip
        self._test, self._options, self._rows, self._path = test, options, rows, path
        self._made = {} if made is None else made
        self.annotations: list[Annotation] = []  #: of the checks that did not pass, in a job of GitHub

    def __call__(self, *arrays: Any, operation: str = "gemm", name: str = "", **words: Any) -> Any:
        __tracebackhide__ = True
        from macheps._check import ShownCall, _nearest_operation, arrays_by_name, declared_for_call, right_call

        nearest = _nearest_operation(operation)
        given, declared = {**words, "name": name or None}, dict[str, Any]()
        with ShownCall(lambda refused: right_call(nearest, "macheps_check", given, refused, declared)):
            named = arrays_by_name(operation, arrays, {word: value for word, value in words.items() if value is not None})
            made = self._made_inputs({**named, **words})
            declared = declared_for_call(operation, {**words, **named}, [one.arrays for one in made])
            verdict = self._verdicts(operation, [named], words, declared)[0]
        name = name or (made[0].name if made else "")
        self._rows.append(_row_of(self._test, _shown(name, verdict), [verdict]))
        if not verdict:
            self._annotate(name, verdict)
            raise AssertionError(f"input {name}: {verdict.text}" if name else verdict.text)
        return verdict

    def suite(self, operation: str, kernel: Callable[..., Any], inputs: Mapping[str, Mapping[str, Any]], **words: Any) -> Any:
        """Runs a kernel on each input and checks the outputs as one check. Returns the verdicts by name of input.

        `inputs` is the result of `macheps_inputs`. The check uses everything that was declared for them: formats, machine,
        eps and so on. The kernel gets the arrays of an input in their order, as in `kernel(a, b)`. It returns its output,
        or a dictionary such as `{"out": y, "scale": s}`. It is enough if one of the inputs reveals a wrong kernel, so a
        suite of the default recipes needs no `allow_weak`. `words` are options and further declarations for all inputs."""
        __tracebackhide__ = True
        from macheps._check import ShownCall, _nearest_operation, _require_operation, declared_for, right_suite
        from macheps._errors import Error

        nearest = _nearest_operation(operation)
        shown = ShownCall(lambda refused: right_suite(nearest, inputs, words, refused))
        with shown:
            _require_operation(operation)
            if not callable(kernel):
                raise Error(f"the kernel is not a function, but a {type(kernel).__name__}", "kernel", "")
            if not isinstance(inputs, Mapping) or not inputs or not all(isinstance(arrays, Mapping) for arrays in inputs.values()):
                raise Error("inputs is not a dictionary with the arrays of each input", "inputs", "pass the result of macheps_inputs")
            declared = declared_for(operation, [self._as_made(operation, arrays, words) for arrays in inputs.values()])
        given = []
        for arrays in inputs.values():
            made = kernel(*arrays.values())
            given.append({**arrays, **(made if isinstance(made, Mapping) else {"out": made})})
        with shown:
            verdicts = dict(zip(inputs, self._verdicts(operation, given, words, declared)))
        failed = [(name, verdict) for name, verdict in verdicts.items() if not verdict]
        failed.sort(key=lambda each: _gravity(each[1]))
        worst = f", worst: {_shown(*failed[0])}" if failed else ""
        self._rows.append(_row_of(self._test, f"{len(inputs)} inputs{worst}", list(verdicts.values())))
        texts = [f"input {name}: {verdict.text}" for name, verdict in failed[:MOST_TEXTS]]
        lines = [f"input {name}: {verdict.outcome}, {verdict.errors}" for name, verdict in failed[MOST_TEXTS:]]
        if failed:
            self._annotate(*failed[0])
            raise AssertionError("\n".join([f"{len(failed)} of {len(inputs)} inputs did not pass", *texts, *lines]))
        return verdicts

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):
            raise AttributeError(operation)

        def judge(*arrays: Any, **words: Any) -> Any:
            __tracebackhide__ = True
            return self(*arrays, **{**words, "operation": operation})

        return judge

    def _verdicts(self, operation: str, inputs: list[dict[str, Any]], words: dict[str, Any], declared: dict[str, Any]) -> list[Any]:
        """Returns the verdicts on the inputs of one check. `declared` is what was declared when the inputs were made."""
        from macheps._check import checked_inputs
        from macheps._products import spelled

        others = {"require": "structure", **self._options, **words}
        if "promote" in others:
            others["machine"] = spelled(others.get("machine", declared.get("machine", "sliced")), others.pop("promote"))
        return checked_inputs(operation, inputs, others, {}, declared)

    def _annotate(self, name: str, verdict: Any) -> None:
        """In a job of GitHub, adds an annotation about a check whose worst verdict this is."""
        place = _place_in(self._path) if self._path and _is_github() else None
        if place:
            self.annotations.append(_annotation(name, verdict, place))

    def _made_inputs(self, arrays: Mapping[str, Any]) -> list[Made]:
        """Returns the inputs of `macheps_inputs` to which all operands belong that `macheps_inputs` made."""
        found = [self._made[key] for name, array in arrays.items() if name != "out" and (key := _digest(array)) in self._made]
        return [made for made in found[0] if all(any(made.arrays is one.arrays for one in others) for others in found)] if found else []

    def _as_made(self, operation: str, arrays: Mapping[str, Any], words: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns an input with its declaration, also if it is a copy of an input of `macheps_inputs`."""
        from macheps._check import MadeInput, declared_for_call

        if isinstance(arrays, MadeInput):
            return arrays
        made = [one.arrays for one in self._made_inputs(arrays)]
        return MadeInput(arrays, operation, declared_for_call(operation, {**words, **arrays}, made))


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
    config.stash[ROWS], config.stash[ANNOTATIONS] = [], []
    config.addinivalue_line("markers", "macheps(require=..., rtol=..., allow_weak=...): requirements of the checks in this test")


@pytest.fixture
def macheps_check(request: pytest.FixtureRequest) -> Checker:
    """Checks outputs of kernels; see `Checker` and `macheps.check`."""
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("macheps"))):  # the nearest mark wins
        options.update(mark.kwargs)
    made = request.node.stash.setdefault(MADE, {})
    checker = Checker(request.node.nodeid, options, request.config.stash[ROWS], made, request.node.path)
    request.node.stash[ANNOTATIONS] = checker.annotations
    return checker


@pytest.fixture
def macheps_inputs(request: pytest.FixtureRequest) -> Callable[..., dict[str, dict[str, Any]]]:
    """Makes inputs that reveal wrong kernels: `macheps_inputs(operation, recipes, shape=..., x_format=...)`.

    The arguments are those of `macheps.make_inputs`. Without `recipes`, all recipes that apply are used. Checks of the
    inputs use everything that is declared here, also `out_format`, `machine` and `eps`. The call
    `macheps_inputs(recipes, operation=...)` also works."""
    made_here = request.node.stash.setdefault(MADE, {})

    def make(*unnamed: Any, operation: str | None = None, recipe: str | list[str] | None = None, **words: Any) -> Any:
        __tracebackhide__ = True
        from macheps._check import ShownCall, call_of_make_inputs, inputs_by_recipe

        operation, recipe = _operation_and_recipe(unnamed, operation, recipe)
        given = {**words, "recipe": recipe}
        with ShownCall(lambda refused: call_of_make_inputs(operation, "macheps_inputs", given, refused)):
            made = inputs_by_recipe(operation, recipe, **words)
        for name, arrays in made.items():
            for array in arrays.values():
                made_here.setdefault(_digest(array), []).append(Made(name, arrays))
        return made

    return make


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Keeps the annotations of tests that fail. A test may also pass although a check in it does not."""
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        annotations = item.stash.get(ANNOTATIONS, None) or []
        item.config.stash[ANNOTATIONS].extend(annotations)


def _print_annotations(terminalreporter: Any, annotations: list[Annotation]) -> None:
    if not annotations:
        return
    gravest_first = sorted(annotations, key=lambda one: OUTCOMES.index(one.outcome))
    terminalreporter.ensure_newline()
    for annotation in gravest_first[:MOST_ANNOTATIONS]:
        terminalreporter.write_line(str(annotation))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    _print_annotations(terminalreporter, config.stash.get(ANNOTATIONS, []))
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
