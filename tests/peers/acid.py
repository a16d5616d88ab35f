#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Acid test: compares a training step of `tiny` under PyTorch's CPU autocast to bf16 with `train --policy cpu-autocast-bf16`.

    build/peers/torch/bin/python tests/peers/acid.py torch --macheps build/quick/experiments/macheps

`macheps train --dump-step` writes the weights, the tokens and every number of the first step. There are two comparisons:
  - Each operation, given the same operands: PyTorch computes each operation of the step from the operands in the dump,
    forward and backward, with autograd under torch.autocast. These results must be equal bit for bit: the output of every
    linear and the gradients of its input and weight, both products of attention with their gradients, additions, scalings
    and the embedding. For softmax, GELU, the loss and sums over rows, PyTorch uses its own vector functions and orders of
    summation. The script prints how many of these numbers are equal, but does not require equality. The same holds for layer
    norms, which macheps sums in a different order. torch_norm.py sums them in PyTorch's order, and must give PyTorch's bits from
    the same operands, forward and backward.
  - The whole step: PyTorch trains its own model from the same weights and tokens, and every number is compared with the dump.
On a CPU with AMX the comparison runs twice, because ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 makes oneDNN ignore AMX. --write FILE
keeps PyTorch's step (weights, activations and gradients of every linear) as an .npz file.
Exit codes: 0 all required results agree, 1 they do not, 2 usage, 77 torch cannot be imported or the CPU has no bf16
instructions.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import peer
import training

torch = torch_norm = None  # imported by main, which skips the test if they are missing
HEADS = 4

LINEARS = ("attn.qkv", "attn.proj", "mlp.up", "mlp.down")
CLAIMED = ("linear", "attention", "addition", "scaling", "embedding", "layer norm in PyTorch's order")


class Table:
    """A row for each result of an operation: how many numbers, how many are equal bit for bit, and the largest distance in ulp."""

    def __init__(self):
        self.rows = {}
        self.first = None

    def compare(self, kind, what, ours, theirs, where):
        dtype = theirs.dtype
        ours = ours.reshape(theirs.shape)
        far, differ, size = training.ulps(ours, theirs, dtype)
        row = self.rows.setdefault((kind, what), [0, 0, 0])
        row[0] += size
        row[1] += size - differ
        row[2] = max(row[2], far)
        if differ and self.first is None:
            self.first = f"{where} {what}"

    def show(self, title):
        print(f"\n{title}\n\n| operation | result | numbers | equal by bits | furthest, ulp |\n|---|---|---|---|---|")
        for (kind, what), (size, equal, far) in self.rows.items():
            print(f"| {kind} | {what} | {size} | {'all' if equal == size else equal} | {far} |")

    def failures(self):
        return [f"{kind} {what}: {size - equal} of {size} differ" for (kind, what), (size, equal, _) in self.rows.items() if kind in CLAIMED and equal != size]


def leaf(tensor):
    return tensor.clone().requires_grad_()


def backward(result, grad, leaves):
    """Returns the gradients of the leaves. Autograd requires a gradient in the dtype of the result."""
    return torch.autograd.grad(result, leaves, grad.reshape(result.shape).to(result.dtype))


def low(tensor):
    return tensor.to(torch.bfloat16)


def compare_linear(table, dump, site):
    has_bias = site + ".bias:value" in dump
    x = leaf(dump[site + ":forward.in"])
    weight = leaf(dump[("embed.token" if site == "lm_head" else site) + ".weight:value"])
    bias = leaf(dump[site + ".bias:value"]) if has_bias else None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.linear(x, weight, bias)
    leaves = [x, weight] + ([bias] if has_bias else [])
    grads = backward(y, dump[site + ":grad.in"], leaves)
    table.compare("linear", "output", dump[site + ":forward.out"], y, site)
    table.compare("linear", "gradient of the input", dump[site + ":input_grad.out"], low(grads[0]), site)
    table.compare("linear", "gradient of the weight", dump[site + ":weight_grad.out"], low(grads[1]), site)
    if has_bias:
        table.compare("sum over rows", "gradient of the bias", dump[site + ":bias_grad.out"], low(grads[2]), site)


def of_heads(tensor):
    """Returns bf16 [batch, heads, context, width] as a view of an array [batch, context, heads, width], as in a model."""
    return low(tensor).transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()


