# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 6: fp8 scaling

# %%
import macheps as me
import numpy as np
from common import rows


def sqnr(values, made):
    values, made = values.astype(np.float64), made.astype(np.float64)
    return 10 * np.log10(np.sum(values**2) / np.sum((made - values) ** 2))


# %% [markdown]
# **1.** With DeepGEMM's rule, the scale of a block is 448 / amax of the block, which is rarely a power of two. Take a
# tensor of small integers with the maximum 448. Its scale for the whole tensor is 1, so every value is exact. A block
# whose largest value is 7 has the scale 64, which keeps its values exact as well. A block whose largest value is 11 has
# the scale 448 / 11, and its scaled values are between the numbers of e4m3fn. Scales that are powers of two, the
# default of `me.scale` for blocks, keep every value exact. With such scales, blocks lose nothing here.

# %%
x = np.tile(np.array([1, 2, 3, 5, 6, 7, 9, 11], np.float32), (128, 32))
x[0, 0] = 448
tensor, power = (me.scale(x, g, "e4m3fn") for g in ("tensor", "1x128"))
block = me.scale(x, "1x128", "e4m3fn", rule="deepgemm")
assert np.array_equal(tensor.decoded, x) and not np.array_equal(block.decoded, x) and np.array_equal(power.decoded, x)

# %% [markdown]
# **2.** The rounding error is distributed uniformly within half a spacing. Relative to the value, the spacing falls
# from 2u to u over a binade. For values spread over a binade, the mean square error divided by the mean square value is
# about u^2/3 * 1/2.3. With u = 2^-4, this is an SQNR of about 32 dB. A scale does not change relative errors as long as
# no value leaves the range of the format.

# %%
y = np.random.default_rng(0).standard_normal((128, 256)).astype(np.float32)
made = [sqnr(y, me.scale(y, g, "e4m3fn").decoded) for g in ("tensor", "row", "1x128")]
print(made)
assert all(30 < one < 33 for one in made)

# %% [markdown]
# **3.** With every kind of scale, the operands of the product have about the same SQNR as the values in this lesson.
# The range of an 8-bit format is wide enough for these outliers.

# %%
made = rows("outliers", ["gemm", "-d", "outliers", "-f", "e4m3fn", "--scaling", "none,tensor,row", "-k", "1024", "-M", "fp32.chain", "-q"])
print(made[["scaling", "operand_sqnr_db"]])
assert made.operand_sqnr_db.max() - made.operand_sqnr_db.min() < 3
