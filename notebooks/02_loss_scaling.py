# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 2. Where do gradients go in fp16?
#
# The smallest positive number of fp16 is 6e-8. Gradients of a large batch are small, because the weight of each token
# in the loss is one over the number of tokens. We train a small transformer as if its batch were 4096 times as large:
# `--token-weight 2^-12` multiplies every token's loss, and the gradient is divided by the same factor before the
# weights are updated. We compare fp32, fp16 with a loss scaler (`amp-fp16`) and fp16 without one (`fp16-noscale`).
#
# **Write down before you go on:** what share of the gradient's elements becomes zero without a scaler: 0.1 %, 5 %, 50
# %? Does it change the loss?

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
from common import data, digest, plt, style

run = data("loss-scaling", ["train", "--policy", "fp16-noscale,amp-fp16", "--token-weight", "2^-12", "--seeds", "0,1",
                            "--steps", "120", "--probe-every", "40", "--histogram-every", "40", "--eval-every", "0"])  # fmt: skip
run.summary[["policy", "loss", "gap_mean", "verdict", "skipped_rate", "underflow_rate"]]

# %% [markdown]
# ## Where the gradients lie
# The histogram counts floor(log2 |x|) of all numbers that the backward pass casts to fp16, at sampled steps.

# %%
steps, sites, bins = run.steps, run.sites, run.exponents
backward = bins[bins.site.str.contains("grad") & (bins.kind == "number")]
policy_of = dict(zip(run.runs.run, run.runs.policy, strict=True))
info = me.finfo("fp16")
least, normal = np.log2(info.smallest_subnormal), np.log2(info.smallest_normal)

figure, axes = plt.subplots()
for name in ("fp16-noscale", "amp-fp16"):
    mine = backward[backward.run.map(policy_of) == name].groupby("floor_log2")["count"].sum()
    axes.step(mine.index.astype(int), mine / mine.sum(), where="mid", label=name, **style(name))
axes.axvspan(least, normal, color="#8a94a6", alpha=0.2, lw=0)
axes.axvspan(normal, 16, color="#8a94a6", alpha=0.4, lw=0)
axes.text(least + 0.3, axes.get_ylim()[1] * 0.92, "subnormal", fontsize=8)
axes.text(normal + 0.3, axes.get_ylim()[1] * 0.92, "normal in fp16", fontsize=8)
axes.set(xlabel="floor(log2 |x|) of the values that the backward pass casts", ylabel="share", xlim=(-45, 16))
axes.set_title("Without a scaler, many gradients are smaller than every number of fp16")
axes.legend()
plt.show()

# %%
gradients = sites[sites.site.str.contains("grad")]
share = gradients.groupby(["policy", "site"], observed=True)[["underflow", "count"]].sum()
share = (share.underflow / share["count"]).rename("share").reset_index()
worst = share[share.policy == "fp16-noscale"].sort_values("share").tail(8)
figure, axes = plt.subplots()
axes.barh(worst.site, worst.share, color=style("fp16-noscale")["color"])
scaled = share[share.policy == "amp-fp16"].set_index("site").share.reindex(worst.site)
axes.plot(scaled.to_numpy(), worst.site, "o", color=style("amp-fp16")["color"], label="with a scaler")
axes.set(xlabel="share that became zero", xlim=(0, 1))
axes.set_title("The share differs between sites")
axes.legend(loc="lower right")
plt.show()

# %%
figure, axes = plt.subplots()
for name in ("fp32", "fp16-noscale", "amp-fp16"):
    loss = steps[steps.policy == name].groupby("step").loss.mean()
    axes.plot(loss.index, loss.rolling(5, min_periods=1).mean(), label=name, **style(name))
axes.set(xlabel="step", ylabel="loss, nats")
axes.set_title("Without a scaler, the loss does not decrease at all (amp-fp16 coincides with fp32)")
axes.legend()
plt.show()

# %% [markdown]
# ## What was seen

# %%
assert digest(run.path / "steps.csv") == "7f000e57f147a12f", "the results are not the ones that this page describes"
summary = run.summary.set_index("policy")
lost = {name: float(g.underflow.sum() / g["count"].sum()) for name, g in gradients.groupby("policy", observed=True)}
gap = summary.gap_mean
print({name: f"{value:.2%}" for name, value in lost.items()}, gap.round(4).to_dict())
assert lost["fp16-noscale"] > 0.05 and lost["amp-fp16"] < 0.005 < lost["fp16-noscale"]
assert 0.3 < gap["fp16-noscale"] < 0.8 and abs(gap["amp-fp16"]) < 0.001
one = steps[(steps.policy == "amp-fp16") & (steps.seed == 0)]
assert (one.loss_scale == 65536).all() and not one.skipped.any(), "the scaler began at 2^16, and had nothing to do"

# %% [markdown]
# - Without a scaler, a tenth of the numbers that the backward pass casts becomes zero. At some sites, most numbers
#   become zero. The loss is half a nat higher than with fp32.
# - With a scaler, the same gradients are multiplied by 2^16 and are in the range of fp16. The gap to fp32 is zero to
#   four decimals.
# - The scaler costs nothing here. Its first scale, 2^16, was small enough for this model, so no step was skipped.
#
# ## Exercises
# 1. From the histogram of `fp16-noscale`, choose the smallest power of two as a static scale with which less than 0.1 %
#    of the numbers become zero. Then choose the largest one with which nothing overflows.
# 2. What is the effect of `growth_interval`? Read `macheps policy show amp-fp16`, and the column `growth_tracker` of
#    the steps.
# 3. *(a new command)* Try your scale: write a policy that extends `fp16-noscale` with `[loss_scaler] kind = "static"`,
#    and train it. Then try a scale that is 16 times as large.
