// SPDX-License-Identifier: Apache-2.0
// Opens the report page in a browser and checks clicks, themes, widths and contrast. The page must cause no error and
// no request. The tests are skipped without a browser.
#include "reports/pages/html.hpp"
#include "reports/rows/sha256.hpp"
#include "tests/json.hpp"
#include "tests/reports/sample_gemm.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace page_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

/// Returns the command of a browser, or nothing if there is none.
std::string browser() {
    if (const char* named = std::getenv("MACHEPS_BROWSER")) return named;
    for (const std::string name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}) {
        if (std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0) return name;
    }
    return {};
}

std::string contents(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/// Allows the <`tag`> elements of `part` in the Content-Security-Policy of `page`.
void allow(std::string& page, const std::string& part, const std::string& tag) {
    for (std::size_t at = part.find("<" + tag + ">"); at != std::string::npos;
         at = part.find("<" + tag + ">", at + 1)) {
        const std::size_t from = at + tag.size() + 2;
        const std::string text = part.substr(from, part.find("</" + tag + ">", from) - from), name = tag + "-src ";
        page.insert(page.find(name) + name.size(), csp_source(text) + " ");
    }
}

/// Returns `page` with `head` inserted at the beginning and `tail` at the end. The page's security policy allows the
/// scripts and styles of both.
std::string with_scripts(std::string page, const std::string& head, const std::string& tail) {
    page.insert(page.find("<title>"), head);
    page.insert(page.rfind("</body>"), tail);
    for (const std::string& part : {head, tail}) allow(page, part, "script"), allow(page, part, "style");
    return page;
}

const std::string listen = R"js(<script>
window.faults = [];
addEventListener("error", e => faults.push(e.message));
addEventListener("unhandledrejection", e => faults.push(String(e.reason)));
addEventListener("securitypolicyviolation", e => faults.push("blocked " + e.blockedURI));
for (const kind of ["error", "warn"]) console[kind] = (...words) => faults.push(words.join(" "));
</script>
)js";

