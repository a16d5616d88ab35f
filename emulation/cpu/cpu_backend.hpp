// SPDX-License-Identifier: Apache-2.0
// CpuBackend: the tensor operations on a CPU, with vector code and threads.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

#include <functional>
#include <memory>

namespace macheps {

/// The CPU engine. Results have the same bits for every instruction set and every number of threads. Call one operation
/// at a time; an operation shares its own work between the threads. The memory of a freed tensor is kept for the next
/// tensor of the same size, so that a training step does not allocate. Tensors may outlive the backend.
class CpuBackend final : public Backend {
  public:
    /// Starts `threads` threads; 0 means every core that this process may use. Throws Error (usage) if `threads` is
    /// negative or this CPU lacks `simd`.
    explicit CpuBackend(int threads = 0, Simd simd = chosen_simd());
    /// Uses the threads of `pool`, which must outlive the backend. Operations that are called within a task of that
    /// pool run serially.
    explicit CpuBackend(ThreadPool& pool, Simd simd = chosen_simd());
    ~CpuBackend() override;

    std::string name() const override;  ///< such as "cpu.avx512.2"
    Simd simd() const { return simd_; }
    int threads() const { return pool_.threads(); }

    Tensor empty(Shape shape) override;
    TokenTensor empty_tokens(Shape shape) override;
    void upload(std::span<const float> host, View out) override;
    void upload(std::span<const std::int32_t> host, TensorView<std::int32_t> out) override;
    void download(ConstView in, std::span<float> host) override;
    void fill(View out, float value) override;
    void copy(ConstView in, View out) override;

    void cast(ConstView in, View out, const Cast& cast, Tally* tally = nullptr) override;
    ScaledResult scaled_cast(ConstView in, View out, View scales, const ScaledCast& how,
                             Tally* tally = nullptr) override;
    void decode_groups(ConstView in, const OperandScales& scales, bool k_is_last, float factor, View out) override;
    float amax(ConstView x) override;
    bool any_nonfinite(ConstView x) override;
    ErrorSums compare(ConstView x, ConstView y, float decode_scale = 1) override;
    ExponentHistogram exponents(ConstView x) override;
    std::uint64_t bit_hash(ConstView x) override;

    void matmul(const Matmul& args, Tally* tally = nullptr) override;

    void map(const elementwise::Unary& f, ConstView x, View out) override;
    void map_backward(const elementwise::Unary& f, ConstView x, ConstView dout, View dx) override;
    void map(const elementwise::Binary& f, ConstView a, ConstView b, View out) override;
    void map(const elementwise::Binary& f, ConstView a, float b, View out) override;

    void embedding(TokenView tokens, ConstView wte, ConstView wpe, View out) override;
    void embedding_backward(TokenView tokens, ConstView dout, View dwte, View dwpe) override;
    void layernorm(ConstView x, ConstView gamma, ConstView beta, float eps, View out, View mean, View rstd) override;
    void layernorm_backward(ConstView x, ConstView gamma, ConstView mean, ConstView rstd, ConstView dout, View dx,
                            View dgamma, View dbeta) override;
    void rms_normalise(ConstView x, float eps, View out, View rstd) override;
    void rms_normalise_backward(ConstView x, ConstView rstd, ConstView dout, View dx) override;
    void multiply_columns(ConstView x, ConstView factors, View out) override;
    void softmax_causal(ConstView scores, View out) override;
    void softmax_causal_backward(ConstView probabilities, ConstView dprobabilities, View dscores) override;
    void log_softmax(ConstView x, View out) override;
    float nll(ConstView logp, TokenView targets) override;
    double cross_entropy(ConstView logits, TokenView targets) override;
    void nll_backward(ConstView logp, TokenView targets, float factor, View dx) override;
    void column_sum(ConstView x, View out) override;
    void split_heads(ConstView x, std::int64_t first, View out) override;
    void merge_heads(ConstView x, std::int64_t first, View out) override;
    void sum_head_groups(ConstView x, View out) override;
    void rotate(ConstView x, ConstView cos, ConstView sin, Turn turn, View direct, View rotated) override;

    float sum_of_squares(ConstView x) override;
    void adamw(View p, ConstView g, View m, View v, const AdamW& args, UpdateStats* stats = nullptr) override;
    void adam(View p, ConstView g, View m, View v, const Adam& args, UpdateStats* stats = nullptr) override;
    void sgd(View p, ConstView g, View momentum, const Sgd& args, UpdateStats* stats = nullptr) override;

  private:
    class Memory;

    /// Calls work(first, last) on ranges that cover [0, count). If the work is too small to wake a thread, the calling
    /// thread does all of it. `cost` is the cost of one item, in additions of vector elements. Ranges begin at
    /// multiples of `grain`.
    void share(std::int64_t count, std::int64_t cost, const std::function<void(std::int64_t, std::int64_t)>& work,
               std::int64_t grain = 1);
    /// Runs an optimiser step over n elements, chunk by chunk, and sets *stats if it is not null.
    template <class Chunk>
    void update(std::int64_t n, UpdateStats* stats, const Chunk& chunk_kernel);

    Simd simd_;
    std::unique_ptr<ThreadPool> own_pool_;  ///< null if the pool belongs to the caller
    ThreadPool& pool_;
    std::shared_ptr<Memory> memory_;
};

}  // namespace macheps
