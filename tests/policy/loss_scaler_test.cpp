// SPDX-License-Identifier: Apache-2.0
// Traces and edge cases of torch.amp.GradScaler (pytorch torch/amp/grad_scaler.py, AmpKernels.cu).
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"
#include "experiments/training/model/transformer.hpp"
#include "experiments/training/run/optimizer/optimizer.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace loss_scaler_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

TorchSettings torch(float init_scale, int growth_interval) {
    return {.init_scale = init_scale, .growth_interval = growth_interval};
}

/// Returns the loss scaler of kind `torch` with these settings.
std::unique_ptr<LossScaler> torch_view(const TorchSettings& s) {
    return make_loss_scaler(LossScalerConfig(*find_scaler("torch"), {{"init_scale", s.init_scale},
                                                                     {"growth_factor", s.growth_factor},
                                                                     {"backoff_factor", s.backoff_factor},
                                                                     {"growth_interval", double(s.growth_interval)}}));
}

/// Returns the factor that multiplies the gradients after a clean step.
float inverse_of(LossScaler& scaler) {
    const Unscaling by = scaler.unscaling(false);
    CHECK_FALSE(by.divides);
    return by.factor;
}

/// Takes one step of one optimiser whose gradient is `value`. Returns whether the step was taken.
bool one_step(GradScaler& scaler, float value, int optimizer = 0) {
    std::vector<float> g{value};
    const GradScaler::Gradient gradient{g};
    return scaler.step(optimizer, {&gradient, 1}, [] {});
}

GradScaler used(const TorchSettings& config, GradScaler::Device device = GradScaler::Device::cuda,
                GradScaler::Sharding sharding = GradScaler::Sharding::none) {
    GradScaler scaler(config, true, device, sharding);
    scaler.scale(1.0f);
    return scaler;
}

std::string message_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the scale follows the traces of torch's GradScaler", "[experiments][scaler]") {
    struct Trace {
        const char* name;
        float init;
        int interval;
        std::vector<int> overflows;                 // steps that overflow, counted from 1
        std::vector<int> used_exponents, trackers;  // exponents of the scale in each step; trackers after it
        int end_exponent;
    };
    const Trace traces[] = {
        {"A",
         0x1p16f,
         3,
         {3, 4, 9},
         {16, 16, 16, 15, 14, 14, 14, 15, 15, 14, 14, 14, 15, 15, 15, 16},
         {1, 2, 0, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 2, 0, 1},
         16},
        {"B",
         0x1p16f,
         3,
         {3, 5, 7},
         {16, 16, 16, 15, 15, 14, 14, 13, 13, 13, 14, 14},
         {1, 2, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2},
         14},
        {"E1: no floor", 4.0f, 2000, {1, 2, 3, 4, 5, 6}, {2, 1, 0, -1, -2, -3}, {0, 0, 0, 0, 0, 0}, -4},
        {"E2: no cap", 0x1p23f, 1, {}, {23, 24, 25, 26}, {0, 0, 0, 0}, 27},
        {"E3: growth to Inf is refused", 0x1p127f, 1, {}, {127, 127, 127}, {0, 0, 0}, 127},
        {"E4: growth on the first step", 4.0f, 1, {}, {2, 3}, {0, 0}, 4},
    };
    for (const Trace& trace : traces) {
        const TorchSettings config = torch(trace.init, trace.interval);
        const auto view = torch_view(config);
        GradScaler whole(config);
        for (std::size_t step = 1; step <= trace.used_exponents.size(); ++step) {
            CAPTURE(trace.name, step);
            const float expected = std::ldexp(1.0f, trace.used_exponents[step - 1]);
            CHECK(view->scale() == expected);
            CHECK(whole.scale(1.0f) == expected);
            const bool overflow =
                std::count(trace.overflows.begin(), trace.overflows.end(), static_cast<int>(step)) > 0;
            CHECK(one_step(whole, overflow ? inf : 1.0f) == !overflow);
            whole.update();
            view->update(overflow);
            CHECK(view->growth_tracker() == trace.trackers[step - 1]);
            CHECK(whole.growth_tracker() == trace.trackers[step - 1]);
        }
        CHECK(view->scale() == std::ldexp(1.0f, trace.end_exponent));
    }
}

