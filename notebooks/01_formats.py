# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 1. Which numbers exist?
#
# An 8-bit format has at most 256 numbers, a 16-bit format 65536. The set of these numbers determines everything else in
# this course: which values round to zero, which overflow, and how far apart neighbours are. Here we look at all numbers
# of several formats.
#
# **Write down before you go on:** e4m3fn has 8 numbers in [1, 2). How many does it have in [128, 256)? Its largest
# number is 448. Does 460 overflow? Which of fp16 and bf16 is more accurate at 0.000003?

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
from common import plt, rows, style

# %% [markdown]
# ## The data
# The table of formats, as `macheps formats --csv` prints it, and the numbers of all codes of the small formats.

# %%
table = rows("formats", ["formats", "--csv"]).set_index("format")
table[["bits", "exponent_bits", "fraction_bits", "max", "min_positive", "specials"]]

# %%
small = ["e2m1fn", "e3m2fn", "e2m3fn", "e4m3fn", "e5m2"]


def positive_numbers(name):
    values = me.decode(np.arange(2 ** int(table.bits[name]), dtype=np.uint8), name)
    return np.unique(values[np.isfinite(values) & (values > 0)])


figure, axes = plt.subplots()
for place, name in enumerate(small):
    values = positive_numbers(name)
    normal = values >= me.finfo(name).smallest_normal
    axes.plot(values[normal], np.full(normal.sum(), place), "|", ms=14, color=style(name)["color"])
    axes.plot(values[~normal], np.full((~normal).sum(), place), "|", ms=14, color="#808a99")
axes.set(xscale="log", yticks=range(len(small)), yticklabels=small, xlabel="positive numbers (subnormal ones grey)")
axes.set_xscale("log", base=2)
axes.set_title("Each power of two has the same number of values, but there are fewer below the smallest normal number")
plt.show()

# %% [markdown]
# **Look at the spacing.** There are equally many numbers between any power of two and the next, so the spacing doubles
# at each power of two. Below the smallest normal number the spacing is constant, so the *relative* error grows as
# numbers get smaller.

# %%
x = np.geomspace(2.0**-12, 2.0**10, 4000)
figure, axes = plt.subplots()
for name in ["e4m3fn", "fp16", "bf16"]:
    error = np.abs(me.round(x, name) - x) / x
    axes.plot(x, np.maximum(error, 1e-7), lw=0.8, label=name, color=style(name)["color"])
    axes.axhline(me.finfo(name).unit_roundoff, color=style(name)["color"], lw=0.6, ls=":")
axes.set(xscale="log", yscale="log", xlabel="x", ylabel="relative error", ylim=(1e-6, 2))
axes.set_title("In the normal range, the error oscillates between 0 and the unit roundoff u")
axes.legend(ncols=3, loc="lower left")
plt.show()

# %%
me.number(int(me.encode(0.1, "fp16")), "fp16")  # one number: sign, exponent, fraction, neighbours

# %% [markdown]
# ## What was seen

# %%
between = {low: int(((positive_numbers("e4m3fn") >= low) & (positive_numbers("e4m3fn") < 2 * low)).sum()) for low in (1, 128)}
e4m3, bf16, fp16, fp32 = (me.finfo(name) for name in ("e4m3fn", "bf16", "fp16", "fp32"))
assert between == {1: 8, 128: 8}, "as many between 128 and 256 as between 1 and 2"
assert e4m3.max == 448 and table["max"]["e4m3fn"] == 448
assert me.round(460.0, "e4m3fn") == 448 and me.round(464.0, "e4m3fn") == 448 and np.isnan(me.round(465.0, "e4m3fn"))
assert bf16.smallest_normal == fp32.smallest_normal and bf16.precision == 8 and fp32.precision == 24
assert list(table.index) == [f.format for f in me.formats()] and table.bits["bf16"] == 16
low = np.linspace(2e-6, 4e-6, 10_001)
errors = {name: float(np.max(np.abs(me.round(low, name) - low) / low)) for name in ("fp16", "bf16")}
assert errors["bf16"] < 2.0**-8 < errors["fp16"], errors
print(f"e4m3fn has {between[1]} numbers in [1, 2) and in [128, 256); 464 still rounds to {e4m3.max:.0f}, 465 to NaN")
print(f"from 2e-6 to 4e-6 the error of fp16 is up to {errors['fp16']:.1e}, and that of bf16 {errors['bf16']:.1e}")

# %% [markdown]
# - Spacing doubles at each power of two: e4m3fn has 8 numbers in [1, 2) and 8 in [128, 256).
# - bf16 is the upper half of fp32. It has the same range, but 8 significant bits instead of 24.
# - 464 still rounds to 448. It is halfway between 448 and 480, the next number if the format continued. The tie goes to
#   448.
#   465 becomes NaN, unless you ask for saturation.
# - Guides say that fp16 is "more accurate for small values". At 3e-6 it is not: fp16 is subnormal below 6.1e-5, and
#   loses a bit with each halving.
#
# ## Exercises
# 1. Find the smallest x from which fp16 is always at least as accurate as bf16. Up to which x is that true?
# 2. How many positive numbers of e4m3fn are subnormal? How many bits would a format need to have them as normal
#    numbers?
# 3. *(a new command)* `macheps show 0.1 --format e5m6,e6m5` shows two formats that have no name. `macheps formats`
#    lists the formats that have one. Find an 8-bit format in this list whose largest number is above 1000 and whose
#    unit roundoff is below 2^-3, or show that the list has none. Could such a format exist?
