// SPDX-License-Identifier: Apache-2.0
#include "emulation/shape_checks.hpp"

#include "core/error.hpp"
#include "emulation/matmul/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace macheps::shapes {

namespace {

std::string text(const Shape& shape) {
    std::string sizes;
    for (int i = 0; i < shape.rank(); ++i) sizes += fmt::format("{}{}", i == 0 ? "" : ",", shape[i]);
    return fmt::format("[{}]", sizes);
}

/// Throws an Error that names the operation and the given shapes, unless `ok` is true.
void require(bool ok, std::string_view operation, std::string_view wanted, std::initializer_list<Shape> shapes) {
    if (ok) return;
    std::string given;
    for (const Shape& shape : shapes) given += fmt::format("{}{}", given.empty() ? "" : " ", text(shape));
    throw Error({.what = fmt::format("shapes disagree: {}", given),
                 .where = std::string(operation),
                 .fix = fmt::format("use {}", wanted)});
}

/// Throws Error if a non-empty operand has no data, or if its leading dimension `ld` is smaller than the length of its
/// rows.
void require_operand(const MatmulOperand& operand, const char* name, std::int64_t rows, std::int64_t columns) {
    const std::int64_t stored_columns = operand.transposed ? rows : columns;
    if (rows == 0 || columns == 0 || (operand.data != nullptr && operand.ld >= stored_columns)) return;
    throw Error(
        {.what = fmt::format("operand {} is {}, and ld is {}", name,
                             operand.data == nullptr ? "missing" : fmt::format("[{},{}]", rows, columns), operand.ld),
         .where = "matmul",
         .fix = fmt::format("pass a non-null pointer, and ld >= {}", stored_columns)});
}

}  // namespace

void same_count(std::string_view operation, std::initializer_list<Shape> shapes) {
    const std::int64_t count = shapes.begin()->count();
    require(std::all_of(shapes.begin(), shapes.end(), [=](const Shape& s) { return s.count() == count; }), operation,
            "the same number of elements", shapes);
}

void transfer(std::string_view operation, std::size_t host_values, const Shape& shape) {
    require(static_cast<std::int64_t>(host_values) == shape.count(), operation,
            fmt::format("a shape with {} elements, as on the host", host_values), {shape});
}

void tokens(std::string_view operation, std::span<const std::int32_t> tokens, std::int64_t limit) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] >= 0 && tokens[i] < limit) continue;
        throw Error({.what = fmt::format("token {} at position {} is out of range", tokens[i], i),
                     .where = std::string(operation),
                     .fix = fmt::format("use 0 to {}", limit - 1)});
    }
}

void scaled_cast(const Shape& in, const Shape& out, const Shape& scales, const ScaledCast& how) {
    same_count("scaled_cast", {in, out});
    const std::int64_t columns = in.columns(), rows = columns == 0 ? 0 : in.count() / columns;
    const ScaleGrid grid = scale_grid(*how.granularity, how.k_is_last, rows, columns);
    if (scales.count() != grid.rows * grid.columns) {
        throw Error(
            {.what = fmt::format("there are {} scales, but {} x {} groups", scales.count(), grid.rows, grid.columns),
             .where = "scaled_cast",
             .fix = "pass one scale for each group (see scale_grid())"});
    }
    if (!fits(*how.rule, *how.granularity)) {
        throw Error({.what = fmt::format("the scale rule {} does not support the granularity {}", how.rule->name,
                                         how.granularity->name),
                     .where = "scaled_cast",
                     .fix = fmt::format("use a rule such as {}", how.granularity->usual_rule)});
    }
}

void matmul(const Matmul& args) {
    if (args.m < 0 || args.n < 0 || args.k < 0 || args.batch_outer < 0 || args.batch_inner < 0) {
        throw Error({.what = fmt::format("a size is negative: m {}, n {}, k {}, batch {} x {}", args.m, args.n, args.k,
                                         args.batch_outer, args.batch_inner),
                     .where = "matmul",
                     .fix = "use sizes of 0 or more"});
    }
    require_possible(args);
    require_operand(args.a, "a", args.m, args.k);
    require_operand(args.b, "b", args.k, args.n);
    require_operand({.data = args.out, .ld = args.ld_out}, "out", args.m, args.n);
    if (args.addend != nullptr) require_operand({.data = args.addend, .ld = args.ld_addend}, "addend", args.m, args.n);
}

void map_backward(const elementwise::Unary& f, const Shape& x, const Shape& dout, const Shape& dx) {
    same_count(fmt::format("{}_backward", f.name), {x, dout, dx});
}

void embedding(const Shape& tokens, const Shape& wte, ConstView wpe, const Shape& out) {
    const std::int64_t n = wte.columns();
    const bool placed = wpe.data != nullptr;
    require((!placed || (wpe.columns() == n && wpe.rows() >= tokens.columns())) && out.columns() == n &&
                out.count() == tokens.count() * n,
            "embedding", "tokens [B,T], wte [V,C], wpe [>=T,C] or none, out [B,T,C]", {tokens, wte, wpe.shape, out});
}

void embedding_backward(const Shape& tokens, const Shape& dout, const Shape& dwte, ConstView dwpe) {
    const std::int64_t n = dwte.columns();
    const bool placed = dwpe.data != nullptr;
    require((!placed || (dwpe.columns() == n && dwpe.rows() >= tokens.columns())) && dout.columns() == n &&
                dout.count() == tokens.count() * n,
            "embedding_backward", "tokens [B,T], dout [B,T,C], dwte [V,C], dwpe [>=T,C] or none",
            {tokens, dout, dwte, dwpe.shape});
}

