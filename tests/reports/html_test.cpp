// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/html.hpp"

#include "core/error.hpp"
#include "reports/pages/page_assets.hpp"
#include "reports/pages/page_data.hpp"
#include "reports/rows/sha256.hpp"
#include "tests/json.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace html_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

Log sample(const TemporaryFolder& folder, const test::SampleOptions& options = {}) {
    test::write_sample_run(folder / "run", options);
    const std::vector<std::filesystem::path> folders{folder / "run"};
    return read_runs(folders);
}

/// Returns the page without the text of Chart.js, whose licence comment contains an address.
std::string without_chart(std::string page) {
    const std::size_t at = page.find(page_assets::chart);
    return page_assets::chart.empty() || at == std::string::npos ? page : page.erase(at, page_assets::chart.size());
}

std::string between(const std::string& text, const std::string& open, const std::string& close) {
    const std::size_t from = text.find(open), to = text.find(close, from + open.size());
    if (from == std::string::npos || to == std::string::npos) FAIL("no " << open);
    return text.substr(from + open.size(), to - from - open.size());
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

/// Returns the step numbers of a run. The page's data stores each list once for all runs that share it.
nlohmann::json steps_of(const nlohmann::json& data, const nlohmann::json& run) {
    return data["steps"][run["step"].get<std::size_t>()];
}

}  // namespace

TEST_CASE("a page is self-contained: it has no addresses, links or imports", "[reports][html]") {
    const TemporaryFolder folder;
    const Log log = sample(folder, {.steps = 60, .layers = 1});
    const std::string page = without_chart(page_html(log, summarise(log)));
    for (const char* forbidden : {"http://", "https://", "src=", "href=", "@import", "url(", "fetch(", "@@"}) {
        CAPTURE(forbidden);
        CHECK(page.find(forbidden) == std::string::npos);
    }
    CHECK(page.find("prefers-color-scheme: dark") != std::string::npos);
}

TEST_CASE("a page has the licence notices of the libraries that it contains", "[reports][html]") {
    const TemporaryFolder folder;
    const Log log = sample(folder);
    const std::string page = page_html(log, summarise(log)),
                      notices = between(page, "<summary>Third-party notices</summary>", "</details>");
    // Each library whose name is in a comment `/*! name ...` of the script has a notice.
    std::size_t libraries = 0;
    const std::string chart(page_assets::chart);
    for (std::size_t at = chart.find("/*!"); at != std::string::npos; at = chart.find("/*!", at + 1), ++libraries) {
        const std::size_t name = chart.find_first_not_of(" *\n", at + 3), end = chart.find(' ', name);
        CAPTURE(chart.substr(name, end - name));
        CHECK(notices.find(chart.substr(name, end - name)) != std::string::npos);
    }
    CHECK((libraries >= 1 || chart.empty()));
    CHECK(notices.find("Permission is hereby granted") != std::string::npos);
}

TEST_CASE("names from the log are escaped everywhere", "[reports][html]") {
    const TemporaryFolder folder;
    const Log log = sample(folder, {.steps = 60, .layers = 1});
    const std::string page = without_chart(page_html(log, summarise(log)));
    // The sample has a policy called `fp8-e5m2 <b>&"</script>` and a manifest that holds `</script><b>&`.
    CHECK(page.find("fp8-e5m2 <b>") == std::string::npos);
    CHECK(page.find("fp8-e5m2 &lt;b&gt;&amp;&quot;&lt;/script&gt;") != std::string::npos);
    CHECK(page.find("fp8-e5m2 \\u003cb>&\\\"\\u003c/script>") != std::string::npos);
    CHECK(page.find("&lt;/script&gt;&lt;b&gt;&amp;") != std::string::npos);
    CHECK(count_of(page, "</script>") == 3);
    CHECK(page.find("'fp32,amp bf16'") == std::string::npos);
    CHECK(page.find("&#39;fp32,amp bf16&#39; --steps 300") != std::string::npos);
}

