# SPDX-License-Identifier: Apache-2.0
"""The command `macheps` of an installed package: starts the program that the package contains."""

from __future__ import annotations

import os
import sys

from ._run import packaged_program


def main() -> None:
    """Replaces this process by the program, with the same arguments. The command does not look for another program,
    because it could find itself."""
    program = packaged_program()
    if not os.access(program, os.X_OK):
        sys.exit(f"macheps: this installation lacks the program {program}: install a wheel of macheps")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
