# SPDX-License-Identifier: Apache-2.0
"""Tests that every public name has an example that runs. Also tests the HTML for notebooks, and the type
annotations."""

from __future__ import annotations

import doctest
import importlib
import inspect
import subprocess
import sys
from html.parser import HTMLParser

import macheps as me
import numpy as np
import pytest
from conftest import SOURCE

MODULES = ["macheps", "macheps._casts", "macheps._check", "macheps._errors", "macheps._formats", "macheps._policy", "macheps._products", "macheps._random",
           "macheps._rows", "macheps._run", "macheps._sweep"]  # fmt: skip
RECORDS = {"Bounds", "Explanation", "FormatInfo", "MachineInfo", "Number", "Policy", "ProfileInfo", "Records", "Run", "Scaled", "Shown", "Sweep", "Verdict",
           "find_program"}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, program, monkeypatch):
    monkeypatch.setenv("MACHEPS", program)
    module = importlib.import_module(name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__, extraglobs=None)
    for test in found:
        result = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test)
        assert result.failed == 0, test.name


def test_examples_with_torch():
    pytest.importorskip("torch")
    result = doctest.testmod(importlib.import_module("macheps.torch"))
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize("name", me.__all__)
def test_every_public_name_says_what_it_is(name):
    thing = getattr(me, name)
    text = inspect.getdoc(thing)
    assert text and len(text) > 20
    assert name in RECORDS or ">>>" in text, f"{name} has no example"


class Tags(HTMLParser):
    """The list `seen` collects all HTML tags. The list `open` holds the tags that are opened but not yet closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag != "br":
            self.open.append(tag)
        assert all(not name.startswith("on") for name, _ in attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("thing", [
    me.number(0x2E66, "fp16"), me.number(0, "mxint8"), me.number(5, "e8m0fnu"), me.tally([1.0, 1e9], "e4m3fn"), me.tally([], "bf16"),
    me.formats(), me.machines(), me.show(0.1), me.policy("fp8-tensorwise"), me.policy("amp-bf16").explain(),
    me.scale(np.ones((2, 32), np.float32), "mx32", "e4m3fn"),
])  # fmt: skip
def test_what_notebooks_show(thing):
    parser = Tags()
    parser.feed(thing._repr_html_())
    assert parser.open == [] and "script" not in parser.seen and len(parser.seen) > 3
    assert repr(thing)


def test_a_numbers_fields():
    n = me.number(0x2E66, "fp16")
    assert (n.sign, n.exponent, n.fraction) == ("0", "01011", "1001100110")
    assert n.value == float(np.uint16(0x2E66).view(np.float16)) and n.below < n.value < n.above and n.ulp == n.above - n.value
    assert me.number(127, "e4m3fn").below is None


def test_formats_are_those_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for ours, theirs in (("bf16", "bfloat16"), ("e4m3fn", "float8_e4m3fn"), ("e5m2", "float8_e5m2"), ("e2m1fn", "float4_e2m1fn")):
        mine, info = me.finfo(ours), ml_dtypes.finfo(theirs)
        assert mine.max == float(info.max) and mine.smallest_normal == float(info.smallest_normal)
        assert mine.smallest_subnormal == float(info.smallest_subnormal) and mine.bits == info.bits and mine.min == float(info.min)
    assert me.finfo("float8_e4m3fn") is not None and me.finfo("float8_e4m3fn").format == "e4m3fn"
    assert me.finfo("fp16").eps == float(np.finfo(np.float16).eps)
    with pytest.raises(me.Error):
        me.finfo("nope")
    with pytest.raises(TypeError):
        me.finfo(8)


def test_show_is_the_programs(program):
    # The program would read 0.1 as the exact decimal number. Python's 0.1 is the nearest fp64 number, so pass it in
    # hex.
    made = subprocess.run([program, "show", (0.1).hex(), "--csv"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    ours = me.show(0.1)
    for line, shown in zip(made, ours, strict=True):
        _, format, value, code, error, *_ = line.split(",")
        assert (shown.format, shown.value, shown.code, shown.error) == (format, float(value), int(code, 16), float(error))


def test_tables_as_frames():
    pytest.importorskip("pandas")
    assert len(me.formats().to_pandas()) == len(me.formats()) and "evidence" in me.machines().to_pandas().columns
    assert len(me.policy("tf32").explain().to_pandas()) > 10


def test_types_are_strict():
    pytest.importorskip("mypy")
    made = subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(SOURCE / "pyproject.toml"), "--cache-dir", "/dev/null",
                           str(SOURCE / "python" / "macheps"), str(SOURCE / "tests" / "python" / "typed_examples.py")],
                          capture_output=True, text=True, cwd=SOURCE / "python")  # fmt: skip
    assert made.returncode == 0, made.stdout
