// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/rounder.hpp"

#include "core/error.hpp"
#include "emulation/definitions.hpp"

#include <fmt/format.h>

#include <bit>
#include <utility>
#include <vector>

namespace macheps::training {

namespace {

/// Returns a view of `memory` with the given shape. Reallocates `memory` only if it is too small.
View room(Backend& backend, Tensor& memory, Shape shape) {
    if (memory.empty() || memory.count() < shape.count()) memory = backend.empty(shape);
    return {memory.data(), shape};
}

}  // namespace

Slot::Slot(const policy::ResolvedPolicy& policy, std::string slot_name)
    : name(std::move(slot_name)), rule(policy.cast(name)), id(site_id(name)), watched(policy.casts_nothing) {
    for (const std::string_view ending : {":forward.out", ":grad.in", ":weight_grad.out", ":grad", ":value"}) {
        watched = watched || name.ends_with(ending);
    }
}

Slot drawn_to_nearest(Slot slot) {
    if (slot.rule.round == Round::stochastic) slot.rule.round = Round::nearest_even;
    return slot;
}

bool keeps_zero(const Slot& slot) {
    const policy::CastRule& rule = slot.rule;
    return !rule.has_scale() &&
           bit_cast<std::uint32_t>(quantize(rule.format, 0.0f, rule.round, rule.overflow, {0, rule.random_bits})) == 0;
}

definition::GroupScale tensor_scale(const policy::CastRule& rule, float amax) {
    return definition::group_scale(rule.format, *rule.scale_rule, amax);
}

void Rounder::begin(std::uint32_t step, std::uint32_t batch, Pass pass) {
    step_ = step;
    pass_ = pass;
    batch_stream_ = batch * 0x9e3779b9u ^ (pass == Pass::evaluation ? 0x27d4eb2fu : 0);
    met_.clear();
}

Cast Rounder::cast_for(const Slot& slot) {
    const std::uint32_t before = slot.rule.round == Round::stochastic ? met_[slot.id]++ : 0;
    return {.format = slot.rule.format,
            .round = slot.rule.round,
            .overflow = slot.rule.overflow,
            .key = {seed_, step_, slot.id ^ batch_stream_ ^ before * 0x165667b1u},
            .random_bits = slot.rule.random_bits};
}

float Rounder::round_scalar(const Slot& slot, float x) {
    const Cast cast = cast_for(slot);
    backend_->draw(slot.name, cast, 1);
    return definition::cast_element(cast, x, 0);
}

bool Rounder::is_noop(const Slot& slot, Format held) const {
    if (slot.rule.is_identity()) return true;
    // A saturating cast changes infinities, even though they lie on the grid.
    return !slot.rule.has_scale() && slot.rule.format == held && slot.rule.overflow == Overflow::nonsaturate;
}

void Rounder::watch(const Slot& slot, ConstView values) {
    if (!slot.watched || !sampling()) return;
    Tally tally;
    const Cast nothing{};
    backend_->cast(values, sized(*backend_, scratch_, values.shape), nothing, &tally);
    observer_->on_cast(slot, nothing, tally, {}, values, values);
}

void Rounder::capture(const Slot& slot, const Value& value) {
    if (!capturing()) return;
    if (value.scales.data == nullptr) return observer_->on_value(slot, value.view, value.scale.decode);
    const View whole = sized(*backend_, scratch_, value.view.shape);
    backend_->decode_groups(value.view, value.scales, value.contraction == Contraction::last, value.scale.decode,
                            whole);
    observer_->on_value(slot, whole, 1);
}

Value Rounder::apply(const Slot& slot, Value in, Tensor& buffer, Contraction contraction) {
    look_at_stop();
    const Value out = round(slot, in, buffer, contraction);
    capture(slot, out);
    return out;
}

Format Rounder::apply_in_place(const Slot& slot, View values, Format held) {
    look_at_stop();
    held = round_in_place(slot, values, held);
    capture(slot, {values, held});
    return held;
}

Format Rounder::matmul(const Slot& out_slot, Matmul args, Shape out_shape) {
    look_at_stop();
    const View out{args.out, out_shape};
    const Format held = round_matmul(out_slot, args, out);
    capture(out_slot, {out, held});
    return held;
}

Value Rounder::round(const Slot& slot, Value in, Tensor& buffer, Contraction contraction) {
    if (is_noop(slot, in.held)) {
        watch(slot, in.view);
        return in;
    }
    if (slot.rule.is_prepared()) in = {prepared(slot, in.view, contraction)};
    if (!slot.rule.granularity->is_axis_free()) return round_groups(slot, in, buffer, contraction);
    Cast cast = cast_for(slot);
    float decode_scale = 1;
    if (slot.rule.has_scale()) {
        const auto scale = scale_of_tensor(slot, in.view);
        cast.encode_scale = scale.encode;
        decode_scale = scale.decode;
    }
    const View out = sized(*backend_, buffer, in.view.shape);
    Tally tally;
    backend_->cast(in.view, out, cast, counting() ? &tally : nullptr);
    if (counting()) {
        Decoding decoding{.factor = decode_scale, .min = decode_scale, .max = decode_scale};
        if (slot.rule.has_history()) {
            const AmaxHistories::Age age = histories_.age(slot.name, slot.rule);
            decoding.scale_age = age.steps, decoding.scale_frozen_steps = age.frozen;
        }
        observer_->on_cast(slot, cast, tally, decoding, sampling() ? in.view : ConstView{},
                           sampling() ? ConstView(out) : ConstView{});
    }
    return {out, slot.rule.has_scale() ? fp32 : slot.rule.format, {decode_scale}};
}

float Rounder::largest(ConstView x, bool ignores_nan) {
    const float amax = backend_->amax(x);
    if (amax == amax || !ignores_nan) return amax;
    // A scaled cast with the following rule computes the largest magnitude among the values that are not NaN: the rule
    // ignores NaNs, and it makes the decode scale equal to the largest magnitude.
    static constexpr ScaleRule magnitude{.name = "magnitude",
                                         .ignores_nan = true,
                                         .group =
                                             [](const definition::ScaleGroup& g) {
                                                 return definition::GroupScale{1, g.amax};
                                             },
                                         .source = "",
                                         .summary = "the largest magnitude"};
    const View scale = sized(*backend_, scales_[nullptr], {1, 1});
    return backend_->scaled_cast(x, sized(*backend_, scratch_, x.shape), scale, {.rule = &magnitude}).decode_max;
}

definition::GroupScale Rounder::scale_of_tensor(const Slot& slot, ConstView x) {
    const ScaleRule& rule = *slot.rule.scale_rule;
    const float amax = largest(x, rule.ignores_nan);
    if (!rule.has_history()) return tensor_scale(slot.rule, amax);
    AmaxHistory& history = histories_.of(slot.name, slot.rule);
    // An evaluation must not change the histories that training uses.
    if (pass_ == Pass::training) history.observe(amax);
    return {history.scale(), history.decode_scale()};
}

ConstView Rounder::prepared(const Slot& slot, ConstView x, Contraction contraction) {
    const policy::CastRule& rule = slot.rule;
    if (!(rule.via == fp32)) {
        const Round round = rule.round == Round::stochastic ? Round::nearest_even : rule.round;
        const View out = room(*backend_, rounded_first_, x.shape);
        backend_->cast(x, out, {.format = rule.via, .round = round});
        x = out;
    }
    if (!rule.hadamard) return x;
    const View out = room(*backend_, mixed_, x.shape);
    mix(x, contraction, out);
    return out;
}

/// Multiplies each group of 16 terms of x along the contraction by the matrix (1/4) diag(signs) H, where H is
/// Sylvester's Hadamard matrix. Rounds the products to bf16 and writes them to `out`. The matrix is orthogonal, so
/// transforming both operands of a matmul leaves their exact product unchanged.
void Rounder::mix(ConstView x, Contraction contraction, View out) {
    constexpr std::int64_t size = 16;
    // Source: NVIDIA/TransformerEngine pytorch/tensor/nvfp4_tensor.py. TransformerEngine uses one vector of signs for
    // all layers and the whole run.
    constexpr int signs[size] = {1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};
    if (mixer_.empty()) {
        std::vector<float> r;
        for (unsigned i = 0; i < size; ++i) {
            for (unsigned j = 0; j < size; ++j) {
                r.push_back(0.25f * static_cast<float>(signs[i]) * (std::popcount(i & j) % 2 == 0 ? 1.0f : -1.0f));
            }
        }
        mixer_ = backend_->empty({size, size});
        backend_->upload(r, mixer_);
    }
    const std::int64_t columns = x.columns(), rows = x.count() / columns;
    const bool down = contraction == Contraction::first;
    const std::int64_t length = down ? rows : columns;
    if (length % size != 0) {
        throw Error(
            {.what = fmt::format("the Hadamard transform has {} terms, which is not a multiple of {}", length, size),
             .where = "hadamard",
             .fix = "use a batch whose number of tokens is a multiple of 16"});
    }
    Matmul args{.m = rows * columns / size, .n = size, .k = size};
    args.a = {.data = x.data, .ld = size};
    args.b = {.data = mixer_.data(), .ld = size};
    args.ld_out = size;
    if (down) {
        args.m = size;
        args.n = columns;
        args.batch_outer = rows / size;
        args.a = {.data = mixer_.data(), .ld = size, .transposed = true};
        args.b = {.data = x.data, .ld = columns, .stride_outer = size * columns};
        args.ld_out = columns;
        args.stride_out_outer = size * columns;
    }
    args.out = out.data;
    args.out_cast.format = bf16;
    backend_->matmul(args);
}

/// Casts a tensor with a separate scale for each row, column or block.
Value Rounder::round_groups(const Slot& slot, Value in, Tensor& buffer, Contraction contraction) {
    const ScaledCast how{.cast = cast_for(slot),
                         .granularity = slot.rule.granularity,
                         .rule = slot.rule.scale_rule,
                         .k_is_last = contraction == Contraction::last};
    const std::int64_t columns = in.view.columns();
    const ScaleGrid grid = scale_grid(*how.granularity, how.k_is_last, in.view.count() / columns, columns);
    const View out = sized(*backend_, buffer, in.view.shape);
    Tally tally;
    const View scales = sized(*backend_, scales_[&slot], {grid.rows, grid.columns});
    const ScaledResult made = backend_->scaled_cast(in.view, out, scales, how, counting() ? &tally : nullptr);
    if (counting()) {
        ConstView x, y;
        if (sampling()) {
            const View whole = sized(*backend_, scratch_, in.view.shape);
            backend_->decode_groups(out, made.scales, how.k_is_last, made.tensor.decode, whole);
            x = in.view;
            y = whole;
        }
        observer_->on_cast(slot, how.cast, tally,
                           {.min = made.decode_min,
                            .max = made.decode_max,
                            .codes = sampling() ? ConstView(out) : ConstView{},
                            .contraction = contraction,
                            .scales = sampling() ? ConstView(scales) : ConstView{},
                            .tensor = made.tensor.decode},
                           x, y);
    }
    return {out, fp32, made.tensor, made.scales, contraction};
}

Format Rounder::round_in_place(const Slot& slot, View values, Format held) {
    if (is_noop(slot, held)) {
        watch(slot, values);
        return held;
    }
    const Cast cast = cast_for(slot);
    Tally tally;
    if (!sampling()) {
        backend_->cast(values, values, cast, counting() ? &tally : nullptr);
        if (counting()) observer_->on_cast(slot, cast, tally, {}, {}, {});
        return slot.rule.format;
    }
    const View before = sized(*backend_, scratch_, values.shape);
    backend_->copy(values, before);
    backend_->cast(before, values, cast, &tally);
    observer_->on_cast(slot, cast, tally, {}, before, values);
    return slot.rule.format;
}

Format Rounder::round_matmul(const Slot& out_slot, Matmul args, View out) {
    if (out_slot.rule.is_identity()) {
        backend_->matmul(args);
        watch(out_slot, out);
        return fp32;
    }
    if (sampling() && !args.bias_after_cast && !rounds_slices(args.rule)) {
        backend_->matmul(args);
        return round_in_place(out_slot, out, fp32);
    }
    args.out_cast = cast_for(out_slot);
    Tally tally;
    backend_->matmul(args, counting() ? &tally : nullptr);
    if (counting()) observer_->on_cast(out_slot, args.out_cast, tally, {}, {}, {});
    return out_slot.rule.format;
}

View sized(Backend& backend, Tensor& tensor, Shape shape) {
    if (tensor.empty() || !(tensor.shape() == shape)) tensor = backend.empty(shape);
    return tensor.view();
}

}  // namespace macheps::training
