// SPDX-License-Identifier: Apache-2.0
// Rounder: applies the casts of a policy to the values of a model.
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
    /// True if values are sampled even when the slot rounds nothing. This holds for slots where gradients and results
    /// arise. In a run that rounds nothing it holds for every slot, so that its values can be compared with those that
    /// a policy rounds.
    bool watched = false;

    Slot() = default;
    Slot(const policy::ResolvedPolicy& policy, std::string slot_name);
};

/// Returns `slot` for values that are made once, before the first step: stochastic rounding is replaced by nearest
/// even, which is how a framework casts a model.
Slot drawn_to_nearest(Slot slot);

/// The axis of a tensor along which a matmul sums. Groups of elements with their own scales depend on it.
enum class Contraction { last, first };

/// A tensor, the grid that its values are known to lie on, and the scales that decode it.
struct Value {
    ConstView view{};
    Format held = fp32;
    TensorScale scale{};  ///< the decoded values are view * scale.decode, times `scales` if there are any
    OperandScales scales{};
    Contraction contraction = Contraction::last;  ///< axis of the groups of `scales`
};

/// Relation between the results y of a cast and its inputs x.
struct Decoding {
    float factor = 1;        ///< y * factor has the units of x
    float min = 1, max = 1;  ///< smallest and largest decode scale of the tensor
    /// The values of the codes if y is already decoded, because each group has a scale. Otherwise empty, and empty
    /// unless sampling.
    ConstView codes{};
    Contraction contraction = Contraction::last;  ///< axis along which the groups lie
    /// Decode scales of the groups, without the factor `tensor`, the decode scale of the whole tensor. Empty if there
    /// is only one group, and empty unless sampling.
    ConstView scales{};
    float tensor = 1;
    /// For a delayed scale: updates since it changed, and the last consecutive ones that kept it because amax was 0,
    /// Inf or NaN.
    std::optional<std::int64_t> scale_age{}, scale_frozen_steps{};
};

/// An Observer is notified of every cast.
class Observer {
  public:
    virtual ~Observer() = default;
    /// Returns true in a step whose casts are measured in full. on_cast then gets the values before and after the cast.
    virtual bool sampling() const = 0;
    /// `x` and `y` are empty unless sampling. If nothing was rounded, y == x.
    virtual void on_cast(const Slot& slot, const Cast& cast, const Tally& tally, const Decoding& decoding, ConstView x,
                         ConstView y) = 0;
    /// Returns true while the values of every slot are wanted, rounded or not. on_value then gets them as they leave
    /// the slot, in the order of execution. The decoded values are `values` times `decode_scale`; scales of groups are
    /// already applied.
    virtual bool capturing() const { return false; }
    virtual void on_value(const Slot& /*slot*/, ConstView /*values*/, float /*decode_scale*/) {}
};

/// Returns true if the slot maps +0 to +0, whatever other values the tensor holds.
bool keeps_zero(const Slot& slot);

/// Returns the scales of a tensor whose largest magnitude is `amax`.
definition::GroupScale tensor_scale(const policy::CastRule& rule, float amax);

/// Thrown by a Rounder when the flag passed to abandon_when() is set.
struct Abandoned {};

/// Purpose of a pass through the model. Each has separate random words.
enum class Pass : std::uint8_t { training, evaluation };

class Rounder {
  public:
    /// Number of times that each stochastic slot, by id, occurred in a batch.
    using Met = std::map<std::uint32_t, std::uint32_t>;

    Rounder(Backend& backend, std::uint64_t seed) : backend_(&backend), seed_(seed) {}

    /// Selects the random streams of the casts that follow. Every batch of either kind has its own streams: the
    /// micro-batches of a step, and the batches of an evaluation before that step.
    void begin(std::uint32_t step, std::uint32_t batch, Pass pass = Pass::training);
    void observe(Observer* observer) { observer_ = observer; }
    /// Returns the amax histories of the slots that have one. Training passes record the amaxes of their casts; the
    /// caller updates the histories.
    AmaxHistories& histories() { return histories_; }
    const AmaxHistories& histories() const { return histories_; }
    /// Makes every later operation check `stop`, which may be null, and throw Abandoned once it is set.
    void abandon_when(const std::atomic<bool>* stop) { stop_ = stop; }
    Observer* observer() const { return observer_; }
    const Met& met() const { return met_; }
    bool counting() const { return observer_ != nullptr; }
    bool sampling() const { return observer_ != nullptr && observer_->sampling(); }
    bool capturing() const { return observer_ != nullptr && observer_->capturing(); }

    /// Returns true if apply() would return the values as they are, on the grid of `held`, without reading them.
    bool passes(const Slot& slot, Format held) const { return is_noop(slot, held) && !watching(); }
    /// Returns true if each element that reaches this slot is rounded independently and no element is counted or read.
    /// Elements that are not needed may then be left out.
    bool unseen(const Slot& slot) const {
        return !slot.rule.has_scale() && !watching() && (!counting() || slot.rule.is_identity());
    }
    /// Returns true if the values of every matmul, cast or not, are read in full.
    bool watching() const { return sampling() || capturing(); }

    /// Returns the cast of an unscaled rule, for a backend call that rounds its own results. If a slot occurs again in
    /// the same batch, as the gradient of a tied weight does, it gets the next stream. Call this once for each
    /// rounding.
    Cast cast_for(const Slot& slot);
    /// Rounds one number on the host as the slot says. The observer is not notified.
    float round_scalar(const Slot& slot, float x);

    /// Rounds `in` as the slot says and returns `buffer` (made on first use), or `in` itself if no value would change.
    Value apply(const Slot& slot, Value in, Tensor& buffer, Contraction contraction = Contraction::last);
    /// Returns `value`, which an equal rule made earlier and which this slot would make again. Nothing is rounded or
    /// counted.
    Value reuse(const Slot& slot, const Value& value) {
        capture(slot, value);
        return value;
    }
    /// Does the same as apply(), in place. Rules with a scale are refused when the policy is resolved for a model.
    Format apply_in_place(const Slot& slot, View values, Format held);

    /// Runs `args` and rounds the output as the slot says, with counting and sampling. `args.out` is contiguous.
    /// Returns the grid of the output.
    Format matmul(const Slot& out_slot, Matmul args, Shape out_shape);

  private:
    friend class Replay;
    void look_at_stop() const {
        if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) throw Abandoned();
    }
    bool is_noop(const Slot& slot, Format held) const;
    /// Returns the largest magnitude. With `ignores_nan`, NaNs are skipped.
    float largest(ConstView x, bool ignores_nan);
    definition::GroupScale scale_of_tensor(const Slot& slot, ConstView x);
    /// Returns the tensor to cast in place of `x`, if the slot's rule asks for a Hadamard transform or an earlier
    /// rounding.
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
    Tensor rounded_first_, mixed_, mixer_;  ///< buffers of prepared()
    std::map<const Slot*, Tensor> scales_;  ///< scales of the groups in each slot's last cast
    AmaxHistories histories_;
};

/// During its lifetime, passes of a rounder end as soon as `stop` is set.
class StopScope {
  public:
    StopScope(Rounder& rounder, const std::atomic<bool>* stop) : rounder_(rounder) { rounder.abandon_when(stop); }
    ~StopScope() { rounder_.abandon_when(nullptr); }
    StopScope(const StopScope&) = delete;
    StopScope& operator=(const StopScope&) = delete;

  private:
    Rounder& rounder_;
};

/// Returns `tensor`, replaced by a new one if its shape differs.
View sized(Backend& backend, Tensor& tensor, Shape shape);

}  // namespace macheps::training