TEST_CASE("k clean steps raise the scale's exponent by floor((tracker + k) / interval)", "[experiments][scaler]") {
    for (const int interval : {1, 2, 7, 50}) {
        for (int tracker = 0; tracker < interval; ++tracker) {
            const TorchSettings config = torch(1.0f, interval);
            float scale = 1.0f;
            std::int64_t state = tracker;
            for (int k = 1; k <= 100; ++k) {
                update_scale(config, scale, state, false);
                CAPTURE(interval, tracker, k);
                REQUIRE(scale == std::ldexp(1.0f, (tracker + k) / interval));
            }
        }
    }
}

TEST_CASE("the scale is a float, and its products are computed in double precision", "[experiments][scaler]") {
    // The factors 0.7 and 1.3 are doubles: the new scale is fl32(double(3) * 0.7), not fl32(3 * fl32(0.7)).
    const auto scaler =
        torch_view({.init_scale = 3.0f, .growth_factor = 1.3, .backoff_factor = 0.7, .growth_interval = 1});
    float expected = 3.0f;
    bool differs = false;
    for (int i = 0; i < 60; ++i) {
        const bool overflow = i % 3 == 0;
        const float narrow = expected * static_cast<float>(overflow ? 0.7 : 1.3);
        expected = static_cast<float>(static_cast<double>(expected) * (overflow ? 0.7 : 1.3));
        differs = differs || narrow != expected;
        scaler->update(overflow);
        REQUIRE(scaler->scale() == expected);
    }
    CHECK(differs);
    CHECK(inverse_scale(3.0f) == 0x1.555556p-2f);
}

TEST_CASE("unscaling multiplies by a rounded reciprocal, and the fused kernel divides", "[experiments][scaler]") {
    CHECK(5.0f * inverse_scale(3.0f) == 0x1.aaaaacp0f);  // 0x3FD55556
    CHECK(fused_unscale(5.0f, 3.0f) == 0x1.aaaaaap0f);   // 0x3FD55555
    int different = 0;
    constexpr int count = 1 << 20;
    for (int i = 0; i < count; ++i) {
        const float g = 1.0f + static_cast<float>(i * 8) * 0x1p-23f;
        different += g * inverse_scale(3.0f) != fused_unscale(g, 3.0f) ? 1 : 0;
        REQUIRE(g * inverse_scale(1024.0f) == fused_unscale(g, 1024.0f));
    }
    CHECK(different > count / 4);
    CHECK(different < count / 2);
}

TEST_CASE("edge 1: torch's scaler refuses fp16 gradients, and FSDP's scaler accepts them", "[experiments][scaler]") {
    std::vector<float> g{4.0f};
    const GradScaler::Gradient gradient{g, fp16};
    GradScaler plain = used(torch(2.0f, 10));
    CHECK(contains(message_of([&] { plain.unscale(0, {&gradient, 1}); }), "fp16 gradients cannot be unscaled"));
    GradScaler sharded = used(torch(2.0f, 10), GradScaler::Device::cuda, GradScaler::Sharding::fsdp);
    sharded.unscale(0, {&gradient, 1});
    CHECK(g[0] == 2.0f);
}

TEST_CASE("edge 2: unscaling bf16 gradients is refused on CUDA and rounds to bf16 on a CPU", "[experiments][scaler]") {
    std::vector<float> g{0x1.82p0f};
    const GradScaler::Gradient gradient{g, bf16};
    GradScaler cuda = used(torch(3.0f, 10));
    CHECK(contains(message_of([&] { cuda.unscale(0, {&gradient, 1}); }), "not implemented for bf16"));
    GradScaler cpu = used(torch(3.0f, 10), GradScaler::Device::cpu);
    cpu.unscale(0, {&gradient, 1});
    CHECK(g[0] == 0x1.02p-1f);  // 0x1.82p0 / 3 = 0x1.0155...p-1 lies between 0x1.00 and 0x1.02, nearer to 0x1.02
}

TEST_CASE("edge 3: growth to a value that is not finite is refused, and the tracker is still reset",
          "[experiments][scaler]") {
    const auto scaler = torch_view(torch(0x1p127f, 2));
    scaler->update(false);
    CHECK(scaler->growth_tracker() == 1);
    scaler->update(false);
    CHECK(scaler->scale() == 0x1p127f);
    CHECK(scaler->growth_tracker() == 0);
}

