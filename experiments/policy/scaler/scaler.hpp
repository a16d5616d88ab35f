// SPDX-License-Identifier: Apache-2.0
// Loss scalers. A framework multiplies the loss by a scale so that fp16 gradients do not underflow. The loss scaler
// decides when the scale changes. Each kind of scaler has a row (ScalerKind) and a state machine (LossScaler). The
// parser, JSON, printed text, diff and `macheps policy words` read the rows. A checkpoint stores the result of state().
// To add a kind, write a file next to torch.cpp and add its row to rows.cpp.
#pragma once
#include "core/error.hpp"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::policy {

class LossScaler;
struct LossScalerConfig;

/// Type of the value of a [loss_scaler] key, in TOML, in JSON and in printed text. In memory, every value is an fp64
/// number.
enum class ScalerValue : std::uint8_t {
    fp32,     ///< a number, rounded to fp32 when it is read: most frameworks keep the scale in an fp32 tensor
    number,   ///< an fp64 number
    count,    ///< a whole number
    flag,     ///< true or false
    version,  ///< version of the framework: "0.16.5" is stored as 16005, see version_number()
};

/// A key of [loss_scaler] other than `kind`.
struct ScalerKey {
    std::string_view name;
    ScalerValue type = ScalerValue::number;
    std::optional<double> initial{};    ///< value if no policy sets another; empty: no value
    bool (*is_good)(double) = nullptr;  ///< accepts the values that a policy may set; null: any
    std::string_view wanted{};          ///< such as `more than 1`: describes what is_good accepts, for errors
    std::string_view summary{};
};

/// A kind of loss scaler, with everything that the policy language needs to know about it.
struct ScalerKind {
    std::string_view name;                        ///< value of `kind`, such as `torch`
    std::span<const std::string_view> aliases{};  ///< other accepted values of `kind`
    std::span<const ScalerKey> keys{};            ///< the other keys, in the order in which they are printed
    std::span<const ScalerKey> ignored{};         ///< keys that are read and checked but have no effect
    std::unique_ptr<LossScaler> (*make)(const LossScalerConfig&) = nullptr;
    /// Returns why the framework refuses a combination of keys that are valid by themselves, or an empty text.
    std::string (*conflict)(const LossScalerConfig&) = nullptr;
    std::string_view line{};  ///< description in one line; `{init_scale}` is replaced by the value of that key
    std::string_view source{}, summary{};
};

/// The kind `none`, which a policy without [loss_scaler] has.
extern const ScalerKind no_scaler;

/// Returns all kinds, in the order in which users see them.
std::span<const ScalerKind* const> scaler_kinds();
/// Returns the kind with this name or alias, or nullptr.
const ScalerKind* find_scaler(std::string_view name);

/// The contents of [loss_scaler]: a kind and its settings.
struct LossScalerConfig {
    const ScalerKind* kind = &no_scaler;
    std::vector<std::optional<double>> settings;  ///< values of kind->keys, in the same order

    LossScalerConfig() = default;
    /// Creates the configuration of a kind. Every setting has its initial value, except for the settings in `given`.
    explicit LossScalerConfig(const ScalerKind& of_kind,
                              std::initializer_list<std::pair<std::string_view, double>> given = {});

    /// Returns the value of a key, or nothing if it has none. Throws Error if the kind has no such key.
    std::optional<double> find(std::string_view key) const;
    /// Returns the value of a key that always has one.
    double at(std::string_view key) const { return find(key).value(); }
    /// Sets a key. Rounds the value to fp32 if the type of the key is fp32. Throws Error if the kind has no such key.
    void set(std::string_view key, std::optional<double> value);

    bool operator==(const LossScalerConfig&) const = default;
};

/// Returns the value as text, such as "65536", "true" or "0.16.5". Returns "none" for an absent value.
std::string to_string(const ScalerKey& key, std::optional<double> value);
/// Returns ScalerKind::line with the values of the keys filled in, such as "static 1024, skip true".
std::string to_string(const LossScalerConfig& config);
/// Returns the table [loss_scaler] as it would be written in a policy file, with every key that has a value.
std::string to_toml(const LossScalerConfig& config);

/// Converts a version to a number, so that versions can be compared: "0.16.5" to 16005. "0.17" is 0.17.0. Returns
/// nothing if the text is not a version.
std::optional<double> version_number(std::string_view text);
/// Returns the value that a text (of an option or a policy) gives to a key. Throws Error (`what`, `fix`) if the text is
/// not a value of the key's type, or if is_good refuses it.
double parse_setting(const ScalerKey& key, std::string_view text);
/// Throws Error (`what`, `fix`) if is_good refuses the value.
void check_setting(const ScalerKey& key, double value);

/// How the scale is removed from the gradients.
struct Unscaling {
    float factor = 1;
    bool divides = false;  ///< gradients are divided by the factor, not multiplied by it
    /// Gradients are first copied to fp32 and stay fp32, like those of fp32 master weights. Otherwise each product is
    /// rounded to the gradient's own format.
    bool widens = false;
    /// The loss scale that the factor removes, with the precision of LossScaler::scale(). It is used by clip formulas
    /// that unscale and clip with a single product.
    double scale = 1;
};

/// Thrown in a step in which the framework ends the run with an error. Some frameworks do so when a gradient overflows
/// while the scale is at its lower limit.
class ScalerRaised : public Error {
  public:
    using Error::Error;
};

/// The loss scaler of one optimiser. A step multiplies the loss by scale(), checks the gradients, and unscales them
/// with the result of unscaling(). If skips() is true and a gradient is not finite, the step does not update the
/// weights. The step ends with update().
class LossScaler {
  public:
    virtual ~LossScaler() = default;
    /// Returns the scale in the precision in which the framework stores it (an fp32 tensor or a Python double). The
    /// loss is multiplied by the scale rounded to fp32.
    virtual double scale() const = 0;
    /// Called once per step, after the gradients are checked and before they are unscaled. If the framework updates the
    /// scale before it unscales, this function updates it and returns the new scale. Throws ScalerRaised like update().
    virtual Unscaling unscaling(bool found_inf) = 0;
    /// Returns true if the check for Inf and NaN reads the fp32 sum of each gradient, so that finite numbers whose sum
    /// is not finite also count. Returns false if it reads every element.
    virtual bool checks_sums() const { return false; }
    /// Returns whether a non-finite gradient skips the step (false for `none`).
    virtual bool skips() const { return true; }
    /// Ends the step. Throws ScalerRaised if the framework raises an error in this step. The state of the previous step
    /// is then kept.
    virtual void update(bool found_inf) = 0;
    /// Returns the number of clean steps since the scale last changed, for the log. If the framework counts from the
    /// last Inf or NaN instead, so does this function. Returns 0 if the scaler does not count clean steps.
    virtual std::int64_t growth_tracker() const { return 0; }
    /// Returns the number of steps with an Inf or NaN until the scale backs off, including the step in which it backs
    /// off. Returns nothing if the scaler does not delay its backoff in this way.
    virtual std::optional<std::int64_t> hysteresis() const { return {}; }
    /// Returns everything that unscaling() and update() change, for a checkpoint. fp64 represents these numbers
    /// exactly. Empty if the state never changes.
    virtual std::vector<double> state() const { return {}; }
    /// Restores a state that state() returned. Returns false and changes nothing if the state belongs to another kind
    /// of scaler.
    [[nodiscard]] virtual bool load(std::span<const double> state) { return state.empty(); }
};

std::unique_ptr<LossScaler> make_loss_scaler(const LossScalerConfig& config);

}  // namespace macheps::policy
