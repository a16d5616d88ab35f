// SPDX-License-Identifier: Apache-2.0
// The entries of cuBLASLt that are used here, looked up at run time, and owners of the objects that they create. Host
// only.
#pragma once
#include <cublasLt.h>

#include <memory>
#include <string>

namespace macheps::evidence::cublaslt {

/// The entries that are used here, looked up by name.
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

    /// Looks up all entries. Returns the name of a missing one, or nullptr.
    const char* find_entries(void* library);
};

struct FoundApi {
    std::shared_ptr<const Api> api;
    std::string missing;
};

/// Loads the library from MACHEPS_CUBLASLT (a path), or else from the loader's or the toolkit's folders.
FoundApi find_api();

/// Exception for a status other than success. Its text becomes the note of a row.
struct Refused {
    std::string what;
};

/// Throws Refused if `status` is not success.
void require(const Api& api, cublasStatus_t status, const char* call);
#define MACHEPS_LT(api, call, ...) require(api, (api).call(__VA_ARGS__), #call)

/// Owner of an object of the library, with the entry that destroys it.
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
