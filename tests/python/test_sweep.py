# SPDX-License-Identifier: Apache-2.0
"""Tests sweeps as tables. Rows read from the units must equal the rows that `macheps merge` writes. Also tests Parquet
files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import macheps as me
import pytest

pd = pytest.importorskip("pandas")

# A sweep of fp32 and two other policies. Its runs are divided into units. The time limit of a unit is so short that
# each unit trains only fp32 and one other policy.
PLAN = """
name = "small"
[train]
steps = 4
eval-every = 2
eval-batches = 1
probe-every = 2
histogram-every = 2
[axes]
policy = ["pure-bf16", "amp-fp16"]
seeds = [0, 3]
lr = [1e-3, 3e-4]
size = "tiny"
[units]
minutes = 1e-4
[rows]
sites = true
exponents = true
"""
TABLES = ["runs", "evals", "steps", "sites", "exponents"]


def run(program, folder, *words):
    made = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.fixture(scope="module")
def finished(tmp_path_factory, program):
    """Returns a sweep whose units are finished but not merged."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "small.toml").write_text(PLAN)
    run(program, folder, "sweep", "run", "small.toml", "-q")
    return folder / "small"


@pytest.fixture(scope="module")
def merged(finished, tmp_path_factory, program):
    folder = tmp_path_factory.mktemp("merged") / "small"
    shutil.copytree(finished, folder)
    run(program, folder.parent, "merge", str(folder), "--rows", ",".join(TABLES))
    return folder


def test_units_give_the_bytes_of_merge(finished, merged):
    units = me.read_sweep(finished)
    assert len(list(finished.glob("units/*/*/done"))) == len(units.units) == 8, "fp32 is in all units, and is read once"
    for table in TABLES:
        assert units._data(finished, f"{table}.csv") == (merged / "merged" / f"{table}.csv").read_bytes(), table
    assert units.notes == [] and "8 units" in repr(units)


@pytest.mark.parametrize("which", ["finished", "merged"])
def test_tables(which, request):
    sweep = me.read_sweep(request.getfixturevalue(which))
    assert len(sweep.runs) == 12 and len(sweep.steps) == 48 and set(sweep.runs["status"]) == {"ok"}
    assert [str(sweep.steps[name].dtype) for name in ("unit", "policy", "skipped", "underflow")] == ["string", "category", "bool", "uint64"]
    assert list(sweep.steps["policy"].cat.categories) == ["fp32", "pure-bf16", "amp-fp16"]
    assert {"zero"} <= set(sweep.exponents["exponent"])
    units = sweep.units
    assert [str(units[name].dtype) for name in ("unit", "lr", "seed", "is_done")] == ["string", "float64", "int64", "bool"]
    assert set(units["lr"]) == {1e-3, 3e-4} and set(units["seed"]) == {0, 3} and units["is_done"].all()
    beside = sweep.evals.merge(units[["unit", "lr"]], on="unit")
    assert len(beside) == len(sweep.evals) and beside.groupby(["policy", "lr", "seed", "step"], observed=True).size().max() == 1


def test_a_merge_of_fewer_units_is_passed_over(merged, tmp_path, program):
    folder = tmp_path / "small"
    shutil.copytree(merged, folder)
    lines = (folder / "merged" / "steps.csv").read_text().splitlines(keepends=True)
    last = lines[-1].rsplit(",", 1)[1]
    (folder / "merged" / "steps.csv").write_text("".join(line for line in lines if not line.endswith(last)))
    sweep = me.read_sweep(folder)
    assert sweep.notes == [] and len(sweep.steps) == 48
    assert len(sweep.notes) == 1 and "steps.csv does not belong to these units" in sweep.notes[0]


def test_merged_rows_alone(merged, tmp_path):
    shutil.copytree(merged / "merged", tmp_path / "merged")
    shutil.copy(merged / "sweep.json", tmp_path)
    sweep = me.read_sweep(tmp_path, policies=["amp-fp16"], usecols=["loss"])
    assert list(sweep.steps.columns) == ["run", "policy", "loss", "unit"] and set(sweep.steps["policy"]) == {"amp-fp16"}
    assert sweep.notes == [] and len(sweep.steps) == 16


def test_units_that_are_not_finished(finished, tmp_path):
    folder = tmp_path / "small"
    shutil.copytree(finished, folder)
    for done in sorted(folder.glob("units/*/*/done"))[:3]:
        done.unlink()
    sweep = me.read_sweep(folder)
    assert "3 of 8 units are not finished" in sweep.notes[0]
    assert len(set(sweep.steps["unit"])) <= 5 and sweep.units["is_done"].sum() == 5


@pytest.mark.parametrize("engine", ["polars", "pyarrow", "duckdb"])
def test_other_engines(finished, engine):
    pytest.importorskip("pyarrow" if engine == "duckdb" else engine)
    pytest.importorskip(engine)
    want, sweep = me.read_sweep(finished), me.read_sweep(finished, engine=engine)
    rows = {"polars": lambda table: table.rows(), "duckdb": lambda table: table.fetchall(),
            "pyarrow": lambda table: list(zip(*table.to_pydict().values(), strict=True))}[engine]  # fmt: skip
    for table in ("steps", "units"):
        frame, other = getattr(want, table), getattr(sweep, table)
        assert list(other.columns if engine != "pyarrow" else other.column_names) == list(frame.columns)
        name = "loss" if table == "steps" else "lr"
        assert [row[list(frame.columns).index(name)] for row in rows(other)] == frame[name].tolist()