TEST_CASE("the data in the page is JSON and has the numbers of the rows", "[reports][html]") {
    const TemporaryFolder folder;
    const Log log = sample(folder, {.steps = 60, .seeds = 2, .layers = 1});
    const std::string page = page_html(log, summarise(log));
    const auto data = nlohmann::json::parse(between(page, "id=\"data\">", "</script>"));
    CHECK(data["policies"].size() == 8);
    REQUIRE(data["runs"].size() == 16);
    CHECK(data["policies"][0]["baseline"] == true);
    const auto& fp16 = data["runs"][2];
    CHECK(fp16["run"] == "amp-fp16.0");
    CHECK(data["steps"].size() == 1);  // all runs have the same steps, which are stored once
    CHECK(steps_of(data, fp16).size() == 60);
    CHECK(fp16["loss"][59].get<double>() == Approx(log.runs[2].steps[59].loss).epsilon(1e-5));
    CHECK(fp16["gap"][9].get<double>() == Approx(log.runs[2].steps[9].loss - log.runs[0].steps[9].loss).epsilon(1e-4));
    CHECK(fp16["skipped"].size() == 4);
    CHECK(fp16["skipped"][0] == nlohmann::json{1, 1048576});
    CHECK(fp16["scale"].size() == 5);
    CHECK_FALSE(data["runs"][0].contains("gap"));
    // Sites are sampled at steps 1, 10, 20, ..., 60. The values are in parts per million, row by row.
    const auto& heat = data["runs"][4]["heat"];
    REQUIRE(heat["step"] == nlohmann::json{1, 10, 20, 30, 40, 50, 60});
    const SiteRow& first = log.runs[4].sites.front();
    CHECK(data["names"][heat["site"][0].get<std::size_t>()] == first.site);
    REQUIRE(heat["underflow"][0].size() == 1 + 7);
    CHECK(heat["underflow"][0][0] == 0);
    CHECK(heat["underflow"][0][1] == std::uint64_t(1e6 * double(first.underflow) / double(first.count) + 0.5));
    CHECK(heat["overflow"].empty());  // no overflow at any site
    nlohmann::json histogram;
    for (std::size_t i = 0; i < data["exponent_fields"].size(); ++i) {
        histogram[data["exponent_fields"][i].get<std::string>()] = data["runs"][4]["exps"][0][i];
    }
    histogram["site"] = data["names"][histogram["site"].get<std::size_t>()];
    std::uint64_t total = histogram["zero"].get<std::uint64_t>();
    for (const auto& n : histogram["counts"]) total += n.get<std::uint64_t>();
    std::uint64_t expected = 0;
    for (const ExponentRow& row : log.runs[4].exponents) {
        if (row.site == histogram["site"] && row.step == histogram["step"]) expected += row.count;
    }
    CHECK(total == expected);
    CHECK(data["formats"]["e4m3fn"] == nlohmann::json{{"least", -9}, {"normal", -6}, {"largest", 448.0}});
    CHECK(data["formats"]["fp16"] == nlohmann::json{{"least", -24}, {"normal", -14}, {"largest", 65504.0}});
}

TEST_CASE("NaN and infinite losses are null in the data", "[reports][html]") {
    const TemporaryFolder folder;
    const Log log =
        sample(folder, {.policies = {{.name = "fp32"}, {.name = "low", .breaks = 3}}, .steps = 5, .layers = 1});
    const auto data = nlohmann::json::parse(page_data(log, summarise(log)));
    CHECK(data["runs"][1]["loss"][1].is_number());
    CHECK(data["runs"][1]["loss"][2].is_null());
    CHECK(data["runs"][1]["loss_ema"][2].is_null());
}