TEST_CASE("edge 4: repeated overflow takes the scale through the subnormals to zero", "[experiments][scaler]") {
    const auto scaler = torch_view(torch(1.0f, 2000));
    for (int i = 0; i < 149; ++i) scaler->update(true);
    CHECK(scaler->scale() == 0x1p-149f);
    scaler->update(true);
    CHECK(scaler->scale() == 0.0f);
    CHECK(inverse_of(*scaler) == inf);
}

TEST_CASE("edge 5: if a loaded tracker is at or beyond the interval, the scale grows only after an overflow",
          "[experiments][scaler]") {
    GradScaler scaler(torch(1.0f, 3));
    scaler.load(GradScaler::State{64.0f, 2.0, 0.5, 3, 3});
    for (int i = 0; i < 20; ++i) {
        scaler.scale(1.0f);
        one_step(scaler, 1.0f);
        scaler.update();
        REQUIRE(scaler.get_scale() == 64.0f);
    }
    CHECK(scaler.growth_tracker() == 23);
    const float gradients[] = {inf, 1.0f, 1.0f, 1.0f}, after[] = {32.0f, 32.0f, 32.0f, 64.0f};
    for (int i = 0; i < 4; ++i) {
        scaler.scale(1.0f);
        one_step(scaler, gradients[i]);
        scaler.update();
        CHECK(scaler.get_scale() == after[i]);
    }
}

TEST_CASE("edge 6: calls out of order are refused", "[experiments][scaler]") {
    std::vector<float> g{1.0f};
    const GradScaler::Gradient one{g};
    const std::span<const GradScaler::Gradient> gradients{&one, 1};
    const auto nothing = [] {};
    GradScaler fresh(torch(2.0f, 10));
    CHECK(contains(message_of([&] { fresh.unscale(0, gradients); }), "before any loss was scaled"));
    CHECK(contains(message_of([&] { fresh.update(); }), "before any loss was scaled"));

    GradScaler scaler = used(torch(2.0f, 10));
    CHECK(contains(message_of([&] { scaler.update(); }), "no gradient was checked before update"));
    CHECK(contains(message_of([&] { scaler.step(0, {}, nothing); }), "no gradient was checked for this optimiser"));
    scaler = used(torch(2.0f, 10));
    scaler.unscale(0, gradients);
    CHECK(contains(message_of([&] { scaler.unscale(0, gradients); }), "unscale was already called"));
    CHECK(scaler.step(0, gradients, nothing));
    CHECK(contains(message_of([&] { scaler.unscale(0, gradients); }), "unscale was called after step"));
    CHECK(contains(message_of([&] { scaler.step(0, gradients, nothing); }), "step was already called"));
    CHECK(
        contains(message_of([&] { scaler.step_fused(0, gradients, [](float, bool) {}); }), "step was already called"));
    CHECK(contains(message_of([&] { scaler.step_with_closure(); }), "closure"));
    CHECK(contains(message_of([&] { scaler.load({}); }), "the saved state is empty"));
    scaler.update();
    CHECK(scaler.step(0, gradients, nothing));  // accepted, because update() starts a new step
    CHECK(g[0] == 0.25f);                       // unscaled once per step, not twice
}

TEST_CASE("edge 7: if one of two optimisers overflows, only this optimiser skips its step, and the scale falls once",
          "[experiments][scaler]") {
    GradScaler scaler = used(torch(1024.0f, 2000));
    CHECK_FALSE(one_step(scaler, inf, 0));
    CHECK(one_step(scaler, 1.0f, 1));
    scaler.update();
    CHECK(scaler.get_scale() == 512.0f);
    CHECK_FALSE(one_step(scaler, std::numeric_limits<float>::quiet_NaN(), 0));
    CHECK_FALSE(one_step(scaler, -inf, 1));
    scaler.update();
    CHECK(scaler.get_scale() == 256.0f);
}

