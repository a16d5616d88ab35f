// SPDX-License-Identifier: Apache-2.0
// Backend: the interface to the tensor operations of a transformer. Every operation has one scalar definition: its
// formula is in this file, and its code is in emulation/definitions.hpp. Every engine returns exactly the bits of that
// definition.
//
// Values are stored as fp32. A cast rounds them to the values of a narrower format. The backend owns the memory of
// tensors, and this memory may be on a device. Only upload and download access host memory. All tensors are row-major
// and contiguous unless a leading dimension is given. NaN and Inf are data and never cause an error. An operation
// throws Error if its shapes disagree. In the formulas, "sum" means a sum by the lane rule of emulation/reduce.hpp. A
// product is rounded before it is added, unless the formula says "fma". Backward operations overwrite their outputs.
#pragma once
#include "core/rng.hpp"
#include "core/rounding.hpp"
#include "core/tally.hpp"
#include "core/tensor.hpp"
#include "emulation/elementwise.hpp"
#include "emulation/matmul/rule.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// A cast computes decode(encode(fl32(x * encode_scale))), where fl32 rounds to fp32. The result remains multiplied by
/// encode_scale.
struct Cast {
    Format format = fp32;
    Round round = Round::nearest_even;
    Overflow overflow = Overflow::nonsaturate;
    float encode_scale = 1;
    /// Key of the random words that Round::stochastic requires.
    /// Element i uses random_bits(key, i) >> (32 - random_bits).
    RngKey key = RngKey::none();
    int random_bits = 32;  ///< 1 to 32

    /// Returns whether stochastic rounding has the random words that it needs.
    MACHEPS_HD constexpr bool can_draw() const { return !(key == RngKey::none()) && random_bits > 0; }

    /// Returns whether the cast changes no value, except payloads of NaNs. Such a cast may be skipped.
    constexpr bool is_identity() const { return format == fp32 && encode_scale == 1; }
};

/// One operand of a matmul, possibly a batch of strided matrices.
struct MatmulOperand {
    const float* data = nullptr;
    std::int64_t ld = 0;                              ///< elements from one stored row to the next
    bool transposed = false;                          ///< stored as its transpose
    std::int64_t stride_outer = 0, stride_inner = 0;  ///< elements from one matrix of a batch to the next
    /// Format of the values. The result of some machines depends on it, because they give every subnormal number the
    /// smallest exponent of the format. Bits of a value that do not fit into the format are cut off. The result for a
    /// magnitude above the largest value of the format is unspecified.
    Format format = fp32;
    OperandScales scales{};  ///< the same for every matrix of a batch
};

/// Promise of the caller about a matmul under a causal mask, which lets an engine skip work. The promise does not
/// change the bits of any output that is read.
enum class Triangle : std::uint8_t {
    none,
    a_lower,    ///< a[i,p] is +0 for p > i
    a_upper,    ///< a[i,p] is +0 for p < i
    out_lower,  ///< out[i,j] is not read for j > i, and may hold anything there
};

/// Arguments of a matmul. It computes out[i,j] = cast(fl32(acc[i,j] * out_scale) + bias[j]), where `rule` defines the
/// sum acc (emulation/matmul/matmul.hpp).
/// Shapes: a [m,k], b [k,n], out [m,n], each batch_outer x batch_inner times; bias is [n], or null to add nothing.
/// Scales: a and b are already multiplied by their encode_scale, and out_scale is the product of their decode scales
/// (1: no multiplication). With bias_after_cast, the result is cast(cast(fl32(acc * out_scale)) + bias). The elements
/// of the random stream of out_cast are counted row-major over [batch_outer, batch_inner, m, n]. out must not overlap
/// an operand. acc is +0 if k is 0.
///
/// With an addend C [m,n], every sum starts with c[i,j] instead of +0. c[i,j] is a number of the machine's addend
/// format, in the units of the sum. With a promotion, partial sums are added to a main accumulator, whose initial value
/// is c[i,j]. Otherwise c[i,j] is the addend of the first instruction. C may use the memory of `out` if each c[i,j] is
/// stored at the place of out[i,j]. Pairwise, Kahan and exact sums, and sums that are split into slices or blocks, do
/// not accept an addend.
struct Matmul {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t batch_outer = 1, batch_inner = 1;
    MatmulOperand a{}, b{};
    float* out = nullptr;
    std::int64_t ld_out = 0, stride_out_outer = 0, stride_out_inner = 0;
    MatmulRule rule{};
    float out_scale = 1;
    const float* bias = nullptr;
    bool bias_after_cast = false;
    Cast out_cast{};
    Triangle triangle = Triangle::none;
    const float* addend = nullptr;  ///< C; null: +0
    std::int64_t ld_addend = 0, stride_addend_outer = 0, stride_addend_inner = 0;
};

