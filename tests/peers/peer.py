# SPDX-License-Identifier: Apache-2.0
"""What comparisons with other programs share: skipping without them, and calling macheps."""
import csv
import importlib
import io
import subprocess
import sys

SKIPPED = 77  # what ctest takes for a skipped test


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def need(name):
    """The module of that name. Without it this comparison is skipped."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a package that is half there may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        skip(f"{name} does not import ({reason}): scripts/peers installs it")


class Failure(Exception):
    """The two disagree."""


def rows(program, *arguments, code=0):
    """The rows that `macheps ARGUMENTS --csv` prints, as dictionaries of text."""
    done = subprocess.run([program, *arguments, "--csv"], capture_output=True, text=True)
    if done.returncode != code:
        raise Failure(f"{' '.join(arguments)}: exit code {done.returncode}, not {code}: {done.stderr.strip()}")
    return list(csv.DictReader(io.StringIO(done.stdout)))
