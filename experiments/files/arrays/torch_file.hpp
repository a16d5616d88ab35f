// SPDX-License-Identifier: Apache-2.0
// Reads files that torch.save of PyTorch 1.6 or later wrote (.pt, .pth). Such a file is a zip archive of storages, and
// a pickle that maps each tensor to a part of a storage. Source: torch/serialization.py, torch/_utils.py (PyTorch
// 2.15).
#pragma once
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/zip.hpp"

#include <string>
#include <vector>

namespace macheps::files {

/// Returns whether an archive was written by torch.save.
bool is_torch_file(const ZipArchive& archive);

/// Returns the tensors of a file. If the file contains a single tensor, its name is `name`. If the file contains a
/// dictionary, its keys are the names. Tensors in nested dictionaries and lists have joined names: `inputs.a`,
/// `inputs.0`. Values other than tensors are skipped. Views and strided tensors are returned in row-major order. Only
/// storages of wanted tensors are unpacked. Errors: throws Error (bad input) for a damaged file, and for a pickle with
/// unknown names or instructions, because they may be code.
std::vector<StoredArray> torch_arrays(ZipArchive& archive, const std::string& name, const std::string& where,
                                      const Wanted& wanted);

}  // namespace macheps::files
