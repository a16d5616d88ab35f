// SPDX-License-Identifier: Apache-2.0
// Columns of a published table, which says which recipe reveals which wrong kernel. A column is a recipe and the format
// of the output.
#pragma once

namespace macheps::test {

struct Column {
    const char *recipe, *out;
};
inline constexpr Column columns[] = {{"normal", "fp32"},   {"normal", "bf16"},      {"positive", "fp32"},
                                     {"integers", "fp32"}, {"resolution", "fp32"},  {"ties", "bf16"},
                                     {"one-hot", "fp32"},  {"tail-1", "fp32"},      {"cancel", "fp32"},
                                     {"wide", "fp32"},     {"subnormal-a", "fp32"}, {"specials", "fp32"}};

}  // namespace macheps::test
