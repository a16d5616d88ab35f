#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch's kernels compute on a GPU, as raw codes.

    scripts/gpu/torch_capture.py OUTDIR [--seconds 60] [--inputs DIR] [--device cuda|cpu] [--only GROUP,...]

This script does not judge the outputs. scripts/gpu/judge_captures.py does that later on any machine. Operands come from
scripts/gpu/operands.py, so a record has a seed and the name of a class instead of the operands. Each item runs twice,
and its record states whether both runs gave the same codes. Items that fail are recorded with the text of the error.
The most valuable groups run first. Each group has a share of the time; unfinished groups continue at the end.

Needs torch and numpy.
"""
import argparse
import json
import os
import pathlib
import platform
import shlex
import sys
import time
from functools import partial

BEGIN = time.monotonic()  # before torch is imported, which takes seconds

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import captures
import operands

import torch
import torch.nn.functional as F

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
          "e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "tf32"}
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def tensor(codes, format, device):
    """Returns the tensor of the numbers that these codes encode."""
    codes = np.ascontiguousarray(codes)
    signed = codes if codes.dtype == np.uint8 else codes.view(f"i{codes.itemsize}")
    return torch.from_numpy(signed.copy()).to(device).view(DTYPES[format])


def integer_view(t):
    return t.detach().contiguous().view(INTEGERS[t.element_size()])


def codes(t):
    """Returns the codes of a tensor of numbers."""
    return integer_view(t).cpu().numpy().view(UNSIGNED[t.element_size()])


class DeviceFailed(Exception):
    """Raised when the device rejects all further work of this process."""


class Capture:
    def __init__(self, arguments):
        self.device = arguments.device
        self.out = captures.Recorder(arguments.outdir, arguments.seconds, BEGIN)
        self.on_gpu = self.device.startswith("cuda")
        self.cache = {}
        self.asked = {}  # {kernel key: function} for items whose kernel names are not known yet
        self.named = set()
        self.naming_seconds, self.naming_failures = 0.0, 0
        self.inputs = arguments.inputs
        self.started = {}  # {group: number of items started}, for a restart after the device failed

    # -- operands ------------------------------------------------------------------------------------------------------

    def operand(self, format, kind, seed, stream, rows, terms, shift=0):
        """Returns a tensor [rows, terms] of generated codes. Keeps the last few hundred tensors in a cache."""
        return self.kept((format, kind, seed, stream, rows, terms, shift),
                         lambda: tensor(operands.matrix(format, kind, seed, stream, rows, terms, shift), format, self.device))

    def kept(self, key, make):
        if key not in self.cache:
            if len(self.cache) > 400:
                self.cache.pop(next(iter(self.cache)))
            self.cache[key] = make()
        return self.cache[key]

    # -- kernel names --------------------------------------------------------------------------------------------------

    def ask_kernels(self, key, function):
        """Queues `function` for `name_kernels`, once per key. Returns the key as text.

        `function` runs again later, so it must not read variables that change after the item.
        """
        text = "/".join(map(str, key))
        if self.on_gpu and text not in self.named:
            self.named.add(text)
            self.asked[text] = function
            if len(self.asked) >= 32:
                self.name_kernels()
        return text

    def name_kernels(self):
        """Runs the functions in `asked` under the profiler, and records the names of their kernels.

        Starting the profiler takes longer than a kernel, so many functions share one profile. A kernel that only waits
        is launched after each function to separate the names. This method may use a quarter of the total time.
        """
        asked, self.asked = self.asked, {}
        if not asked or self.naming_failures > 2 or self.naming_seconds > self.out.seconds / 4:
            return

        def run(record):
            from torch.profiler import ProfilerActivity, profile

            failed = {}
            with profile(activities=[ProfilerActivity.CUDA]) as found:
                torch.cuda._sleep(1)
                for text, function in asked.items():
                    try:
                        function()
                    except Exception as error:
                        failed[text] = str(error)[:200]
                    torch.cuda._sleep(1)
                torch.cuda.synchronize()
            events = [event for event in found.events() if str(event.device_type).endswith("CUDA")]
            if not events:
                raise RuntimeError("the profiler saw no kernel")
            events.sort(key=lambda event: event.time_range.start)
            parts = [[]]
            for event in events:
                if "spin_kernel" in event.name:
                    parts.append([])
                else:
                    parts[-1].append(event.name[:400])
            parts = parts[1:-1]
            record["failed"] = failed
            if len(parts) == len(asked):
                record["kernels"] = dict(zip(asked, parts))
            else:
                record["keys"], record["unassigned"] = list(asked), sorted({event.name[:400] for event in events})
            return {}

        begin = time.monotonic()
        if not self.out.item("kernels", f"names of {len(asked)} items", {"op": "kernel names"}, run):
            self.naming_failures += 1
        self.naming_seconds += time.monotonic() - begin

    # -- items ---------------------------------------------------------------------------------------------------------

    def run(self, group, name, facts, function, sample=None, kernel_key=None):
        """Runs `function` twice and records the tensor or the dict of tensors that it returns.

        If `sample` is given, it selects the outputs that are recorded."""

        def both(record):
            first, second = function(), function()
            if not isinstance(first, dict):
                first, second = {"out": first}, {"out": second}
            equal, arrays, hashes = True, {}, {}
            for key, value in first.items():
                value, again = value.detach(), second[key].detach()
                equal = equal and torch.equal(integer_view(value), integer_view(again))
                whole = codes(value)
                hashes[key] = captures.hash_of(whole)
                arrays[key] = whole if sample is None else sample(whole)
                record.setdefault("formats", {})[key] = NAMES.get(value.dtype, str(value.dtype))
                record.setdefault("shapes", {})[key] = list(value.shape)
                if not equal and f"{key}_again" not in arrays:
                    whole = codes(again)
                    arrays[f"{key}_again"] = whole if sample is None else sample(whole)
            record["equal_twice"], record["sha256"] = equal, hashes
            record["kernel_key"] = self.ask_kernels(kernel_key or (group, name), function)
            return arrays

        done = self.out.item(group, name, facts, both)
        if self.on_gpu and not done:
            try:
                torch.cuda.synchronize()
            except Exception as error:
                raise DeviceFailed(str(error)) from error
        return done


# -- matrix products -----------------------------------------------------------------------------------------------------


def default_settings():
    cublas = torch.backends.cuda.matmul
    cublas.allow_tf32 = False
    cublas.allow_fp16_reduced_precision_reduction = True
    cublas.allow_bf16_reduced_precision_reduction = True
    try:
        cublas.allow_fp16_accumulation = False
    except Exception:
        pass


class Settings:
    """Sets attributes of torch.backends.cuda.matmul in a `with` block, and restores the defaults after the block."""

    def __init__(self, **values):
        self.values = values

    def __enter__(self):
        default_settings()
        for name, value in self.values.items():
            if name == "library":
                torch.backends.cuda.preferred_blas_library(value)
            else:
                setattr(torch.backends.cuda.matmul, name, value)

    def __exit__(self, *_):
        if "library" in self.values:
            torch.backends.cuda.preferred_blas_library("default")
        default_settings()


def laid_out(t, letter):
    """Returns t [rows, columns] stored by rows (n) or by columns (t)."""
    return t.contiguous() if letter == "n" else t.t().contiguous().t()


# name: (format of the operands, settings, function). Operands are a [m, k] and b [k, n] in any layout.
def matmul_variants():
    plain = torch.matmul
    to_fp32 = lambda a, b: torch.mm(a, b, out_dtype=torch.float32)
    return {
        "bf16": ("bf16", {}, plain),
        "fp16": ("fp16", {"allow_fp16_reduced_precision_reduction": False}, plain),
        "tf32": ("tf32", {"allow_tf32": True}, plain),
        "fp32": ("fp32", {}, plain),
        "bf16.fp32out": ("bf16", {}, to_fp32),
        "fp16.reduced": ("fp16", {"allow_fp16_reduced_precision_reduction": True}, plain),
        "fp16.fp32out": ("fp16", {"allow_fp16_reduced_precision_reduction": False}, to_fp32),
        "bf16.unreduced": ("bf16", {"allow_bf16_reduced_precision_reduction": False}, plain),
        "bf16.lt": ("bf16", {"library": "cublaslt"}, plain),
        "fp16.acc16": ("fp16", {"allow_fp16_accumulation": True}, plain),
        "tf32.new": ("tf32", {"fp32_precision": "tf32"}, plain),
        "fp32.new": ("fp32", {"fp32_precision": "ieee"}, plain),
        "fp32.lt": ("fp32", {"library": "cublaslt"}, plain),
    }


SHORT = ("bf16.unreduced", "bf16.lt", "tf32.new", "fp32.new", "fp32.lt", "fp16.acc16")
DEPTHS = (1000, 4096, 256, 16, 100, 48, 129)


def matmul_cases():
    """Yields (m, n, k, layout, classes), most informative first. A layout has a letter for a and a letter for b."""
    for k in DEPTHS:
        yield 128, 64, k, "nn", ("plain", "cancelling", "swamp")
    for layout in ("nt", "tn", "tt"):
        yield 128, 64, 1000, layout, ("plain", "cancelling")
    yield 1024, 768, 1024, "nn", ("plain", "cancelling")
    yield 1024, 768, 1024, "nt", ("cancelling",)
    for k in (1000, 129, 16):
        yield 129, 65, k, "nn", ("plain", "cancelling", "swamp")
    yield 129, 65, 1000, "nt", ("cancelling",)
    yield 1, 65, 1000, "nn", ("plain", "cancelling", "swamp")
    yield 1, 64, 1000, "nt", ("plain", "cancelling")
    for k in DEPTHS:
        yield 128, 64, k, "nn", ("wide", "positive")


def product_item(c, group, variant, format_a, format_b, settings, m, n, k, layout, kind, function, extra=None):
    seed = operands.seed_of(f"{format_a}:{format_b}/{kind}/{m}x{n}x{k}")
    rows, columns = captures.grid(m, n)
    facts = {"op": group, "variant": variant, "a": format_a, "b": format_b, "m": m, "n": n, "k": k, "layout": layout,
             "class": kind, "seed": seed, "settings": settings, "rows": rows.tolist(), "columns": columns.tolist(),
             **(extra or {})}

    def call():
        a = laid_out(c.operand(format_a, kind, seed, 0, m, k), layout[0])
        b = c.operand(format_b, kind, seed, 1, n, k).t()  # [k, n], stored by columns
        b = b if layout[1] == "t" else b.contiguous()
        with Settings(**settings):
            return function(a, b)

    name = f"{variant}/{m}x{n}x{k}/{layout}/{kind}"
    return c.run(group, name, facts, call, lambda whole: whole[np.ix_(rows, columns)],
                 kernel_key=(group, variant, m, n, k, layout))


def matmul(c):
    variants = matmul_variants()
    cases = list(matmul_cases())
    for m, n, k, layout, kinds in cases:
        for variant, (format, settings, function) in variants.items():
            if variant in SHORT and (m, n) not in ((128, 64), (1024, 768)):
                continue
            for kind in kinds:
                if variant in SHORT and kind not in ("cancelling", "swamp"):
                    continue
                yield lambda: product_item(c, "matmul", variant, format, format, settings, m, n, k, layout, kind, function)
    for format in ("bf16", "fp16", "fp32"):
        for k in (256, 1000):
            yield lambda: linear_item(c, format, k)
            yield lambda: batched_item(c, format, k)


def linear_item(c, format, k):
    bias_seed = operands.seed_of(f"bias/{format}")
    bias = c.operand(format, "plain", bias_seed, 2, 1, 64)[0]
    return product_item(c, "matmul", f"{format}.linear", format, format, {}, 128, 64, k, "nt", "swamp",
                        lambda a, b: F.linear(a, b.t(), bias), {"bias_seed": bias_seed})


def batched_item(c, format, k):
    """Records a batch of four products. The rows of a and of the transposed b are divided among the products."""

    def batched(a, b):
        return torch.bmm(a.view(4, -1, k), b.t().contiguous().view(4, -1, k).transpose(1, 2)).reshape(-1, b.shape[1] // 4)

    m, n = 512, 256
    seed = operands.seed_of(f"{format}/batched/{k}")
    rows, columns = captures.grid(m, n // 4)
    facts = {"op": "bmm", "variant": f"{format}.bmm", "a": format, "b": format, "batches": 4, "m": 128, "n": 64, "k": k,
             "class": "cancelling", "seed": seed, "settings": {}, "rows": rows.tolist(), "columns": columns.tolist()}
    call = lambda: batched(c.operand(format, "cancelling", seed, 0, m, k), c.operand(format, "cancelling", seed, 1, n, k).t())
    return c.run("matmul", f"{format}.bmm/4x128x64x{k}", facts, call, lambda whole: whole[np.ix_(rows, columns)])


# -- scaled products -----------------------------------------------------------------------------------------------------


def scale_codes(kind, seed, count_a, count_b):
    """Returns the codes of decode scales: 1 for the classes that test the accumulator, random for the other classes."""
    if kind in ("cancelling", "positive", "wide"):
        return np.full(count_a, 0x3F800000, np.uint32), np.full(count_b, 0x3F800000, np.uint32)
    return operands.scales(seed, 2, count_a), operands.scales(seed, 3, count_b)


def scaled_function(c, scaling, kind, seed, m, n, k, fast, out):
    if scaling == "tensor":
        shapes = (1,), (1,)
    elif scaling == "row":
        shapes = (m, 1), (1, n)
    else:
        blocks_m = m if scaling.startswith("1x128") else -(-m // 128)
        blocks_n = n if scaling.endswith("1x128") else -(-n // 128)
        shapes = (blocks_m, -(-k // 128)), (blocks_n, -(-k // 128))
    made = scale_codes(kind, seed, int(np.prod(shapes[0])), int(np.prod(shapes[1])))
    scale_a, scale_b = (tensor(x.reshape(s), "fp32", c.device) for x, s in zip(made, shapes))
    if scaling not in ("tensor", "row"):
        # Scales of 1x128 blocks are stored by columns, scales of 128x128 blocks by rows. The matrix of b's scales is
        # then transposed.
        scale_a = laid_out(scale_a, "t" if scaling.startswith("1x128") else "n")
        scale_b = laid_out(scale_b, "t" if scaling.endswith("1x128") else "n").t()
    options = {"scale_a": scale_a, "scale_b": scale_b, "out_dtype": DTYPES[out], "use_fast_accum": fast}
    return lambda a, b: torch._scaled_mm(a, b, **options)


def scaled_item(c, formats, scaling, fast, out, m, n, k, kind):
    format_a, format_b = formats
    variant = f"{format_a}.{format_b}.{scaling}{'.fast' if fast else ''}.{out}"
    seed = operands.seed_of(f"{format_a}:{format_b}/{kind}/{m}x{n}x{k}")
    function = lambda a, b: scaled_function(c, scaling, kind, seed, m, n, k, fast, out)(a, b)
    return product_item(c, "scaled_mm", variant, format_a, format_b, {}, m, n, k, "nt", kind, function,
                        {"scaling": scaling, "fast": fast, "out": out,
                         "unit_scales": kind in ("cancelling", "positive", "wide")})


def scaled_mm(c):
    refused = set()

    def item(formats, scaling, fast, out, m, n, k, kind):
        # Whether PyTorch accepts a combination depends on the shape, but not on the class of the operands.
        key = (formats, scaling, fast, out, m, n, k)
        if key not in refused and not scaled_item(c, formats, scaling, fast, out, m, n, k, kind):
            refused.add(key)

    e4, e5 = ("e4m3fn", "e4m3fn"), ("e5m2", "e4m3fn")
    first = [(e4, "tensor", fast, out) for out in ("fp32", "bf16") for fast in (False, True)]
    first += [(e4, "row", fast, "bf16") for fast in (False, True)]
    second = [(e5, "tensor", fast, "fp32") for fast in (False, True)] + [(e5, "row", fast, "bf16") for fast in (False, True)]
    rare = [(e4, "row", fast, "fp32") for fast in (False, True)] + [(("e4m3fn", "e5m2"), "tensor", False, "fp32")]
    depths = (1024, 4096, 1008, 128, 144, 48, 16)
    for k in depths:
        for combination in first:
            for kind in ("plain", "cancelling", "positive"):
                yield lambda: item(*combination, 128, 64, k, kind)
    for scaling in ("1x128.128x128", "1x128.1x128", "128x128.1x128", "128x128.128x128"):
        for out in ("bf16", "fp32"):
            for kind in ("plain", "swamp", "positive"):
                for k in (1024, 512):
                    yield lambda: item(e4, scaling, False, out, 128, 128, k, kind)
    for k in depths:
        for combination in second:
            for kind in ("plain", "cancelling"):
                yield lambda: item(*combination, 128, 64, k, kind)
    for combination in first:
        for m, n, k in ((1024, 768, 1024), (1, 64, 1024), (129, 80, 1008)):
            for kind in ("plain", "positive"):
                yield lambda: item(*combination, m, n, k, kind)
    for k in depths:
        for combination in first + rare:
            for kind in ("swamp", "wide"):
                yield lambda: item(*combination, 128, 64, k, kind)


# -- the order of sums ---------------------------------------------------------------------------------------------------


def reveal_item(c, variant, formats, k, m, n, function, settings):
    """Records the sums of operands.reveal, computed by products of m x n outputs.

    A product computes the sums of up to m rows of a. They are in column 0 of the product if b is the same number
    everywhere, and otherwise on its diagonal."""
    facts = {"op": "reveal", "variant": variant, "a": formats[0], "b": formats[1], "m": m, "n": n, "k": k, "pairs": "near",
             "settings": settings}

    def make():
        made = operands.reveal(*formats, k)
        if made is None:
            raise ValueError("the range of the formats is too small for so many terms")
        return tuple(tensor(x, f, c.device) for x, f in zip(made, formats))

    def call():
        a, b = c.kept(("reveal", formats, k), make)
        b_is_one = bool((integer_view(b) == integer_view(b)[0, 0]).all())
        step = m if b_is_one else min(m, n)
        results = []
        with Settings(**settings):
            for first in range(0, a.shape[0], step):
                rows = a[first : first + step]
                given = rows.shape[0]
                # A shorter product would run another kernel, so the last product is filled up with the first rows of a.
                rows = torch.cat([integer_view(rows), integer_view(a)[: m - given]]).view(a.dtype)
                columns = torch.cat([integer_view(b)[first : first + step], integer_view(b)[: n]])[:n].view(b.dtype)
                out = function(rows.contiguous(), columns.t())
                results.append(out[:given, 0] if b_is_one else torch.diagonal(out)[:given])
        return torch.cat(results)

    return c.run("reveal", f"{variant}/{m}x{n}x{k}", facts, call)


def reveal(c):
    variants = matmul_variants()

    def of_matmul(variant, k):
        format, settings, function = variants[variant]
        # b is 1 everywhere, and stored by rows as in products with the layout nn.
        return reveal_item(c, variant, (format, format), k, 128, 64, lambda a, b: function(a, b.contiguous()), settings)

    def of_scaled(formats, scaling, fast, k, out):
        name = f"{formats[0]}.{formats[1]}.{scaling}{'.fast' if fast else ''}.{out}"
        m, n = 128, 64
        return reveal_item(c, name, formats, k, m, n,
                           lambda a, b: scaled_function(c, scaling, "wide", 0, m, n, k, fast, out)(a, b), {})

    def of_sum(format, k):
        def call():
            return torch.sum(tensor(operands.reveal(format, format, k)[0], format, c.device), dim=1)

        facts = {"op": "reveal_sum", "variant": f"sum.{format}", "a": format, "k": k, "pairs": "near"}
        return c.run("reveal", f"sum.{format}/{k}", facts, call)

    for k in (256, 128, 64):
        for variant in ("bf16", "fp16", "tf32", "fp32"):
            yield lambda: of_matmul(variant, k)
        for fast in (False, True):
            yield lambda: of_scaled(("e4m3fn", "e4m3fn"), "tensor", fast, k, "fp32")
            yield lambda: of_scaled(("e4m3fn", "e4m3fn"), "row", fast, k, "bf16")
            yield lambda: of_scaled(("e5m2", "e4m3fn"), "tensor", fast, k, "fp32")
    for variant in ("fp32", "tf32", "bf16.fp32out", "fp16.fp32out"):
        yield lambda: of_matmul(variant, 1024)
    yield lambda: of_scaled(("e5m2", "e4m3fn"), "tensor", False, 1024, "fp32")
    for variant in ("fp16.reduced", "bf16.unreduced", "bf16.lt"):
        yield lambda: of_matmul(variant, 256)
    for k in (256, 1024):
        yield lambda: of_sum("fp32", k)
    yield lambda: of_sum("bf16", 256)


# -- operations on rows --------------------------------------------------------------------------------------------------


def with_gradients(function, inputs, upstream):
    """Returns the output of `function` and the gradients of its inputs."""
    leaves = {name: value.detach().clone().requires_grad_(True) for name, value in inputs.items()}
    out = function(*leaves.values())
    out.backward(upstream if upstream.shape == out.shape else torch.ones_like(out))
    return {"out": out, **{f"grad_{name}": leaf.grad for name, leaf in leaves.items()}}


def row_operation(c, op, format, rows, columns, kind, shift, function, gains=()):
    seed = operands.seed_of(f"{op}/{format}/{rows}x{columns}/{kind}")
    streams = {"x": 0, "upstream": 1, "gain": 2, "shift": 3}
    facts = {"op": op, "format": format, "rows": rows, "columns": columns, "class": kind, "exponent_shift": shift,
             "seed": seed, "streams": streams, "given": ["x", *gains]}

    def call():
        inputs = {"x": c.operand(format, kind, seed, 0, rows, columns, shift)}
        for name in gains:
            inputs[name] = c.operand(format, "plain", seed, streams[name], 1, columns)[0]
        upstream = c.operand(format, "plain", seed, 1, rows, columns)
        return with_gradients(function, inputs, upstream)

    return c.run("rows", f"{op}/{format}/{rows}x{columns}/{kind}", facts, call)


def rows(c):
    def norm_operations(columns):
        return {
            "softmax": (lambda x: F.softmax(x, -1), 2, ()),
            "log_softmax": (lambda x: F.log_softmax(x, -1), 2, ()),
            "layernorm": (lambda x, gain, shift: F.layer_norm(x, (columns,), gain, shift, 1e-5), 0, ("gain", "shift")),
            "rmsnorm": (lambda x, gain: F.rms_norm(x, (columns,), gain, 1e-5), 0, ("gain",)),
        }

    for columns, count in ((1000, 8), (4096, 4), (64, 32)):
        for format in ("fp32", "bf16"):
            for op, (function, shift, gains) in norm_operations(columns).items():
                yield lambda: row_operation(c, op, format, count, columns, "plain", shift, function, gains)
            yield lambda: cross_entropy(c, format, count, columns, "none")
    for format in ("fp32", "bf16"):
        yield lambda: cross_entropy(c, format, 64, 1000, "mean")
    pointwise = {
        "gelu": lambda x: F.gelu(x),
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "exp": torch.exp,
        "log": torch.log,
        "erf": torch.erf,
        "rsqrt": torch.rsqrt,
    }
    for op, function in pointwise.items():
        yield lambda: row_operation(c, op, "fp32", 4, 4096, "plain", 1, function)
        if op in ("gelu", "gelu_tanh", "silu"):
            yield lambda: all_inputs(c, op, "bf16", function)
    for format in ("fp32", "bf16"):
        for op, function in (("sum", torch.sum), ("mean", torch.mean)):
            for columns in (1000, 4096, 65536):
                for kind in ("plain", "cancelling", "positive"):
                    yield lambda: reduction(c, op, format, 8, columns, kind, partial(function, dim=-1))
            for kind in ("plain", "positive"):
                yield lambda: reduction(c, op + "_all", format, 64, 4096, kind, function)
                yield lambda: reduction(c, op + "_columns", format, 512, 64, kind, partial(function, dim=0))
    for op in ("gelu", "gelu_tanh", "silu"):
        yield lambda: all_inputs(c, op, "fp16", pointwise[op])
    for format in ("fp16",):
        for op, (function, shift, gains) in norm_operations(1000).items():
            yield lambda: row_operation(c, op, format, 8, 1000, "plain", shift, function, gains)


def all_inputs(c, op, format, function):
    """Records an elementwise operation and its gradient (upstream gradient: 1) for every code of a 16-bit format."""

    def call():
        x = tensor(operands.all_codes(16), format, c.device)
        return with_gradients(function, {"x": x}, torch.ones_like(x))

    return c.run("rows", f"{op}/{format}/all", {"op": op, "format": format, "class": "all codes"}, call)


def reduction(c, op, format, count, columns, kind, function):
    seed = operands.seed_of(f"{op}/{format}/{count}x{columns}/{kind}")
    facts = {"op": op, "format": format, "rows": count, "columns": columns, "class": kind, "seed": seed}
    return c.run("rows", f"{op}/{format}/{count}x{columns}/{kind}", facts,
                 lambda: function(c.operand(format, kind, seed, 0, count, columns)))


def cross_entropy(c, format, count, columns, reduction_name):
    seed = operands.seed_of(f"cross_entropy/{format}/{count}x{columns}/plain")
    facts = {"op": "cross_entropy", "format": format, "rows": count, "columns": columns, "class": "plain",
             "exponent_shift": 2, "seed": seed, "target_stream": 4, "reduction": reduction_name}

    def call():
        x = c.operand(format, "plain", seed, 0, count, columns, 2)
        target = torch.from_numpy(operands.integers(seed, 4, count, columns)).to(c.device)
        upstream = c.operand(format, "plain", seed, 1, 1, count)[0]
        return with_gradients(lambda x: F.cross_entropy(x, target, reduction=reduction_name), {"x": x}, upstream)

    return c.run("rows", f"cross_entropy/{format}/{count}x{columns}/{reduction_name}", facts, call)


# -- casts ---------------------------------------------------------------------------------------------------------------


def casts(c):
    seed = operands.seed_of("casts")

    def item(source, target, made):
        facts = {"op": "cast", "from": source, "to": str(target), "seed": seed,
                 "inputs": "cast_inputs" if source in ("fp32", "fp64") else "all codes"}
        return c.run("casts", f"{source}-{target}", facts,
                     lambda: tensor(made(), source, c.device).to(DTYPES.get(target) or getattr(torch, target)))

    fp32 = lambda: operands.cast_inputs(seed)

    def fp64():
        """Returns fp64 numbers near ties of narrow formats: fp32 inputs plus 0, 1 or 2 units in the last place."""
        wide = operands.cast_inputs(seed, 16384)
        wide = wide[(wide & 0x7FFFFFFF) < 0x7F800000].view(np.float32).astype(np.float64).view(np.uint64)
        return wide + (np.arange(wide.size, dtype=np.uint64) % np.uint64(3))

    for target in ("bf16", "fp16", "e4m3fn", "e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        yield lambda: item("fp32", target, fp32)
    for source in ("bf16", "fp16"):
        for target in ("fp32", "bf16", "fp16", "e4m3fn", "e5m2"):
            if source != target:
                yield lambda: item(source, target, lambda: operands.all_codes(16))
    for source in ("e4m3fn", "e5m2"):
        for target in ("fp32", "bf16", "fp16", "e4m3fn", "e5m2"):
            if source != target:
                yield lambda: item(source, target, lambda: operands.all_codes(8))
    for target in ("fp32", "bf16", "fp16", "e4m3fn", "e5m2"):
        yield lambda: item("fp64", target, fp64)


# -- attention and optimisers --------------------------------------------------------------------------------------------


def attention(c):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def item(backend, format, heads, length, width, causal, kind):
        seed = operands.seed_of(f"attention/{format}/{heads}x{length}x{width}/{kind}")
        facts = {"op": "attention", "backend": backend, "format": format, "heads": heads, "length": length, "width": width,
                 "causal": causal, "class": kind, "seed": seed, "streams": {"q": 0, "k": 1, "v": 2}}

        def call():
            q, k, v = (c.operand(format, kind, seed, stream, heads * length, width).view(1, heads, length, width)
                       for stream in range(3))
            with sdpa_kernel([getattr(SDPBackend, backend)]):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal).reshape(heads * length, width)

        def sample(whole):
            return whole[captures.grid(heads * length, width)[0]]

        facts["rows"] = captures.grid(heads * length, width)[0].tolist()
        return c.run("attention", f"{backend}/{format}/{heads}x{length}x{width}/{'causal' if causal else 'full'}/{kind}",
                     facts, call, sample)

    yield from attention_gradients(c)
    for length in (128, 200):
        for causal in (False, True):
            for format in ("bf16", "fp16", "fp32"):
                for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
                    if format == "fp32" and backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
                        continue
                    for kind in ("plain",) if causal else ("plain", "wide"):
                        yield lambda: item(backend, format, 2, length, 64, causal, kind)


def attention_gradients(c):
    """Records every output of attention and of its backward pass, for short sequences."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def item(backend, format, heads, length, width, causal):
        seed = operands.seed_of(f"attention/{format}/{heads}x{length}x{width}/plain")
        streams = {"q": 0, "k": 1, "v": 2, "upstream": 3}
        facts = {"op": "attention_backward", "backend": backend, "format": format, "heads": heads, "length": length,
                 "width": width, "causal": causal, "class": "plain", "seed": seed, "streams": streams}

        def call():
            given = {name: c.operand(format, "plain", seed, stream, heads * length, width).view(1, heads, length, width)
                     for name, stream in streams.items()}
            upstream = given.pop("upstream")
            with sdpa_kernel([getattr(SDPBackend, backend)]):
                return with_gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), given, upstream)

        return c.run("attention", f"{backend}/{format}/{heads}x{length}x{width}/{'causal' if causal else 'full'}/gradients",
                     facts, call)

    for format in ("bf16", "fp16", "fp32"):
        for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
            if format == "fp32" and backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
                continue
            for causal in (False, True):
                yield lambda: item(backend, format, 2, 64, 64, causal)


