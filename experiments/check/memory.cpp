// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/memory.hpp"

#include "core/host/memory_limit.hpp"
#include "experiments/check/bounds/panels.hpp"

#include <algorithm>

namespace macheps::check {

double min_bytes(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                 const Options& options) {
    double bytes = 0;
    for (const files::StoredArray& array : arrays) {
        const auto count = static_cast<double>(array.count());
        bytes += static_cast<double>(array.bytes.size());
        const bool is_out = array.name == "out", is_operand = array.name == "a" || array.name == "b";
        const bool is_product = declaration.operation->is_product;
        if (is_product && is_operand) bytes += count * sizeof(double);
        if (!is_out || !options.sampling.is_all()) continue;
        bytes += count * (sizeof(float) + (options.holds_limits ? Panel::bytes_each(0) : 0));
        if (is_product) bytes += count * 2 * sizeof(double);  // sums, and sums of magnitudes
    }
    return bytes;
}

std::int64_t plan_memory(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                         const Options& options) {
    const double least = min_bytes(declaration, arrays, options);
    require_memory(least, options.memory, "this check");
    if (options.holds_limits || !options.sampling.is_all()) return INT64_MAX;
    if (!options.memory) return usual_limit_bytes;
    constexpr double panels = 0x1p26, others = 0x1p26;  // bytes for one panel of limits, and for small allocations
    return static_cast<std::int64_t>(std::max(panels, static_cast<double>(*options.memory) - least - others));
}

}  // namespace macheps::check
