# SPDX-License-Identifier: Apache-2.0
"""Functions that the notebooks share. They run the program, cache its output in files, and style the pictures."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import macheps as me
import matplotlib

if not os.environ.get("MPLBACKEND"):
    matplotlib.use("agg" if not matplotlib.get_backend().startswith("module://") else matplotlib.get_backend())
import matplotlib.pyplot as plt
import pandas as pd

DATA = Path(os.environ.get("MACHEPS_NOTEBOOK_DATA", Path(__file__).with_name("data")))

#: Colours and line styles of the policies, as on the HTML page of a run.
_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#b8529a", "#b87d00", "#2a8fd3", "#7a5c3e"]
_LINES = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1))]
_styles: dict[str, dict] = {"fp32": {"color": "#444444", "linestyle": "-"}}

plt.rcParams.update({
    "figure.figsize": (8.0, 3.6), "figure.dpi": 100, "savefig.dpi": 100, "axes.grid": True, "grid.alpha": 0.3,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11, "axes.titlelocation": "left",
    "legend.frameon": False, "font.size": 10, "figure.constrained_layout.use": True,
})  # fmt: skip
pd.set_option("display.max_colwidth", None)  # show sentences in cells completely


def style(name: str) -> dict:
    """Returns the colour and line style of a policy, the same in every picture of a notebook."""
    if name not in _styles:
        place = len(_styles) - 1
        _styles[name] = {"color": _COLOURS[place % len(_COLOURS)], "linestyle": _LINES[place % len(_LINES)]}
    return _styles[name]


def _say(args: list[str]) -> None:
    print("$ macheps " + " ".join(shlex.quote(word) for word in args))


def data(name: str, args: list[str]) -> me.Run:
    """Returns the tables of a training run. Prints the command, but runs it only if data/NAME is missing."""
    _say(args)
    folder = DATA / name
    if not (folder / "summary.csv").exists():
        DATA.mkdir(parents=True, exist_ok=True)
        me.run([*args, "--out", str(folder), "--force", "--quiet"])
    return me.read_run(folder)


def rows(name: str, args: list[str]) -> pd.DataFrame:
    """Returns the CSV table that a verb prints. Prints the command, but runs it only if data/NAME.csv is missing."""
    _say(args)
    path = DATA / f"{name}.csv"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        text = me.program(args)
        path.write_text(text)
    return pd.read_csv(io.StringIO(path.read_text()))


def digest(path: Path, columns: Sequence[str] = ("run", "step", "loss", "grad_norm", "update_norm")) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 of the given columns of a CSV file.

    The digits are the same on every machine and for every number of threads. Columns that later versions add do not
    change them."""
    with open(path, newline="") as file:
        text = "".join(",".join(row[name] for name in columns) + "\n" for row in csv.DictReader(file))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
