# SPDX-License-Identifier: Apache-2.0
"""PyTorch's fp32 layer norm on a CPU, forward and backward, with its orders of summation. acid.py compares it with PyTorch.

The orders are those of aten/src/ATen/native/cpu/layer_norm_kernel.cpp and moments_utils.h. The multiply-adds that the
compiler fused were inferred from results. The kernels are those for AVX2, which PyTorch uses on every CPU with AVX2 and
FMA, with one thread. A row consists of v whole vectors of 8 elements, n = 8 v. u(a b + c) is a fused multiply-add,
rounded once. Versions differ in how pairs of vectors join; `JOINS` has an entry for each version that was run. With
ATEN_CPU_CAPABILITY=default, PyTorch uses other kernels, which are not described here; avx2 and avx512 give the same
bits.

Mean and variance of a row: each lane runs Welford's update over 16 vectors, with rounded reciprocals r_i of the counts:
    d = x - mean;  mean = u(d r_i + mean);  squares = u(d (x - mean) + squares)
After every 16 vectors, the lane's pair (mean, squares) joins the previous pairs in a cascade. At the end, the lanes join one
after another. To join (na, a) and (nb, b), let c = na / (na + nb) and d = mean_a - mean_b. In 2.9.1, and for the lanes in both
versions:
    mean = u(c d + mean_b);  squares = squares_b + u(((d d) c) nb + squares_a)
In the cascade of 2.15.0:
    mean = c d + mean_b;  squares = u((c d) (d nb) + (squares_a + squares_b)), where every other product is rounded
The result is:
    out = u(((x - mean) rstd) gamma + beta),  rstd = 1 / sqrt(squares / n + eps)
Backward: each sum adds the rounded products vector by vector, in order. The 8 lanes of the result are then added in
three steps. Each step adds the two halves of the vector:
    ds = sum (dy x) gamma, db = sum dy gamma
    b = (((u(db mean - ds) rstd) rstd) rstd) / n,  c = u(-b mean - (db rstd) / n),  dx = u(b x + (rstd dy) gamma) + c
    for each row, starting from zero: dgamma = u(dy u(rstd x - rstd mean) + dgamma),  dbeta = dbeta + dy
"""
import numpy as np

F = np.float32
LANES, CHUNK = 8, 16


def fma(a, b, c):
    """Returns the fp32 fused multiply-add a b + c. The fp64 sum is rounded to odd, so the rounding to fp32 is
    correct."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), np.asarray(c, np.float64)
    total = product + addend
    part = total - product
    lost = (product - (total - part)) + (addend - part)
    bits = total.view(np.int64)
    # Round to odd: if the sum was rounded away from zero, move it back by one ulp; if any bits were lost, set the last
    # bit.
    back = (lost != 0) & (np.signbit(lost) != np.signbit(total))
    odd = np.where(lost != 0, (bits - back) | 1, bits)
    return odd.view(np.float64).astype(F)


def _spread(value, like):
    return np.broadcast_to(F(value), like.shape)


def _join(left, right):
    """Joins `left` and `right` as PyTorch 2.9.1 does. Each is (count, mean, squares)."""
    (na, mean_a, squares_a), (nb, mean_b, squares_b) = left, right
    share = _spread(F(na) / F(na + nb), mean_b)
    d = mean_a - mean_b
    return na + nb, fma(share, d, mean_b), squares_b + fma(d * d * share, _spread(nb, mean_b), squares_a)


def _join_rounded(left, right):
    """Joins `left` and `right` as PyTorch 2.15.0 does. The new mean and the new squares both use the rounded product
    c d, where c = na / (na + nb) and d = mean_a - mean_b."""
    (na, mean_a, squares_a), (nb, mean_b, squares_b) = left, right
    d = mean_a - mean_b
    moved = _spread(F(na) / F(na + nb), mean_b) * d
    return na + nb, mean_b + moved, fma(moved, d * _spread(nb, mean_b), squares_a + squares_b)


# Maps each version of PyTorch that was run to the function that joins two triples (count, mean, squares) as this
# version does.
JOINS = {"2.9.1": _join, "2.15.0": _join_rounded}


def described(version):
    """Returns whether `JOINS` has an entry for this version of PyTorch, such as "2.15.0+cu132"."""
    return version.split("+")[0] in JOINS


def moments(x, version):
    """Returns the mean and variance of each row of x [rows, n] in a version of PyTorch. n is a multiple of 8."""
    join = JOINS[version.split("+")[0]]
    rows, n = x.shape
    assert n % LANES == 0 and n > 0, "rows of whole vectors"
    vectors = n // LANES
    chunks = -(-vectors // CHUNK)
    depth = max(1, (chunks - 1).bit_length())
    zero = np.zeros((rows, LANES), F)
    levels = [(0, zero, zero)] * depth
    for chunk in range(chunks):
        count, mean, squares = min(CHUNK, vectors - chunk * CHUNK), zero, zero
        for i in range(count):
            at = (chunk * CHUNK + i) * LANES
            values = x[:, at:at + LANES]
            d = values - mean
            mean = fma(d, _spread(F(1) / F(i + 1), d), mean)
            squares = fma(d, values - mean, squares)
        levels[0] = join((count, mean, squares), levels[0])
        level, number = 1, chunk + 1
        while level < depth and number % 2 == 0:
            levels[level] = join(levels[level - 1], levels[level])
            levels[level - 1] = (0, zero, zero)
            level, number = level + 1, number // 2
    for level in range(1, depth):
        if levels[level][0] + levels[0][0] > 0:
            levels[0] = join(levels[level], levels[0])
    row = (0, np.zeros(rows, F), np.zeros(rows, F))
    for lane in range(LANES):
        row = _join((vectors, levels[0][1][:, lane], levels[0][2][:, lane]), row)
    return row[1], row[2] / F(n)


def layer_norm(x, gamma, beta, eps, version):
    """Returns (out, mean, rstd) of x [rows, n] in a version of PyTorch."""
    mean, variance = moments(x, version)
    rstd = F(1) / np.sqrt(variance + F(eps))
    scaled = (x - mean[:, None]) * rstd[:, None]
    return fma(scaled, np.broadcast_to(gamma, x.shape), np.broadcast_to(beta, x.shape)), mean, rstd


def _sum(left, right):
    """Returns the sum of left * right over each row. The vectors of a row are added in order. Then the second half of
    the lanes is added to the first half until one lane is left."""
    at = lambda i: slice(i * LANES, (i + 1) * LANES)
    total = left[:, at(0)] * right[:, at(0)]
    for i in range(1, left.shape[1] // LANES):
        total = total + left[:, at(i)] * right[:, at(i)]
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return total[:, 0]


def layer_norm_backward(dy, x, mean, rstd, gamma):
    """Returns (dx, dgamma, dbeta)."""
    rows, n = x.shape
    column, whole = lambda v: np.broadcast_to(v[:, None], x.shape), np.broadcast_to(gamma, x.shape)
    ds, db, scale = _sum(dy * x, whole), _sum(dy, whole), F(1) / F(n)
    b = fma(db, mean, -ds) * rstd * rstd * rstd * scale
    c = fma(-b, mean, -(db * rstd * scale))
    dx = fma(column(b), x, column(rstd) * dy * whole) + column(c)
    dgamma, dbeta = np.zeros(n, F), np.zeros(n, F)
    for row in range(rows):
        a = np.full(n, rstd[row], F)
        dgamma = fma(dy[row], fma(a, x[row], np.full(n, -rstd[row] * mean[row], F)), dgamma)
        dbeta = dbeta + dy[row]
    return dx, dgamma, dbeta
