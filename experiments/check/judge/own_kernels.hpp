// SPDX-License-Identifier: Apache-2.0
// Legal kernels that a check itself runs on the inputs, each with a different usual order of summation. Their results
// are not a reference. They show how large the errors of correct kernels are on this data.
#pragma once
#include "experiments/check/bounds/limits.hpp"
#include "experiments/check/truth/fp32_row.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// An order of summation of a legal kernel. If the declaration states an order or a machine, there is no other one.
struct OwnOrder {
    std::string name;
    SumOrder order{};
    bool backwards = false;
    bool fuses = false;       ///< uses fused multiply-adds in a matrix product
    std::int64_t slices = 1;  ///< number of slices of k; the sum of each is rounded to the declared format, then added
};

class OwnKernels {
  public:
    /// `problem` must outlive the object.
    explicit OwnKernels(const Problem& problem);

    const std::vector<OwnOrder>& orders() const { return orders_; }
    /// Returns the number of terms of one sum: k for a matrix product, otherwise the number of elements of a row. If
    /// all rows are reduced to one output, returns the number of all elements.
    std::int64_t terms() const;
    /// Returns true if the outputs of a row are computed together.
    bool makes_rows() const;

    /// Calls observe(order, value) for each order, where `order` is an index into orders() and `value` is the value of
    /// output `i` before the final rounding.
    template <class Observe>
    void output(std::int64_t i, Observe observe) {
        make(i);
        for (std::size_t w = 0; w < orders_.size(); ++w) observe(w, static_cast<double>(made_[w][place_]));
    }

  private:
    void make(std::int64_t output);
    void make_row(std::int64_t row);
    void make_reduced();
    void make_products(std::int64_t row, std::int64_t column);
    void make_machine_row(std::int64_t row);

    const Problem& problem_;
    Listing listing_;
    Fp32Row list_;
    std::vector<OwnOrder> orders_{};
    std::vector<std::vector<float>> made_{};  ///< for each order: row made_row_ or only its output in made_column_
    std::int64_t made_row_ = -1, made_column_ = -1;
    std::size_t place_ = 0;
    std::vector<float> b_{};  ///< matrix number matrix_ of b, as float; used only to emulate a machine
    std::int64_t matrix_ = -1;
};

}  // namespace macheps::check
