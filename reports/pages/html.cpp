// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/html.hpp"

#include "core/host/publish.hpp"
#include "reports/findings/conclusion.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/value_range.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/pages/drawn.hpp"
#include "reports/pages/measured_page.hpp"
#include "reports/pages/page_assets.hpp"
#include "reports/pages/page_data.hpp"
#include "reports/pages/studies/gemm_table.hpp"
#include "reports/rows/html_text.hpp"
#include "reports/rows/sha256.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

namespace macheps::reports {

namespace {

constexpr std::size_t max_notes = 100, max_names = 4, max_settings_bytes = std::size_t{8} << 20;

/// Replaces each @@name@@ in `text` by the part with this name. The inserted part is not searched for names.
std::string filled(std::string_view text, const std::map<std::string_view, std::string_view>& parts) {
    std::string out;
    while (true) {
        const std::size_t open = text.find("@@");
        out += text.substr(0, open);
        if (open == std::string_view::npos) return out;
        const std::size_t close = text.find("@@", open + 2);
        out += parts.at(text.substr(open + 2, close - open - 2));
        text.remove_prefix(close + 2);
    }
}

/// Returns the verdict and the range line of each policy as sentences, and the warnings.
std::string verdicts_html(const Summary& summary) {
    std::string rows;
    for (const PolicySummary& policy : summary.policies) {
        const std::string sentence = verdict_sentence(policy);
        if (sentence.empty()) continue;
        rows += fmt::format("<li><b>{}</b>: {}.<br><span class=\"range{}\">{}.</span></li>\n",
                            escape_html(policy.row.policy), escape_html(sentence),
                            is_range_open(policy.row) ? " open" : "", escape_html(range_line(policy)));
    }
    std::string out = rows.empty() ? "" : "<ul class=\"verdicts\">\n" + rows + "</ul>\n";
    for (const std::string& warning : warnings_of(summary)) {
        out += fmt::format("<p class=\"note warning\">{}.</p>\n", escape_html(warning));
    }
    return out;
}

/// Returns the summary table. On a narrow screen each policy becomes a card: the verdict is next to the name, and each
/// cell has a label.
std::string summary_html(const Summary& summary) {
    constexpr std::string_view figures[] = {"gap to fp32", "loss",         "seeds",       "parts at step", "skipped",
                                            "underflow",   "lost updates", "bytes/param", "activations",   "peak"};
    std::string out = "<div class=\"table cards\"><table><thead><tr><th>policy</th><th>verdict</th>";
    for (const std::string_view figure : figures) out += fmt::format("<th class=\"n\">{}</th>", figure);
    out += "</tr></thead>\n<tbody>\n";
    for (std::size_t i = 0; i < summary.policies.size(); ++i) {
        const PolicySummary& policy = summary.policies[i];
        const SummaryCells cells = summary_cells(policy);
        out += fmt::format("<tr data-policy=\"{}\"><th scope=\"row\"><span class=\"swatch\"></span>{}</th>", i,
                           escape_html(cells.policy));
        out += fmt::format("<td class=\"verdict {}\">{}</td>", tone_of(policy.row.verdict), escape_html(cells.verdict));
        const std::string texts[] = {
            cells.gap,       cells.loss,         cells.seeds,        parts_at_step(policy.row), cells.skipped,
            cells.underflow, cells.lost_updates, cells.static_bytes, cells.activation_bytes,    cells.peak};
        static_assert(std::size(texts) == std::size(figures));
        for (std::size_t k = 0; k < std::size(figures); ++k) {
            out += fmt::format("<td class=\"n\" data-label=\"{}\">{}</td>", figures[k],
                               texts[k] == "-" ? "–" : escape_html(texts[k]));
        }
        out += "</tr>\n";
    }
    return out + "</tbody></table></div>\n" + verdicts_html(summary);
}

/// Returns the first notable site of each policy, where its problems may have begun, or nothing if no site was notable.
std::string first_sites_html(const Summary& summary) {
    std::string rows;
    for (const PolicySummary& policy : summary.policies) {
        if (policy.row.first_site.empty()) continue;
        rows += fmt::format("<tr><th scope=\"row\">{}</th><td><code>{}</code></td><td>{}</td></tr>\n",
                            escape_html(policy.row.policy), escape_html(policy.row.first_site),
                            escape_html(policy.first_site_why));
    }
    if (rows.empty()) return {};
    return "<div class=\"table\"><table class=\"narrow\"><thead><tr><th>policy</th><th>first notable "
           "site</th><th>why</th></tr>"
           "</thead><tbody>\n" +
           rows + "</tbody></table></div>\n";
}

/// Explains how the figures of the table are computed. Names the numbers of steps over which these runs are averaged.
std::string reading_html(const Summary& summary) {
    using Rules = DivergenceRules;
    std::string of_gradients = gradient_underflow_words(summary);
    if (!of_gradients.empty()) of_gradients = "; of gradients only: " + escape_html(of_gradients);
    return fmt::format(
        "<details><summary>How the figures are computed</summary><dl>"
        "<dt>loss, gap</dt><dd>Means over the last {} (a quarter of each run, at most {}), in nats per token, then "
        "over seeds. The gap is the difference from the fp32 run of the same seed, which has the same initial weights "
        "and batches; ± is the 95 % Student t interval over seeds.</dd>"
        "<dt>verdict</dt><dd><b>no difference found</b>: the 90 % interval of the gap "
        "lies within {:g} % of the fp32 loss (two one-sided tests). It is called <b>within the margin</b> if "
        "the 95 % interval excludes zero. <b>worse</b>: the 95 % interval lies above zero. <b>undecided</b>: neither; "
        "run more seeds. <b>one seed</b>: there is no interval, and the sign of the gap means nothing. "
        "<b>diverged</b>: in some seed, the loss was not finite in a step that was not skipped, or stayed {:g} nat "
        "above its minimum for {} steps, or ended above its initial value. The <b>smallest detectable gap</b> is the "
        "gap for which a comparison with as many seeds and the same scatter has a probability of 80 % that its 95 % "
        "interval excludes zero.</dd>"
        "<dt>range</dt><dd>The largest forward value of the sampled sites that was cast to a format with a narrower "
        "range than fp32, and the largest number of that format. Small models with random weights have no outliers: "
        "the inputs of mlp.down reach {:g} times their rms in SmolLM2-135M, and at most {:g} times with random "
        "weights. If values {} times as large would overflow, the line says so. Otherwise the runs cannot rule out an "
        "overflow in a pretrained model.</dd>"
        "<dt>parts at step</dt><dd>The first of {} consecutive steps whose smoothed gap (moving average, decay {:g}) "
        "exceeds {:g} % of the fp32 loss, in the earliest seed. The threshold is small on purpose: it shows when the "
        "curves part, not that the run failed. Empty if no difference was found.</dd>"
        "<dt>skipped</dt><dd>Steps that the loss scaler skipped because a gradient was not finite.</dd>"
        "<dt>underflow</dt><dd>Share of all values cast at sampled sites and steps that were nonzero and became "
        "zero{}.</dd>"
        "<dt>first notable site</dt><dd>The first sampled site with more than {:g} % underflow, a NaN or infinity, or "
        "an overflow (with a scale: more than {:g} % overflow).</dd>"
        "<dt>lost updates</dt><dd>Weights per step whose update was not zero but changed nothing.</dd>"
        "<dt>bytes/param</dt><dd>Bytes of parameters, gradients, master copies and optimiser state in the formats of "
        "the policy, for each parameter. <b>activations</b>: bytes that a micro-batch keeps for the backward pass, "
        "also for each parameter; they grow with batch and context.</dd>"
        "<dt>peak</dt><dd>Maximum speed of the formats that the policy's matmuls multiply, {}</dd></dl></details>\n",
        escape_html(window_words(summary)), Rules::longest_window, 100 * summary.margin, Rules::failure_rise,
        Rules::failure_steps, pretrained_peak, random_peak, two_digits(pretrained_peak / random_peak),
        Rules::consecutive_steps, Rules::ema_decay, 100 * Rules::divergence_threshold, of_gradients,
        100 * Rules::notable_underflow, 100 * Rules::notable_overflow, escape_html(peak_words(summary)));
}

std::string notes_html(const Summary& summary) {
    if (summary.notes.empty()) return {};
    const std::size_t shown = std::min(summary.notes.size(), max_notes);
    std::string out = "<div class=\"note\"><ul>";
    for (std::size_t i = 0; i < shown; ++i) out += "<li>" + escape_html(summary.notes[i]) + "</li>";
    if (shown < summary.notes.size()) out += fmt::format("<li>and {} more notes</li>", summary.notes.size() - shown);
    return out + "</ul></div>\n";
}

/// Returns the names of the first input folders and files, and the number of further inputs, for a title.
std::string names_of_inputs(const Log& log) {
    std::vector<std::filesystem::path> paths;
    for (const RunFolder& folder : log.folders) paths.push_back(folder.path);
    for (const std::filesystem::path& file : log.row_files) {
        const bool is_of_folder = std::any_of(log.folders.begin(), log.folders.end(), [&file](const RunFolder& folder) {
            return file == folder.path / file.filename();
        });
        if (!is_of_folder) paths.push_back(file);
    }
    const std::size_t shown = std::min(paths.size(), max_names);
    std::string names;
    for (std::size_t i = 0; i < shown; ++i) {
        const std::filesystem::path plain = paths[i].filename().empty() ? paths[i].parent_path() : paths[i];
        names += (i == 0 ? "" : " + ") + plain.filename().string();
    }
    return shown < paths.size() ? fmt::format("{} and {} more", names, paths.size() - shown) : names;
}

/// Returns the settings of the folders that have runs of a displayed policy, up to a size limit.
std::string all_settings_html(const Log& log, const Summary& summary, PageSize size) {
    std::set<std::string_view> policies;
    for (const PolicySummary& policy : summary.policies) policies.insert(policy.row.policy);
    std::vector<bool> is_shown(log.folders.size(), log.runs.empty());
    for (const RunLog& run : log.runs) {
        if (policies.contains(run.policy)) is_shown[run.folder] = true;
    }
    std::string out;
    std::size_t left_out = 0;
    for (std::size_t i = 0; i < log.folders.size(); ++i) {
        const RunFolder& folder = log.folders[i];
        const std::string settings = is_shown[i] ? settings_html(folder, size) : std::string{};
        if (!is_shown[i] || out.size() + settings.size() > max_settings_bytes) {
            ++left_out;
            continue;
        }
        if (log.folders.size() > 1) out += "<h3>" + escape_html(folder.path.string()) + "</h3>\n";
        out += settings;
    }
    if (left_out == 0) return out;
    return out + fmt::format("<p>Not shown: the settings of {} folder{}. See the manifest.json of each folder.</p>\n",
                             left_out, left_out == 1 ? "" : "s");
}

/// The texts that fill the page's template. Texts from inputs are escaped, except in `heading` and `lead`.
struct PageTexts {
    std::string heading{}, lead{}, kind{}, conclusion{}, summary{}, reading{}, notes{}, diagnosis{}, bucket{},
        products{}, measured{}, settings{}, source{}, data{};
};

std::string page_of(const PageTexts& texts) {
    const std::string title = escape_html("macheps: " + texts.heading), heading = escape_html(texts.heading),
                      lead = escape_html(texts.lead);
    const std::string footer =
        "Made by <code>macheps report</code> from " + texts.source + ". Charts: Chart.js (MIT licence).";
    const std::string notices = "<details><summary>Third-party notices</summary><pre>" +
                                escape_html(std::string(page_assets::notices)) + "</pre></details>";
    // The browser runs only these two scripts and this style. It ignores code in names and manifests.
    const std::string scripts = csp_source(page_assets::chart) + " " + csp_source(page_assets::js),
                      styles = csp_source(page_assets::css);
    return filled(page_assets::html, {{"title", title},
                                      {"heading", heading},
                                      {"conclusion", texts.conclusion},
                                      {"scripts", scripts},
                                      {"styles", styles},
                                      {"lead", lead},
                                      {"css", page_assets::css},
                                      {"summary", texts.summary},
                                      {"reading", texts.reading},
                                      {"notes", texts.notes},
                                      {"diagnosis", texts.diagnosis},
                                      {"bucket", texts.bucket},
                                      {"kind", texts.kind},
                                      {"products", texts.products},
                                      {"measured", texts.measured},
                                      {"settings", texts.settings},
                                      {"footer", footer},
                                      {"notices", notices},
                                      {"chart", page_assets::chart},
                                      {"data", texts.data},
                                      {"js", page_assets::js}});
}

}  // namespace

std::string page_html(const Log& log, const Summary& all, PageSize size) {
    const Summary summary = drawn_of(all);
    const PageLimits limits = size == PageSize::small ? small_page : PageLimits{};
    const Verdicts verdicts = diagnose(log);
    const Conclusion conclusion = conclude(log, all, verdicts);
    const std::string settings = all_settings_html(log, summary, size);
    const std::size_t bucket = points_bucket(log, summary, limits);
    const std::string each =
        bucket == 1 ? "" : fmt::format("; one point per {} steps, their mean or last value", bucket);
    const bool is_training = log.row_files.empty() || !log.folders.empty();
    std::string heading = conclusion.title, lead = conclusion.lead;
    if (heading.empty()) heading = log.gemm.empty() ? names_of_inputs(log) : gemm_title(log.gemm);
    if (!summary.setup.empty()) lead += " Settings: " + summary.setup + ".";
    const std::pair<std::size_t, const char*> counts[] = {
        {log.gemm.size(), "matrix product{} on emulated machines, each compared with exact sums"},
        {log.sums.size(), "sum{}, each compared with the exact sum"},
        {log.systems.size(), "linear system{}, each compared with a high-precision solution"},
        {log.formulas.size(), "formula{} in a format, each compared with exact values"}};
    for (const auto& [count, words] : counts) {
        if (count == 0) continue;
        lead += fmt::format("{}{} {}.", lead.empty() ? "" : " ", count,
                            fmt::format(fmt::runtime(words), count == 1 ? "" : "s"));
    }
    lead += fmt::format("{}From {}.", lead.empty() ? "" : " ", names_of_inputs(log));
    const std::string kind =
        fmt::format("{}{}{}", is_training ? "" : "no-runs", !is_training && log.gemm.empty() ? " " : "",
                    log.gemm.empty() ? "no-gemm" : "");
    std::vector<std::string> shown;
    for (const PolicySummary& policy : summary.policies) shown.push_back(policy.row.policy);
    return page_of({.heading = heading,
                    .lead = lead,
                    .kind = kind,
                    .conclusion = conclusion_html(conclusion),
                    .summary = summary_html(summary) + first_sites_html(summary),
                    .reading = reading_html(summary),
                    .notes = notes_html(summary),
                    .diagnosis = diagnosis_html(verdicts, shown),
                    .bucket = each,
                    .products = gemm_html(log.gemm),
                    .measured = sums_html(log.sums) + systems_html(log.systems, log.system_steps) +
                                formulas_html(log.formulas, log.formula_points),
                    .settings = settings,
                    .source = "the CSV files next to it",
                    .data = page_data(log, summary, limits)});
}

std::string page_of_section(const std::string& heading, const std::string& lead, const std::string& section) {
    return page_of({.heading = heading,
                    .lead = lead,
                    .kind = "no-runs no-gemm",
                    .measured = section,
                    .source = "the files that it names",
                    .data = page_data({}, {})});
}

void write_page(const Log& log, const Summary& summary, const std::filesystem::path& page, PageSize size) {
    publish(page, page_html(log, summary, size));
}

}  // namespace macheps::reports