def optimisers(c):
    def adamw(kind, format, count, step):
        seed = operands.seed_of(f"adamw/{format}/{count}")
        hyper = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
        facts = {"op": "adamw", "kind": kind, "format": format, "count": count, "step": step, "seed": seed, **hyper,
                 "streams": {"p": 0, "g": 1, "exp_avg": 2, "exp_avg_sq": 3},
                 "exponent_shifts": {"p": -2, "g": -8, "exp_avg": -8, "exp_avg_sq": -18},
                 "classes": {"p": "plain", "g": "plain", "exp_avg": "plain", "exp_avg_sq": "positive"}}

        def call():
            given = {name: c.operand(format, facts["classes"][name], seed, stream, 1, count, facts["exponent_shifts"][name])[0]
                     for name, stream in facts["streams"].items()}
            p = given["p"].detach().clone().requires_grad_(True)
            p.grad = given["g"].clone()
            choice = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False, "fused": False}}
            optimiser = torch.optim.AdamW([p], lr=hyper["lr"], betas=tuple(hyper["betas"]), eps=hyper["eps"],
                                          weight_decay=hyper["weight_decay"], **choice[kind])
            place = c.device if kind == "fused" else "cpu"
            optimiser.state[p] = {"step": torch.tensor(float(step), device=place), "exp_avg": given["exp_avg"].clone(),
                                  "exp_avg_sq": given["exp_avg_sq"].clone()}
            optimiser.step()
            state = optimiser.state[p]
            return {"p": p.detach(), "exp_avg": state["exp_avg"], "exp_avg_sq": state["exp_avg_sq"]}

        return c.run("optimisers", f"adamw.{kind}/{format}/{count}/step{step}", facts, call)

    for format in ("fp32", "bf16"):
        for kind in ("fused", "foreach", "loop"):
            for step in (0, 9):
                yield lambda: adamw(kind, format, 2048, step)

    def clip(format, foreach, sizes, most):
        seed = operands.seed_of(f"clip/{format}/{sizes}")
        facts = {"op": "clip_grad_norm", "format": format, "foreach": foreach, "sizes": list(sizes), "max_norm": most,
                 "seed": seed, "streams": list(range(len(sizes)))}

        def call():
            parameters = []
            for stream, size in enumerate(sizes):
                g = c.operand(format, "plain", seed, stream, 1, size)[0]
                p = torch.zeros_like(g).requires_grad_(True)
                p.grad = g.clone()
                parameters.append(p)
            norm = torch.nn.utils.clip_grad_norm_(parameters, most, foreach=foreach)
            return {"norm": norm.reshape(1), **{f"grad_{i}": p.grad[:256] for i, p in enumerate(parameters)}}

        return c.run("optimisers", f"clip/{format}/{'foreach' if foreach else 'loop'}/{len(sizes)}x{sizes[-1]}", facts, call)

    for format in ("fp32", "bf16"):
        for foreach in (True, False):
            for sizes in ((1000,), (4096, 1000, 65536), (1 << 20,)):
                yield lambda: clip(format, foreach, sizes, 1.0)