TEST_CASE("edge 8: a fused optimiser always runs, and unscales the gradients itself", "[experiments][scaler]") {
    std::vector<float> g{6.0f};
    const GradScaler::Gradient one{g};
    GradScaler scaler = used(torch(3.0f, 2000));
    float divide_by = 0;
    bool found = true;
    const auto kernel = [&](float scale, bool found_inf) { divide_by = scale, found = found_inf; };
    scaler.step_fused(0, {&one, 1}, kernel);
    CHECK(divide_by == 3.0f);
    CHECK_FALSE(found);
    CHECK(g[0] == 6.0f);
    scaler.update();

    scaler.unscale(0, {&one, 1});
    scaler.step_fused(0, {&one, 1}, kernel);
    CHECK(divide_by == 1.0f);
    CHECK(g[0] == 2.0f);
    scaler.update();

    g[0] = inf;
    scaler.step_fused(0, {&one, 1}, kernel);
    CHECK(found);
    scaler.update();
    CHECK(scaler.get_scale() == 1.5f);
}

TEST_CASE("update(scale) sets the scale and does not change the tracker", "[experiments][scaler]") {
    GradScaler scaler = used(torch(8.0f, 2000));
    one_step(scaler, 1.0f);
    scaler.update();
    one_step(scaler, inf);
    scaler.update(5.0f);
    CHECK(scaler.get_scale() == 5.0f);
    CHECK(scaler.growth_tracker() == 1);
    CHECK(one_step(scaler, 1.0f));  // accepted, because update() starts a new step
}

TEST_CASE("a disabled scaler neither scales nor skips, and never refuses a call", "[experiments][scaler]") {
    GradScaler scaler({.growth_factor = 0.5, .backoff_factor = 2.0}, false);
    std::vector<float> g{inf};
    const GradScaler::Gradient one{g, fp16};
    CHECK(scaler.scale(3.0f) == 3.0f);
    scaler.unscale(0, {&one, 1});
    bool ran = false;
    CHECK(scaler.step(0, {&one, 1}, [&] { ran = true; }));
    CHECK(ran);
    scaler.update();
    scaler.update(7.0f);
    scaler.step_with_closure();
    scaler.load({});
    CHECK(scaler.get_scale() == 1.0f);
    CHECK_FALSE(scaler.state().has_value());
}

TEST_CASE("a scaler with a loaded state continues like the scaler that saved it", "[experiments][scaler]") {
    GradScaler first(torch(64.0f, 3));
    for (const float g : {1.0f, 1.0f, inf, 1.0f}) {
        first.scale(1.0f);
        one_step(first, g);
        first.update();
    }
    GradScaler second(torch(1.0f, 2000));
    second.load(first.state());
    for (int i = 0; i < 10; ++i) {
        CHECK(first.scale(1.0f) == second.scale(1.0f));
        one_step(first, i == 4 ? inf : 1.0f);
        one_step(second, i == 4 ? inf : 1.0f);
        first.update();
        second.update();
        CHECK(first.growth_tracker() == second.growth_tracker());
    }
}

TEST_CASE("a scaled zero-dimensional fp16 loss overflows only under FSDP's scaler", "[experiments][scaler]") {
    GradScaler scaler(torch(65536.0f, 2000));
    CHECK(scaler.scale(2.0f, fp16, 0) == 131072.0f);
    CHECK(scaler.scale(2.0f, fp16, 1) == inf);
    CHECK(scaler.scale(2.0f, fp32, 1) == 131072.0f);
    GradScaler sharded(torch(65536.0f, 2000), true, GradScaler::Device::cuda, GradScaler::Sharding::fsdp);
    CHECK(sharded.scale(1.0f, fp16, 0) == inf);
    CHECK(sharded.scale(0x1.ccp-1f, fp16, 0) == 58880.0f);
    CHECK(sharded.scale(quantize(fp16, 0.9f, Round::nearest_even, Overflow::saturate), fp16, 0) == 58976.0f);
    CHECK(sharded.scale(2.0f, fp32, 0) == 131072.0f);
    CHECK_THROWS_AS(GradScaler({.growth_factor = 1.0}), Error);
    CHECK_THROWS_AS(GradScaler({.backoff_factor = 1.0}), Error);
}