/// Script that uses the page like a reader, and writes its observations into the page as JSON.
const std::string act = R"js(<script>
addEventListener("load", () => {
const outcome = {};
const ids = ["forest", "cost", "loss", "gap", "scale", "lost", "eff"];
const labels = () => Object.fromEntries(ids.map(id => [id, Chart.getChart(id).data.datasets.filter(d => !d.silent).map(d => d.label)]));
const names = [...document.querySelectorAll("#chips button")].map(b => b.textContent);
const all = labels();
outcome.names = names; outcome.labels = all; outcome.clicks = [];
const chip = i => document.querySelectorAll("#chips button")[i];
for (let i = 0; i < names.length; ++i) {
    chip(i).click();
    const now = labels(), left = ids.filter(id => now[id].some(l => l === names[i] || l.startsWith(names[i] + ",")));
    const others = ids.every(id => all[id].filter(l => !(l === names[i] || l.startsWith(names[i] + ","))).every(l => now[id].includes(l)));
    const row = document.querySelector(`#summary tr[data-policy="${i}"]`).classList.contains("off");
    const pressed = chip(i).getAttribute("aria-pressed");
    chip(i).click();
    outcome.clicks.push({left, others, row, pressed, back: JSON.stringify(labels()) === JSON.stringify(all)});
}
const saved = [];
HTMLAnchorElement.prototype.click = function () { saved.push([this.download, this.href.slice(0, 22), this.href.length]); };
document.querySelectorAll(".save").forEach(b => b.click());
outcome.saved = saved;
// Uses the keyboard: moves from point to point in each chart and reads the text at the points, then moves through the
// heat map row by row.
const at = id => document.getElementById(id), press = (id, key) => at(id).dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
const told = () => at("told").textContent;
outcome.walked = Object.fromEntries([...ids, "exp"].map(id => {
    at(id).focus(); press(id, "Home"); const first = told(); press(id, "ArrowRight"); const second = told();
    at(id).blur();
    return [id, [at(id).tabIndex, first, second]];
}));
const rows = [];
at("heat-all").click(); at("heat").focus(); press("heat", "Home");
for (let last = ""; told().split("\n")[0] !== last && rows.length < 200; press("heat", "ArrowDown")) { last = told().split("\n")[0]; rows.push(last.split(" (")[0]); }
outcome.rows = rows; outcome.cell = told();
press("heat", "Escape"); outcome.tip = at("tip").hidden; at("heat").blur(); at("heat-all").click();
// Without colour, lines differ in their dashes or marks, and bars in their patterns.
const lines = Chart.getChart("loss").data.datasets.filter(d => d.policy !== undefined);
outcome.styles = new Set(lines.map(d => JSON.stringify([d.borderDash, d.pointStyle]))).size === lines.length;
outcome.ends = lines.every(d => d.end === d.label);
outcome.bars = Chart.getChart("exp").data.datasets[0].backgroundColor.every(c => c instanceof CanvasPattern);
outcome.edges = [...new Set(Chart.getChart("exp").data.datasets[0].borderColor)].filter(c => lines.some(d => d.borderColor === c));
outcome.said = Object.fromEntries(["heat", "exp"].map(id => [id, at(id).closest("figure").querySelector(".said").textContent]));
// Each verdict must be within the width of the window. The first sentence must be within the height of the window.
const right = document.body.getBoundingClientRect().right + 1;
outcome.verdicts = [...document.querySelectorAll("#summary td.verdict")].filter(e => e.getBoundingClientRect().right > right).length;
outcome.conclusion = at("conclusion").getBoundingClientRect().top;
outcome.sentences = [...document.querySelectorAll("#conclusion dd")].map(e => e.textContent);
// Compares the printed page with the screen.
const paper = () => getComputedStyle(document.documentElement).getPropertyValue("--paper").trim(), shows = e => e.getClientRects().length > 0;
const state = () => [paper(), shows(document.querySelector(".save")), shows(at("heat-controls")), shows(document.querySelector(".said"))];
const screen = state();
dispatchEvent(new Event("beforeprint")); outcome.paper = state(); outcome.ink = Chart.getChart("loss").data.datasets[0].borderColor;
dispatchEvent(new Event("afterprint")); outcome.screen = JSON.stringify(state()) === JSON.stringify(screen);
// If every policy with a changing loss scale is hidden, a sentence replaces the chart of the scale.
const moving = names.map((name, i) => i).filter(i => all.scale.includes(names[i]));
moving.forEach(i => chip(i).click());
outcome.flat = [shows(at("scale")), at("scale-said").textContent];
moving.forEach(i => chip(i).click());
const numbers = text => (text.startsWith("#") ? [1, 3, 5].map(k => parseInt(text.slice(k, k + 2), 16)) : text.match(/[\d.]+/g).map(Number));
const luminance = rgb => rgb.slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
const contrast = (a, b) => { const x = luminance(numbers(a)), y = luminance(numbers(b)); return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); };
const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (numbers(c).length === 3 || numbers(c)[3] === 1) return c; } return "#ffffff"; };
document.querySelectorAll("details").forEach(d => { d.open = true; });
let least = [99, ""];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(e.tagName) || !e.getClientRects().length) continue;
    const ratio = contrast(getComputedStyle(e).color, ground(e));
    if (ratio < least[0]) least = [ratio, node.data.trim().slice(0, 40)];
}
outcome.text = least;
const panel = getComputedStyle(document.documentElement).getPropertyValue("--panel").trim();
outcome.curves = Chart.getChart("loss").data.datasets.map(d => [contrast(d.borderColor, panel), d.label]).sort((a, b) => a[0] - b[0])[0];
outcome.ticks = contrast(Chart.getChart("loss").options.scales.x.ticks.color, panel);
outcome.width = innerWidth; outcome.content = document.documentElement.scrollWidth;
outcome.body = [document.body.clientWidth, document.body.scrollWidth];
const scrolls = e => { for (; e; e = e.parentElement) if (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX)) return true; return false; };
outcome.widest = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.body.getBoundingClientRect().right + 1 && !scrolls(e))
    .map(e => `${e.tagName}.${e.className} ${e.id} ${e.textContent.slice(0, 30)}`).slice(0, 8);
outcome.dark = matchMedia("(prefers-color-scheme: dark)").matches;
outcome.requests = performance.getEntriesByType("resource").map(r => r.name);
outcome.faults = window.faults;
const out = document.createElement("pre");
out.id = "outcome"; out.textContent = encodeURIComponent(JSON.stringify(outcome));
document.body.append(out);
});
</script>
)js";

std::string percent_decoded(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
        i += 2;
    }
    return out;
}

struct Seen {
    nlohmann::json outcome;
    std::string console;
};