void layernorm(const Shape& x, const Shape& gamma, const Shape& beta, const Shape& out, const Shape& mean,
               const Shape& rstd) {
    const std::int64_t n = x.columns(), rows = x.rows();
    require(gamma.count() == n && beta.count() == n && out.count() == x.count() && mean.count() == rows &&
                rstd.count() == rows,
            "layernorm", "x [rows,C], gamma [C], beta [C], out [rows,C], mean [rows], rstd [rows]",
            {x, gamma, beta, out, mean, rstd});
}

void layernorm_backward(const Shape& x, const Shape& gamma, const Shape& mean, const Shape& rstd, const Shape& dout,
                        const Shape& dx, const Shape& dgamma, const Shape& dbeta) {
    const std::int64_t n = x.columns(), rows = x.rows();
    require(gamma.count() == n && dgamma.count() == n && dbeta.count() == n && dout.count() == x.count() &&
                dx.count() == x.count() && mean.count() == rows && rstd.count() == rows,
            "layernorm_backward", "x, dout, dx [rows,C], gamma, dgamma, dbeta [C], mean, rstd [rows]",
            {x, gamma, mean, rstd, dout, dx, dgamma, dbeta});
}

void rms_normalise(const Shape& x, const Shape& out, const Shape& rstd) {
    require(out.count() == x.count() && rstd.count() == x.rows(), "rms_normalise",
            "x [rows,C], out [rows,C], rstd [rows]", {x, out, rstd});
}

void rms_normalise_backward(const Shape& x, const Shape& rstd, const Shape& dout, const Shape& dx) {
    require(rstd.count() == x.rows() && dout.count() == x.count() && dx.count() == x.count(), "rms_normalise_backward",
            "x, dout, dx [rows,C], rstd [rows]", {x, rstd, dout, dx});
}

void multiply_columns(const Shape& x, const Shape& factors, const Shape& out) {
    require(factors.count() == x.columns() && out.count() == x.count(), "multiply_columns",
            "x [rows,C], factors [C], out the same as x", {x, factors, out});
}

void softmax_causal(const Shape& scores, const Shape& out) {
    const std::int64_t n = scores.columns();
    require(out.count() == scores.count() && (n == 0 || scores.rows() % n == 0), "softmax_causal",
            "scores [...,T,T], out the same", {scores, out});
}

void softmax_causal_backward(const Shape& p, const Shape& dp, const Shape& dscores) {
    const std::int64_t n = p.columns();
    require(dp.count() == p.count() && dscores.count() == p.count() && (n == 0 || p.rows() % n == 0),
            "softmax_causal_backward", "probabilities [...,T,T], the others the same", {p, dp, dscores});
}

void log_softmax(const Shape& x, const Shape& out) {
    require(out.count() == x.count(), "log_softmax", "x [rows,V], out the same", {x, out});
}

void nll(const Shape& logp, const Shape& targets) {
    require(targets.count() == logp.rows(), "nll", "logp [rows,V], targets [rows]", {logp, targets});
}

void cross_entropy(const Shape& logits, const Shape& targets) {
    require(targets.count() == logits.rows(), "cross_entropy", "logits [rows,V], targets [rows]", {logits, targets});
}

void nll_backward(const Shape& logp, const Shape& targets, const Shape& dx) {
    require(targets.count() == logp.rows() && dx.count() == logp.count(), "nll_backward",
            "logp [rows,V], targets [rows], dx [rows,V]", {logp, targets, dx});
}

void column_sum(const Shape& x, const Shape& out) {
    require(out.count() == x.columns(), "column_sum", "x [rows,C], out [C]", {x, out});
}

void sum_head_groups(const Shape& x, const Shape& out) {
    const bool ranks = x.rank() == 4 && out.rank() == 4;
    require(ranks && x[0] == out[0] && out[1] > 0 && x[1] % out[1] == 0 && x[2] == out[2] && x[3] == out[3],
            "sum_head_groups", "x [B,K*G,T,D], out [B,K,T,D]", {x, out});
}

void rotate(const Shape& x, const Shape& cos, const Shape& sin, const Shape& direct, const Shape& rotated) {
    const std::int64_t n = direct.columns(), width = 2 * cos.columns();
    const bool ranks = x.rank() == 3 && direct.rank() == 3;
    require(ranks && x[0] == direct[0] && x[1] == direct[1] && n <= x.columns() && width > 0 && n % width == 0 &&
                direct == rotated && cos == sin && cos.rows() >= x[1],
            "rotate", "x [B,T,W], cos and sin [>=T,D/2], direct and rotated [B,T,N], N <= W a multiple of D",
            {x, cos, sin, direct, rotated});
}

void adam(const char* operation, const Shape& p, const Shape& g, const Shape& m, const Shape& v) {
    same_count(operation, {p, g, m, v});
}

void sgd(const Shape& p, const Shape& g, const Shape& momentum, const Sgd& args) {
    require(g.count() == p.count() && (args.momentum == 0 || momentum.count() == p.count()), "sgd",
            "the same number of elements", {p, g, momentum});
}

Heads heads(std::string_view operation, const Shape& joined, std::int64_t first, const Shape& split) {
    const bool ranks = joined.rank() == 3 && split.rank() == 4;
    require(ranks && joined[0] == split[0] && joined[1] == split[2] && first >= 0 &&
                first + split[1] * split[3] <= joined[2],
            operation, fmt::format("[B,T,W] and [B,H,T,D], with {} + H*D at most W", first), {joined, split});
    return {.batch = split[0], .heads = split[1], .times = split[2], .width = split[3], .columns = joined[2]};
}

}  // namespace macheps::shapes
