// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/attention.hpp"

#include <algorithm>
#include <utility>

namespace macheps::training {

Attention::ProductSlots::ProductSlots(const policy::ResolvedPolicy& policy, const std::string& site, bool grouped)
    : forward_a(policy, site + ":forward.a"),
      forward_b(policy, site + ":forward.b"),
      forward_out(policy, site + ":forward.out"),
      grad_in(policy, site + ":grad.in"),
      grad_a_a(policy, site + ":grad_a.a"),
      grad_a_b(policy, site + ":grad_a.b"),
      grad_a_out(policy, site + ":grad_a.out"),
      grad_b_a(policy, site + ":grad_b.a"),
      grad_b_b(policy, site + ":grad_b.b"),
      grad_b_out(policy, site + ":grad_b.out"),
      forward(policy.matmul(site, "forward")),
      grad_a(policy.matmul(site, "grad_a")),
      grad_b(policy.matmul(site, "grad_b")) {
    if (grouped) grad_b_sum = Slot(policy, site + ":grad_b.sum");
}

Attention::Attention(Backend& backend, Rounder& rounder, const policy::ResolvedPolicy& policy, const std::string& block,
                     const ModelConfig& config, std::int64_t batch)
    : backend_(backend),
      batch_(batch),
      context_(config.context),
      heads_(config.heads),
      key_heads_(config.key_heads()),
      head_width_(config.head_width()),
      qkv_width_(config.qkv_width()),
      scale_(static_cast<float>(1.0 / macheps::sqrt(static_cast<double>(config.head_width())))),
      scores_(policy, block + "attn.scores", key_heads_ != heads_),
      mix_(policy, block + "attn.mix", key_heads_ != heads_),
      forward_scaled_(policy, block + "attn.scores:forward.scaled"),
      grad_scaled_(policy, block + "attn.scores:grad.scaled"),
      softmax_out_(policy, block + "attn.softmax:forward.out"),
      softmax_grad_in_(policy, block + "attn.softmax:grad.in"),
      softmax_grad_out_(policy, block + "attn.softmax:grad.out") {
    if (config.kind == ModelKind::llama) {
        rope_.emplace(backend, rounder, policy, block + "attn.rope", context_, head_width_, config.rope_theta);
    }
}

namespace {

/// Returns a view of x [B,T,W] that begins at column `first`. Each row contains all heads, one after the other.
template <class Viewed>
Viewed joined(Viewed x, std::int64_t first) {
    return {x.data + first, x.shape};
}

bool all_keep_zero(std::initializer_list<const Slot*> slots) {
    return std::all_of(slots.begin(), slots.end(), [](const Slot* slot) { return keeps_zero(*slot); });
}

}  // namespace

/// Computes out = op(a) op(b) for every pair of matrices, where op transposes or does nothing. Each tensor is [B,
/// heads, rows, columns] or joined, that is, [B, T, W] with all heads in each row.
Format Attention::product(Rounder& rounder, const Product& how, Value a, bool a_transposed, Value b, bool b_transposed,
                          View out) {
    const auto rows = [](const Shape& s) { return s.rank() == 3 ? s[1] : s[2]; };
    const auto columns = [this](const Shape& s) { return s.rank() == 3 ? head_width_ : s[3]; };
    const auto inner = [&](const Shape& s) { return s.rank() == 3 ? head_width_ : s[2] * s[3]; };
    const auto outer = [](const Shape& s) { return s.count() / s[0]; };
    const auto ld = [](const Shape& s) { return s[s.rank() - 1]; };
    const Shape &a_shape = a.view.shape, &b_shape = b.view.shape;
    Matmul args{.m = a_transposed ? columns(a_shape) : rows(a_shape),
                .n = b_transposed ? rows(b_shape) : columns(b_shape),
                .k = a_transposed ? rows(a_shape) : columns(a_shape),
                .batch_outer = batch_,
                .batch_inner = out.shape.rank() == 3 ? heads_ : out.shape[1]};
    const auto batched = [&](const Value& x, const Slot& slot, bool transposed) {
        MatmulOperand matrices = operand(x, slot, ld(x.view.shape), transposed);
        matrices.stride_outer = outer(x.view.shape);
        matrices.stride_inner = inner(x.view.shape);
        return matrices;
    };
    args.a = batched(a, how.a_slot, a_transposed);
    args.b = batched(b, how.b_slot, b_transposed);
    args.out = out.data;
    args.ld_out = ld(out.shape);
    args.stride_out_inner = inner(out.shape);
    args.stride_out_outer = outer(out.shape);
    args.rule = how.choice.rule;
    args.out_scale = product_scale(a, b) * how.factor;
    args.triangle = how.triangle;
    return rounder.matmul(how.out_slot, args, out.shape);
}

/// Computes out = in * scale, rounded as `slot` specifies. in == out is allowed. Returns the format on whose grid the
/// results lie.
Format Attention::scale_scores(Rounder& rounder, const Slot& slot, ConstView in, View out) {
    if (rounder.counting() || slot.rule.has_scale() || slot.rule.is_identity()) {
        backend_.scale(in, scale_, out);
        return rounder.apply_in_place(slot, out, fp32);
    }
    // A cast with a scale multiplies its input by the scale before it rounds. One such cast therefore computes the
    // product in fp32 and rounds it as the slot specifies, with the same results as two passes.
    Cast cast = rounder.cast_for(slot);
    cast.encode_scale = scale_;
    backend_.cast(in, out, cast);
    return slot.rule.format;
}

/// Returns `triangle` if the engine may rely on the zeros of the causal mask, else Triangle::none. This requires that
/// query heads do not share key heads, and that every slot between the mask and the matmul (`on_the_way`) keeps zeros.
Triangle Attention::promise(Triangle triangle, std::initializer_list<const Slot*> on_the_way) const {
    return key_heads_ == heads_ && all_keep_zero(on_the_way) ? triangle : Triangle::none;
}

/// Adds the gradients of the query heads that share a key head, and returns the sums. Returns `per_head` itself if no
/// heads share a key head.
Value Attention::group_sum(Rounder& rounder, const Slot& slot, Value per_head, Tensor& sum_tensor) {
    if (key_heads_ == heads_) return per_head;
    const View sum = sized(backend_, sum_tensor, {batch_, key_heads_, context_, head_width_});
    backend_.sum_head_groups(per_head.view, sum);
    return {sum, rounder.apply_in_place(slot, sum, fp32)};
}

namespace {

/// Returns a view of the same memory in which the rows of each sample are divided among `heads` heads.
template <class Viewed>
Viewed regrouped(Viewed x, std::int64_t heads) {
    const Shape& s = x.shape;
    if (s.rank() == 3) return x;  // joined tensors do not have shared heads
    return {x.data, {s[0], heads, s[1] * s[2] / heads, s[3]}};
}
Value regrouped(Value x, std::int64_t heads) { return {regrouped(x.view, heads), x.held, x.scale}; }

}  // namespace

Value Attention::forward(Rounder& rounder, Value qkv) {
    const Shape square{batch_, heads_, context_, context_}, per_head{batch_, heads_, context_, head_width_};
    const std::int64_t q_width = heads_ * head_width_, k_width = key_heads_ * head_width_;
    const ConstView in{qkv.view.data, {batch_, context_, qkv_width_}};
    Value turned{in, qkv.held};
    if (rope_) turned = rope_->forward(rounder, in, q_width + k_width);
    // The heads are copied to separate matrices if a slot rounds or observes their values, or if query heads share key
    // heads.
    const bool whole = key_heads_ == heads_;
    const auto part = [&](Value from, std::int64_t first, std::int64_t heads, Tensor& tensor,
                          std::initializer_list<const Slot*> readers) {
        const auto passed = [&](const Slot* slot) { return rounder.passes(*slot, from.held); };
        if (whole && std::all_of(readers.begin(), readers.end(), passed)) {
            return Value{joined(from.view, first), from.held};
        }
        const View out = sized(backend_, tensor, {batch_, heads, context_, head_width_});
        backend_.split_heads(from.view, first, out);
        return Value{out, from.held};
    };
    q_ = part(turned, 0, heads_, q_tensor_, {&scores_.forward_a, &scores_.grad_b_b});
    k_ = part(turned, q_width, key_heads_, k_tensor_, {&scores_.forward_b, &scores_.grad_a_b});
    v_ = part({in, qkv.held}, q_width + k_width, key_heads_, v_tensor_, {&mix_.forward_b, &mix_.grad_a_b});

    const View s = sized(backend_, s_, square);
    // The order of these casts is the order of the rows in sites.csv.
    const Value k = rounder.apply(scores_.forward_b, k_, k_cast_), q = rounder.apply(scores_.forward_a, q_, q_cast_);
    const bool masked_unseen = whole && rounder.unseen(scores_.forward_out) && rounder.unseen(forward_scaled_);
    const Triangle visible = masked_unseen ? Triangle::out_lower : Triangle::none;
    if (rounder.passes(scores_.forward_out, fp32) && product_scale(q, k) == 1) {
        product(rounder, {scores_.forward_a, scores_.forward_b, scores_.forward_out, scores_.forward, visible, scale_},
                regrouped(q, key_heads_), false, k, true, regrouped(s, key_heads_));
        rounder.apply_in_place(forward_scaled_, s, fp32);
    } else {
        product(rounder, {scores_.forward_a, scores_.forward_b, scores_.forward_out, scores_.forward, visible},
                regrouped(q, key_heads_), false, k, true, regrouped(s, key_heads_));
        scale_scores(rounder, forward_scaled_, s, s);
    }

    const View p = sized(backend_, p_tensor_, square);
    backend_.softmax_causal(s, p);
    p_ = {p, rounder.apply_in_place(softmax_out_, p, fp32)};

    const View merged = sized(backend_, merged_, {batch_, context_, q_width});
    const bool apart = !whole || rounder.watching();
    const View o = apart ? sized(backend_, o_, per_head) : merged;
    const Value v = rounder.apply(mix_.forward_b, v_, v_cast_), p_a = rounder.apply(mix_.forward_a, p_, p_cast_);
    const Format held = product(rounder,
                                {mix_.forward_a, mix_.forward_b, mix_.forward_out, mix_.forward,
                                 promise(Triangle::a_lower, {&softmax_out_, &mix_.forward_a})},
                                regrouped(p_a, key_heads_), false, v, false, regrouped(o, key_heads_));
    if (apart) backend_.merge_heads(o, 0, merged);
    return {{merged.data, {batch_ * context_, q_width}}, held};
}

Value Attention::backward(Rounder& rounder, Value dout, Tensor& dqkv_tensor) {
    const Shape per_head{batch_, heads_, context_, head_width_}, square{batch_, heads_, context_, context_};
    const std::int64_t q_width = heads_ * head_width_, k_width = key_heads_ * head_width_;
    const bool whole = key_heads_ == heads_;
    View split{const_cast<float*>(dout.view.data), {batch_, context_, q_width}};
    if (!whole || !rounder.passes(mix_.grad_in, dout.held) || !rounder.passes(mix_.grad_a_a, dout.held) ||
        !rounder.passes(mix_.grad_b_b, dout.held)) {
        split = sized(backend_, do_, per_head);
        backend_.split_heads({dout.view.data, {batch_, context_, q_width}}, 0, split);
    }
    const Value d_o = rounder.apply(mix_.grad_in, {split, dout.held}, do_in_);

    const bool apart = !whole || rounder.watching();
    const View dqkv = sized(backend_, dqkv_tensor, {batch_, context_, qkv_width_});
    const View together = rope_ ? sized(backend_, dturned_, {batch_, context_, q_width + k_width}) : dqkv;
    const auto gradient = [&](Tensor& tensor, View all, std::int64_t first) {
        return apart ? sized(backend_, tensor, per_head) : joined(all, first);
    };

    const View dp = sized(backend_, dp_, square), dv_heads = gradient(dv_, dqkv, q_width + k_width);
    const bool masked_unseen = whole && rounder.unseen(mix_.grad_a_out) && rounder.unseen(softmax_grad_in_);
    // As in the forward pass, the second operand is cast first.
    const Value v = rounder.apply(mix_.grad_a_b, v_, v_cast2_), do_a = rounder.apply(mix_.grad_a_a, d_o, do_cast_);
    const Format dp_held = product(rounder,
                                   {mix_.grad_a_a, mix_.grad_a_b, mix_.grad_a_out, mix_.grad_a,
                                    masked_unseen ? Triangle::out_lower : Triangle::none},
                                   regrouped(do_a, key_heads_), false, v, true, regrouped(dp, key_heads_));
    const Value do_b = rounder.apply(mix_.grad_b_b, d_o, do_cast2_), p = rounder.apply(mix_.grad_b_a, p_, p_cast2_);
    const Format dv_held = product(rounder,
                                   {mix_.grad_b_a, mix_.grad_b_b, mix_.grad_b_out, mix_.grad_b,
                                    promise(Triangle::a_upper, {&softmax_out_, &mix_.grad_b_a})},
                                   p, true, do_b, false, dv_heads);
    const Value dv = group_sum(rounder, mix_.grad_b_sum, {dv_heads, dv_held}, dv_sum_);

    const Value dp_in = rounder.apply(softmax_grad_in_, {dp, dp_held}, dp_in_);
    const View ds = sized(backend_, ds_, square);
    backend_.softmax_causal_backward(p_.view, dp_in.view, ds);
    Format ds_held = rounder.apply_in_place(softmax_grad_out_, ds, fp32);
    const Value ds_in = rounder.apply(scores_.grad_in, {ds, ds_held}, ds_in_);
    ds_held = scale_scores(rounder, grad_scaled_, ds_in.view, ds);

    const View dq = gradient(dq_, together, 0), dk_heads = gradient(dk_, together, q_width);
    const Value scaled{ds, ds_held};
    const auto triangle = [&](Triangle which, const Slot& operand) {
        return promise(which, {&softmax_grad_out_, &scores_.grad_in, &grad_scaled_, &operand});
    };
    const Value k = rounder.apply(scores_.grad_a_b, k_, k_cast2_), ds_a = rounder.apply(scores_.grad_a_a, scaled, dsa_);
    const Format dq_held = product(rounder,
                                   {scores_.grad_a_a, scores_.grad_a_b, scores_.grad_a_out, scores_.grad_a,
                                    triangle(Triangle::a_lower, scores_.grad_a_a)},
                                   regrouped(ds_a, key_heads_), false, k, false, regrouped(dq, key_heads_));
    const Value q = rounder.apply(scores_.grad_b_b, q_, q_cast2_), ds_b = rounder.apply(scores_.grad_b_a, scaled, dsb_);
    const Format dk_held = product(rounder,
                                   {scores_.grad_b_a, scores_.grad_b_b, scores_.grad_b_out, scores_.grad_b,
                                    triangle(Triangle::a_upper, scores_.grad_b_a)},
                                   ds_b, true, q, false, dk_heads);
    const Value dk = group_sum(rounder, scores_.grad_b_sum, {dk_heads, dk_held}, dk_sum_);

    Format held = common_grid(dq_held, dk.held);
    if (apart) {
        backend_.merge_heads(dq, 0, together);
        backend_.merge_heads(dk.view, q_width, together);
    }
    if (rope_) {
        const Value turned_back = rope_->backward(rounder, {together, held});
        held = turned_back.held;
        // Copies the gradients of q and k into the wider rows of dqkv, which also hold v. merge_heads treats all
        // channels of a row as one head.
        backend_.merge_heads({turned_back.view.data, {batch_, 1, context_, q_width + k_width}}, 0, dqkv);
    }
    if (apart) backend_.merge_heads(dv.view, q_width + k_width, dqkv);
    return {{dqkv.data, {batch_ * context_, qkv_width_}}, common_grid(held, dv.held)};
}

}  // namespace macheps::training