TEST_CASE("the scale of constant scalers never changes", "[experiments][scaler]") {
    struct Case {
        LossScalerConfig config;
        float scale, inverse;
        bool skips;
    };
    const Case cases[] = {
        {LossScalerConfig(), 1.0f, 1.0f, false},
        {LossScalerConfig(*find_scaler("static"), {{"init_scale", 1024}}), 1024.0f, 0x1p-10f, true},
    };
    for (const Case& c : cases) {
        const auto scaler = make_loss_scaler(c.config);
        for (const bool found : {false, true, true, false}) {
            scaler->update(found);
            CHECK(scaler->scale() == c.scale);
            CHECK(inverse_of(*scaler) == c.inverse);
            CHECK(scaler->growth_tracker() == 0);
        }
        CHECK(scaler->skips() == c.skips);
    }
    CHECK(LossScalerConfig().kind->name == "none");
    CHECK(find_scaler("static")->name == "static");
    CHECK(find_scaler("torch")->name == "torch");
    CHECK(torch_view(torch(1, 1))->skips());
}

TEST_CASE("the names, keys and summary lines of every kind of loss scaler are consistent", "[experiments][scaler]") {
    for (const ScalerKind* kind : scaler_kinds()) {
        CAPTURE(std::string(kind->name));
        CHECK(find_scaler(kind->name) == kind);
        for (const std::string_view alias : kind->aliases) CHECK(find_scaler(alias) == kind);
        CHECK_FALSE(kind->source.empty());
        CHECK_FALSE(kind->summary.empty());
        for (const ScalerKey& key : kind->keys) {
            CAPTURE(std::string(key.name));
            CHECK_FALSE(key.summary.empty());
            CHECK((key.is_good == nullptr) == key.wanted.empty());
            if (key.is_good != nullptr && key.initial) CHECK(key.is_good(*key.initial));
        }
        const LossScalerConfig config(*kind);
        CHECK(config.settings.size() == kind->keys.size());
        const std::string line = to_string(config);
        CHECK(line.starts_with(kind->name));
        CHECK(line.find('{') == std::string::npos);
        CHECK(make_loss_scaler(config)->load(make_loss_scaler(config)->state()));
    }
    CHECK(find_scaler("tosch") == nullptr);
    CHECK(to_string(LossScalerConfig(*find_scaler("torch"))) ==
          "torch, from 65536; x2 after 2000 clean steps; on Inf or NaN, x0.5 and the step is skipped");
    CHECK(to_string(LossScalerConfig(*find_scaler("static"), {{"init_scale", 0.1}})) == "static 0.1, skip true");
    LossScalerConfig config(*find_scaler("torch"));
    CHECK_THROWS_AS(config.find("hysteresis"), Error);
    CHECK_THROWS_AS(config.set("hysteresis", 2), Error);
}

namespace {

/// A scaler that uses every feature of the interface: a flag, a count, a key without an initial value, its own state,
/// an update before unscaling, a floor below which it raises an error, and division of the gradients.
class EagerScaler final : public LossScaler {
  public:
    explicit EagerScaler(const LossScalerConfig& config)
        : scale_(config.at("init_scale")),
          hysteresis_(config.at("hysteresis")),
          divides_(config.at("divides") != 0),
          floor_(config.find("floor")) {}
    double scale() const override { return scale_; }
    Unscaling unscaling(bool found_inf) override {
        if (found_inf && --hysteresis_ <= 0) scale_ /= 2;
        return {.factor = static_cast<float>(divides_ ? scale_ : 1 / scale_), .divides = divides_};
    }
    void update(bool) override {
        if (floor_ && scale_ < *floor_)
            throw ScalerRaised({.what = "the loss scale is at its floor", .where = "eager"});
    }
    std::vector<double> state() const override { return {scale_, hysteresis_}; }
    bool load(std::span<const double> state) override {
        if (state.size() != 2) return false;
        scale_ = state[0], hysteresis_ = state[1];
        return true;
    }

