# SPDX-License-Identifier: Apache-2.0
"""Converts inputs to contiguous arrays of numbers (fp32, fp64) or codes, and results to the library of the input."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._errors import Error
from ._plain import refuse_hidden, refuse_hidden_tensor

if TYPE_CHECKING:
    from ._formats import FormatInfo

#: The dtype of most inputs. NumPy has a single object for this dtype, so it can be compared with `is`.
FLOAT32 = np.dtype(np.float32)

Array = npt.NDArray[Any]
#: A number, a sequence, a NumPy array, a CPU tensor of torch, or any object that has ``__array__`` or ``__dlpack__``.
ArrayLike = Any

#: Maps type names of ml_dtypes and torch to formats of macheps.
_ML_DTYPES = {
    "bfloat16": "bf16",
    "float8_e3m4": "e3m4",
    "float8_e4m3": "e4m3ieee",
    "float8_e4m3b11fnuz": "e4m3b11fnuz",
    "float8_e4m3fn": "e4m3fn",
    "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2": "e5m2",
    "float8_e5m2fnuz": "e5m2fnuz",
    "float8_e8m0fnu": "e8m0fnu",
    "float6_e2m3fn": "e2m3fn",
    "float6_e3m2fn": "e3m2fn",
    "float4_e2m1fn": "e2m1fn",
}
_NUMPY_FORMATS = {"float16": "fp16", "float32": "fp32", "float64": "fp64"}
_TORCH_FORMATS = {**_ML_DTYPES, **_NUMPY_FORMATS}
_CODE_TYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Source(NamedTuple):
    """An input, converted for the extension module, and the kind of object that it was."""

    values: Array  #: contiguous fp32 or fp64, or unsigned integers for codes
    format: str | None  #: format of the elements, if their type determines one
    is_tensor: bool  #: whether the input was a torch tensor
    is_scalar: bool  #: whether the input was a Python or NumPy number


def ml_dtype_of(format: str) -> np.dtype[Any]:
    """Returns the NumPy or ml_dtypes dtype for a format. Raises `Error` if none exists or ml_dtypes is missing."""
    for name, ours in _NUMPY_FORMATS.items():
        if ours == format:
            return np.dtype(name)
    for name, ours in _ML_DTYPES.items():
        if ours == format:
            kind: np.dtype[Any] = np.dtype(getattr(needed("ml_dtypes"), name))
            return kind
    raise Error(f"ml_dtypes has no type for {format}", "dtype", "leave out dtype to get plain codes")


def torch_dtype_of(format: str) -> Any:
    """Returns torch's dtype for a format. Raises `Error` if torch has no such dtype, or if torch is missing."""
    torch = needed("torch")
    for name, ours in _TORCH_FORMATS.items():
        if ours == format and hasattr(torch, name):
            return getattr(torch, name)
    raise Error(f"torch has no type for {format}", "dtype", "leave out dtype to get plain codes")


def needed(package: str) -> Any:
    """Imports a package that only some functions need. Raises `Error` if it is missing."""
    try:
        return __import__(package)
    except ImportError as missing:
        raise Error(f"this function needs the package {package}", "import", f"install it: pip install {package}") from missing


def is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def refuse_gradients(x: Any, function: str) -> None:
    """Raises TypeError for a tensor that requires a gradient. Conversion would drop it and spoil training."""
    if is_tensor(x) and x.requires_grad:
        torch = sys.modules["torch"]
        if torch.is_grad_enabled():
            way = f'use macheps.torch.{function}(x, ..., grad="straight_through")' if function == "round" else "x.detach()"
            raise TypeError(f"{function}() has no gradient; {way}")


def _from_tensor(x: Any, function: str) -> tuple[Array, str | None]:
    refuse_gradients(x, function)
    torch = sys.modules["torch"]
    if x.device.type != "cpu":
        raise TypeError(f"{function}() computes on the CPU, but this tensor is on {x.device}: pass x.cpu()")
    refuse_hidden_tensor(x, function)
    x = x.detach().resolve_conj().resolve_neg().contiguous()
    name = str(x.dtype).removeprefix("torch.")
    if name in _ML_DTYPES:
        bits = x.element_size() * 8
        codes = x.view({8: torch.uint8, 16: torch.int16}[bits]).numpy()
        return codes.view(_CODE_TYPES[bits]), _ML_DTYPES[name]
    try:
        return x.numpy(), _NUMPY_FORMATS.get(name)
    except (TypeError, RuntimeError) as refused:
        raise TypeError(f"{function}() does not accept elements of type {x.dtype}") from refused


