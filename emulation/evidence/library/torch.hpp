// SPDX-License-Identifier: Apache-2.0
// PyTorch's products on a GPU as a library: `torch.matmul` and `torch._scaled_mm` choose their kernels themselves. Host only; PyTorch
// runs in a separate process (emulation/evidence/library/child.hpp).
#pragma once
#include "emulation/evidence/library/probes.hpp"

#include <optional>
#include <string_view>

namespace macheps::evidence {

/// A product of PyTorch: what `macheps verify --library` calls it, and the problems that are asked.
struct TorchProduct {
    std::string_view name{};  ///< `torch.cuda.scaled.row.fast`
    LibraryProblem kind{};    ///< types and scaling, without a shape
};

/// The products that --library knows.
std::vector<TorchProduct> torch_products();
/// The product of that name, or nothing.
std::optional<TorchProduct> find_torch_product(std::string_view name);

/// The problems of a product, and the one whose order of summation is revealed: small enough for its output's format.
std::vector<LibraryProblem> torch_problems(const TorchProduct& product);
LibraryProblem torch_reveal_problem(const TorchProduct& product);

/// PyTorch with this product, or why there is none.
LoadedLibrary load_torch(const TorchProduct& product);

}  // namespace macheps::evidence
