# SPDX-License-Identifier: Apache-2.0
"""Checks kernel outputs against the errors that their formats, the number of terms and the order of summation allow."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from types import TracebackType
from typing import Any

import numpy as np

from . import _core
from ._arrays import Array, ArrayLike, _to_numpy, as_codes, code_type, needed
from ._casts import decode, encode
from ._errors import Error
from ._formats import finfo
from ._html import table
from ._products import spelled
from ._whole import whole

Given = tuple[str, str, list[int], bytes]


@lru_cache(maxsize=1)
def _words() -> dict[str, Any]:
    words: dict[str, Any] = json.loads(_core.check_words())
    return words


def _text(value: Any) -> str:
    """Returns a value as the command line spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


#: The arrays that an operation needs, if they are not only `x`.
_NEEDED = {
    "gemm": ("a", "b"),
    "cross_entropy": ("x", "target"),
    "rope": ("x", "cos", "sin"),
    "embedding": ("table", "index"),
    "swiglu": ("gate", "up"),
    "geglu": ("gate", "up"),
    "geglu_tanh": ("gate", "up"),
}
#: What else a call has to declare.
_NEEDED_WORDS = {
    "rmsnorm": ["eps=1e-5"],
    "layernorm": ["eps=1e-5"],
    "quantize": ["scale=scale", 'granularity="1x128"'],
}


def needed_by(operation: str) -> tuple[str, ...]:
    """Returns the names of the arrays that a check of an operation needs, besides `out`."""
    return _NEEDED.get(operation, ("x",))


def needed_words(operation: str) -> list[str]:
    """Returns the other arguments that a check of an operation needs, as a call spells them."""
    return _NEEDED_WORDS.get(operation, [])


def _roles_of(operation: str) -> list[str]:
    """Returns the names of all arrays of an operation. Precondition: the operation exists."""
    roles: list[str] = next(one["arrays"] for one in _words()["operations"] if one["operation"] == operation)
    return roles


def operands_in_order(operation: str) -> list[str]:
    """Returns the names of the arrays besides `out`: first those that the operation needs, then the optional ones."""
    first = needed_by(operation)
    return [*first, *(role for role in _roles_of(operation) if role != "out" and role not in first)]


def _kept(words: Mapping[str, Any], refused: Exception | None) -> dict[str, Any]:
    """Returns the words of a refused call that a right call repeats: texts and numbers that the error is not about."""
    if not isinstance(refused, Error):
        return {}
    def is_kept(name: str, value: Any) -> bool:
        places = (name, name.removesuffix("_format"), f"{name}_format")
        return isinstance(value, (str, bool, int, float)) and refused.where not in places and f"'{name}'" not in refused.what
    return {name: value for name, value in words.items() if is_kept(name, value)}


def _spelled_words(operation: str, words: Mapping[str, Any], known: Iterable[str] = ()) -> list[str]:
    """Returns words as a call spells them, and the words that the operation needs in addition. The values of `known` words
    are declared elsewhere."""
    needed = [word for word in needed_words(operation) if word.partition("=")[0] not in {*words, *known}]
    return [f"{name}={json.dumps(value) if isinstance(value, str) else value}" for name, value in words.items()] + needed


def right_call(operation: str, fixture: str = "", given: Mapping[str, Any] | None = None, refused: Exception | None = None,
               known: Iterable[str] = ()) -> str:  # fmt: skip
    """Returns a call that checks an operation: of `macheps.check`, or of the pytest fixture with this name. The call repeats
    the words and the optional arrays in `given`, except those that the error `refused` is about. It leaves out words that
    are only in `known`, which the inputs declare."""
    arrays, given = needed_by(operation), given or {}
    others = [name for name, value in given.items() if name in _roles_of(operation) and name not in (*arrays, "out")
              and not isinstance(value, (str, bool)) and value is not None and getattr(refused, "where", name) != name]  # fmt: skip
    named = [f"{name}={name}" for name in others]
    words = [word for word in _spelled_words(operation, _kept(given, refused), known) if word.partition("=")[0] not in others]
    if fixture:
        return f"{fixture}.{operation}({', '.join([*arrays, 'out', *named, *words])})"
    if operation == "gemm":
        return f"macheps.check({', '.join(['out', 'a', 'b', *named, *words])})"
    named = [*(f"{name}={name}" for name in arrays), *named, *words]
    return f'macheps.check(out, operation="{operation}", {", ".join(named)})'