def _to_numpy(x: Any, function: str) -> tuple[Array, str | None]:
    """Returns a NumPy array and the format of its elements, if known. Elements of ml_dtypes become unsigned codes."""
    if is_tensor(x):
        return _from_tensor(x, function)
    if not isinstance(x, (np.ndarray, np.generic)) and hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        device = x.__dlpack_device__()
        if device[0] != 1:
            raise TypeError(f"{function}() computes on the CPU, but this array is on device {tuple(device)}: copy it to the CPU")
        try:
            x = np.from_dlpack(x)
        except Exception as refused:  # the other library may raise any type
            raise TypeError(f"{function}() needs an array of numbers: {refused}") from refused
    refuse_hidden(x, function)
    try:
        array = np.asanyarray(x)  # keeps a subclass that __array__ returns
        refuse_hidden(array, function)
        array = np.asarray(array)
    except (ValueError, TypeError) as refused:
        raise TypeError(f"{function}() needs an array of numbers: {refused}") from refused
    name = array.dtype.name
    if name in _ML_DTYPES:
        bits = array.dtype.itemsize * 8
        return np.ascontiguousarray(array).view(_CODE_TYPES[bits]).reshape(array.shape), _ML_DTYPES[name]
    return array, _NUMPY_FORMATS.get(name)


def _contiguous(array: Array, dtype: Any) -> Array:
    """Returns the array in this dtype, native byte order and C order. Copies only if necessary. 0-d arrays stay 0-d."""
    return np.ascontiguousarray(array, dtype=dtype).reshape(array.shape)


def numbers(x: ArrayLike, function: str) -> Source:
    """Returns the input as fp32 or fp64 numbers, without rounding.

    Arrays become fp32 if fp32 can hold every value of their type. Python numbers and sequences of them become fp64,
    and fp64 stays fp64. Raises TypeError for any other type.
    """
    if type(x) is np.ndarray and x.dtype is FLOAT32 and x.flags.c_contiguous:
        return Source(x, "fp32", False, False)
    array, format = _to_numpy(x, function)
    tensor, scalar = is_tensor(x), isinstance(x, (int, float, np.generic)) and not isinstance(x, np.ndarray)
    kind, size = array.dtype.kind, array.dtype.itemsize
    if format is not None and array.dtype.kind == "u":
        values = np.empty(array.shape, np.float32)
        _core.decode_into(format, array, values)
        return Source(values, format, tensor, scalar)
    if isinstance(x, (int, float)) or (kind == "i" and not isinstance(x, np.generic) and not hasattr(x, "dtype")):
        if kind in "iu" and array.size and max(abs(int(array.min())), abs(int(array.max()))) > 2**53:
            raise TypeError(f"{function}() accepts whole numbers up to 2**53, which fp64 can represent")
        if kind in "iubf":
            return Source(_contiguous(array, np.float64), "fp64", tensor, scalar)
    if kind == "f" and size == 8:
        return Source(_contiguous(array, np.float64), "fp64", tensor, scalar)
    if (kind == "f" and size <= 4) or (kind in "iu" and size <= 2) or kind == "b":
        return Source(_contiguous(array, np.float32), format, tensor, scalar)
    if kind in "iu":
        raise TypeError(f"{function}() accepts integers of up to 16 bits, which fp32 can represent; {array.dtype} may not fit:"
                        " pass x.astype(numpy.float64), and check that the conversion is exact")
    raise TypeError(f"{function}() needs real numbers, but these have type {array.dtype}")


