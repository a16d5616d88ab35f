# SPDX-License-Identifier: Apache-2.0
"""Reads run directories as tables, with the column types of the trainer's schema."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from . import _core
from ._arrays import needed
from ._errors import Error

PathLike = str | os.PathLike[str]


class Column(NamedTuple):
    """A column of a file: its kind (text, int, uint, float or bool), and whether cells or the column may be missing."""

    name: str
    kind: str
    may_be_empty: bool
    may_be_absent: bool


@lru_cache(maxsize=1)
def _schema() -> tuple[int, dict[str, dict[str, Column]]]:
    read = json.loads(_core.run_schema())
    files = {file: {one[0]: Column(*one) for one in columns} for file, columns in read["files"].items()}
    return read["schema"], files


def _broken(path: Path, why: object) -> Error:
    return Error(f"the file does not contain rows of a run: {why}", str(path),
                 "check that the file is complete; see `macheps report`")


def whole_lines(path: Path) -> bytes:
    """Returns the content of a file, without an incomplete last line that is still being written."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise Error(f"there is no {path.name}", str(path.parent), "give a run directory of `macheps train`") from None
    except OSError as failed:
        raise Error(str(failed), str(path), "check that it is a readable file") from failed
    data = data[: data.rfind(b"\n") + 1]
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as failed:
        raise _broken(path, failed) from failed
    return data


def columns_of(path: Path, data: bytes) -> dict[str, Column]:
    """Returns the columns of a file in order. A column that the schema does not know is text."""
    known = _schema()[1][path.name]
    header = data.split(b"\n", 1)[0].decode("utf-8").rstrip("\r").split(",")
    missing = [name for name, column in known.items() if name not in header and not column.may_be_absent]
    if missing:
        raise _broken(path, f"the column {missing[0]} is missing")
    if len(set(header)) != len(header):
        raise _broken(path, "two columns have the same name")
    return {name: known.get(name, Column(name, "text", False, True)) for name in header}


