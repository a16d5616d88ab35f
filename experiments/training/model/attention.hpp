// SPDX-License-Identifier: Apache-2.0
// Causal multi-head attention without its two linear layers: rotary position embedding (if the model has it), scores,
// softmax, and the weighted sum of the values (mix).
#pragma once
#include "experiments/training/model/config.hpp"
#include "experiments/training/model/layers.hpp"
#include "experiments/training/model/rope.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace macheps::training {

/// Attention with H query heads and K key heads, where K divides H. Query heads k H/K to (k+1) H/K - 1 share the keys
/// and values of key head k. Their scores are computed by one matmul with T H/K rows. In the backward pass, dK and dV
/// are computed separately for every query head. They are then added in the order of the heads, as if keys and values
/// had been repeated.
class Attention {
  public:
    Attention(Backend& backend, Rounder& rounder, const policy::ResolvedPolicy& policy, const std::string& block,
              const ModelConfig& config, std::int64_t batch);
    /// Maps qkv [B*T, (H+2K) D] to the output [B*T, H D]. D is the width of a head.
    Value forward(Rounder& rounder, Value qkv);
    /// Maps the gradient of the output, dout [B*T, H D], to the gradient of qkv, dqkv [B*T, (H+2K) D].
    Value backward(Rounder& rounder, Value dout, Tensor& dqkv);

  private:
    struct ProductSlots {
        ProductSlots(const policy::ResolvedPolicy& policy, const std::string& site, bool grouped);
        Slot forward_a, forward_b, forward_out, grad_in, grad_a_a, grad_a_b, grad_a_out, grad_b_a, grad_b_b, grad_b_out;
        Slot grad_b_sum;  ///< rounds the sum over query heads that share a key head; unused if none do
        policy::MatmulChoice forward, grad_a, grad_b;
    };

    struct Product {
        const Slot &a_slot, &b_slot, &out_slot;  ///< slots that rounded a and b, and slot that rounds the result
        const policy::MatmulChoice& choice;
        Triangle triangle = Triangle::none;
        float factor = 1;  ///< multiplies every element of the result, which saves a separate pass
    };
    Format product(Rounder& rounder, const Product& how, Value a, bool a_transposed, Value b, bool b_transposed,
                   View out);
    Format scale_scores(Rounder& rounder, const Slot& slot, ConstView in, View out);
    Triangle promise(Triangle triangle, std::initializer_list<const Slot*> on_the_way) const;
    Value group_sum(Rounder& rounder, const Slot& slot, Value per_head, Tensor& sum);

    Backend& backend_;
    std::int64_t batch_, context_, heads_, key_heads_, head_width_, qkv_width_;
    float scale_;
    std::optional<Rope> rope_;
    ProductSlots scores_, mix_;
    Slot forward_scaled_, grad_scaled_, softmax_out_, softmax_grad_in_, softmax_grad_out_;
    Value q_, k_, v_, p_;
    Tensor q_tensor_, k_tensor_, v_tensor_, s_, p_tensor_, o_, merged_;
    Tensor q_cast_, k_cast_, p_cast_, v_cast_;
    Tensor do_, do_in_, do_cast_, v_cast2_, dp_, dp_in_, p_cast2_, do_cast2_, ds_, ds_in_, dsa_, dsb_, k_cast2_,
        q_cast2_;
    Tensor dq_, dk_, dv_, dk_sum_, dv_sum_, dturned_;
};

}  // namespace macheps::training
