# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 1: which numbers exist?

# %%
import macheps as me
import numpy as np

# %% [markdown]
# **1.** For normal numbers, the largest relative error is the unit roundoff u. For smaller numbers x, it is half the
# smallest subnormal divided by x. Half the smallest subnormal of fp16 is 2^-25, and u of bf16 is 2^-8. The two errors
# are equal at x = 2^-17 = 7.6e-6. From this x up to 65504, the largest number of fp16, the worst case of fp16 is never
# larger than that of bf16. From 65520 on, fp16 overflows.

# %%
for low in (2.0**-17, 2.0**-16, 1.0, 2.0**14):
    x = np.linspace(low, 2 * low, 100_001)[:-1]
    worst = {name: float(np.max(np.abs(me.round(x, name) - x) / x)) for name in ("fp16", "bf16")}
    assert worst["fp16"] <= worst["bf16"], (low, worst)
x = np.linspace(2.0**-18, 2.0**-17, 100_001)[:-1]
assert np.max(np.abs(me.round(x, "fp16") - x) / x) > np.max(np.abs(me.round(x, "bf16") - x) / x)
assert np.isfinite(me.round(65519.9, "fp16")) and np.isinf(me.round(65520.0, "fp16"))

# %% [markdown]
# **2.** There are seven positive subnormal numbers, 2^-9 to 7 * 2^-9. Three more exponents (2^-9, 2^-8, 2^-7) would
# make all of them normal. This needs one more exponent bit, so the format would have 9 bits.

# %%
codes = me.decode(np.arange(128, dtype=np.uint8), "e4m3fn")
assert int(((codes > 0) & (codes < me.finfo("e4m3fn").smallest_normal)).sum()) == 7

# %% [markdown]
# **3.** A unit roundoff below 2^-3 needs a precision of at least 4 bits, and thus 3 fraction bits. With the sign, this
# leaves 4 exponent bits. With infinities and the exponent bias of IEEE 754, the largest number is then 240. e4m3fn
# reaches 448 because it uses all codes of the top exponent except one. With 4 exponent bits, a maximum above 1000 needs
# a bias of at most 5 instead of 7. No named 8-bit format with 3 fraction bits has such a bias.

# %%
assert not [f.format for f in me.formats() if f.bits == 8 and f.max > 1000 and f.unit_roundoff < 2.0**-3]
