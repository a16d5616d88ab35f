#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges captures of PyTorch's and Triton's kernels: finds the summation rule that reproduces every bit.

    scripts/gpu/judge_captures.py FOLDER [--program macheps] [--only GROUP,...] [--filter TEXT] [--csv FILE] [--inputs DIR]

FOLDER is the output of torch_capture.py or triton_capture.py. Operands are generated again from the recorded seeds.
Needs numpy, but no GPU. Each row of the table is a group of captures with one kernel:
  item       group, variant, shape, layout
  kernel     the kernels that the profiler named, without copies
  outputs    number of compared outputs, and number of captures that contain them
  claimed    rules that macheps claims for the variant, each with the number of outputs that it reproduces (found by
             `macheps check --bits`)
  verdict    equal or differs, for the first claimed rule; recorded if macheps claims no rule
  found      models of sums.py that reproduce every output; if there are none, the best model and the number of outputs
             that it reproduces

An output is reproduced if all its bits are equal. Models of matrix products may also differ in the sign of a zero. The
number of these outputs is printed. Exit code: 1 if a row has the verdict `differs`, otherwise 0.
Groups: matmul, scaled_mm, triton, reveal, casts, rows, optimisers, given. Captures of attention are not judged.
"""
import argparse
import collections
import csv
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import captures
import operands
import sums
from sums import Rule

GROUPS = ("matmul", "scaled_mm", "triton", "reveal", "casts", "rows", "optimisers", "given")
FP32_CODES = {"fp32": np.float32, "tf32": np.float32}
CLASS_ORDER = ("swamp", "cancelling", "plain", "positive", "wide")  # the most informative captures first


def zero_bits(x):
    return x & ((1 << (8 * x.itemsize - 1)) - 1)


def compared(made, got):
    """Returns how many codes are equal, and how many differ only in the sign of a zero."""
    equal = made == got
    return int(equal.sum()), int((~equal & (zero_bits(made) == 0) & (zero_bits(got) == 0)).sum())


class Kernels:
    """The names of kernels that the profiler recorded."""

    def __init__(self, items):
        self.names = {}
        for item in items:
            self.names.update(item.get("kernels") or {})

    def of(self, item):
        names = [n for n in self.names.get(item.get("kernel_key"), []) if not re.match(r"Memcpy|Memset", n)]
        if item["group"] in ("matmul", "scaled_mm", "reveal"):  # drop kernels that copy operands
            names = [n for n in names if not re.search(r"elementwise_kernel|CatArray|and_kernel", n)]
        return " + ".join(dict.fromkeys(self.short(n) for n in names)) or "?"

    @staticmethod
    def short(name):
        name = re.sub(r"^(?:void |std::enable_if<.*?>::type )", "", name)
        name = re.sub(r"^cutlass::Kernel2<(\w+)>.*", r"\1", name)
        reduce = re.match(r"cublasLt::splitKreduce_kernel<([^>]*)", name)
        if reduce:
            types = reduce.group(1).split(", ")
            return f"splitKreduce<{','.join(types[3:7])}>"
        functor = re.findall(r"(\w+_(?:kernel|functor|kernel_cuda|kernel_impl))\b", name)
        plain = re.sub(r"[<(].*", "", name.replace("(anonymous namespace)", "anonymous"))
        return (plain + (f" {functor[-1]}" if functor and functor[-1] not in plain else ""))[:140]


# -- the program ---------------------------------------------------------------------------------------------------------


class Program:
    def __init__(self, path):
        self.path = path
        self.folder = tempfile.TemporaryDirectory()

    def check(self, arrays, op, words):
        """Returns the parsed verdict of `macheps check`, or a text with the reason why there is no verdict."""
        if not self.path:
            return "no program"
        file = pathlib.Path(self.folder.name) / "x.npz"
        np.savez(file, **arrays)
        run = subprocess.run([self.path, "check", str(file), "--op", op, "--json", *words], capture_output=True, text=True)
        try:
            return json.loads(run.stdout)["checks"][0]
        except (ValueError, KeyError, IndexError):
            lines = (run.stderr or run.stdout).strip().splitlines()
            return lines[0][:200] if lines else f"exit {run.returncode}"

    def unequal_bits(self, arrays, op, words):
        """Returns how many outputs differ in a bit from the declared machine, or the reason why this is unknown."""
        found = self.check(arrays, op, [*words, "--bits"])
        if isinstance(found, str):
            return found
        if found["verdict"] in ("declined", "refused"):
            return found["reasons"][0]["text"][:200] if found["reasons"] else found["verdict"]
        return sum(r["count"] for r in found["reasons"] if r["code"] == "KC040")

    def run(self, *words, stdin=None):
        return subprocess.run([self.path, *words], input=stdin, capture_output=True)


def stored(codes, format):
    """Returns the codes as an array of a type that `macheps check` reads."""
    return codes.view(FP32_CODES[format]) if format in FP32_CODES else codes


# -- products ------------------------------------------------------------------------------------------------------------


class Product:
    """One capture of a matrix product: operands of the sampled rows and columns, scales, bias and the outputs."""

    def __init__(self, item):
        self.item, self.name = item, item["name"]
        self.a_format, self.b_format = item["a"], item["b"]
        self.k, self.out_format = item["k"], item["formats"]["out"]
        self.got = item["arrays"]["out"]
        rows, columns = np.array(item["rows"]), np.array(item["columns"])
        self.blocks = None
        if item["op"] == "bmm":
            self._of_batches(item, rows, columns)
            return
        a, b = operands.product(item["a"], item["b"], item["class"], item["m"], item["n"], item["k"], item["seed"])
        self.a, self.b = a[rows], b[columns]
        self.bias = None
        if "bias_seed" in item:
            codes = operands.matrix(item["a"], "plain", item["bias_seed"], 2, 1, item["n"])[0][columns]
            self.bias, self.bias_codes = operands.decode(item["a"], codes), codes
        self.a_scale = self.b_scale = None
        if "scaling" in item:
            self._scales(item, rows, columns)

    def _of_batches(self, item, rows, columns):
        # `rows` numbers the rows of all batches consecutively. Rows of batch i are multiplied by columns of batch i.
        batches, m, n, k = item["batches"], item["m"], item["n"], item["k"]
        a = operands.matrix(item["a"], item["class"], item["seed"], 0, batches * m, k)
        b = operands.matrix(item["b"], item["class"], item["seed"], 1, batches * n, k)
        self.blocks = [(a[rows[rows // m == i]], b[i * n + columns], rows // m == i) for i in range(batches)]
        self.a, self.b = self.blocks[0][0], self.blocks[0][1]
        self.bias = self.a_scale = self.b_scale = None

    def _scales(self, item, rows, columns):
        scaling, m, n = item["scaling"], item["m"], item["n"]
        count = -(-item["k"] // 128)
        if scaling == "tensor":
            shapes = (1,), (1,)
        elif scaling == "row":
            shapes = (m,), (n,)
        else:
            shapes = ((m if scaling.startswith("1x128") else -(-m // 128), count),
                      (n if scaling.endswith("1x128") else -(-n // 128), count))
        made = []
        for stream, shape in zip((2, 3), shapes):
            size = int(np.prod(shape))
            ones = item["class"] in ("cancelling", "positive", "wide")
            made.append((np.full(size, 0x3F800000, np.uint32) if ones else operands.scales(item["seed"], stream, size))
                        .view(np.float32).reshape(shape))
        self.whole_scales = made
        self.a_scale, self.b_scale = made
        if scaling == "row":
            self.a_scale, self.b_scale = made[0][rows], made[1][columns]
        elif scaling != "tensor":
            self.a_scale = made[0][rows] if shapes[0][0] == m else made[0][rows // 128]
            self.b_scale = made[1][columns] if shapes[1][0] == n else made[1][columns // 128]

    def part(self, rows, columns):
        """Returns this capture restricted to these rows and columns."""
        small = object.__new__(Product)
        small.__dict__.update(self.__dict__)
        small.a, small.b, small.got = self.a[rows], self.b[columns], self.got[np.ix_(rows, columns)]
        if self.bias is not None:
            small.bias = self.bias[columns]
        if self.a_scale is not None and self.item["scaling"] != "tensor":
            small.a_scale, small.b_scale = self.a_scale[rows], self.b_scale[columns]
        return small

    def made(self, model):
        """Returns the output codes that a model computes from these operands."""
        if self.blocks:
            made = np.zeros(self.got.shape, np.float32)
            for a, b, rows in self.blocks:
                made[rows] = sums.product(model.rule, self.a_format, self.b_format, a, b, self.out_format)
            return sums.codes(made, self.out_format)
        total = model.total(self)
        if self.bias is not None:
            if model.bias_after:
                total = sums.rounded(total, self.out_format)
            total = total + self.bias
        return sums.codes(total, self.out_format)


class Model:
    """A model of a kernel: a summation rule, and how it splits operands, scales sums and adds a bias."""

    def __init__(self, rule=None, scales="", pieces="", bias_after=False):
        self.rule, self.scales, self.pieces, self.bias_after = rule, scales, pieces, bias_after

    def total(self, p):
        if self.pieces == "dot":
            return sums.block_dots(p.a, p.b)
        if self.pieces:
            return sums.in_pieces(self.pieces, p.a, p.b, p.item["tile"][2])
        if self.scales.startswith(("fma", "mul")):
            return sums.block_scaled(p.a_format, p.b_format, p.a, p.b, p.a_scale, p.b_scale, self.scales)
        total = sums.product(self.rule, p.a_format, p.b_format, p.a, p.b, p.out_format)
        if p.a_scale is None:
            return total
        a, b = p.a_scale, p.b_scale
        if a.size > 1 or b.size > 1:
            a, b = a[:, None], b[None, :]
        return sums.scaled(total, a, b, self.scales or "joint")

    def __str__(self):
        parts = [str(self.rule) if self.rule else "32 terms, 13 bits, e8m13"]
        if self.pieces:
            dot = "blocks of 256 products, added by halves, blocks ascending"
            parts = [dot if self.pieces == "dot" else f"{self.pieces} in pieces"]
        if self.scales:
            parts.append(f"scales {self.scales}")
        if self.bias_after:
            parts.append("bias after the rounding")
        return ", ".join(parts)


def slice_lengths(k):
    """Returns the slice lengths that libraries may choose.

    They are powers of two, and k divided by 2 to 40 slices and rounded up to a multiple of 4, 8, 16, 32 or 64.
    """
    made = {-(-(-(-k // g)) // n) * g for n in range(2, 41) for g in (4, 8, 16, 32, 64)} | {2**e for e in range(2, 12)}
    return sorted(c for c in made if c < k and k / c <= 72)


def core_rules(p):
    """Returns the summation rules of instructions that can read the operands, the most likely rules first."""
    name, out = p.item["variant"], p.out_format
    if p.a_format in ("e4m3fn", "e5m2"):
        return [Rule(32, 13, "e8m13"), Rule(16, 25), Rule(16, 25, pairs_of_four=True)]
    if p.a_format in ("bf16", "fp16"):
        delivery = "fp16" if "acc16" in name else "fp32"
        return [Rule(16, 25, delivery), Rule(8, 25, delivery)]
    if p.a_format == "tf32" or "tf32" in name or name == "fp32.default":
        return [Rule(terms, 25, convert=c) for terms in (8, 4) for c in ("nearest_even", "nearest_away", "cut")]
    return [Rule(0)]


def models_of(p, kernel, known):
    """Yields lists of models, simple models first.

    The search stops at the first list with a model that reproduces every bit. `known` maps k to the rules that were
    found for other groups of captures.
    """
    item, rules = p.item, core_rules(p)
    scaling = item.get("scaling")
    if p.bias is not None:
        yield [Model(r, bias_after=after) for r in rules for after in (False, True)]
    elif scaling in ("tensor", "row"):
        every = [Rule(32, 13, "e8m13", promote=i) for i in (0, 128, 64, 256, 32, 512)]
        yield [Model(r, order) for r in every for order in ("joint", "a_first", "b_first")]
        return
    elif scaling:
        yield [Model(scales=order) for order in ("fma_joint", "fma_left", "fma_right", "mul_joint")]
        return
    elif item["op"] == "tl.dot" and item["precision"] in sums.PIECES:
        yield [Model(pieces=item["precision"])]
        return
    elif p.a_format in ("e4m3fn", "e5m2"):
        yield [Model(r) for r in rules + [Rule(32, 13, "e8m13", promote=i) for i in (32, 64, 128, 256)]]
        return
    else:
        yield [Model(r) for r in rules]
    if item["m"] == 1 and p.a_format in FP32_CODES and p.k <= 1024:
        yield [Model(pieces="dot")]
    if item["m"] == 1:
        yield [Model(Rule(0, lanes=n, turn=t, join=j)) for n in (32, 64, 128, 256, 16, 8) for t in (1, 2, 4, 8)
               for j in ("halves", "ascending")]
    plain = {"tile": 0, "slice": 0, "lanes": 0, "turn": 8, "join": "ascending"}
    yield [Model(r) for r in known.get(p.k, []) if dataclasses.replace(r, **plain) in rules]
    tiles = (128, 64, 32, 16)
    yield [Model(r) for r in distinct([dataclasses.replace(r, tile=t) for r in rules if r.terms for t in tiles], p.k)]
    if "plit" not in kernel and "execute" not in kernel:
        return
    in_turn = [Model(dataclasses.replace(r, lanes=n, turn=t)) for n in range(2, 21) for t in (8, 16) for r in rules]
    if "execute" in kernel:
        yield in_turn
    joins = ["ascending"] + (["rounded", "serial"] if p.out_format != "fp32" and rules[0].delivery != "fp16" else [])
    for join in joins:
        for r in rules:
            sliced = [dataclasses.replace(r, slice=c, join=join) for c in slice_lengths(p.k)]
            yield [Model(s) for s in sliced]
            if r.terms:
                yield [Model(s) for s in distinct([dataclasses.replace(s, tile=t) for s in sliced for t in tiles], p.k)]
    if "execute" not in kernel:
        yield in_turn


def distinct(rules, k):
    """Returns the rules without duplicates. Leaves out a rule if its steps add the same terms as without its tiles."""
    seen, kept = set(), []
    for rule in rules:
        lengths = {min(rule.slice or k, k - t) for t in range(0, k, rule.slice or k)}

        def signature(tile):
            return str([sums.steps(dataclasses.replace(rule, tile=tile), n) for n in sorted(lengths)])

        key = (dataclasses.replace(rule, tile=0), signature(rule.tile))
        if key not in seen and key[1] != signature(0):
            seen.add(key)
            kept.append(rule)
    return kept


def claims_of(p, kernel):
    """Returns the machines that may describe the variant: [(name, arguments of `macheps check`)]. See is_claimed."""
    item, variant = p.item, p.item["variant"]
    scaling = item.get("scaling")
    if scaling == "tensor":
        return [(n, ["--machine", n]) for n in ["cublaslt.fp8.fast" if item["fast"] else "cublaslt.fp8.split"]]
    if scaling == "row":
        fast = ".fast" if item["fast"] else ""
        names = [f"cublaslt.fp8.outer{fast}", f"torch.rowwise.sm90{fast}"]
        return [(n, ["--machine", n]) for n in names]
    if scaling:
        return []  # `macheps check` supports a scale for each row and column, but not for blocks
    if item["op"] == "tl.dot" and p.a_format in ("e4m3fn", "e5m2"):
        interval = item["imprecise"]
        name = "triton.fp8" if interval is None else f"triton.fp8+promote{interval}" if interval else "triton.fp8"
        return [(name, ["--machine", name])]
    if item["op"] == "tl.dot" and item["precision"] in sums.PIECES:
        return []
    core = core_rules(p)[0]
    if core.terms == 0:
        return [("fp32.chain", ["--machine", "fp32.chain"])]
    if core.convert:
        ways = ("toward_zero",) if item["op"] == "tl.dot" else ("nearest_even", "nearest_away")
        return [(f"sm90.wgmma.tf32, operands by {way}", ["--machine", "sm90.wgmma.tf32", "--operands", f"tf32:{way}"])
                for way in ways]
    name = f"sm90.wgmma.{p.a_format}" + (".acc16" if core.delivery == "fp16" else "")
    names = [name]
    if "splitK_" in kernel:
        names += [f"{name}+cublaslt.splitk.{join}+slices3" for join in ("compute", "output", "inplace")]
    return [(n, ["--machine", n]) for n in names]


def arrays_of(p):
    arrays = {"a": stored(p.a, p.a_format), "b": stored(p.b, p.b_format), "out": stored(p.got, p.out_format)}
    if p.a_scale is not None:
        arrays |= {"a_scale": np.ascontiguousarray(p.a_scale), "b_scale": np.ascontiguousarray(p.b_scale)}
    if p.bias is not None:
        arrays["bias"] = stored(p.bias_codes, p.a_format)
    words = ["--b-layout", "nk"]
    for role, format in (("a", p.a_format), ("b", p.b_format), ("out", p.out_format)):
        words += [f"--{role}", "fp32" if format == "tf32" else format]
    if p.bias is not None:
        words += ["--bias", "fp32" if p.a_format == "tf32" else p.a_format]
    return arrays, words


def is_claimed(p, kernel):
    """Returns whether macheps claims that the first machine of claims_of describes the kernel.

    This is claimed for scaled products and for tl.dot. It is claimed for PyTorch's other products in 16 bits and tf32
    if the kernel does not split k, m and n are greater than 1, and n and k are multiples of 8. It is not claimed for
    batched products and products in fp32."""
    item = p.item
    if item.get("scaling") or item["op"] == "tl.dot":
        return True
    return core_rules(p)[0].terms > 0 and "split" not in kernel.lower() and not p.blocks and item["m"] > 1 and item["n"] > 1 \
        and item["n"] % 8 == 0 and item["k"] % 8 == 0


def claimed(program, group, kernel):
    """Returns the verdict, and a text for each claimed rule with the number of outputs that it reproduces."""
    counts = {}
    for p in group:
        if p.blocks:
            continue
        arrays, words = arrays_of(p)
        for name, more in claims_of(p, kernel):
            unequal = program.unequal_bits(arrays, "gemm", words + more)
            entry = counts.setdefault(name, [0, 0, ""])
            if isinstance(unequal, str):
                entry[2] = unequal
            else:
                entry[0] += p.got.size - unequal
                entry[1] += p.got.size
    texts = [f"{name}: {why}" if not n else f"{name}: {'all' if equal == n else f'{equal} of {n}'}"
             for name, (equal, n, why) in counts.items()]
    equal, compared_outputs, _ = next(iter(counts.values()), (0, 0, ""))
    if not compared_outputs or not is_claimed(group[0], kernel):
        return "recorded", texts
    return ("equal" if equal == compared_outputs else "differs"), texts


def spread(p, count_m, count_n):
    """Returns the capture restricted to at most count_m rows and count_n columns, spread evenly over the product."""
    m, n = p.got.shape
    if p.blocks or m * n <= count_m * count_n:
        return p
    return p.part(*(np.unique(np.linspace(0, size - 1, count).astype(int)) for size, count in ((m, count_m), (n, count_n))))


def equal_outputs(model, captured):
    """Returns how many outputs a model reproduces, and how many of these differ in the sign of a zero."""
    counts = [compared(p.made(model), p.got) for p in captured]
    return sum(e + s for e, s in counts), sum(s for _, s in counts)


def found_rules(group, kernel, known):
    """Returns the texts of the models that reproduce every output, a text about the best model if there are none, and
    the number of outputs that differ in the sign of a zero."""
    order = sorted(group, key=lambda p: CLASS_ORDER.index(p.item["class"]))
    first = order[0]
    few, more = spread(first, 3, 8), spread(first, 10, 10)
    total, tried, best = sum(p.got.size for p in group), 0, (-1, None)
    for models in models_of(first, kernel, known):
        found = []
        for model in models:
            tried += 1
            equal, _ = equal_outputs(model, [few])
            if equal / few.got.size > best[0]:
                best = equal / few.got.size, model
            if equal < few.got.size or equal_outputs(model, [more])[0] < more.got.size:
                continue
            if equal_outputs(model, [first])[0] < first.got.size:
                continue
            equal, signs = equal_outputs(model, order)
            if equal == total:
                found.append((model, signs))
        if found:
            for model, _ in found:
                if model.rule and model.rule not in known.setdefault(first.k, []):
                    known[first.k].append(model.rule)
            return [str(model) for model, _ in found], "", found[0][1]
    return [], f"none of {tried}; {best[1]}: {equal_outputs(best[1], order)[0]} of {total}", 0


def judge_products(items, kernels, program, wanted, report):
    groups, known = collections.OrderedDict(), {}
    for item in items:
        if item["group"] != wanted or "error" in item or "out" not in item.get("arrays", {}):
            continue
        key = (item["variant"], item["m"], item["n"], item["k"], item.get("layout", ""))
        groups.setdefault(key, []).append(item)
    # Groups with fp32 outputs come first, because these outputs exclude the most rules. The rules that are found for
    # them are then tried on the other groups.
    for key, members in sorted(groups.items(), key=lambda g: g[1][0]["formats"]["out"] != "fp32"):
        group = [Product(item) for item in members]
        kernel = kernels.of(members[0]) if wanted != "triton" else " ".join(
            f"{n} x {i}" for i, n in members[0]["instructions"].items() if "mma" in i or i.startswith(("add", "fma")))
        rules, why_not, signs = found_rules(group, kernel, known)
        outputs = sum(p.got.size for p in group)
        verdict, texts = claimed(program, group, kernel)
        report.row(wanted, f"{key[0]} {key[1]}x{key[2]}x{key[3]} {key[4]}", kernel, outputs, len(group), texts, rules or [why_not],
                   bool(rules), signs, verdict)


# -- the order of sums ---------------------------------------------------------------------------------------------------


def judge_reveal(items, kernels, program, report):
    for item in items:
        if item["group"] != "reveal" or "error" in item:
            continue
        format, out = item["a"], item["formats"]["out"]
        values = operands.decode(out, item["arrays"]["out"]).astype(np.float32)
        file = pathlib.Path(program.folder.name) / "out.npy"
        np.save(file, values)
        formats = format if item.get("b", format) == format else f"{format}:{item['b']}"
        formats = formats.replace("tf32", "fp32") if item["op"] == "reveal_sum" else formats
        run = program.run("reveal", "-f", formats, "-k", str(item["k"]), "--results", str(file), "--pairs", "near", "--json")
        try:
            tree = json.loads(run.stdout)
            text = tree_text(tree)
        except ValueError:
            text = run.stderr.decode().strip().splitlines()[0][:200] if run.stderr else f"exit {run.returncode}"
        report.row("reveal", item["name"], kernels.of(item), int(values.size), 1, [], [text], True, 0)


def tree_text(tree):
    ways = tree.get("ways")
    text = f"depth {tree.get('depth')}, children: sums {ways}, blocks {tree.get('blocks')}"
    if tree.get("open_pairs"):
        text += f", {tree['open_pairs']} pairs open"
    return text[:300]


# -- casts ---------------------------------------------------------------------------------------------------------------

TORCH_FORMATS = {"float8_e8m0fnu": "e8m0fnu", "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz"}


def cast_source(item):
    if item["inputs"] == "all codes":
        return operands.all_codes(16 if item["from"] in ("bf16", "fp16") else 8)
    if item["from"] == "fp32":
        return operands.cast_inputs(item["seed"])
    wide = operands.cast_inputs(item["seed"], 16384)
    wide = wide[(wide & 0x7FFFFFFF) < 0x7F800000].view(np.float32).astype(np.float64).view(np.uint64)
    return wide + (np.arange(wide.size, dtype=np.uint64) % np.uint64(3))


def judge_casts(items, kernels, program, report):
    for item in items:
        if item["group"] != "casts" or "error" in item:
            continue
        source, got = cast_source(item), item["arrays"]["out"]
        target = TORCH_FORMATS.get(item["to"], item["to"])
        found, full = [], False
        for profile in ("ieee", "torch_sat", "torch_legacy", "cuda_sat", "cuda_nosat"):
            words = ("--from", item["from"], "--to", target, "--profile", profile)
            run = program.run("convert", *words, stdin=source.tobytes())
            made = np.frombuffer(run.stdout, got.dtype)
            if made.size != got.size:
                continue
            differ = made != got
            nan = is_nan(target, made) & is_nan(target, got)
            bits, count = int((~differ).sum()), int((~differ | nan).sum())
            full = full or count == got.size
            text = f"{profile}: {'all' if bits == got.size else f'{bits} of {got.size}'}"
            if count != bits:
                text += f", {'all' if count == got.size else count} if one NaN is as good as another"
            if count != got.size:
                first = np.flatnonzero(differ & ~nan)[0]
                text += f"; {source[first]:#x} is {got[first]:#x}, not {made[first]:#x}"
            found.append((count, text))
        found.sort(key=lambda x: -x[0])
        report.row("casts", item["name"], kernels.of(item), int(got.size), 1, [], [t for _, t in found[:3]], full, 0)


def is_nan(format, codes):
    codes = codes.astype(np.int64)
    simple = {"fp32": (31, 23, 8), "bf16": (15, 7, 8), "fp16": (15, 10, 5), "e5m2": (7, 2, 5)}
    if format in simple:
        sign, fraction, bits = simple[format]
        size = codes & ((1 << sign) - 1)
        return size > ((1 << bits) - 1) << fraction
    if format == "e4m3fn":
        return (codes & 0x7F) == 0x7F
    return codes == (0xFF if format == "e8m0fnu" else 0x80)


# -- rows ----------------------------------------------------------------------------------------------------------------

ROW_OPS = {"softmax": [], "log_softmax": [], "layernorm": ["--eps", "1e-5"], "rmsnorm": ["--eps", "1e-5"], "gelu": [],
           "gelu_tanh": [], "silu": [], "sigmoid": [], "tanh": [], "exp": [], "sum": [], "mean": [], "cross_entropy": []}


def judge_rows(items, kernels, program, report):
    for item in items:
        if item["group"] != "rows" or "error" in item or item["op"] not in ROW_OPS or "out" not in item["arrays"]:
            continue
        format, op, got = item["format"], item["op"], item["arrays"]["out"]
        if item["class"] == "all codes":
            x = operands.all_codes(16)
            finite = ~is_nan(format, x) & ~np.isinf(operands.decode(format, np.where(is_nan(format, x), 0, x)))
            x, got = x[finite].reshape(1, -1), got[finite].reshape(1, -1)
        else:
            shift = item.get("exponent_shift", 0)
            x = operands.matrix(format, item["class"], item["seed"], 0, item["rows"], item["columns"], shift)
        arrays = {"x": stored(x, format), "out": stored(got, item["formats"]["out"])}
        words = ["--x", format, "--out", item["formats"]["out"], "--allow-weak", *ROW_OPS[op]]
        for name in item.get("given", [])[1:]:
            codes = operands.matrix(format, "plain", item["seed"], item["streams"][name], 1, item["columns"])[0]
            arrays[name] = stored(codes, format)
            words += [f"--{name}", format]
        if op == "cross_entropy":
            arrays["target"] = operands.integers(item["seed"], 4, item["rows"], item["columns"])
            words += ["--reduction", item["reduction"]]
        text, passed = verdict(program.check(arrays, op, words))
        report.row("rows", item["name"], kernels.of(item), int(got.size), 1, [text], [], passed, 0)


def verdict(found):
    if isinstance(found, str):
        return found, False
    text = found["verdict"]
    reasons = [r["text"] for r in found["reasons"] if r["code"] != "KC050"]
    if reasons and text not in ("pass", "weak"):
        text += f": {reasons[0][:160]}"
    return f"macheps check: {text}", found["verdict"] in ("pass", "weak")


def judge_given(items, kernels, program, report, inputs):
    if not inputs:
        return
    for item in items:
        if item["group"] != "given" or "error" in item:
            continue
        file = pathlib.Path(inputs) / item["item"] / f"{item['input']}.npz"
        if not file.exists():
            report.row("given", item["name"], kernels.of(item), 0, 1, [f"{file} is missing"], [], False, 0)
            continue
        made = np.load(file)
        arrays = {name: made[name] for name in made.files if name not in ("out", "recipe")}
        got, out = item["arrays"]["out"], item["formats"]["out"]
        arrays["out"] = stored(got, out)
        words = [w for w in (item["recipe"] + " " + item["judge"]).split()]
        if "--shape" in words:
            place = words.index("--shape")
            del words[place : place + 2]
        if "--out" in words:
            words[words.index("--out") + 1] = out
        if ".tf32/" in item["name"]:
            words += ["--operands", "tf32:nearest_even", "--machine", "sm90.mma.tf32"]
        if item["op"] == "gemm" and "a_scale" in arrays:  # tensor cores sum fp8 products with fewer bits than fp32
            words[words.index("--machine") + 1] = "cublaslt.fp8.outer" + (".fast" if ".fast/" in item["name"] else "")
        text, passed = verdict(program.check(arrays, item["op"], words + ["--allow-weak"]))
        report.row("given", item["name"], kernels.of(item), int(got.size), 1, [text], [], passed, 0)


# -- optimisers ----------------------------------------------------------------------------------------------------------


def adamw_forms(given, item):
    """Yields (text, {p, exp_avg, exp_avg_sq}) for each way in which PyTorch may compute a step of AdamW in fp32."""
    f, format = np.float32, item["format"]
    p, g, m, v = (given[n].astype(f) for n in ("p", "g", "exp_avg", "exp_avg_sq"))
    t, lr, eps, decay = item["step"] + 1, item["lr"], item["eps"], item["weight_decay"]
    beta1, beta2 = item["betas"]

    def fused(x, y, z):
        return sums.fma(*np.broadcast_arrays(f(x), f(y), f(z)))

    def kept(x):
        return sums.rounded(np.asarray(x, f), format)

    if item["kind"] == "fused":
        # The kernel computes 1 - beta in fp32. Note that 1 - fp32(0.9) is not fp32(0.1).
        w1, w2, b1, b2 = f(1) - f(beta1), f(1) - f(beta2), f(beta1), f(beta2)
        m1, v1 = fused(b1, m, w1 * g), fused(b2, v, w2 * (g * g))
        q = p - f(lr) * f(decay) * p
        powers = {"fp32": (b1 ** f(t), b2 ** f(t)), "fp64": (beta1**t, beta2**t)}
        for text, (c1, c2) in powers.items():
            c1, c2 = f(1 - c1), np.sqrt(f(1 - c2))
            yield f"one kernel, powers of beta in {text}", {
                "p": q - (f(lr) / c1 * m1) / (np.sqrt(v1) / c2 + f(eps)), "exp_avg": m1, "exp_avg_sq": v1}
        return
    # One kernel per operation: each result is rounded to the format.
    m1 = kept(fused(1 - beta1, g - m, m))
    v1 = kept(fused(f(1 - beta2), g * g, kept(f(beta2) * v)))
    q, root, c2 = kept(p * f(1 - lr * decay)), kept(np.sqrt(v1)), f(np.sqrt(1 - beta2**t))
    for text, quotient in (("divided by", root / c2), ("times the reciprocal of", root * (f(1) / c2))):
        denominator = kept(kept(quotient) + f(eps))
        yield f"an operation at a time, {text} the root of the second correction", {
            "p": kept(fused(-f(lr / (1 - beta1**t)), m1 / denominator, q)), "exp_avg": m1, "exp_avg_sq": v1}


def judge_optimisers(items, kernels, program, report):
    for item in items:
        if item["group"] != "optimisers" or "error" in item or item["op"] != "adamw":
            continue
        format = item["format"]
        given = {}
        for name, stream in item["streams"].items():
            kind, shift = item["classes"][name], item["exponent_shifts"][name]
            codes = operands.matrix(format, kind, item["seed"], stream, 1, item["count"], shift)[0]
            given[name] = operands.decode(format, codes)
        texts, full = [], False
        for text, made in adamw_forms(given, item):
            equal = {n: compared(sums.codes(x, format), item["arrays"][n])[0] for n, x in made.items()}
            complete = all(e == item["count"] for e in equal.values())
            full = full or complete
            counts = "all" if complete else ", ".join(f"{n} {e} of {item['count']}" for n, e in equal.items())
            texts.append((sum(equal.values()), f"{text}: {counts}"))
        texts.sort(key=lambda x: -x[0])
        report.row("optimisers", item["name"], kernels.of(item), 3 * item["count"], 1, [], [t for _, t in texts], full, 0)


# -- the report ----------------------------------------------------------------------------------------------------------


class Report:
    COLUMNS = ("group", "item", "kernel", "outputs", "captures", "claimed", "found", "complete", "zero_signs", "verdict")

    def __init__(self, file):
        self.file = open(file, "w", newline="", encoding="utf-8") if file else None
        self.csv = csv.writer(self.file) if file else None
        self.counts, self.verdicts = collections.Counter(), collections.Counter()
        if self.csv:
            self.csv.writerow(self.COLUMNS)

    def row(self, group, item, kernel, outputs, captured, claimed, found, complete, signs, verdict="recorded"):
        self.counts[group, complete] += 1
        self.verdicts[verdict] += 1
        print(f"{group}/{item}: {outputs} outputs of {captured} captures; {kernel}")
        for text in claimed:
            print(f"    claimed  {text}")
        if verdict != "recorded":
            print(f"    {verdict}")
        for text in found[:4]:
            print(f"    {'found   ' if complete else 'open    '} {text}")
        if len(found) > 4:
            print(f"             and {len(found) - 4} more")
        if signs:
            print(f"             {signs} outputs differ only in the sign of a zero")
        sys.stdout.flush()
        if self.csv:
            self.csv.writerow((group, item, kernel, outputs, captured, " | ".join(claimed), " | ".join(found[:8]),
                               int(complete), signs, verdict))

    def end(self):
        for group in dict.fromkeys(g for g, _ in self.counts):
            print(f"{group}: {self.counts[group, True]} rows complete, {self.counts[group, False]} not")
        print(", ".join(f"{self.verdicts[v]} {v}" for v in ("equal", "differs", "recorded")))
        if self.file:
            self.file.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--program", help="path of macheps; without it, only the models of sums.py are compared")
    parser.add_argument("--only", help=f"groups, separated by commas: {', '.join(GROUPS)}; all when left out")
    parser.add_argument("--filter", default="", help="only items whose name contains this text")
    parser.add_argument("--csv", help="write the table to this file")
    parser.add_argument("--inputs", help="folder with the files of `macheps check make-inputs` that the capture used")
    chosen = parser.parse_args()
    items = list(captures.load(chosen.folder))
    kernels, program, report = Kernels(items), Program(chosen.program), Report(chosen.csv)
    items = [item for item in items if chosen.filter in item["name"]]
    for group in chosen.only.split(",") if chosen.only else GROUPS:
        if group in ("matmul", "scaled_mm", "triton"):
            judge_products(items, kernels, program, group, report)
        elif not chosen.program and group != "optimisers":
            continue
        elif group == "given":
            judge_given(items, kernels, program, report, chosen.inputs)
        else:
            {"reveal": judge_reveal, "casts": judge_casts, "rows": judge_rows, "optimisers": judge_optimisers}[group](
                items, kernels, program, report)
    report.end()
    return 1 if report.verdicts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
