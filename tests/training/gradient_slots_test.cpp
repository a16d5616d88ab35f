// SPDX-License-Identifier: Apache-2.0
// Tests that a slot's name decides whether reports count its numbers as gradients.
#include "experiments/policy/sites.hpp"
#include "experiments/training/model/config.hpp"
#include "reports/logs/site_figures.hpp"
#include "tests/test.hpp"

#include <set>
#include <string>
#include <utility>

namespace gradient_slots_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;

TEST_CASE("a slot counts as a gradient if and only if it is a gradient by the chain rule", "[experiments][reports]") {
    // Y = X W^T: dX = dY W and dW = dY^T X. S = Q K^T: dQ = dS K and dK = dS^T Q. O = P V: dP = dO V^T and dV = P^T dO.
    const std::set<std::pair<std::string, std::string>> no_gradients = {
        {"linear", "input_grad.b"}, {"linear", "weight_grad.b"}, {"scores", "grad_a.b"},
        {"scores", "grad_b.b"},     {"mix", "grad_a.b"},         {"mix", "grad_b.a"},
    };
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        const SiteList model = model_sites(named_size("tiny", kind).model);
        std::set<std::pair<std::string, std::string>> seen;
        for (const Site& site : model.sites) {
            const std::string ending = site.name.substr(site.name.rfind('.') + 1);
            const std::string what = site.kind.name == SiteKind::linear.name ? "linear" : ending;
            for (const SlotRow& row : site.kind.slots) {
                const std::string slot(row.name);
                const bool forward = slot.starts_with("forward.");
                const bool other = no_gradients.contains({what, slot});
                if (other) seen.insert({what, slot});
                CAPTURE(site.name, slot);
                CHECK(is_gradient_slot(site.name + ":" + slot) == !(forward || other));
            }
        }
        CHECK(seen == no_gradients);
        for (const Parameter& parameter : model.parameters) CHECK(is_gradient_slot(parameter.name + ":grad"));
    }
    CHECK_FALSE(is_gradient_slot("block.0.attn.scores"));
}

}  // namespace gradient_slots_test
