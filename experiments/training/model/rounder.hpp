// SPDX-License-Identifier: Apache-2.0
// Rounder: where a model's values meet the policy's casts.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/histories.hpp"

#include <atomic>
#include <map>
#include <optional>
#include <string>

namespace macheps::training {

/// One named place where values are rounded, with its rule looked up once.
struct Slot {
    std::string name;  ///< `block.3.mlp.up:forward.a`
    policy::CastRule rule;
    std::uint32_t id = 0;
    /// Sampled even when nothing is rounded: where gradients and results arise, and in a run that rounds nothing at every
    /// slot, so that what a policy rounds can be compared with what was there without it.
    bool watched = false;

    Slot() = default;
    Slot(const policy::ResolvedPolicy& policy, std::string slot_name);
};

/// `slot` for what is made once, before the first step: to nearest where it is stochastic, as a framework casts a model.
Slot drawn_to_nearest(Slot slot);

/// Along which axis of a tensor a matmul sums: what groups of elements with a scale of their own need to know.
enum class Contraction { last, first };

/// A tensor together with the grid that its values are known to lie on, and the factor that its units miss.
struct Value {
    ConstView view{};
    Format held = fp32;
    TensorScale scale{};  ///< the values meant are view * scale.decode, and times `scales` where there are any
    OperandScales scales{};
    Contraction contraction = Contraction::last;  ///< of `scales`
};

/// How the results of a cast relate to what went in.
struct Decoding {
    float factor = 1;        ///< y * factor has the units of x
    float min = 1, max = 1;  ///< least and largest decode scale of the tensor
    /// The values of the codes, where y is decoded already: a scale for each group. Empty otherwise, and unless sampling.
    ConstView codes{};
    Contraction contraction = Contraction::last;  ///< along which the groups lie
    /// Decode scales of the groups, short of `tensor`, that of the whole tensor. Empty where there is one group, or unless
    /// sampling.
    ConstView scales{};
    float tensor = 1;
    /// A delayed scale: steps since it changed, and steps in a row that kept it because amax was 0, Inf or NaN.
    std::optional<std::int64_t> scale_age{}, scale_frozen_steps{};
};

/// An Observer is told of every cast that ran.
class Observer {
  public:
    virtual ~Observer() = default;
    /// True in a step whose casts are measured in full: then on_cast gets the values before and after.
    virtual bool sampling() const = 0;
    /// `x` and `y` are empty unless sampling; y == x where nothing was rounded.
    virtual void on_cast(const Slot& slot, const Cast& cast, const Tally& tally, const Decoding& decoding, ConstView x,
                         ConstView y) = 0;
    /// True while the values of every slot are wanted, rounded or not: then on_value gets them as they leave it, in the
    /// order of execution. The values that are meant are `values` times `decode_scale`; scales of groups are applied.
    virtual bool capturing() const { return false; }
    virtual void on_value(const Slot& /*slot*/, ConstView /*values*/, float /*decode_scale*/) {}
};

/// True when the slot makes +0 of +0, whatever other values the tensor holds.
bool keeps_zero(const Slot& slot);

/// Scales of a tensor whose largest magnitude is `amax`.
definition::GroupScale tensor_scale(const policy::CastRule& rule, float amax);

/// Thrown by a Rounder that was told to stop: whoever began the pass has asked for its end.
struct Abandoned {};

/// What a model runs for: each has random words of its own.
enum class Pass : std::uint8_t { training, evaluation };

class Rounder {
  public:
    /// How often each stochastic slot was met in a batch, by id.
    using Met = std::map<std::uint32_t, std::uint32_t>;

    Rounder(Backend& backend, std::uint64_t seed) : backend_(&backend), seed_(seed) {}

    /// Names the stochastic streams of what follows. Every batch of either kind draws from streams of its own: the
    /// micro-batches of a step, and the batches of an evaluation before it.
    void begin(std::uint32_t step, std::uint32_t batch, Pass pass = Pass::training);
    void observe(Observer* observer) { observer_ = observer; }
    /// The amax histories of the slots that have one. Passes of training show them what they cast; whoever runs these
    /// updates them.
    AmaxHistories& histories() { return histories_; }
    const AmaxHistories& histories() const { return histories_; }
    /// Every operation from now on begins with a look at `stop`, which may be null, and throws Abandoned once it is set.
    void abandon_when(const std::atomic<bool>* stop) { stop_ = stop; }
    Observer* observer() const { return observer_; }
    const Met& met() const { return met_; }
    bool counting() const { return observer_ != nullptr; }
    bool sampling() const { return observer_ != nullptr && observer_->sampling(); }
    bool capturing() const { return observer_ != nullptr && observer_->capturing(); }