# -- inputs of `macheps check make-inputs` -------------------------------------------------------------------------------


def given_kernels(op, x, options):
    """Returns [(suffix, function)]: PyTorch's ways of computing an operation of `macheps check` from the arrays x."""
    out = DTYPES.get(options.get("out", "fp32"), torch.float32)
    eps = float(options.get("eps", 1e-5))
    if op == "gemm" and "a_scale" in x:
        return [(suffix, lambda fast=fast: torch._scaled_mm(
            x["a"], x["b"].t().contiguous().t(), out_dtype=out, use_fast_accum=fast,
            scale_a=x["a_scale"].reshape(-1, 1) if x["a_scale"].numel() > 1 else x["a_scale"].reshape(1),
            scale_b=x["b_scale"].reshape(1, -1) if x["b_scale"].numel() > 1 else x["b_scale"].reshape(1)))
            for suffix, fast in (("", False), (".fast", True))]
    functions = {
        "gemm": lambda: torch.matmul(x["a"], x["b"]) if "bias" not in x else F.linear(x["a"], x["b"].t(), x["bias"]),
        "softmax": lambda: F.softmax(x["x"], -1),
        "log_softmax": lambda: F.log_softmax(x["x"], -1),
        "layernorm": lambda: F.layer_norm(x["x"], x["x"].shape[-1:], x.get("gain"), x.get("shift"), eps),
        "rmsnorm": lambda: F.rms_norm(x["x"], x["x"].shape[-1:], x.get("gain"), eps),
        "gelu": lambda: F.gelu(x["x"]),
        "gelu_tanh": lambda: F.gelu(x["x"], approximate="tanh"),
        "silu": lambda: F.silu(x["x"]),
        "sigmoid": lambda: torch.sigmoid(x["x"]),
        "tanh": lambda: torch.tanh(x["x"]),
        "exp": lambda: torch.exp(x["x"]),
        "relu": lambda: F.relu(x["x"]),
        "sum": lambda: torch.sum(x["x"], -1),
        "mean": lambda: torch.mean(x["x"], -1),
        "max": lambda: torch.amax(x["x"], -1),
        "logsumexp": lambda: torch.logsumexp(x["x"], -1),
        "norm2": lambda: torch.linalg.vector_norm(x["x"], dim=-1),
        "cross_entropy": lambda: F.cross_entropy(x["x"], x["target"].long(), reduction=options.get("reduction", "none")),
        "cast": lambda: x["x"].to(out),
    }
    if op not in functions:
        raise ValueError(f"no kernel here for the operation {op}")
    kernels = [("", functions[op])]
    if op == "gemm" and x["a"].dtype == torch.float32:
        def tf32():
            with Settings(allow_tf32=True):
                return functions["gemm"]()

        kernels.append((".tf32", tf32))
    return kernels


