// SPDX-License-Identifier: Apache-2.0
// Shows the settings of a manifest in words. Also accepts manifests of older and newer versions, and shows the keys
// that they contain.
#include "core/text/json.hpp"
#include "core/text/quote.hpp"
#include "reports/logs/manifest_facts.hpp"
#include "reports/pages/html.hpp"
#include "reports/rows/html_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace macheps::reports {

namespace {

/// Labels for keys that do not explain themselves.
constexpr std::pair<std::string_view, std::string_view> words[] = {
    {"lr", "learning rate"},
    {"min_lr", "learning rate at the end"},
    {"beta1", "Adam beta 1"},
    {"beta2", "Adam beta 2"},
    {"eps", "Adam epsilon"},
    {"clip", "maximum gradient norm (0: no clipping)"},
    {"warmup", "warm-up steps"},
    {"batch", "batch (samples)"},
    {"micro_batches", "micro-batches per step"},
    {"ranks", "data parallel ranks"},
    {"recompute", "blocks recomputed in the backward pass"},
    {"context", "context (tokens)"},
    {"vocabulary", "vocabulary (tokens)"},
    {"width", "width (channels)"},
    {"tied", "head shares the embedding"},
    {"token_weight", "weight of each token's loss in the backward pass, undone in fp32"},
    {"probe_every", "steps between samples of the sites (0: never)"},
    {"histogram_every", "steps between exponent histograms (0: never)"},
    {"eval_every", "steps between evaluations (0: only at the end)"},
    {"eval_batches", "batches per evaluation"},
    {"git", "git revision"},
    {"created_by", "made by"},
    {"schema", "schema of the CSV files"},
    {"beside_precision", "differences from fp32 other than precision"},
};

bool is_number(const Json& value) { return value.is_number_integer() || value.is_number_float(); }
bool is_zero(const Json& value) { return is_number(value) && value.get<double>() == 0; }

/// Returns whether the value of `key` in `group` begins with `word`. Also returns true if the key is missing or its
/// value is not a text, so that a setting is then shown rather than left out.
bool says(const Json& group, std::string_view key, std::string_view word) {
    const Json* value = group.find(key);
    return value == nullptr || !value->is_string() || value->string().starts_with(word);
}

/// Keys that apply only to some runs, and the conditions under which they apply.
constexpr std::pair<std::string_view, bool (*)(const Json& group, const Json& value)> conditions[] = {
    {"kv_heads", [](const Json&, const Json& value) { return !is_zero(value); }},  // 0: as many as there are heads
    {"hidden", [](const Json&, const Json& value) { return !is_zero(value); }},    // 0: the model's default
    {"rope_theta", [](const Json& group, const Json&) { return says(group, "kind", "llama"); }},
    {"gelu", [](const Json& group, const Json&) { return says(group, "kind", "gpt"); }},
    {"beta1", [](const Json& group, const Json&) { return says(group, "optimizer", "adam"); }},
    {"beta2", [](const Json& group, const Json&) { return says(group, "optimizer", "adam"); }},
    {"eps", [](const Json& group, const Json&) { return says(group, "optimizer", "adam"); }},
    {"momentum", [](const Json& group, const Json&) { return says(group, "optimizer", "sgd"); }},
    {"weight_decay", [](const Json&, const Json& value) { return !is_zero(value); }},
    {"token_weight", [](const Json&, const Json& value) { return !is_number(value) || value.get<double>() != 1; }},
    {"format",  // of the data file; shown only if there is a data file
     [](const Json& group, const Json&) {
         const Json* file = group.find("file");
         return file == nullptr || !file->is_string() || !file->string().empty();
     }},
};

bool applies(const Json& group, std::string_view key, const Json& value) {
    const auto found =
        std::find_if(std::begin(conditions), std::end(conditions), [&](const auto& row) { return row.first == key; });
    return found == std::end(conditions) || found->second(group, value);
}

/// Returns whether a run has more steps than the interval between checkpoints, so that the interval has an effect.
bool is_saved(const Json& manifest, const Json& every) {
    const Json* train = manifest.find("train");
    const Json* steps = train != nullptr && train->is_object() ? train->find("steps") : nullptr;
    return steps == nullptr || !is_number(*steps) || !is_number(every) || every.get<double>() < steps->get<double>();
}

std::string label_of(std::string_view key) {
    const auto found =
        std::find_if(std::begin(words), std::end(words), [&](const auto& row) { return row.first == key; });
    std::string label{found == std::end(words) ? key : found->second};
    if (found == std::end(words)) std::replace(label.begin(), label.end(), '_', ' ');
    return label;
}

std::string text_of(const Json& value);

/// Formats a value. Token weights are shown as powers of two.
std::string text_of(const std::string& key, const Json& value) {
    const bool is_weight = key == "token_weight" && value.is_number_float();
    return is_weight ? power_words(value.get<double>()) : text_of(value);
}

std::string text_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_null()) return "not given";
    if (value.is_number_float()) return fmt::format("{:.9g}", value.get<double>());
    if (value.is_array() && std::none_of(value.begin(), value.end(), [](const Json& v) { return v.is_structured(); })) {
        std::string text;
        for (const Json& item : value) text += (text.empty() ? "" : ", ") + text_of(item);
        return text;
    }
    return value.dump(-1, Json::BadUtf8::is_replaced);
}

void append_row(std::string& rows, const std::string& label, const Json& value) {
    if (value.is_object()) {
        for (const auto& [key, inner] : value.items()) append_row(rows, label + ": " + label_of(key), inner);
        return;
    }
    if (value.is_string() && value.string().empty()) return;
    rows +=
        fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape_html(label), escape_html(text_of(value)));
}

