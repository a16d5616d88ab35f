// SPDX-License-Identifier: Apache-2.0
// Loss scalers: what a framework multiplies the loss by so that fp16 gradients do not vanish, and when it changes that
// number. A kind of scaler is a row, ScalerKind, with a state machine behind it, LossScaler. Parser, JSON, prose, diff
// and `macheps policy words` read the rows; a checkpoint keeps what state() gives. To add a kind, write a file beside
// torch.cpp and name its row in rows.cpp.
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

/// What kind of value a key of [loss_scaler] has, in TOML, in JSON and in print. All of them are kept as fp64.
enum class ScalerValue : std::uint8_t {
    fp32,     ///< a number, rounded to fp32 when it is read: most frameworks keep the scale in an fp32 tensor
    number,   ///< a number of fp64
    count,    ///< a whole number
    flag,     ///< true or false
    version,  ///< of the framework, "0.16.5", kept as 16005: see version_number()
};

/// A key of a policy's [loss_scaler], beside `kind`.
struct ScalerKey {
    std::string_view name;
    ScalerValue type = ScalerValue::number;
    std::optional<double> initial{};    ///< its value unless a policy says another; none: without one it has no value
    bool (*is_good)(double) = nullptr;  ///< what a policy may say; null: anything
    std::string_view wanted{};          ///< `more than 1`: what is_good asks for, as errors say it after "give"
    std::string_view summary{};
};

/// A kind of loss scaler: all that the policy language knows of it.
struct ScalerKind {
    std::string_view name;                        ///< `torch`: what `kind` says
    std::span<const std::string_view> aliases{};  ///< what `kind` may say as well
    std::span<const ScalerKey> keys{};            ///< what else a policy may say, in the order in which it is printed
    std::span<const ScalerKey> ignored{};  ///< keys that are read, and refused if they are bad, but mean nothing here
    std::unique_ptr<LossScaler> (*make)(const LossScalerConfig&) = nullptr;
    /// What the framework refuses of keys that are good each by itself, in words; empty where it refuses nothing.
    std::string (*conflict)(const LossScalerConfig&) = nullptr;
    std::string_view line{};  ///< the scaler in a line of prose, where `{init_scale}` stands for that key's value
    std::string_view source{}, summary{};
};

/// The kind `none`, which a policy without [loss_scaler] has.
extern const ScalerKind no_scaler;

/// Every kind, in the order of lists.
std::span<const ScalerKind* const> scaler_kinds();
/// The kind of that name or alias, or nullptr.
const ScalerKind* find_scaler(std::string_view name);

/// A kind and its settings: what [loss_scaler] says.
struct LossScalerConfig {
    const ScalerKind* kind = &no_scaler;
    std::vector<std::optional<double>> settings;  ///< one for each of kind->keys, in their order

    LossScalerConfig() = default;
    /// The kind with its initial settings, but for what `said` says.
    explicit LossScalerConfig(const ScalerKind& of_kind,
                              std::initializer_list<std::pair<std::string_view, double>> said = {});

    /// The value of a key; nothing when it has none. Throws Error when the kind has no such key.
    std::optional<double> find(std::string_view key) const;
    /// The value of a key that always has one.
    double at(std::string_view key) const { return find(key).value(); }
    /// Sets a key; the value is rounded to fp32 where the key says so. Throws Error when the kind has no such key.
    void set(std::string_view key, std::optional<double> value);

    bool operator==(const LossScalerConfig&) const = default;
};

/// "65536", "true", "0.16.5"; "none" where there is no value.
std::string to_string(const ScalerKey& key, std::optional<double> value);
/// The kind's line, with the values of its keys: "static 1024".
std::string to_string(const LossScalerConfig& config);
/// The table of a policy that says this, every key of it: `[loss_scaler]` and its lines.
std::string to_toml(const LossScalerConfig& config);

/// "0.16.5" as 16005, so that versions compare as numbers; "0.17" is 0.17.0. Nothing where the text is no version.
std::optional<double> version_number(std::string_view text);
/// What an option, or a policy's text, says of a key. Throws Error (`what`, `fix`) when it is no value of its type, or
/// one that is_good refuses.
double parse_setting(const ScalerKey& key, std::string_view text);
/// Throws Error (`what`, `fix`) when is_good refuses the value.
void check_setting(const ScalerKey& key, double value);

/// How gradients lose the scale again.
struct Unscaling {
    float factor = 1;
    bool divides = false;  ///< gradients are divided by the factor, not multiplied by it
    /// Gradients are copied to fp32 before, and stay there, as those of fp32 master weights do. Otherwise each product
    /// is rounded to the gradient's own format.
    bool widens = false;
    /// What the factor undoes, in the type of `scale()`: where one product unscales and clips, it is made of this.
    double scale = 1;
};

/// The framework ends the run: some do when the scale would fall below its floor.
class ScalerRaised : public Error {
  public:
    using Error::Error;
};

/// One optimiser's view. A step multiplies the loss by scale(), checks the gradients, unscales them as unscaling() says,
/// skips the update when a gradient was not finite and skips() is true, and ends with update().
class LossScaler {
  public:
    virtual ~LossScaler() = default;
    /// In the type that the framework keeps it in, an fp32 tensor or a double of Python. What the loss is multiplied by
    /// is its fp32 value.
    virtual double scale() const = 0;
    /// Called once a step, when the gradients are checked and not yet unscaled. A scaler whose framework updates the
    /// scale before it unscales does so here, and unscales with what it has become. Throws ScalerRaised as update()
    /// does.
    virtual Unscaling unscaling(bool found_inf) = 0;
    /// True where the check for Inf and NaN looks at the fp32 sum of each gradient, so that a tensor of finite numbers
    /// whose sum is not finite counts too; false where it looks at every element.
    virtual bool checks_sums() const { return false; }
    /// True when a non-finite gradient means that the step is skipped (false for `none`).
    virtual bool skips() const { return true; }
    /// Ends the step. Throws ScalerRaised where the framework raises; the state is then that of the step before.
    virtual void update(bool found_inf) = 0;
    /// Clean steps since the scale last changed or, where the framework counts so, since the last Inf or NaN; for the
    /// log. 0 where the scaler does not count them.
    virtual std::int64_t growth_tracker() const { return 0; }
    /// Infs or NaNs that are still forgiven, with the one that backs off; nothing where the first one backs off.
    virtual std::optional<std::int64_t> hysteresis() const { return {}; }
    /// Everything that unscaling() and update() have changed: what a checkpoint keeps. Numbers that fp64 holds exactly;
    /// empty where nothing ever changes.
    virtual std::vector<double> state() const { return {}; }
    /// Takes back what state() gave. False, and nothing changed, where that is of another kind of scaler.
    [[nodiscard]] virtual bool load(std::span<const double> state) { return state.empty(); }
};

std::unique_ptr<LossScaler> make_loss_scaler(const LossScalerConfig& config);

}  // namespace macheps::policy
