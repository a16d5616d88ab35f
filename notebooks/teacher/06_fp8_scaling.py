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
# **1.** As DeepGEMM makes it, a block's scale is 448 / amax of the block, an arbitrary number. Where the tensor's scale happens to put
# all values onto the grid exactly, such as small integers with the largest 448, a block whose largest value is 7 has the scale 64, also
# exact; one whose largest is 11 has 448 / 11, and its values fall between the grid's. Powers of two as scales, which are what
# `me.scale` takes for blocks if it is not told, move no value off the grid: with them blocks lose nothing here.

# %%
x = np.tile(np.array([1, 2, 3, 5, 6, 7, 9, 11], np.float32), (128, 32))
x[0, 0] = 448
tensor, power = (me.scale(x, g, "e4m3fn") for g in ("tensor", "1x128"))
block = me.scale(x, "1x128", "e4m3fn", rule="deepgemm")
assert np.array_equal(tensor.decoded, x) and not np.array_equal(block.decoded, x) and np.array_equal(power.decoded, x)

# %% [markdown]
# **2.** The relative error is spread evenly over half a quantum, whose size in units of the value goes from 2u down to u over a
# binade. Its mean square, weighted by the squares of values, is about u^2/3 * 1/2.3 for values spread over a binade; with u = 2^-4
# about 31 dB. A factor does not change relative errors, while nothing leaves the format.

# %%
y = np.random.default_rng(0).standard_normal((128, 256)).astype(np.float32)
made = [sqnr(y, me.scale(y, g, "e4m3fn").decoded) for g in ("tensor", "row", "1x128")]
print(made)
assert all(30 < one < 33 for one in made)

# %% [markdown]
# **3.** The product's operands have the same quality as here, whichever scale: 8 bits have room for these outliers.

# %%
made = rows("outliers", ["gemm", "-d", "outliers", "-f", "e4m3fn", "--scaling", "none,tensor,row", "-k", "1024", "-M", "fp32.chain", "-q"])
print(made[["scaling", "operand_sqnr_db"]])
assert made.operand_sqnr_db.max() - made.operand_sqnr_db.min() < 3
