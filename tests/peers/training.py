#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a training step of macheps under a config with PyTorch's: AdamW, clipping, unscaling, and the dtypes of autocast.

    build/peers/torch/bin/python tests/peers/training.py torch --macheps build/quick/experiments/macheps

`macheps train --config FILE --dump-step` writes the state before and after one optimiser step. torch makes the same
step from the same state on the CPU. The comparisons, and the known reasons for different bits:
  - One step of AdamW (single-tensor, foreach, fused) on fp32 and bf16 parameters, with the CPU kernels `single-cpu`,
    `foreach-cpu` and `fused-cpu`. Moments and weights must be equal bit for bit, except for some fp32 weights of
    single-tensor and foreach. For these two kernels, torch calls MKL's vmsSqrt. For one number in 150, it returns
    a neighbour of the correctly rounded root. With correctly rounded roots, the rest of torch's step must give the same
    weights as macheps.
  - clip_grad_norm_: The orders of the sums of squares differ, so the norms must agree to 1e-6. The gradients that are
    clipped with the same norm must be equal bit for bit.
  - GradScaler's unscale_: The unscaled gradients must be equal bit for bit.
  - The dtype of each operation in a GPT-2 block, in a Llama block and in their losses. The blocks run under CPU
    autocast to bf16, under CUDA autocast to bf16 and fp16 (forward only, on fake tensors, because PyTorch's dispatcher
    needs no GPU), and as models cast to bf16 and fp16. The dtypes must be those of `macheps policy explain`.
