// SPDX-License-Identifier: Apache-2.0
// PyTorch's products on a GPU as a library: `torch.matmul` and `torch._scaled_mm` choose their kernels themselves. Host
// only; PyTorch runs in a separate process (emulation/evidence/library/child.hpp).
#pragma once
#include "emulation/evidence/library/probes.hpp"

#include <optional>
#include <string_view>

namespace macheps::evidence {

/// A product of PyTorch: its name in `macheps verify --library`, and the kind of its problems.
struct TorchProduct {
    std::string_view name{};  ///< `torch.cuda.scaled.row.fast`
    LibraryProblem kind{};    ///< types and scaling, without a shape
};

/// Returns the products that --library knows.
std::vector<TorchProduct> torch_products();
/// Returns the product of that name, or nothing.
std::optional<TorchProduct> find_torch_product(std::string_view name);

/// Returns the problems of a product. torch_reveal_problem() returns the problem whose order of summation is revealed;
/// it is small enough for the output's format.
std::vector<LibraryProblem> torch_problems(const TorchProduct& product);
LibraryProblem torch_reveal_problem(const TorchProduct& product);

/// Returns PyTorch with this product, or the reason why it is missing.
LoadedLibrary load_torch(const TorchProduct& product);

}  // namespace macheps::evidence
