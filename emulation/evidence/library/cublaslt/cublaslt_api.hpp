// SPDX-License-Identifier: Apache-2.0
// Loads cuBLASLt at run time and looks up the functions that the probes call. Owns the objects that these functions
// create. Host only.
#pragma once
#include <cublasLt.h>

#include <memory>
#include <string>

namespace macheps::evidence::cublaslt {

/// Pointers to the functions of cuBLASLt that the probes call, looked up by name.
struct Api {
#define MACHEPS_CUBLASLT_ENTRIES(ENTRY)         \
    ENTRY(cublasLtCreate)                       \
    ENTRY(cublasLtDestroy)                      \
    ENTRY(cublasLtGetVersion)                   \
    ENTRY(cublasLtGetStatusString)              \
    ENTRY(cublasLtMatmul)                       \
    ENTRY(cublasLtMatmulDescCreate)             \
    ENTRY(cublasLtMatmulDescDestroy)            \
    ENTRY(cublasLtMatmulDescSetAttribute)       \
    ENTRY(cublasLtMatrixLayoutCreate)           \
    ENTRY(cublasLtMatrixLayoutDestroy)          \
    ENTRY(cublasLtMatmulPreferenceCreate)       \
    ENTRY(cublasLtMatmulPreferenceDestroy)      \
    ENTRY(cublasLtMatmulPreferenceSetAttribute) \
    ENTRY(cublasLtMatmulAlgoGetHeuristic)       \
    ENTRY(cublasLtMatmulAlgoGetIds)             \
    ENTRY(cublasLtMatmulAlgoInit)               \
    ENTRY(cublasLtMatmulAlgoCheck)              \
    ENTRY(cublasLtMatmulAlgoCapGetAttribute)    \
    ENTRY(cublasLtMatmulAlgoConfigGetAttribute) \
    ENTRY(cublasLtMatmulAlgoConfigSetAttribute)
#define MACHEPS_ENTRY(name) decltype(&::name) name = nullptr;
    MACHEPS_CUBLASLT_ENTRIES(MACHEPS_ENTRY)
#undef MACHEPS_ENTRY

    std::string path;  ///< where the library was found

    /// Looks up all functions. Returns the name of the first one that is missing, or nullptr.
    const char* find_entries(void* library);
};

struct FoundApi {
    std::shared_ptr<const Api> api;
    std::string missing;
};

/// Loads the library. The environment variable MACHEPS_CUBLASLT gives its path. If it is not set, the folders of the
/// loader and of the CUDA toolkit are searched.
FoundApi find_api();

/// Exception for a call of cuBLASLt that does not succeed. Its text becomes the note of a row.
struct Refused {
    std::string what;
};

/// Throws Refused if `status` is not success.
void require(const Api& api, cublasStatus_t status, const char* call);
#define MACHEPS_LT(api, call, ...) require(api, (api).call(__VA_ARGS__), #call)

/// Owner of a cuBLASLt object. The destructor calls the given function to destroy the object.
template <class T>
class Owned {
  public:
    using Destroy = cublasStatus_t (*)(T);

    explicit Owned(Destroy destroy) : destroy_(destroy) {}
    ~Owned() {
        if (value_ != nullptr) (void)destroy_(value_);
    }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;

    T get() const { return value_; }
    T* out() { return &value_; }

  private:
    T value_ = nullptr;
    Destroy destroy_;
};

}  // namespace macheps::evidence::cublaslt
