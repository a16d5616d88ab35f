# SPDX-License-Identifier: Apache-2.0
"""Tests that every notebook runs, asserts its answers, and fails on changed data."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

import pytest
from conftest import SOURCE

jupytext = pytest.importorskip("jupytext")
nbformat = pytest.importorskip("nbformat")
NotebookClient = pytest.importorskip("nbclient").NotebookClient
CellExecutionError = pytest.importorskip("nbclient.exceptions").CellExecutionError
for package in ("ipykernel", "matplotlib", "pandas"):
    pytest.importorskip(package)

NOTEBOOKS = sorted((SOURCE / "notebooks").glob("[0-9]*.py"))
SOLUTIONS = sorted((SOURCE / "notebooks" / "teacher").glob("[0-9]*.py"))


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory, program):
    folder = Path(os.environ.get("MACHEPS_NOTEBOOK_DATA") or tmp_path_factory.mktemp("notebooks"))
    os.environ.update(MACHEPS_NOTEBOOK_DATA=str(folder), MACHEPS=program, MPLBACKEND="module://matplotlib_inline.backend_inline",
                      PYDEVD_DISABLE_FILE_VALIDATION="1")  # fmt: skip
    return folder


def execute(book, folder: Path):
    NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return book


def bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(path, data_folder, tmp_path):
    """A notebook uses at most 60 seconds of processor time, 1 GB of memory per process and 6 MB of data."""
    before, data_before = resource.getrusage(resource.RUSAGE_CHILDREN), bytes_in(data_folder)
    book = execute(jupytext.read(path), path.parent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60
    assert after.ru_maxrss < 2**20, "the largest process so far, in KB"
    assert bytes_in(data_folder) - data_before < 6e6
    nbformat.write(book, tmp_path / f"{path.stem}.ipynb")
    pictures = [out for cell in book.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    assert len(pictures) <= 3, "a notebook has at most three pictures"
    assert pictures


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_form(path):
    text = path.read_text()
    headings = re.findall(r"^# (#+ .+)$", text, re.M)
    assert re.fullmatch(rf"# {int(path.stem[:2])}\. [^?]+\?", headings[0]), "the title is a question"
    assert headings[-2:] == ["## What was seen", "## Exercises"]
    prediction, seen = text.index("**Write down before you go on:**"), text.index("## What was seen")
    first_data = re.search(r"\b(data|rows)\(|\bme\.(program|check|policy|formats)\(", text).start()
    assert prediction < first_data < seen < text.rindex("\nassert ") < text.index("## Exercises")
    exercises = text.split("## Exercises")[1]
    assert len(re.findall(r"^# \d\. ", exercises, re.M)) == 3 and "*(a new command)*" in exercises
    assert any(other.stem == path.stem for other in SOLUTIONS), "no solution in teacher/"


@pytest.mark.slow
@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)
def test_solutions(path, data_folder):
    execute(jupytext.read(path), path.parents[1])


#: Two changes of each notebook with which it must fail. The first change renames a column that the notebook reads. The
#: second change exchanges a policy, machine, format or matrix.
CHANGES = {
    "01_formats": [('"fraction_bits", "max", "min_positive"', '"fraction_bits", "largest", "min_positive"'), ('in ("fp16", "bf16")}', 'in ("fp32", "bf16")}')],
    "02_loss_scaling": [("one.loss_scale", "one.scale_of_loss"), ("fp16-noscale,amp-fp16", "fp32,amp-fp16")],
    "03_lost_updates": [(".lost_updates.mean() / parameters", ".updates_lost.mean() / parameters"), ("pure-bf16,pure-bf16-sr,amp-bf16", "fp32,pure-bf16-sr,amp-bf16")],
    "04_accumulators": [("mine.first_exact", "mine.exact_first"), ('"sm90.wgmma.fp8,sm90.wgmma.fp8+promote128,sm100.tcgen05.fp8,fp32.chain"', '"fp32.chain,sm90.wgmma.fp8+promote128,sm100.tcgen05.fp8"')],
    "05_summation": [("mine.max_rel", "mine.rel_max"), ("fp32.kahan,bf16.chain,", "fp32.kahan,")],
    "06_fp8_scaling": [(".sqnr_db.mean()", ".sqnr.mean()"), ("fp8-tensorwise,h100-fp8-promoted", "fp32")],
    "07_memory_and_configs": [('"code", "key", "message"', '"code", "name", "message"'), ('me.policy(name).explain().memory', 'me.policy("fp32").explain().memory')],
    "08_kernel_check": [('v.reasons[0]["code"]', 'v.reasons[0]["codes"]'), ('machine="bf16.chain"', 'machine="exact", out_format="bf16"')],
    "09_refinement": [("mine.nbe", "mine.backward"), ('"randsvd:1e3", "--factor", "bf16,fp16,fp32"', '"randsvd:1e1", "--factor", "bf16,fp16,fp32"')],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("stem", "change"), [(stem, n) for stem in CHANGES for n in (0, 1)])
def test_a_notebook_notices_other_data(stem, change, data_folder, tmp_path, monkeypatch):
    old, new = CHANGES[stem][change]
    text = (SOURCE / "notebooks" / f"{stem}.py").read_text()
    assert old in text
    if change == 1:
        monkeypatch.setenv("MACHEPS_NOTEBOOK_DATA", str(tmp_path))
    with pytest.raises(CellExecutionError):
        execute(jupytext.reads(text.replace(old, new), fmt="py:percent"), SOURCE / "notebooks")


def test_every_notebook_is_changed():
    assert sorted(CHANGES) == [path.stem for path in NOTEBOOKS]