  private:
    double scale_, hysteresis_;
    bool divides_;
    std::optional<double> floor_;
};

constexpr ScalerKey eager_keys[] = {
    {.name = "init_scale", .type = ScalerValue::fp32, .initial = 3},
    {.name = "hysteresis", .type = ScalerValue::count, .initial = 2},
    {.name = "divides", .type = ScalerValue::flag, .initial = 1},
    {.name = "floor", .type = ScalerValue::number},
};
const ScalerKind eager{.name = "eager",
                       .keys = eager_keys,
                       .make = [](const LossScalerConfig& config) -> std::unique_ptr<LossScaler> {
                           return std::make_unique<EagerScaler>(config);
                       },
                       .line = "eager {init_scale} {hysteresis} {divides} {floor}"};

/// A tiny model and its optimiser. Each step sets all gradients to the same number.
class Steps {
  public:
    explicit Steps(const char* policy, double clip = 0)
        : backend_(1),
          policy_(resolve(load_policy(policy), model_sites(config_))),
          model_(backend_, config_, 1, policy_, 0) {
        options_.clip = clip;
        model_.initialise(0);
        optimizer_.emplace(backend_, policy_, options_, model_, 0);
    }
    StepOutcome step(LossScaler& scaler, float gradient) {
        for (const auto& p : model_.parameters()) backend_.fill(p->grad, gradient);
        return optimizer_->step(0, scaler);
    }
    /// Returns one of the gradients after the step, which may have unscaled and clipped it.
    float gradient() { return numbers(model_.parameters().front()->grad).front(); }
    std::vector<float> weights() { return numbers(model_.parameters().front()->value); }

  private:
    std::vector<float> numbers(ConstView view) {
        std::vector<float> list(static_cast<std::size_t>(view.count()));
        backend_.download(view, list);
        return list;
    }

    ModelConfig config_{.layers = 1, .width = 16, .heads = 2, .context = 8, .vocabulary = 16};
    CpuBackend backend_;
    ResolvedPolicy policy_;
    Transformer model_;
    TrainOptions options_;
    std::optional<Optimizer> optimizer_;
};

/// Takes one step of a tiny model whose gradients are all `gradient`, and returns one of the gradients after the step.
float gradient_after_step(LossScaler& scaler, const char* policy = "fp32", double clip = 0, float gradient = 5.0f) {
    Steps steps(policy, clip);
    steps.step(scaler, gradient);
    return steps.gradient();
}

std::unique_ptr<LossScaler> scaler_of(const char* kind,
                                      std::initializer_list<std::pair<std::string_view, double>> said) {
    return make_loss_scaler(LossScalerConfig(*find_scaler(kind), said));
}

}  // namespace

TEST_CASE("one ScalerKind is enough to define a new scaler with its own keys and state", "[experiments][scaler]") {
    LossScalerConfig config(eager);
    CHECK(to_string(config) == "eager 3 2 true none");
    config.set("floor", 1);
    config.set("divides", 0);
    CHECK(to_string(config) == "eager 3 2 false 1");
    CHECK_FALSE(config == LossScalerConfig(eager));
    const auto scaler = make_loss_scaler(config);
    const auto step = [&](bool found_inf) {
        const float factor = scaler->unscaling(found_inf).factor;
        scaler->update(found_inf);
        return factor;
    };
    CHECK(step(true) == static_cast<float>(1 / 3.0));  // the hysteresis forgives the first overflow
    CHECK(step(true) == static_cast<float>(1 / 1.5));  // the second overflow halves the scale before unscaling
    const auto other = make_loss_scaler(config);
    REQUIRE(other->load(scaler->state()));
    CHECK(other->scale() == 1.5f);
    CHECK_FALSE(other->load(std::vector<double>(1)));
    CHECK_THROWS_AS(step(true), Error);
}

TEST_CASE("if the scaler divides, the optimiser divides gradients; otherwise it multiplies them by the reciprocal",
          "[experiments][scaler]") {
    for (const double divides : {0.0, 1.0}) {
        const auto scaler = make_loss_scaler(LossScalerConfig(eager, {{"divides", divides}}));
        const float expected = divides != 0 ? fused_unscale(5.0f, 3.0f) : 5.0f * inverse_scale(3.0f);
        CHECK(gradient_after_step(*scaler) == expected);
    }
}

