# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 1: which numbers exist?

# %%
import macheps as me
import numpy as np

# %% [markdown]
# **1.** Worst errors of a binade: u where the format is normal, and half the least subnormal over x below. fp16's half quantum is
# 2^-25, bf16's u is 2^-8: equal at x = 2^-17, 7.6e-6. From there up to fp16's largest number, 65504, fp16 is at least as good in
# the worst case; beyond 65520 it overflows.

# %%
for low in (2.0**-17, 2.0**-16, 1.0, 2.0**14):
    x = np.linspace(low, 2 * low, 100_001)[:-1]
    worst = {name: float(np.max(np.abs(me.round(x, name) - x) / x)) for name in ("fp16", "bf16")}
    assert worst["fp16"] <= worst["bf16"], (low, worst)
x = np.linspace(2.0**-18, 2.0**-17, 100_001)[:-1]
assert np.max(np.abs(me.round(x, "fp16") - x) / x) > np.max(np.abs(me.round(x, "bf16") - x) / x)
assert np.isfinite(me.round(65519.9, "fp16")) and np.isinf(me.round(65520.0, "fp16"))

# %% [markdown]
# **2.** Seven positive subnormal numbers, 2^-9 to 7 * 2^-9; three more exponents (2^-9, 2^-8, 2^-7) would make them normal, so one
# more exponent bit.

# %%
codes = me.decode(np.arange(128, dtype=np.uint8), "e4m3fn")
assert int(((codes > 0) & (codes < me.finfo("e4m3fn").smallest_normal)).sum()) == 7

# %% [markdown]
# **3.** u below 2^-3 needs a precision of 4 at least: 3 fraction bits, so 4 exponent bits. With IEEE's infinities the largest number
# is then 240; e4m3fn's 448 uses all but one code of the top exponent. A maximum above 1000 needs a bias below 7 and other
# specials: none of the named formats has it.

# %%
assert not [f.format for f in me.formats() if f.bits == 8 and f.max > 1000 and f.unit_roundoff < 2.0**-3]
