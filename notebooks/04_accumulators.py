# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 4. Does the tensor core add in fp32?
#
# When Hopper's tensor core multiplies fp8 matrices, it takes 32 products at a time, truncates them to a common last
# place, and adds them to an accumulator that is called fp32. How many bits of this accumulator are used? The smallest
# experiment that answers this is a sum of equal numbers: 0.0625 * 0.0625 = 2^-8, added k times.
#
# **Write down before you go on:** what is the sum of k = 65536 terms of 2^-8 on this unit? The exact sum is 256.

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

machines = "sm90.wgmma.fp8,sm90.wgmma.fp8+promote128,sm100.tcgen05.fp8,fp32.chain"
equal = rows("equal", ["gemm", "-d", "equal", "--scale", "0.0625", "--sweep", "k=256..65536", "-m", "1", "-n", "1", "-f", "e4m3fn",
                       "-M", machines, "-q"])  # fmt: skip
equal.pivot(index="k", columns="machine", values="first")

# %%
figure, axes = plt.subplots()
for name, mine in equal.groupby("machine", sort=False):
    axes.plot(mine.k, mine["first"], marker="o", ms=3, label=name, **style(name))
axes.plot(mine.k, mine.first_exact, color="#808a99", lw=0.8, ls=":", label="exact")
axes.set(xscale="log", yscale="log", xlabel="k", ylabel="sum of k times 2^-8")
axes.set_xscale("log", base=2)
axes.set_yscale("log", base=2)
axes.set_title("Hopper's fp8 sum stops at 64; with promotion it continues to grow")
axes.legend()
plt.show()

# %% [markdown]
# At 64 the accumulator's exponent is 6. A product of 2^-8 is 14 places below that, outside the 13 fraction bits that
# are kept, so every further product is cut off. The remedy is to add the partial sum to a real fp32 register every 128
# terms (`promote128`, as in CUTLASS and DeepGEMM).
#
# ## Random data
# Equal numbers are the worst case. How large are the errors of normally distributed numbers, and which bounds can be
# computed in advance?

# %%
normal = rows("normal", ["gemm", "--sweep", "k=64..16384", "-m", "8", "-n", "8", "-f", "e4m3fn", "-M",
                         "sm90.wgmma.fp8,sm90.wgmma.fp8+promote128,fp32.chain", "-q"])  # fmt: skip
figure, axes = plt.subplots()
for name, mine in normal.groupby("machine", sort=False):
    axes.plot(mine.k, mine.max_error, marker="o", ms=3, label=name, **style(name))
    axes.plot(mine.k, mine.probable_bound, color=style(name)["color"], lw=0.6, ls=":")
axes.set(xscale="log", yscale="log", xlabel="k", ylabel="error / sum of |a||b|")
axes.set_xscale("log", base=2)
axes.set_title("Normal data: largest errors, and their probable bounds (dotted)")
axes.legend(loc="lower left")
plt.show()

# %% [markdown]
# ## What was seen

# %%
at = equal.pivot(index="k", columns="machine", values="first")
assert at["sm90.wgmma.fp8"][16384] == 64 and at["sm90.wgmma.fp8"][65536] == 64
assert (at.drop(columns="sm90.wgmma.fp8").loc[65536] == 256).all()
a = np.full((1, 65536), 0.0625, np.float32)
assert me.matmul(a, a.T, machine="sm90.wgmma.fp8", format_a="e4m3fn")[0, 0] == 64, "the same from Python"
error = normal.pivot(index="k", columns="machine", values="max_error")
plain, promoted = error["sm90.wgmma.fp8"], error["sm90.wgmma.fp8+promote128"]
print(error.loc[[64, 1024, 16384]].to_string(float_format="{:.1e}".format))
assert plain[16384] > plain[64] and plain[16384] > 20 * promoted[16384] and promoted[16384] < promoted[64] / 5
assert (plain[[64, 128]] == promoted[[64, 128]]).all(), "up to 128 terms, promotion changes nothing"
assert (normal.max_error <= normal.bound).all() and (normal.max_error <= normal.probable_bound).all()

# %% [markdown]
# - No: Hopper's fp8 unit keeps 13 fraction bits below the largest term. The sum of equal numbers stops at 64, while
#   promote128, Blackwell and fp32 reach 256.
# - On normal data, the largest error of Hopper's fp8 unit stays at 1e-4 of the sum of magnitudes for every k, because
#   the truncation errors grow with the accumulator. The error of promote128 falls with k, and is 30 times smaller at k
#   = 16384.
# - The probable bounds hold for random data. The certain bounds always hold. The error of the stalled sum of equal
#   numbers exceeds neither bound, so a kernel that stalls like this is not wrong.
#
# ## Exercises
# 1. At which sum do products of 2^-4 stall? At which sum do products of 1 stall? Predict it from 13 bits, then try it
#    with `me.matmul`.
# 2. Does the order of the terms matter on this unit? Sort data that all have the same sign, and compare.
# 3. *(a new command)* Find the largest `promoteN` whose largest error stays below bf16's unit roundoff, 2^-8, at k =
#    65536 in the experiment with equal numbers.