def options_of(text):
    """Returns the options of a recipe, such as `--a bf16 --eps 1e-5`, as a dict; _ replaces - in names."""
    found, name = {}, None
    for word in shlex.split(text):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            name = name.replace("-", "_")
            found[name] = value
        elif name is not None:
            found[name] = word
    return found


def given_tensor(array, format, device):
    if array.dtype.kind == "i":
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)
    size = array.dtype.itemsize
    if format is None:
        format = {("f", 4): "fp32", ("f", 2): "fp16", ("f", 8): "fp64"}[(array.dtype.kind, size)]
    return tensor(np.ascontiguousarray(array).view(UNSIGNED[size]).reshape(array.shape), format, device)


def given(c):
    table = pathlib.Path(c.inputs) / "items.tsv"
    for line in table.read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if not line or line.startswith("#") or len(fields) < 2 or fields[0] == "name":
            continue
        name, op, recipe, judge = (fields + ["", ""])[:4]
        options = options_of(recipe + " " + judge)
        for file in sorted((pathlib.Path(c.inputs) / name).glob("*.npz")):
            try:
                arrays = np.load(file)
                x = {key: given_tensor(arrays[key], options.get(key), c.device) for key in arrays.files
                     if key not in ("out", "recipe")}
                kernels = given_kernels(op, x, options)
            except Exception as error:
                c.out.log(f"given/{name}/{file.stem}: {type(error).__name__}: {error}")
                continue
            for suffix, function in kernels:
                facts = {"op": op, "recipe": recipe, "judge": judge, "input": file.stem, "item": name}
                yield lambda: c.run("given", f"{name}{suffix}/{file.stem}", facts, function, kernel_key=("given", name, suffix))


