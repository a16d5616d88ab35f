# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 4: accumulators

# %%
import macheps as me
import numpy as np
from common import rows

# %% [markdown]
# **1.** A product p is cut off if it is more than 13 binary places below the sum. This happens from a sum of 2^14 p on.
# Sums of products of 2^-8 stall at 64, sums of products of 2^-4 at 1024, and sums of products of 1 at 16384.

# %%
for factor in (0.0625, 0.25, 1.0):
    a = np.full((1, 1 << 17), factor, np.float32)
    assert me.matmul(a, a.T, machine="sm90.wgmma.fp8", format_a="e4m3fn")[0, 0] == 2**14 * factor**2

# %% [markdown]
# **2.** Yes, the order matters. If small terms come first, they are added while the sum is small. If large terms come
# first, the small terms are cut off.

# %%
x = me.round(np.abs(np.random.default_rng(1).standard_normal(1 << 15)).astype(np.float32) ** 3, "e4m3fn")
one = np.ones((1 << 15, 1), np.float32)
up, down = (float(me.matmul(np.sort(x)[::s][None], one, machine="sm90.wgmma.fp8", format_a="e4m3fn")[0, 0]) for s in (1, -1))
exact = float(x.astype(np.float64).sum())
print(up / exact, down / exact)
assert down < up <= exact

# %% [markdown]
# **3.** With promoteN, a partial sum of N equal products p reaches N p. It is exact if N is at most 2^14 = 16384.
# Therefore, promote16384 is the largest power of two that still gives the right result here. The fp32 register then
# adds multiples of 2^-8, which is exact.

# %%
machines = ",".join(f"sm90.wgmma.fp8+promote{n}" for n in (4096, 8192, 16384, 32768))
made = rows("promotions", ["gemm", "-d", "equal", "--scale", "0.0625", "-k", "65536", "-m", "1", "-n", "1", "-f", "e4m3fn", "-M", machines, "-q"])
error = dict(zip(made.machine, made.max_rel, strict=True))
print(error)
good = [int(name.rpartition("promote")[2]) for name, value in error.items() if value < 2.0**-8]
assert max(good) == 16384
