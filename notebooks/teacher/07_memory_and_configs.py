# SPDX-License-Identifier: Apache-2.0

# %% [markdown]
# # Solutions to 7: memory and configs

# %%
import json
import subprocess
import tempfile
from pathlib import Path

import macheps as me

config = {
    "train_micro_batch_size_per_gpu": 4,
    "fp16": {"enabled": True, "initial_scale_power": 12},
    "zero_optimization": {"stage": 1},
    "gradient_cliping": 0.5,
}

# %% [markdown]
# **1.** Set `"enabled": false` under `fp16`. DeepSpeed then trains in fp32. With bf16 instead of fp16, loss scaling is
# not needed either, because bf16 has the range of fp32. However, the policy then still has a loss scaler. Its scale is
# always 1, and it skips steps whose gradients are not finite.

# %%
scalers = {name: me.policy({**config, **change}).loss_scaler for name, change in {
    "fp16": {}, "off": {"fp16": {"enabled": False}}, "bf16": {"fp16": {"enabled": False}, "bf16": {"enabled": True}},
}.items()}  # fmt: skip
print(scalers)
assert scalers["off"] == "none" and scalers["bf16"] == "static 1, skip true" and "from 4096" in scalers["fp16"]

# %% [markdown]
# **2.** A finding with the code I reports a known key that does not affect any format.

# %%
print([one["key"] for one in me.policy(config).findings if one["code"] == "I"])

# %% [markdown]
# **3.** `macheps policy diff` prints each difference. It exits with 1 if the two policies differ.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "ds.json"
    path.write_text(json.dumps(config))
    made = subprocess.run([me.find_program(), "policy", "diff", "amp-fp16", str(path)], capture_output=True, text=True)
print(made.stdout)
assert made.returncode == 1 and "loss_scaler" in made.stdout
