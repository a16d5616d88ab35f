# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 9. Can fp16 factors give a solution to fp64 accuracy?
#
# Factorisation is the expensive part of solving A x = b, and hardware for narrow formats does it many times faster than
# hardware for fp64. Refinement then repairs the solution: x is kept in fp64, the residual b - A x is computed in a
# precision higher than fp64, and the fp16 factors only give the direction of the correction. Each step should multiply
# the error by about kappa u, where kappa is the condition number of the matrix and u the unit roundoff of the factors.
# We solve a family of systems of 40 rows with kappa from 1e1 to 1e9 (in the 2-norm).
#
# **Write down before you go on:** at kappa = 1e3, does refinement with bf16 factors (u = 2^-8) end with 2, 8 or 16
# correct digits? At which kappa does fp16 (u = 2^-11) fail? Can factors in an fp8 format solve anything?

# %%
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("macheps") is None:  # a local wheel, else the source tree, else the published wheel
    tree = Path("..").resolve()
    wheels = [*sorted(Path(".").resolve().glob("macheps-*.whl")), *sorted(tree.glob("build/wheels/macheps-*.whl"))]
    from_tree = [tree] if (tree / "pyproject.toml").exists() else []
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", f"{[*wheels, *from_tree, 'macheps'][0]}[notebooks]"])

# %%
import macheps as me
import pandas as pd
from common import DATA, plt, rows, style

systems = rows("refinement", ["solve", "-n", "40", "--matrix", "randsvd", "--sweep", "kappa=1e1..1e9", "--factor",
                              "e4m3fn,bf16,fp16,fp32", "--method", "ir,gmres-ir", "-q"])  # fmt: skip
systems[systems.kappa_2 == 1e3][["factor", "method", "verdict", "steps", "inner", "fe", "nbe"]]

# %%
one = rows("refinement_1e3", ["solve", "-n", "40", "--matrix", "randsvd:1e3", "--factor", "bf16,fp16,fp32", "--method", "ir",
                              "--stop", "oracle", "--steps", str(DATA / "refinement_steps.csv"), "-q"])  # fmt: skip
steps = pd.read_csv(DATA / "refinement_steps.csv")
figure, axes = plt.subplots()
for name, mine in steps.groupby("factor", sort=False):
    axes.plot(mine.step, mine.fe, marker="o", ms=3, label=f"{name}, forward", **style(name))
    axes.plot(mine.step, mine.nbe, lw=0.8, color=style(name)["color"], ls=":", label=f"{name}, backward")
axes.axhline(me.finfo("fp64").unit_roundoff, color="#808a99", lw=0.8)
axes.set(yscale="log", xlabel="step", ylabel="error")
axes.set_title("Each step reduces the error by the same factor, down to the roundoff of fp64 (grey)")
axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %%
figure, both = plt.subplots(1, 2, sharey=True)
verdicts = ["converged", *sorted(set(systems.verdict) - {"converged"})]  # docs/columns.md explains each verdict
colours = dict(zip(verdicts, ["#009e73", "#d55e00", "#b8529a", "#e69f00", "#444444", "#56b4e9"]))
signs = dict(zip(verdicts, "ox^s+d"))
formats = ["e4m3fn", "bf16", "fp16", "fp32"]
for axes, method in zip(both, ["ir", "gmres-ir"]):
    for verdict, mine in systems[systems.method == method].groupby("verdict"):
        axes.scatter(mine.kappa, [formats.index(name) for name in mine.factor], color=colours[verdict], marker=signs[verdict], label=verdict)
    axes.plot([1 / me.finfo(name).unit_roundoff for name in formats], range(4), color="#808a99", lw=0.8, ls="--", label="kappa u = 1")
    axes.set(xscale="log", xlabel="condition number (row sums)")
    axes.set_yticks(range(4), formats)
both[0].set_title("Plain (ir): each format up to its own kappa")
both[1].set_title("With GMRES (gmres-ir): all systems")
named = {label: mark for axes in both for mark, label in zip(*axes.get_legend_handles_labels())}
both[1].legend(named.values(), named.keys(), fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# ## What was seen

# %%
plain = systems[systems.method == "ir"].pivot(index="kappa_2", columns="factor", values="verdict")
gmres = systems[systems.method == "gmres-ir"].pivot(index="kappa_2", columns="factor", values="inner")
last = steps.groupby("factor").last()
share = {name: (mine.fe.iloc[-1] / mine.fe.iloc[0]) ** (1 / mine.step.iloc[-1]) for name, mine in steps.groupby("factor")}
of_rule = systems.kappa * systems.factor.map({name: me.finfo(name).unit_roundoff for name in formats})  # kappa u
passed = of_rule[(systems.method == "ir") & (systems.verdict == "converged")].groupby(systems.factor).max()
print(last[["step", "fe", "nbe"]].assign(share=pd.Series(share), largest_kappa_u=passed).to_string(float_format="{:.2g}".format))
assert (last.fe < 2 * me.finfo("fp64").unit_roundoff).all() and last.step.to_dict() == {"bf16": 27, "fp16": 13, "fp32": 2}
assert 0.27 < share["bf16"] < 0.29 and 0.065 < share["fp16"] < 0.075
assert (plain.fp16[:1e4] == "converged").all() and (plain.fp16[1e5:] != "converged").all()
assert (plain.bf16[:1e3] == "converged").all() and (plain.bf16[1e4:] != "converged").all()
assert (plain.e4m3fn != "converged").all() and (plain.fp32 == "converged").all()
assert (systems[(systems.method == "ir") & (of_rule < 1)].verdict == "converged").all() and 15 < passed.min() < 25
assert (systems[systems.method == "gmres-ir"].verdict == "converged").all() and gmres.e4m3fn[1e3] == 113

# %% [markdown]
# - Yes. At kappa = 1e3, all three formats end with an error below 2^-52, after 27, 13 and 2 steps. Each step multiplies
#   the error by 0.28 with bf16 and by 0.07 with fp16. The factors decide the speed of convergence. The precision of the
#   residual decides the final accuracy.
# - Plain refinement fails from kappa = 1e4 on with bf16, and from 1e5 on with fp16. The rule kappa u < 1 is
#   conservative for these formats: the systems converge up to a kappa u of about 20. In this rule, kappa is the
#   condition number in the norm of row sums, which is four to ten times as large as in the 2-norm. With fp8 factors,
#   refinement does not converge even at kappa = 10. In the norm of row sums, this condition number is 96, so kappa u is
#   6.
# - GMRES, preconditioned with the same factors, solves all of these systems, even with e4m3fn. The price is inner
#   steps: e4m3fn needs 113 in total at kappa = 1e3. If a single solve took 40 inner steps, one for each row, the
#   factors would not help at all.
#
# ## Exercises
# 1. Use the picture for kappa = 1e3. How many steps will fp16 take at kappa = 1e4, if each step multiplies the error by
#    a factor proportional to kappa u? Predict it from the factor above, then look in `systems`.
# 2. From which kappa on does GMRES with fp16 factors need more than 40 inner steps, the number of rows of the matrix?
#    Why is that not a failure?
# 3. *(a new command)* `--residual fp64` computes the residual in fp64, with no more digits than x has. At which level
#    do the errors at kappa = 1e3 then end, and why is the backward error not affected?
