# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 8: a kernel check

# %%
import macheps as me
import numpy as np

inputs = me.make_inputs("gemm", "normal", shape=(96, 80, 512), a_format="bf16", b_format="bf16")["normal"]
a, b = (me.encode(inputs[name], "bf16") for name in ("a", "b"))
exact_sums = me.matmul(inputs["a"], inputs["b"], machine="sm80.mma.bf16", format_a="bf16")


def judge(out, machine="sm80.mma.bf16"):
    return me.check(me.encode(out, "bf16"), a, b, a_format="bf16", b_format="bf16", out_format="bf16", machine=machine)


# %% [markdown]
# **1.** All three factors are noticed by the test of single elements (KC020: no kernel that the declaration permits can
# make an error this large). The factor 1.01 changes all eighty codes of the row, so the tests of all errors together
# (KC030, KC032) also notice it. The factor 1.0001 changes six codes, one of them to a value that no order of summation
# gives. The factor 1.00001 changes one code, to a legal value, and passes. Such small factors are noticed only if the
# machine is declared. With `any`, which permits all orders of fp32 sums, 1.0001 passes.

# %%
def scaled_row(factor):
    out = exact_sums.copy()
    out[7] *= np.float32(factor)
    return out


found = {}
for factor in (1.01, 1.001, 1.0001, 1.00001):
    found[factor] = judge(me.round(scaled_row(factor), "bf16"))
    print(factor, found[factor].outcome, [one["code"] for one in found[factor].reasons])
assert [v.outcome for v in found.values()] == ["fail", "fail", "fail", "pass"]
assert judge(me.round(scaled_row(1.0001), "bf16"), machine="any").outcome == "pass"

# %% [markdown]
# **2.** Yes, it passes. With `any`, a sum of 512 terms may have a relative error of up to 512 u. The truncation of the
# tensor core causes a smaller error on these data, and the rounding to bf16 hides most of it.

# %%
assert judge(me.round(exact_sums, "bf16"), machine="any").outcome in ("pass", "weak")

# %% [markdown]
# **3.** The recipe `ties` reveals it. Its sums are exact and halfway between two bf16 numbers.

# %%
made = me.make_inputs("gemm", "ties", a_format="bf16", b_format="bf16", out_format="bf16")
x = next(iter(made.values()))
sums = me.matmul(x["a"], x["b"], machine="fp32.chain", format_a="bf16")
codes = {name: me.encode(x[name], "bf16") for name in ("a", "b")}
verdicts = [
    me.check(me.encode(sums, "bf16", mode=mode), codes["a"], codes["b"], a_format="bf16", b_format="bf16", out_format="bf16").outcome
    for mode in ("nearest_even", "nearest_away")
]
print(verdicts)
assert verdicts[0] != "fail" and verdicts[1] == "fail"