/// Opens `page` in a window of `width`. Returns an empty result if the browser cannot start, for example in a container
/// that lacks a feature that the browser needs.
Seen open_page(const std::filesystem::path& page, const TemporaryFolder& folder, int width, bool dark) {
    const std::string root = geteuid() == 0 ? " --no-sandbox" : "";
    const std::string command =
        browser() + " --headless --disable-gpu --no-first-run --disable-background-networking --disable-dev-shm-usage" +
        root + " --virtual-time-budget=10000 --enable-logging=stderr --user-data-dir='" +
        (folder / "profile").string() + "' --window-size=" + std::to_string(width) +
        ",900 --blink-settings=preferredColorScheme=" + (dark ? "0" : "1") + " --dump-dom 'file://" + page.string() +
        "' >'" + (folder / "dom").string() + "' 2>'" + (folder / "log").string() + "' </dev/null";
    if (std::system(command.c_str()) != 0) return {};
    const std::string dom = contents(folder / "dom"), open = "<pre id=\"outcome\">";
    const std::size_t from = dom.find(open);
    if (from == std::string::npos) return {};
    const std::size_t begin = from + open.size();
    return {nlohmann::json::parse(percent_decoded(dom.substr(begin, dom.find('<', begin) - begin))),
            contents(folder / "log")};
}

}  // namespace

TEST_CASE("in a browser, the page reacts to clicks, fits its window and has enough contrast in both themes", "[page]") {
    if (browser().empty()) SKIP_TEST("no Chromium or Chrome on PATH, nor in MACHEPS_BROWSER");
    const TemporaryFolder folder;
    std::vector<test::SamplePolicy> policies = test::sample_policies();
    const std::string long_name =
        "a-policy-whose-name-says-everything-about-every-site-and-then-some-more_" + std::string(60, 'x');
    policies.push_back({.name = long_name, .format = "bf16", .bias = 1e-3, .loss_scale = 1024});
    test::write_sample_run(folder / "run", {.policies = policies, .steps = 60, .seeds = 2, .layers = 2});
    const std::vector<std::filesystem::path> folders{folder / "run"};
    const Log log = read_runs(folders);
    const std::filesystem::path page = folder / "page.html";
    const std::string html = page_html(log, summarise(log));
    std::ofstream(page, std::ios::binary) << with_scripts(html, listen, act);
    // A browser window has a minimum width, so the body gets the width of a phone instead.
    const std::filesystem::path narrow = folder / "narrow.html";
    std::ofstream(narrow, std::ios::binary)
        << with_scripts(html, listen + "<style>body { width: 400px; margin: 0 !important; }</style>", act);

    struct Case {
        int width;
        bool dark;
    };
    for (const Case& c : {Case{1300, false}, Case{1300, true}, Case{500, false}}) {
        const Seen seen = open_page(c.width < 1000 ? narrow : page, folder, c.width, c.dark);
        if (seen.outcome.is_null() && c.width == 1300 && !c.dark) SKIP_TEST("the browser does not start here");
        REQUIRE(seen.outcome.is_object());
        const nlohmann::json& o = seen.outcome;
        CAPTURE(c.width, c.dark, o["faults"].dump(), o["text"].dump(), o["curves"].dump());
        CHECK(o["faults"].empty());
        CHECK(seen.console.find("CONSOLE") == std::string::npos);
        CHECK(o["requests"].empty());
        CHECK(o["dark"] == c.dark);
        REQUIRE(o["names"].size() == policies.size());
        CHECK(o["names"].back() == long_name);
        // In the charts of loss, lost updates and update efficiency, every policy has a curve that a click can hide.
        for (const char* chart : {"loss", "lost", "eff"}) CHECK(o["labels"][chart].size() >= policies.size());
        for (std::size_t i = 0; i < policies.size(); ++i) {
            const nlohmann::json& click = o["clicks"][i];
            CAPTURE(policies[i].name, click.dump());
            CHECK(click["left"].empty());
            CHECK(click["others"] == true);
            CHECK(click["row"] == true);
            CHECK(click["pressed"] == "false");
            CHECK(click["back"] == true);
        }
        for (const auto& [id, walk] : o["walked"].items()) {
            CAPTURE(id, walk.dump());
            CHECK(walk[0] == 0);
            CHECK_FALSE(walk[1].get<std::string>().empty());
            CHECK(walk[1] != walk[2]);
        }
        // The rows of the heat map are in reverse order: the last block comes before the first, and in a block,
        // gradients come before the forward pass.
        const auto place = [&](const char* name) {
            return std::find(o["rows"].begin(), o["rows"].end(), name) - o["rows"].begin();
        };
        REQUIRE(o["rows"].size() == 2 * 15);
        CHECK(place("block.1.mlp.up:forward.a") < place("block.0.attn.qkv:input_grad.a"));
        CHECK(place("block.1.mlp.down:input_grad.a") < place("block.1.attn.qkv:forward.a"));
        CHECK(o["cell"].get<std::string>().find("zero in: ") != std::string::npos);
        CHECK(o["tip"] == true);
        CHECK(o["styles"] == true);
        CHECK(o["ends"] == true);
        CHECK(o["bars"] == true);
        CAPTURE(o["edges"].dump(), o["said"].dump(), o["paper"].dump(), o["flat"].dump());
        CHECK(o["edges"].empty());
        const std::string heat = o["said"]["heat"], exp = o["said"]["exp"];
        for (const char* part : {"fp16-no-scaler", "underflow (nonzero to zero)", "seed 0", "sampled steps 1 to 60"}) {
            CHECK(heat.find(part) != std::string::npos);
        }
        for (const char* part : {"fp16-no-scaler", "block.0.", "step 60", "seed 0", "window of fp16"}) {
            CAPTURE(part);
            CHECK(exp.find(part) != std::string::npos);
        }
        CHECK(o["verdicts"] == 0);
        CHECK(o["conclusion"] < 700);
        CHECK(o["sentences"].size() == 3);
        CHECK(o["paper"] == nlohmann::json{"#ffffff", false, false, true});
        CHECK(o["ink"] == "#1d2330");
        CHECK(o["screen"] == true);
        CHECK(o["flat"] == nlohmann::json{false, "None of the shown policies used a loss scale."});
        // WCAG 2.2 requires a contrast of 4.5 for text (1.4.3), and of 3 for the meaningful parts of a graphic
        // (1.4.11).
        CHECK(o["text"][0] >= 4.5);
        CHECK(o["ticks"] >= 4.5);
        CHECK(o["curves"][0] >= 3.0);
        CHECK(o["content"] <= o["width"]);
        CAPTURE(o["widest"].dump());
        CHECK(o["body"][1] <= o["body"][0]);
        if (c.width < 1000) CHECK(o["body"][0] == 400);
        CHECK(o["width"] == c.width);
        REQUIRE(o["saved"].size() == 11);
        for (const nlohmann::json& each : o["saved"]) {
            CAPTURE(each.dump());
            CHECK(each[1] == "data:image/png;base64,");
            const bool is_shown =
                each[0] != "macheps-exp.png" && each[0] != "macheps-gemm.png" && each[0] != "macheps-gemm-sum.png";
            if (is_shown) CHECK(each[2] > 1000);
        }
    }
}

