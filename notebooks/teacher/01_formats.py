# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 1: which numbers exist?

# %%
import macheps as me
import numpy as np

# %% [markdown]
# **1.** For normal numbers, the largest relative error is the unit roundoff u. For smaller numbers x, it is half the
# smallest subnormal divided by x. Half the smallest subnormal of fp16 is 2^-25, and u of bf16 is 2^-8. The two errors
# are equal at x = 2^-17 = 7.6e-6. From 2^-17 up to 65504, the largest number of fp16, every bf16 number is also an fp16
# number. Therefore fp16 is at least as accurate as bf16 for every x in this range. This remains true up to just below
# 65520, because fp16 rounds such x to 65504, and bf16 rounds them to 65536, which is farther away. From 65520 on, fp16
# overflows.

# %%
for x in (np.geomspace(2.0**-17, 65504, 1_000_001), np.linspace(65504, np.nextafter(65520, 0), 100_001)):
    assert (np.abs(me.round(x, "fp16") - x) <= np.abs(me.round(x, "bf16") - x)).all()
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
# a bias of at most 5 instead of 7. With a bias of 5, the codes of e4m3fn would reach 448 * 2^2 = 1792, so such a
# format is possible. But no 8-bit format that `macheps formats` lists has 3 fraction bits and such a bias.

# %%
assert not [f.format for f in me.formats() if f.bits == 8 and f.max > 1000 and f.unit_roundoff < 2.0**-3]