/// Direction of a rotary embedding: forward rotates by the angles of the positions, backward rotates back (the
/// gradient).
enum class Turn : std::uint8_t { forward, backward };

/// Sums for comparing a tensor x with y, the result of a cast of x. They are computed in fp64 by the lane rule. Pairs
/// with a non-finite value are left out.
struct ErrorSums {
    double error2 = 0;  ///< (y - x)^2
    double x2 = 0, y2 = 0, xy = 0;
    std::uint64_t count = 0;
};

/// Counts of floor(log2 |x|) for the exponents -149 .. 127. Zeros and non-finite values are counted separately.
struct ExponentHistogram {
    static constexpr int lowest = -149, highest = 127;
    std::array<std::uint64_t, highest - lowest + 1> bins{};
    std::uint64_t zeros = 0, infinities = 0, nans = 0;
};

/// Statistics of one optimizer step on one tensor. The update u (`wanted`) is in fp32, before any cast. `moved` is the
/// new value minus the old value.
struct UpdateStats {
    std::uint64_t count = 0;
    std::uint64_t nonzero = 0;  ///< u != 0
    std::uint64_t lost = 0;     ///< u != 0 and the stored value did not change
    /// Number of second moments that did not change although the gradient or the moment itself was not 0.
    std::uint64_t frozen = 0;
    double wanted2 = 0;       ///< sum of u^2, fp64, lane rule
    double moved2 = 0;        ///< sum of moved^2
    double moved_wanted = 0;  ///< sum of moved * u
};

/// AdamW in fp32 with a rounding after each operation. As in torch's fused kernel, the constants are computed in fp64
/// and rounded once.
///   m'          = beta1*m + one_minus_beta1*g
///   v'          = beta2*v + one_minus_beta2*(g*g)
///   denominator = sqrt(v') / sqrt_bias2 + eps
///   u           = -(decay*p + (step_size*m') / denominator)     without the first term when decay == 0
///   p'          = value_cast(p + update_cast(u))
/// with decay = lr*weight_decay. m and v become m' and v' after their moment casts. UpdateStats records u before
/// update_cast.
///
/// If `arithmetic` is narrower than fp32, the operations and their order are those of torch's single-tensor kernel.
/// Each line is computed in fp32 from left to right and rounded once to `arithmetic`, to nearest even.
///   p = p * (1 - decay)                      left out when decay == 0
///   m = m + one_minus_beta1*(g - m)
///   v = beta2*v
///   v = v + one_minus_beta2*g*g
///   t = sqrt(v)
///   t = t / sqrt_bias2
///   t = t + eps
///   p = p - step_size*(m/t)
/// u is the new p before its last rounding, minus the old p. update_cast is not used, because every line is already
/// rounded.
struct AdamW {
    float beta1 = 0.9f, one_minus_beta1 = 0.1f, beta2 = 0.95f, one_minus_beta2 = 0.05f;
    float eps = 1e-8f;
    float step_size = 0;   ///< lr / (1 - beta1^t)
    float sqrt_bias2 = 1;  ///< sqrt(1 - beta2^t)
    float decay = 0;
    Format arithmetic = fp32;
    Cast value_cast{}, update_cast{}, moment1_cast{}, moment2_cast{};
};

/// SGD with momentum. The decay is added to the gradient, as torch.optim.SGD does.
///   d  = g + decay*p                         d is g itself when decay == 0
///   b  = momentum*b + d                      b is d itself when momentum == 0
///   u  = -(lr*b)
///   p' = value_cast(p + update_cast(u))
struct Sgd {
    float lr = 0, momentum = 0, decay = 0;
    Cast value_cast{}, update_cast{};
};

struct Adam;          // emulation/adam.hpp
struct ScaledCast;    // emulation/scaling/scaling.hpp
struct ScaledResult;  // emulation/scaling/scaling.hpp

/// Random words that one cast used: elements 0 .. count - 1 of the stream of `key`.
struct RandomDraw {
    RngKey key{};
    std::uint64_t count = 0;
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual std::string name() const = 0;

    // --- random words
    /// Records in `draws` which random words the casts of this backend use from now on. Null (the default) turns
    /// recording off. Tests use the list to check that no random word is used twice.
    void list_draws(std::vector<RandomDraw>* draws) { draws_ = draws; }
    /// Records that `cast` uses the random words of `count` elements (see list_draws). Every operation calls this
    /// function before its cast rounds the elements, and code outside the backend that rounds with a cast must also
    /// call it. Throws Error if the cast is stochastic and has no random words.
    void draw(std::string_view operation, const Cast& cast, std::int64_t count);

