# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 5: summation

# %%
import numpy as np
from common import rows

# %% [markdown]
# **1.** The chain stops at a sum of 256, which the first output reaches between k = 1200 and k = 1400. From S = 64 to
# S = 128, neighbouring bf16 numbers are d = 1/2 apart. Rounding to nearest then loses every product below d / 2 = 1/4.
# The sum is that large from about k = 256 on. But a product above d / 2 is rounded up to d, and this compensates for
# most of the losses. The mean step is about d P(product > d / 2) = 0.20 plus a little from products above 3/4: 0.22 in
# total instead of 1/4. From S = 128 to S = 256, d is 1, and the mean step is P(product > 1/2) = 0.15. From S = 256 on,
# d is 2. All products are at most d / 2 = 1, so every product is lost. The sum therefore stops at about
# k = 64 / 0.25 + 64 / 0.22 + 128 / 0.15 = 1400.

# %%
sums = rows("positive", ["gemm", "-d", "positive", "-f", "bf16", "--sweep", "k=16..16384", "-m", "4", "-n", "4", "-M",
                         "fp32.chain,fp32.pairwise,fp32.kahan,bf16.chain,sm80.mma.bf16", "-q"])  # fmt: skip
error = sums.pivot(index="k", columns="machine", values="max_rel")
assert error["bf16.chain"][128] < 0.1 < error["bf16.chain"][1024]
stall = rows("stall", ["gemm", "-d", "positive", "-f", "bf16", "--sweep", "k=256,512,1024,1200,1400,2048", "-m", "4", "-n", "4",
                       "-M", "bf16.chain", "-q"])  # fmt: skip
first = stall.set_index("k")["first"]
print(first.to_dict())
assert 60 < first[256] < 64 and first[1200] < 256 and (first[[1400, 2048]] == 256).all()
above = {t: 1 - t + t * np.log(t) for t in (1 / 4, 1 / 2, 3 / 4)}  # the probability that a product exceeds t
steps = (above[1 / 4] + above[3 / 4]) / 2, above[1 / 2]  # the mean step from 64 to 128, and from 128 to 256
assert np.round(steps, 2).tolist() == [0.22, 0.15] and 1200 < 64 / 0.25 + 64 / steps[0] + 128 / steps[1] < 1400

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
# additions together leave a relative error of about sqrt(u) = 0.06, which does not grow with the length of the sum. It
# is below sqrt(k) u, by a growing factor. With rounding to nearest, the sum would stop growing at this point.

# %%
made = rows("stochastic", ["gemm", "-d", "positive", "-f", "bf16", "--sweep", "k=16..16384", "-m", "12", "-n", "12", "-M",
                           "chain:bf16:stochastic", "-q"])  # fmt: skip
short, long = made[made.k <= 256], made[made.k >= 4096]
slope = np.polyfit(np.log(short.k), np.log(short.rms_rel), 1)[0]
print(slope, dict(zip(long.k, long.rms_rel, strict=True)))
assert 0.3 < slope < 0.7 and long.rms_rel.between(0.03, 0.08).all()
assert (made.rms_rel < np.sqrt(made.k) * 2.0**-8).all()