@pytest.mark.parametrize("engine", ["pyarrow", "duckdb"])
def test_parquet(finished, tmp_path, engine):
    """pyarrow reads every value of the Parquet files back, with the types of the schema."""
    pytest.importorskip(engine)
    reader = pytest.importorskip("pyarrow.dataset")
    sweep = me.read_sweep(finished)
    made = sweep.to_parquet(tmp_path / "p", engine=engine)
    assert [folder.name for folder in made] == TABLES and sorted(os.listdir(tmp_path / "p")) == sorted(TABLES)
    assert {one.name for one in made[2].iterdir()} == {"policy=fp32", "policy=pure-bf16", "policy=amp-fp16"}
    for folder in made:
        read = reader.dataset(str(folder), partitioning="hive").to_table()
        types = {field.name: str(field.type) for field in read.schema}
        want = getattr(sweep, folder.name)
        for name in want.columns:
            kind = str(want[name].dtype).lower().replace("float64", "double").replace("category", "string")
            assert types[name] == kind, (folder.name, name)
        ours = want.assign(policy=want["run"].map(lambda run: run.rsplit("/", 1)[0])).astype({"policy": object})
        order = ["policy", "unit", "run", *[name for name in ("step", "site", "kind", "exponent", "floor_log2", "format") if name in want.columns]]
        rows = {}
        for which, frame in (("ours", ours), ("theirs", read.to_pandas().astype({"policy": object}))):
            frame = frame[list(ours.columns)].astype(object).where(lambda f: f.notna(), None)
            if "floor_log2" in frame.columns:  # to_pandas converts integers to fp64 in columns with empty cells
                frame["floor_log2"] = frame["floor_log2"].map(lambda cell: None if cell is None or cell != cell else int(cell))
            rows[which] = sorted(map(repr, frame[order + [name for name in ours.columns if name not in order]].itertuples(index=False, name=None)))
        assert rows["ours"] == rows["theirs"], folder.name


def test_parquet_takes_the_place_of_an_older_one(finished, tmp_path):
    pytest.importorskip("pyarrow")
    for policies, there in ((None, 3), (["fp32"], 1)):
        (made,) = me.read_sweep(finished, policies=policies).to_parquet(tmp_path, rows=["evals"])
        assert len(os.listdir(made)) == there and os.listdir(tmp_path) == ["evals"]
    (made / "mine.txt").write_text("keep")
    with pytest.raises(me.Error, match="something else"):
        me.read_sweep(finished).to_parquet(tmp_path, rows=["evals"])
    assert (made / "mine.txt").exists()
    for words in ({"rows": ["weights"]}, {"engine": "csv"}):
        with pytest.raises(me.Error) as caught:
            me.read_sweep(finished).to_parquet(tmp_path / "q", **words)
        assert caught.value.where and caught.value.fix


def plan_with(folder, change):
    plan = json.loads((folder / "sweep.json").read_text())
    change(plan)
    (folder / "sweep.json").write_text(json.dumps(plan))


@pytest.mark.parametrize(("name", "change"), [
    ("no plan", lambda d: (d / "sweep.json").unlink()), ("torn", lambda d: (d / "sweep.json").write_text('{"schema": 1, ')),
    ("a list", lambda d: (d / "sweep.json").write_text("[]")), ("newer", lambda d: plan_with(d, lambda p: p.update(schema=9))),
    ("no units", lambda d: plan_with(d, lambda p: p.pop("units"))), ("words", lambda d: plan_with(d, lambda p: p["cells"][0].update(seed={}))),
    ("a path for a unit", lambda d: plan_with(d, lambda p: p["units"][0].update(id="../../../../etc"))),
    ("behind its list", lambda d: plan_with(d, lambda p: p["units"][1].update(setting=99))),
    ("nothing finished", lambda d: shutil.rmtree(d / "units")),
    ("noise", lambda d: next(d.glob("units/*/*/runs.csv")).write_bytes(b"\xff\xfe\n" * 9)),
    ("other columns", lambda d: next(d.glob("units/*/*/runs.csv")).write_text("run,policy\n")),
])  # fmt: skip
def test_damage_is_an_error(finished, tmp_path, name, change):
    folder = tmp_path / "small"
    shutil.copytree(finished, folder)
    change(folder)
    with pytest.raises(me.Error) as caught:
        me.read_sweep(folder).steps.shape  # noqa: B018
    assert caught.value.where and caught.value.fix


def test_rows_that_no_unit_has(finished, tmp_path):
    folder = tmp_path / "small"
    shutil.copytree(finished, folder)
    for path in folder.glob("units/*/*/exponents.csv"):
        path.unlink()
    with pytest.raises(me.Error, match="no unit has exponents.csv"):
        me.read_sweep(folder).exponents  # noqa: B018
    with pytest.raises(me.Error, match="macheps report"):
        me.read_sweep(folder).summary  # noqa: B018
