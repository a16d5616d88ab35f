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

/// A named place in the model where values are rounded. It stores its cast rule, so that the rule is looked up only
/// once.
struct Slot {
    std::string name;  ///< `block.3.mlp.up:forward.a`
    policy::CastRule rule;
    std::uint32_t id = 0;
    /// True if an observer gets the values even when the slot rounds nothing. This is the case for slots of results and
    /// gradients. In a run that rounds nothing, it is the case for every slot, so that its values can be compared with
    /// the values of runs that round.
    bool watched = false;

    Slot() = default;
    Slot(const policy::ResolvedPolicy& policy, std::string slot_name);
};

/// Returns `slot` with stochastic rounding replaced by rounding to nearest even. The result is used for values that are
/// cast once, before the first step. Frameworks also cast a model to nearest.
Slot drawn_to_nearest(Slot slot);

/// The axis of a tensor along which a matmul sums. It determines the groups of elements that share a scale.
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
    float min = 1, max = 1;  ///< smallest and largest of the decode scales
    /// The results before decoding. Set only while sampling, and only if each group has a scale. In this case, y holds
    /// the decoded results.
    ConstView codes{};
    Contraction contraction = Contraction::last;  ///< axis along which the groups lie
    /// Decode scales of the groups. They do not include the decode scale of the whole tensor (`tensor`), by which the
    /// results are also multiplied. Set only while sampling, and only if each group has a scale.
    ConstView scales{};
    float tensor = 1;
    /// For a delayed scale: the number of updates since the scale changed, and the number of latest consecutive updates
    /// that kept the scale and whose amax was 0, Inf or NaN. See AmaxHistories::Age.
    std::optional<std::int64_t> scale_age{}, scale_frozen_steps{};
};

/// An Observer is notified of every cast.
class Observer {
  public:
    virtual ~Observer() = default;
    /// Returns true in a step whose casts are measured in full. on_cast() then gets the values before and after each
    /// cast.
    virtual bool sampling() const = 0;
    /// Reports a cast. `x` and `y` are the values before and after the cast; both are empty unless sampling. If nothing
    /// was rounded, y == x.
    virtual void on_cast(const Slot& slot, const Cast& cast, const Tally& tally, const Decoding& decoding, ConstView x,
                         ConstView y) = 0;
    /// Returns true if on_value() should get the values of every slot, rounded or not. The calls of on_value() follow
    /// the order of execution. The decoded values are `values` times `decode_scale`; scales of groups are already
    /// applied.
    virtual bool capturing() const { return false; }
    virtual void on_value(const Slot& /*slot*/, ConstView /*values*/, float /*decode_scale*/) {}
};

/// Returns true if the slot maps +0 to +0, whatever other values the tensor holds.
bool keeps_zero(const Slot& slot);

/// Returns the encode and decode scales of a tensor whose largest magnitude is `amax`.
definition::GroupScale tensor_scale(const policy::CastRule& rule, float amax);

/// Thrown by a Rounder when the flag passed to abandon_when() is set.
struct Abandoned {};

/// Purpose of a pass through the model. Each purpose has separate random words.
enum class Pass : std::uint8_t { training, evaluation };

class Rounder {
  public:
    /// Number of casts of each stochastic slot in a batch. The keys are slot ids.
    using Met = std::map<std::uint32_t, std::uint32_t>;

    Rounder(Backend& backend, std::uint64_t seed) : backend_(&backend), seed_(seed) {}

    /// Selects the random streams of the casts that follow. Each micro-batch of a step and each batch of an evaluation
    /// has separate streams. `step` of an evaluation is the step that follows it.
    void begin(std::uint32_t step, std::uint32_t batch, Pass pass = Pass::training);
    void observe(Observer* observer) { observer_ = observer; }
    /// Returns the amax histories of the slots that have one. Training passes record the amaxes of their casts. The
    /// caller must call AmaxHistories::update().
    AmaxHistories& histories() { return histories_; }
    const AmaxHistories& histories() const { return histories_; }
    /// Makes every later operation check `stop`, which may be null, and throw Abandoned once it is set.
    void abandon_when(const std::atomic<bool>* stop) { stop_ = stop; }
    Observer* observer() const { return observer_; }
    const Met& met() const { return met_; }
    bool counting() const { return observer_ != nullptr; }
    bool sampling() const { return observer_ != nullptr && observer_->sampling(); }
    bool capturing() const { return observer_ != nullptr && observer_->capturing(); }

    /// Returns true if apply() would return values on the grid of `held` unchanged and without reading them.
    bool passes(const Slot& slot, Format held) const { return is_noop(slot, held) && !watching(); }
    /// Returns true if this slot rounds each element independently and no element is counted or observed. The caller
    /// may then leave out elements that are not needed.
    bool unseen(const Slot& slot) const {
        return !slot.rule.has_scale() && !watching() && (!counting() || slot.rule.is_identity());
    }
    /// Returns true if an observer reads the full output of every matmul, rounded or not.
    bool watching() const { return sampling() || capturing(); }

    /// Returns the cast of a slot without a scale, for a backend call that rounds its own results. Call this once for
    /// each rounding. A slot may cast several times in a batch; for example, a tied weight has two gradients. Each call
    /// selects the next random stream of the slot.
    Cast cast_for(const Slot& slot);
    /// Rounds one number on the host as the slot specifies. The observer is not notified.
    float round_scalar(const Slot& slot, float x);

    /// Rounds `in` as the slot specifies. Returns the result in `buffer`, which is allocated on first use. If no value
    /// would change, returns `in` itself.
    Value apply(const Slot& slot, Value in, Tensor& buffer, Contraction contraction = Contraction::last);
    /// Returns `value`, which an earlier cast with the same rule has computed, instead of casting again. Nothing is
    /// rounded or counted.
    Value reuse(const Slot& slot, const Value& value) {
        capture(slot, value);
        return value;
    }
    /// Rounds `values` in place as the slot specifies. The slot must not have a scale. Resolving a policy ensures this:
    /// it rejects a scale at a slot that is rounded in place. Returns the format on whose grid the results lie.
    Format apply_in_place(const Slot& slot, View values, Format held);

    /// Runs the matmul `args`, rounds its output as the slot specifies, and notifies the observer. `args.out` must be
    /// contiguous. Returns the format on whose grid the output lies.
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
    /// Prepares `x` for the cast. First rounds it to the rule's format `via`, then applies the Hadamard transform.
    /// Leaves out each step that the rule does not request. Returns the tensor to cast.
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
    Met met_;  ///< number of stochastic casts so far in this batch, by slot
    Observer* observer_ = nullptr;
    const std::atomic<bool>* stop_ = nullptr;
    Tensor scratch_;
    Tensor rounded_first_, mixed_, mixer_;  ///< buffers of prepared()
    std::map<const Slot*, Tensor> scales_;  ///< scales of the groups in each slot's last cast
    AmaxHistories histories_;
};

/// While this object exists, the operations of a rounder throw Abandoned once `stop` is set.
class StopScope {
  public:
    StopScope(Rounder& rounder, const std::atomic<bool>* stop) : rounder_(rounder) { rounder.abandon_when(stop); }
    ~StopScope() { rounder_.abandon_when(nullptr); }
    StopScope(const StopScope&) = delete;
    StopScope& operator=(const StopScope&) = delete;

  private:
    Rounder& rounder_;
};

/// Returns a view of `tensor`. If its shape is not `shape`, first replaces it by a new tensor.
View sized(Backend& backend, Tensor& tensor, Shape shape);

}  // namespace macheps::training