def compare_product(table, dump, site, grad, transposed, a_layout):
    a, b = a_layout(dump[site + ":forward.a"]), of_heads(dump[site + ":forward.b"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = a @ (b.transpose(-2, -1) if transposed else b)
    grad_a, grad_b = backward(out, dump[site + grad], [a, b])
    table.compare("attention", "output", dump[site + ":forward.out"], out, site)
    table.compare("attention", "gradient of the first factor", dump[site + ":grad_a.out"], grad_a, site)
    table.compare("attention", "gradient of the second factor", dump[site + ":grad_b.out"], grad_b, site)


def compare_attention(table, dump, block):
    scores, mix, softmax = block + "attn.scores", block + "attn.mix", block + "attn.softmax"
    compare_product(table, dump, scores, ":grad.scaled", True, of_heads)
    compare_product(table, dump, mix, ":grad.in", False, lambda p: leaf(low(p)))
    width = dump[scores + ":forward.a"].shape[-1]
    table.compare("scaling", "scores", dump[scores + ":forward.scaled"], low(dump[scores + ":forward.out"]) * width**-0.5, scores)
    table.compare("scaling", "gradient of the scores", dump[scores + ":grad.scaled"], low(dump[scores + ":grad.in"]) * width**-0.5, scores)
    s = leaf(low(dump[scores + ":forward.scaled"]))
    p = masked_softmax(s)
    (ds,) = backward(p, dump[softmax + ":grad.in"], [s])
    table.compare("softmax", "output", dump[softmax + ":forward.out"], p, softmax)
    table.compare("softmax", "gradient", dump[softmax + ":grad.out"], ds, softmax)


def masked_softmax(scores):
    size = scores.shape[-1]
    mask = torch.tril(torch.ones(size, size, dtype=torch.bool))
    return torch.nn.functional.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)


def compare_norm(table, dump, site, x):
    x, weight, bias = leaf(x), leaf(dump[site + ".weight:value"]), leaf(dump[site + ".bias:value"])
    y = torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)
    grads = backward(y, dump[site + ":grad.in"], [x, weight, bias])
    results = ("output", "gradient of the input", "gradient of the weight", "gradient of the bias")
    dumped = (":forward.out", ":grad.out", ".weight:grad", ".bias:grad")
    theirs = (y.detach(), *grads)
    for what, slot, result in zip(results, dumped, theirs):
        table.compare("layer norm", what, dump[site + slot], result, site)
    if not norms_are_described():
        return
    rows = x.detach().reshape(-1, x.shape[-1]).numpy()
    gamma, beta = weight.detach().numpy(), bias.detach().numpy()
    out, mean, rstd = torch_norm.layer_norm(rows, gamma, beta, 1e-5, torch.__version__)
    dy = dump[site + ":grad.in"].reshape(rows.shape).numpy()
    ordered = (out, *torch_norm.layer_norm_backward(dy, rows, mean, rstd, gamma))
    for what, mine, result in zip(results, ordered, theirs):
        table.compare("layer norm in PyTorch's order", what, torch.from_numpy(mine), result, site)


def norms_are_described():
    """Returns whether the summation order of layer norms is known for this version of PyTorch and the kernels it uses here."""
    return torch_norm.described(torch.__version__) and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def compare_norm_lengths(table):
    """Compares layer norms of rows whose lengths do not occur in the model. Long rows need several chunks and several levels
    of the cascade."""
    if not norms_are_described():
        kernels = torch.backends.cpu.get_cpu_capability()
        print(f"layer norm in PyTorch's order: not compared, the order of {torch.__version__} with {kernels} kernels is not known")
        return
    generator = torch.Generator().manual_seed(5)
    normal = lambda *shape: torch.randn(*shape, generator=generator)
    for length in (8, 16, 64, 128, 136, 248, 256, 384, 512, 520, 768, 1024, 4096, 4104):
        x, dy = leaf(3 * normal(20, length) + (length % 3) * 10), normal(20, length)
        weight, bias = leaf(normal(length)), leaf(normal(length))
        y = torch.nn.functional.layer_norm(x, (length,), weight, bias, 1e-5)
        grads = backward(y, dy, [x, weight, bias])
        rows, gamma = x.detach().numpy(), weight.detach().numpy()
        out, mean, rstd = torch_norm.layer_norm(rows, gamma, bias.detach().numpy(), 1e-5, torch.__version__)
        ordered = (out, *torch_norm.layer_norm_backward(dy.numpy(), rows, mean, rstd, gamma))
        for mine, result in zip(ordered, (y.detach(), *grads)):
            table.compare("layer norm in PyTorch's order", "rows of 14 lengths", torch.from_numpy(mine), result, f"rows of {length}")


