#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `macheps check` on kernels of other projects: NumPy (OpenBLAS) and PyTorch (MKL, oneDNN and its own).

    build/peers/torch/bin/python tests/peers/kernels.py --macheps build/quick/experiments/macheps
    ... --write docs/check-judges.md        writes the table of judges for the documentation

Each kernel runs on random shapes. `macheps check` gets the options that the kernel's documentation allows and must not
fail the output. Each kernel also has wrong variants, called twins (a dropped tail, another eps, an inner step in bf16,
a stale element); `macheps check` must fail their outputs. Customary tests, called judges, get the same outputs:
torch.testing.assert_close and allclose(1e-2) compare with an fp64 result that is rounded once to the output's format;
calc_diff, 25 dB of SQNR and a cosine of 0.99 compare with the fp64 result itself.
Exit codes: 0 all as required, 1 not, 2 usage, 77 a peer cannot be imported.
"""
import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import peer

np = peer.need("numpy")
torch = peer.need("torch")
F = torch.nn.functional

FORMATS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
EPS = 1e-5


# --- kernels: name, declared operation, inputs, function and wrong variants


class Kernel:
    """`make(rng, trial)` returns the arrays by role, in the kernel's dtype, and `run(arrays)` the output.
    `exact(arrays)` is the fp64 result with which judges compare. `twins` are wrong kernels by name. `declares` are the
    options that the documentation allows. `known(arrays)` models a kernel that is known to deviate from the declared
    operation: if an output fails the check but equals `known(arrays)` bit for bit, the failure counts as explained."""

    def __init__(self, name, op, dtype, make, run, exact, twins, declares=(), known=None):
        self.name, self.op, self.dtype, self.make, self.run = name, op, dtype, make, run
        self.exact, self.twins, self.declares, self.known = exact, twins, list(declares), known


def normal(rng, *shape, scale=1.0, mean=0.0):
    return torch.from_numpy(rng.standard_normal(shape) * scale + mean)


def stale(run):
    """Returns a wrong variant of `run` in which one output has the value of the output before it."""

    def wrong(arrays):
        out = run(arrays).clone()
        flat = out.view(-1)
        if flat.numel() < 2:
            return None
        at = flat.numel() // 2
        # If two neighbouring outputs are nearly equal, no test can detect that one is a copy of the other. Choose a
        # pair of outputs that clearly differ.
        for _ in range(flat.numel() - 1):
            if abs(float(flat[at]) - float(flat[at - 1])) > 0.1 * abs(float(flat[at])):
                flat[at] = flat[at - 1]
                return out
            at = at + 1 if at + 1 < flat.numel() else 1
        return None

    return wrong


def chunked_in_bf16(a, b):
    """Returns a @ b: sums of 16 terms are computed in fp32 and then added in bf16."""
    out = torch.zeros(a.shape[0], b.shape[1])
    for at in range(0, a.shape[1], 16):
        out = (out + a[:, at:at + 16].float() @ b[at:at + 16].float()).bfloat16().float()
    return out.to(a.dtype)


def matmuls():
    def make(dtype):
        def draw(rng, _):
            m, n, k = (int(rng.integers(2, most)) for most in (97, 97, 1001))
            return {"a": normal(rng, m, k).to(dtype), "b": normal(rng, k, n).to(dtype)}

        return draw

    def exact(x):
        return x["a"].double() @ x["b"].double()

    def by_onednn(x):
        out = torch._C._nn.mkldnn_linear(x["a"].to_mkldnn(), x["b"].t().contiguous().to_mkldnn(), None)
        return out.to_dense()

    # PyTorch uses MKL for fp32, and oneDNN for bf16 and fp16 (torch.backends.mkldnn.verbose shows it).
    libraries = [("OpenBLAS (NumPy) matmul", torch.float32, lambda x: torch.from_numpy(x["a"].numpy() @ x["b"].numpy())),
                 ("MKL (PyTorch) matmul", torch.float32, lambda x: x["a"] @ x["b"]),
                 ("oneDNN (PyTorch) matmul", torch.float32, by_onednn),
                 ("oneDNN (PyTorch) matmul", torch.bfloat16, lambda x: x["a"] @ x["b"]),
                 ("oneDNN (PyTorch) matmul", torch.float16, lambda x: x["a"] @ x["b"])]
    for name, dtype, run in libraries:
        twins = {"dropped tail": lambda x, run=run: run({"a": x["a"][:, :-1], "b": x["b"][:-1]}) if x["a"].shape[1] > 1 else None,
                 "bf16 inner step": lambda x: chunked_in_bf16(x["a"], x["b"]) if x["a"].shape[1] > 64 else None,
                 "stale element": stale(run)}
        yield Kernel(name, "gemm", dtype, make(dtype), run, exact, twins)


def rows(name, op, function, twins, declares=(), arrays=("x",), shape=(64, 2048), draw=None, known=None, dtypes=tuple(FORMATS)):
    """Yields a row-wise kernel for each dtype. The reference result is that of `function` in fp64. `declares` may
    depend on the dtype."""
    for dtype in dtypes:
        def make(rng, trial, dtype=dtype):
            height, width = int(rng.integers(1, shape[0] + 1)), int(rng.integers(2, shape[1] + 1))
            made = {}
            for array in arrays:
                made[array] = normal(rng, height, width) if array == "x" else normal(rng, width, scale=0.25, mean=1)
            if draw is not None:
                draw(rng, trial, made)
            return {role: value.to(dtype) if value.is_floating_point() else value for role, value in made.items()}

        def run(x):
            return function(x)

        def exact(x):
            return function({role: value.double() if value.is_floating_point() else value for role, value in x.items()})

        wrong = {what: (lambda x, twin=twin: twin(x, function)) for what, twin in twins.items()}
        wrong["stale element"] = stale(run)
        declared = declares(dtype) if callable(declares) else declares
        yield Kernel(f"PyTorch {name}", op, dtype, make, run, exact, wrong, declared, known)


def in_fp32(function):
    """Returns a twin that computes the faulty `function` in fp32 and rounds the result to the kernel's dtype."""

    def twin(x, _):
        out = function({role: value.float() if value.is_floating_point() else value for role, value in x.items()})
        return None if out is None else out.to(x["x"].dtype)

    return twin