def right_suite(operation: str, inputs: Any, given: Mapping[str, Any], refused: Exception | None) -> str:
    """Returns a call of `macheps_check.suite` that repeats the words in `given`, except those that the error is about."""
    made = [one for one in inputs.values() if isinstance(one, MadeInput)] if isinstance(inputs, Mapping) else []
    is_right = isinstance(inputs, Mapping) and getattr(refused, "where", "") != "inputs"
    shown = "inputs" if is_right else call_of_make_inputs(operation, "macheps_inputs")
    words = _spelled_words(operation, _kept(given, refused), made[0].declared if made else ())
    operation = made[0].operation if made else operation
    return f"macheps_check.suite({', '.join([json.dumps(operation), 'kernel', shown, *words])})"


def arrays_by_name(operation: str, unnamed: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arrays that a call passes without names, by name: the operands in the order of the help, then `out`.

    If `out` is in `named`, all arrays without names are operands.
    """
    _require_operation(operation)
    for value in unnamed:
        if isinstance(value, (str, bool, int, float)):
            raise Error(f"{value!r} is not an array, and only arrays can be passed without names", "check", "pass it by name")
    operands = list(unnamed) if "out" in named else list(unnamed[:-1])
    order = operands_in_order(operation)
    if len(operands) == 1 and needed_by(operation) == ("gate", "up") and not {"gate", "up"} & named.keys():
        order = ["x"]  # x holds gate and up as halves
    if len(operands) > len(order):
        raise Error(f"{operation} has the arrays {', '.join(order)}, out, but the call has {len(unnamed)} arrays without names",
                    "check", "remove the others")
    arrays = dict(zip(order, operands))
    if "out" not in named and unnamed:
        arrays["out"] = unnamed[-1]
    for name in arrays:
        if name in named:
            raise Error(f"{name} is given twice, with and without its name", name, "remove one of them")
    if unnamed and "out" not in named:
        _require_arrays(operation, {**named, **arrays}, "; the last array without a name is out")
    return arrays


def operation_names() -> list[str]:
    """Returns the names of all operations that can be checked."""
    return [one["operation"] for one in _words()["operations"]]


def _nearest_operation(operation: str) -> str:
    names = operation_names()
    return operation if operation in names else next(iter(difflib.get_close_matches(operation, names, 1)), "softmax")


def _require_operation(operation: str) -> None:
    """Raises an `Error` that suggests the nearest name if there is no operation of this name."""
    if operation not in operation_names():
        _core.check(operation, [], [], [])


def _require_arrays(operation: str, arrays: Mapping[str, Any], rule: str = "") -> None:
    """Raises `Error` if `out` or an array that the operation needs is missing. `rule` ends the message."""
    given = {name for name, array in arrays.items() if array is not None}
    needed = needed_by(operation)
    if needed == ("gate", "up") and "x" in given:
        needed = ("x",)  # x holds gate and up as halves
    for name in ("out", *needed):
        if name not in given:
            raise Error(f"{operation} needs the array {name}{rule}", name, f"pass {name}")


def _require_known(operation: str, roles: list[str], declared: Mapping[str, Any]) -> None:
    """Raises `Error` for a name that is neither an array, a format, a key of a declaration nor an option."""
    arrays = {role for one in _words()["operations"] for role in one["arrays"]}
    keys = [one["name"] for one in (*_words()["keys"], *_words()["options"]) if one["name"] not in arrays]
    known = [*roles, *(f"{role}_format" for role in roles), *keys]
    for name in declared:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise Error(f"check() has no argument '{name}'", name,
                        f"did you mean '{near[0]}'?" if near else f"the arrays of {operation} are {', '.join(roles)}")


def is_packed(declared: str | None) -> bool:
    """Returns whether the text of a declared format, such as ``e2m1fn/packed``, says that a byte has two codes."""
    return declared is not None and "packed" in declared.split("/")[1:]


def _is_format(text: Any) -> bool:
    """Returns whether a text begins with the name of a format, as in ``e2m1fn/packed``."""
    try:
        return isinstance(text, str) and bool(finfo(text.partition("/")[0]))
    except Error:
        return False


def _split_formats(roles: Sequence[str], declared: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the declared formats by array, and all other words. `a_format="bf16"` and `a="bf16"` declare the same."""
    are_formats = {name for name, text in declared.items() if name.endswith("_format") or (name in roles and _is_format(text))}
    formats = {name.removesuffix("_format"): text for name, text in declared.items() if name in are_formats}
    return formats, {name: value for name, value in declared.items() if name not in are_formats}


def _stored(name: str, x: ArrayLike, declared: str | None) -> Given:
    """Returns the name, format, shape and little-endian bytes of an array."""
    try:
        array, named = _to_numpy(x, "check")
    except TypeError as refused:
        raise TypeError(f"{name}: {refused}") from refused
    if declared == "tf32" and named == "fp32":  # NumPy has no type for tf32, so float32 holds its numbers
        codes = encode(array, "tf32")
        if np.array_equal(decode(codes, "tf32"), array, equal_nan=True):
            array, named = codes, None
    if named == "fp64":
        kind = "an array of float64" if hasattr(x, "dtype") else f"a {type(x).__name__} of Python numbers"
        raise Error(f"{name} is {kind}, but fp32 is the widest format that checks support", name,
                    f"pass the array as the kernel stores it, for example numpy.asarray({name}, numpy.float32)")
    if array.dtype.kind in "iu" and named is None:
        if declared is None:
            if array.size and int(array.max()) >= 2**63:
                raise Error(f"{name} has numbers of 2**63 or more", name, "pass whole numbers that fit in int64")
            return name, "int64", list(array.shape), np.ascontiguousarray(array, "<i8").tobytes()
        if is_packed(declared) and array.dtype.itemsize == 1:
            return name, "uint8", list(array.shape), array.tobytes()
        info = finfo(declared.partition("/")[0])
        return name, info.format, list(array.shape), as_codes(array, info, name).tobytes()
    if named is None:
        raise TypeError(f"check() accepts arrays of numbers and codes, but {name} has elements of type {array.dtype}")
    if array.dtype.kind == "f" and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return name, named, list(array.shape), np.ascontiguousarray(array).tobytes()


def _split(operation: str, arrays: Mapping[str, Any], declared: Mapping[str, Any]) -> tuple[list[Given], list[tuple[str, str]]]:
    """Returns two lists for `_core.check`: each array as (name, format, shape, bytes), and each key as (key, text).

    The key `a_format` declares the format of the array `a`.
    """
    _require_operation(operation)
    roles = _roles_of(operation)
    _require_known(operation, roles, declared)
    formats, said = _split_formats(roles, {name: value for name, value in declared.items() if value is not None and value is not False})
    given = []
    for name, array in arrays.items():
        if array is None:
            continue
        if name not in roles:
            raise Error(f"{operation} has no array {name}", name, f"use {', '.join(roles)}")
        given.append(_stored(name, array, formats.get(name)))
    words = [(name, _text(value)) for name, value in said.items()]
    types = {name: format for name, format, _, _ in given}
    # The elements of an array must have the type of the declared format. An fp32 array that holds numbers of a
    # narrower format has to be encoded first.
    for name, format in formats.items():
        if name not in types:
            raise Error(f"there is a format for {name}, but no array {name}", f"{name}_format", f"pass {name}")
        if types[name] != "uint8" and finfo(str(format).partition("/")[0]).format != types[name]:
            fix = (f'return {format} from the kernel, or declare out_format="{types[name]}" instead' if name == "out"
                   else f"encode it first, for example with macheps.encode({name}, '{format}')")  # fmt: skip
            raise Error(f"{name} has elements of {types[name]}, but is declared as {format}", f"{name}_format", fix)
        words.append((name, str(format)))
    return given, words


@dataclass(frozen=True)
class Verdict:
    """Result of a check. It is true if the kernel passes, so ``assert v, v`` prints the full text of a failure."""

    outcome: str  #: pass, fail, weak, refused, declined
    text: str  #: reasons, figures and assumptions, as ``macheps check`` prints them
    document: dict[str, Any]  #: an element of ``checks`` in a document of schema ``macheps.check/1``
    exact: Array  #: the exact results
    certain: Array  #: error bounds that no legal kernel exceeds
    probable: Array  #: error bounds that a legal kernel exceeds only with negligible probability

    allow_weak: bool = False

    def __bool__(self) -> bool:
        return self.outcome == "pass" or (self.allow_weak and self.outcome == "weak")

    @property
    def rho(self) -> float:
        """The largest ratio of an output's error to the certain bound on this error."""
        return float(self.document.get("rho") or 0.0)

    @property
    def errors(self) -> str:
        """The size of the largest error as text, such as ``rho 0.98``, or ``exact`` if each output has one right value."""
        exact, outputs = self.document.get("exact_outputs", 0), self.document.get("outputs", 0)
        if outputs and exact == outputs and self.document.get("declared", {}).get("rounding") != "stochastic":
            return "exact"
        return "rho more than 1e6" if self.rho > 1e6 else f"rho {self.rho:.3g}"

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """Reasons why the kernel did not pass."""
        return list(self.document.get("reasons", []))

    @property
    def blind(self) -> list[str]:
        """Wrong kernels that these inputs would not reveal."""
        return list(self.document.get("blind", []))

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = [[one.get("code", ""), one.get("test", ""), one.get("text", "")] for one in self.reasons]
        return table(["code", "test", "what"], rows, f"{self.outcome}: {self.errors}, blind to {len(self.blind)}")


def check_inputs(operation: str, inputs: Sequence[Mapping[str, Any]], declared: Mapping[str, Any],
                 options: Mapping[str, Any]) -> list[Verdict]:  # fmt: skip
    """Checks a kernel's arrays for one or several inputs, which are one check: it is enough if one input catches a wrong
    kernel. Arrays, keys and options are named as in ``macheps check``."""
    given: list[list[Given]] = []
    words: list[tuple[str, str]] = []
    for arrays in inputs:
        stored, words = _split(operation, arrays, declared)
        _require_arrays(operation, arrays)
        given.append(stored)
    asked = [(name, _text(value)) for name, value in options.items() if value is not None and value is not False]
    verdicts = []
    for stored, (document, text, *limits) in zip(given, _core.check(operation, words, asked, given)):
        shape = next((one[2] for one in stored if one[0] == "out"), [])
        exact, certain, probable = (_of_shape(limit, shape) for limit in limits)
        read = json.loads(document)
        verdicts.append(Verdict(read["verdict"], text, read, exact, certain, probable, bool(options.get("allow_weak"))))
    return verdicts


def _of_shape(numbers: bytes, shape: list[int]) -> Array:
    flat: Array = np.frombuffer(numbers, np.float64).copy()
    return flat.reshape(shape) if flat.size == int(np.prod(shape)) else flat


def check(
    out: ArrayLike,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
    machine: str = "sliced",
    promote: int | None = None,
    operation: str = "gemm",
    require: str = "structure",
    rtol: float | None = None,
    atol: float | None = None,
    allow_weak: bool = False,
    **others: Any,
) -> Verdict:
    """Checks if a kernel's output is as accurate as its formats allow, and if a wrong kernel would have been noticed.

    Parameters
    ----------
    out, a, b : array_like
        The kernel's output and its operands as stored: [m, n], [m, k], [k, n]. Element types determine formats (NumPy,
        ml_dtypes, torch on the CPU). The format of integer codes has to be declared: ``a_format="e4m3fn"``.
    machine, promote
        How the kernel sums; see `matmul`. In addition, ``sliced`` means fp32 chains over slices or lanes of k, and
        ``any`` means any order of fp32 sums.
    operation : str
        ``gemm``, ``softmax``, ``rmsnorm``, ... Pass the inputs of other operations by name:
        ``check(y, operation="softmax", x=x)``.
    require : str
        ``null``, ``structure``, ``precision`` or ``all``: the wrong kernels that the inputs must be able to reveal.
    rtol, atol : float, optional
        An additional tolerance. A tolerance that an output of zeros satisfies is refused.
    allow_weak : bool
        Treat a weak check as passed. A check is weak if its inputs would not reveal all wrong kernels that ``require``
        names.
    **others
        Further arrays (``a_scale``, ``bias``, ``x``, ...), keys of the declaration (``eps=1e-5``) and options, named as
        in ``macheps check --help`` with underscores.

    Examples
    --------
    >>> import macheps as me, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a = rng.standard_normal((64, 256), dtype=np.float32)
    >>> b = rng.standard_normal((256, 48), dtype=np.float32)
    >>> bool(me.check(a @ b, a, b))
    True
    >>> wrong = a @ b; wrong[3, 5] *= 1.01
    >>> me.check(wrong, a, b).outcome
    'fail'
    """
    options: dict[str, Any] = {"require": require, "rtol": rtol, "atol": atol, "allow_weak": allow_weak}
    if machine != "sliced" or promote:
        others["machine"] = spelled(machine, promote)
    nearest = _nearest_operation(operation)
    given = {"machine": None if machine == "sliced" else machine, "promote": promote, "rtol": rtol, "atol": atol, **others}
    with ShownCall(lambda refused: right_call(nearest, "", given, refused)):
        return checked_inputs(operation, [{"out": out, "a": a, "b": b}], others, options)[0]


class ShownCall:
    """A context that adds a right call to an error about arguments. `call` gets the error and returns the right call."""

    def __init__(self, call: Callable[[Exception], str]) -> None:
        self._call = call

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, refused: BaseException | None, trace: TracebackType | None) -> None:
        __tracebackhide__ = True
        if isinstance(refused, Error):
            call = f"call {self._call(refused)}"
            raise Error(refused.what, refused.where, f"{refused.fix}; {call}" if refused.fix else call) from None
        if isinstance(refused, TypeError):
            raise TypeError(f"{refused}; call {self._call(refused)}") from None


