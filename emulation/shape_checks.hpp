// SPDX-License-Identifier: Apache-2.0
// Shape checks for the operations of Backend, used by every engine. Each function has the parameters of its operation.
// If the shapes are wrong, the function throws an Error with the operation, the given shapes and the expected shapes.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/scaling/scaling.hpp"

#include <span>
#include <string_view>

namespace macheps::shapes {

/// Checks that all shapes have the same number of elements.
void same_count(std::string_view operation, std::initializer_list<Shape> shapes);
void transfer(std::string_view operation, std::size_t host_values, const Shape& shape);
/// Checks that the tokens (in host memory) are valid row indices of a table with `limit` rows.
void tokens(std::string_view operation, std::span<const std::int32_t> tokens, std::int64_t limit);

void scaled_cast(const Shape& in, const Shape& out, const Shape& scales, const ScaledCast& how);
void matmul(const Matmul& args);
void map_backward(const elementwise::Unary& f, const Shape& x, const Shape& dout, const Shape& dx);
void embedding(const Shape& tokens, const Shape& wte, ConstView wpe, const Shape& out);
void embedding_backward(const Shape& tokens, const Shape& dout, const Shape& dwte, ConstView dwpe);
void layernorm(const Shape& x, const Shape& gamma, const Shape& beta, const Shape& out, const Shape& mean,
               const Shape& rstd);
void layernorm_backward(const Shape& x, const Shape& gamma, const Shape& mean, const Shape& rstd, const Shape& dout,
                        const Shape& dx, const Shape& dgamma, const Shape& dbeta);
void rms_normalise(const Shape& x, const Shape& out, const Shape& rstd);
void rms_normalise_backward(const Shape& x, const Shape& rstd, const Shape& dout, const Shape& dx);
void multiply_columns(const Shape& x, const Shape& factors, const Shape& out);
void softmax_causal(const Shape& scores, const Shape& out);
void softmax_causal_backward(const Shape& p, const Shape& dp, const Shape& dscores);
void log_softmax(const Shape& x, const Shape& out);
void nll(const Shape& logp, const Shape& targets);
void cross_entropy(const Shape& logits, const Shape& targets);
void nll_backward(const Shape& logp, const Shape& targets, const Shape& dx);
void column_sum(const Shape& x, const Shape& out);
void sum_head_groups(const Shape& x, const Shape& out);
void rotate(const Shape& x, const Shape& cos, const Shape& sin, const Shape& direct, const Shape& rotated);
/// `operation` is adam or adamw.
void adam(const char* operation, const Shape& p, const Shape& g, const Shape& m, const Shape& v);
void sgd(const Shape& p, const Shape& g, const Shape& momentum, const Sgd& args);

/// Sizes of attention heads. In a joined tensor [B,T,W], the heads begin at column `first`. In a split tensor, they
/// have the shape [B,H,T,D].
struct Heads {
    std::int64_t batch = 0, heads = 0, times = 0, width = 0, columns = 0;
};
Heads heads(std::string_view operation, const Shape& joined, std::int64_t first, const Shape& split);

}  // namespace macheps::shapes
