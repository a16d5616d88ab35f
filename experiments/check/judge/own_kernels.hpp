// SPDX-License-Identifier: Apache-2.0
// Legal kernels that a check runs on its inputs, each with another usual order of summation. They are not a reference.
// They show how the errors of correct kernels behave on this data.
#pragma once
#include "experiments/check/bounds/limits.hpp"
#include "experiments/check/truth/fp32_row.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// One order of summation. If an order or a machine is declared, it is the only one.
struct OwnOrder {
    std::string name;
    SumOrder order{};
    bool backwards = false;
    bool fuses = false;  ///< products of a matrix product are not rounded before they are added
    std::int64_t slices =
        1;  ///< chains of neighbouring terms; their sums are rounded to the declared format, then added
};

class OwnKernels {
  public:
    /// `problem` must outlive the object.
    explicit OwnKernels(const Problem& problem);

    const std::vector<OwnOrder>& orders() const { return orders_; }
    /// Returns the number of terms of one output in one order; for a row operation, the number of terms of its row.
    std::int64_t terms() const;
    /// Returns true if the outputs of a row are computed together.
    bool makes_rows() const;

    /// Calls observe(order, value) with the value of output `i` before the last rounding, for each order.
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
    std::vector<std::vector<float>> made_{};  ///< by order: the outputs of `made_row_`, or the one of `made_column_`
    std::int64_t made_row_ = -1, made_column_ = -1;
    std::size_t place_ = 0;
    std::vector<float> b_{};  ///< for a machine's product: the matrix that rows of the same batch share
    std::int64_t matrix_ = -1;
};

}  // namespace macheps::check