TEST_CASE("long runs and many sites are reduced to the page's limits", "[reports][html]") {
    const TemporaryFolder folder;
    const Log log = sample(folder, {.steps = 300, .seeds = 2, .layers = 3, .sample_every = 5});
    const Summary summary = summarise(log);
    const std::string page = page_html(log, summary);
    CHECK(page.size() < 3'000'000);
    const PageLimits small{
        .points = 100, .heat_columns = 10, .heat_cells = 3000, .histogram_steps = 4, .histogram_bins = 12000};
    const std::string text = page_data(log, summary, small);
    const auto data = nlohmann::json::parse(text);
    CHECK(points_bucket(log, summary, small) == 3);
    const auto& fp32 = data["runs"][0];
    CHECK(steps_of(data, fp32).size() == 100);
    CHECK(steps_of(data, fp32)[99] == 300);
    const auto& steps = log.runs[0].steps;
    CHECK(fp32["loss"][1].get<double>() ==
          Approx((double{steps[3].loss} + steps[4].loss + steps[5].loss) / 3).epsilon(1e-5));
    // 8 policies x 45 sites x 2 seeds x 10 columns are 7200 cells, more than the limit of 3000. Therefore only one seed
    // is kept, with 8 columns, each of which joins several steps.
    CHECK(fp32["heat"]["step"].size() == 8);
    CHECK_FALSE(data["runs"][8].contains("heat"));
    std::uint64_t underflow = 0, count = 0;
    const auto& heat = data["runs"][4]["heat"];
    const std::int64_t second = heat["step"][1].get<std::int64_t>();
    for (const SiteRow& row : log.runs[4].sites) {
        if (row.site == data["names"][heat["site"][0].get<std::size_t>()] && row.step < second)
            underflow += row.underflow, count += row.count;
    }
    CHECK(heat["underflow"][0][1] == std::uint64_t(1e6 * double(underflow) / double(count) + 0.5));
    CHECK(data["runs"][4]["exps"].size() < 45 * 4);
    CHECK_FALSE(data["runs"][12].contains("exps"));
}

TEST_CASE("the data distinguishes a step with infinite or NaN values from a step that was not sampled",
          "[reports][html]") {
    const TemporaryFolder folder;
    Log log = sample(folder, {.policies = {{.name = "fp32"}, {.name = "low", .format = "fp16", .underflow = 0.1}},
                              .steps = 20,
                              .layers = 1});
    std::vector<SiteRow>& sites = log.runs[1].sites;
    const std::string site = sites.front().site;
    std::erase_if(sites, [&](const SiteRow& row) { return row.site == site && row.step == 10; });
    for (SiteRow& row : sites) row.inf_in = row.site == site && row.step == 20 ? 1 : 0, row.nan_in = row.inf_in;
    const auto data = nlohmann::json::parse(page_data(log, summarise(log)));
    const auto& heat = data["runs"][1]["heat"];
    REQUIRE(heat["step"] == nlohmann::json{1, 10, 20});
    for (const char* metric : {"underflow", "zero_in"}) {
        CAPTURE(metric);
        CHECK(heat[metric][0][0] == 0);
        CHECK(heat[metric][0][1].is_number());
        CHECK(heat[metric][0][2].is_null());
    }
    CHECK(heat["not_finite"] == nlohmann::json::parse("[[0,0,null,31]]"));  // 2 of 65536 elements, in parts per million
}

TEST_CASE("a small page has the same policies as the full page, with fewer points", "[reports][html]") {
    const TemporaryFolder folder;
    const Log log = sample(folder, {.steps = 300, .seeds = 2, .layers = 2});
    const Summary summary = summarise(log);
    const std::string full = without_chart(page_html(log, summary)),
                      small = without_chart(page_html(log, summary, PageSize::small));
    CHECK(2 * small.size() < full.size());
    const auto data = nlohmann::json::parse(between(small, "id=\"data\">", "</script>"));
    CHECK(data["policies"].size() == 8);
    CHECK(steps_of(data, data["runs"][0]).size() <= 100);
    CHECK(steps_of(data, data["runs"][0]).back() == 300);
    CHECK(data["runs"][1].contains("heat"));
    CHECK_FALSE(data["runs"][9].contains("heat"));
    CHECK(full.find("resolved for this model") != std::string::npos);
    CHECK(small.find("resolved for this model") == std::string::npos);
}

TEST_CASE("an almost empty log still makes a page", "[reports][html]") {
    const TemporaryFolder folder;
    CsvWriter<RunRow>{folder / "runs.csv"}.flush();
    CsvWriter<StepRow>{folder / "steps.csv"}.flush();
    const std::vector<std::filesystem::path> folders{folder.path()};
    write_page(read_runs(folders), summarise(read_runs(folders)), folder / "report.html");
    CHECK(std::filesystem::file_size(folder / "report.html") > 10000);
    const std::filesystem::directory_iterator files(folder.path());
    CHECK(std::distance(begin(files), end(files)) == 3);  // two CSV files and the page, but no temporary file
}