def sum_without_last(x):
    e = (x["x"] - x["x"].amax(-1, keepdim=True)).exp()
    return e / e[..., :-1].sum(-1, keepdim=True)


def sum_in_bf16(values):
    """Sums groups of 8 values in fp32 and adds the group sums one after another, rounding to bf16 after each
    addition."""
    total = torch.zeros(values.shape[:-1])
    for at in range(0, values.shape[-1], 8):
        total = (total + values[..., at:at + 8].sum(-1)).bfloat16().float()
    return total


def softmax_in_bf16(x):
    e = (x["x"] - x["x"].amax(-1, keepdim=True)).exp()
    return e / sum_in_bf16(e)[..., None] if x["x"].shape[-1] >= 64 else None


def normalised(x, eps, centred, inner=False, terms=None):
    d = x["x"] - x["x"].mean(-1, keepdim=True) if centred else x["x"]
    squares = d * d
    used = squares if terms is None else squares[..., :terms]
    r = torch.rsqrt(used.sum(-1, keepdim=True) / squares.shape[-1] + eps)
    y = d * r
    y = y.bfloat16().float() if inner else y
    y = y * x["gain"]
    return y + x["shift"] if "shift" in x else y


def norm_twins(centred):
    return {"dropped tail": in_fp32(lambda x: normalised(x, EPS, centred, terms=-1)),
            "wrong eps": in_fp32(lambda x: normalised(x, EPS / 10, centred)),
            "bf16 inner step": in_fp32(lambda x: normalised(x, EPS, centred, inner=True))}


