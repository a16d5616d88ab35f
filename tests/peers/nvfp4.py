#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares NVFP4 of macheps with the reference implementation in Transformer Engine's wheel (reference_nvfp4.py).

    build/peers/transformer-engine-2.20.2/bin/python tests/peers/nvfp4.py --macheps build/quick/experiments/macheps

There are two comparisons. The first compares the block scales and codes that `macheps convert --to` writes for random
tensors, bit for bit, in blocks of 1 x 16 along either axis and of 16 x 16. The second compares the Hadamard transform
before the weight gradient: it reads an operand of the weight gradient from the dump of a training step under te-nvfp4.
Known differences are counted and printed:
  - The reference gives -0 the code of +0. macheps keeps the sign, like the conversion instruction that kernels use.
  - The reference multiplies bf16 matrices in torch's order of summation. A sum near the midpoint of two bf16 numbers
    may therefore round to the other neighbour.
Only reference_nvfp4.py and its two helpers are loaded from the wheel, because importing the whole package needs CUDA.
Exit codes: 0 all agree except for known differences, 1 not, 2 usage, 77 torch or Transformer Engine is missing.
"""
import argparse
import importlib.util
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import types

import peer


def load_reference():
    """Loads the module reference_nvfp4 from the installed wheel. Empty stand-ins replace the packages that contain
    it."""
    spec = importlib.util.find_spec("transformer_engine")
    if spec is None or not spec.submodule_search_locations:
        peer.skip("transformer_engine is not installed: scripts/peers installs it")
    root = pathlib.Path(list(spec.submodule_search_locations)[0])
    recipes = root / "pytorch" / "custom_recipes"
    for name in ("transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.custom_recipes",
                 "transformer_engine.pytorch.tensor"):
        package = types.ModuleType(name)
        package.__path__ = []
        sys.modules[name] = package
    # The classes of reference_nvfp4 have base classes in Transformer Engine. They need these only to store which
    # layouts (rowwise, columnwise) a quantiser must produce.
    base = types.ModuleType("transformer_engine.pytorch.quantized_tensor")

    class Quantizer:
        def __init__(self, *, rowwise, columnwise):
            self.rowwise_usage, self.columnwise_usage = rowwise, columnwise

    base.Quantizer, base.QuantizedTensorStorage = Quantizer, type("QuantizedTensorStorage", (), {})
    sys.modules[base.__name__] = base
    utils = types.ModuleType("transformer_engine.pytorch.tensor.utils")
    utils.is_custom = lambda tensor: True
    sys.modules[utils.__name__] = utils
    module = None
    for name in ("reference_utils", "gemm", "reference_nvfp4"):
        full = f"transformer_engine.pytorch.custom_recipes.{name}"
        spec = importlib.util.spec_from_file_location(full, recipes / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        setattr(sys.modules["transformer_engine.pytorch.custom_recipes"], name, module)
        spec.loader.exec_module(module)
    return module


def unpacked(codes):
    """Unpacks bytes with two codes each. Returns an array with one code in each byte."""
    import numpy as np

    packed = codes.numpy()
    out = np.empty((packed.shape[0], 2 * packed.shape[1]), np.uint8)
    out[:, ::2], out[:, 1::2] = packed & 15, packed >> 4
    return out


class Comparison:
    """Counts numbers that agree, or that differ for a known reason. Any other difference fails."""

    def __init__(self):
        self.compared = self.negative_zeros = 0

    def codes(self, what, found, wanted):
        import numpy as np

        signed = (found == 8) & (wanted == 0)
        self.negative_zeros += int(signed.sum())
        wrong = np.argwhere((found != wanted) & ~signed)
        if wrong.size:
            at = tuple(wrong[0])
            raise peer.Failure(f"{what}: {len(wrong)} of {found.size} codes differ, the first at {at}: {found[at]}, "
                               f"Transformer Engine's reference {wanted[at]}")
        self.compared += found.size

    def bytes(self, what, found, wanted):
        import numpy as np

        if found.shape != wanted.shape or not np.array_equal(found, wanted):
            raise peer.Failure(f"{what}: block scales {found.ravel()[:4]}, Transformer Engine's reference {wanted.ravel()[:4]}")
        self.compared += found.size


def tensors(torch, shapes, count):
    """Yields normal and heavy-tailed tensors, rows of different magnitudes, and blocks of zeros with a -0, in fp32 and bf16."""
    generator = torch.Generator().manual_seed(4)
    for i in range(count):
        x = torch.randn(shapes[i % len(shapes)], generator=generator)
        if i % 4 == 1:
            x = x * torch.exp(torch.randn(x.shape, generator=generator))
        if i % 4 == 2:
            x = x * torch.exp2(torch.randint(-14, 3, (x.shape[0], 1), generator=generator).float())
        if i % 4 == 3:
            x[:16, :16] = 0
            x[-1, -1] = -0.0
        yield x.bfloat16().float() if i % 2 else x


def compare_casts(torch, reference, program, folder, count, comparison):
    import numpy as np

    for x in tensors(torch, [(16, 48), (32, 16), (64, 64)], count):
        for granularity, tile, axes in (("nvfp4", (1, 16), (1, 0)), ("nvfp4_16x16", (16, 16), (1,))):
            quantiser = reference.NVFP4QuantizerRef(dtype=reference.reference_utils.Fp4Formats.E2M1, quant_tile_shape=tile)
            made = quantiser.quantize(x)
            np.save(folder / "in.npy", x.numpy())
            for axis in axes:
                source, target = folder / "in.npy", folder / "out.npz"
                target.unlink(missing_ok=True)
                command = [program, "convert", "--to", "e2m1fn", "--scale-rule", "te_nvfp4", "--granularity", granularity]
                done = subprocess.run([*command, *(["--axis", "0"] if axis == 0 else []), source, "-o", target],
                                      capture_output=True, text=True)
                if done.returncode != 0:
                    raise peer.Failure(f"convert {granularity}: exit code {done.returncode}: {done.stderr.strip()}")
                ours = np.load(target)
                what = f"{granularity} along axis {axis}"
                codes, scales = (made.data, made.scale) if axis == 1 else (made.data_t, made.scale_t)
                found_codes, found_scales = ours["codes"], ours["scale_codes"].reshape(-1)
                wanted_scales = scales.view(torch.uint8).numpy()
                if axis == 0:
                    found_codes = found_codes.T
                    found_scales = ours["scale_codes"].reshape(x.shape[0] // 16, x.shape[1]).T.reshape(-1)
                if tile == (16, 16):
                    wanted_scales = wanted_scales[::16]  # the reference repeats the scale for each row of the tile
                comparison.bytes(what, found_scales, wanted_scales.reshape(-1))
                comparison.codes(what, found_codes, unpacked(codes))


def safetensors(path):
    """Returns the fp32 arrays of a safetensors file by name."""
    import numpy as np

    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    arrays = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            first, last = entry["data_offsets"]
            arrays[name] = np.frombuffer(data[8 + size + first:8 + size + last], np.float32).reshape(entry["shape"])
    return arrays


def compare_hadamard(torch, reference, program, folder, comparison):
    """Compares the activation operand of weight gradients. The Hadamard transform mixes the activations along the
    tokens, and the cast uses the amax of the mixed values."""
    import numpy as np

    done = subprocess.run([program, "train", "--policy", "te-nvfp4", "--size", "tiny", "--steps", "1", "--seeds", "0", "--dump-step", "0",
                           folder / "step.safetensors", "--eval-batches", "1", "--no-report", "-q", "--out", folder / "run"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise peer.Failure(f"train: exit code {done.returncode}: {done.stderr.strip()}")
    arrays = safetensors(folder / "step.safetensors")
    values = reference.cast_from_fp4x2(torch.arange(16, dtype=torch.uint8).reshape(1, 16), torch.float32)[0, ::2].numpy()
    rounded_otherwise = total = 0
    for block in (0, 1):
        x = torch.from_numpy(arrays[f"block.{block}.norm2:forward.out"].copy()).reshape(-1, 64).bfloat16()
        quantiser = reference.NVFP4QuantizerRef(dtype=reference.reference_utils.Fp4Formats.E2M1, quant_tile_shape=(1, 16), with_rht=True)
        made = quantiser.quantize(x)
        codes = unpacked(made.data_t)
        scale = np.float32(1) / np.minimum(np.float32(2688) / made.global_amax_col.numpy(), np.finfo(np.float32).max)
        blocks = made.scale_t.float().numpy().repeat(16, axis=1)
        wanted = (values[codes] * blocks) * scale
        found = arrays[f"block.{block}.mlp.up:weight_grad.b"].reshape(x.shape).T
        different = found != wanted
        rounded_otherwise += int(different.sum())
        total += different.size
        # If a bf16 number is rounded to its neighbour, the code changes at most to a neighbouring code.
        far = np.abs(found - wanted) > np.maximum(np.abs(wanted) * 0.51, blocks * scale * 0.51)
        if far.any() or different.mean() > 0.01:
            raise peer.Failure(f"block {block}: {int(different.sum())} of {different.size} mixed values differ, {int(far.sum())} of them by "
                               "more than a code")
    comparison.compared += total
    print(f"  hadamard: {total - rounded_otherwise} of {total} mixed values agree; {rounded_otherwise} differ because a bf16 sum rounds to the other neighbour")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--macheps", type=pathlib.Path, default=pathlib.Path("build/quick/experiments/macheps"))
    options.add_argument("--tensors", type=int, default=24)
    asked = options.parse_args()
    torch = peer.need("torch")
    peer.need("numpy")
    reference = load_reference()
    comparison = Comparison()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            compare_casts(torch, reference, asked.macheps.resolve(), folder, asked.tensors, comparison)
            compare_hadamard(torch, reference, asked.macheps.resolve(), folder, comparison)
    except peer.Failure as failure:
        print(f"FAILED {failure}")
        return 1
    print(f"  macheps keeps the sign of -0 in {comparison.negative_zeros} places where the reference does not")
    print(f"nvfp4: {comparison.compared} numbers agree with Transformer Engine's reference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