# -- all of it -----------------------------------------------------------------------------------------------------------

# Key: name of a group. Value: (the function that yields the items of the group, the group's share of the time). If this
# time ends before all items of a group have run, the remaining items run after the last group.
GROUPS = {"matmul": (matmul, 0.26), "scaled_mm": (scaled_mm, 0.24), "reveal": (reveal, 0.12), "rows": (rows, 0.14),
          "casts": (casts, 0.05), "attention": (attention, 0.07), "optimisers": (optimisers, 0.05), "given": (given, 0.07)}


def facts_of_machine(device):
    facts = {"torch": torch.__version__, "git": torch.version.git_version, "cuda": torch.version.cuda,
             "numpy": np.__version__, "python": platform.python_version(), "operands": operands.self_check(),
             "operands_expected": operands.SELF_CHECK, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
             "environment": {k: v for k, v in os.environ.items() if k.startswith(("CUBLAS", "NVIDIA_TF32", "TORCH_"))}}
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(0)
        facts |= {"gpu": properties.name, "capability": f"{properties.major}.{properties.minor}",
                  "multiprocessors": properties.multi_processor_count, "cudnn": torch.backends.cudnn.version()}
        try:
            from importlib import metadata

            facts["packages"] = {d.metadata["Name"]: d.version for d in metadata.distributions()
                                 if (d.metadata["Name"] or "").startswith(("nvidia", "triton", "torch"))}
        except Exception as error:
            facts["packages"] = str(error)
        try:
            facts["blas"] = str(torch.backends.cuda.preferred_blas_library())
        except Exception as error:
            facts["blas"] = str(error)
    return facts


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir")
    parser.add_argument("--seconds", type=float, default=60, help="do not start an item after this time (default: 60)")
    parser.add_argument("--inputs", help="folder with files of `macheps check make-inputs` and items.tsv")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", help="groups, separated by commas; all when left out")
    parser.add_argument("--skip", default="", help="GROUP:COUNT,...: leave out the first items of these groups")
    return parser.parse_args()