    // --- memory
    virtual Tensor empty(Shape shape) = 0;
    virtual TokenTensor empty_tokens(Shape shape) = 0;
    virtual void upload(std::span<const float> host, View out) = 0;
    virtual void upload(std::span<const std::int32_t> host, TensorView<std::int32_t> out) = 0;
    virtual void download(ConstView in, std::span<float> host) = 0;
    virtual void fill(View out, float value) = 0;
    virtual void copy(ConstView in, View out) = 0;

    // --- casts and their statistics
    /// Casts each element; in == out is allowed. Fills *tally if it is not null.
    virtual void cast(ConstView in, View out, const Cast& cast, Tally* tally = nullptr) = 0;
    /// Casts with one scale for each group of elements (emulation/scaling/scaling.hpp). in and out are [.., columns].
    /// Writes the decode scales to `scales`, whose shape is scale_grid(). in == out is not allowed.
    virtual ScaledResult scaled_cast(ConstView in, View out, View scales, const ScaledCast& how,
                                     Tally* tally = nullptr) = 0;
    /// Multiplies the output of scaled_cast by its decode scales: out = fl32(fl32(in * scale of its group) * factor).
    /// The contraction index k of the matmul is the last axis of the tensor if k_is_last, and the first axis otherwise.
    virtual void decode_groups(ConstView in, const OperandScales& scales, bool k_is_last, float factor, View out) = 0;
    /// Returns max |x| over all elements, the canonical NaN if any element is NaN, and 0 if x is empty.
    virtual float amax(ConstView x) = 0;
    virtual bool any_nonfinite(ConstView x) = 0;
    /// Compares x with y * decode_scale (decode_scale == 1: no multiplication).
    virtual ErrorSums compare(ConstView x, ConstView y, float decode_scale = 1) = 0;
    virtual ExponentHistogram exponents(ConstView x) = 0;
    /// Returns a hash of the bits of x: the sum over i, modulo 2^64, of a 64-bit mix of (i, bits of x[i]).
    virtual std::uint64_t bit_hash(ConstView x) = 0;

    // --- matmul
    virtual void matmul(const Matmul& args, Tally* tally = nullptr) = 0;

    // --- elementwise: any operation of emulation/elementwise.hpp; an output may be the same memory as an input
    /// out = f(x).
    virtual void map(const elementwise::Unary& f, ConstView x, View out) = 0;
    /// dx = gradient of x, where dout is the gradient of f(x).
    virtual void map_backward(const elementwise::Unary& f, ConstView x, ConstView dout, View dx) = 0;
    /// out = f(a, b).
    virtual void map(const elementwise::Binary& f, ConstView a, ConstView b, View out) = 0;
    /// out = f(a, b) with the same b for every element.
    virtual void map(const elementwise::Binary& f, ConstView a, float b, View out) = 0;
    void add(ConstView a, ConstView b, View out) { map(elementwise::Add{}, a, b, out); }
    void multiply(ConstView a, ConstView b, View out) { map(elementwise::Multiply{}, a, b, out); }
    void scale(ConstView in, float factor, View out) { map(elementwise::Multiply{}, in, factor, out); }

