// SPDX-License-Identifier: Apache-2.0
// Columns of the limits, with one number for each output. A column is either held in memory, or recomputed when it is
// read. The numbers are the same in both cases. A panel is a range of outputs that are recomputed together. Reading a
// column in order computes each panel once.
#pragma once
#include "experiments/check/truth/nodes.hpp"
#include "experiments/check/truth/numbers.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace macheps::check {

/// The limits of outputs [first, last).
struct Panel {
    std::int64_t first = 0, last = 0;
    std::vector<double> exact{}, low{}, before{}, certain{}, probable{}, deviation{};
    std::vector<Overflowing> overflow{};
    std::vector<double> rounded_inside{};                   ///< empty if no intermediate result is rounded
    std::vector<std::vector<std::uint32_t>> inner_kinds{};  ///< one vector for each intermediate rounding

    /// Returns the number of bytes per output. `inner` is the number of intermediate roundings.
    static double bytes_each(std::size_t inner) {
        return 6 * 8 + 1 + (inner > 0 ? 8 + 4.0 * static_cast<double>(inner) : 0);
    }
    void resize(std::size_t inner);
};

class Panels {
  public:
    /// `compute` fills a panel, on any thread. Each panel has `outputs` outputs; the last one may have fewer. The most
    /// recently used panels are kept: at least two, and at most as many as fit into `bytes`.
    Panels(std::int64_t size, std::int64_t outputs, std::size_t inner, std::int64_t bytes,
           std::function<void(Panel&)> compute);
    Panels(const Panels&) = delete;
    Panels& operator=(const Panels&) = delete;

    std::size_t size() const { return static_cast<std::size_t>(size_); }
    std::int64_t count() const { return (size_ + outputs_ - 1) / outputs_; }
    /// Returns the panel that contains output i. The reference is valid until this thread has asked for two other
    /// panels.
    const Panel& at(std::size_t i) const;
    /// Replaces the exact result of an output. No other thread may read at the same time.
    void replace(std::size_t i, double high, double low);

  private:
    struct Kept {
        std::shared_ptr<const Panel> panel;
        std::list<std::int64_t>::iterator place;
    };
    std::shared_ptr<const Panel> panel(std::int64_t number) const;

    std::int64_t size_, outputs_;
    std::size_t inner_, max_kept_;
    std::function<void(Panel&)> compute_;
    std::map<std::int64_t, std::pair<double, double>> replaced_{};
    std::uint64_t id_;  ///< id of this object and its current contents, unique in the process
    mutable std::mutex mutex_{};
    mutable std::map<std::int64_t, Kept> kept_{};
    mutable std::list<std::int64_t> order_{};  ///< numbers of the kept panels, most recent first
};

template <class T>
class LimitColumn {
  public:
    using value_type = T;

    LimitColumn() = default;
    LimitColumn(std::vector<T> values) : held_(std::move(values)) {}
    /// A function that returns a column of a panel. `number` selects one of several columns, such as the columns of the
    /// intermediate roundings.
    using Of = const std::vector<T>& (*)(const Panel& panel, std::size_t number);
    LimitColumn(std::shared_ptr<Panels> panels, Of of, std::size_t number = 0)
        : panels_(std::move(panels)), of_(of), number_(number) {}

    T operator[](std::size_t i) const {
        if (panels_ == nullptr) return held_[i];
        const Panel& panel = panels_->at(i);
        return of_(panel, number_)[i - static_cast<std::size_t>(panel.first)];
    }
    std::size_t size() const { return panels_ == nullptr ? held_.size() : panels_->size(); }
    bool empty() const { return size() == 0; }
    void clear() { *this = LimitColumn{}; }
    IndexIterator<LimitColumn> begin() const { return {this, 0}; }
    IndexIterator<LimitColumn> end() const { return {this, size()}; }
    operator std::vector<T>() const { return panels_ == nullptr ? held_ : std::vector<T>(begin(), end()); }
    /// Returns the values for modification. Precondition: the column holds them.
    std::vector<T>& held() { return held_; }

  private:
    std::vector<T> held_{};
    std::shared_ptr<Panels> panels_{};  ///< null: the values are in held_
    Of of_ = nullptr;
    std::size_t number_ = 0;
};

}  // namespace macheps::check
