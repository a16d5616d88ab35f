// SPDX-License-Identifier: Apache-2.0
// Pictures of a report page, drawn by Chromium or Chrome in headless mode.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace macheps::cmd::report {

/// Part of a page that a picture shows: all of it, or only the part above its curves.
enum class PageExtent : bool { whole, top };

class Browser {
  public:
    /// Finds the browser: $MACHEPS_BROWSER, else the first Chromium or Chrome on PATH. If there is none, throws Error
    /// (Exit::cannot_write) that explains how to get pictures without a browser. `option` is the option of the command
    /// line that asked for pictures, which the error names.
    explicit Browser(const std::string& option);

    /// Draws the page, up to a height of 16,000 pixels. Errors: Exit::cannot_write.
    void picture_of_page(const std::filesystem::path& page, const std::filesystem::path& png, PageExtent extent,
                         bool dark) const;
    /// Draws every chart that has data into `folder`, which is made if necessary: `loss.png`, ... Returns the files.
    std::vector<std::filesystem::path> pictures_of_charts(const std::filesystem::path& page,
                                                          const std::filesystem::path& folder, bool dark) const;

  private:
    struct Extent {
        int width, height;
    };
    std::string dom(const std::string& address, bool dark) const;
    void screenshot(const std::string& address, Extent extent, const std::filesystem::path& png, bool dark) const;
    std::string run(const std::vector<std::string>& options, bool dark) const;

    std::filesystem::path program_;
};

}  // namespace macheps::cmd::report