namespace {

const std::string look_at_picture = R"js(<script>
addEventListener("load", () => {
const inside = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.left >= 0 && r.top >= 0 && r.right <= innerWidth && r.bottom <= innerHeight; };
const outcome = {chips: [...document.querySelectorAll("#chips button")].map(inside), canvas: inside(document.querySelector("figure.chosen canvas")),
    figures: [...document.querySelectorAll("figure")].filter(f => f.getClientRects().length).length, save: [...document.querySelectorAll(".save, .controls")].filter(e => e.getClientRects().length).length,
    said: inside(document.querySelector("figure.chosen .said")), words: document.querySelector("figure.chosen .said").textContent, faults: window.faults};
const out = document.createElement("pre");
out.id = "outcome"; out.textContent = encodeURIComponent(JSON.stringify(outcome));
document.body.append(out);
});
</script>
)js";

}  // namespace

TEST_CASE("the picture of one chart names exactly the policies that it shows", "[page]") {
    if (browser().empty()) SKIP_TEST("no Chromium or Chrome on PATH, nor in MACHEPS_BROWSER");
    const TemporaryFolder folder;
    std::vector<test::SamplePolicy> policies = test::sample_policies();
    for (const char* name :
         {"fp8-rowwise-with-a-long-name", "b200-mxfp8-with-a-long-name", "h100-fp8-promoted", "h100-fp8-fast"}) {
        policies.push_back({.name = name, .format = "e4m3fn", .bias = 1e-3, .underflow = 1e-3});
    }
    test::write_sample_run(folder / "run", {.policies = policies, .steps = 20, .layers = 1});
    const std::vector<std::filesystem::path> folders{folder / "run"};
    const Log log = read_runs(folders);
    std::ofstream(folder / "page.html", std::ios::binary)
        << with_scripts(page_html(log, summarise(log)), listen, look_at_picture);
    // The curves show all policies. The heat map and the exponents show one policy.
    const auto [chart, shows_all] =
        GENERATE(std::pair{"loss", true}, std::pair{"heat", false}, std::pair{"exp", false});
    const Seen seen = open_page((folder / "page.html").string() + "#chart=" + chart, folder, 1000, false);
    if (seen.outcome.is_null()) SKIP_TEST("the browser does not start here");
    CAPTURE(chart, seen.outcome.dump());
    REQUIRE(seen.outcome["chips"].size() == policies.size());
    for (const nlohmann::json& chip : seen.outcome["chips"]) CHECK(chip == shows_all);
    if (!shows_all) {
        const std::string words = seen.outcome["words"];
        const auto is_named = [&](const test::SamplePolicy& policy) {
            return words.starts_with(policy.name + ":") || words.starts_with(policy.name + ",");
        };
        CHECK(std::count_if(policies.begin(), policies.end(), is_named) == 1);
    }
    CHECK(seen.outcome["canvas"] == true);
    CHECK(seen.outcome["figures"] == 1);
    CHECK(seen.outcome["save"] == 0);
    CHECK(seen.outcome["said"] == true);
    CHECK(seen.outcome["faults"].empty());
}

