# SPDX-License-Identifier: Apache-2.0
"""Tests tables that are read from run directories: types, values, filters and damage. Also tests the program as a child
process."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import macheps as me
import numpy as np
import pytest

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, program):
    path = tmp_path_factory.mktemp("run") / "r"
    os.environ["MACHEPS"] = program
    return me.run(["train", "--policy", "amp-fp16", "--seeds", "0", "--steps", "12", "--probe-every", "4", "--histogram-every", "4", "--token-weight",
                   "2^-12", "--eval-every", "6", "--out", str(path)])  # fmt: skip


TYPES = {
    "steps": {"run": "string", "policy": "category", "seed": "int64", "step": "int64", "loss": "float64", "skipped": "bool",
              "underflow": "uint64", "overflow_site": "string"},
    "sites": {"site": "string", "count": "uint64", "block_flush": "UInt64", "scale_age": "Int64", "mse": "float64"},
    "exponents": {"exponent": "string", "count": "uint64", "floor_log2": "Int64", "kind": "string"},
    "runs": {"diverged_step": "Int64", "status": "string", "seconds": "float64"},
    "evals": {"eval_loss": "float64"},
    "summary": {"policy": "category", "gap_mean": "float64", "seeds": "int64"},
}  # fmt: skip


def test_types_follow_the_schema(folder):
    run = me.read_run(folder)
    for table, columns in TYPES.items():
        frame = getattr(run, table)
        for name, kind in columns.items():
            assert str(frame[name].dtype) == kind, (table, name)
    assert list(run.steps["policy"].cat.categories) == ["fp32", "amp-fp16"]
    assert {"zero"} <= set(run.exponents["exponent"]) and run.manifest["schema"] == 2 and run.notes == []
    assert str(folder) in repr(run)


def test_values_are_those_of_the_file(folder):
    run = me.read_run(folder)
    with open(folder / "steps.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == run.steps["loss"].tolist()
    assert [row["skipped"] == "1" for row in rows] == run.steps["skipped"].tolist()
    assert sum(int(row["underflow"]) for row in rows) == int(run.steps["underflow"].sum())


@pytest.mark.parametrize("engine", ["polars", "pyarrow", "duckdb"])
def test_other_engines_read_the_same(folder, engine):
    pytest.importorskip("pyarrow" if engine == "duckdb" else engine)
    pytest.importorskip(engine)
    ours, theirs = me.read_run(folder), me.read_run(folder, engine=engine, policies=["amp-fp16"])
    for table in ("steps", "sites", "exponents", "runs"):
        frame, other = getattr(me.read_run(folder, policies=["amp-fp16"]), table), getattr(theirs, table)
        other = {"polars": lambda t: t.to_dict(as_series=False), "pyarrow": lambda t: t.to_pydict(),
                 "duckdb": lambda t: t.arrow().read_all().to_pydict() if hasattr(t.arrow(), "read_all") else t.arrow().to_pydict()}[engine](other)  # fmt: skip
        assert list(other) == list(frame.columns)
        for name, values in other.items():
            want = frame[name].astype(object).where(frame[name].notna(), None).tolist()
            got = [None if value is None or value != value else value for value in values]
            assert got == want, (table, name)
    assert len(ours.steps) == 24


def test_filters(folder):
    run = me.read_run(folder, usecols=["step", "loss"], policies=["amp-fp16"])
    assert list(run.steps.columns) == ["run", "policy", "step", "loss"] and set(run.steps["policy"]) == {"amp-fp16"}
    assert len(run.steps) == 12 and 0 < len(run.exponents) < len(me.read_run(folder).exponents)


def test_several_directories(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    run = me.read_run([folder, other])
    assert len(run.steps) == 48 and set(run.steps["unit"]) == {str(folder), str(other)}
    assert str(run.steps["policy"].dtype) == "category" and len(run.manifest) == 2


def damaged(folder, tmp_path, change):
    other = tmp_path / "damaged"
    shutil.copytree(folder, other)
    change(other)
    return other


@pytest.mark.parametrize(("name", "change"), [
    ("no runs.csv", lambda d: (d / "runs.csv").unlink()), ("noise", lambda d: (d / "steps.csv").write_bytes(os.urandom(999) + b"\n")),
    ("words for numbers", lambda d: (d / "steps.csv").write_text((d / "steps.csv").read_text().replace(",0,", ",zwei,"))),
    ("renamed column", lambda d: (d / "steps.csv").write_text((d / "steps.csv").read_text().replace("loss,", "Loss,", 1))),
    ("newer schema", lambda d: (d / "manifest.json").write_text('{"schema": 99}')),
    ("torn manifest", lambda d: (d / "manifest.json").write_text('{"schema": ')),
    ("a list for a manifest", lambda d: (d / "manifest.json").write_text("[1]")),
    ("empty file", lambda d: (d / "steps.csv").write_text("")),
    ("a folder for a file", lambda d: ((d / "steps.csv").unlink(), (d / "steps.csv").mkdir())),
    ("short rows", lambda d: (d / "runs.csv").write_text("run,policy,status\na\n")),
])  # fmt: skip
def test_damage_is_an_error(folder, tmp_path, name, change):
    with pytest.raises(me.Error) as caught:
        me.read_run(damaged(folder, tmp_path, change)).steps.shape  # noqa: B018
    assert caught.value.where and caught.value.fix


def test_an_unfinished_run_stays_with_a_note(folder, tmp_path):
    def tear(d):
        lines = (d / "runs.csv").read_text().splitlines(keepends=True)
        (d / "runs.csv").write_text("".join(lines[:-1]))
        (d / "steps.csv").write_text((d / "steps.csv").read_text()[:-9])

    run = me.read_run(damaged(folder, tmp_path, tear))
    assert len(run.notes) == 1 and "not finished" in run.notes[0]
    assert len(run.steps) == 23


def test_the_program_says_what_is_wrong(program):
    with pytest.raises(me.Error) as caught:
        me.program(["show", "nonsense"])
    assert "nonsense" in caught.value.what and "exit code 2" in caught.value.fix
    with pytest.raises(me.Error, match="only train"):
        me.run(["show", "1"])


def test_no_program(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MACHEPS", str(tmp_path / "none"))
    with pytest.raises(me.Error, match="is not a program"):
        me.find_program()
    monkeypatch.delenv("MACHEPS")
    beside = __import__("pathlib").Path(me.__file__).with_name("bin")
    if not beside.exists():
        with pytest.raises(me.Error, match="was not found"):
            me.find_program()


def test_ctrl_c_stops_the_program_where_it_can_be_resumed(tmp_path, program):
    script = ("import macheps as me, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # as in test_arrays
              "try:\n me.run(['train', '--policy', 'fp32', '--steps', '100000', '--out', "
              f"{str(tmp_path / 'r')!r}])\nexcept KeyboardInterrupt:\n print('interrupted')")  # fmt: skip
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, "MACHEPS": program})
    for _ in range(600):
        if (tmp_path / "r" / "steps.csv").exists():
            break
        time.sleep(0.1)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted\n"
    assert list((tmp_path / "r").rglob("*checkpoint*"))


def test_exact_decimals(folder):
    """Numbers are read with every digit of the file. The fast reader of older pandas versions would get some last
    digits wrong."""
    text = json.dumps(me.read_run(folder).steps["grad_norm"].tolist())
    assert np.array_equal(np.float32(json.loads(text)), me.read_run(folder).steps["grad_norm"].to_numpy().astype(np.float32))