def small_rows(rng, trial, made):
    """Makes the rows of every second input so small that eps matters."""
    if trial % 2 == 0:
        made["x"] *= 2.0 ** -9


def reduced(name, op, function):
    def without_last(x):
        part = function({"x": x["x"][..., :-1]})
        return part if op == "sum" else part * (x["x"].shape[-1] - 1) / x["x"].shape[-1]

    def in_bf16(x):
        terms = x["x"].shape[-1]
        total = sum_in_bf16(x["x"])
        return None if terms < 256 else total if op == "sum" else total / terms

    yield from rows(name, op, function, {"dropped tail": in_fp32(without_last), "bf16 inner step": in_fp32(in_bf16)})


def cross_entropies():
    def draw(rng, _, made):
        height, width = made["x"].shape
        made["target"] = torch.from_numpy(rng.integers(0, width, height))

    def function(x):
        return F.cross_entropy(x["x"], x["target"], reduction="none")

    def without_last(x):
        e = (x["x"] - x["x"].amax(-1, keepdim=True)).exp()
        # Dropping one class of many may not change a loss that is rounded to 16 bits. Drop a quarter of the classes.
        loss = e[..., : -(e.shape[-1] // 4 or 1)].sum(-1).log() + x["x"].amax(-1)
        return loss - x["x"].gather(-1, x["target"][:, None])[:, 0]

    def in_bf16(x):
        shifted = x["x"] - x["x"].amax(-1, keepdim=True)
        loss = sum_in_bf16(shifted.exp()).log() - shifted.gather(-1, x["target"][:, None])[:, 0]
        return loss if x["x"].shape[-1] >= 64 else None

    def rounds_sum_and_logarithm(x):
        """Models log_softmax of PyTorch on a CPU: the sum of a row and its logarithm are rounded to the input's
        format."""
        dtype = x["x"].dtype
        shifted = x["x"].float() - x["x"].float().amax(-1, keepdim=True)
        logarithm = shifted.exp().sum(-1, keepdim=True).to(dtype).float().log().to(dtype).float()
        return -(shifted - logarithm).gather(-1, x["target"][:, None])[:, 0].to(dtype)

    yield from rows("cross_entropy", "cross_entropy", function,
                    {"dropped tail": in_fp32(without_last), "bf16 inner step": in_fp32(in_bf16)}, draw=draw,
                    known=rounds_sum_and_logarithm)
    # The same kernel, with its inner format declared.
    yield from rows("cross_entropy, inner format declared", "cross_entropy", function,
                    {"dropped tail": in_fp32(without_last)}, draw=draw,
                    declares=lambda dtype: ["--inner", FORMATS[dtype]], dtypes=(torch.bfloat16, torch.float16))


def activations():
    def erf_form(x):
        return F.gelu(x["x"])

    def tanh_form(x):
        return F.gelu(x["x"], approximate="tanh")

    def narrow_gelu(x):
        return x["x"] * (0.5 * (1 + torch.erf(x["x"] / 2 ** 0.5))).bfloat16().float()

    def narrow_silu(x):
        return x["x"] * torch.sigmoid(x["x"]).bfloat16().float()

    size = {"shape": (32, 512)}
    # oneDNN does not document the accuracy of its erf. In gelu(3.5), its error is 7e-7, more than the 2 ulp of CUDA's
    # erf.
    yield from rows("gelu", "gelu", erf_form, {"tanh form": in_fp32(tanh_form), "bf16 inner step": in_fp32(narrow_gelu)},
                    ["--functions", "cuda,erf=8"], **size)
    yield from rows("gelu, tanh form", "gelu_tanh", tanh_form, {"erf form": in_fp32(erf_form)}, **size)
    yield from rows("silu", "silu", lambda x: F.silu(x["x"]), {"bf16 inner step": in_fp32(narrow_silu)}, **size)


def all_kernels():
    yield from matmuls()
    yield from rows("softmax", "softmax", lambda x: torch.softmax(x["x"], -1),
                    {"dropped tail": in_fp32(sum_without_last), "bf16 inner step": in_fp32(softmax_in_bf16)})
    yield from rows("layer_norm", "layernorm", lambda x: F.layer_norm(x["x"], x["x"].shape[-1:], x["gain"], x["shift"], EPS),
                    norm_twins(True), ["--eps", str(EPS)], ("x", "gain", "shift"), draw=small_rows)
    yield from rows("rms_norm", "rmsnorm", lambda x: F.rms_norm(x["x"], x["x"].shape[-1:], x["gain"], EPS),
                    norm_twins(False), ["--eps", str(EPS)], ("x", "gain"), draw=small_rows)
    yield from reduced("sum", "sum", lambda x: x["x"].sum(-1))
    yield from reduced("mean", "mean", lambda x: x["x"].mean(-1))
    yield from activations()
    yield from cross_entropies()


# --- judges: customary tests, and macheps


def assert_close(out, ideal, _):
    try:
        torch.testing.assert_close(out, ideal)
        return True
    except AssertionError:
        return False


def errors(out, exact):
    x, y = out.double(), exact
    return float(((x - y) ** 2).sum()), float((y ** 2).sum()), float((x ** 2).sum()), float((x * y).sum())


def calc_diff(out, _, exact):
    noise, signal, power, _ = errors(out, exact)
    return noise / (signal + power) <= (1e-10 if out.dtype is torch.float32 else 1e-5)


def decibels(out, _, exact):
    noise, signal, _, _ = errors(out, exact)
    return noise * 10 ** 2.5 <= signal


def cosine(out, _, exact):
    _, signal, power, product = errors(out, exact)
    return product >= 0.99 * (signal * power) ** 0.5


JUDGES = {"assert_close": assert_close,
          "allclose 1e-2": lambda out, ideal, _: bool(torch.allclose(out, ideal, rtol=1e-2, atol=1e-2)),
          "calc_diff": calc_diff, "25 dB": decibels, "cosine 0.99": cosine}


def stored(tensor):
    """Returns the tensor as a NumPy array. NumPy has no bf16, so bf16 values become 16-bit codes."""
    return tensor.contiguous().view(torch.uint16).numpy() if tensor.dtype is torch.bfloat16 else tensor.contiguous().numpy()


class Judge:
    def __init__(self, program, folder):
        self.program, self.file = program, folder / "kernel.npz"

    def verdict(self, kernel, arrays, out):
        """Returns the verdict of `macheps check` (pass, weak or fail), its reasons, and rho, which is the largest ratio
        of an error to its bound."""
        np.savez(self.file, out=stored(out), **{role: stored(value) for role, value in arrays.items()})
        command = [self.program, "check", str(self.file), "--op", kernel.op, "--require", "null", "--json", *kernel.declares]
        for role, value in {**arrays, "out": out}.items():
            if value.dtype is torch.bfloat16:
                command += [f"--{role}", "bf16"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise peer.Failure(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}{done.stdout.strip()}")
        checked = json.loads(done.stdout)["checks"][0]
        reasons = [f"{r['code']} {r['text']} ({r['ratio']})" for r in checked["reasons"]]
        return checked["verdict"], reasons, checked["rho"]


def known_operations(program):
    text = subprocess.run([program, "check", "--help"], capture_output=True, text=True).stdout
    return set(re.search(r"--op OP .*?one of ([^;)]*)", text, re.DOTALL).group(1).replace(",", " ").split())


# --- the comparison


class Tally:
    def __init__(self):
        self.right, self.right_failed, self.explained, self.weak = 0, 0, 0, 0
        self.rho = 0.0
        self.twins = collections.Counter()         # by twin
        self.twins_passed = collections.Counter()  # by twin: outputs that macheps did not fail
        self.judges = collections.Counter()        # by (judge, "right" or twin): outputs that the judge let pass


def compare(kernel, judge, shapes, wrong_shapes, seed, say):
    tally = Tally()
    for trial in range(shapes):
        rng = np.random.default_rng([seed, sum(map(ord, kernel.name + FORMATS[kernel.dtype])), trial])
        arrays = kernel.make(rng, trial)
        exact = kernel.exact(arrays)
        ideal = exact.to(kernel.dtype)
        cases = {"right": kernel.run}
        if trial < wrong_shapes:
            cases.update(kernel.twins)
        for what, run in cases.items():
            out = run(arrays)
            # Skip a twin whose output happens to equal the ideal output.
            if out is None or (what != "right" and torch.equal(out, ideal)):
                continue
            if what == "wrong eps" and trial % 2 == 1:
                continue  # at an rms of 1, both eps give the same fp32 results
            verdict, reasons, rho = judge.verdict(kernel, arrays, out)
            if what == "right":
                tally.right += 1
                tally.weak += verdict == "weak"
                tally.rho = max(tally.rho, float(rho))
                if verdict == "fail" and kernel.known is not None and torch.equal(out, kernel.known(arrays)):
                    tally.explained += 1
                elif verdict == "fail":
                    tally.right_failed += 1
                    if tally.right_failed <= 3:
                        say(f"  {kernel.name} {FORMATS[kernel.dtype]} trial {trial} {[tuple(v.shape) for v in arrays.values()]}: {reasons}")
            else:
                tally.twins[what] += 1
                tally.twins_passed[what] += verdict != "fail"
            for name, accepts in JUDGES.items():
                tally.judges[name, what] += accepts(out, ideal, exact)
    return tally


def table(results):
    """Returns a table of how many outputs each judge lets pass."""
    lines = ["| kernel | outputs | macheps check | " + " | ".join(JUDGES) + " |", "|---|---" + "|---" * (len(JUDGES) + 1) + "|"]
    for kernel, tally in results:
        name = f"{kernel.name}, {FORMATS[kernel.dtype]}"
        lines.append(f"| {name}: right | {tally.right} | {tally.right - tally.right_failed - tally.explained} | " +
                     " | ".join(str(tally.judges[judge, "right"]) for judge in JUDGES) + " |")
        for twin, count in tally.twins.items():
            lines.append(f"| {name}: {twin} | {count} | {tally.twins_passed[twin]} | " +
                         " | ".join(str(tally.judges[judge, twin]) for judge in JUDGES) + " |")
    return "\n".join(lines)


def summary(results):
    """Returns a table of how many right outputs each judge fails, and how many wrong outputs it lets pass."""
    right = sum(tally.right for _, tally in results)
    wrong = sum(sum(tally.twins.values()) for _, tally in results)
    lines = [f"| judge | right outputs that fail, of {right} | wrong outputs that pass, of {wrong} |", "|---|---|---|"]
    lines.append(f"| macheps check | {sum(t.right_failed + t.explained for _, t in results)} | {sum(sum(t.twins_passed.values()) for _, t in results)} |")
    for judge in JUDGES:
        failed = sum(t.right - t.judges[judge, "right"] for _, t in results)
        passed = sum(t.judges[judge, twin] for _, t in results for twin in t.twins)
        lines.append(f"| {judge} | {failed} | {passed} |")
    return "\n".join(lines)


def explained(results):
    """Returns sentences about the outputs that fail because the kernel is known to compute something else."""
    return "".join(f"\n{tally.explained} right outputs of {kernel.name} in {FORMATS[kernel.dtype]} fail, and they should fail. This kernel rounds the sum of\n"
                   f"each row, and the logarithm of this sum, to the format of the input; other kernels keep both in fp32. A model\n"
                   f"with this rounding reproduces these outputs bit for bit. If the rounding is declared, the outputs pass (see the\n"
                   f"rows with `inner format declared` below).\n"
                   for kernel, tally in results if tally.explained)


PAGE = """# Comparison of judges of kernels

For readers who want to compare `macheps check` with customary tests, here called judges. The page shows how many right
and wrong outputs each judge lets pass. `tests/peers/kernels.py --write docs/check-judges.md` wrote the page on one
machine.
The versions are {versions}.

The kernels are those of NumPy (OpenBLAS) and of PyTorch (MKL, oneDNN and PyTorch's own kernels). Each kernel ran on
{shapes} random shapes with N(0, 1) inputs; its outputs count as right in this experiment. On the first {wrong_shapes}
shapes, wrong variants of the kernel also ran; their outputs count as wrong. The variants are:

| wrong variant | error |
|---|---|
| dropped tail | the last term is missing; for cross_entropy, the last quarter of the classes. With only one class missing, one of ten variants passed, because one class of a thousand contributes less than the last rounding of a 16-bit loss |
| wrong eps | eps is a tenth of the right eps; the rows have an rms of 2^-9, so that eps matters |
| bf16 inner step | partial sums are added in bf16 if there are at least 64 terms (for sum and mean, 256), or a factor is rounded to bf16 |
| stale element | one output has the value of the previous output; the right values of these two outputs differ by more than a tenth |
| tanh form, erf form | gelu has two formulas: the variant computes the tanh form in place of the erf form, or the reverse |

The ideal output is the fp64 result, rounded once to the output's format. A variant is not counted if its output equals
the ideal output.

`macheps check` judged each output with a declaration that follows the kernel's documentation. oneDNN promises no
accuracy for gelu, so the declaration allows errors of 8 ulp in erf. If it allowed only 2 ulp, as for CUDA, 65 of 100
fp32 outputs and 6 of 100 fp16 outputs of gelu would fail.

The other judges compare an output with a reference. For `torch.testing.assert_close` and `allclose` (1e-2), the
reference is the ideal output. For `calc_diff` (limit 1e-5; for fp32 1e-10), an SQNR of 25 dB and a cosine of 0.99, the
reference is the fp64 result.

{summary}
{explained}
The table below shows how many outputs each judge lets pass. A perfect judge passes all right outputs and no wrong
output.

{table}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--macheps", default="build/quick/experiments/macheps", help="the program")
    parser.add_argument("--shapes", type=int, default=100, help="random shapes for each kernel")
    parser.add_argument("--wrong-shapes", type=int, default=10, help="number of these shapes that the wrong variants also run on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="run only kernels whose name contains this text")
    parser.add_argument("--write", type=pathlib.Path, help="write the page of judges here")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # shapes are small
    known = known_operations(options.macheps)
    results, failed, skipped = [], 0, set()
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(options.macheps, pathlib.Path(folder))
        for kernel in all_kernels():
            if options.only not in kernel.name:
                continue
            if kernel.op not in known:
                skipped.add(kernel.op)
                continue
            tally = compare(kernel, judge, options.shapes, options.wrong_shapes, options.seed, print)
            results.append((kernel, tally))
            blind = sum(tally.twins_passed.values())
            failed += tally.right_failed + blind
            print(f"{kernel.name} {FORMATS[kernel.dtype]}: {tally.right_failed} of {tally.right} right outputs fail "
                  f"({tally.explained} more fail for a known reason; {tally.weak} weak, largest rho {tally.rho:.3f}); wrong outputs that do not fail: "
                  + ", ".join(f"{twin} {tally.twins_passed[twin]} of {count}" for twin, count in tally.twins.items()), flush=True)
    if skipped:
        print(f"this macheps does not check {', '.join(sorted(skipped))}")
    print(summary(results))
    if options.write:
        versions = f"PyTorch {torch.__version__.split('+')[0]}, NumPy {np.__version__}"
        options.write.write_text(PAGE.format(versions=versions, shapes=options.shapes, wrong_shapes=options.wrong_shapes,
                                             summary=summary(results), table=table(results), explained=explained(results)))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
