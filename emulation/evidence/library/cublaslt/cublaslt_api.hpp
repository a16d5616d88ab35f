// SPDX-License-Identifier: Apache-2.0
// The entries of cuBLASLt that are used here, found when they are wanted, and owners of what they make. Host only.
#pragma once
#include <cublasLt.h>

#include <memory>
#include <string>

namespace macheps::evidence::cublaslt {

/// The entries that are used here, found by name.
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

    std::string path;  ///< where it was found

    /// The name of a missing entry, or nullptr.
    const char* find_entries(void* library);
};

struct FoundApi {
    std::shared_ptr<const Api> api;
    std::string missing;
};

/// The library of MACHEPS_CUBLASLT (a path), or else that of the loader's or the toolkit's folders.
FoundApi find_api();

/// A status that is no success, on its way to a row's note.
struct Refused {
    std::string what;
};

/// Throws Refused.
void require(const Api& api, cublasStatus_t status, const char* call);
#define MACHEPS_LT(api, call, ...) require(api, (api).call(__VA_ARGS__), #call)

/// Owns what the library made, with the entry that destroys it.
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