def main():
    chosen = arguments()
    c = Capture(chosen)
    try:
        facts = facts_of_machine(chosen.device)
        c.out.machine(facts)
        c.out.log(json.dumps({k: v for k, v in facts.items() if k != "packages"}))
    except Exception as error:
        c.out.log(f"facts of the machine: {error}")
    if c.on_gpu and not torch.cuda.is_available():
        c.out.log("no GPU that PyTorch can use")
        return 4
    try:
        run_groups(c, chosen)
    except DeviceFailed as error:
        restart(c, chosen, error)
    c.out.log(f"kernel names took {c.naming_seconds:.1f} s")
    c.out.close()
    return 0


def run_groups(c, chosen):
    names = [g for g in GROUPS if (not chosen.only or g in chosen.only.split(",")) and (g != "given" or c.inputs)]
    skip = dict(part.split(":") for part in chosen.skip.split(",") if part)
    total = sum(GROUPS[g][1] for g in names)
    waiting = []
    for group in names:
        items = GROUPS[group][0](c)
        c.started[group] = 0
        for _ in range(int(skip.get(group, 0))):
            next(items, None)
            c.started[group] += 1
        waiting.append((group, items))
        left = max(chosen.seconds - c.out.elapsed(), 0)
        run_until(c, group, items, c.out.elapsed() + left * GROUPS[group][1] / total, waiting)
        c.name_kernels()
        total -= GROUPS[group][1]
    for group, items in list(waiting):
        run_until(c, group, items, chosen.seconds, waiting)
        c.name_kernels()
    c.out.log("not finished: " + (", ".join(group for group, _ in waiting) or "nothing"))