def codes(x: ArrayLike, format: str | None, function: str) -> tuple[Source, str]:
    """Returns the input as codes, and the name of their format.

    The format is the argument `format`, or follows from the type of the input.
    """
    from ._formats import finfo

    array, named = _to_numpy(x, function)
    if named in ("fp16", "fp32", "fp64"):
        if format is not None and finfo(format).format != named:
            raise TypeError(f"{function}() needs codes (unsigned integers), but these are numbers of type {array.dtype}")
        bits = array.dtype.itemsize * 8
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).view(_CODE_TYPES[bits]).reshape(array.shape)
        format = named
    elif named is not None:
        if format is not None and finfo(format).format != named:
            raise Error(f"these are codes of {named}, not of {format}", "format", f"leave it out, or use {named}")
        format = named
    if format is None:
        raise Error("the format of the codes is missing", "format", 'add it, such as "e4m3fn"')
    info = finfo(format)
    width = container_width(info.container_bits)
    if array.dtype.kind not in "iu":
        if array.size == 0:
            array = np.zeros(array.shape, _CODE_TYPES[width])
        else:
            raise TypeError(f"{function}() needs codes (unsigned integers), but these have type {array.dtype}")
    array = as_codes(array, info, function)
    return Source(array, info.format, is_tensor(x), isinstance(x, (int, np.generic))), info.format


def as_codes(array: Array, info: FormatInfo, where: str) -> Array:
    """Converts integers to codes of a format, stored as unsigned integers of the format's container width.

    Raises `Error` for a number that is not a code. If the integers have the container's width and every bit pattern is
    a code, negative integers are accepted and reinterpreted as bits, because PyTorch stores codes as signed integers.
    """
    width = container_width(info.container_bits)
    if array.dtype.itemsize * 8 != width or info.container_bits < width:
        top = (1 << info.container_bits) - 1
        if array.size and (int(array.min()) < 0 or int(array.max()) > top):
            raise Error(f"some numbers are not codes of {info.format}", where, f"use codes from 0 to {top}")
    return np.ascontiguousarray(array, _CODE_TYPES[width]).reshape(array.shape)


def container_width(bits: int) -> int:
    """Returns the width in bits of the integer that holds a code."""
    return next(width for width in (8, 16, 32, 64) if bits <= width)


def code_type(bits: int) -> Any:
    return _CODE_TYPES[container_width(bits)]


def given_back(made: Array, source: Source) -> Any:
    """Returns the result as the same kind of object as the input: a torch tensor, a NumPy array or a number."""
    if source.is_tensor:
        torch = sys.modules["torch"]
        signed = {np.dtype(np.uint16): np.int16, np.dtype(np.uint32): np.int32, np.dtype(np.uint64): np.int64}
        if made.dtype in signed:  # torch supports few operations on wide unsigned integers
            return torch.from_numpy(made.view(signed[made.dtype]))
        return torch.from_numpy(made)
    return made[()] if source.is_scalar else made


def output_like(source: Source, dtype: Any, out: Any, function: str) -> Array:
    """Returns `out` as a NumPy array, or a new array if `out` is None. Raises if `out` cannot hold the result.

    `out` may be the input itself. If `out` overlaps the input in another way, the caller has to copy the input first,
    which the function `apart` does.
    """
    if out is None:
        return np.empty(source.values.shape, dtype)
    array = out
    if type(out) is not np.ndarray and is_tensor(out) and out.device.type == "cpu" and not out.requires_grad:
        array = out.detach().numpy()
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{function}() writes into NumPy arrays and CPU tensors without gradients, not {type(out).__name__}")
    if array.dtype != np.dtype(dtype) or not array.dtype.isnative:
        raise TypeError(f"out has elements of type {array.dtype}, but the result has elements of type {np.dtype(dtype)}")
    if array.shape != source.values.shape:
        raise Error(f"out has the shape {array.shape}", "out", f"use an array of shape {source.values.shape}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise Error("out is not contiguous" if array.flags.writeable else "out is read-only", "out",
                    "use a writable array in C order")
    return array


def is_plain_output(values: Array, out: Any) -> bool:
    """Returns whether the result of these fp32 values can be written into `out` without `output_like` and `apart`."""
    return (type(out) is np.ndarray and out.dtype is FLOAT32 and out.shape == values.shape and out.flags.carray
            and (out is values or not np.may_share_memory(values, out)))  # fmt: skip


def apart(values: Array, out: Array) -> Array:
    """Returns the input, or a copy of it if `out` overlaps it without being the same array."""
    if values is out or not np.may_share_memory(values, out):
        return values
    same = values.ctypes.data == out.ctypes.data and values.dtype == out.dtype
    return values if same else values.copy()


Number = Union[int, float]
