// SPDX-License-Identifier: Apache-2.0
// Prints Float<F> with fmt and iostreams. Host only.
#pragma once
#include "core/text/print.hpp"
#include "core/types/float.hpp"

#include <fmt/format.h>

#include <ostream>

namespace macheps {

template <Format F>
std::ostream& operator<<(std::ostream& out, Float<F> x) {
    return out << shortest_decimal(F, x.bits());
}

}  // namespace macheps

namespace fmt {

/// `{}` prints the shortest decimal that reads back as the number (0.1 in fp16 is `0.1`). With a format specification,
/// the exact value is printed like a double: `{:.4e}`, `{:a}`, `{:>12.3f}`.
template <macheps::Format F>
struct formatter<macheps::Float<F>> : formatter<double> {
    constexpr auto parse(format_parse_context& context) {
        plain_ = context.begin() == context.end() || *context.begin() == '}';
        return formatter<double>::parse(context);
    }
    template <class Context>
    auto format(const macheps::Float<F>& x, Context& context) const {
        if (plain_) return fmt::format_to(context.out(), "{}", macheps::shortest_decimal(F, x.bits()));
        return formatter<double>::format(static_cast<double>(x), context);
    }

  private:
    bool plain_ = true;
};

}  // namespace fmt
