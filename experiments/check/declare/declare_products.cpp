// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/declare/declare_products.hpp"

#include "core/format_table.hpp"
#include "experiments/check/declare/operations.hpp"

#include <fmt/format.h>

#include <charconv>

namespace macheps::check {

namespace {

using Takes = DeclareKey::Takes;
using Text = const std::string&;
using Words = std::vector<std::string_view>;

/// A key whose value is one of a few words, and the member of Declaration that holds the word.
struct WordKey {
    std::string_view name;
    std::string Declaration::*field;
    const char* help;
    Words (*words)();
};
const WordKey word_keys[] = {
    {"activation", &Declaration::activation, "Activation function, applied after bias and c and before the residual",
     [] {
         return Words{"none", "relu", "gelu", "gelu_tanh", "silu"};
     }},
    {"a_layout", &Declaration::a_layout, "Layout of the array a: mk is [m,k], km its transpose",
     [] {
         return Words{"mk", "km"};
     }},
    {"b_layout", &Declaration::b_layout, "Layout of the array b: kn is [k,n], nk its transpose",
     [] {
         return Words{"kn", "nk"};
     }},
    {"scale_layout", &Declaration::scale_layout, "How the scales of blocks are stored",
     [] {
         return Words{"linear", "cublas128x4"};
     }},
    {"operands", &Declaration::operands,
     "Conversion of fp32 operands before the multiplication. any: one of the other values, the same for all operands",
     [] {
         Words words;
         for (const OperandConversion& row : operand_conversions) words.push_back(row.name);
         words.push_back("any");
         return words;
     }},
};
const WordKey& row_of(const DeclareKey& key) {
    const WordKey* row = word_keys;
    while (row->name != key.name) ++row;
    return *row;
}

/// Sets the tile from rows and columns such as `128x256`.
void set_tile(Declaration& d, const DeclareKey&, Text text, Text where) {
    const std::size_t x = text.find('x');
    const auto number = [&](std::size_t from, std::size_t to) {
        std::int64_t size = 0;
        const auto [end, error] = std::from_chars(text.data() + from, text.data() + to, size);
        return error == std::errc{} && end == text.data() + to && size >= 1 && size <= 1 << 20 ? size : 0;
    };
    const std::int64_t rows = x == std::string::npos ? 0 : number(0, x),
                       columns = x == std::string::npos ? 0 : number(x + 1, text.size());
    if (rows == 0 || columns == 0)
        throw Error({.what = "'" + text + "' is not a valid tile",
                     .where = where,
                     .fix = "use rows and columns, such as 128x256",
                     .exit = Exit::usage});
    d.tile_rows = rows;
    d.tile_columns = columns;
}

}  // namespace

bool of_products(const Operation& operation, const DeclareKey&) { return operation.is_product; }

std::string_view machine_name_of(const Declaration& d) {
    return d.machine_name.empty() ? std::string_view("sliced") : std::string_view(d.machine_name);
}

const OperandConversion* find_operand_conversion(std::string_view name) {
    for (const OperandConversion& row : operand_conversions) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

std::vector<DeclareKey> product_keys() {
    std::vector<DeclareKey> keys{
        {"need_bits", Takes::number, "B",
         "Fail if the declared machine cannot guarantee B bits: the error bound of each product must be at most 2^-B "
         "times its sum of |a b|",
         nullptr, of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.need_bits = declared_number(text, where, 0, 64);
         },
         [](const Declaration& d, const DeclareKey&) { return d.need_bits ? Json(*d.need_bits) : Json(); }},
        {"slices", Takes::number, "N",
         "Number of slices into which k is split. Default: as the machine specifies; sliced allows up to 4", nullptr,
         of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.slices = declared_whole_number(text, where, 1, 65536);
         },
         [](const Declaration& d, const DeclareKey&) { return d.slices > 0 ? Json(d.slices) : Json(); }},
        {"partials", Takes::text, "FORMAT",
         "Format to which the sum of each slice is rounded before the sums are added. Default: not rounded", nullptr,
         of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.partials = format_named(text, where, Exit::usage);
         },
         [](const Declaration& d, const DeclareKey&) {
             return d.partials ? Json(std::string(format_name(*d.partials))) : Json();
         }},
        {"tile", Takes::text, "ROWSxCOLUMNS",
         "Tile of outputs that the kernel computes together. The errors of each such tile are also judged together. "
         "Default: only tiles of 16x16 are judged",
         nullptr, of_products, set_tile,
         [](const Declaration& d, const DeclareKey&) {
             return d.tile_rows > 0 ? Json(fmt::format("{}x{}", d.tile_rows, d.tile_columns)) : Json();
         }},
        {"atomics", Takes::flag, "",
         "The kernel adds slices with fp32 atomics, in any order, which may flush subnormal numbers", nullptr,
         of_products, [](Declaration& d, const DeclareKey&, Text text, Text) { d.has_atomics = text == "true"; },
         [](const Declaration& d, const DeclareKey&) { return Json(d.has_atomics); }},
    };
    for (const WordKey& row : word_keys) {
        keys.push_back({std::string(row.name), Takes::text, "WORD", row.help, row.words, of_products,
                        [](Declaration& d, const DeclareKey& key, Text text, Text) { d.*row_of(key).field = text; },
                        [](const Declaration& d, const DeclareKey& key) { return Json(d.*row_of(key).field); }});
    }
    return keys;
}

}  // namespace macheps::check
