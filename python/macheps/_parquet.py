# SPDX-License-Identifier: Apache-2.0
"""Writes CSV rows as Parquet files with pyarrow or DuckDB. Each policy has a separate folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ._arrays import needed
from ._errors import Error
from ._rows import Column, arrow_options


class Rows(NamedTuple):
    """CSV data, and the columns and policies to write. If `policies` is None, all policies are written."""

    data: bytes
    columns: dict[str, Column]
    use: list[str]  #: names of the columns to write
    policy_of: dict[str, str]  #: policy of each run, for rows without the column `policy`
    policies: list[str] | None


Writer = Callable[[Rows, Path], None]


def _with_pyarrow(rows: Rows, to: Path) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow_csv
    from pyarrow import dataset

    runs, names = pa.array(list(rows.policy_of), pa.string()), pa.array(list(rows.policy_of.values()), pa.string())
    reader = arrow_csv.open_csv(io.BytesIO(rows.data), convert_options=arrow_options(rows.columns, rows.use))
    schema = reader.schema if "policy" in rows.use else reader.schema.append(pa.field("policy", pa.string()))

    def batches() -> Iterable[Any]:
        for batch in reader:
            table = pa.Table.from_batches([batch])
            if "policy" not in rows.use:
                table = table.append_column("policy", names.take(pc.index_in(table["run"].combine_chunks(), runs)))
            if rows.policies is not None:
                table = table.filter(pc.is_in(table["policy"], pa.array(rows.policies, pa.string())))
            yield from table.to_batches()

    to.mkdir()
    kind = dataset.ParquetFileFormat()
    partitions = dataset.partitioning(pa.schema([("policy", pa.string())]), flavor="hive")
    dataset.write_dataset(batches(), str(to), schema=schema, format=kind, partitioning=partitions, use_threads=False,
                          file_options=kind.make_write_options(compression="zstd"), basename_template="part-{i}.parquet")  # fmt: skip


def _sql(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _with_duckdb(rows: Rows, to: Path) -> None:
    duckdb = needed("duckdb")
    kinds = {"text": "VARCHAR", "float": "DOUBLE", "bool": "UTINYINT", "int": "BIGINT", "uint": "UBIGINT"}
    types = ", ".join(f"{_sql(name)}: {_sql(kinds[column.kind])}" for name, column in rows.columns.items())
    texts = ", ".join(_sql(name) for name, column in rows.columns.items() if column.kind == "text")
    cast = {name: f"CAST({_name(name)} AS BOOLEAN) AS {_name(name)}" for name in rows.use if rows.columns[name].kind == "bool"}
    chosen = [cast.get(name, _name(name)) for name in rows.use]
    if "policy" not in rows.use:
        runs, policies = (f"[{', '.join(map(_sql, names))}]" for names in (rows.policy_of, rows.policy_of.values()))
        chosen.append(f"{policies}[list_position({runs}, run)] AS policy")
    where = "" if rows.policies is None else f" WHERE list_contains([{', '.join(map(_sql, rows.policies))}], policy)"
    path = to.with_name("rows.csv")
    path.write_bytes(rows.data)
    with duckdb.connect() as database:
        database.execute(
            f"COPY (SELECT * FROM (SELECT {', '.join(chosen)} FROM read_csv({_sql(path)}, header = true, auto_detect = false, "
            f"delim = ',', quote = '\"', escape = '\"', nullstr = '', force_not_null = [{texts}], columns = {{{types}}})){where}) "
            f"TO {_sql(to)} (FORMAT parquet, PARTITION_BY (policy), COMPRESSION zstd)")
    path.unlink()


_WRITERS: dict[str, Writer] = {"pyarrow": _with_pyarrow, "duckdb": _with_duckdb}


def writer_of(engine: str | None) -> Writer:
    """Returns the function that writes with the given engine. The default is the first engine that is installed."""
    if engine is not None and engine not in _WRITERS:
        raise Error(f"'{engine}' cannot write Parquet here", "engine", f"use one of {', '.join(_WRITERS)}")
    for name in _WRITERS if engine is None else [engine]:
        try:
            needed(name)
        except Error:
            continue
        return _WRITERS[name]
    raise Error(f"this function needs the package {engine or 'pyarrow, or duckdb'}", "import",
                f"install it: pip install {engine or 'pyarrow'}")