    // --- rows and columns
    /// out[r,:] = wte[tokens[r],:] + wpe[r mod T,:], without the second term when wpe is empty (View{}).
    /// tokens [B,T], wte [V,C], wpe [>=T,C], out [B,T,C].
    virtual void embedding(TokenView tokens, ConstView wte, ConstView wpe, View out) = 0;
    /// Adds the rows of dout, in row order, to the rows of dwte [V,C] and dwpe [>=T,C] that belong to their tokens and
    /// positions. Both tables start at +0. dwpe may be empty.
    virtual void embedding_backward(TokenView tokens, ConstView dout, View dwte, View dwpe) = 0;
    /// mean = sum(x)/C; d = x - mean; rstd = 1/sqrt(sum(d*d)/C + eps); out = (d*rstd)*gamma + beta. mean, rstd: [rows].
    virtual void layernorm(ConstView x, ConstView gamma, ConstView beta, float eps, View out, View mean, View rstd) = 0;
    /// xhat = (x-mean)*rstd; g = dout*gamma; dx = rstd*((g - sum(g)/C) - xhat*(sum(g*xhat)/C));
    /// dgamma = column sum of dout*xhat, dbeta = column sum of dout, both in row order from +0.
    virtual void layernorm_backward(ConstView x, ConstView gamma, ConstView mean, ConstView rstd, ConstView dout,
                                    View dx, View dgamma, View dbeta) = 0;
    /// rstd = 1/sqrt(sum(x*x)/C + eps); out = x*rstd. rstd: [rows]. out may be x.
    virtual void rms_normalise(ConstView x, float eps, View out, View rstd) = 0;
    /// xhat = x*rstd; dx = rstd*(dout - xhat*(sum(dout*xhat)/C)). dx may be x or dout.
    virtual void rms_normalise_backward(ConstView x, ConstView rstd, ConstView dout, View dx) = 0;
    /// out[r,c] = x[r,c] * factors[c]. factors [C]; out may be x.
    virtual void multiply_columns(ConstView x, ConstView factors, View out) = 0;
    /// Computes the softmax of rows of T scores. Row r of a [..., T, T] tensor uses columns 0 .. r mod T: top = max
    /// (NaN if there is a NaN), e = exp(s - top), out = e / sum(e). The masked columns of out are +0.
    virtual void softmax_causal(ConstView scores, View out) = 0;
    /// dscores = p*(dp - sum(p*dp)) in the visible columns, and +0 in the masked columns.
    virtual void softmax_causal_backward(ConstView probabilities, ConstView dprobabilities, View dscores) = 0;
    /// out = x - (top + log(sum(exp(x - top)))) per row, where top is the max of the row (NaN if there is a NaN).
    virtual void log_softmax(ConstView x, View out) = 0;
    /// Returns the mean over rows of -logp[r, target[r]]: the sum over rows by the lane rule, divided by the number of
    /// rows.
    virtual float nll(ConstView logp, TokenView targets) = 0;
    /// Returns the mean over rows of log(sum(exp(x - top))) + (top - x[target]), where top is the max of the row (NaN
    /// if there is a NaN). Mathematically, this is nll() of log_softmax(). It is computed from the logits in fp64.
    virtual double cross_entropy(ConstView logits, TokenView targets) = 0;
    /// dx = (exp(logp) - [column == target]) * factor.
    virtual void nll_backward(ConstView logp, TokenView targets, float factor, View dx) = 0;
    /// out[c] = x[0,c] + x[1,c] + ... from +0, in row order.
    virtual void column_sum(ConstView x, View out) = 0;
    /// Splits joined heads: out[b,h,t,d] = x[b,t,first + h*D + d]. x [B,T,W], out [B,H,T,D].
    virtual void split_heads(ConstView x, std::int64_t first, View out) = 0;
    /// Inverse of split_heads: out[b,t,first + h*D + d] = x[b,h,t,d]. The other columns of out [B,T,W] do not change.
    virtual void merge_heads(ConstView x, std::int64_t first, View out) = 0;
    /// out[b,k,t,d] = x[b,k*G,t,d] + ... + x[b,k*G + G-1,t,d] from +0, in that order. x [B,K*G,T,D], out [B,K,T,D].
    virtual void sum_head_groups(ConstView x, View out) = 0;
    /// Computes the two terms whose sum is the rotary embedding of x. Element i of a head is rotated together with
    /// element i + D/2. With c = cos[t, d mod D/2] and s = sin[t, d mod D/2] (-s instead of s for Turn::backward):
    ///   direct = x[d]*c;  rotated = (-x[d + D/2])*s in the first half of a head, x[d - D/2]*s in the second.
    /// The heads are the first N columns of x [B,T,W]. direct and rotated are [B,T,N], where N <= W is a multiple of D.
    /// cos and sin are [>=T,D/2].
    virtual void rotate(ConstView x, ConstView cos, ConstView sin, Turn turn, View direct, View rotated) = 0;

    // --- optimizer
    /// Returns sum(x*x) over all elements in fp32.
    virtual float sum_of_squares(ConstView x) = 0;
    virtual void adamw(View p, ConstView g, View m, View v, const AdamW& args, UpdateStats* stats = nullptr) = 0;
    /// Performs a step of Adam that rounds like the kernel of a framework (emulation/adam.hpp). All shapes are the
    /// same.
    virtual void adam(View p, ConstView g, View m, View v, const Adam& args, UpdateStats* stats = nullptr) = 0;
    virtual void sgd(View p, ConstView g, View momentum, const Sgd& args, UpdateStats* stats = nullptr) = 0;

  protected:
    /// Call the public draw() for each cast that an operation with these arguments applies.
    void draw(const Matmul& args);
    void draw(const AdamW& args, std::int64_t count);
    void draw(const Adam& args, std::int64_t count);
    void draw(const Sgd& args, std::int64_t count);

  private:
    std::vector<RandomDraw>* draws_ = nullptr;
};

}  // namespace macheps
