# SPDX-License-Identifier: Apache-2.0
"""Runs the program macheps as a child process, for training and for long experiments."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ._errors import Error

#: Exit code of the program after a signal stopped it and everything was saved.
STOPPED = 75


def packaged_program() -> Path:
    """Returns the path of the program in an installed package. A package in a source tree does not contain it."""
    return Path(__file__).with_name("bin") / "macheps"


def find_program() -> str:
    """Returns the path of the program: from MACHEPS, otherwise from the package, otherwise from PATH."""
    named = os.environ.get("MACHEPS")
    if named:
        if os.access(named, os.X_OK) and os.path.isfile(named):
            return named
        raise Error(f"{named} is not a program", "MACHEPS", "set it to the path of the program macheps, or unset it")
    if os.access(packaged_program(), os.X_OK):
        return str(packaged_program())
    found = shutil.which("macheps")
    if found:
        return found
    raise Error("the program macheps was not found", "macheps.run",
                "add it to PATH, set MACHEPS to its path, or install a wheel of macheps")


def program(args: Sequence[str | os.PathLike[str]], check: bool = True) -> str:
    """Runs the program and returns its stdout. Its progress, which goes to stderr, is not shown.

    Parameters
    ----------
    args : sequence of str
        A verb and its options.
    check : bool
        Raise `Error` for exit codes other than 0.

    Examples
    --------
    >>> import macheps as me
    >>> me.program(["show", "0.1", "--format", "bf16", "--csv"]).splitlines()[1].split(",")[2]
    '0.10009765625'
    """
    words = [find_program(), *(os.fspath(word) for word in args)]
    # In a separate session, the program does not receive Ctrl-C from the terminal. This function sends it a single
    # SIGINT, after which the program saves its state and stops.
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                          env={**os.environ, "NO_COLOR": "1"}) as child:
        try:
            out, err = child.communicate()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.communicate()
            raise
    if check and child.returncode != 0:
        raise _failure(words[1:], child.returncode, err)
    return out


def _failure(words: list[str], code: int, err: str) -> Error:
    said = [line for line in err.strip().splitlines() if line.strip()]
    what = said[-1].removeprefix("macheps: ") if said else "there was no message"
    if code == STOPPED:
        return Error(f"stopped, with everything saved: {what}", f"macheps {words[0]}", "continue with train --resume DIR")
    return Error(what, f"macheps {' '.join(words)}", f"correct this and run it again; exit code {code}")


def run(args: Sequence[str | os.PathLike[str]]) -> Path:
    """Trains with the program and returns the run directory.

    Parameters
    ----------
    args : sequence of str
        ``train`` and its options, as on the command line.

    Examples
    --------
    >>> import macheps as me, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = me.run(["train", "--policy", "fp32", "--seeds", "0", "--steps", "2", "--out", folder + "/r"])
    ...     len(me.read_run(made).steps)
    2
    """
    words = [os.fspath(word) for word in args]
    if not words or words[0] != "train":
        raise Error("only train creates a run directory", "macheps.run", "use macheps.program to get the output of other verbs")
    if "--json" not in words:
        words.append("--json")
    answer = json.loads(program(words))
    return Path(answer["directory"])
