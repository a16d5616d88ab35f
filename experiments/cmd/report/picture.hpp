// SPDX-License-Identifier: Apache-2.0
// Pictures of a report page, drawn by a Chromium or Chrome without a window.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace macheps::cmd::report {

/// How much of a page a picture shows: all of it, or what stands above its curves.
enum class PageExtent : bool { whole, top };

class Browser {
  public:
    /// $MACHEPS_BROWSER, else the first Chromium or Chrome on PATH. Throws Error, Exit::cannot_write, when there is
    /// none: it says how to get pictures without.
    Browser();

    /// The page, as tall as it is. Errors: Exit::cannot_write.
    void picture_of_page(const std::filesystem::path& page, const std::filesystem::path& png, PageExtent extent,
                         bool dark) const;
    /// Every chart that has something to show, `loss.png`, ..., into `folder`, which is made. Returns the files.
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