std::string table_of(std::string_view title, const std::string& rows) {
    if (rows.empty()) return {};
    return fmt::format("<div><h3>{}</h3><table><tbody>\n{}</tbody></table></div>\n", escape_html(title), rows);
}

/// Returns the command with the quotes that a shell needs.
std::string command_line(const Json& command) {
    if (!command.is_array()) return text_of(command);
    std::string line;
    for (const Json& item : command) {
        if (!line.empty()) line += ' ';
        line += shell_word(text_of(item));
    }
    return line;
}

/// Returns the resolved table of a policy, with one line for each row. Rows may be arrays, objects or other values.
std::string resolved_html(const Json& resolved) {
    constexpr std::size_t max_rows = 2000;
    if (!resolved.is_array() || resolved.empty()) return {};
    std::string out =
        fmt::format("<details><summary>resolved for this model ({} rows)</summary><div class=\"resolved\"><table>",
                    resolved.size());
    if (resolved.front().is_array() && resolved.front().size() == 3) {
        out += "<thead><tr><th>site</th><th>cast</th><th>machine</th></tr></thead>";
    } else if (resolved.front().is_object()) {
        out += "<thead><tr>";
        for (const auto& [key, value] : resolved.front().items()) out += "<th>" + escape_html(label_of(key)) + "</th>";
        out += "</tr></thead>";
    }
    out += "<tbody>\n";
    for (std::size_t i = 0; i < std::min(resolved.size(), max_rows); ++i) {
        out += "<tr>";
        const auto put = [&](const Json& cell) { out += "<td>" + escape_html(text_of(cell)) + "</td>"; };
        if (resolved[i].is_object()) {
            for (const auto& [key, cell] : resolved[i].items()) put(cell);
        } else if (resolved[i].is_array()) {
            for (const Json& cell : resolved[i]) put(cell);
        } else {
            put(resolved[i]);
        }
        out += "</tr>\n";
    }
    return out + "</tbody></table></div></details>\n";
}

/// Returns the matrix units that the matmuls of each policy use, and the reasons why units are unverified.
std::string machines_html(const Json& machines) {
    if (!machines.is_object()) return {};
    std::string rows, doubts;
    for (const auto& [policy, value] : machines.items()) {
        if (!value.is_object()) continue;
        std::string text;
        if (value.contains("matmuls") && value["matmuls"].is_object()) {
            for (const auto& [machine, count] : value["matmuls"].items()) {
                text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", text_of(count), machine);
            }
        }
        append_row(rows, policy, text);
        if (!value.contains("unverified") || !value["unverified"].is_array()) continue;
        for (const Json& reason : value["unverified"]) {
            doubts += fmt::format("<li><b>{}</b>: {}</li>", escape_html(policy), escape_html(text_of(reason)));
        }
    }
    std::string out = table_of("matmuls of each policy", rows);
    if (!doubts.empty()) out += "<div><h3>unverified</h3><ul>" + doubts + "</ul></div>\n";
    return out;
}

std::string policies_html(const Json& policies, PageSize size) {
    if (!policies.is_object()) return {};
    std::string out;
    for (const auto& [name, policy] : policies.items()) {
        out += fmt::format("<details><summary>policy <b>{}</b></summary>\n", escape_html(name));
        const auto text_at = [&policy = policy](const char* key) {
            return policy.is_object() && policy.contains(key) ? text_of(policy[key]) : std::string{};
        };
        if (const std::string text = text_at("description"); !text.empty()) out += "<p>" + escape_html(text) + "</p>\n";
        if (const std::string text = text_at("left_out"); !text.empty()) {
            const std::string why = text_at("left_out_why");
            out += why.empty() ? "<p>Left out, because a size is not a multiple of what the policy requires: " +
                                     escape_html(text) + "</p>\n"
                               : "<p>Left out: " + escape_html(text) + ". Reasons: " + escape_html(why) + "</p>\n";
        }
        if (policy.is_object() && policy.contains("toml")) {
            out += "<pre><code>" + escape_html(text_of(policy["toml"])) + "</code></pre>\n";
        } else if (policy.is_string()) {
            out += "<pre><code>" + escape_html(text_of(policy)) + "</code></pre>\n";
        }
        const bool has_table = size == PageSize::full && policy.is_object() && policy.contains("resolved");
        if (has_table) out += resolved_html(policy["resolved"]);
        out += "</details>\n";
    }
    return out;
}

}  // namespace

std::string settings_html(const RunFolder& folder, PageSize size) {
    const Json manifest = Json::parse_or_null(folder.manifest);
    if (!manifest.is_object())
        return "<p>There is no manifest.json next to these files, so the settings are unknown.</p>\n";
    std::string out, run, groups, policies;
    for (const auto& [key, value] : manifest.items()) {
        if (key == "command") {
            out = "<p>Command</p>\n<pre><code>" + escape_html(command_line(value)) + "</code></pre>\n";
        } else if (key == "policies") {
            policies = policies_html(value, size);
        } else if (key == "machines") {
            groups += machines_html(value);
        } else if (value.is_object()) {
            std::string rows;
            for (const auto& [inner_key, inner] : value.items()) {
                if (!applies(value, inner_key, inner)) continue;
                append_row(rows, label_of(inner_key), inner.is_structured() ? inner : Json(text_of(inner_key, inner)));
            }
            groups += table_of(label_of(key), rows);
        } else if (key != "save_every" || is_saved(manifest, value)) {
            append_row(run, label_of(key), value);
        }
    }
    return out + "<div class=\"settings\">\n" + table_of("run", run) + groups + "</div>\n" + policies;
}

}  // namespace macheps::reports
