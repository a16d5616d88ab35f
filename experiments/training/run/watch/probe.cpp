// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/watch/probe.hpp"

#include "core/format_table.hpp"
#include "core/math64.hpp"

#include <limits>

namespace macheps::training {

void Probe::begin(bool sampling, bool histograms) {
    sampling_ = sampling;
    histograms_ = histograms;
    total_ = {};
    overflow_site_.clear();
    entries_.clear();
    index_.clear();
}

void Probe::on_cast(const Slot& slot, const Cast& cast, const Tally& tally, const Decoding& decoding, ConstView x,
                    ConstView y) {
    total_ += tally;
    const bool made_infinity = cast.overflow == Overflow::nonsaturate && tally.overflow > 0;
    if (overflow_site_.empty() && (tally.nan_in + tally.inf_in > 0 || made_infinity)) overflow_site_ = slot.name;
    if (!sampling_) return;

    const auto [place, is_new] = index_.try_emplace(slot.name, entries_.size());
    if (is_new) {
        entries_.push_back({.site = slot.name,
                            .kind = {cast.format, cast.is_identity() ? no_scale : slot.rule.granularity},
                            .decode_scale_min = decoding.min,
                            .decode_scale_max = decoding.max});
    }
    Entry& entry = entries_[place->second];
    entry.tally += tally;
    entry.scale_age = decoding.scale_age, entry.scale_frozen_steps = decoding.scale_frozen_steps;
    entry.decode_scale_min = min_of(entry.decode_scale_min, decoding.min);
    entry.decode_scale_max = max_of(entry.decode_scale_max, decoding.max);
    if (x.data == nullptr) return;
    if (entry.kind.granularity->is_scaled()) read_scales(entry, decoding);
    const ErrorSums sums = backend_.compare(x, y, decoding.factor);
    entry.sums.error2 += sums.error2;
    entry.sums.x2 += sums.x2;
    entry.sums.y2 += sums.y2;
    entry.sums.xy += sums.xy;
    entry.sums.count += sums.count;
    entry.has_values = true;
    if (cast.is_identity() && x.data == y.data) {
        entry.fidelity.add_identity(tally.amax);
    } else {
        read_values(entry, cast, decoding, x, y);
    }
    if (histograms_) {
        const ExponentHistogram histogram = backend_.exponents(x);
        for (std::size_t i = 0; i < histogram.bins.size(); ++i) entry.histogram.bins[i] += histogram.bins[i];
        entry.histogram.zeros += histogram.zeros;
        entry.histogram.infinities += histogram.infinities;
        entry.histogram.nans += histogram.nans;
    }
}

void Probe::read_scales(Entry& entry, const Decoding& decoding) {
    if (decoding.scales.data == nullptr) return entry.scales.add(decoding.factor);
    codes_.resize(static_cast<std::size_t>(decoding.scales.count()));
    backend_.download(decoding.scales, codes_);
    for (const float scale : codes_) entry.scales.add(scale * decoding.tensor);
}

void Probe::read_values(Entry& entry, const Cast& cast, const Decoding& decoding, ConstView x, ConstView y) {
    const auto read = [&](ConstView from, std::vector<float>& to) {
        to.resize(static_cast<std::size_t>(from.count()));
        backend_.download(from, to);
    };
    read(x, x_), read(y, y_);
    const bool is_decoded = decoding.codes.data != nullptr;
    if (is_decoded || decoding.factor != 1) read(is_decoded ? decoding.codes : y, codes_);
    if (!is_decoded && decoding.factor != 1) {
        for (float& value : y_) value *= decoding.factor;
    }
    const std::vector<float>& codes = is_decoded || decoding.factor != 1 ? codes_ : y_;
    entry.fidelity.add(entry.kind, {.x = x_,
                                    .y = y_,
                                    .codes = codes,
                                    .columns = x.columns(),
                                    .encode_scale = cast.encode_scale,
                                    .contraction = decoding.contraction});
}

std::vector<reports::SiteRow> Probe::site_rows(const std::string& run, const std::string& policy, std::int64_t seed,
                                               std::int64_t step) const {
    std::vector<reports::SiteRow> rows;
    for (const Entry& entry : entries_) {
        const Tally& t = entry.tally;
        const ErrorSums& s = entry.sums;
        const double decibels = 8.685889638065035;  // 20 / ln 10
        rows.push_back({.run = run,
                        .policy = policy,
                        .seed = seed,
                        .step = step,
                        .site = entry.site,
                        .format = std::string(format_name(entry.kind.format)),
                        .scale_inv_min = entry.decode_scale_min,
                        .scale_inv_max = entry.decode_scale_max,
                        .count = t.count,
                        .zero_in = t.zero_in,
                        .underflow = t.underflow,
                        .to_subnormal = t.to_subnormal,
                        .overflow = t.overflow,
                        .saturated = t.saturated,
                        .nan_in = t.nan_in,
                        .inf_in = t.inf_in,
                        .amax = t.amax,
                        .amin_nz = t.amin_nz});
        reports::SiteRow& row = rows.back();
        row.scale_age = entry.scale_age, row.scale_frozen_steps = entry.scale_frozen_steps;
        if (!entry.scales.empty()) row.scale_exp_hist = entry.scales.text();
        if (entry.has_values) entry.fidelity.fill(row, entry.kind);
        if (s.count == 0) continue;
        row.mse = s.error2 / static_cast<double>(s.count);
        if (s.x2 == 0) continue;
        row.sqnr_db =
            s.error2 == 0 ? std::numeric_limits<double>::infinity() : 0.5 * decibels * math::log(s.x2 / s.error2);
        row.proj = s.xy / s.x2;
        if (s.y2 > 0) row.cosine = s.xy / sqrt(s.x2 * s.y2);
    }
    return rows;
}

std::vector<reports::ExponentRow> Probe::exponent_rows(const std::string& run, std::int64_t step) const {
    std::vector<reports::ExponentRow> rows;
    if (!histograms_) return rows;
    for (const Entry& entry : entries_) {
        const auto add = [&](reports::ExponentBin bin, std::uint64_t count) {
            if (count == 0) return;
            reports::ExponentRow& row = rows.emplace_back(reports::ExponentRow{
                .run = run, .step = step, .site = entry.site, .exponent = bin, .count = count, .kind = bin.kind});
            if (bin.kind == reports::ExponentBin::Kind::number) row.floor_log2 = bin.exponent;
        };
        add({.kind = reports::ExponentBin::Kind::zero}, entry.histogram.zeros);
        for (std::size_t i = 0; i < entry.histogram.bins.size(); ++i) {
            add({.exponent = ExponentHistogram::lowest + static_cast<int>(i)}, entry.histogram.bins[i]);
        }
        add({.kind = reports::ExponentBin::Kind::inf}, entry.histogram.infinities);
        add({.kind = reports::ExponentBin::Kind::nan}, entry.histogram.nans);
    }
    return rows;
}

}  // namespace macheps::training