def run_until(c, group, items, limit, waiting):
    """Runs the items of a group until the time `limit`. Removes the group from `waiting` when no item is left."""
    while not c.out.is_over() and c.out.elapsed() < limit:
        try:
            item = next(items)
            c.started[group] += 1
            item()
        except StopIteration:
            waiting.remove((group, items))
            return
        except DeviceFailed:
            raise
        except Exception as error:
            # No item has recorded this error. If the generator `items` raised it, the generator has ended, and the next
            # iteration of this loop gets StopIteration.
            c.out.log(f"{group}: {type(error).__name__}: {error}")


def restart(c, chosen, error):
    """Continues in a new process. Skips all items that were started, including the item that broke the device."""
    left = chosen.seconds - c.out.elapsed()
    c.out.log(f"the device failed: {error}")
    if left < 10:
        return
    c.out.close()
    skip = ",".join(f"{group}:{count}" for group, count in c.started.items())
    words = [sys.executable, __file__, chosen.outdir, "--seconds", f"{left:.1f}", "--device", chosen.device, "--skip", skip]
    for name in ("inputs", "only"):
        if getattr(chosen, name):
            words += [f"--{name}", getattr(chosen, name)]
    sys.stdout.flush()
    os.execv(sys.executable, words)


if __name__ == "__main__":
    sys.exit(main())
