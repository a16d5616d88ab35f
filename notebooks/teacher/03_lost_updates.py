# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 3: lost updates

# %%
import macheps as me
import numpy as np
from common import data

# %% [markdown]
# **1.** In each step, Adam moves a weight by about the learning rate. The learning rate is 1e-3 at first, and the
# cosine schedule reduces it to 1e-4. For weights around 0.02, in [2^-6, 2^-5), the spacing of bf16 is 2^-13 = 1.2e-4.
# Half the spacing, 6e-5, is less than the learning rate in every step, so updates of these weights are not lost. For
# weights around 0.1, half the spacing is 2.4e-4, so most updates at the end of training are lost. The measured share of
# lost updates lies between these two cases.

# %%
assert me.number(int(me.encode(0.02, "bf16")), "bf16").ulp == 2.0**-13
assert me.round(0.02 + 5e-5, "bf16") == me.round(0.02, "bf16") and me.round(0.1 + 2e-4, "bf16") == me.round(0.1, "bf16")

# %% [markdown]
# **2.** The two policies differ from the middle of training on. At first, updates are larger than the spacing in both
# policies, and gradients keep their direction for many steps. Later, the learning rate falls, and updates become
# smaller than half a spacing. From then on, only stochastic rounding makes progress, because it preserves the mean.

# %%
run = data("lost-updates", ["train", "--policy", "pure-bf16,pure-bf16-sr,amp-bf16", "--seeds", "0,1", "--steps", "150",
                            "--probe-every", "0", "--eval-every", "0"])  # fmt: skip
gap = run.steps.pivot_table(index="step", columns="policy", values="gap", observed=True)
apart = (gap["pure-bf16"] - gap["pure-bf16-sr"]).rolling(20).mean()
assert apart.iloc[-10:].mean() > apart.iloc[20:40].mean()

# %% [markdown]
# **3.** Ten times the learning rate makes updates ten times as large, so fewer updates are below half a spacing and
# lost.

# %%
fast = data("lost-updates-fast", ["train", "--policy", "pure-bf16", "--seeds", "0", "--lr", "1e-2", "--steps", "150", "--probe-every", "0",
                                  "--eval-every", "0"])  # fmt: skip
lost = [r.steps[(r.steps.policy == "pure-bf16") & (r.steps.seed == 0)].lost_updates.mean() for r in (run, fast)]
print(lost)
assert lost[1] < lost[0]
