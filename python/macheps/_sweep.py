# SPDX-License-Identifier: Apache-2.0
"""Reads the folder of a sweep as tables.

The rows come from the files that `macheps merge` wrote, or from the finished units, which contain the same rows.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._errors import Error
from ._parquet import Rows, Writer, writer_of
from ._rows import ENGINES, Column, PathLike, Run, cells_of, columns_of, whole_lines

#: Newest schema of sweep.json that this package knows.
_NEWEST = 1
_ROWS = ("runs.csv", "evals.csv", "steps.csv", "sites.csv", "exponents.csv")
_RUN_OF_LINE = re.compile(rb'"(?:[^"]|"")*",|[^,\n]*,')
_UNIT_ID = re.compile("[0-9a-f]{16}")


class PlannedRun(NamedTuple):
    """A run of the plan: the unit that contains it, its policy, and its name in that unit's files."""

    unit: str
    policy: str
    name: str


def _read_plan(folder: Path) -> dict[str, Any]:
    path = folder / "sweep.json"
    try:
        plan = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise Error("there is no sweep.json", str(folder), "give the folder of `macheps sweep run`") from None
    except (OSError, ValueError) as failed:
        raise Error(f"the plan of the sweep cannot be read: {failed}", str(path), "check that the file is complete") from failed
    schema = plan.get("schema") if isinstance(plan, dict) else None
    if not isinstance(schema, int):
        raise Error("the file is not the plan of a sweep", str(path), "check that the file is complete")
    if schema > _NEWEST:
        raise Error(f"the plan has schema {schema}, but this package supports up to {_NEWEST}", str(path), "install a newer macheps")
    made: dict[str, Any] = plan
    return made


def _runs_of(plan: Mapping[str, Any]) -> list[PlannedRun]:
    """Returns the planned runs, sorted by cell (setting and seed) and then by policy.

    Each run comes with the first unit that contains it, except fp32, which every unit of a cell
    contains: its run comes with the first of the units with which runs of other policies come."""
    units = plan["units"]
    here: dict[tuple[int, int], list[int]] = {}
    for number, unit in enumerate(units):
        here.setdefault((unit["setting"], unit["seed"]), []).append(number)
    runs = []
    for cell in plan["cells"]:
        chosen = []
        for policy in cell["policies"]:
            having = [number for number in here.get((cell["setting"], cell["seed"]), []) if policy in units[number]["policies"]]
            if having:
                chosen.append((policy, having[0]))
        if len(chosen) > 1 and chosen[0][0] == cell["policies"][0]:
            chosen[0] = chosen[0][0], min(number for _, number in chosen[1:])
        for policy, number in chosen:
            name = plan["policies"][policy]["name"]
            runs.append(PlannedRun(units[number]["id"], name, f"{name}/{cell['seed']}"))
    if not all(_UNIT_ID.fullmatch(run.unit) for run in runs):
        raise ValueError("the name of a unit does not have sixteen digits")
    return runs


def _cell(text: str) -> bytes:
    """Returns a text as a cell of a CSV row, quoted if necessary."""
    return (f'"{text.replace(chr(34), chr(34) * 2)}"' if any(sign in text for sign in ',"\n\r') else text).encode()


def _by_run(data: bytes) -> tuple[bytes, dict[bytes, list[bytes]]]:
    """Splits CSV data into the header and the lines of each run. Lines do not include their line ends."""
    header, *lines = data.split(b"\n")[:-1]
    runs: dict[bytes, list[bytes]] = {}
    start, mine = b"\n", []
    for line in lines:
        if not line.startswith(start):
            found = _RUN_OF_LINE.match(line)
            start = found.group() if found else line
            mine = runs.setdefault(start, [])
        mine.append(line)
    return header, runs


