#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares scales and casts of macheps with torchao's on random tensors.

    build/peers/torchao-0.18.0/bin/python tests/peers/recipes.py --macheps build/quick/experiments/macheps

Decode scales and codes of `macheps convert --to` are compared bit for bit. Two families are covered: float8
(tensorwise, and rowwise with any scales and with powers of two) and MX blocks of 32 (floor, ceil, even, rceil). The
script counts and prints elements that differ for a known reason. In torchao 0.18:
  - rceil computes a logarithm, so its scale is wrong for an amax that is 1 or 2 ulps above the boundary of two scales.
  - A block with the scale byte 0 is multiplied by 2^126, or by 1 with rceil. Such blocks are not compared.
  - An infinite amax gives finite bytes, whereas torchao 0.19 gives the scale NaN. No random tensor has an infinite
    amax.
Emulated matmuls of torchao divide codes by the scale, and macheps multiplies by its reciprocal. The differences are counted.
Exit codes: 0 all agree except for known differences, 1 not, 2 usage, 77 torchao cannot be imported.
"""
import argparse
import enum
import pathlib
import subprocess
import sys
import tempfile

import peer


def import_torchao(torch):
    """Imports torchao. Before that, it defines the names that torchao imports from newer releases of torch. Nothing on
    a CPU calls them."""
    functional = torch.nn.functional
    for name in ("ScalingType", "SwizzleType"):
        if not hasattr(functional, name):
            setattr(functional, name, enum.Enum(name, ["none"]))
    for name in ("scaled_grouped_mm", "scaled_mm", "grouped_mm"):
        if not hasattr(functional, name):
            setattr(functional, name, None)
    return peer.need("torchao")


def convert(program, folder, x, fmt, rule, granularity):
    """Runs `macheps convert` on the array `x` and returns the arrays that it writes."""
    import numpy as np

    source, target = folder / "in.npy", folder / "out.npz"
    np.save(source, x)
    target.unlink(missing_ok=True)
    done = subprocess.run([program, "convert", "--to", fmt, "--scale-rule", rule, "--granularity", granularity, source, "-o", target],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise peer.Failure(f"convert {rule}/{granularity}: exit code {done.returncode}: {done.stderr.strip()}")
    return dict(np.load(target))


def same_bits(name, found, wanted):
    import numpy as np

    found, wanted = np.ascontiguousarray(found).ravel(), np.ascontiguousarray(wanted).ravel()
    if found.shape != wanted.shape:
        raise peer.Failure(f"{name}: {found.size} numbers, torchao has {wanted.size}")
    bits = {1: np.uint8, 4: np.uint32}[wanted.dtype.itemsize]
    different = np.flatnonzero(found.view(bits) != wanted.view(bits))
    if different.size:
        i = different[0]
        raise peer.Failure(f"{name}: {different.size} of {found.size} differ, the first is [{i}] {found[i]!r}, torchao {wanted[i]!r}")
    return found.size


def tensors(torch, shapes, count, seed):
    """Yields normal and heavy-tailed tensors, some with rows of very different magnitudes."""
    generator = torch.Generator().manual_seed(seed)
    for i in range(count):
        x = torch.randn(shapes[i % len(shapes)], generator=generator)
        if i % 3 == 1:
            x = x * torch.exp(torch.randn(x.shape, generator=generator))
        if i % 3 == 2:
            x = x * torch.exp2(torch.randint(-60, 60, (x.shape[0], 1), generator=generator).float())
        yield x


def compare_float8(torch, program, folder, count):
    from torchao.float8.float8_utils import amax_to_scale, to_fp8_saturated

    compared = 0
    for x in tensors(torch, [(16, 48), (3, 21), (64, 64)], count, 1):
        for fmt, dtype in (("e4m3fn", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
            for rule, granularity, power in (("ao_fp8", "tensor", False), ("ao_fp8", "row", False), ("ao_fp8_power", "row", True)):
                amax = x.abs().amax() if granularity == "tensor" else x.abs().amax(dim=1, keepdim=True)
                scale = amax_to_scale(amax, dtype, power)
                codes = to_fp8_saturated(x * scale, dtype).view(torch.uint8)
                found = convert(program, folder, x.numpy(), fmt, rule, granularity)
                what = f"{rule}/{granularity} {fmt}"
                compared += same_bits(what + " scales", found["scales"], (1.0 / scale).reshape(-1).numpy())
                compared += same_bits(what + " codes", found["codes"], codes.numpy())
    return compared


def compare_mx(torch, program, folder, count):
    import numpy as np
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    compared = near = tiny = 0
    modes = {"ao_floor": ScaleCalculationMode.FLOOR, "ao_ceil": ScaleCalculationMode.CEIL,
             "ao_even": ScaleCalculationMode.EVEN, "ao_rceil": ScaleCalculationMode.RCEIL}
    for index, tensor in enumerate(tensors(torch, [(8, 64), (5, 96), (32, 32)], count, 2)):
        for rule, mode in modes.items():
            for fmt, dtype in (("e4m3fn", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
                x = tensor.clone()
                if index % 2 == 1:
                    # Set the amax of each block to a boundary of two scales, or to one to four ulps above the boundary.
                    blocks = x.view(-1, 32)
                    ulps = torch.arange(blocks.shape[0]) % 5
                    blocks[:, 0] = torch.finfo(dtype).max * blocks.abs().amax().log2().ceil().exp2() * (1 + ulps * 2.0**-23)
                scale, data = to_mx(x, dtype, 32, mode)
                theirs = scale.view(torch.uint8).reshape(-1).numpy()
                found = convert(program, folder, x.numpy(), fmt, rule, "mx32")
                ours = found["scale_codes"].reshape(-1)
                usual = ours == theirs
                # With rceil, torchao's logarithm falls on the boundary although the amax is slightly above it.
                amax = x.reshape(-1, 32).abs().amax(dim=1).numpy()
                largest = np.float32(torch.finfo(dtype).max)
                edge = np.ldexp(largest, theirs.astype(np.int32) - 127)
                misses = ~usual & (rule == "ao_rceil") & (amax > edge) & (amax <= edge * np.float32(1 + 2**-21))
                near += int(misses.sum())
                if not (usual | misses).all():
                    raise peer.Failure(f"{rule} {fmt}: scale bytes {ours[~(usual | misses)][:4]}, torchao {theirs[~(usual | misses)][:4]}")
                held = usual & (ours != 0)
                tiny += int((usual & (ours == 0)).sum())
                mine = found["codes"].reshape(-1, 32)[held]
                compared += same_bits(f"{rule} {fmt} codes", mine, data.view(torch.uint8).reshape(-1, 32).numpy()[held]) + ours.size
    print(f"  mx: torchao's logarithm gives {near} wrong scales for an amax just above a boundary; {tiny} blocks with the scale byte 0 not compared")
    return compared


def compare_emulated(torch, program, folder, count):
    """Compares decoded values. torchao's emulate mode computes code / s with the scale s, and macheps
    computes code * fl(1 / s)."""
    from torchao.float8.float8_utils import amax_to_scale, to_fp8_saturated

    different = total = 0
    for x in tensors(torch, [(32, 64)], count, 3):
        scale = amax_to_scale(x.abs().amax(), torch.float8_e4m3fn)
        divided = to_fp8_saturated(x * scale, torch.float8_e4m3fn).float() / scale
        ours = torch.from_numpy(convert(program, folder, x.numpy(), "e4m3fn", "ao_fp8", "tensor")["decoded"])
        ulps = (divided.view(torch.int32) - ours.view(torch.int32)).abs()
        if int(ulps.max()) > 1:
            raise peer.Failure(f"a decoded value is {int(ulps.max())} ulps from torchao's quotient")
        different += int((ulps != 0).sum())
        total += ulps.numel()
    print(f"  emulate mode: q / s and q fl(1 / s) differ in the last bit of {100 * different / total:.0f} % of {total} values")
    return total


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--macheps", type=pathlib.Path, default=pathlib.Path("build/quick/experiments/macheps"))
    options.add_argument("--tensors", type=int, default=30)
    asked = options.parse_args()
    torch = peer.need("torch")
    torchao = import_torchao(torch)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, compare in (("float8", compare_float8), ("mx", compare_mx), ("emulated", compare_emulated)):
                compared = compare(torch, asked.macheps, pathlib.Path(folder), asked.tensors)
                print(f"{name}: {compared} numbers agree with torchao {torchao.__version__}")
    except peer.Failure as failure:
        print(f"FAILED {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
