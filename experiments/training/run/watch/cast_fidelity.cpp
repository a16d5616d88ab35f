// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/watch/cast_fidelity.hpp"

#include "core/math64.hpp"

#include <algorithm>
#include <cmath>

namespace macheps::training {

namespace {

double largest_of(const Format& format) { return decode64(format, format.max_finite_code() << format.padding); }

/// Returns the smallest magnitude that rounds to more than the format's largest number. A tie goes to the even
/// neighbour, so it rounds up only if the last bit of the largest number is 1.
double min_beyond(const Format& format) {
    const double largest = largest_of(format);
    int exponent = 0;
    std::frexp(largest, &exponent);
    const double ulp = std::ldexp(1.0, exponent - format.precision), tie = largest + ulp / 2;
    return std::fmod(largest / ulp, 2) == 1 ? tie : std::nextafter(tie, HUGE_VAL);
}

double log2_of(double x) { return math::log(x) * 1.4426950408889634; }

}  // namespace

void CastFidelity::add(const CastKind& kind, const CastValues& values) {
    static const Simd simd = chosen_simd();
    const bool is_scaled = kind.granularity->is_scaled();
    const bool has_subnormals = kind.format.encoding == Encoding::binary;
    const FidelityCast cast{.min_normal = has_subnormals ? Format::power_of_two(kind.format.emin()) : 0,
                            .min_beyond = min_beyond(kind.format),
                            .has_groups = is_scaled && !kind.granularity->is_axis_free(),
                            .encode_scale = values.encode_scale};
    add_fidelity(simd, cast, values.x.data(), values.y.data(), values.codes.data(),
                 static_cast<std::int64_t>(values.x.size()), figures_);
    if (is_scaled) add_blocks(*kind.granularity, values);
}

void CastFidelity::add_identity(float amax) { figures_.z_max = std::max(figures_.z_max, double{amax}); }

/// Counts the blocks that have a nonzero input but no nonzero output.
void CastFidelity::add_blocks(const Granularity& granularity, const CastValues& values) {
    const std::int64_t columns = values.columns, rows = static_cast<std::int64_t>(values.x.size()) / columns;
    const bool k_is_last = values.contraction == Contraction::last;
    const ScaleGrid grid = scale_grid(granularity, k_is_last, rows, columns);
    const std::int64_t down = k_is_last ? granularity.outer : granularity.k,
                       across = k_is_last ? granularity.k : granularity.outer;
    enum : std::uint8_t { has_input = 1, has_output = 2 };
    std::vector<std::uint8_t> blocks(static_cast<std::size_t>(grid.rows * grid.columns));
    const std::int64_t high = down == 0 ? rows : down, wide = across == 0 ? columns : across;
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t column = 0; column < grid.columns; ++column) {
            const auto first = static_cast<std::size_t>(r * columns + column * wide),
                       end = static_cast<std::size_t>(r * columns + std::min(columns, (column + 1) * wide));
            bool is_input = false, is_output = false;
            for (std::size_t i = first; i < end; ++i) {
                is_input |= values.x[i] != 0;
                is_output |= values.y[i] != 0;
            }
            std::uint8_t& block = blocks[static_cast<std::size_t>(r / high * grid.columns + column)];
            block = static_cast<std::uint8_t>(block | (is_input ? has_input : 0) | (is_output ? has_output : 0));
        }
    }
    block_flush_ += static_cast<std::uint64_t>(std::count(blocks.begin(), blocks.end(), has_input));
}

void CastFidelity::fill(reports::SiteRow& row, const CastKind& kind) const {
    row.subnormal_inexact = figures_.subnormal_inexact;
    row.overflow_rounded = figures_.overflow_rounded;
    if (kind.granularity->is_scaled()) row.block_flush = block_flush_;
    if (row.amin_nz > 0) row.dynamic_range = log2_of(double{row.amax} / double{row.amin_nz});
    if (figures_.z_max > 0) row.headroom_bits = log2_of(largest_of(kind.format) / figures_.z_max);
    row.rel_err_mean = figures_.nonzero > 0 ? figures_.relative_sum / static_cast<double>(figures_.nonzero) : 0;
    row.rel_err_max = figures_.relative_max;
    row.bias_rel = figures_.abs_x > 0 ? figures_.signed_error / figures_.abs_x : 0;
}

}  // namespace macheps::training
