// SPDX-License-Identifier: Apache-2.0
// Probe: records figures about the casts of one optimiser step, for each site.
#pragma once
#include "experiments/training/model/rounder.hpp"
#include "experiments/training/run/watch/cast_fidelity.hpp"
#include "experiments/training/run/watch/scale_exponents.hpp"
#include "reports/rows/event.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace macheps::training {

class Probe final : public Observer {
  public:
    explicit Probe(Backend& backend) : backend_(backend) {}

    /// Begins a step and forgets the records of the previous step.
    void begin(bool sampling, bool histograms);
    bool sampling() const override { return sampling_; }
    void on_cast(const Slot& slot, const Cast& cast, const Tally& tally, const Decoding& decoding, ConstView x,
                 ConstView y) override;

    /// Returns the totals over every cast of the step.
    const Tally& total() const { return total_; }
    /// Returns the first slot, in the order of execution, whose cast had a non-finite input or result. The name is
    /// empty if all values were finite.
    const std::string& overflow_site() const { return overflow_site_; }

    /// Returns the rows of a sampled step, in the order of first execution. The column `site` holds the full name of
    /// the slot.
    std::vector<reports::SiteRow> site_rows(const std::string& run, const std::string& policy, std::int64_t seed,
                                            std::int64_t step) const;
    std::vector<reports::ExponentRow> exponent_rows(const std::string& run, std::int64_t step) const;

  private:
    struct Entry {
        std::string site;
        CastKind kind;
        Tally tally{};
        ErrorSums sums{};
        CastFidelity fidelity{};
        ExponentHistogram histogram{};
        ScaleExponents scales{};
        float decode_scale_min = 1, decode_scale_max = 1;
        std::optional<std::int64_t> scale_age{}, scale_frozen_steps{};
        bool has_values = false;  ///< the values of at least one cast were read
    };
    void read_scales(Entry& entry, const Decoding& decoding);
    void read_values(Entry& entry, const Cast& cast, const Decoding& decoding, ConstView x, ConstView y);

    Backend& backend_;
    bool sampling_ = false, histograms_ = false;
    Tally total_;
    std::string overflow_site_;
    std::vector<Entry> entries_;
    std::map<std::string, std::size_t, std::less<>> index_;
    std::vector<float> x_, y_, codes_;  ///< values of the current cast, on the host
};

}  // namespace macheps::training
