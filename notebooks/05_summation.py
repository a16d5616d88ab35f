# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 5. How bad is the worst case really?
#
# Textbooks bound the relative error of a sum of k products by k u, where u is the unit roundoff. For fp32 and k = 16384
# that is 1e-3, but nobody observes such errors. For bf16 it is 64, which says nothing at all. If errors had no
# preferred sign, they should grow as sqrt(k) u (Higham and Mary, 2019). We add positive numbers, so that nothing
# cancels, in five ways.
#
# **Write down before you go on:** a chain adds numbers one after the other. Is the relative error of a bf16 chain over
# 1024 positive numbers in [0, 1) closer to 0.001, 0.03 or 0.3? Which of the five ways does not get worse with k?

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

sums = rows("positive", ["gemm", "-d", "positive", "-f", "bf16", "--sweep", "k=16..16384", "-m", "4", "-n", "4", "-M",
                         "fp32.chain,fp32.pairwise,fp32.kahan,bf16.chain,sm80.mma.bf16", "-q"])  # fmt: skip
sums[sums.k == 1024][["machine", "max_rel", "drift", "bound", "probable_bound"]]

# %%
figure, axes = plt.subplots()
for name, mine in sums.groupby("machine", sort=False):
    axes.plot(mine.k, mine.max_rel, marker="o", ms=3, label=name, **style(name))
k = np.array(sorted(sums.k.unique()), float)
u = me.finfo("fp32").unit_roundoff
axes.plot(k, k * u, color="#808a99", lw=0.8, label="k u")
axes.plot(k, 4 * np.sqrt(k) * u, color="#808a99", lw=0.8, ls=":", label="4 sqrt(k) u")
axes.set(xscale="log", yscale="log", xlabel="k", ylabel="largest relative error", ylim=(1e-8, 2))
axes.set_xscale("log", base=2)
axes.set_title("bf16 stalls; fp32 stays far below k u; Kahan's sum does not grow at all")
axes.legend(ncols=2, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %%
figure, axes = plt.subplots()
for name in ["fp32.chain", "fp32.pairwise", "sm80.mma.bf16"]:
    mine = sums[sums.machine == name]
    axes.plot(mine.k, -mine.drift, marker="o", ms=3, label=name, **style(name))
axes.set(xscale="log", xlabel="k", ylabel="mean error towards zero / sum of |a||b|")
axes.set_xscale("log", base=2)
axes.set_yscale("symlog", linthresh=1e-9)
axes.set_title("Truncation drifts in one direction; rounding to nearest does not")
axes.legend()
plt.show()

# %% [markdown]
# ## What was seen

# %%
error = sums.pivot(index="k", columns="machine", values="max_rel")
drift = sums.pivot(index="k", columns="machine", values="drift")
print(error.loc[[16, 1024, 16384]].to_string(float_format="{:.1e}".format))
assert 0.2 < error["bf16.chain"][1024] < 0.4 and error["bf16.chain"][16384] > 0.85
assert (error["fp32.kahan"] < 1.3e-7).all() and (error["fp32.pairwise"] < 4 * np.sqrt(k) * u).all()
assert (error["fp32.chain"] < k * u).all()
assert drift["sm80.mma.bf16"][16384] < -1e-5 and abs(drift["fp32.chain"][16384]) < -drift["sm80.mma.bf16"][16384] / 5

# %% [markdown]
# - The bf16 chain has a relative error of 0.3 at k = 1024 and of 0.9 at k = 16384. From a sum of 256 on, neighbours in
#   bf16 are 2 apart, so a product below 1 changes nothing. Here the worst case really happens.
# - In fp32, the error of pairwise summation stays below 4 sqrt(k) u, and that of a chain far below k u. The error of
#   Kahan's sum does not grow with k.
# - The tensor core of an A100 truncates towards zero. Such errors do not cancel. They grow like k, and the probable
#   bound for unbiased errors does not hold for them.
#
# ## Exercises
# 1. From which k on does the bf16 chain stall for terms with the mean 1/4 (products of two numbers in [0, 1))? Predict
#    it, then look.
# 2. Kahan's sum takes four additions per term. Pairwise summation takes only one, like a chain. From which k on is
#    pairwise summation not accurate enough for a relative error of 1e-6?
# 3. *(a new command)* `-M chain:bf16:stochastic` rounds each addition stochastically. Which power of k does its error
#    follow?
