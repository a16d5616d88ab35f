// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/cublaslt/cublaslt_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace macheps::evidence::cublaslt {

const char* Api::find_entries(void* library) {
#define MACHEPS_ENTRY(name)                                         \
    name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
    if (name == nullptr) return #name;
    MACHEPS_CUBLASLT_ENTRIES(MACHEPS_ENTRY)
#undef MACHEPS_ENTRY
    return nullptr;
}

FoundApi find_api() {
    std::vector<std::string> paths;
    if (const char* named = std::getenv("MACHEPS_CUBLASLT")) {
        paths.emplace_back(named);
    } else {
        std::vector<std::string> folders{""};
        for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
            if (const char* root = std::getenv(variable)) folders.push_back(std::string(root) + "/lib64/");
        }
        for (const char* folder : {"/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/",
                                   "/usr/lib/x86_64-linux-gnu/", "/usr/local/nvidia/lib64/"}) {
            folders.emplace_back(folder);
        }
        for (const std::string& folder : folders) {
            for (const char* file : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
                paths.push_back(folder + file);
            }
        }
    }
    std::string why;
    for (const std::string& path : paths) {
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            if (why.empty()) why = dlerror();
            continue;
        }
        // The library stays loaded: its device code must outlive every handle, and unloading has no benefit.
        auto api = std::make_shared<Api>();
        api->path = path;
        if (const char* entry = api->find_entries(library)) {
            why = fmt::format("{} does not have {}", path, entry);
            (void)dlclose(library);
            continue;
        }
        return {std::move(api), {}};
    }
    return {nullptr, fmt::format("cannot load cuBLASLt: {}; set MACHEPS_CUBLASLT to its path", why)};
}

void require(const Api& api, cublasStatus_t status, const char* call) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Refused{fmt::format("{}: {} ({})", call, api.cublasLtGetStatusString(status), static_cast<int>(status))};
}

}  // namespace macheps::evidence::cublaslt
