// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/panels.hpp"

#include <algorithm>
#include <atomic>
#include <tuple>

namespace macheps::check {

namespace {

std::uint64_t next_id() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

/// A panel that this thread read recently. Each thread remembers two of them, because most reads are close to the
/// previous one.
struct Recent {
    std::uint64_t id = 0;
    std::size_t first = 0, last = 0;
    std::shared_ptr<const Panel> panel{};

    bool has(std::uint64_t of, std::size_t i) const { return id == of && i >= first && i < last; }
};
thread_local std::array<Recent, 2> recent;

}  // namespace

void Panel::resize(std::size_t inner) {
    const auto size = static_cast<std::size_t>(last - first);
    for (auto* each : {&exact, &low, &before, &certain, &probable, &deviation}) each->resize(size);
    overflow.resize(size);
    if (inner > 0) rounded_inside.resize(size);
    inner_kinds.assign(inner, std::vector<std::uint32_t>(size));
}

Panels::Panels(std::int64_t size, std::int64_t outputs, std::size_t inner, std::int64_t bytes,
               std::function<void(Panel&)> compute)
    : size_(size),
      outputs_(outputs),
      inner_(inner),
      max_kept_(static_cast<std::size_t>(
          std::max(2.0, static_cast<double>(bytes) / (static_cast<double>(outputs) * Panel::bytes_each(inner))))),
      compute_(std::move(compute)),
      id_(next_id()) {}

const Panel& Panels::at(std::size_t i) const {
    if (recent[0].has(id_, i)) return *recent[0].panel;
    std::swap(recent[0], recent[1]);
    if (recent[0].has(id_, i)) return *recent[0].panel;
    std::shared_ptr<const Panel> found = panel(static_cast<std::int64_t>(i) / outputs_);
    recent[0] = {id_, static_cast<std::size_t>(found->first), static_cast<std::size_t>(found->last), std::move(found)};
    return *recent[0].panel;
}

std::shared_ptr<const Panel> Panels::panel(std::int64_t number) const {
    {
        const std::lock_guard lock(mutex_);
        const auto known = kept_.find(number);
        if (known != kept_.end()) {
            order_.splice(order_.begin(), order_, known->second.place);
            return known->second.panel;
        }
    }
    auto made =
        std::make_shared<Panel>(Panel{.first = number * outputs_, .last = std::min(size_, (number + 1) * outputs_)});
    made->resize(inner_);
    compute_(*made);
    for (auto each = replaced_.lower_bound(made->first); each != replaced_.end() && each->first < made->last; ++each) {
        const auto at = static_cast<std::size_t>(each->first - made->first);
        std::tie(made->exact[at], made->low[at]) = each->second;
    }
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = kept_.try_emplace(number);
    if (!is_new) return known->second.panel;  // another thread has computed this panel in the meantime
    order_.push_front(number);
    known->second = {made, order_.begin()};
    while (kept_.size() > max_kept_) {
        kept_.erase(order_.back());
        order_.pop_back();
    }
    return made;
}

void Panels::replace(std::size_t i, double high, double low) {
    const auto place = static_cast<std::int64_t>(i);
    replaced_[place] = {high, low};
    id_ = next_id();
    const auto known = kept_.find(place / outputs_);
    if (known == kept_.end()) return;
    order_.erase(known->second.place);
    kept_.erase(known);
}

}  // namespace macheps::check
