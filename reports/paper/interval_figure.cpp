// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/interval_figure.hpp"

#include "reports/findings/student.hpp"
#include "reports/pages/plot.hpp"
#include "reports/rows/html_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::reports {

namespace {

class IntervalDrawing {
  public:
    IntervalDrawing(const std::vector<IntervalRow>& rows, double margin) : margin_(margin), rows_(rows) {
        for (const IntervalRow& row : rows) {
            // A long name widens the figure.
            width_ = std::max(width_, label_width(row.text) + 2 * side);
            if (std::isfinite(row.gap))
                reach_ = std::max({reach_, std::abs(row.gap - row.half_95), std::abs(row.gap + row.half_95)});
        }
        reach_ = std::asinh(std::max(reach_, 1.6 * margin_) / margin_) * 1.05;
    }

    std::string svg() const {
        if (rows_.empty()) return {};
        const double bottom = top + row_height * double(rows_.size());
        std::string out =
            fmt::format("<rect class=\"band\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                        at(-margin_), top, at(margin_) - at(-margin_), bottom - top);
        out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", side, bottom, width_ - side);
        for (std::size_t i = 0; i < rows_.size(); ++i) out += row_svg(rows_[i], top + row_height * double(i));
        double free_from = 0;
        for (const double share : ticks()) {
            const std::string text = fmt::format("{}{:g}", share > 0 ? "+" : "", 100 * share);
            const double half = label_width(text) / 2;
            if (at(share) - half < free_from || at(share) + half > width_) continue;
            free_from = at(share) + half + 6;
            out += fmt::format(
                "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/><text x=\"{0:.1f}\" y=\"{3:.1f}\" "
                "text-anchor=\"middle\">{4}</text>\n",
                at(share), bottom, bottom + 4, bottom + 16, text);
        }
        out += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">loss - fp32 loss (% of the fp32 loss)</text>\n",
            width_ / 2, bottom + 33);
        return svg_file(width_, bottom + 40, out);
    }

  private:
    static constexpr double top = 6, row_height = 34, side = 12;

    double at(double share) const { return width_ / 2 + std::asinh(share / margin_) / reach_ * (width_ / 2 - side); }
    std::vector<double> ticks() const {
        std::vector<double> ticks{0, margin_, -margin_};
        for (const double share : {0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0}) {
            if (share > 2.5 * margin_ && std::asinh(share / margin_) <= reach_)
                ticks.push_back(share), ticks.push_back(-share);
        }
        std::sort(ticks.begin(), ticks.end());
        return ticks;
    }
    std::string row_svg(const IntervalRow& row, double y) const {
        std::string out =
            fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", side, y + 13, escape_html(row.text));
        const double middle = y + 23;
        out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", at(0), middle - 6, middle + 6);
        if (!std::isfinite(row.gap)) return out;
        const auto line = [&](double half, double width) {
            return fmt::format("<path class=\"line\" style=\"stroke-width: {}\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", width,
                               at(row.gap - half), middle, at(row.gap + half));
        };
        return out + fmt::format("<g class=\"c{}\">{}{}<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\"/></g>\n",
                                 row.colour % 8, line(row.half_95, 1.2), line(row.half_90, 3), at(row.gap), middle);
    }

    double margin_, reach_ = 0, width_ = paper_width;
    const std::vector<IntervalRow>& rows_;
};

}  // namespace

IntervalRow interval_row(std::span<const double> seed_gaps, double fp32_loss) {
    const PairedMean mean = paired_mean(seed_gaps);
    if (seed_gaps.empty() || !std::isfinite(mean.mean / fp32_loss)) return {};
    return {.gap = mean.mean / fp32_loss,
            .half_95 = mean.half_width_95.value_or(0) / fp32_loss,
            .half_90 = mean.half_width_90.value_or(0) / fp32_loss};
}

std::string interval_svg(const std::vector<IntervalRow>& rows, double margin) {
    return IntervalDrawing(rows, margin).svg();
}

std::string interval_caption(double margin) {
    return fmt::format(
        "Thin: 95 % t interval over the seeds; thick: 90 %. Shaded: {:g} % of the fp32 loss. The axis is linear in the "
        "shaded part and logarithmic outside.",
        100 * margin);
}

}  // namespace macheps::reports
