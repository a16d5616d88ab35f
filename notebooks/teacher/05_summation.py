# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 5: summation

# %%
import numpy as np
from common import rows

# %% [markdown]
# **1.** Near a sum of S, neighbouring bf16 numbers are 2^-7 S apart (within a factor of two). An addend of 1/4 is lost
# from about S = 64 on. The sum is that large from k = 256 on. Larger products are still added, so the sum grows slowly
# for a while.

# %%
sums = rows("positive", ["gemm", "-d", "positive", "-f", "bf16", "--sweep", "k=16..16384", "-m", "4", "-n", "4", "-M",
                         "fp32.chain,fp32.pairwise,fp32.kahan,bf16.chain,sm80.mma.bf16", "-q"])  # fmt: skip
error = sums.pivot(index="k", columns="machine", values="max_rel")
assert error["bf16.chain"][128] < 0.1 < error["bf16.chain"][1024]

# %% [markdown]
# **2.** Pairwise summation is accurate enough at every k that can be tried here. Its worst-case error is (1 + log2 k)
# u, which is 1e-6 at k = 2^16. The measured errors are far smaller.

# %%
assert (error["fp32.pairwise"] < 1e-6).all() and (1 + 16) * 2.0**-24 < 1.1e-6

# %% [markdown]
# **3.** The error follows the square root of k as long as the terms are larger than d, the spacing of bf16 numbers near
# the sum. The errors of the additions are independent, and their size is proportional to the sum, which grows like k.
# From a few hundred terms on, the terms are smaller than d, and the error does not follow a power of k. An addition of
# x then moves the sum by a whole spacing d with the probability x / d, so its variance is x d instead of d^2. All
# additions together leave a relative error of about sqrt(u) = 0.06, for a sum of any length. With rounding to nearest,
# the sum would stop growing at this point.

# %%
made = rows("stochastic", ["gemm", "-d", "positive", "-f", "bf16", "--sweep", "k=16..16384", "-m", "12", "-n", "12", "-M",
                           "chain:bf16:stochastic", "-q"])  # fmt: skip
short, long = made[made.k <= 256], made[made.k >= 4096]
slope = np.polyfit(np.log(short.k), np.log(short.rms_rel), 1)[0]
print(slope, dict(zip(long.k, long.rms_rel, strict=True)))
assert 0.3 < slope < 0.7 and long.rms_rel.between(0.03, 0.08).all()
