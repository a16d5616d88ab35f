# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # 7. What does my DeepSpeed file really do?
#
# A config of a few lines decides the formats of weights, gradients, moments and sums. A framework silently ignores keys
# that it does not know. People say that "mixed precision halves the memory". We read such a config and count bytes.
#
# **Write down before you go on:** AdamW keeps weight, gradient and two moments, 16 bytes per parameter in fp32. How
# many bytes per parameter does bf16 autocast (`amp-bf16`) take? And pure bf16?

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
import json

import macheps as me
import pandas as pd
from common import plt, style

config = {
    "train_micro_batch_size_per_gpu": 4,
    "fp16": {"enabled": True, "initial_scale_power": 12},
    "zero_optimization": {"stage": 1},
    "gradient_cliping": 0.5,
}
policy = me.policy(config)
pd.DataFrame(policy.findings)[["code", "key", "message", "instead"]]

# %% [markdown]
# Each line is something that the owner of this file should know. One key is misspelled.
# In the shell, `macheps policy import ds_config.json` prints the same findings for a file.

# %%
table = policy.explain().to_pandas()
table[~table.is_default][["site", "slot", "cast", "rule"]].head(12)

# %%
names = ["fp32", "amp-bf16", "amp-fp16", "pure-bf16"]
memory = pd.DataFrame({name: me.policy(name).explain().memory for name in names}).T
parts = ["parameters", "gradients", "master", "optimizer"]
count = memory.parameters["fp32"] / 4
figure, axes = plt.subplots(1, 2)
bottom = pd.Series(0.0, index=names)
for part in parts:
    axes[0].bar(names, memory[part] / count, bottom=bottom, label=part, color=style(part)["color"])
    bottom += memory[part] / count
axes[0].set(ylabel="bytes per parameter", ylim=(0, 22))
axes[0].legend(ncols=2, fontsize=8, loc="upper center")
axes[0].set_title("State: autocast keeps all of it in fp32")
axes[1].bar(names, memory.activations / memory.activations["fp32"], color=[style(name)["color"] for name in names])
axes[1].set(ylabel="share of fp32", ylim=(0, 1.1))
axes[1].set_title("Activations: autocast saves a third")
for one in axes:
    one.tick_params(axis="x", labelsize=8)
plt.show()

# %% [markdown]
# ## What was seen

# %%
state = memory[parts].sum(axis=1) / memory[parts].sum(axis=1)["fp32"]
activations = memory.activations / memory.activations["fp32"]
print(state.round(2).to_dict(), activations.round(2).to_dict())
assert state["amp-bf16"] == 1.0 and state["pure-bf16"] == 0.5
assert 0.6 < activations["amp-bf16"] < 0.75 and 0.45 < activations["pure-bf16"] < 0.6
assert policy.framework == "deepspeed"
unknown = [one for one in policy.findings if one["code"] == "U"]
assert [one["key"] for one in unknown] == ["gradient_cliping"], policy.findings
assert "from 4096" in policy.loss_scaler and "after 1000 clean steps" in policy.loss_scaler
plan = json.loads(me.program(["train", "--policy", "amp-bf16", "--dry-run", "--json", "--steps", "10"]))
bf16 = next(one for one in plan["policies"] if one["policy"] == "amp-bf16")
assert sum(bf16["framework_bytes"].values() if isinstance(bf16["framework_bytes"], dict) else [bf16["framework_bytes"]]) > 0

# %% [markdown]
# - Autocast does not halve the memory. It keeps weights, gradients and moments in fp32 (1.00 times the state of fp32)
#   and saves a third of the activations. Pure bf16 halves the state, and about halves the activations.
# - The framework silently ignores the misspelled `gradient_cliping` and clips at its default. The importer reports the
#   key.
# - The loss scale begins at 2^12, as the file says, and doubles after 1000 clean steps, a default that the file does
#   not mention.
#
# ## Exercises
# 1. Change one key of `config` so that the policy has no loss scaler.
# 2. Which keys of your own framework's config do not affect any format? Pass the config to `me.policy` and read the
#    findings with the code I.
# 3. *(a new command)* Save `config` as ds.json, run `macheps policy diff amp-fp16 ds.json`, and explain each line.
