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
# **1.** If the factor of 0.07 at kappa = 1e3 grew like kappa, it would be 0.7 at kappa = 1e4. fp16 would then take
# about 90 steps. In fact, the refinement takes 19 steps until the residual is small enough to stop. For this family of
# matrices, the estimate kappa u is far too pessimistic, because only a few directions are as badly conditioned as kappa
# says.

# %%
plain = systems[(systems.method == "ir") & (systems.factor == "fp16")].set_index("kappa_2")
assert plain.steps[1e3] == 10 and plain.steps[1e4] == 19

# %% [markdown]
# **2.** From kappa = 1e6 on. There, GMRES takes 55 inner steps in three refinement steps. Each refinement step starts a
# new GMRES solve, which ends when the correction is accurate to four digits. The total number of inner steps may exceed
# the number of rows, but the number in one refinement step cannot. At kappa = 1e9, the 112 inner steps are 37 per
# refinement step, almost 40, so the factors hardly help.

# %%
inner = systems[(systems.method == "gmres-ir") & (systems.factor == "fp16")].set_index("kappa_2").inner
assert inner[1e5] == 33 and inner[1e6] == 55 and inner[1e9] == 112

# %% [markdown]
# **3.** The errors fluctuate around 3e-15 and never reach 1e-16. The residual itself has rounding errors, which no
# refinement step can correct. They limit the error to about u cond(A, x). The backward error is still below the unit
# roundoff of fp64, because x is the exact solution of a system that differs from the given system only by rounding
# errors.

# %%
rows("refinement_fp64", ["solve", "-n", "40", "--matrix", "randsvd:1e3", "--factor", "fp16,fp32", "--method", "ir", "--residual", "fp64",
                         "--stop", "oracle", "--steps", str(DATA / "refinement_fp64_steps.csv"), "-q"])  # fmt: skip
steps = pd.read_csv(DATA / "refinement_fp64_steps.csv")
late = steps[steps.step >= 20]
assert 1e-15 < late.fe.min() and late.fe.max() < 1e-14 and (late.nbe < me.finfo("fp64").unit_roundoff).all()
