# SPDX-License-Identifier: Apache-2.0
"""Functions for comparisons with other programs: they call macheps, and skip a comparison if the other program is
missing."""
import csv
import importlib
import io
import subprocess
import sys

SKIPPED = 77  # ctest counts a test with this exit code as skipped


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def need(name):
    """Returns the module of that name. If it cannot be imported, skips this comparison."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # an incomplete package may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        skip(f"{name} cannot be imported ({reason}): scripts/peers installs it")


class Failure(Exception):
    """Raised if macheps and the other program disagree."""


def rows(program, *arguments, code=0):
    """Returns the rows that `macheps ARGUMENTS --csv` prints, as dictionaries of text."""
    done = subprocess.run([program, *arguments, "--csv"], capture_output=True, text=True)
    if done.returncode != code:
        raise Failure(f"{' '.join(arguments)}: exit code {done.returncode}, not {code}: {done.stderr.strip()}")
    return list(csv.DictReader(io.StringIO(done.stdout)))