TEST_CASE("if DeepSpeed's scale grows after a step, the gradients of that step are halved unless they are clipped",
          "[experiments][scaler]") {
    for (const char* kind : {"ds-zero", "ds-fused"}) {
        for (const double halves : {1.0, 0.0}) {
            CAPTURE(kind, halves);
            // With a growth interval of 1, the scale grows in the second step.
            const auto second_step = [&](double clip) {
                const auto scaler =
                    scaler_of(kind, {{"init_scale", 4}, {"growth_interval", 1}, {"growth_step_half_grad", halves}});
                scaler->unscaling(false);
                CHECK(scaler->scale() == 4);
                const float gradient = gradient_after_step(*scaler, "fp32", clip);
                CHECK(scaler->scale() == 8);
                return gradient;
            };
            CHECK(second_step(0) == 5.0f / (halves != 0 ? 8 : 4));
            // Halving does not change clipped gradients. All n gradients are equal, so each is clipped to 1 / sqrt(n),
            // apart from a few roundings and the 1e-6 that is added to the norm.
            const auto plain = scaler_of("torch", {{"init_scale", 4}});
            const float clipped = gradient_after_step(*plain, "fp32", 1.0);
            CHECK(clipped < 0.1f);
            CHECK(std::abs(second_step(1.0) - clipped) < 1e-6f * clipped);
        }
    }
}

TEST_CASE("unscaled gradients of master weights are fp32, and torch's unscaled gradients keep their format",
          "[experiments][scaler]") {
    const float narrow = quantize(fp16, 5.0f * inverse_scale(3), Round::nearest_even, Overflow::saturate);
    CHECK(narrow != 5.0f * inverse_scale(3));
    for (const ScalerKind* kind : scaler_kinds()) {
        CAPTURE(std::string(kind->name));
        if (kind->name == "none") continue;
        const auto scaler = make_loss_scaler(LossScalerConfig(*kind, {{"init_scale", 3}}));
        const bool keeps = kind->name.starts_with("torch") || kind->name == "static";
        CHECK(gradient_after_step(*scaler, "pure-fp16") == (keeps ? narrow : 5.0f * inverse_scale(3)));
    }
    // Clipped gradients are fp32 as well: 1 / sqrt(n) is not rounded to fp16.
    const auto apex = scaler_of("apex", {{"init_scale", 3}});
    const float clipped = gradient_after_step(*apex, "pure-fp16", 1.0);
    CHECK(clipped != quantize(fp16, clipped, Round::nearest_even, Overflow::saturate));
}

TEST_CASE("if a framework checks the sum of a gradient, finite numbers with an infinite sum are an overflow",
          "[experiments][scaler]") {
    for (const ScalerKind* kind : scaler_kinds()) {
        CAPTURE(std::string(kind->name));
        const bool adds = kind->name == "ds-fused" || kind->name == "apex-fp16-utils";
        const auto scaler = make_loss_scaler(LossScalerConfig(*kind));
        CHECK(scaler->checks_sums() == adds);
        CHECK(Steps("fp32").step(*scaler, 0x1p127f).skipped == adds);
        CHECK_FALSE(Steps("fp32").step(*scaler, 0x1p100f).skipped);
        CHECK_FALSE(Steps("pure-fp16").step(*scaler, 65504.0f).skipped);
        const bool skips = kind->name != "none";
        CHECK(Steps("fp32").step(*scaler, inf).skipped == skips);
        CHECK(Steps("pure-fp16").step(*scaler, std::numeric_limits<float>::quiet_NaN()).skipped == skips);
    }
}

TEST_CASE("a static scale without skipping does not change results, but lets Inf in the gradients reach the weights",
          "[experiments][scaler]") {
    const auto by_hand = [](double scale) {
        return scaler_of("static", {{"init_scale", scale}, {"skip", 0}, {"unscale_by_division", 1}});
    };
    for (const float gradient : {5.0f, 0x1.234566p-20f, -0x1.fffffep-90f}) {
        Steps plain("fp32"), scaled("fp32");
        CHECK_FALSE(plain.step(*by_hand(1), gradient).skipped);
        CHECK_FALSE(scaled.step(*by_hand(1024), gradient * 1024).skipped);
        CHECK(scaled.gradient() == gradient);
        CHECK(scaled.weights() == plain.weights());
    }
    Steps broken("fp32");
    CHECK_FALSE(broken.step(*by_hand(1024), inf).skipped);
    for (const float weight : broken.weights()) CHECK_FALSE(std::isfinite(weight));
    Steps guarded("fp32");
    const std::vector<float> before = guarded.weights();
    CHECK(guarded.step(*scaler_of("static", {{"init_scale", 1024}}), inf).skipped);
    CHECK(guarded.weights() == before);
}

}  // namespace loss_scaler_test