def _units_in(data: bytes) -> set[str]:
    """Returns the ids of all units in merged CSV data. The last cell of each line is a unit id of sixteen digits."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)[1:]
    if not ends.size:
        return set()
    windows: np.ndarray[Any, np.dtype[np.bytes_]] = np.ndarray((len(data) - 15,), "S16", data, strides=(1,))
    names = windows[np.maximum(ends - 16, 0)]
    changes = np.concatenate([[True], names[1:] != names[:-1]])
    return {name.decode("ascii", "replace") for name in names[changes].tolist()}


def _kind_of(values: Iterable[str]) -> str:
    """Returns the kind of an axis: int if all its values are integers, float if all are numbers, otherwise text."""
    for kind, convert in (("int", int), ("float", float)):
        try:
            for value in values:
                convert(value)
        except ValueError:
            continue
        return kind
    return "text"


class Sweep(Run):
    """Tables of a sweep. Each table is read when it is first used.

    Attributes
    ----------
    runs, steps, evals, sites, exponents
        Tables of the chosen engine, as in `macheps.Run`, with the column ``unit``. Names in the column ``run`` are
        unique only within a unit.
    summary
        The summary of ``macheps report``, with a row for each setting and policy.
    units
        A row for each unit of the plan: its name, the axes of its setting, seed, policies, and whether it is finished.
        ``steps.merge(units, on="unit")`` adds the axes to the rows.
    manifest : dict
        The plan of the sweep: the content of `sweep.json`.
    notes : list of str
        Unfinished units, runs whose status is not ``ok``, and merged files that do not match the finished units.
    """

    _keys = ("unit", "run", "policy")

    def __init__(self, folder: Path, engine: str, usecols: Iterable[str] | None, policies: Iterable[str] | None):
        super().__init__([folder], engine, usecols, policies)

    def _manifest_of(self, folder: Path) -> dict[str, Any]:
        plan = _read_plan(folder)
        try:
            self._planned = _runs_of(plan)
            self._settings = [setting["axes"] for setting in plan["settings"]]
            self._axes = list(plan["axes"])
            for unit in plan["units"]:
                self._settings[unit["setting"]]  # noqa: B018
        except (LookupError, TypeError, ValueError) as failed:
            raise Error(f"the plan is damaged: {failed!r}", str(folder / "sweep.json"), "check that the file is complete") from failed
        wanted = dict.fromkeys(run.unit for run in self._planned)
        self._done = {unit for unit in wanted if (self._unit_folder(folder, unit) / "done").exists()}
        self._has_units = bool(self._done) or not (folder / "merged").is_dir()
        if self._has_units and len(self._done) < len(wanted):
            self.notes.append(f"{folder}: {len(wanted) - len(self._done)} of {len(wanted)} units are not finished")
        return plan

    @staticmethod
    def _unit_folder(folder: Path, unit: str) -> Path:
        return folder / "units" / unit[:2] / unit

    def _look_at_runs(self, folder: Path) -> None:
        rows = cells_of(folder / "runs.csv", self._data(folder, "runs.csv"), ["run", "policy", "status"])
        states = [status for _, _, status in rows if status != "ok"]
        self.notes += [f"{folder}: {states.count(state)} runs are {state}" for state in dict.fromkeys(states)]
        self._order = list(dict.fromkeys(run.policy for run in self._planned))
        self._policy_of = {run: policy for run, policy, _ in rows}
        self._names[folder] = {run for run, policy in self._policy_of.items() if self._policies is None or policy in self._policies}

    def _data(self, folder: Path, file: str) -> bytes:
        """Returns the file of `macheps merge` if it covers exactly the finished units, otherwise the units' rows."""
        if file == "summary.csv":
            if not (folder / file).exists():
                raise Error("there is no summary.csv", str(folder), f"write it with `macheps report {folder}`")
            return whole_lines(folder / file)
        merged = folder / "merged" / file
        if merged.is_file():
            data = whole_lines(merged)
            if data and self._is_current(data, folder, file):
                return data
            if data:
                self.notes.append(f"{merged} does not belong to these units, which are read instead. Update it: `macheps merge {folder}`")
        return self._data_of_units(folder, file)

    def _is_current(self, data: bytes, folder: Path, file: str) -> bool:
        if not self._has_units:  # only merged/ was copied, without the units
            return True
        there = _units_in(data)
        return there <= self._done and not any(self._has_rows(folder, unit, file) for unit in self._done - there)

    def _has_rows(self, folder: Path, unit: str, file: str) -> bool:
        path = self._unit_folder(folder, unit) / file
        return path.exists() and whole_lines(path).count(b"\n") > 1

    def _data_of_units(self, folder: Path, file: str) -> bytes:
        """Returns the bytes that `macheps merge` would write, but does not verify the checksums of the units."""
        if not self._done:
            raise Error("no unit is finished", str(folder), "train them with `macheps sweep run`")
        first: bytes | None = None
        pieces: list[bytes] = []
        last = ""
        rows: dict[bytes, list[bytes]] = {}
        for run in self._planned:
            if run.unit not in self._done:
                continue
            path = self._unit_folder(folder, run.unit) / file
            if run.unit != last:
                last, rows = run.unit, {}
                if path.exists():
                    header, rows = _by_run(whole_lines(path))
                    first = header if first is None else first
                    if header != first:
                        raise Error("the columns differ from those of earlier units", str(path),
                                    "another version of macheps wrote the file: remove the unit and run its shard again")
            end = b"," + run.unit.encode() + b"\n"
            pieces += [line + end for line in rows.get(_cell(run.name) + b",", [])]
        if first is None:
            raise Error(f"no unit has {file}", str(folder), "set [rows] sites or exponents in the plan")
        return b"".join([first + b",unit\n", *pieces])

    @property
    def units(self) -> Any:
        if "units" not in self._read:
            axes = {name: _kind_of(axes.get(name, "") for axes in self._settings) for name in self._axes}
            columns = {name: Column(name, kind, False, False) for name, kind in {
                "unit": "text", **axes, "seed": "int", "policies": "text", "is_done": "bool"}.items()}  # fmt: skip
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(columns)
            for unit in self.manifest["units"]:
                names = [self.manifest["policies"][policy]["name"] for policy in unit["policies"]]
                values = [self._settings[unit["setting"]].get(name, "") for name in self._axes]
                writer.writerow([unit["id"], *values, unit["seed"], " ".join(names), int(unit["id"] in self._done)])
            path = self.path / "sweep.json"
            self._read["units"] = ENGINES[self._engine](path, text.getvalue().encode(), columns, list(columns))
        return self._read["units"]

    def to_parquet(self, folder: PathLike, rows: Sequence[str] | None = None, engine: str | None = None) -> list[Path]:
        """Writes tables as Parquet files: a folder for each table, and in it a folder for each policy.

        Types follow the schema. The policy is part of the folder names (Hive partitioning), which pyarrow, pandas,
        polars and DuckDB understand. A table replaces an existing table only after it was written completely.

        Parameters
        ----------
        folder : path
            Folder for the tables: ``FOLDER/steps/policy=fp32/...``.
        rows : sequence of str, optional
            ``runs``, ``evals``, ``steps``, ``sites``, ``exponents``. The default is all that the sweep has.
        engine : str, optional
            ``pyarrow`` or ``duckdb``. The default is the first that is installed.

        Returns
        -------
        list of pathlib.Path
            The tables' folders.
        """
        write = writer_of(engine)
        words = [file.removesuffix(".csv") for file in _ROWS]
        for word in rows or ():
            if word not in words:
                raise Error(f"unknown rows '{word}'", "rows", f"use {', '.join(words)}")
        made = []
        for file in _ROWS if rows is None else [f"{word}.csv" for word in rows]:
            try:
                data = self._data(self.path, file)
            except Error:
                if rows is None:
                    continue
                raise
            made.append(self._publish(write, file, data, Path(folder)))
        return made

    def _publish(self, write: Writer, file: str, data: bytes, folder: Path) -> Path:
        place = folder / file.removesuffix(".csv")
        if place.exists() and any(not one.name.startswith("policy=") for one in place.iterdir()):
            raise Error("the folder contains files that are not part of a table", str(place), "use another folder")
        path = self.path / file
        columns = columns_of(path, data)
        use = [name for name in columns if self._usecols is None or name in self._usecols or name in self._keys]
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=folder))
        try:
            write(Rows(data, columns, use, self._policy_of, self._policies), draft / "table")
            if place.exists():
                place.rename(draft / "old")
            (draft / "table").rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return place

    def __repr__(self) -> str:
        notes = f", {len(self.notes)} notes" if self.notes else ""
        return f"Sweep({self.path}: {len(self.manifest['units'])} units, policies {', '.join(self._order)}{notes})"


