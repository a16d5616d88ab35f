// SPDX-License-Identifier: Apache-2.0
// Tensors. A Tensor owns its memory, and a TensorView refers to the memory of another object. Both are row-major and
// contiguous. The memory may be on a device.
#pragma once
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

namespace macheps {

/// The sizes of up to four dimensions, outermost first.
class Shape {
  public:
    static constexpr int max_rank = 4;

    constexpr Shape() = default;
    constexpr Shape(std::initializer_list<std::int64_t> sizes) {
        for (const auto size : sizes) {
            assert(rank_ < max_rank && size >= 0);
            size_[rank_++] = size;
        }
    }

    constexpr int rank() const { return rank_; }
    constexpr std::int64_t operator[](int i) const { return size_[i]; }
    constexpr std::int64_t count() const {
        std::int64_t n = 1;
        for (int i = 0; i < rank_; ++i) n *= size_[i];
        return n;
    }
    /// Returns the innermost size, the length of a row.
    constexpr std::int64_t columns() const { return rank_ == 0 ? 1 : size_[rank_ - 1]; }
    constexpr std::int64_t rows() const { return columns() == 0 ? 0 : count() / columns(); }
    constexpr bool operator==(const Shape&) const = default;

  private:
    std::array<std::int64_t, max_rank> size_{};
    int rank_ = 0;
};

template <class T>
struct TensorView {
    T* data = nullptr;
    Shape shape{};

    constexpr std::int64_t count() const { return shape.count(); }
    constexpr std::int64_t rows() const { return shape.rows(); }
    constexpr std::int64_t columns() const { return shape.columns(); }
    /// Converts a view of mutable elements to a view of constant elements. The operator is a template, because nvcc
    /// would warn about an ordinary operator: in a view of constant elements, it would convert to the view's own type.
    template <class U>
    requires(!std::is_const_v<T> && std::is_same_v<U, const T>) constexpr operator TensorView<U>() const {
        return {data, shape};
    }
};

using View = TensorView<float>;
using ConstView = TensorView<const float>;
using TokenView = TensorView<const std::int32_t>;

/// A tensor that owns its memory. The deleter of the shared_ptr frees the memory.
template <class T>
class BasicTensor {
  public:
    BasicTensor() = default;
    BasicTensor(std::shared_ptr<void> memory, Shape shape) : memory_(std::move(memory)), shape_(shape) {}

    T* data() const { return static_cast<T*>(memory_.get()); }
    const Shape& shape() const { return shape_; }
    std::int64_t count() const { return shape_.count(); }
    bool empty() const { return memory_ == nullptr; }
    TensorView<T> view() const { return {data(), shape_}; }
    operator TensorView<T>() const { return view(); }
    operator TensorView<const T>() const { return view(); }

  private:
    std::shared_ptr<void> memory_;
    Shape shape_;
};

using Tensor = BasicTensor<float>;
using TokenTensor = BasicTensor<std::int32_t>;

}  // namespace macheps
