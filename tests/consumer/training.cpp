// SPDX-License-Identifier: Apache-2.0
// A program that uses the presets. They are compiled into the library, so no file of the source tree is read.
#include "check.hpp"

#include "core/host/version.hpp"
#include "experiments/policy/policy.hpp"

using namespace macheps::policy;

int main() {
    using namespace macheps;
    CONSUMER_CHECK(!version().empty());
    CONSUMER_CHECK(preset_names().front() == "fp32");
    CONSUMER_CHECK(preset_text("amp-bf16").find("bf16") != std::string_view::npos);
    return failures == 0 ? 0 : 1;
}