def read_sweep(path: PathLike, engine: str = "pandas", usecols: Iterable[str] | None = None,
               policies: Iterable[str] | None = None) -> Sweep:  # fmt: skip
    """Reads the folder of a sweep as tables.

    The rows come from the folder ``merged``, which ``macheps merge`` writes, or from the finished units. Both sources
    give the same tables. A file in ``merged`` is ignored unless it covers exactly the units that are finished now. If
    ``merged`` was copied without the units, it is used without this check. Types follow the schema, as in `read_run`.

    Parameters
    ----------
    path : path
        Folder of ``macheps sweep run``.
    engine, usecols, policies
        See `read_run`.

    Examples
    --------
    >>> import macheps as me
    >>> me.read_sweep("/nowhere")
    Traceback (most recent call last):
    macheps._errors.Error: /nowhere: there is no such directory (give the folder of `macheps sweep run`)
    """
    if engine not in ENGINES:
        raise Error(f"unknown engine '{engine}'", "engine", f"use one of {', '.join(ENGINES)}")
    folder = Path(os.fspath(path))
    if not folder.is_dir():
        raise Error("there is no such directory", str(folder), "give the folder of `macheps sweep run`")
    return Sweep(folder, engine, usecols, policies)


__all__ = ["Sweep", "read_sweep"]
