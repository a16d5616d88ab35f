// SPDX-License-Identifier: Apache-2.0
// Computes narrow matrix products on an emulated machine. narrow_product.hpp combines them into a wide product. For
// integer matrices, counts the elements that differ from the exact integers.
#pragma once
#include "experiments/study/product/narrow_product.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace macheps::study {

/// Computes the matrix product a b on the machine. The operands hold numbers of `format` and have the shapes and layout
/// of the wide operands `x`.
class MachineProduct {
  public:
    MachineProduct(Backend& backend, const MatmulRule& rule, const WideOperands& x, const Format& format)
        : backend_(backend),
          rule_(rule),
          x_(x),
          format_(format),
          a_(backend.empty({x.m, x.k})),
          b_(backend.empty({x.k, x.n})),
          out_(backend.empty({x.m, x.n})),
          host_(static_cast<std::size_t>(x.m * x.n)) {}

    const std::vector<float>& operator()(const std::vector<float>& a, const std::vector<float>& b) {
        backend_.upload(a, a_);
        backend_.upload(b, b_);
        Matmul args{.m = x_.m, .n = x_.n, .k = x_.k, .rule = rule_};
        args.a = {.data = a_.data(), .ld = x_.k, .format = format_};
        args.b = {.data = b_.data(), .ld = x_.n, .format = format_};
        args.out = out_.data();
        args.ld_out = x_.n;
        backend_.matmul(args);
        backend_.download(out_, host_);
        return host_;
    }

  private:
    Backend& backend_;
    const MatmulRule& rule_;
    const WideOperands& x_;
    Format format_;
    Tensor a_, b_, out_;
    std::vector<float> host_;
};

/// Computes the product a b of integer matrices on the machine or on the integer unit (exact_int32). Compares each
/// element with the exact sum in 64-bit integers.
class IntegerProduct {
  public:
    IntegerProduct(Backend& backend, const MatmulRule& rule, const WideOperands& x, const Format& format);

    const std::vector<double>& operator()(const std::vector<float>& a, const std::vector<float>& b);
    /// Returns the number of elements, over all products so far, that differ from the exact integers.
    std::uint64_t inexact() const { return inexact_; }

  private:
    const WideOperands& x_;
    std::optional<MachineProduct> machine_{};  ///< absent for the integer unit
    std::vector<double> got_;
    std::vector<std::int64_t> sums_;  ///< exact sums of one row
    std::uint64_t inexact_ = 0;
};

}  // namespace macheps::study
