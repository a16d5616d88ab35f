// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/history/history.hpp"

namespace macheps::configs {

std::span<const FaultRow> axolotl_and_llamafactory_faults() { return {}; }

}  // namespace macheps::configs
