# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 3. Where do small updates go in bf16?
#
# In bf16, the neighbours of a weight of 0.1 are 0.0005 away. An update of 0.0001 is less than half of that. With
# rounding to nearest, the weight does not change and the update is lost. In pure bf16 training, this happens all the
# time. We count how often it happens with rounding to nearest (`pure-bf16`), with stochastic rounding (`pure-bf16-sr`)
# and with fp32 master weights (`amp-bf16`), and we compare the losses.
#
# **Write down before you go on:** what share of all updates is lost in `pure-bf16`? What share is lost with stochastic
# rounding, which occasionally moves a weight by a whole spacing? Which of the two trains worse than fp32?

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
import numpy as np
from common import data, digest, plt, style

run = data("lost-updates", ["train", "--policy", "pure-bf16,pure-bf16-sr,amp-bf16", "--seeds", "0,1", "--steps", "150",
                            "--probe-every", "0", "--eval-every", "0"])  # fmt: skip
run.summary[["policy", "loss", "gap_mean", "verdict", "memory_ratio"]]

# %%
steps = run.steps
parameters = int(run.runs.parameters.iloc[0])
names = ["pure-bf16", "pure-bf16-sr", "amp-bf16"]
figure, axes = plt.subplots()
for name in names:
    mine = steps[steps.policy == name].groupby("step").lost_updates.mean() / parameters
    axes.plot(mine.index, mine.rolling(5, min_periods=1).mean(), label=name, **style(name))
axes.set(xlabel="step", ylabel="share of all weights", ylim=(0, 1))
axes.set_title("Round to nearest and stochastic rounding lose nearly the same share of updates ...")
axes.legend()
plt.show()

# %%
figure, axes = plt.subplots()
for name in names:
    gap = steps[steps.policy == name].pivot(index="step", columns="seed", values="gap").rolling(10, min_periods=1).mean()
    axes.plot(gap.index, gap.mean(axis=1), label=name, **style(name))
    axes.fill_between(gap.index, gap.min(axis=1), gap.max(axis=1), color=style(name)["color"], alpha=0.15, lw=0)
axes.axhline(0, color="#444444", lw=0.8)
axes.set(xlabel="step", ylabel="loss minus loss of fp32, nats")
axes.set_title("... but only round to nearest increases the loss (band: seeds)")
axes.legend()
plt.show()

# %%
figure, axes = plt.subplots()
for name in names:
    mine = steps[steps.policy == name].groupby("step").update_eff.mean().rolling(10, min_periods=1).mean()
    axes.plot(mine.index, mine, label=name, **style(name))
axes.set(xlabel="step", ylabel="update efficiency")
axes.set_title("Average share of the requested update that was applied")
axes.legend()
plt.show()

# %% [markdown]
# ## What was seen

# %%
assert digest(run.path / "steps.csv") == "e0bcb40e9d4edb55", "the results are not the ones that this page describes"
late = steps[steps.step >= 120]
lost = (late.groupby("policy", observed=True).lost_updates.mean() / parameters).round(3)
efficiency = steps.groupby("policy", observed=True).update_eff.mean().round(3)
gap = run.summary.set_index("policy").gap_mean.round(4)
print(lost.to_dict(), efficiency.to_dict(), gap.to_dict(), sep="\n")
assert 0.5 < lost["pure-bf16"] < 0.7 and lost["pure-bf16-sr"] > 0.45 and lost["amp-bf16"] < 0.01
assert efficiency["pure-bf16"] < 0.97 and abs(efficiency["pure-bf16-sr"] - 1) < 0.02
assert gap["pure-bf16"] > 0.015 and abs(gap["pure-bf16-sr"]) < gap["pure-bf16"] / 2 and abs(gap["amp-bf16"]) < 0.003

# %% [markdown]
# - In `pure-bf16`, 60 % of the updates in the last steps changed nothing. The weights therefore changed less than the
#   optimiser requested: the update efficiency is below 1. The loss is higher than with fp32.
# - Stochastic rounding loses nearly as many single updates, because most weights still do not move in a given step. But
#   the weights that do move are moved by a whole spacing, so that *on average* the update is applied. The efficiency is
#   1, and there is almost no gap. **Losing updates is harmless if the rounding errors are unbiased.**
# - fp32 master weights lose almost no updates, and take twice the memory of bf16 weights.
#
# ## Exercises
# 1. Predict the share of lost updates from the size of an update (`lr` times about 1, since Adam normalises) and from
#    the spacing of bf16 at a weight of 0.02. How close is your prediction?
# 2. In which steps do `pure-bf16` and `pure-bf16-sr` differ most, and why do they not differ at the beginning?
# 3. *(a new command)* With `--lr 1e-2` the effect is smaller. Explain why, then show it.
