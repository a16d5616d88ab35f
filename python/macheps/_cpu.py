# SPDX-License-Identifier: Apache-2.0
"""Raises ImportError on a CPU on which importing NumPy would crash the process. It runs before NumPy is imported.

The wheels of NumPy 2.4 and later are compiled for SSE4.2. On a CPU without SSE4.2, they crash with an illegal
instruction. Older wheels raise an error.
"""

from __future__ import annotations

from importlib.metadata import version

from . import _core

if not _core.has_sse4_2():
    _numpy = version("numpy")
    if tuple(int(part) for part in _numpy.split(".")[:2]) >= (2, 4):
        raise ImportError(f"macheps: this CPU does not support SSE4.2, which NumPy {_numpy} needs (pip install 'numpy<2.4')")
