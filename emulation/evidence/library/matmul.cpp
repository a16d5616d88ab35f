// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/matmul.hpp"

#include "core/format_table.hpp"

#include <fmt/format.h>

namespace macheps::evidence {

std::string_view to_string(Reduction reduction) {
    switch (reduction) {
        case Reduction::in_place:
            return "in_place";
        case Reduction::compute_type:
            return "compute_type";
        case Reduction::output_type:
            return "output_type";
        default:
            return "none";
    }
}

std::string LibraryProblem::name() const {
    static constexpr std::string_view scalings[] = {"", ".tensor", ".outer", ".blocks1x1", ".blocks1x2"};
    std::string text = fmt::format("cublasLt.{}.{}.{}", format_name(a), format_name(b), format_name(out));
    if (accumulator == fp16) text += ".acc16";
    if (whole_words) text += ".words";
    if (fast_accumulation) text += ".fast";
    text += fmt::format(".{}{}.{}x{}x{}", a_by_rows ? 't' : 'n', b_by_columns ? 'n' : 't', m, n, k);
    text += scalings[static_cast<std::size_t>(scaling)];
    if (slices > 0) text += fmt::format(".split{}.{}", slices, to_string(reduction));
    return text;
}

std::string LibraryAlgorithm::to_string() const {
    if (!kernel.empty()) return kernel;
    std::string text = fmt::format("algo {} tile {} stages {} splitk {}", id, tile, stages, slices);
    if (slices > 1 || reduction != Reduction::none) text += fmt::format(" {}", evidence::to_string(reduction));
    if (inner_shape != 0) text += fmt::format(" inner {}", inner_shape);
    if (cluster != 0) text += fmt::format(" cluster {}", cluster);
    if (swizzle != 0) text += fmt::format(" swizzle {}", swizzle);
    if (custom != 0) text += fmt::format(" custom {}", custom);
    if (implementation != 0) {
        const bool plain = (implementation & 0xff) == 1;  // CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA
        text += fmt::format(" {} 0x{:x}", plain ? "fma" : "tensor", implementation);
    }
    return text;
}

}  // namespace macheps::evidence