def compare_operations(dump):
    """Compares every operation, computed from its operands in the dump."""
    table = Table()
    tokens, targets = dump["tokens"].reshape(-1, dump["tokens"].shape[-1]).long(), dump["targets"].reshape(-1).long()
    embedded = dump["embed.token.weight:value"][tokens] + dump["embed.position.weight:value"]
    table.compare("embedding", "output", dump["embed:forward.out"], embedded, "embed")
    x, layers = dump["embed:forward.out"], 1 + max(int(name.split(".")[1]) for name in dump if name.startswith("block."))
    for layer in range(layers):
        block = f"block.{layer}."
        for name in LINEARS:
            compare_linear(table, dump, block + name)
        compare_attention(table, dump, block)
        compare_norm(table, dump, block + "norm1", x)
        middle = x + low(dump[block + "attn.proj:forward.out"]).reshape(x.shape)
        table.compare("addition", "residual", dump[block + "residual1:forward.out"], middle, block + "residual1")
        x = dump[block + "residual1:forward.out"]
        compare_norm(table, dump, block + "norm2", x)
        up = leaf(low(dump[block + "mlp.up:forward.out"]))
        act = torch.nn.functional.gelu(up)
        (dup,) = backward(act, dump[block + "mlp.act:grad.in"], [up])
        table.compare("GELU", "output", dump[block + "mlp.act:forward.out"], act, block + "mlp.act")
        table.compare("GELU", "gradient", dump[block + "mlp.act:grad.out"], dup, block + "mlp.act")
        last = x + low(dump[block + "mlp.down:forward.out"]).reshape(x.shape)
        table.compare("addition", "residual", dump[block + "residual2:forward.out"], last, block + "residual2")
        x = dump[block + "residual2:forward.out"]
    compare_norm(table, dump, "final_norm", x)
    compare_linear(table, dump, "lm_head")
    logits = leaf(low(dump["lm_head:forward.out"]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(logits, targets)
    (dlogits,) = torch.autograd.grad(loss, [logits])
    table.compare("loss", "gradient of the logits", dump["loss:grad.out"], low(dlogits), "loss")
    compare_norm_lengths(table)
    return table


class Model:
    """nanoGPT's model with explicit attention and the dump's weights. Keeps the inputs and results of its operations."""

    def __init__(self, dump):
        self.values = {name: leaf(dump[name + ":value"]) for name in training.parameters(dump)}
        # The tied head has the weights of the embedding, but it is a separate leaf of autograd. This leaf gets the
        # head's part of the gradient.
        self.values["lm_head.weight"] = leaf(dump["embed.token.weight:value"])
        self.seen = {}

    def linear(self, site, x):
        y = torch.nn.functional.linear(x, self.values[site + ".weight"], self.values.get(site + ".bias"))
        return self.keep(site + ":forward.out", y, self.keep(site + ":forward.in", x))

    def keep(self, slot, tensor, *_):
        if tensor.requires_grad:
            tensor.retain_grad()
        self.seen[slot] = tensor
        return tensor

    def norm(self, site, x):
        y = torch.nn.functional.layer_norm(x, (x.shape[-1],), self.values[site + ".weight"], self.values[site + ".bias"], 1e-5)
        return self.keep(site + ":forward.out", y)

    def run(self, tokens, targets, layers):
        batch, context = tokens.shape
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.keep("embed:forward.out", self.values["embed.token.weight"][tokens] + self.values["embed.position.weight"])
            width = x.shape[-1]
            for layer in range(layers):
                block = f"block.{layer}."
                qkv = self.linear(block + "attn.qkv", self.norm(block + "norm1", x))
                q, k, v = (t.view(batch, context, HEADS, width // HEADS).transpose(1, 2) for t in qkv.split(width, dim=2))
                scores = self.keep(block + "attn.scores:forward.out", q @ k.transpose(-2, -1))
                p = self.keep(block + "attn.softmax:forward.out", masked_softmax(scores * (width // HEADS) ** -0.5))
                y = self.keep(block + "attn.mix:forward.out", p @ v)
                x = self.keep(block + "residual1:forward.out", x + self.linear(block + "attn.proj", y.transpose(1, 2).reshape(batch, context, width)))
                hidden = self.linear(block + "mlp.up", self.norm(block + "norm2", x))
                hidden = self.keep(block + "mlp.act:forward.out", torch.nn.functional.gelu(hidden))
                x = self.keep(block + "residual2:forward.out", x + self.linear(block + "mlp.down", hidden))
            logits = self.linear("lm_head", self.norm("final_norm", x))
            self.loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets)
        self.loss.backward()


def compare_step(dump, write):
    """Compares the dump with PyTorch's own step from the same weights and tokens."""
    table = Table()
    tokens, targets = dump["tokens"].reshape(-1, dump["tokens"].shape[-1]).long(), dump["targets"].reshape(-1).long()
    layers = 1 + max(int(name.split(".")[1]) for name in dump if name.startswith("block."))
    model = Model(dump)
    model.run(tokens, targets, layers)
    if write:
        import numpy
        arrays = {name + ":value": value.detach() for name, value in model.values.items()}
        arrays.update({name + ":grad": value.grad for name, value in model.values.items() if value.grad is not None})
        for slot, tensor in model.seen.items():
            arrays[slot] = tensor.detach().float()
            if tensor.grad is not None:
                arrays[slot + ".grad"] = tensor.grad.float()
        numpy.savez(write, **{name: tensor.numpy() for name, tensor in arrays.items()})
    for slot, tensor in model.seen.items():
        if slot.endswith("forward.out"):
            table.compare("forward", slot.split(".", 2)[-1] if slot.startswith("block.") else slot, dump[slot], tensor.detach(), slot)
    sites = [f"block.{layer}.{name}" for layer in range(layers) for name in LINEARS] + ["lm_head"]
    for site in reversed(sites):
        name = site.split(".", 2)[-1] if site.startswith("block.") else site
        table.compare("backward", name + " gradient of the input", dump[site + ":input_grad.out"], low(model.seen[site + ":forward.in"].grad), site)
        table.compare("backward", name + " gradient of the weight", dump[site + ":weight_grad.out"], low(model.values[site + ".weight"].grad), site)
    return table, float(model.loss.detach())


def step_of(program, policy, folder):
    command = [program, "train", "--policy", policy, "--size", "tiny", "--steps", "1", "--token-weight", "1", "--dump-step", "0", "step.safetensors", "--no-report", "-q", "--out", "run"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise peer.Failure(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return training.load_all(os.path.join(folder, "step.safetensors"))[0]


def compare(program, policy, write):
    with tempfile.TemporaryDirectory() as folder:
        dump = step_of(program, policy, folder)
    given = compare_operations(dump)
    given.show(f"{policy}: each operation, given the same operands")
    whole, loss = compare_step(dump, write)
    whole.show(f"{policy}: the whole step, PyTorch's loss {loss!r}, ours {float(dump['loss'])!r}; the first result that differs: {whole.first}")
    failures = given.failures()
    for failure in failures:
        print(f"differs: {policy}: {failure}")
    return not failures


def flags():
    try:
        with open("/proc/cpuinfo") as file:
            return next((set(line.split()) for line in file if line.startswith("flags")), set())
    except OSError:
        return set()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=["torch"])
    parser.add_argument("--macheps", default="build/quick/experiments/macheps")
    parser.add_argument("--policy", help="policy to compare in this process; default: every policy that the CPU supports, each in a separate process")
    parser.add_argument("--write", metavar="FILE", help="write PyTorch's step to this .npz file")
    arguments = parser.parse_args()
    global torch, torch_norm
    torch = training.torch = peer.need("torch")
    torch_norm = peer.need("torch_norm")
    program = os.path.abspath(arguments.macheps)
    if arguments.policy is None:
        has = flags()
        if "avx512_bf16" not in has:
            peer.skip("this CPU has no avx512_bf16, so PyTorch uses other kernels")
        policies = [("cpu-autocast-bf16", "AVX512_CORE_BF16")] + ([("cpu-autocast-bf16-amx", "ALL")] if "amx_bf16" in has else [])
        if "ONEDNN_MAX_CPU_ISA" in os.environ:
            peer.skip("ONEDNN_MAX_CPU_ISA is set, which changes PyTorch's kernels")
        codes = []
        for policy, isa in policies:
            # oneDNN reads ONEDNN_MAX_CPU_ISA once, when the process starts.
            command = [sys.executable, os.path.abspath(__file__), "torch", "--macheps", program, "--policy", policy]
            command += ["--write", f"{policy}-{arguments.write}"] if arguments.write else []
            codes.append(subprocess.run(command, env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa}).returncode)
        return max(codes)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()} kernels, {arguments.policy}, ONEDNN_MAX_CPU_ISA={os.environ.get('ONEDNN_MAX_CPU_ISA', 'not set')}")
    try:
        return 0 if compare(program, arguments.policy, arguments.write) else 1
    except peer.Failure as failure:
        print(f"differs: {failure}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
