#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs `macheps verify --library torch.cuda.*` with a fake PyTorch that computes sums with scripts/gpu/sums.py.
#     torch_test.sh MACHEPS SOURCE_FOLDER SCRATCH_FOLDER
set -u
macheps=$1 source=$2 place=$3
python3 -c 'import numpy' 2> /dev/null || { echo "MACHEPS-SKIPPED: numpy is missing"; exit 0; }
rm -rf "$place"
mkdir -p "$place/torch"
cat > "$place/torch/__init__.py" <<'PYTHON'
"""Fake PyTorch on a GPU. If the variable SUMS is not `claimed`, sums do not follow the claimed rule."""
import os
import sys

import numpy as np

sys.path.insert(0, os.environ["GPU_SCRIPTS"])
import sums

__version__ = "stand-in"
float32, bfloat16, float16, float8_e4m3fn = "torch.float32", "torch.bfloat16", "torch.float16", "torch.float8_e4m3fn"
FORMATS = {float32: "fp32", bfloat16: "bf16", float16: "fp16", float8_e4m3fn: "e4m3fn"}
KIND = os.environ.get("SUMS", "claimed")


class Tensor:
    def __init__(self, values, dtype=float32):
        self.values, self.dtype = np.asarray(values, np.float32), dtype

    def to(self, dtype):
        return Tensor(self.values, dtype)

    def float(self):
        return Tensor(self.values)

    def t(self):
        return Tensor(self.values.T, self.dtype)

    def reshape(self, *shape):
        return Tensor(self.values.reshape(*shape), self.dtype)

    cuda = cpu = contiguous = lambda self: self
    numpy = lambda self: self.values

    def codes(self):
        x = np.ascontiguousarray(self.values)
        if self.dtype == float8_e4m3fn:
            magnitudes = sums.operands.decode("e4m3fn", np.arange(127, dtype=np.uint8)).astype(np.float32)
            return (np.searchsorted(magnitudes, np.abs(x)) | np.where(np.signbit(x), 128, 0)).astype(np.uint8)
        return sums.codes(x, FORMATS[self.dtype])


def from_numpy(x):
    return Tensor(x)


def set_num_threads(count):
    pass


class cuda:
    is_available = staticmethod(lambda: "NO_DEVICE" not in os.environ)
    get_device_capability = staticmethod(lambda: (9, 0))
    get_device_name = staticmethod(lambda: "stand-in H100")
    synchronize = staticmethod(lambda: None)


class backends:
    class cuda:
        class matmul:
            allow_tf32 = False


def product(rule, a, b, out):
    """Returns a matrix product. sums.py adds finite numbers. A sum with a NaN, or with infinities of both signs, is NaN."""
    x, y = a.values, b.values
    total = sums.product(rule, FORMATS[a.dtype], FORMATS[a.dtype], Tensor(np.where(np.isfinite(x), x, 0), a.dtype).codes(),
                         Tensor(np.where(np.isfinite(y), y, 0), b.dtype).t().codes(), out)
    rows, columns = ~np.isfinite(x).all(1), ~np.isfinite(y).all(0)
    if rows.any() or columns.any():
        with np.errstate(invalid="ignore", over="ignore"):
            for i in range(x.shape[0]):
                terms = x[i][:, None].astype(np.float64) * y
                special = np.where(np.isfinite(terms), 0, terms).sum(0)
                total[i] = np.where(np.isfinite(special), total[i], special)
    return total


def fail():
    if "FAILS" in os.environ:
        raise RuntimeError("the stand-in fails")


def matmul(a, b):
    fail()
    rule = sums.Rule(0)
    if a.dtype != float32:
        rule = sums.Rule(16 if KIND == "claimed" else 8, 25)
    elif backends.cuda.matmul.allow_tf32:
        rule = sums.Rule(8, 25, convert="nearest_even" if KIND == "claimed" else "nearest_away")
    total = product(rule, a, b, FORMATS[a.dtype])
    return Tensor(sums.rounded(total, FORMATS[a.dtype]), a.dtype)


def _scaled_mm(a, b, scale_a, scale_b, out_dtype, use_fast_accum):
    rule = sums.Rule(32, 13, "e8m13", promote=0 if use_fast_accum else 128)
    order = "joint" if scale_a.values.size == 1 else "b_first" if KIND == "claimed" else "a_first"
    if KIND != "claimed" and order == "joint":
        rule = sums.Rule(32, 13, "e8m13", promote=128 if use_fast_accum else 0)
    return Tensor(sums.scaled(product(rule, a, b, "fp32"), scale_a.values, scale_b.values, order))
PYTHON
export PYTHONPATH=$place GPU_SCRIPTS=$source/scripts/gpu MACHEPS_PYTHON=python3 PYTHONDONTWRITEBYTECODE=1
failures=0
fail() { echo "$*"; failures=$((failures + 1)); }
# asks CODE NAME OPTION...: runs the verb, keeps its output, and checks its exit code.
asks() {
    local wanted=$1 code
    shift
    "$macheps" verify --library "$@" > "$place/out.txt" 2>&1
    code=$?
    [ "$code" -eq "$wanted" ] || { fail "verify --library $*: exit $code, expected $wanted"; cat "$place/out.txt"; }
}
has() { grep -qE -- "$1" "$place/out.txt" || { fail "verify lacks: $1"; cat "$place/out.txt"; }; }

# Every product follows the rule that is claimed for it, and its sum follows the claimed order.
for case in 'tf32 sm90.wgmma.tf32, operands rounded to tf32 by nearest_even' 'bf16 sm90.wgmma.bf16' \
    'scaled.tensor cublaslt.fp8.split' 'scaled.row.fast cublaslt.fp8.outer.fast'; do
    asks 0 "torch.cuda.${case%% *}" --shapes 1
    has "^library +cublasLt\..*64x48x144.* 2 classes +${case#* } .* equal$"
    has "^library +reveal:cublasLt\..*masks of FPRev +${case#* } .* equal$"
    has "^PyTorch stand-in, torch\..* on stand-in H100: 3 rows: 3 equal, 0 differ, 0 recorded, 0 failed"
done
# There is no claim for fp32.
asks 0 torch.cuda.fp32 --shapes 1
has ' recorded$'
has 'nothing is claimed; equal to fp32.chain'
# A rule given with --rule replaces the claim.
asks 0 torch.cuda.fp32 --shapes 1 --rule fp32.chain
has '3 rows: 3 equal'
asks 1 torch.cuda.scaled.row --shapes 1 --rule torch.rowwise.sm90
has 'not torch.rowwise.sm90: .*equal to .*cublaslt.fp8.outer'
# If the sums do not follow the claimed rule, the verdict is `differs`.
for case in tf32 scaled.tensor scaled.row; do
    SUMS=other asks 1 "torch.cuda.$case" --shapes 1
    has ' differs$'
    has '    not '
done
# Reports an operation that fails, a missing device, and unknown names.
FAILS=1 asks 1 torch.cuda.bf16 --shapes 1
has 'failed RuntimeError: the stand-in fails'
NO_DEVICE=1 asks 0 torch.cuda.bf16
has 'torch.cuda.bf16: absent: PyTorch stand-in finds no CUDA device'
NO_DEVICE=1 asks 4 torch.cuda.bf16 --require
asks 2 torch.cuda.fp4
has 'use one of torch.cuda.fp32, torch.cuda.tf32'
asks 2 torch.cuda.bf16 --rule no.such.rule

[ "$failures" -eq 0 ] && echo "verify --library torch.cuda: as described"
[ "$failures" -eq 0 ]
