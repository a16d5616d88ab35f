// SPDX-License-Identifier: Apache-2.0
// Tensors as torch.save writes them since PyTorch 1.6 (.pt, .pth): a zip archive of storages, and a pickle that maps
// each tensor to a part of a storage. Source: torch/serialization.py, torch/_utils.py (PyTorch 2.15).
#pragma once
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/zip.hpp"

#include <string>
#include <vector>

namespace macheps::files {

/// Returns whether an archive was written by torch.save.
bool is_torch_file(const ZipArchive& archive);

/// Returns one tensor, which is then called `name`, or the tensors of a dictionary by its keys. Tensors of dictionaries
/// and lists in it have joined names: `inputs.a`, `inputs.0`. Values other than tensors are skipped. Views and strided
/// tensors are returned in row-major order. Only storages of wanted tensors are unpacked. Errors: throws Error (bad
/// input) for any other content, because it may be code.
std::vector<StoredArray> torch_arrays(ZipArchive& archive, const std::string& name, const std::string& where,
                                      const Wanted& wanted);

}  // namespace macheps::files
