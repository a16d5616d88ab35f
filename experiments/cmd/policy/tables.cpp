// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/policy/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace macheps::cmd::policies {

using namespace training;

using namespace configs;

using namespace policy;

namespace {

using Row = ResolvedPolicy::Row;

std::string block_prefix(std::int64_t block) { return fmt::format("block.{}.", block); }

bool is_same(const Row& x, const Row& y) {
    return x.site == y.site && x.slot == y.slot && x.cast == y.cast && x.machine == y.machine && x.rule == y.rule;
}
bool is_same(const TensorRow& x, const TensorRow& y) {
    return x.site == y.site && x.kind == y.kind && x.format == y.format && x.elements == y.elements && x.rule == y.rule;
}

template <class AnyRow>
std::vector<AnyRow> fold(std::vector<AnyRow> rows, std::int64_t blocks) {
    const auto of_block = [&](std::int64_t block) {
        const std::string prefix = block_prefix(block);
        std::vector<AnyRow> found;
        for (AnyRow row : rows) {
            if (!row.site.starts_with(prefix)) continue;
            row.site.replace(0, prefix.size(), "block.*.");
            found.push_back(row);
        }
        return found;
    };
    const std::vector<AnyRow> first = of_block(0);
    for (std::int64_t block = 1; block < blocks; ++block) {
        const std::vector<AnyRow> other = of_block(block);
        const auto same = [](const AnyRow& x, const AnyRow& y) { return is_same(x, y); };
        if (!std::equal(first.begin(), first.end(), other.begin(), other.end(), same)) return rows;
    }
    std::vector<AnyRow> folded;
    for (AnyRow& row : rows) {
        if (row.site.starts_with(block_prefix(0))) row.site.replace(0, block_prefix(0).size(), "block.*.");
        if (row.site.starts_with("block.") && !row.site.starts_with("block.*.")) continue;
        folded.push_back(std::move(row));
    }
    return folded;
}

/// Cells in columns, two spaces between them; the last one is not filled up.
template <std::size_t columns>
std::string aligned(const std::vector<std::array<std::string, columns>>& lines) {
    std::array<std::size_t, columns> widths{};
    for (const auto& line : lines) {
        for (std::size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], line[i].size());
    }
    std::string text;
    for (const auto& line : lines) {
        for (std::size_t i = 0; i + 1 < columns; ++i) text += fmt::format("{:<{}}  ", line[i], widths[i]);
        text += line[columns - 1] + "\n";
    }
    return text;
}

std::string in_words(std::int64_t bytes) {
    if (bytes == 0) return "none";
    if (bytes < 10'000) return fmt::format("{} bytes", bytes);
    if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
    return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

std::vector<Row> fold_blocks(std::vector<Row> rows, std::int64_t blocks) { return fold(std::move(rows), blocks); }
std::vector<TensorRow> fold_blocks(std::vector<TensorRow> rows, std::int64_t blocks) {
    return fold(std::move(rows), blocks);
}

std::string row_table(const std::vector<Row>& rows) {
    std::vector<std::array<std::string, 5>> lines{{"SITE", "SLOT", "CAST", "MACHINE", "RULE"}};
    for (const Row& row : rows) {
        lines.push_back({row.site, row.slot, row.cast, row.machine.empty() ? "-" : row.machine, row.rule});
    }
    return aligned(lines);
}

std::string tensor_table(const std::vector<TensorRow>& rows) {
    std::vector<std::array<std::string, 5>> lines{{"TENSOR", "OF", "FORMAT", "ELEMENTS", "RULE"}};
    for (const TensorRow& row : rows) {
        lines.push_back({std::string(row.kind), row.site, row.format,
                         row.elements == 0 ? "-" : fmt::format("{}", row.elements), row.rule});
    }
    return aligned(lines);
}

Json tensors_json(const std::vector<TensorRow>& rows) {
    Json list = Json::array();
    for (const TensorRow& row : rows) {
        list.push_back({{"kind", row.kind},
                        {"site", row.site},
                        {"format", row.format},
                        {"elements", row.elements},
                        {"rule", row.rule}});
    }
    return list;
}

std::string linears_text(const ResolvedPolicy& policy) {
    const auto [low, asked] = policy.low_linears();
    std::string text = asked == 0 ? "" : fmt::format("linears      {} of {} in 8 bits or fewer\n", low, asked);
    for (const auto& one : policy.left_out) text += fmt::format("left out     {}: {}\n", one.site, one.why);
    return text;
}

Json linears_json(const ResolvedPolicy& policy) {
    const auto [low, asked] = policy.low_linears();
    return {{"low", low}, {"asked", asked}};
}

Json left_out_why_json(const ResolvedPolicy& policy) {
    Json list = Json::array();
    for (const auto& one : policy.left_out) list.push_back(one.why);
    return list;
}

std::string memory_line(const MemoryEstimate& memory, std::int64_t batch) {
    return fmt::format("memory       parameters {}, gradients {}, master {}, optimiser {}; activations {} (batch {})\n",
                       in_words(memory.parameters), in_words(memory.gradients), in_words(memory.master),
                       in_words(memory.optimizer), in_words(memory.activations), batch);
}

Json memory_json(const MemoryEstimate& memory, std::int64_t batch) {
    return {{"batch", batch},          {"parameters", memory.parameters}, {"gradients", memory.gradients},
            {"master", memory.master}, {"optimizer", memory.optimizer},   {"activations", memory.activations}};
}

}  // namespace macheps::cmd::policies
