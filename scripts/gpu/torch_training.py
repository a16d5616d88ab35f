#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains macheps' small models in PyTorch from the same weights and batches, and compares the losses with macheps'.

  scripts/gpu/torch_training.py --prepare build/quick/experiments/macheps   # where macheps is: fills carry-training
  scripts/gpu/torch_training.py --device cuda --out results                   # where the GPU is: writes results
  scripts/gpu/torch_training.py --judge carry-training results/training.csv   # anywhere: prints a table for each model

--prepare trains the policies in macheps. For each model it writes the rows (carry-training/MODEL/steps.csv) and the
inputs (carry-training/MODEL.safetensors: the initial weights and all batches of each seed). The second command reads
only the inputs, and writes results/training.csv.

The models are nanoGPT's (gpt2, explicit attention) and Hugging Face's Llama (eager attention). The settings come from
the manifest: AdamW, warm-up and cosine decay, clipping, and a factor on the loss (token_weight), by which the gradients
are divided before clipping. Each policy is trained twice: with the samples of a batch in the given order, and in
reverse order. In exact arithmetic both runs are equal, because only the order of summation differs. Their difference is
therefore the noise that any change of the order causes. The first seed is trained a third time, to show whether a run
repeats bit for bit.

Training needs torch and numpy; --prepare and --judge need neither.
"""
import argparse
import csv
import json
import math
import os
import subprocess
import sys
import time

POLICIES = {  # as macheps' presets of these names; fused AdamW computes in fp32 and rounds the values that it stores
    "fp32": {},
    "tf32": {"tf32": True},
    "amp-bf16": {"autocast": "bfloat16"},
    "amp-fp16": {"autocast": "float16", "scaler": {}},  # GradScaler's defaults
    "amp-fp16-busy": {"autocast": "float16", "scaler": {"init_scale": 2.0**36, "growth_interval": 20}},
    "fp16-noscale": {"autocast": "float16"},
    "pure-bf16": {"model": "bfloat16"},
    "pure-fp16": {"model": "float16", "single": True},  # AdamW with one kernel per operation, which rounds to fp16
}
MODELS = ("gpt2", "llama")
SEEDS = (0, 1, 2)
ORDERS = ("given", "reversed", "again")
COLUMNS = ("model", "policy", "seed", "order", "step", "loss", "loss_rounded", "grad_norm", "lr", "loss_scale", "skipped",
           "lost_updates", "zero_gradients")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", metavar="MACHEPS", help="path of macheps: train with it and export the inputs")
    parser.add_argument("--judge", nargs=2, metavar=("RUN_DIR", "CSV"),
                        help="compare the rows of macheps, from one run or a folder of runs, with those of PyTorch")
    parser.add_argument("--markdown", action="store_true", help="with --judge: print tables as in docs/evidence.md")
    parser.add_argument("--inputs", default="carry-training", help="folder of the .safetensors files")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--out", default="torch-training", help="folder of training.csv and runs.json")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--policies", default=",".join(POLICIES), help="with --prepare also policies such as h100-amp-bf16, which are judged "
                        "against PyTorch's policy without the prefix")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--steps", type=int, default=300, help="with --prepare: number of steps; in PyTorch: maximum number of steps")
    parser.add_argument("--jobs", type=int, default=0, help="number of processes; 0: one for each CPU, at most 8 (one process does not keep a GPU busy)")
    parser.add_argument("--seconds", type=float, default=100, help="do not start a run after this time; repeated runs come last")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


# --- macheps


def prepare(arguments):
    folder = arguments.inputs
    os.makedirs(folder, exist_ok=True)
    here = os.path.dirname(os.path.abspath(__file__))
    files = {"amp-fp16-busy": os.path.join(here, "amp-fp16-busy.toml")}
    policies = [files.get(name, name) for name in arguments.policies.split(",")]
    for model in arguments.models.split(","):
        command = [arguments.prepare, "train", "--model", model, "--size", "tiny", "--steps", str(arguments.steps), "--seeds",
                   arguments.seeds, "--policy", ",".join(policies), "--probe-every", "0", "--eval-every", "0",
                   "--eval-batches", "1", "--export-inputs", os.path.join(folder, model + ".safetensors"), "--out",
                   os.path.join(folder, model), "--force", "-q"]
        print("+ " + " ".join(command), flush=True)
        subprocess.run(command, check=True)
    return 0


def read_safetensors(path):
    """Returns the tensors of a safetensors file as NumPy arrays, and its metadata."""
    import numpy

    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        body = file.read()
    kinds = {"F32": numpy.float32, "I32": numpy.int32}
    metadata = header.pop("__metadata__", {})
    arrays = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        arrays[name] = numpy.frombuffer(body[first:last], dtype=kinds[entry["dtype"]]).reshape(entry["shape"])
    return arrays, metadata


def learning_rate(train, step):
    """Returns the learning rate of a step: linear warm-up, then half a cosine down to min_lr at the last step."""
    if step < train["warmup"]:
        return train["lr"] * (step + 1) / train["warmup"]
    if train["steps"] <= train["warmup"] + 1:
        return train["lr"]
    progress = (step - train["warmup"]) / (train["steps"] - 1 - train["warmup"])
    return train["min_lr"] + 0.5 * (train["lr"] - train["min_lr"]) * (1 + math.cos(math.pi * min(progress, 1.0)))


# --- the models in PyTorch. Their parameters have the same names as in macheps.

NORM_EPS = 1e-5  # for LayerNorm and RMSNorm


def make_model(torch, sizes):
    from torch import nn
    from torch.nn import functional

    width, heads, context, vocabulary = (sizes[name] for name in ("width", "heads", "context", "vocabulary"))
    head_width = width // heads
    if sizes["kv_heads"] not in (0, heads):
        raise ValueError("grouped queries are not implemented here")

    class Attention(nn.Module):
        """nanoGPT's CausalSelfAttention, without dropout."""

        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            mask = torch.tril(torch.ones(context, context)).view(1, 1, context, context) == 0
            self.register_buffer("mask", mask, persistent=False)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, heads, head_width).transpose(1, 2) for y in self.qkv(x).split(width, dim=2))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(head_width))
            att = functional.softmax(att.masked_fill(self.mask, float("-inf")), dim=-1)
            return self.proj((att @ v).transpose(1, 2).contiguous().view(b, t, c))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x):
            return self.down(functional.gelu(self.up(x), approximate=gelu))

    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)

        def forward(self, tokens):
            return self.token(tokens) + self.position(torch.arange(context, device=tokens.device))

    class RmsNorm(nn.Module):
        """LlamaRMSNorm of Hugging Face transformers."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            kind = x.dtype
            x = x.to(torch.float32)
            x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPS)
            return self.weight * x.to(kind)

    class Rotary(nn.Module):
        """LlamaRotaryEmbedding of Hugging Face transformers. Casting the model also casts inv_freq."""

        def __init__(self):
            super().__init__()
            exponent = torch.arange(0, head_width, 2, dtype=torch.float32) / head_width
            self.register_buffer("inv_freq", 1.0 / (sizes["rope_theta"] ** exponent), persistent=False)

        def forward(self, x):
            with torch.autocast(x.device.type, enabled=False):
                angles = torch.outer(torch.arange(context, device=x.device).float(), self.inv_freq.float())
                angles = torch.cat((angles, angles), dim=-1)
                return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def rotate_half(x):
        return torch.cat((-x[..., head_width // 2:], x[..., :head_width // 2]), dim=-1)

    class LlamaAttention(nn.Module):
        """LlamaAttention of Hugging Face transformers (eager), but with one linear layer for q, k and v."""

        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            mask = torch.tril(torch.ones(context, context)).view(1, 1, context, context) == 0
            self.register_buffer("mask", mask, persistent=False)

        def forward(self, x, cos, sin):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, heads, head_width).transpose(1, 2) for y in self.qkv(x).split(width, dim=2))
            q, k = ((y * cos) + (rotate_half(y) * sin) for y in (q, k))
            scores = torch.matmul(q, k.transpose(2, 3)) * head_width**-0.5
            scores = scores.masked_fill(self.mask, torch.finfo(scores.dtype).min)
            p = functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
            return self.proj(torch.matmul(p, v).transpose(1, 2).contiguous().reshape(b, t, c))

    class LlamaMlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
            self.down = nn.Linear(hidden, width, bias=False)

        def forward(self, x):
            return self.down(functional.silu(self.gate(x)) * self.up(x))

    class LlamaEmbedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(vocabulary, width)

        def forward(self, tokens):
            return self.token(tokens)

    llama = sizes["kind"] == "llama"
    hidden = sizes["hidden"] or (-(-8 * width // 96) * 32 if llama else 4 * width)
    gelu = {"erf": "none", "tanh": "tanh"}.get(sizes["gelu"], "none")
    norm = RmsNorm if llama else (lambda: nn.LayerNorm(width, eps=NORM_EPS))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = norm(), norm()
            self.attn, self.mlp = (LlamaAttention(), LlamaMlp()) if llama else (Attention(), Mlp())

        def forward(self, x, *rotary):
            x = x + self.attn(self.norm1(x), *rotary)
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = LlamaEmbedding() if llama else Embedding()
            self.rotary = Rotary() if llama else None
            self.block = nn.ModuleList(Block() for _ in range(sizes["layers"]))
            self.final_norm = norm()
            self.lm_head = nn.Linear(width, vocabulary, bias=False)
            if sizes["tied"]:
                self.lm_head.weight = self.embed.token.weight

        def forward(self, tokens, targets):
            x = self.embed(tokens)
            rotary = self.rotary(x) if llama else ()
            for block in self.block:
                x = block(x, *rotary)
            logits = self.lm_head(self.final_norm(x))
            wide = logits.float() if llama else logits  # Llama casts the logits to fp32, nanoGPT does not
            return logits, functional.cross_entropy(wide.view(-1, vocabulary), targets.view(-1))

    return Model()


# --- training


class Run:
    """A training run of one policy with one seed."""

    def __init__(self, torch, inputs, model, policy, seed, order, device):
        arrays, metadata = inputs
        manifest = json.loads(metadata["manifest"])
        self.torch, self.device, self.recipe = torch, device, POLICIES[policy]
        self.train, self.token_weight = manifest["train"], manifest["train"]["token_weight"]
        if self.train["optimizer"] != "adamw" or self.train["micro_batches"] != 1:
            raise ValueError("only AdamW without gradient accumulation is implemented here")
        torch.set_float32_matmul_precision("high" if self.recipe.get("tf32") else "highest")
        prefix = f"seed{seed}:"
        self.model = make_model(torch, manifest["model"])
        weights = {name[len(prefix):]: torch.from_numpy(array.copy()) for name, array in arrays.items()
                   if name.startswith(prefix) and name != prefix + "samples"}
        if manifest["model"]["tied"]:
            weights["lm_head.weight"] = weights["embed.token.weight"]
        self.model.load_state_dict(weights)  # strict: every name and shape has to agree
        if "model" in self.recipe:
            self.model.to(getattr(torch, self.recipe["model"]))
        self.model.to(device)
        self.parameters = list(self.model.parameters())
        samples = torch.from_numpy(arrays[prefix + "samples"].astype("int64"))
        if order == "reversed":
            samples = samples.flip(1)
        self.samples = samples.to(device)
        kernel = {"foreach": False, "fused": False} if self.recipe.get("single") else {"fused": True}
        self.optimizer = torch.optim.AdamW(self.parameters, lr=self.train["lr"], betas=(self.train["beta1"], self.train["beta2"]),
                                           eps=self.train["eps"], weight_decay=self.train["weight_decay"], **kernel)
        self.scaler = torch.amp.GradScaler(device, **self.recipe["scaler"]) if "scaler" in self.recipe else None
        self.rows = []

    def step(self, step):
        torch, scaler = self.torch, self.scaler
        scale = scaler.get_scale() if scaler else 1.0
        lr = learning_rate(self.train, step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        samples = self.samples[step]
        tokens, targets = samples[:, :-1].contiguous(), samples[:, 1:].contiguous()
        dtype = getattr(torch, self.recipe.get("autocast", "bfloat16"))
        with torch.autocast(self.device, dtype=dtype, enabled="autocast" in self.recipe):
            logits, loss = self.model(tokens, targets)
        weighted = loss * self.token_weight
        (scaler.scale(weighted) if scaler else weighted).backward()
        with torch.no_grad():
            gradients = [parameter.grad for parameter in self.parameters]
            zeros = (torch.cat([g.flatten() for g in gradients]) == 0).sum()
            before = torch.cat([p.detach().flatten() for p in self.parameters])
        if scaler:
            scaler.unscale_(self.optimizer)
        torch._foreach_mul_(gradients, 1.0 / self.token_weight)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.train["clip"])
        if scaler:
            scaler.step(self.optimizer)
            scaler.update()
        else:
            self.optimizer.step()
        with torch.no_grad():
            exact = torch.nn.functional.cross_entropy(logits.detach().double().flatten(0, 1), targets.flatten())
            after = torch.cat([p.detach().flatten() for p in self.parameters])
            moments = torch.cat([self.optimizer.state[p]["exp_avg"].flatten() for p in self.parameters]
                                ) if self.optimizer.state else torch.zeros_like(after)
            lost = ((before == after) & (moments != 0)).sum()
            self.rows.append((scale, lr, torch.stack([exact, loss.detach().double(), norm.double(), lost.double(), zeros.double()])))

    def results(self, name):
        """Yields the rows of this run for the CSV file. A step was skipped if the loss scale decreased after it."""
        values = self.torch.stack([row[2] for row in self.rows]).cpu().tolist()
        scales = [row[0] for row in self.rows] + [self.scaler.get_scale() if self.scaler else 1.0]
        for step, (exact, rounded, norm, lost, zeros) in enumerate(values):
            skipped = int(scales[step + 1] < scales[step])
            yield (*name, step, exact, rounded, norm, self.rows[step][1], scales[step], skipped, 0 if skipped else int(lost), int(zeros))


def tasks(arguments):
    """Yields the runs, the most important runs first. The processes receive them in turn, in this order."""
    for order in arguments.orders.split(","):
        for seed in map(int, arguments.seeds.split(",")):
            for policy in arguments.policies.split(","):
                for model in arguments.models.split(","):
                    if order == "again" and seed != int(arguments.seeds.split(",")[0]):
                        continue
                    if policy == "tf32" and arguments.device == "cpu":
                        continue  # a CPU has no tf32
                    yield model, policy, seed, order


def work(arguments):
    """Trains the runs of process K of N (every N-th run), and writes OUT/part-K.csv and OUT/part-K.json."""
    import torch

    index, count = map(int, arguments.worker.split("/"))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # filling needs time and changes no result
    inputs, runs = {}, []
    with open(os.path.join(arguments.out, f"part-{index}.csv"), "w", newline="") as file:
        writer = csv.writer(file)
        for model, policy, seed, order in list(tasks(arguments))[index::count]:
            about = {"model": model, "policy": policy, "seed": seed, "order": order}
            runs.append(about)
            if time.time() > arguments.deadline:
                about["status"] = "no time"
                continue
            start = time.time()
            try:
                if model not in inputs:
                    inputs[model] = read_safetensors(os.path.join(arguments.inputs, model + ".safetensors"))
                run = Run(torch, inputs[model], model, policy, seed, order, arguments.device)
                for step in range(min(run.train["steps"], arguments.steps)):
                    run.step(step)
                writer.writerows(run.results((model, policy, seed, order)))
                about["status"] = "finished"
            except Exception as error:  # a failed run must not stop the other runs
                about["status"] = f"{type(error).__name__}: {error}"
            about["seconds"] = round(time.time() - start, 3)
            file.flush()
    with open(os.path.join(arguments.out, f"part-{index}.json"), "w") as file:
        json.dump(runs, file)
    return 0


def device_name(torch, device):
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    return f"CPU, {torch.backends.cpu.get_cpu_capability()} kernels, {os.environ.get('ONEDNN_MAX_CPU_ISA', 'oneDNN as it chooses')}"


def train_all(arguments):
    start = time.time()
    os.makedirs(arguments.out, exist_ok=True)
    missing = [m for m in arguments.models.split(",") if not os.path.exists(os.path.join(arguments.inputs, m + ".safetensors"))]
    if missing:
        print(f"torch_training: no {', '.join(missing)}.safetensors in {arguments.inputs}: run --prepare first", file=sys.stderr)
        return 2
    jobs = arguments.jobs or min(8, os.cpu_count() or 1)
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--deadline", str(start + arguments.seconds)]
    workers = [subprocess.Popen([*command, "--worker", f"{i}/{jobs}"], env=environment) for i in range(jobs)]
    codes = [worker.wait() for worker in workers]
    runs, rows = [], []
    for i in range(jobs):
        for name, into in (("json", runs), ("csv", rows)):
            path = os.path.join(arguments.out, f"part-{i}.{name}")
            if not os.path.exists(path):
                continue
            with open(path, newline="") as file:
                into.extend(json.load(file) if name == "json" else csv.reader(file))
            os.remove(path)
    rows.sort(key=lambda row: (row[0], list(POLICIES).index(row[1]), int(row[2]), ORDERS.index(row[3]), int(row[4])))
    with open(os.path.join(arguments.out, "training.csv"), "w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    import torch

    about = {"device": device_name(torch, arguments.device), "torch": torch.__version__, "jobs": jobs,
             "seconds": round(time.time() - start, 1), "runs": runs}
    with open(os.path.join(arguments.out, "runs.json"), "w") as file:
        json.dump(about, file, indent=1)
    finished = sum(run.get("status") == "finished" for run in runs)
    print(f"torch {about['torch']} on {about['device']}: {finished} of {len(list(tasks(arguments)))} runs, {about['seconds']} s, {jobs} processes")
    for run in runs:
        if run.get("status") != "finished":
            print(f"  {run['model']} {run['policy']} seed {run['seed']} {run['order']}: {run.get('status')}")
    return 0 if finished == len(list(tasks(arguments))) and not any(codes) else 1


# --- comparing


# Limits that a variable exceeds with a probability of 5 %, by its degrees of freedom: |t|, and F for two equal numbers
# of degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}  # two-sided
F_95 = {1: 161.4, 2: 19.0, 3: 9.28, 4: 6.39, 5: 5.05, 6: 4.28, 7: 3.79, 8: 3.44, 9: 3.18, 10: 2.98}  # equal degrees of freedom


def mean_and_interval(values):
    """Returns the mean, and half the width of its 95 % t interval."""
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, math.inf
    variance = sum((v - mean) ** 2 for v in values) / (n - 1)
    return mean, T_95.get(n - 1, 2.0) * math.sqrt(variance / n)


def read_rows(path, keys):
    """Groups the rows of a CSV file by their values in the columns `keys`: {values: [row of each step]}."""
    runs = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            runs.setdefault(tuple(row[key] for key in keys), []).append(row)
    return runs


def losses(rows):
    return [float(row["loss"]) for row in rows]


def last_losses(rows):
    """Returns the mean loss of the last 50 steps, as in macheps' summary, or of the last sixth of a short run."""
    values = losses(rows)
    last = values[-max(1, min(50, len(values) // 6)):]
    return sum(last) / len(last)


def count(rows, column):
    return sum(int(row[column] or 0) for row in rows)


def first_not_finite(rows):
    return next((i for i, loss in enumerate(losses(rows)) if not math.isfinite(loss)), None)


def rms(values):
    return math.sqrt(sum(v * v for v in values) / len(values)) if values else math.nan


def rms_of_steps(a, b):
    differences = [x - y for one, other in zip(a, b) for x, y in zip(losses(one), losses(other))]
    return rms([d for d in differences if math.isfinite(d)])


def equal_steps(a, b, column):
    """Returns the number of steps with equal values in the column, and the number of steps compared."""
    pairs = [(float(x[column]), float(y[column])) for one, other in zip(a, b) for x, y in zip(one, other)]
    return sum(x == y for x, y in pairs), len(pairs)


def describe_gap(values):
    mean, half = mean_and_interval(values)
    return "" if not math.isfinite(mean) else f"{mean:+.2g} ± {half:.1g}" if len(values) > 1 else f"{mean:+.2g}"


def kind_of_gap(values):
    if len(values) < 2:
        return "of one seed"
    mean, half = mean_and_interval(values)
    return "worse" if mean - half > 0 else "better" if mean + half < 0 else "no gap seen"


def verdict(ours, theirs, turned, gaps, ends):
    """Returns a text that states how closely macheps (`ours`) and PyTorch (`theirs`) agree.

    `turned` has PyTorch's runs with the samples in reverse order, or is empty. `ends` has a list for macheps and a list
    for PyTorch. A list has an entry for each run: the first step whose loss is not finite, or None.

    Suppose that macheps differs from PyTorch only as two orders of summation do. Then the differences between macheps
    and PyTorch have the same variance as the differences between PyTorch's two orders, and the ratio of their mean
    squares over the seeds has an F distribution. PyTorch's losses cannot show a difference below half a unit in the
    last place of an fp32 loss.
    """
    if any(end is not None for side in ends for end in side):
        words = [" ".join("-" if end is None else str(end) for end in side) for side in ends]
        both = all(end is not None for side in ends for end in side)
        return f"{'both diverge' if both else 'DISAGREE'}: first loss that is not finite at step {words[0]} (macheps), {words[1]} (PyTorch)"
    differences = [last_losses(t) - last_losses(m) for m, t in zip(ours, theirs)]
    kinds = [kind_of_gap(gap) for gap in gaps if gap]
    same = f"both {kinds[0]}; " if len(set(kinds)) == 1 else f"macheps {kinds[0]}, PyTorch {kinds[1]}; " if kinds else ""
    noise = [last_losses(t) - last_losses(r) for t, r in zip(theirs, turned)]
    if len(noise) != len(differences):
        return same + f"differ by {rms(differences):.1g}; the noise of orders is not known"
    if rms(differences) <= math.sqrt(F_95.get(len(noise), 2.98)) * rms(noise):
        return same + f"agree to {rms(differences):.1g}, two orders of PyTorch to {rms(noise):.1g}"
    if rms(differences) <= 2**-24 * max(map(last_losses, theirs)):
        return same + f"agree to {rms(differences):.1g}, less than fp32 losses can show"
    return same + f"DIFFER by {describe_gap(differences)}, two orders of PyTorch by {rms(noise):.1g}"


def judge_model(folder, csv_path, markdown):
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    model = manifest["model"]["kind"]
    macheps_runs = read_rows(os.path.join(folder, "steps.csv"), ("policy", "seed"))
    torch_runs = read_rows(csv_path, ("model", "policy", "seed", "order"))
    table = [("policy", "seeds", "last loss, macheps", "PyTorch", "gap to fp32, macheps", "PyTorch", "skipped", "lost updates a step",
              "losses of steps: macheps to PyTorch", "two orders of PyTorch", "scales equal", "verdict")]
    notes = []
    for policy in manifest["policies"]:
        peer = policy if policy in POLICIES else next((name for name in POLICIES if policy == "h100-" + name), None)
        if policy.startswith("cpu-autocast-bf16"):
            peer = "amp-bf16"
        seeds = [s for p, s in macheps_runs if p == policy and (model, peer, s, "given") in torch_runs]
        if not seeds:
            continue

        def side(order, name=peer):
            return [torch_runs[model, name, s, order] for s in seeds if (model, name, s, order) in torch_runs]

        ours, theirs, turned = [macheps_runs[policy, s] for s in seeds], side("given"), side("reversed")
        ends = [[first_not_finite(rows) for rows in some] for some in (ours, theirs)]
        steps = min(len(rows) for rows in ours + theirs)  # macheps ends a run that diverged
        ours, theirs, turned = ([rows[:steps] for rows in some] for some in (ours, theirs, turned))
        gaps = [[], []]
        if policy != "fp32" and ("fp32", seeds[0]) in macheps_runs and len(side("given", "fp32")) == len(seeds):
            bases = ([macheps_runs["fp32", s][:steps] for s in seeds], [rows[:steps] for rows in side("given", "fp32")])
            gaps = [[last_losses(rows) - last_losses(base) for rows, base in zip(some, of)] for some, of in zip((ours, theirs), bases)]
        wrong_rate = max(abs(float(t["lr"]) / float(m["lr"]) - 1) for one, other in zip(ours, theirs) for m, t in zip(one, other))
        if wrong_rate > 2**-23:
            notes.append(f"{policy}: learning rates differ by a factor of 1 + {wrong_rate:.1g}")
        again = [(s, torch_runs[model, peer, s, "again"]) for s in seeds if (model, peer, s, "again") in torch_runs]
        for s, rows in again:
            if losses(rows)[:steps] != losses(torch_runs[model, peer, s, "given"])[:steps]:
                notes.append(f"{policy}: PyTorch's seed {s} did not repeat its own losses")
        equal, compared = equal_steps(ours, theirs, "loss_scale")
        runs = len(seeds)
        table.append((policy, str(runs), *(f"{sum(map(last_losses, some)) / runs:.4f}" for some in (ours, theirs)),
                      *(describe_gap(gap) if gap else "" for gap in gaps),
                      f"{sum(count(r, 'skipped') for r in ours)}, {sum(count(r, 'skipped') for r in theirs)}",
                      f"{sum(count(r, 'lost_updates') for r in ours) / runs / steps:.4g}, {sum(count(r, 'lost_updates') for r in theirs) / runs / steps:.4g}",
                      f"{rms_of_steps(ours, theirs):.1e}", f"{rms_of_steps(theirs, turned):.1e}" if turned else "",
                      f"{equal} of {compared}" if "scaler" in POLICIES[peer] else "", verdict(ours, theirs, turned, gaps, ends)))
    first = [abs(losses(torch_runs[model, "fp32", s, "given"])[0] - losses(macheps_runs["fp32", s])[0])
             for p, s in macheps_runs if p == "fp32" and (model, "fp32", s, "given") in torch_runs]
    print(f"{model}: the losses of step 0 in fp32 differ by {max(first, default=math.nan):.1e} at most")
    if markdown:
        for i, row in enumerate(table):
            print("| " + " | ".join(row) + " |")
            if i == 0:
                print("|" + "---|" * len(row))
    else:
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        for row in table:
            print("  ".join(cell.ljust(size) for cell, size in zip(row, widths)).rstrip())
    for note in notes:
        print("note: " + note)


def judge(arguments):
    folder, csv_path = arguments.judge
    folders = [folder] if os.path.exists(os.path.join(folder, "manifest.json")) else sorted(
        os.path.join(folder, name) for name in os.listdir(folder) if os.path.exists(os.path.join(folder, name, "manifest.json")))
    if not folders:
        print(f"torch_training: no run in {folder}", file=sys.stderr)
        return 2
    for each in folders:
        judge_model(each, csv_path, arguments.markdown)
    return 0


def main():
    arguments = parse_arguments()
    if arguments.prepare:
        return prepare(arguments)
    if arguments.judge:
        return judge(arguments)
    return work(arguments) if arguments.worker else train_all(arguments)


if __name__ == "__main__":
    sys.exit(main())
