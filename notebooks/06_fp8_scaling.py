# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 6. What is a scale for?
#
# The positive numbers of e4m3fn range from 2^-9 to 448, over eighteen powers of two. A tensor outside this range has to
# be multiplied by a factor, its scale. There can be one factor for the tensor, one for each row, or one for each block
# of 32. What does each of them gain?
#
# **Write down before you go on:** one element in 128 is 64 times as large as the others. How many decibels (6 dB are
# one bit) does a scale for each row gain over one scale for the tensor? And how many does a scale for each block of 32
# elements gain?

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
from common import data, digest, plt, rows, style

rng = np.random.default_rng(0)
x = rng.standard_normal((256, 512)).astype(np.float32)
x[rng.random(x.shape) < 1 / 128] *= 64


def sqnr(values, made):
    values, made = values.astype(np.float64), made.astype(np.float64)
    return float(10 * np.log10(np.sum(values**2) / np.sum((made - values) ** 2)))


# %% [markdown]
# ## A trade-off
# First, we use one factor for all elements and vary it from far too small to far too large.

# %%
factors = 2.0 ** np.arange(-14, 13)
moved = [me.tally(x, "e4m3fn", saturate=True, scale=f) for f in factors]
figure, axes = plt.subplots()
axes.plot(factors, [t.rates()["underflow"] for t in moved], label="underflow: became zero", **style("underflow"))
axes.plot(factors, [t.rates()["overflow"] for t in moved], label="overflow: became 448", **style("overflow"))
axes.axvline(448 / np.abs(x).max(), color="#808a99", lw=0.8)
axes.text(448 / np.abs(x).max() * 1.1, 0.6, "448 / amax", fontsize=8)
axes.set(xlabel="scale", ylabel="share of all elements")
axes.set_xscale("log", base=2)
axes.set_title("A scale moves the loss from one end of the format to the other")
axes.legend(loc="upper center")
plt.show()

# %%
granularities = ["tensor", "row", "1x128", "mx32"]
small = np.abs(x) < 8  # all except the outliers
quality = {g: sqnr(x[small], me.scale(x, g, "e4m3fn").decoded[small]) for g in granularities}
quality4 = {g: sqnr(x[small], me.scale(x, g, "e2m1fn").decoded[small]) for g in ("mx32",)}
quality4["nvfp4"] = sqnr(x[small], me.scale(x, "nvfp4", "e2m1fn").decoded[small])
wide = x * np.exp2(rng.integers(-12, 13, (256, 1))).astype(np.float32)  # rows of very different size
of_rows = {g: me.scale(wide, g, "e4m3fn").tally().rates()["underflow"] for g in granularities}
figure, axes = plt.subplots(1, 2, width_ratios=(2, 1))
axes[0].bar(list(quality) + [f"{g} e2m1" for g in quality4], [*quality.values(), *quality4.values()],
            color=[style(g)["color"] for g in (*quality, *quality4)])  # fmt: skip
axes[0].set(ylabel="SQNR of ordinary elements, dB")
axes[0].tick_params(axis="x", labelsize=8)
axes[0].set_title("Outliers cost little in 8 bits; 4 bits depend on block scales")
axes[1].bar(list(of_rows), list(of_rows.values()), color=[style(g)["color"] for g in of_rows])
axes[1].set(ylabel="share that became zero")
axes[1].tick_params(axis="x", labelsize=8)
axes[1].set_title("Rows of different magnitude")
plt.show()

# %% [markdown]
# ## In training
# We train a small transformer with its hidden linear layers in fp8, with one dynamic scale for each tensor.

# %%
run = data("fp8", ["train", "--policy", "fp8-tensorwise,h100-fp8-promoted", "--seeds", "0", "--steps", "60", "--probe-every", "20",
                   "--histogram-every", "0", "--eval-every", "0"])  # fmt: skip
fp8 = run.sites[run.sites.format.isin(["e4m3fn", "e5m2"]) & (run.sites.policy == "fp8-tensorwise")]
by_site = fp8.groupby(["site", "format"]).sqnr_db.mean().sort_values().reset_index()
figure, axes = plt.subplots(figsize=(8, 4.2))
axes.scatter(by_site.sqnr_db, range(len(by_site)), c=by_site.format.map({"e4m3fn": "#0072b2", "e5m2": "#d55e00"}), s=16)
every = max(1, len(by_site) // 14)
axes.set(yticks=range(0, len(by_site), every), yticklabels=by_site.site[::every], xlabel="SQNR of the cast, dB")
axes.tick_params(axis="y", labelsize=7)
axes.set_title("Gradients in e5m2 (orange) have one bit less than e4m3fn (blue): 6 dB")
plt.show()

# %% [markdown]
# ## What was seen

# %%
assert digest(run.path / "steps.csv") == "00e5e9996eb41274", "the results are not the ones that this page describes"
low, high = moved[0].rates(), moved[-1].rates()
assert low["underflow"] > 0.9 and low["overflow"] == 0 and high["overflow"] > 0.9 and high["underflow"] < 0.01
print({g: round(v, 1) for g, v in quality.items()}, {g: round(v, 1) for g, v in quality4.items()}, of_rows)
assert max(quality.values()) - min(quality.values()) < 3, "8 bits have digits to spare for a factor 64"
assert of_rows["tensor"] > 0.2 and of_rows["row"] < 0.01
assert quality4["nvfp4"] > quality4["mx32"]
median = fp8.groupby("format").sqnr_db.median()
print(median.round(1).to_dict())
assert 4 < median["e4m3fn"] - median["e5m2"] < 8 and abs(run.summary.set_index("policy").gap_mean["fp8-tensorwise"]) < 0.05

# %% [markdown]
# - A scale trades underflow against saturation. 448 / amax is the largest scale without saturation.
# - Outliers that are 64 times as large do little harm in e4m3fn, because its numbers have the same relative accuracy
#   over fifteen binades. Rows of very different size do harm. With one scale for the tensor, the small rows become
#   zero. With one scale for each row, no row becomes zero.
# - The normal numbers of e2m1fn, which has 4 bits, span three binades. The accuracy of this format therefore depends on
#   the scales of blocks. Blocks of 16 whose scale need not be a power of two (NVFP4) are more accurate than blocks of
#   32.
# - In training, casts to e4m3fn are about one bit (6 dB) better than casts to e5m2, and neither affects the loss.
#
# ## Exercises
# 1. Make a tensor for which one scale for each 1x128 block is *worse* than a single scale for the whole tensor.
# 2. Why is the SQNR of e4m3fn about 31 dB and not higher, whatever the scale is? Derive it from u = 2^-4.
# 3. *(a new command)* `macheps gemm -d outliers -f e4m3fn --scaling none,tensor,row` shows the effect of scales on
#    products. Compare `operand_sqnr_db` with the values here.
