# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 3: lost updates

# %%
import macheps as me
import numpy as np
from common import data

# %% [markdown]
# **1.** At the rate lr Adam moves a weight by about lr, 1e-3 (the cosine takes it to 1e-4). bf16's numbers around 0.02, in [2^-6, 2^-5),
# are 2^-13 = 1.2e-4 apart; half of that is reached until lr falls below 6e-5, or where a weight is larger: around 0.1 the half
# distance is 2.4e-4, and most updates at the end are lost. The share that was counted lies between.

# %%
assert me.number(int(me.encode(0.02, "bf16")), "bf16").ulp == 2.0**-13
assert me.round(0.02 + 5e-5, "bf16") == me.round(0.02, "bf16") and me.round(0.1 + 2e-4, "bf16") == me.round(0.1, "bf16")

# %% [markdown]
# **2.** They differ from the middle on: at first updates are larger than the spacing for both, and gradients point one way for many
# steps. The rate falls, updates shrink below half a spacing, and only rounding that keeps the mean goes on.

# %%
run = data("lost-updates", ["train", "--policy", "pure-bf16,pure-bf16-sr,amp-bf16", "--seeds", "0,1", "--steps", "150",
                            "--probe-every", "0", "--eval-every", "0"])  # fmt: skip
gap = run.steps.pivot_table(index="step", columns="policy", values="gap", observed=True)
apart = (gap["pure-bf16"] - gap["pure-bf16-sr"]).rolling(20).mean()
assert apart.iloc[-10:].mean() > apart.iloc[20:40].mean()

# %% [markdown]
# **3.** Ten times the rate makes updates ten times as large: fewer fall below half a spacing.

# %%
fast = data("lost-updates-fast", ["train", "--policy", "pure-bf16", "--seeds", "0", "--lr", "1e-2", "--steps", "150", "--probe-every", "0",
                                  "--eval-every", "0"])  # fmt: skip
lost = [r.steps[(r.steps.policy == "pure-bf16") & (r.steps.seed == 0)].lost_updates.mean() for r in (run, fast)]
print(lost)
assert lost[1] < lost[0]
