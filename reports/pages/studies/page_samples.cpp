// SPDX-License-Identifier: Apache-2.0
// The data of sites and exponents for the page's heat map and histogram.
#include "reports/pages/page_parts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

namespace macheps::reports {

namespace {

using Field = std::pair<std::string_view, std::uint64_t (*)(const SiteRow&)>;
constexpr std::array<Field, 6> fields{{{"underflow", [](const SiteRow& row) { return row.underflow; }},
                                       {"to_subnormal", [](const SiteRow& row) { return row.to_subnormal; }},
                                       {"overflow", [](const SiteRow& row) { return row.overflow; }},
                                       {"saturated", [](const SiteRow& row) { return row.saturated; }},
                                       {"zero_in", [](const SiteRow& row) { return row.zero_in; }},
                                       {"not_finite", [](const SiteRow& row) { return row.nan_in + row.inf_in; }}}};

/// The values of one kind of count (such as underflows), one for each cell of the heat map. Each value is the sum over
/// the rows that the cell combines.
using Cells = std::vector<std::uint64_t>;

/// Writes a rate in parts per million. If `sum` is not zero, writes at least 1.
void put_rate(JsonText& out, std::uint64_t sum, std::uint64_t count) {
    if (count == 0) return out.put_null();
    const double ppm = 1e6 * double(sum) / double(count);
    out.put(sum == 0 ? std::uint64_t{0} : std::max<std::uint64_t>(1, std::uint64_t(ppm + 0.5)));
}

struct Histogram {
    std::map<std::int32_t, std::uint64_t> counts;
    std::uint64_t zero = 0, inf = 0, nan = 0;
};

}  // namespace

void put_heat(JsonText& out, const RunLog& run, Names& names, std::size_t max_columns) {
    const SampleAxes axes = axes_of(run.sites);
    const std::size_t per_column = (axes.steps.size() + max_columns - 1) / max_columns;
    const std::size_t columns = (axes.steps.size() + per_column - 1) / per_column;
    const std::size_t cells = axes.sites.size() * columns;
    std::vector<std::string> formats(axes.sites.size());
    Cells count(cells);
    std::array<Cells, fields.size()> sums;
    sums.fill(Cells(cells));
    for (const SiteRow& row : run.sites) {
        const std::size_t site = axes.site_index.find(row.site)->second;
        const auto step = std::lower_bound(axes.steps.begin(), axes.steps.end(), row.step) - axes.steps.begin();
        const std::size_t cell = site * columns + std::size_t(step) / per_column;
        formats[site] = row.format;
        count[cell] += row.count;
        for (std::size_t f = 0; f < fields.size(); ++f) sums[f][cell] += fields[f].second(row);
    }
    std::vector<std::int64_t> firsts;
    for (std::size_t c = 0; c < columns; ++c) firsts.push_back(axes.steps[c * per_column]);
    std::vector<std::uint64_t> sites, format_names;
    for (const std::string& site : axes.sites) sites.push_back(names.index_of(site));
    for (const std::string& format : formats) format_names.push_back(names.index_of(format));
    out.key("heat"), out.open('{');
    out.put_list("step", firsts);
    out.key("per_column"), out.put(std::uint64_t{per_column});
    out.put_list("site", sites);
    out.put_list("format", format_names);
    for (std::size_t f = 0; f < fields.size(); ++f) {
        out.key(fields[f].first), out.open('[');
        for (std::size_t site = 0; site < axes.sites.size(); ++site) {
            const std::size_t first = site * columns;
            bool is_empty = true;
            for (std::size_t cell = first; cell < first + columns; ++cell) {
                is_empty = is_empty && sums[f][cell] == 0 && count[cell] > 0;
            }
            if (is_empty) continue;
            out.open('['), out.put(std::uint64_t{site});
            for (std::size_t cell = first; cell < first + columns; ++cell) put_rate(out, sums[f][cell], count[cell]);
            out.close(']');
        }
        out.close(']');
    }
    out.close('}');
}

void put_exponents(JsonText& out, const RunLog& run, Names& names, std::size_t max_steps) {
    const SampleAxes axes = axes_of(run.exponents);
    std::set<std::int64_t> kept;
    const std::size_t n = std::min(max_steps, axes.steps.size());
    for (std::size_t k = 0; k < n; ++k)
        kept.insert(axes.steps[n == 1 ? axes.steps.size() - 1 : k * (axes.steps.size() - 1) / (n - 1)]);
    std::map<std::pair<std::size_t, std::int64_t>, Histogram> histograms;
    for (const ExponentRow& row : run.exponents) {
        if (!kept.contains(row.step)) continue;
        Histogram& histogram = histograms[{axes.site_index.find(row.site)->second, row.step}];
        switch (row.exponent.kind) {
            case ExponentBin::Kind::number:
                histogram.counts[row.exponent.exponent] += row.count;
                break;
            case ExponentBin::Kind::zero:
                histogram.zero += row.count;
                break;
            case ExponentBin::Kind::inf:
                histogram.inf += row.count;
                break;
            case ExponentBin::Kind::nan:
                histogram.nan += row.count;
                break;
        }
    }
    std::map<std::pair<std::string_view, std::int64_t>, const SiteRow*> casts;
    for (const SiteRow& row : run.sites) casts.emplace(std::pair{std::string_view(row.site), row.step}, &row);
    out.key("exps"), out.open('[');
    for (const auto& [where, histogram] : histograms) {
        const std::string& site = axes.sites[where.first];
        const auto cast = casts.find({site, where.second});
        const SiteRow* row = cast == casts.end() ? nullptr : cast->second;
        out.open('[');
        out.put(names.index_of(site)), out.put(where.second);
        out.put(names.index_of(row ? row->format : ""));
        out.put(double{row ? row->scale_inv_min : 1.0f}, 9), out.put(double{row ? row->scale_inv_max : 1.0f}, 9);
        const std::int32_t first = histogram.counts.empty() ? 0 : histogram.counts.begin()->first;
        out.put(std::int64_t{first});
        out.put(histogram.zero), out.put(histogram.inf), out.put(histogram.nan);
        out.open('[');
        for (std::int32_t next = first; const auto& [exponent, count] : histogram.counts) {
            for (; next < exponent; ++next) out.put(std::uint64_t{0});  // a bin without a row is empty
            out.put(count), ++next;
        }
        out.close(']'), out.close(']');
    }
    out.close(']');
}

}  // namespace macheps::reports
