// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/report/picture.hpp"

#include "core/error.hpp"
#include "core/host/child_process.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "experiments/cmd/report/scratch_folder.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>

namespace macheps::cmd::report {

namespace {

namespace fs = std::filesystem;

constexpr const char* without =
    "install Chromium or Chrome, or set MACHEPS_BROWSER to its path; or use the button `save as PNG` next to each "
    "chart of the page";

bool is_program(const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::string address_of(const fs::path& page) {
    std::string text = "file://";
    for (const char c : fs::absolute(page).string()) {
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                              std::string_view("/-_.~").find(c) != std::string_view::npos;
        text += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return text;
}

/// Returns the value of an attribute of the page's <html> tag, or an empty text.
std::string attribute(const std::string& dom, const std::string& name) {
    const std::size_t at = dom.find(name + "=\"");
    if (at == std::string::npos) return {};
    const std::size_t from = at + name.size() + 2;
    return dom.substr(from, dom.find('"', from) - from);
}

Error no_picture(const std::string& what, const fs::path& where) {
    return Error({.what = what, .where = where.string(), .fix = without, .exit = Exit::cannot_write});
}

}  // namespace

Browser::Browser(const std::string& option) {
    if (const char* named = std::getenv("MACHEPS_BROWSER"); named != nullptr && *named != '\0') {
        if (!is_program(named)) throw no_picture("MACHEPS_BROWSER does not name a program", named);
        program_ = named;
        return;
    }
    const char* path = std::getenv("PATH");
    std::stringstream folders(path != nullptr ? path : "");
    std::vector<fs::path> list;
    for (std::string folder; std::getline(folders, folder, ':');) list.emplace_back(folder.empty() ? "." : folder);
    for (const char* name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}) {
        for (const fs::path& folder : list) {
            if (!is_program(folder / name)) continue;
            program_ = folder / name;
            return;
        }
    }
    throw no_picture("Chromium or Chrome, which draws the pictures, was not found on PATH", option);
}

std::string Browser::run(const std::vector<std::string>& options, bool dark) const {
    constexpr auto longest = std::chrono::seconds(120);
    const ScratchFolder profile;
    std::vector<std::string> words{"--headless",
                                   "--disable-gpu",
                                   "--hide-scrollbars",
                                   "--no-first-run",
                                   "--disable-background-networking",
                                   "--disable-extensions",
                                   "--disable-dev-shm-usage",
                                   "--virtual-time-budget=5000",
                                   "--user-data-dir=" + profile.path().string(),
                                   fmt::format("--blink-settings=preferredColorScheme={}", dark ? 0 : 1)};
    // Chromium does not start its sandbox for root. The page is our own and requests nothing, so it is safe without
    // one.
    if (geteuid() == 0) words.emplace_back("--no-sandbox");
    words.insert(words.end(), options.begin(), options.end());
    try {
        ProgramEnd end =
            run_program({.program = program_, .arguments = std::move(words), .discards_errors = true}, longest);
        if (end.has_succeeded()) return std::move(end.output);
    } catch (const std::system_error&) {
        throw no_picture("cannot start the browser", program_);
    }
    throw no_picture("the browser failed", program_);
}

std::string Browser::dom(const std::string& address, bool dark) const {
    return run({"--window-size=1280,900", "--dump-dom", address}, dark);
}

void Browser::screenshot(const std::string& address, Extent extent, const fs::path& png, bool dark) const {
    const ScratchFolder folder;
    const fs::path shot = folder.path() / "picture.png";
    run({fmt::format("--window-size={},{}", extent.width, extent.height), "--force-device-scale-factor=2",
         "--screenshot=" + shot.string(), address},
        dark);
    std::error_code error;
    if (!fs::exists(shot, error) || fs::file_size(shot, error) == 0) throw no_picture("the browser drew nothing", png);
    publish(png, read_file(shot));
}

void Browser::picture_of_page(const fs::path& page, const fs::path& png, PageExtent extent, bool dark) const {
    const std::string address = address_of(page) + (extent == PageExtent::top ? "#picture=top" : "#picture"),
                      text = dom(address, dark);
    const int height = std::atoi(attribute(text, "data-height").c_str());
    if (height <= 0) throw no_picture("the browser could not show the page", page);
    screenshot(address, {1280, std::min(height, 16000)}, png, dark);
}

std::vector<fs::path> Browser::pictures_of_charts(const fs::path& page, const fs::path& folder, bool dark) const {
    make_folder(folder);
    std::stringstream charts(attribute(dom(address_of(page) + "#picture", dark), "data-charts"));
    std::vector<fs::path> files;
    for (std::string chart; charts >> chart;) {
        const std::size_t colon = chart.find(':');
        const std::string name = chart.substr(0, colon);
        files.push_back(folder / (name + ".png"));
        screenshot(address_of(page) + "#chart=" + name, {1000, std::atoi(chart.c_str() + colon + 1)}, files.back(),
                   dark);
    }
    if (files.empty()) {
        throw Error({.what = "this page has no chart",
                     .where = page.string(),
                     .fix = "pass rows that have charts: those of runs, gemm, sum and solve, or the file of "
                            "`macheps eval --points-out`",
                     .exit = Exit::bad_input});
    }
    return files;
}

}  // namespace macheps::cmd::report
