# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 9: refinement

# %%
import macheps as me
import pandas as pd
from common import DATA, rows

systems = rows("refinement", ["solve", "-n", "40", "--matrix", "randsvd", "--sweep", "kappa=1e1..1e9", "--factor",
                              "e4m3fn,bf16,fp16,fp32", "--method", "ir,gmres-ir", "-q"])  # fmt: skip

# %% [markdown]
# **1.** A share of 0.07 at 1e3 would become 0.7 at 1e4 if it grew like kappa: some 90 steps. It takes 19 until the residual stops it: in
# this family of matrices kappa u is far too pessimistic, since only few directions are as badly conditioned as kappa says.

# %%
plain = systems[(systems.method == "ir") & (systems.factor == "fp16")].set_index("kappa_2")
assert plain.steps[1e3] == 10 and plain.steps[1e4] == 19

# %% [markdown]
# **2.** From 1e6 on, 55 in three steps. Each step starts GMRES anew, and ends after as many inner steps as it needs for four digits of the
# correction: the sum may exceed the number of rows, one step cannot. At 1e9 the 112 are 37 a step, which is nearly all 40: the factors
# help no more.

# %%
inner = systems[(systems.method == "gmres-ir") & (systems.factor == "fp16")].set_index("kappa_2").inner
assert inner[1e5] == 33 and inner[1e6] == 55 and inner[1e9] == 112

# %% [markdown]
# **3.** They wander around 3e-15 and never get to 1e-16: the residual's own rounding, u cond(A, x), is what no step can see. The backward
# error is at fp64's roundoff all the same: such an x solves a system that nobody could tell from this one.

# %%
rows("refinement_fp64", ["solve", "-n", "40", "--matrix", "randsvd:1e3", "--factor", "fp16,fp32", "--method", "ir", "--residual", "fp64",
                         "--stop", "oracle", "--steps", str(DATA / "refinement_fp64_steps.csv"), "-q"])  # fmt: skip
steps = pd.read_csv(DATA / "refinement_fp64_steps.csv")
late = steps[steps.step >= 20]
assert 1e-15 < late.fe.min() and late.fe.max() < 1e-14 and (late.nbe < me.finfo("fp64").unit_roundoff).all()
