// SPDX-License-Identifier: Apache-2.0
// The data of matrix products for the charts of the page.
#include "reports/pages/page_parts.hpp"
#include "reports/pages/studies/gemm_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace macheps::reports {

namespace {

/// The columns of GemmRow that the page draws or uses to distinguish curves. Each row of the data has this order.
constexpr std::array<std::string_view, 17> gemm_fields{
    "seed",    "m",       "n",    "k",     "scale", "max_error",      "rms_error", "max_rel",    "rms_rel",
    "max_ulp", "sqnr_db", "bias", "drift", "bound", "probable_bound", "first",     "first_exact"};

/// Writes the value of a row's column `name`: whole numbers in full, others with seven digits.
void put_column(JsonText& out, const GemmRow& row, std::string_view name) {
    const auto put = [&](const auto& column) {
        if (column.name != name) return;
        const auto& value = row.*column.field;
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_integral_v<Value>) {
            out.put(value);
        } else if constexpr (std::is_floating_point_v<Value>) {
            out.put(double{value}, 7);
        } else if constexpr (std::is_same_v<Value, std::optional<double>>) {
            out.put(value.value_or(NAN), 7);
        }
    };
    for_each_column<GemmRow>(put);
}

}  // namespace

/// Writes each row as a list: the index of its curve, the index of its kind of operands, then the columns gemm_fields.
void put_gemm(JsonText& out, const std::vector<GemmRow>& rows, std::size_t most) {
    Names machines, sets;
    const std::vector<std::string> series = gemm_series_names(rows);
    out.key("gemm"), out.open('{'), out.key("rows"), out.open('[');
    for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
        out.open('[');
        out.put(machines.index_of(series[i])), out.put(sets.index_of(gemm_data_name(rows[i])));
        for (const std::string_view name : gemm_fields) put_column(out, rows[i], name);
        out.close(']');
    }
    out.close(']');
    std::vector<std::string_view> fields{"machine", "set"};
    fields.insert(fields.end(), gemm_fields.begin(), gemm_fields.end());
    out.put_list("fields", fields), out.put_list("machine", machines.list()), out.put_list("set", sets.list());
    out.key("left_out"), out.put(std::uint64_t{rows.size() - std::min(most, rows.size())});
    out.close('}');
}

}  // namespace macheps::reports