def _with_pandas(path: Path, data: bytes, columns: dict[str, Column], use: list[str]) -> Any:
    pd = needed("pandas")
    types: dict[str, Any] = {}
    missing: dict[str, list[str]] = {}
    for name in use:
        _, kind, may_be_empty, _ = columns[name]
        types[name] = {
            "text": pd.StringDtype("python"), "float": "float64", "bool": "uint8",
            "int": "Int64" if may_be_empty else "int64", "uint": "UInt64" if may_be_empty else "uint64",
        }[kind]  # fmt: skip
        missing[name] = {"text": [], "float": ["", "nan"], "bool": []}.get(kind, [""])
    exactly = {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
    frame = pd.read_csv(io.BytesIO(data), dtype=types, usecols=use, na_values=missing, keep_default_na=False, **exactly)
    for name in use:
        if columns[name].kind == "bool":
            frame[name] = frame[name].astype(bool)
    return frame[use]


def _with_polars(path: Path, data: bytes, columns: dict[str, Column], use: list[str]) -> Any:
    pl = needed("polars")
    kinds = {"text": pl.String, "float": pl.Float64, "bool": pl.UInt8, "int": pl.Int64, "uint": pl.UInt64}
    frame = pl.read_csv(io.BytesIO(data), columns=use, schema_overrides={name: kinds[columns[name].kind] for name in use})
    flags = [pl.col(name).cast(pl.Boolean) for name in use if columns[name].kind == "bool"]
    texts = [pl.col(name).fill_null("") for name in use if columns[name].kind == "text"]
    return frame.with_columns([*flags, *texts]).select(use)


def arrow_options(columns: dict[str, Column], use: list[str]) -> Any:
    """Returns the options with which pyarrow reads these columns."""
    needed("pyarrow")
    import pyarrow as pa
    from pyarrow import csv

    kinds = {"text": pa.string(), "float": pa.float64(), "bool": pa.bool_(), "int": pa.int64(), "uint": pa.uint64()}
    return csv.ConvertOptions(
        column_types={name: kinds[columns[name].kind] for name in use}, include_columns=use, null_values=[""],
        strings_can_be_null=False, true_values=["1"], false_values=["0"])


def _with_pyarrow(path: Path, data: bytes, columns: dict[str, Column], use: list[str]) -> Any:
    needed("pyarrow")
    from pyarrow import csv

    return csv.read_csv(io.BytesIO(data), convert_options=arrow_options(columns, use))


def _arrow_of(relation: Any) -> Any:
    """Returns a DuckDB relation as an Arrow table.

    In newer versions of DuckDB, relation.arrow() returns a reader, from which this function reads the whole table.
    """
    made = relation.arrow()
    return made.read_all() if hasattr(made, "read_all") else made


def _with_duckdb(path: Path, data: bytes, columns: dict[str, Column], use: list[str]) -> Any:
    return needed("duckdb").from_arrow(_with_pyarrow(path, data, columns, use))


ENGINES = {"pandas": _with_pandas, "polars": _with_polars, "pyarrow": _with_pyarrow, "duckdb": _with_duckdb}


def cells_of(path: Path, data: bytes, names: list[str]) -> list[tuple[str, ...]]:
    """Returns the cells of the named columns as text, as one tuple for each row."""
    reader = csv.reader(io.StringIO(data.decode("utf-8")))
    header = next(reader, [])
    try:
        places = [header.index(name) for name in names]
        return [tuple(row[place] for place in places) for row in reader]
    except (ValueError, IndexError, csv.Error) as failed:
        raise _broken(path, failed) from failed


class Run:
    """Tables of one or several run directories. Each file is read when it is first used.

    Attributes
    ----------
    runs, steps, evals, sites, exponents, summary
        The CSV files of the directory, as tables of the chosen engine.
    manifest : dict
        Command, resolved policies and versions of the run. It is a list if there are several directories.
    notes : list of str
        Remarks about missing manifests, unfinished runs, and runs whose status is not ``ok``.
    """

    _keys: tuple[str, ...] = ("run", "policy")  # columns that are always read

    def __init__(self, folders: Sequence[Path], engine: str, usecols: Iterable[str] | None, policies: Iterable[str] | None):
        self._folders, self._engine = list(folders), engine
        self._usecols = None if usecols is None else list(usecols)
        self._policies = None if policies is None else list(policies)
        self._read: dict[str, Any] = {}
        self.notes: list[str] = []
        manifests = [self._manifest_of(folder) for folder in self._folders]
        self.manifest: Any = manifests[0] if len(manifests) == 1 else manifests
        self._order: list[str] = []  # policies in the order of the report
        self._names: dict[Path, set[str]] = {}  # names of the runs with the wanted policies
        for folder in self._folders:
            self._look_at_runs(folder)

    @property
    def path(self) -> Path:
        """The first directory."""
        return self._folders[0]

    def _manifest_of(self, folder: Path) -> dict[str, Any]:
        path = folder / "manifest.json"
        try:
            manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            self.notes.append(f"{folder}: there is no manifest.json")
            return {}
        except (OSError, ValueError) as failed:
            raise Error(f"the manifest cannot be read: {failed}", str(path), "check that the file is complete") from failed
        newest = _schema()[0]
        schema = manifest.get("schema", 1) if isinstance(manifest, dict) else None
        if not isinstance(schema, int):
            raise Error("the file is not the manifest of a run", str(path), "check that the file is complete")
        if schema > newest:
            raise Error(f"the rows have schema {schema}, but this package supports up to {newest}", str(path), "install a newer macheps")
        return manifest

    def _look_at_runs(self, folder: Path) -> None:
        """Finds runs and policies.

        Adds a note for each run whose status is not ok, and for each unfinished run, which has no row in runs.csv.
        """
        path = folder / "runs.csv"
        rows = cells_of(path, whole_lines(path), ["run", "policy", "status"])
        finished = {run for run, _, _ in rows}
        steps = folder / "steps.csv"
        started = cells_of(steps, whole_lines(steps), ["run", "policy", "seed"]) if steps.exists() else []
        for run in dict.fromkeys(run for run, _, _ in started if run not in finished):
            self.notes.append(f"{folder}: {run} is not finished")
        for run, policy, status in rows:
            if status != "ok":
                self.notes.append(f"{folder}: {run} is {status}")
        both = [(run, policy) for run, policy, _ in (*rows, *started)]
        self._order += [policy for policy in dict.fromkeys(policy for _, policy in both) if policy not in self._order]
        wanted = self._policies
        self._names[folder] = {run for run, policy in both if wanted is None or policy in wanted}

    def _data(self, folder: Path, file: str) -> bytes:
        """Returns the content of a file. The class Sweep overrides this method."""
        return whole_lines(folder / file)

    def _table(self, file: str) -> Any:
        if file in self._read:
            return self._read[file]
        tables = [self._table_of(folder, file) for folder in self._folders]
        self._read[file] = tables[0] if len(tables) == 1 else self._joined(tables)
        return self._read[file]

    def _table_of(self, folder: Path, file: str) -> Any:
        path, data = folder / file, self._data(folder, file)
        columns = columns_of(path, data)
        use = [name for name in columns if self._usecols is None or name in self._usecols or name in self._keys]
        try:
            made = ENGINES[self._engine](path, data, columns, use)
        except Error:
            raise
        except Exception as failed:  # each library raises its own exceptions
            raise _broken(path, str(failed).splitlines()[0] if str(failed) else failed) from failed
        return self._finished(self._filtered(made, columns, folder), columns)

    def _filtered(self, made: Any, columns: dict[str, Column], folder: Path) -> Any:
        """Returns only the rows of the wanted policies."""
        if self._policies is None:
            return made
        name, wanted = ("policy", self._policies) if "policy" in columns else ("run", sorted(self._names[folder]))
        if name not in columns:
            return made
        if self._engine == "pandas":
            return made[made[name].isin(wanted)].reset_index(drop=True)
        if self._engine == "polars":
            return made.filter(needed("polars").col(name).is_in(wanted))
        needed("pyarrow")
        import pyarrow as pa
        import pyarrow.compute as pc

        table = made if self._engine == "pyarrow" else _arrow_of(made)
        table = table.filter(pc.is_in(table[name], pa.array(wanted, pa.string())))
        return table if self._engine == "pyarrow" else needed("duckdb").from_arrow(table)

    def _finished(self, made: Any, columns: dict[str, Column]) -> Any:
        if self._engine == "pandas" and "policy" in columns:
            made["policy"] = needed("pandas").Categorical(made["policy"], categories=self._order, ordered=True)
        return made

    def _joined(self, tables: list[Any]) -> Any:
        """Returns the rows of all directories. The column `unit` names the directory."""
        units = [str(folder) for folder in self._folders]
        if self._engine == "pandas":
            pd = needed("pandas")
            joined = pd.concat([table.assign(unit=unit) for table, unit in zip(tables, units, strict=True)], ignore_index=True)
            joined["unit"] = joined["unit"].astype(pd.StringDtype("python"))
            return self._finished(joined, {name: Column(name, "text", False, False) for name in joined.columns})
        if self._engine == "polars":
            pl = needed("polars")
            return pl.concat([table.with_columns(pl.lit(unit).alias("unit")) for table, unit in zip(tables, units, strict=True)],
                             how="diagonal")
        needed("pyarrow")
        import pyarrow as pa

        arrow = [table if self._engine == "pyarrow" else _arrow_of(table) for table in tables]
        arrow = [table.append_column("unit", pa.array([unit] * table.num_rows, pa.string()))
                 for table, unit in zip(arrow, units, strict=True)]
        joined = pa.concat_tables(arrow, promote_options="default")
        return joined if self._engine == "pyarrow" else needed("duckdb").from_arrow(joined)

    @property
    def runs(self) -> Any:
        return self._table("runs.csv")

    @property
    def steps(self) -> Any:
        return self._table("steps.csv")

    @property
    def evals(self) -> Any:
        return self._table("evals.csv")

    @property
    def sites(self) -> Any:
        return self._table("sites.csv")

    @property
    def exponents(self) -> Any:
        return self._table("exponents.csv")

    @property
    def summary(self) -> Any:
        return self._table("summary.csv")

    def __repr__(self) -> str:
        notes = f", {len(self.notes)} notes" if self.notes else ""
        return f"Run({', '.join(map(str, self._folders))}: policies {', '.join(self._order)}{notes})"


def read_run(
    path: PathLike | Sequence[PathLike],
    engine: str = "pandas",
    usecols: Iterable[str] | None = None,
    policies: Iterable[str] | None = None,
) -> Run:
    """Reads a run directory, or several as one.

    Types follow the schema and are never guessed. Exponents are text, because some are ``zero``, ``inf`` or ``nan``.
    Counts are unsigned, ``skipped`` is a bool, and with pandas ``policy`` is categorical in the order of the report.

    Parameters
    ----------
    path : path or sequence of paths
        Run directories of ``macheps train``. Tables of several directories have the column ``unit``.
    engine : str
        ``pandas``, ``polars``, ``pyarrow`` or ``duckdb``.
    usecols : iterable of str, optional
        Columns to read in addition to run and policy.
    policies : iterable of str, optional
        Policies whose rows are kept. The default is all policies.

    Examples
    --------
    >>> import macheps as me
    >>> me.read_run("/nowhere")
    Traceback (most recent call last):
    macheps._errors.Error: /nowhere: there is no such directory (give a run directory of `macheps train`)
    """
    if engine not in ENGINES:
        raise Error(f"unknown engine '{engine}'", "engine", f"use one of {', '.join(ENGINES)}")
    folders = [Path(path)] if isinstance(path, (str, os.PathLike)) else [Path(one) for one in path]
    if not folders:
        raise Error("no run directory was given", "read_run", "give at least one directory")
    for folder in folders:
        if not folder.is_dir():
            raise Error("there is no such directory", str(folder), "give a run directory of `macheps train`")
    return Run(folders, engine, usecols, policies)
