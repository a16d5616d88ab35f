// SPDX-License-Identifier: Apache-2.0
// The numbers of an array of a check. They are either decoded and held, or decoded from the file's codes at every
// access.
#pragma once
#include "core/codec.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace macheps::check {

/// Iterates over anything with an operator[] that returns a value.
template <class Sequence>
class IndexIterator {
  public:
    using value_type = typename Sequence::value_type;
    using difference_type = std::ptrdiff_t;
    using reference = value_type;
    using pointer = void;
    using iterator_category = std::random_access_iterator_tag;

    IndexIterator() = default;
    IndexIterator(const Sequence* sequence, std::size_t at) : sequence_(sequence), at_(at) {}
    value_type operator*() const { return (*sequence_)[at_]; }
    value_type operator[](difference_type by) const { return *(*this + by); }
    IndexIterator& operator++() { return ++at_, *this; }
    IndexIterator operator++(int) { return {sequence_, at_++}; }
    IndexIterator& operator--() { return --at_, *this; }
    IndexIterator operator--(int) { return {sequence_, at_--}; }
    IndexIterator& operator+=(difference_type by) { return at_ += static_cast<std::size_t>(by), *this; }
    IndexIterator& operator-=(difference_type by) { return at_ -= static_cast<std::size_t>(by), *this; }
    friend IndexIterator operator+(IndexIterator x, difference_type by) { return x += by; }
    friend IndexIterator operator+(difference_type by, IndexIterator x) { return x += by; }
    friend IndexIterator operator-(IndexIterator x, difference_type by) { return x -= by; }
    friend difference_type operator-(const IndexIterator& x, const IndexIterator& y) {
        return static_cast<difference_type>(x.at_) - static_cast<difference_type>(y.at_);
    }
    friend bool operator==(const IndexIterator& x, const IndexIterator& y) { return x.at_ == y.at_; }
    friend auto operator<=>(const IndexIterator& x, const IndexIterator& y) { return x.at_ <=> y.at_; }

  private:
    const Sequence* sequence_ = nullptr;
    std::size_t at_ = 0;
};

class Numbers {
  public:
    using value_type = double;

    Numbers() = default;
    Numbers(std::vector<double> values) : held_(std::move(values)) {}
    Numbers(std::initializer_list<double> values) : held_(values) {}
    /// Returns the numbers of an array without copying them. The array must outlive the result. Errors: throws Error as
    /// values_of() does.
    static Numbers in_place(const files::StoredArray& array, const Format& format);
    /// Returns true if in_place() supports the format: an element has at most 32 bits, and every bit pattern of an
    /// element is a valid code, so that no element has to be tested.
    static bool fits_in_place(const Format& format) { return format.bits >= 8 && format.bits + format.padding <= 32; }

    double operator[](std::size_t i) const { return array_ == nullptr ? held_[i] : read(i); }
    std::size_t size() const { return array_ == nullptr ? held_.size() : array_->count(); }
    bool empty() const { return size() == 0; }
    double front() const { return (*this)[0]; }
    IndexIterator<Numbers> begin() const { return {this, 0}; }
    IndexIterator<Numbers> end() const { return {this, size()}; }
    operator std::vector<double>() const { return {begin(), end()}; }

    /// Returns the numbers as a vector that the caller may change. If they are read in place, decodes them into this
    /// vector first.
    std::vector<double>& held();
    /// Rotates the numbers so that element `by` becomes the first one, as std::rotate does.
    void rotate(std::size_t by);
    /// Sets all numbers whose magnitude is below `least` to zero.
    void flush_below(double least);

  private:
    double read(std::size_t i) const {
        i += shift_;
        if (i >= size()) i -= size();
        std::uint32_t code = 0;
        std::memcpy(&code, array_->bytes.data() + i * array_->width, array_->width);
        const double x = table_ == nullptr ? decode64(format_, code) : (*table_)[code];
        return std::fabs(x) < flushed_below_ ? 0 : x;
    }

    std::vector<double> held_{};
    const files::StoredArray* array_ = nullptr;  ///< null: the numbers are held
    Format format_{};
    std::shared_ptr<const std::vector<double>> table_{};  ///< values by code, for codes of up to 16 bits
    std::size_t shift_ = 0;
    double flushed_below_ = 0;
};

/// A view of a sequence of numbers. The sequence must outlive the view.
class NumberView {
  public:
    using value_type = double;

    NumberView() = default;
    NumberView(const std::vector<double>& values) : plain_(values.data()), size_(values.size()) {}
    NumberView(std::span<const double> values) : plain_(values.data()), size_(values.size()) {}
    NumberView(std::span<double> values) : plain_(values.data()), size_(values.size()) {}
    template <class Sequence>
    requires requires(const Sequence& s) {
        typename Sequence::value_type;
        s.begin() + 1;
        s[std::size_t{}];
    }
    NumberView(const Sequence& values)
        : object_(&values),
          read_([](const void* object, std::size_t i) {
              return static_cast<double>((*static_cast<const Sequence*>(object))[i]);
          }),
          size_(values.size()) {}

    double operator[](std::size_t i) const { return plain_ != nullptr ? plain_[i] : read_(object_, i); }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    IndexIterator<NumberView> begin() const { return {this, 0}; }
    IndexIterator<NumberView> end() const { return {this, size_}; }

  private:
    const double* plain_ = nullptr;
    const void* object_ = nullptr;
    double (*read_)(const void* object, std::size_t i) = nullptr;
    std::size_t size_ = 0;
};

}  // namespace macheps::check
