// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/policy/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
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

RowTable<Row> row_table() {
    return {{{"site", &Row::site, "SITE"},
             {"slot", &Row::slot, "SLOT"},
             {"cast", &Row::cast, "CAST"},
             {"machine", &Row::machine, "MACHINE"},
             {"rule", &Row::rule, "RULE"}}};
}

RowTable<TensorRow> tensor_table() {
    const auto elements = [](const TensorRow& row) { return row.elements == 0 ? "" : std::to_string(row.elements); };
    return {{{"kind", &TensorRow::kind, "TENSOR"},
             {"site", &TensorRow::site, "OF"},
             {"format", &TensorRow::format, "FORMAT"},
             {"elements", &TensorRow::elements, "ELEMENTS", {.table = elements}},
             {"rule", &TensorRow::rule, "RULE"}}};
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
