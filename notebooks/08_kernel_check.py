# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 8. Is this kernel wrong, or only rounded?
#
# A colleague submits a faster matrix product. Its outputs differ from the reference in the last digits, like those of
# every kernel. Is it right? `allclose` with an arbitrary tolerance accepts kernels that are wrong. A check with
# computed limits shows which errors are explained by the formats, the length of the sums and the machine. It also shows
# whether a wrong kernel would have been noticed at all.
#
# **Write down before you go on:** a kernel truncates its result to bf16 instead of rounding to nearest. What is its
# largest relative error? Does `allclose(rtol=1e-2)` notice?

# %%
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("macheps") is None:  # a local wheel, else the source tree, else the published wheel
    tree = Path("..").resolve()
    wheels = [*sorted(Path(".").resolve().glob("macheps-*.whl")), *sorted(tree.glob("build/wheels/macheps-*.whl"))]
    from_tree = [tree] if (tree / "pyproject.toml").exists() else []
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", f"{[*wheels, *from_tree, 'macheps'][0]}[notebooks]"])

# %%
import macheps as me
import numpy as np
import pandas as pd
from common import plt, style

inputs = me.make_inputs("gemm", "normal", shape=(96, 80, 512), a_format="bf16", b_format="bf16")["normal"]
a, b = (me.encode(inputs[name], "bf16") for name in ("a", "b"))
A, B = inputs["a"], inputs["b"]
MACHINE = "sm80.mma.bf16"
exact_sums = me.matmul(A, B, machine=MACHINE, format_a="bf16")  # fp32


def judge(out, **words):
    return me.check(me.encode(out, "bf16"), a, b, a_format="bf16", b_format="bf16", out_format="bf16", machine=MACHINE, **words)


# %% [markdown]
# ## Five kernels
# One kernel is right. The others have faults that were found in real kernels.

# %%
def shifted_tile(out):
    wrong = out.copy()
    wrong[32:48, 16:32] = out[32:48, 17:33]
    return wrong


short = me.matmul(A[:, :-8], B[:-8], machine=MACHINE, format_a="bf16")
kernels = {
    "right": me.round(exact_sums, "bf16"),
    "cuts its result": me.round(exact_sums, "bf16", mode="toward_zero"),
    "accumulates in bf16": me.matmul(A, B, machine="bf16.chain", format_a="bf16"),
    "shifts one tile": me.round(shifted_tile(exact_sums), "bf16"),
    "forgets the last 8 terms": me.round(short, "bf16"),
}
verdicts = {name: judge(out) for name, out in kernels.items()}
reference = A.astype(np.float64) @ B.astype(np.float64)
scale = np.abs(reference).max()
table = pd.DataFrame({
    "verdict": {name: v.outcome for name, v in verdicts.items()},
    "rho": {name: v.rho for name, v in verdicts.items()},
    "first reason": {name: v.reasons[0]["code"] if v.reasons else "" for name, v in verdicts.items()},
    "allclose(1e-2)": {name: bool(np.allclose(out, reference, rtol=1e-2, atol=1e-2 * scale)) for name, out in kernels.items()},
})  # fmt: skip
table

# %% [markdown]
# **rho** is the largest ratio of an error to its bound. A correct kernel never exceeds the bound. If rho is above 1,
# the kernel is wrong. If it is below 1, the errors can still be too large *together*, or biased to one side.

# %%
figure, axes = plt.subplots(1, 2, sharey=True)
for axis, name in zip(axes, ("right", "cuts its result"), strict=True):
    v = verdicts[name]
    ratio = (kernels[name] - v.exact) * np.sign(v.exact) / v.certain
    axis.hist(ratio.ravel(), bins=np.linspace(-2, 2, 81), color=style(name)["color"])
    axis.axvspan(-1, 1, color="#8a94a6", alpha=0.15, lw=0)
    axis.set(xlabel="error away from zero / certain bound", xlim=(-2, 2))
    axis.set_title(f"{name}: {v.outcome}")
plt.show()

# %%
v = verdicts["shifts one tile"]
figure, axes = plt.subplots(figsize=(5, 3.6))
shown = axes.imshow(np.log10(np.maximum(np.abs(kernels["shifts one tile"] - v.exact) / v.certain, 1e-3)), cmap="magma", aspect="auto")
figure.colorbar(shown, label="log10(error / bound)")
axes.grid(False)
axes.set_title("The wrong tile is visible if errors are divided by their bounds")
plt.show()
print(v.text[:900])

# %% [markdown]
# ## Would we have noticed?
# A check that cannot fail is worth nothing. The verdict lists wrong kernels that these inputs would *not* reveal.

# %%
print("blind to:", verdicts["right"].blind)
zeros = judge(kernels["right"], atol=1e3)
print(zeros.outcome, "-", zeros.reasons[0]["text"])

# %% [markdown]
# ## What was seen

# %%
assert table.verdict["right"] == "pass" and (table.verdict.drop("right") == "fail").all(), table
assert table["allclose(1e-2)"][["right", "cuts its result", "forgets the last 8 terms"]].tolist()[:2] == [True, True]
assert table.rho["right"] < 1 < table.rho["shifts one tile"]
cut = np.abs(kernels["cuts its result"] - reference) / np.abs(reference)
assert 2.0**-9 < np.median(np.sort(cut.ravel())[-100:]) < 2.0**-7 * 1.01
assert zeros.outcome == "refused"
found = verdicts["shifts one tile"].reasons[0]["index"]
assert 32 <= found // 80 < 48 and 16 <= found % 80 < 32, "the check names a place inside the tile"

# %% [markdown]
# - Truncation has a relative error of up to 2^-7, twice the unit roundoff. `allclose` with rtol = 0.01 accepts it. The
#   computed limit does not, because every step is known: the formats, the 512 terms, and the truncation of the machine.
# - A shifted tile is found by the test of single elements, which reports their position. An accumulator in bf16 is
#   found by the tests of all elements together.
# - A tolerance that an output of zeros satisfies is refused, because it would accept anything.
#
# ## Exercises
# 1. Scale one row of the right result by 1.01, by 1.001, by 1.0001. Which of these is noticed, and by which test?
# 2. Declare the machine as `any` (any order of fp32 sums). Does the kernel of the A100's tensor core still pass, and
#    why?
# 3. *(a new command)* `macheps check make-inputs --list` lists recipes of inputs. Which one reveals a kernel that
#    rounds ties away from zero? Make these inputs, and show it.