class MadeInput(dict[str, Any]):
    """The arrays of an input that `make_inputs` made, by name. It remembers the operation and everything declared for it."""

    def __init__(self, arrays: Mapping[str, Any], operation: str, declared: Mapping[str, Any]) -> None:
        super().__init__(arrays)
        self.operation = operation
        self.declared = dict(declared)


def _is_same_value(operation: str, name: str, first: Any, second: Any) -> bool:
    """Returns whether two values of a key declare the same, such as 1e-5 and "0.00001"."""
    return _text(first) == _text(second) or _core.declares_same(operation, name.removesuffix("_format"), _text(first), _text(second))


def _add_declared(operation: str, declared: dict[str, Any], more: Mapping[str, Any], source: str, fix: str) -> None:
    """Adds the declarations `more` to `declared`, which inputs were made for. Raises `Error` if a key has two values.
    `source` is the part of the message about `more`, and `fix` the remedy, in which `{name}` is the key."""
    keys = {name.removesuffix("_format"): name for name, value in declared.items() if value is not None}
    for name, value in more.items():
        known = keys.get(name.removesuffix("_format"))
        if value is None:
            continue
        if known is None:
            declared[name] = value
        elif not _is_same_value(operation, name, declared[known], value):
            raise Error(f"the inputs were made for {known}={declared[known]!r}, but {source} {name}={value!r}", name,
                        f"{fix.format(name=name)}, or make the inputs for the other value")


