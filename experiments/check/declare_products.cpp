// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/declare_products.hpp"

namespace macheps::check {

namespace {

using Takes = DeclareKey::Takes;
using Text = const std::string&;

bool of_products(const Operation& operation, const DeclareKey&) { return operation.is_product; }

}  // namespace

std::vector<DeclareKey> product_keys() {
    return {
        {"bits", Takes::flag, "", "Demand the machine's own bits", nullptr, of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text) { d.bits = text == "true"; },
         [](const Declaration& d, const DeclareKey&) { return Json(d.bits); }},
        {"need_bits", Takes::number, "B",
         "Of the design: every product's bound must be at most 2^-B of its sum of |a b|", nullptr, of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.need_bits = declared_number(text, where, 0, 64);
         },
         [](const Declaration& d, const DeclareKey&) { return d.need_bits ? Json(*d.need_bits) : Json(); }},
    };
}

}  // namespace macheps::check