    /// True when apply() returns values that lie on the grid of `held` as they are, without reading them.
    bool passes(const Slot& slot, Format held) const { return is_noop(slot, held) && !watching(); }
    /// True when each element that reaches this slot is rounded by itself and nobody counts or reads it: elements that
    /// are not needed may then be left out.
    bool unseen(const Slot& slot) const {
        return !slot.rule.has_scale() && !watching() && (!counting() || slot.rule.is_identity());
    }
    /// True when the values of every matmul, cast or not, are read in full.
    bool watching() const { return sampling() || capturing(); }

    /// The cast of an unscaled rule, ready for a backend call that rounds as it goes. A slot that is met again in the
    /// same batch, as the gradient of a tied weight is, gets the next stream: call this once for each rounding.
    Cast cast_for(const Slot& slot);
    /// One number that is on the host, rounded as the slot says. Nobody is told of it.
    float round_scalar(const Slot& slot, float x);

    /// `in` rounded as the slot says: into `buffer` (made on first use), or `in` itself when no value would change.
    Value apply(const Slot& slot, Value in, Tensor& buffer, Contraction contraction = Contraction::last);
    /// `value`, which an equal rule made earlier and which stands for what this slot would make: nothing is rounded or
    /// counted.
    Value reuse(const Slot& slot, const Value& value) {
        capture(slot, value);
        return value;
    }
    /// The same as apply(), in place. Rules with a scale are refused when the policy is bound to a model.
    Format apply_in_place(const Slot& slot, View values, Format held);

    /// Runs `args` with the slot's rounding of its output, counted and sampled. `args.out` is contiguous.
    /// Returns the grid that the output lies on.
    Format matmul(const Slot& out_slot, Matmul args, Shape out_shape);

  private:
    friend class Replay;
    void look_at_stop() const {
        if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) throw Abandoned();
    }
    bool is_noop(const Slot& slot, Format held) const;
    /// The largest magnitude, of the numbers alone where `ignores_nan`.
    float largest(ConstView x, bool ignores_nan);
    definition::GroupScale scale_of_tensor(const Slot& slot, ConstView x);
    /// What is cast instead of `x` where the slot's rule wants it mixed or rounded first.
    ConstView prepared(const Slot& slot, ConstView x, Contraction contraction);
    void mix(ConstView x, Contraction contraction, View out);
    void watch(const Slot& slot, ConstView values);
    void capture(const Slot& slot, const Value& value);
    Value round(const Slot& slot, Value in, Tensor& buffer, Contraction contraction);
    Value round_groups(const Slot& slot, Value in, Tensor& buffer, Contraction contraction);
    Format round_in_place(const Slot& slot, View values, Format held);
    Format round_matmul(const Slot& out_slot, Matmul args, View out);

    Backend* backend_;
    std::uint64_t seed_;
    std::uint32_t step_ = 0, batch_stream_ = 0;
    Pass pass_ = Pass::training;
    Met met_;  ///< in this batch, so far
    Observer* observer_ = nullptr;
    const std::atomic<bool>* stop_ = nullptr;
    Tensor scratch_;
    Tensor rounded_first_, mixed_, mixer_;  ///< of prepared()
    std::map<const Slot*, Tensor> scales_;  ///< of the groups of each slot's last cast
    AmaxHistories histories_;
};

/// While it is there, passes of a rounder end as soon as `stop` is set.
class StopScope {
  public:
    StopScope(Rounder& rounder, const std::atomic<bool>* stop) : rounder_(rounder) { rounder.abandon_when(stop); }
    ~StopScope() { rounder_.abandon_when(nullptr); }
    StopScope(const StopScope&) = delete;
    StopScope& operator=(const StopScope&) = delete;

  private:
    Rounder& rounder_;
};

/// `tensor` if it has this shape, else a new one in its place.
View sized(Backend& backend, Tensor& tensor, Shape shape);

}  // namespace macheps::training