def declared_for(operation: str, inputs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns everything that was declared when the inputs were made. Raises `Error` if inputs were made for another
    operation, or for different declarations."""
    declared: dict[str, Any] = {}
    for made in inputs:
        if not isinstance(made, MadeInput):
            continue
        if made.operation != operation:
            raise Error(f"the inputs were made for {made.operation}, but the check is for {operation}", "operation",
                        f"check {made.operation}, or make the inputs for {operation}")
        _add_declared(operation, declared, made.declared, "other inputs of the check were made for", "check them one by one")
    return declared


def declared_for_call(operation: str, given: Mapping[str, Any], inputs: Iterable[MadeInput]) -> dict[str, Any]:
    """Returns what was declared for `inputs`, to which all arrays of a call belong. `given` holds the arrays and words of
    the call. Declarations for arrays that the call lacks are left out. Raises `Error` if the inputs were made for several
    declarations and the words do not select one of them."""
    roles = [role for role in _roles_of(operation) if role != "out" and given.get(role) is None]
    absent = {*roles, *(f"{role}_format" for role in roles)}
    words = {name.removesuffix("_format"): value for name, value in given.items()
             if isinstance(value, (str, bool, int, float)) and name not in roles}  # fmt: skip
    def agrees(declared: Mapping[str, Any]) -> bool:
        return all(_is_same_value(operation, name, value, words[key]) for name, value in declared.items()
                   if (key := name.removesuffix("_format")) in words)  # fmt: skip
    all_declared = [{name: value for name, value in made.declared.items() if name not in absent}
                    for made in inputs if made.operation == operation]  # fmt: skip
    fitting = [declared for declared in all_declared if agrees(declared)] or all_declared[:1]
    for other in fitting[1:]:
        for name in {**fitting[0], **other}:
            first, second = fitting[0].get(name), other.get(name)
            if _text(first) != _text(second) and name.removesuffix("_format") not in words:
                raise Error(f"these arrays were made twice, with {name}={first!r} and with {name}={second!r}", name,
                            f"pass {name} for this check")
    return fitting[0] if fitting else {}


def checked_inputs(operation: str, inputs: Sequence[Mapping[str, Any]], others: Mapping[str, Any],
                   asked: Mapping[str, Any], recorded: Mapping[str, Any] | None = None) -> list[Verdict]:  # fmt: skip
    """Checks a kernel for the inputs of one check. `others` may contain further arrays, keys of the declaration and
    options, for all inputs. `recorded` is what was declared when the inputs were made; `others` may not contradict it."""
    roles = {role for one in _words()["operations"] for role in one["arrays"]}
    shared: dict[str, Any] = {}
    options = dict(asked)
    declared: dict[str, Any] = {}
    for name, value in others.items():
        (shared if name in roles and not isinstance(value, (str, bool)) else declared)[name] = value
    keys = {one["name"] for one in _words()["options"]}
    options |= {name: declared.pop(name) for name in list(declared) if name in keys}
    try:
        all_declared = dict(recorded or {})
        _add_declared(operation, all_declared, declared, "the check declares", "remove {name} from the check")
        return check_inputs(operation, [{**arrays, **shared} for arrays in inputs], all_declared, options)
    except Error as refused:
        raise _of_arguments(refused) from None


def _of_arguments(refused: Error) -> Error:
    """Returns an error of the extension with the names of arguments instead of files and options."""
    where = re.sub(r"^(?:memory|\w+) \((\w+)\)$", r"\1", refused.where)
    where = {"--op": "operation", "memory": "check"}.get(where, where.removeprefix("--").replace("-", "_"))
    fix = refused.fix
    if "does not state the format" in refused.what:
        fix = f'pass numbers, or declare the format of the codes, as in {where}_format="bf16"'
    return Error(refused.what, where, fix)


@dataclass(frozen=True)
class Bounds:
    """Error bounds of the elements of a product."""

    exact: Array
    certain: Array  #: a legal kernel never exceeds any of these
    probable: Array  #: the probability that a legal kernel exceeds any of these is below `delta`


def bound(
    a: ArrayLike,
    b: ArrayLike,
    machine: str = "sliced",
    promote: int | None = None,
    out_format: str = "fp32",
    delta: float = 1e-9,
    **others: Any,
) -> Bounds:
    """Returns a priori bounds on |out - exact| for each element of a product, including the last rounding.

    Parameters
    ----------
    a, b, machine, promote
        See `check`.
    out_format : str
        Format to which results are rounded.
    delta : float
        Upper bound on the probability that any of the probable bounds is exceeded.

    Examples
    --------
    >>> import macheps as me, numpy as np
    >>> a = np.ones((1, 1024), np.float32)
    >>> me.bound(a, a.T).exact
    array([[1024.]])
    >>> bool((me.bound(a, a.T, machine="sm80.mma.tf32", operands="tf32:nearest_away").certain >= 0).all())
    True
    """
    first, second = np.shape(a), np.shape(b)
    if len(first) != 2 or len(second) != 2 or first[1] != second[0]:
        raise Error(f"shapes disagree: a {first}, b {second}", "bound", "use a [m, k] and b [k, n]")
    info = finfo(out_format)
    out = np.zeros((first[0], second[1]), code_type(info.container_bits))
    arrays: dict[str, Any] = {"a": a, "b": b}
    declared: dict[str, Any] = dict(others)
    if machine != "sliced" or promote:
        declared["machine"] = spelled(machine, promote)
    roles = {role for one in _words()["operations"] for role in one["arrays"]}
    for name in [name for name, value in declared.items() if name in roles and not isinstance(value, (str, bool))]:
        arrays[name] = declared.pop(name)
    given, words = _split("gemm", arrays, declared)
    given.append(("out", info.format, list(out.shape), out.tobytes()))
    exact, low, certain, probable, declined = _core.limits("gemm", words, given, float(delta))
    if declined >= 0:
        raise Error("this element has no certain bound", f"element {declined}",
                    "use smaller numbers without NaN: an operand or a sum overflows, or is NaN")
    shape = list(out.shape)
    return Bounds(_of_shape(exact, shape) + _of_shape(low, shape), _of_shape(certain, shape), _of_shape(probable, shape))


def sizes_of(shape: Iterable[Any]) -> list[int]:
    """Returns the sizes of a shape. Raises `Error` for a size that is not a positive whole number."""
    return [whole(size, "shape", 1, 2**63 - 1) for size in shape]


def _pairs_in_bytes(codes: Array, name: str) -> Array:
    """Returns 4-bit codes as bytes with two codes each, the first one in the lower half."""
    if codes.shape[-1] % 2:
        raise Error(f"{name} has two codes per byte, but rows of {codes.shape[-1]} elements", name, "use an even number of columns")
    pairs: Array = codes[..., ::2] | codes[..., 1::2] << 4
    return pairs


def _as_declared(numbers: Array, name: str, format: str, has_pairs: bool, dtype: str | None) -> Any:
    """Returns numbers of a format as an array with elements of this format. See `make_inputs` for `dtype`."""
    if dtype == "float32":
        return numbers.astype(np.float64 if format == "fp64" else np.float32)
    held = {"fp16": np.float16, "fp32": np.float32, "tf32": np.float32, "fp64": np.float64}.get(format)
    if has_pairs:
        made: Any = _pairs_in_bytes(encode(numbers, format), name)
    elif held is not None:
        made = numbers.astype(held)
    elif dtype == "codes":
        return encode(numbers, format)
    elif dtype == "torch":
        return encode(numbers, format, dtype="torch")
    elif "ml_dtypes" in sys.modules or find_spec("ml_dtypes"):
        return encode(numbers, format, dtype="ml_dtypes")
    else:
        raise Error(f"NumPy has no type for {format}, the format of {name}, and the package ml_dtypes is missing", "dtype",
                    'install it (pip install ml_dtypes), or pass dtype="codes" for unsigned integers, or dtype="torch"')
    return needed("torch").from_numpy(made) if dtype == "torch" else made


def call_of_make_inputs(operation: str, function: str = "macheps.make_inputs", given: Mapping[str, Any] | None = None,
                        refused: Exception | None = None) -> str:  # fmt: skip
    """Returns a right call of `make_inputs` or of the pytest fixture. It repeats the arguments in `given`, except those that
    the error `refused` is about."""
    operation = _nearest_operation(operation)
    kept = _kept({name: value for name, value in (given or {}).items() if name not in ("shape", "recipe")}, refused)
    parts = [json.dumps(operation)]
    place = refused.where if isinstance(refused, Error) else ""
    if given and given.get("recipe") and place not in ("", "recipe"):
        parts.append(json.dumps(given["recipe"]))
    shape = tuple(given.get("shape", ())) if given and place not in ("", "shape") else ()
    parts.append(f"shape={shape or ((33, 40, 500) if operation == 'gemm' else (33, 300))}")
    declared = {name.removesuffix("_format") for name in kept}
    parts += [f'{name}_format="fp16"' for name in needed_by(operation) if name not in ("target", "index", *declared)]
    words = [word for word in _spelled_words(operation, kept) if not word.startswith("scale=")]
    return f"{function}({', '.join([*parts, *words])})"


def make_inputs(operation: str = "gemm", recipe: str | list[str] | None = None, shape: tuple[int, ...] = (),
                seed: int = 7, *, dtype: str | None = None, **declared: Any) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Makes inputs that reveal wrong kernels, by the recipes of ``macheps check make-inputs``.

    The same ``seed`` gives the same arrays in every call. The default seed is the same as in the program.

    Parameters
    ----------
    dtype : str, optional
        The kind of the arrays. By default, the elements have the declared format (such as ``x_format="bf16"``; fp32 if
        no format is declared): types of NumPy for fp16, fp32 and fp64, types of ml_dtypes for bf16, fp8 and the other
        formats. ``"torch"`` gives tensors of torch. ``"codes"`` gives unsigned integers with the codes of formats that
        NumPy lacks. ``"float32"`` gives the numbers as float32, whatever their format is; a kernel that reads them then
        multiplies in fp32.

    Returns
    -------
    dict
        Maps the name of each input to its arrays, ordered as in `check`. Whole numbers are int64. Elements of tf32 are
        float32. A format such as ``"e2m1fn/packed"`` gives bytes with two codes each. The fixture ``macheps_check`` uses
        everything that is declared here for the check, also ``out_format``, ``machine`` and ``eps``.

    Examples
    --------
    >>> import macheps as me
    >>> inputs = me.make_inputs("gemm", "normal", shape=(8, 8, 16), a_format="fp16", b_format="fp16")
    >>> inputs["normal"]["a"].shape, inputs["normal"]["a"].dtype
    ((8, 16), dtype('float16'))
    """
    given = {"recipe": recipe, "shape": shape, "dtype": dtype, **declared}
    with ShownCall(lambda refused: call_of_make_inputs(operation, given=given, refused=refused)):
        return dict(inputs_by_recipe(operation, recipe, shape, seed, dtype, **declared))


def _recorded(operation: str, declared: Mapping[str, Any], arrays: Iterable[str], dtype: str | None) -> dict[str, Any]:
    """Returns the declarations for a check of inputs with these arrays. The elements of float32 arrays state their own
    format, so with ``dtype="float32"`` the formats of the inputs are left out."""
    formats, words = _split_formats(_roles_of(operation), {name: value for name, value in declared.items() if value is not None})
    kept = {name: text for name, text in formats.items() if dtype != "float32" or name not in arrays}
    return {**words, **{f"{name}_format": text for name, text in kept.items()}}


def inputs_by_recipe(operation: str, recipe: str | list[str] | None = None, shape: tuple[int, ...] = (), seed: int = 7,
                     dtype: str | None = None, **declared: Any) -> dict[str, MadeInput]:  # fmt: skip
    """Makes inputs; see `make_inputs`."""
    if dtype not in (None, "torch", "codes", "float32"):
        raise Error(f"'{dtype}' is not a kind of arrays", "dtype",
                    f'use "torch", "codes" or "float32", and declare the format as in {needed_by(operation)[0]}_format="fp16"')
    names = [recipe] if isinstance(recipe, str) else list(recipe or [])
    words = [(name.removesuffix("_format"), _text(value)) for name, value in declared.items() if value is not None]
    packed = {name for name, text in words if is_packed(text)}
    try:
        all_made = _core.make_inputs(operation, words, sizes_of(shape), names, whole(seed, "seed", 0, 2**63 - 1))
    except Error as refused:
        raise _of_arguments(refused) from None
    made: dict[str, MadeInput] = {}
    for name, arrays in all_made:
        made[name] = MadeInput({}, operation, _recorded(operation, declared, [one[0] for one in arrays], dtype))
        for array, format, sizes, values, is_whole in arrays:
            numbers = np.frombuffer(values, np.float64).reshape(sizes)
            if is_whole:
                integers = numbers.astype(np.int64)
                made[name][array] = needed("torch").from_numpy(integers) if dtype == "torch" else integers
            else:
                made[name][array] = _as_declared(numbers, array, format, array in packed, dtype)
    return made


__all__ = ["Bounds", "Verdict", "bound", "check", "make_inputs"]