TEST_CASE("a page that cannot be written is an error with its own exit code", "[reports][html]") {
    const TemporaryFolder folder;
    sample(folder, {.steps = 5, .layers = 1});
    const std::vector<std::filesystem::path> folders{folder / "run"};
    try {
        write_page(read_runs(folders), summarise(read_runs(folders)), folder / "missing/report.html");
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::cannot_write);
    }
}

TEST_CASE("settings are readable, whatever the manifest contains", "[reports][html]") {
    const auto html = [](const char* manifest) { return settings_html({.manifest = manifest}); };
    CHECK(html("").find("unknown") != std::string::npos);
    CHECK(html("{}").find("<table>") == std::string::npos);
    const std::string all = html(R"({"command": ["macheps", "train", "it's"], "device": "cpu <1>", "seeds": [0, 1],
        "train": {"lr": 0.001, "token_weight": 4096, "nested": {"deep": true}, "unheard_of": null, "file": ""},
        "policies": {"p": {"toml": "x = 1", "left_out": ["lm_head"], "resolved": [["a:forward.out", "bf16", "exact"]]}}})");
    for (const char* part :
         {"macheps train &#39;it&#39;\\&#39;&#39;s&#39;", "cpu &lt;1&gt;", "0, 1", "learning rate</th><td>0.001",
          "weight of each token&#39;s loss", "nested: deep</th><td>yes", "unheard of</th><td>not given", "x = 1",
          "a:forward.out", "a size is not a multiple of what the policy requires: lm_head"}) {
        CAPTURE(part);
        CHECK(all.find(part) != std::string::npos);
    }
    CHECK(all.find(">file<") == std::string::npos);

    const std::string machines = html(R"({"machines": {
        "fp32": {"matmuls": {"fp32.chain": 39}, "unverified": []},
        "my_fp8": {"matmuls": {"sm90.wgmma.fp8, unverified": 24, "sm90.wgmma.bf16": 15}, "unverified": ["a <reason>"]},
        "odd": 3, "empty": {}}})");
    for (const char* part : {"fp32</th><td>39 on fp32.chain</td>",
                             "my_fp8</th><td>24 on sm90.wgmma.fp8, unverified; 15 on sm90.wgmma.bf16</td>",
                             "<li><b>my_fp8</b>: a &lt;reason&gt;</li>"}) {
        CAPTURE(part);
        CHECK(machines.find(part) != std::string::npos);
    }
    CHECK(machines.find("<b>fp32</b>") == std::string::npos);
    CHECK(html(R"({"machines": []})").find("<li>") == std::string::npos);
}

TEST_CASE("settings that have no effect on a run are left out", "[reports][html]") {
    const auto shows = [](const char* manifest, const char* label) {
        return settings_html({.manifest = manifest}).find(std::string(">") + label + "</th>") != std::string::npos;
    };
    constexpr const char* gpt =
        R"({"model": {"kind": "gpt2", "kv_heads": 0, "hidden": 0, "rope_theta": 10000.0, "gelu": "erf"},
        "data": {"what": "synthetic", "format": "auto", "file": ""}, "save_every": 500,
        "train": {"steps": 300, "optimizer": "adamw", "beta1": 0.9, "momentum": 0.9, "weight_decay": 0.0, "token_weight": 1.0}})";
    constexpr const char* llama =
        R"({"model": {"kind": "llama", "kv_heads": 2, "hidden": 256, "rope_theta": 10000.0, "gelu": "erf"},
        "data": {"what": "bytes", "format": "text", "file": "corpus.txt"}, "save_every": 100,
        "train": {"steps": 300, "optimizer": "sgd", "beta1": 0.9, "momentum": 0.9, "weight_decay": 0.1, "token_weight": 0.5}})";
    struct Case {
        const char* label;
        bool gpt, llama;
    };
    for (const Case& c : {Case{"kv heads", false, true}, Case{"hidden", false, true}, Case{"rope theta", false, true},
                          Case{"gelu", true, false}, Case{"format", false, true}, Case{"Adam beta 1", true, false},
                          Case{"momentum", false, true}, Case{"weight decay", false, true},
                          Case{"weight of each token&#39;s loss in the backward pass, undone in fp32", false, true},
                          Case{"save every", false, true}}) {
        CAPTURE(c.label);
        CHECK(shows(gpt, c.label) == c.gpt);
        CHECK(shows(llama, c.label) == c.llama);
    }
    // If a manifest does not name its model or optimiser, every setting is shown.
    CHECK(shows(R"({"model": {"rope_theta": 10000.0}})", "rope theta"));
    CHECK(shows(R"({"train": {"momentum": 0.9}})", "momentum"));
}

