# SPDX-License-Identifier: Apache-2.0
"""What does a number become, on this hardware, under this policy?

Bit-exact casts, matrix products and kernel checks on arrays of NumPy, torch (CPU) and ml_dtypes; precision policies;
and the results of training runs.

>>> import macheps as me
>>> print(me.encode([448., 464., 465.], "e4m3fn"))
[126 126 127]
"""

from __future__ import annotations

import atexit as _atexit
import os as _os

from ._interpreter import refuse_subinterpreter as _refuse_subinterpreter

_refuse_subinterpreter()  # before NumPy and the extension module

from . import _core, _cpu  # noqa: E402 (_cpu before anything that imports NumPy)
from ._casts import Tally, decode, encode, round, tally
from ._check import Bounds, Verdict, bound, check, make_inputs
from ._errors import Error
from ._formats import FormatInfo, Number, ProfileInfo, Records, Shown, finfo, formats, number, profiles, show
from ._policy import Explanation, Policy, policies, policy
from ._products import MachineInfo, Scaled, machines, matmul, scale
from ._random import Generator
from ._rows import Run, read_run
from ._run import find_program, program, run
from ._sweep import Sweep, read_sweep
from ._whole import whole as _whole

__version__: str = _core.version()

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_core.begin_anew_after_fork)
_atexit.register(_core.wait_for_jobs_aside)


def threads() -> int:
    """Returns the number of threads that compute.

    The number comes from `set_threads`, or else from the environment variable MACHEPS_THREADS. The default is the
    number of cores that this process may use.

    Examples
    --------
    >>> import macheps as me
    >>> me.threads() >= 1
    True
    """
    return _core.threads()


def set_threads(count: int) -> None:
    """Sets the number of threads that compute. Results do not depend on it.

    Examples
    --------
    >>> import macheps as me
    >>> before = me.threads()
    >>> me.set_threads(1); me.threads()
    1
    >>> me.set_threads(before)
    """
    _core.set_threads(_whole(count, "count", 1, 1024))


__all__ = [
    "Bounds", "Error", "Explanation", "FormatInfo", "Generator", "MachineInfo", "Number", "Policy", "ProfileInfo", "Records", "Run", "Scaled", "Shown",
    "Sweep", "Tally", "Verdict", "bound", "check", "decode", "encode", "find_program", "finfo", "formats", "machines", "make_inputs",
    "matmul", "number", "policies", "policy", "profiles", "program", "read_run", "read_sweep", "round", "run", "scale", "set_threads", "show", "tally",
    "threads",
]  # fmt: skip
