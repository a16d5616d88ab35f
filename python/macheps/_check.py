# SPDX-License-Identifier: Apache-2.0
"""Checks kernel outputs against the errors that their formats, the number of terms and the order of summation allow."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from . import _core
from ._arrays import Array, ArrayLike, _to_numpy, as_codes, code_type, needed
from ._casts import encode
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


def right_call(operation: str, fixture: str = "") -> str:
    """Returns a call that checks an operation: of `macheps.check`, or of the pytest fixture with this name."""
    arrays = needed_by(operation)
    if fixture:
        return f"{fixture}.{operation}({', '.join([*arrays, 'out', *needed_words(operation)])})"
    if operation == "gemm":
        return "macheps.check(out, a, b)"
    words = [f"{name}={name}" for name in arrays] + needed_words(operation)
    return f'macheps.check(out, operation="{operation}", {", ".join(words)})'


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


def _stored(name: str, x: ArrayLike, declared: str | None) -> Given:
    """Returns the name, format, shape and little-endian bytes of an array."""
    try:
        array, named = _to_numpy(x, "check")
    except TypeError as refused:
        raise TypeError(f"{name}: {refused}") from refused
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
    said = {name: value for name, value in declared.items() if value is not None and value is not False}
    formats = {name.removesuffix("_format"): said.pop(name) for name in list(said) if name.endswith("_format")}
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
            raise Error(f"{name} has elements of {types[name]}, but is declared as {format}", f"{name}_format",
                        f"encode it first, for example with macheps.encode({name}, '{format}')")
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
    with shows_call(right_call(_nearest_operation(operation))):
        return checked_inputs(operation, [{"out": out, "a": a, "b": b}], others, options)[0]


@contextmanager
def shows_call(call: str) -> Iterator[None]:
    """Adds the right call to an error about arguments."""
    try:
        yield
    except Error as refused:
        raise Error(refused.what, refused.where, f"{refused.fix}; call {call}" if refused.fix else f"call {call}") from None
    except TypeError as refused:
        raise TypeError(f"{refused}; call {call}") from None


def checked_inputs(operation: str, inputs: Sequence[Mapping[str, Any]], others: Mapping[str, Any],
                   asked: Mapping[str, Any]) -> list[Verdict]:  # fmt: skip
    """Checks a kernel for the inputs of one check. `others` may contain further arrays, keys of the declaration and
    options, for all inputs."""
    roles = {role for one in _words()["operations"] for role in one["arrays"]}
    shared: dict[str, Any] = {}
    options = dict(asked)
    declared: dict[str, Any] = {}
    for name, value in others.items():
        (shared if name in roles and not isinstance(value, (str, bool)) else declared)[name] = value
    keys = {one["name"] for one in _words()["options"]}
    options |= {name: declared.pop(name) for name in list(declared) if name in keys}
    try:
        return check_inputs(operation, [{**arrays, **shared} for arrays in inputs], declared, options)
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


def call_of_make_inputs(operation: str, function: str = "macheps.make_inputs") -> str:
    """Returns a right call of `make_inputs` or of the pytest fixture."""
    operation = _nearest_operation(operation)
    shape = "(64, 64, 256)" if operation == "gemm" else "(64, 1000)"
    words = [f'{name}_format="fp16"' for name in needed_by(operation) if name not in ("target", "index")]
    words += [word for word in needed_words(operation) if not word.startswith("scale=")]
    return f'{function}("{operation}", ["normal"], shape={shape}, {", ".join(words)})'


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
        float32. A format such as ``"e2m1fn/packed"`` gives bytes with two codes each.

    Examples
    --------
    >>> import macheps as me
    >>> inputs = me.make_inputs("gemm", "normal", shape=(8, 8, 16), a_format="fp16", b_format="fp16")
    >>> inputs["normal"]["a"].shape, inputs["normal"]["a"].dtype
    ((8, 16), dtype('float16'))
    """
    with shows_call(call_of_make_inputs(operation)):
        return inputs_by_recipe(operation, recipe, shape, seed, dtype, **declared)


def inputs_by_recipe(operation: str, recipe: str | list[str] | None = None, shape: tuple[int, ...] = (), seed: int = 7,
                     dtype: str | None = None, **declared: Any) -> dict[str, dict[str, Any]]:  # fmt: skip
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
    made: dict[str, dict[str, Any]] = {}
    for name, arrays in all_made:
        made[name] = {}
        for array, format, sizes, values, is_whole in arrays:
            numbers = np.frombuffer(values, np.float64).reshape(sizes)
            if is_whole:
                integers = numbers.astype(np.int64)
                made[name][array] = needed("torch").from_numpy(integers) if dtype == "torch" else integers
            else:
                made[name][array] = _as_declared(numbers, array, format, array in packed, dtype)
    return made


__all__ = ["Bounds", "Verdict", "bound", "check", "make_inputs"]