namespace {

/// Script that reports which scripts ran and which were blocked.
const std::string watch = R"js(<script>
window.blocked = [];
addEventListener("securitypolicyviolation", e => blocked.push(e.effectiveDirective));
addEventListener("load", () => {
const out = document.createElement("pre");
out.id = "outcome";
out.textContent = encodeURIComponent(JSON.stringify({ran: window.ran || [], blocked,
    drawn: Boolean(window.Chart && Chart.getChart("loss")), colour: getComputedStyle(document.body).color}));
document.body.append(out);
});
</script>
)js";

/// Markup that a name could inject if it were not escaped.
const std::string foreign = R"html(<script>(window.ran = window.ran || []).push("script");</script>
<img src="x:" onerror="(window.ran = window.ran || []).push('event')">
<style>body { color: rgb(1, 2, 3) !important; }</style>
)html";

}  // namespace

TEST_CASE("a script or style that the page's security policy does not list does not run", "[page]") {
    if (browser().empty()) SKIP_TEST("no Chromium or Chrome on PATH, nor in MACHEPS_BROWSER");
    const TemporaryFolder folder;
    test::write_sample_run(folder / "run", {.steps = 20, .layers = 1});
    const std::vector<std::filesystem::path> folders{folder / "run"};
    const Log log = read_runs(folders);
    std::string page = with_scripts(page_html(log, summarise(log)), watch, "");
    page.insert(page.rfind("</body>"), foreign);
    std::ofstream(folder / "page.html", std::ios::binary) << page;
    const Seen seen = open_page(folder / "page.html", folder, 1300, false);
    if (seen.outcome.is_null()) SKIP_TEST("the browser does not start here");
    CAPTURE(seen.outcome.dump());
    CHECK(seen.outcome["ran"].empty());
    CHECK(seen.outcome["drawn"] == true);
    CHECK(seen.outcome["colour"] != "rgb(1, 2, 3)");
    const nlohmann::json& blocked = seen.outcome["blocked"];
    for (const char* kind : {"script-src-elem", "script-src-attr", "style-src-elem"}) {
        CAPTURE(kind);
        CHECK(std::find(blocked.begin(), blocked.end(), kind) != blocked.end());
    }
}