Exit codes: 0 all agree, 1 there is a difference, 2 usage error, 77 torch cannot be imported.
"""
import argparse
import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile

import peer

torch = None


def load_all(path):
    """Returns the tensors of a safetensors file and its metadata."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        body = file.read()
    kinds = {"F32": torch.float32, "F64": torch.float64, "U8": torch.uint8, "I32": torch.int32}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(body[first:last]), dtype=kinds[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, header.get("__metadata__", {})


def dump_all(program, folder, config, *more):
    """Trains a tiny model under the config and dumps its fourth step to FOLDER/step.safetensors. Returns the tensors
    and the metadata of that file."""
    with open(os.path.join(folder, "config.yaml"), "w") as file:
        file.write(config)
    sizes = {"--layers": "1", "--width": "32", "--vocabulary": "32"}
    sizes = [word for name, value in sizes.items() if name not in more for word in (name, value)]
    command = [program, "train", "--config", "config.yaml", "--framework", "torch", "--gpu", "cpu", "--steps", "6", "--warmup", "0", *sizes,
               "--heads", "2", "--context", "8", "--batch", "4", "--dump-step", "3", "step.safetensors", "--no-report", "-q", "--out", "run", *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise peer.Failure(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return load_all(os.path.join(folder, "step.safetensors"))


def dump(program, config, *more):
    with tempfile.TemporaryDirectory() as folder:
        return dump_all(program, folder, config, *more)[0]


def parameters(tensors):
    return [name[:-len(":value")] for name in tensors if name.endswith(":value")]


def ulps(a, b, dtype):
    """Returns the largest difference of two tensors in ulps of dtype, the number of elements that differ, and the
    number of elements."""
    kind = torch.int16 if dtype == torch.bfloat16 else torch.int32
    codes = [x.to(dtype).contiguous().view(kind).to(torch.int64) for x in (a, b)]
    ordered = [torch.where(c < 0, -(c & (0x7FFF if kind == torch.int16 else 0x7FFFFFFF)), c) for c in codes]
    distance = (ordered[0] - ordered[1]).abs()
    return int(distance.max()), int((distance > 0).sum()), distance.numel()


def adamw_step(tensors, name, dtype, decay, **kind):
    """Returns the result of torch's step for one parameter: (value, moment1, moment2)."""
    value = torch.nn.Parameter(tensors[name + ":value"].to(dtype).clone())
    value.grad = tensors[name + ":grad.applied"].to(dtype).clone()
    optimizer = torch.optim.AdamW([value], lr=float(tensors["lr"]), betas=(0.9, 0.95), eps=1e-8, weight_decay=decay if value.ndim > 1 else 0.0, **kind)
    state = optimizer.state[value]
    state["step"] = torch.tensor(3.0)
    state["exp_avg"] = tensors[name + ":moment1"].to(dtype).clone()
    state["exp_avg_sq"] = tensors[name + ":moment2"].to(dtype).clone()
    optimizer.step()
    return value.detach(), state["exp_avg"], state["exp_avg_sq"]


def nearest_root(x):
    """Returns the square root of an fp32 tensor, rounded to nearest. Rounding to fp64 first does not change the result."""
    return x.double().sqrt().float()


def behind_roots(tensors, name, root):
    """Repeats the last lines of torch's single-tensor fp32 step, which use the square root `root`, and returns the new
    weight. Each line calls one torch kernel."""
    steps, decays = 4, tensors[name + ":value"].ndim > 1
    lr = float(tensors["lr"])
    value = tensors[name + ":value"] * (1 - lr * 0.1) if decays else tensors[name + ":value"].clone()
    denominator = (root / (1 - 0.95**steps) ** 0.5).add_(1e-8)
    return value.addcdiv_(tensors[name + ":moment1.after"], denominator, value=-lr / (1 - 0.9**steps))


def compare_adamw(program):
    total = 0
    for dtype, word in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
        for kernel, kind in (("foreach: false", {"foreach": False}), ("foreach: true", {"foreach": True}), ("fused: true", {"fused": True})):
            tensors = dump(program, f"{{autocast: {{enabled: false}}, model_dtype: {word}, {kernel}, max_norm: 0}}\n", "--weight-decay", "0.1")
            count, wrong_roots, behind_them = 0, 0, 0
            for name in parameters(tensors):
                theirs = dict(zip(("value", "moment1", "moment2"), adamw_step(tensors, name, dtype, 0.1, **kind)))
                ours = {slot: tensors[f"{name}:{slot}.after"] for slot in theirs}
                if dtype == torch.float32 and "foreach" in kind:
                    root = theirs["moment2"].sqrt()
                    is_wrong = root != nearest_root(theirs["moment2"])
                    differs = ours["value"] != theirs["value"]
                    # Check that MKL's roots alone explain the differences. torch's own roots must give torch's weights,
                    # and correctly rounded roots must give the weights of macheps.
                    if not torch.equal(behind_roots(tensors, name, root), theirs["value"]):
                        raise peer.Failure(f"AdamW {kind} {word}: {name} differs from the weight that the last lines of torch's step give")
                    theirs["value"] = torch.where(is_wrong, behind_roots(tensors, name, nearest_root(theirs["moment2"])), theirs["value"])
                    wrong_roots, behind_them = wrong_roots + int(is_wrong.sum()), behind_them + int((differs & is_wrong).sum())
                for slot, tensor in theirs.items():
                    far, differ, size = ulps(ours[slot], tensor, dtype)
                    if differ:
                        raise peer.Failure(f"AdamW {kind} {word}: {differ} of {size} numbers of {name}:{slot} differ, by {far} ulp at most")
                    count += size
            but = f"; {behind_them} weights differ because of {wrong_roots} MKL roots that are not correctly rounded" if wrong_roots else ""
            print(f"AdamW {kind} {word}: {count - behind_them} of {count} numbers equal by bits{but}")
            total += count
    return total


def compare_clip(program):
    tensors = dump(program, "{autocast: {enabled: false}, max_norm: 0.05}\n")
    names = parameters(tensors)
    values = [torch.nn.Parameter(tensors[name + ":value"].clone()) for name in names]
    for value, name in zip(values, names):
        value.grad = tensors[name + ":grad"].clone()
    norm = torch.nn.utils.clip_grad_norm_(values, 0.05)
    ours = tensors["grad_norm"].to(torch.float32).reshape(())
    if abs(float(norm) / float(ours) - 1) > 1e-6:
        raise peer.Failure(f"clip_grad_norm_: norm {float(norm)!r}, ours {float(ours)!r}")
    # Clip with torch's formula and the norm that macheps computed.
    coefficient = torch.clamp(0.05 / (ours + 1e-6), max=1.0)
    for name in names:
        wanted = tensors[name + ":grad"] * coefficient
        if not torch.equal(wanted, tensors[name + ":grad.applied"]):
            raise peer.Failure(f"clip_grad_norm_: {name} differs")
    print(f"clip_grad_norm_: norm {float(norm)!r} and ours {float(ours)!r}; {len(names)} tensors equal by bits")
    return len(names)


def compare_unscale(program):
    count = 0
    for scale in (65536, 1000, 3):
        tensors = dump(program, f"{{autocast: {{enabled: false}}, grad_scaler: {{init_scale: {scale}}}, max_norm: 0}}\n")
        names = parameters(tensors)
        values = [torch.nn.Parameter(tensors[name + ":value"].clone()) for name in names]
        for value, name in zip(values, names):
            value.grad = tensors[name + ":grad"].clone()
        scaler = torch.amp.GradScaler("cpu", init_scale=float(scale))
        scaler.scale(torch.zeros(1))
        scaler.unscale_(torch.optim.SGD(values, lr=0.1))
        for value, name in zip(values, names):
            if not torch.equal(value.grad, tensors[name + ":grad.applied"]):
                raise peer.Failure(f"unscale_ of {scale}: {name} differs")
            count += 1
    print(f"unscale_: {count} tensors equal by bits, scales 65536, 1000 and 3")
    return count


# --- dtypes of autocast


@contextlib.contextmanager
def autocast(device, dtype):
    """Enables autocast for a CPU or for CUDA. For CUDA, it sets the flags of the dispatcher directly, because
    torch.autocast("cuda") would disable itself on fake tensors. Does nothing if the model itself is in the low
    dtype."""
    if torch.get_default_dtype() == dtype:
        yield
    elif device == "cpu":
        with torch.autocast("cpu", dtype=dtype):
            yield
    else:
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, dtype)
        try:
            yield
        finally:
            torch.set_autocast_enabled(device, False)


@contextlib.contextmanager
def tensors_on(device):
    """Sets the device of new tensors: the CPU, or a fake CUDA device that exists only for PyTorch's dispatcher."""
    if device == "cpu":
        yield
        return
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), torch.device(device):
        yield


def log_softmax_dtype(compute):
    """Runs `compute`. Returns its result and the dtype of the log-probabilities that it computes."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        dtype = None

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if function is torch.ops.aten._log_softmax.default:
                self.dtype = result.dtype
            return result

    with Watch() as watch:
        result = compute()
    return result, watch.dtype


def gpt2_dtypes(device, dtype):
    """Runs nanoGPT's block with explicit attention. Returns a map from the name of a slot in macheps to the dtype of
    the operation's output."""
    F = torch.nn.functional
    found = {}

    def saw(slot, tensor):
        found[slot] = tensor.dtype
        return tensor

    width, heads, vocabulary = 16, 2, 24
    wte = torch.nn.Embedding(vocabulary, width)
    norm, up, down = torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
    qkv, proj, head = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width), torch.nn.Linear(width, vocabulary, bias=False)
    tokens = torch.randint(vocabulary, (2, 8))
    with autocast(device, dtype):
        x = saw("embed:forward.out", wte(tokens))
        normed = saw("block.0.norm1:forward.out", norm(x))
        q, k, v = saw("block.0.attn.qkv:forward.out", qkv(normed)).split(width, dim=2)
        q, k, v = (t.view(2, 8, heads, width // heads).transpose(1, 2) for t in (q, k, v))
        scores = saw("block.0.attn.scores:forward.out", q @ k.transpose(-2, -1))
        scores = saw("block.0.attn.scores:forward.scaled", scores * (1.0 / (width // heads) ** 0.5))
        p = saw("block.0.attn.softmax:forward.out", F.softmax(scores, dim=-1))
        y = saw("block.0.attn.mix:forward.out", p @ v).transpose(1, 2).reshape(2, 8, width)
        y = saw("block.0.attn.proj:forward.out", proj(y))
        x = saw("block.0.residual1:forward.out", x + y)
        hidden = saw("block.0.mlp.up:forward.out", up(norm(x)))
        hidden = saw("block.0.mlp.act:forward.out", F.gelu(hidden))
        x = saw("block.0.residual2:forward.out", x + saw("block.0.mlp.down:forward.out", down(hidden)))
        logits = saw("lm_head:forward.out", head(saw("final_norm:forward.out", norm(x))))
        loss, found["loss:forward.out"] = log_softmax_dtype(lambda: F.cross_entropy(logits.view(-1, vocabulary), tokens.view(-1)))
        saw("loss:forward.mean", loss)
    if device != "cpu":
        return found  # a backward pass needs a real device
    logits.retain_grad()
    loss.backward()
    found["loss:grad.out"] = logits.grad.dtype
    found["block.0.mlp.up.weight:grad"] = up.weight.grad.dtype
    return found


def llama_dtypes(device, dtype):
    """Runs the Llama block of Hugging Face transformers with eager attention. Returns a map from the name of a slot in
    macheps to the dtype of the operation's output."""
    F = torch.nn.functional
    found = {}

    def saw(slot, tensor):
        found[slot] = tensor.dtype
        return tensor

    width, heads, vocabulary = 16, 2, 24
    size = width // heads
    embed, weight = torch.nn.Embedding(vocabulary, width), torch.nn.Parameter(torch.ones(width))
    q, k, v, o, gate, up = (torch.nn.Linear(width, width, bias=False) for _ in range(6))
    head = torch.nn.Linear(width, vocabulary, bias=False)
    tokens = torch.randint(vocabulary, (2, 8))
    inverse = 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size))

    def rms_norm(x, site):
        kind = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return saw(site + ":forward.out", weight * saw(site + ":forward.normed", x.to(kind)))

    def rotate(x):
        return torch.cat((-x[..., size // 2:], x[..., :size // 2]), dim=-1)

    def heads_of(x):
        return x.view(2, 8, heads, size).transpose(1, 2)

    with autocast(device, dtype):
        x = saw("embed:forward.out", embed(tokens))
        with torch.autocast(device, enabled=False):
            angles = torch.outer(torch.arange(8).float(), inverse)
            angles = torch.cat((angles, angles), dim=-1)
            cos, sin = saw("block.0.attn.rope:forward.cos", angles.cos().to(x.dtype)), angles.sin().to(x.dtype)
        normed = rms_norm(x, "block.0.norm1")
        query, key, value = heads_of(saw("block.0.attn.qkv:forward.out", q(normed))), heads_of(k(normed)), heads_of(v(normed))
        direct, turned = saw("block.0.attn.rope:forward.direct", query * cos), saw("block.0.attn.rope:forward.rotated", rotate(query) * sin)
        query = saw("block.0.attn.rope:forward.out", direct + turned)
        key = key * cos + rotate(key) * sin
        scores = saw("block.0.attn.scores:forward.out", query @ key.transpose(2, 3))
        scores = saw("block.0.attn.scores:forward.scaled", scores * size ** -0.5)
        p = saw("block.0.attn.softmax:forward.out", F.softmax(scores, dim=-1, dtype=torch.float32)).to(query.dtype)
        y = saw("block.0.attn.mix:forward.out", p @ value).transpose(1, 2).reshape(2, 8, width)
        x = saw("block.0.residual1:forward.out", x + saw("block.0.attn.proj:forward.out", o(y)))
        normed = rms_norm(x, "block.0.norm2")
        activated = saw("block.0.mlp.act:forward.activated", F.silu(saw("block.0.mlp.gate:forward.out", gate(normed))))
        hidden = saw("block.0.mlp.act:forward.out", activated * saw("block.0.mlp.up:forward.out", up(normed)))
        x = saw("block.0.residual2:forward.out", x + saw("block.0.mlp.down:forward.out", o(hidden)))
        logits = saw("lm_head:forward.out", head(rms_norm(x, "final_norm")))
        wide = logits.float()
        loss, found["loss:forward.out"] = log_softmax_dtype(lambda: F.cross_entropy(wide.view(-1, vocabulary), tokens.view(-1)))
        saw("loss:forward.mean", loss)
    if device != "cpu":
        return found
    logits.retain_grad()
    loss.backward()
    found["loss:grad.out"] = logits.grad.dtype
    found["block.0.mlp.up.weight:grad"] = up.weight.grad.dtype
    return found


def compare_dtypes(program):
    count = 0
    words = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
    cases = [("cpu", torch.bfloat16, "cpu.yaml"), ("cpu", torch.bfloat16, "cpu-autocast-bf16")]
    cases += [("cpu", torch.bfloat16, "pure-bf16"), ("cpu", torch.float16, "pure-fp16"), ("cpu", torch.bfloat16, "pure.yaml")]
    cases += [("cuda", torch.bfloat16, "amp-bf16"), ("cuda", torch.float16, "amp-fp16"), ("cuda", torch.float16, "cuda.yaml")]
    with tempfile.TemporaryDirectory() as folder:
        for name, dtype in (("cpu", "bfloat16"), ("cuda", "float16")):
            with open(os.path.join(folder, name + ".yaml"), "w") as file:
                file.write(f"{{autocast: {{dtype: {dtype}, device_type: {name}}}}}\n")
        with open(os.path.join(folder, "pure.yaml"), "w") as file:
            file.write("{autocast: {enabled: false}, model_dtype: bfloat16}\n")
        for device, dtype, policy in cases:
            named = os.path.join(folder, policy) if policy.endswith(".yaml") else policy
            for model, dtypes in (("gpt2", gpt2_dtypes), ("llama", llama_dtypes)):
                torch.set_default_dtype(dtype if policy.startswith("pure") else torch.float32)
                with tensors_on(device):
                    found = dtypes(device, dtype)
                torch.set_default_dtype(torch.float32)
                ours = {f"{row['site']}:{row['slot']}": row["cast"] for row in peer.rows(program, "policy", "explain", named, "--model", model)}
                for slot, seen in found.items():
                    if ours[slot] != words[seen]:
                        raise peer.Failure(f"autocast on {device}, {policy}, {model} {slot}: torch has {words[seen]}, macheps {ours[slot]}")
                    count += 1
    print(f"autocast on a CPU and (by PyTorch's dispatcher) on CUDA, and models in 16 bits: {count} operations have the dtype that macheps reports")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=["torch"])
    parser.add_argument("--macheps", default="build/quick/experiments/macheps")
    arguments = parser.parse_args()
    global torch
    torch = peer.need("torch")
    torch.manual_seed(0)
    program = os.path.abspath(arguments.macheps)
    try:
        total = sum(compare(program) for compare in (compare_adamw, compare_clip, compare_unscale, compare_dtypes))
    except peer.Failure as failure:
        print(f"differs: {failure}")
        return 1
    print(f"torch {torch.__version__}: {total} comparisons")
    return 0


if __name__ == "__main__":
    sys.exit(main())