TEST_CASE("every element of a page is closed, in the correct order", "[reports][html]") {
    if (std::system("python3 -c pass >/dev/null 2>&1") != 0) SKIP_TEST("no python3");
    const TemporaryFolder folder;
    sample(folder, {.steps = 20, .layers = 1});
    const std::vector<std::filesystem::path> folders{folder / "run"};
    write_page(read_runs(folders), summarise(read_runs(folders)), folder / "report.html");
    std::ofstream(folder / "check.py") << R"(
import sys
from html.parser import HTMLParser
void = {"meta", "br", "input", "link", "img"}
class Checker(HTMLParser):
    def __init__(self):
        super().__init__(); self.open = []; self.ids = []
    def handle_starttag(self, tag, attrs):
        if tag not in void: self.open.append(tag)
        self.ids += [v for k, v in attrs if k == "id"]
    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag: sys.exit(f"</{tag}> at {self.getpos()}")
checker = Checker()
checker.feed(open(sys.argv[1], encoding="utf-8").read())
if checker.open: sys.exit(f"not closed: {checker.open}")
if len(set(checker.ids)) != len(checker.ids): sys.exit("an id twice")
)";
    const std::string command = "python3 " + (folder / "check.py").string() + " " + (folder / "report.html").string();
    CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("a page allows its own scripts and style by their hashes, and nothing else", "[reports][html]") {
    const TemporaryFolder folder;
    const Log log = sample(folder, {.steps = 20, .layers = 1});
    const std::string page = page_html(log, summarise(log));
    const std::string policy = between(page, "Content-Security-Policy\" content=\"", "\"");
    CHECK(policy.find("unsafe") == std::string::npos);
    CHECK(policy.find("default-src 'none';") == 0);
    std::vector<std::string> parts;  // contents of the style and script tags; the browser hashes each one
    for (const std::string tag : {"style", "script"}) {
        for (std::size_t at = page.find("<" + tag + ">"); at != std::string::npos;) {
            const std::size_t from = at + tag.size() + 2, to = page.find("</" + tag + ">", from);
            parts.push_back(page.substr(from, to - from));
            at = page.find("<" + tag + ">", to);
        }
    }
    REQUIRE(parts.size() == 3);
    for (const std::string& part : parts) {
        CAPTURE(part.substr(0, 40));
        CHECK(policy.find(csp_source(part)) != std::string::npos);
    }
    CHECK(count_of(policy, "'sha256-") == 3);
    // A style attribute would need its own hash, and event attributes cannot have hashes.
    for (const char* forbidden : {" style=", " onclick=", " onload=", " onerror=", "javascript:"}) {
        CAPTURE(forbidden);
        CHECK(without_chart(page).find(forbidden) == std::string::npos);
    }
}

TEST_CASE("SHA-256 gives the digests of FIPS 180-4's examples", "[reports][sha256]") {
    const auto hex = [](const std::string& text) {
        std::string out;
        for (const std::uint8_t byte : sha256(text)) out += fmt::format("{:02x}", byte);
        return out;
    };
    CHECK(hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(hex(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    CHECK(csp_source("") == "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    // Compares with the system's sha256sum at lengths near the end of a block.
    if (std::system("command -v sha256sum >/dev/null 2>&1") != 0) return;
    const TemporaryFolder folder;
    for (std::size_t length = 50; length<135; length += length % 64> 58 || length % 64 < 2 ? 1 : 7) {
        const std::string text(length, 'q');
        std::ofstream(folder / "text", std::ios::binary) << text;
        const std::string command =
            "sha256sum <'" + (folder / "text").string() + "' >'" + (folder / "sum").string() + "'";
        REQUIRE(std::system(command.c_str()) == 0);
        CAPTURE(length);
        CHECK(csv::read_text(folder / "sum").substr(0, 64) == hex(text));
    }
}

}  // namespace html_test
