# SPDX-License-Identifier: Apache-2.0
"""Refuses subinterpreters: the extension module and NumPy keep state for one interpreter only."""

from __future__ import annotations

import importlib


def refuse_subinterpreter() -> None:
    """Raises ImportError in a subinterpreter. Without this check, loading the extension module ends the process."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # the name since Python 3.13, then the older name
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError("macheps cannot be imported in a subinterpreter: import it in the main interpreter, or start a process")
        return


__all__ = ["refuse_subinterpreter"]