namespace {

/// Script that uses the charts of matrix products like a reader.
const std::string act_on_products = R"js(<script>
addEventListener("load", () => {
const outcome = {}, at = id => document.getElementById(id);
const curves = id => Chart.getChart(id).data.datasets.map(d => [d.label, d.data.length]);
const set = (id, value) => { at(id).value = value; at(id).dispatchEvent(new Event("change")); };
const isShown = id => at(id).getClientRects().length > 0;
outcome.chips = [...document.querySelectorAll("#gemm-chips button")].map(b => b.textContent);
outcome.sets = at("gemm-set").options.length;
outcome.curves = curves("gemm");
outcome.types = ["x", "y"].map(axis => Chart.getChart("gemm").options.scales[axis].type);
outcome.note = at("gemm-note").textContent;
outcome.sum_shown = isShown("gemm-sum");
document.querySelectorAll("#gemm-chips button")[0].click();
outcome.hidden = curves("gemm");
document.querySelectorAll("#gemm-chips button")[0].click();
at("gemm-bounds").click(); outcome.unbounded = curves("gemm"); at("gemm-bounds").click();
set("gemm-measure", "max_rel"); outcome.relative = curves("gemm"); set("gemm-measure", "max_error");
outcome.values = Chart.getChart("gemm").data.datasets[0].data;
set("gemm-set", "1");
outcome.sum = isShown("gemm-sum") ? curves("gemm-sum") : null;
outcome.stalled = Chart.getChart("gemm-sum").data.datasets[0].data.map(p => p.y);
outcome.training = ["summary", "settings", "bar", "loss"].map(isShown);
outcome.overflow = document.documentElement.scrollWidth - innerWidth;
const numbers = text => (text.startsWith("#") ? [1, 3, 5].map(k => parseInt(text.slice(k, k + 2), 16)) : text.match(/[\d.]+/g).map(Number));
const luminance = rgb => rgb.slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
const contrast = (a, b) => { const x = luminance(numbers(a)), y = luminance(numbers(b)); return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); };
const panel = getComputedStyle(document.documentElement).getPropertyValue("--panel").trim();
outcome.contrast = Math.min(...["gemm", "gemm-sum"].flatMap(id => Chart.getChart(id).data.datasets.map(d => contrast(d.borderColor, panel))));
outcome.requests = performance.getEntriesByType("resource").map(r => r.name);
outcome.faults = window.faults;
const out = document.createElement("pre");
out.id = "outcome"; out.textContent = encodeURIComponent(JSON.stringify(outcome));
document.body.append(out);
});
</script>
)js";

}  // namespace

TEST_CASE("in a browser, the charts of matrix products show bounds, hide curves and show a stalled sum",
          "[page][gemm]") {
    if (browser().empty()) SKIP_TEST("no Chromium or Chrome on PATH, nor in MACHEPS_BROWSER");
    const TemporaryFolder folder;
    CsvWriter<GemmRow> file(folder / "gemm.csv");
    for (const GemmRow& row : test::sample_gemm()) file.append(row);
    file.flush();
    const std::vector<std::filesystem::path> paths{folder / "gemm.csv"};
    const Log log = read_runs(paths);
    std::ofstream(folder / "page.html", std::ios::binary)
        << with_scripts(page_html(log, summarise(log)), listen, act_on_products);
    for (const bool dark : {false, true}) {
        const Seen seen = open_page(folder / "page.html", folder, 1300, dark);
        if (seen.outcome.is_null() && !dark) SKIP_TEST("the browser does not start here");
        REQUIRE(seen.outcome.is_object());
        const nlohmann::json& o = seen.outcome;
        CAPTURE(dark, o.dump());
        CHECK(o["faults"].empty());
        CHECK(seen.console.find("CONSOLE") == std::string::npos);
        CHECK(o["requests"].empty());
        CHECK(o["chips"] == nlohmann::json{"stalls </script><b>", "fp32.chain", "exact"});
        CHECK(o["sets"] == 2);
        CHECK(o["types"] == nlohmann::json{"logarithmic", "logarithmic"});
        // Two machines have a curve of five points. The exact machine has no curve, because its errors are zero. Each
        // of the three machines has two bounds.
        REQUIRE(o["curves"].size() == 2 + 2 * 3);
        for (const nlohmann::json& curve : o["curves"]) CHECK(curve[1] == 5);
        CHECK(o["curves"][2][0] == "stalls </script><b>, certain bound");
        CHECK(o["note"].get<std::string>().find("No error: exact.") != std::string::npos);
        CHECK(o["hidden"].size() == 1 + 2 * 2);
        CHECK(o["unbounded"].size() == 2);
        CHECK(o["relative"].size() == 2);
        // The curve shows the larger of the values of two seeds, which is 2 * 2^-13 * sqrt(16) = 2^-10.
        CHECK(o["values"][0]["x"] == 16);
        CHECK(o["values"][0]["y"].get<double>() == Approx(0x1p-10).epsilon(1e-6));
        // Sums that change their sign are not drawn. The stalled sum stops at 4.
        CHECK(o["sum_shown"] == false);
        REQUIRE(o["sum"].is_array());
        CHECK(o["sum"].size() == 3 + 1);
        CHECK(o["stalled"] == nlohmann::json{0.0625, 0.25, 1, 4, 4});
        for (const nlohmann::json& shown : o["training"]) CHECK(shown == false);
        CHECK(o["overflow"] <= 0);
        // WCAG 2.2 requires a contrast of 3 for the meaningful parts of a graphic (1.4.11).
        CHECK(o["contrast"] >= 3.0);
    }
}

}  // namespace page_test
