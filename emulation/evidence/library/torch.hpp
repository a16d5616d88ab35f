// SPDX-License-Identifier: Apache-2.0
// Adapts PyTorch's matrix products on a GPU (`torch.matmul`, `torch._scaled_mm`) to the interface MatmulLibrary.
// PyTorch chooses the kernels, and runs in a separate process (emulation/evidence/library/child.hpp). Host only.
#pragma once
#include "emulation/evidence/library/probes.hpp"

#include <optional>
#include <string_view>

namespace macheps::evidence {

/// A kind of matrix product that PyTorch computes.
struct TorchProduct {
    std::string_view name{};  ///< in `macheps verify --library`: `torch.cuda.scaled.row.fast`
    LibraryProblem kind{};    ///< types and scaling, without a shape
};

/// Returns the products that `macheps verify --library` supports.
std::vector<TorchProduct> torch_products();
/// Returns the product with that name, or nullopt.
std::optional<TorchProduct> find_torch_product(std::string_view name);

/// Returns the problems whose results are compared with rules.
std::vector<LibraryProblem> torch_problems(const TorchProduct& product);
/// Returns the problem for which the order of summation is found. Its k is so small that the format of the output can
/// represent every number of terms.
LibraryProblem torch_reveal_problem(const TorchProduct& product);

/// Loads PyTorch for this product. Returns the reason if PyTorch is missing.
LoadedLibrary load_torch(const TorchProduct& product);

}  // namespace macheps::evidence
