// SPDX-License-Identifier: Apache-2.0
// The data of matrix products for the charts of the page, and plots of matrix products for a paper.
#include "reports/pages/measured_page.hpp"
#include "reports/pages/page_parts.hpp"
#include "reports/pages/studies/gemm_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
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

constexpr std::size_t max_gemm_plots = 12;

/// A size of a product that may be the x axis of a plot.
struct GemmSize {
    std::string_view name, axis;
    double (*of)(const GemmRow& row);
};
constexpr GemmSize gemm_sizes[] = {
    {"k", "terms k", [](const GemmRow& row) { return double(row.k); }},
    {"n", "columns n", [](const GemmRow& row) { return double(row.n); }},
    {"m", "rows m", [](const GemmRow& row) { return double(row.m); }},
    {"scale", "scale of the operands", [](const GemmRow& row) { return row.scale; }},
};

/// Returns the first size that varies, or k.
const GemmSize& varying_size(const std::vector<const GemmRow*>& rows) {
    const auto varies = [&](const GemmSize& size) {
        return std::any_of(rows.begin(), rows.end(),
                           [&](const GemmRow* row) { return size.of(*row) != size.of(*rows[0]); });
    };
    const auto* found = std::find_if(std::begin(gemm_sizes), std::end(gemm_sizes), varies);
    return found == std::end(gemm_sizes) ? gemm_sizes[0] : *found;
}

/// Returns the sizes other than `axis` in words: "m 16, n 16, scale 1".
std::string other_sizes(const GemmRow& row, const GemmSize& axis) {
    std::string text;
    for (const GemmSize& size : gemm_sizes) {
        if (&size != &axis) text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", size.name, size.of(row));
    }
    return text;
}

/// Adds the largest of the values with the same x.
void add_largest(std::map<double, double>& points, double x, std::optional<double> y) {
    if (!y || !(*y > 0)) return;
    const auto [at, is_new] = points.emplace(x, *y);
    if (!is_new) at->second = std::max(at->second, *y);
}

/// Returns the plot of products with the same kind of operands and the same sizes other than `axis`.
Plot plot_of_products(const std::vector<std::pair<const GemmRow*, std::string>>& rows, const GemmSize& axis) {
    struct Curves {
        std::map<double, double> error, bound, probable;
    };
    std::vector<std::string> order;
    std::map<std::string, Curves> curves;
    for (const auto& [row, machine] : rows) {
        if (!curves.contains(machine)) order.push_back(machine);
        Curves& of_machine = curves[machine];
        const double x = axis.of(*row);
        add_largest(of_machine.error, x, row->max_error);
        add_largest(of_machine.bound, x, row->bound);
        add_largest(of_machine.probable, x, row->probable_bound);
    }
    const GemmRow& first = *rows.front().first;
    Plot plot{
        .title = fmt::format("Errors of products of {}.", gemm_data_name(first)),
        .caption = fmt::format("The largest |error| of an output, relative to the sum of |a||b|, on each machine; {}. "
                               "Dashed: certain bound; dotted: probable bound.",
                               other_sizes(first, axis)),
        .x_name = std::string(axis.axis),
        .y_name = "largest |error| / sum of |a||b|",
        .has_log_x = true};
    std::string exact;
    for (std::size_t i = 0; i < order.size(); ++i) {
        const Curves& of = curves.at(order[i]);
        if (of.error.empty()) exact += (exact.empty() ? "" : ", ") + order[i];
        plot.curves.push_back({.name = order[i], .points = {of.error.begin(), of.error.end()}, .colour = i});
        plot.curves.push_back(
            {.points = {of.bound.begin(), of.bound.end()}, .colour = i, .stroke = Stroke::dashed, .mark = Mark::none});
        plot.curves.push_back({.points = {of.probable.begin(), of.probable.end()},
                               .colour = i,
                               .stroke = Stroke::dotted,
                               .mark = Mark::none});
    }
    if (!exact.empty()) plot.caption += fmt::format(" No error: {}.", exact);
    return plot;
}

}  // namespace

Plots gemm_plots(std::span<const GemmRow> rows) {
    const std::vector<std::string> machines = gemm_series_names(rows);
    std::map<std::string, std::vector<const GemmRow*>> sets;
    for (const GemmRow& row : rows) sets[gemm_data_name(row)].push_back(&row);
    Plots plots;
    for (const auto& [data, of_data] : sets) {
        const GemmSize& axis = varying_size(of_data);
        std::map<std::string, std::vector<std::pair<const GemmRow*, std::string>>> products;
        for (const GemmRow* row : of_data)
            products[other_sizes(*row, axis)].emplace_back(row, machines[std::size_t(row - rows.data())]);
        for (const auto& [sizes, same] : products) {
            if (plots.shown.size() >= max_gemm_plots) {
                ++plots.left_out;
                continue;
            }
            plots.shown.push_back(plot_of_products(same, axis));
            plots.shown.back().id = fmt::format("gemm-{}", plots.shown.size());
        }
    }
    return plots;
}

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
