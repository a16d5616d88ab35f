# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 2: loss scaling

# %%
import macheps as me
import numpy as np
from common import DATA, data

TRAIN = ["train", "--token-weight", "2^-12", "--seeds", "0", "--steps", "120", "--probe-every", "40", "--histogram-every", "40",
         "--eval-every", "0"]  # fmt: skip
run = data("loss-scaling", ["train", "--policy", "fp16-noscale,amp-fp16", "--token-weight", "2^-12", "--seeds", "0,1",
                            "--steps", "120", "--probe-every", "40", "--histogram-every", "40", "--eval-every", "0"])  # fmt: skip

# %% [markdown]
# **1.** A scale of 2^s moves each bin of the histogram up by s. A scaled number below 2^-25 becomes zero, and a scaled
# number of at least 2^16 overflows. The slots `grad_b.a` are left out, because they hold attention probabilities, which
# are not gradients. The backward pass only reads them again.

# %%
policy_of = dict(zip(run.runs.run, run.runs.policy, strict=True))
site = run.exponents.site
bins = run.exponents[site.str.contains("grad") & ~site.str.endswith(":grad_b.a") & (run.exponents.kind == "number")]
mine = bins[bins.run.map(policy_of) == "fp16-noscale"].groupby("floor_log2")["count"].sum()
exponent, count = mine.index.to_numpy(int), mine.to_numpy(float)
least = next(s for s in range(64) if count[exponent + s < -25].sum() < 0.001 * count.sum())
largest = 15 - int(exponent.max())
print(f"least 2^{least}, largest 2^{largest}")
assert 0 < least < largest

# %% [markdown]
# **2.** `growth_tracker` counts consecutive steps without an overflow. When it reaches `growth_interval`, the scale
# doubles. With a smaller interval, the scale reaches its largest possible value sooner. However, a step is skipped each
# time the scale becomes too large.

# %%
steps = run.steps[(run.steps.policy == "amp-fp16") & (run.steps.seed == 0)]
assert (steps.growth_tracker.diff().dropna() <= 1).all()

# %% [markdown]
# **3.** A static scale between the two limits trains as well as fp32. A static scale above the upper limit overflows in
# every step. Because the scale never changes, the weights become NaN, or every step is skipped.

# %%
DATA.mkdir(parents=True, exist_ok=True)
for name, scale in (("right", least + 2), ("too-large", largest + 12)):
    (DATA / f"{name}.toml").write_text(
        f'name = "{name}"\nextends = "fp16-noscale"\n\n[loss_scaler]\nkind = "static"\ninit_scale = {2.0**scale}\n')
tried = data("static", [*TRAIN, "--policy", f"{DATA}/right.toml,{DATA}/too-large.toml"])
gap = tried.summary.set_index("policy").gap_mean
print(gap)
assert abs(gap["right"]) < 0.01 and not abs(gap["too-large"]) < 0.05
