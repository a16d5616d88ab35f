// SPDX-License-Identifier: Apache-2.0
// A fake cuBLASLt that needs no device. Tests load it to check the choice of algorithms. An algorithm may divide k into
// slices (split-K) and add the sums of the slices afterwards, which is called joining. The fake has three algorithms:
//   algorithm 3: does not support slices;
//   algorithm 5: joins slices in fp32 or in the output's type, only on tile 20 with stages 4;
//   algorithm 8: joins slices in the output, on any tile.
// The heuristic returns algorithm 3, then algorithm 5 on tile 20. fp8 operands are supported only if a is transposed.
#include <cublasLt.h>

#include <cstdint>
#include <cstring>

namespace {

enum Word { id, tile, slices, scheme, stages };

struct Described {
    cublasOperation_t a = CUBLAS_OP_N;
    bool is_fp8 = false;
};
Described described;  // the tests use one descriptor at a time

cublasLtMatmulAlgo_t made(std::uint64_t number, std::uint64_t on_tile, std::uint64_t with_stages) {
    cublasLtMatmulAlgo_t algo{};
    algo.data[id] = number;
    algo.data[tile] = on_tile;
    algo.data[slices] = 1;
    algo.data[stages] = with_stages;
    return algo;
}

bool runs(const cublasLtMatmulAlgo_t& x) {
    if (x.data[slices] <= 1) return true;
    if (x.data[id] == 5) {
        const bool joins = x.data[scheme] == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
                           x.data[scheme] == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
        return joins && x.data[tile] == 20 && x.data[stages] == 4;
    }
    return x.data[id] == 8 && x.data[scheme] == CUBLASLT_REDUCTION_SCHEME_INPLACE;
}

template <class T>
cublasStatus_t give(T value, void* buffer, std::size_t size, std::size_t* written) {
    *written = sizeof value;
    if (size == 0) return CUBLAS_STATUS_SUCCESS;
    if (size != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(buffer, &value, sizeof value);
    return CUBLAS_STATUS_SUCCESS;
}

template <class Handle>
cublasStatus_t make(Handle* out) {
    *out = reinterpret_cast<Handle>(new char);
    return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t drop(Handle made_before) {
    delete reinterpret_cast<char*>(made_before);
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return make(handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return drop(handle); }
std::size_t cublasLtGetVersion() { return 990102; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "another status";
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
                              const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,
                              void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t, cudaDataType_t) {
    described = {};
    return make(out);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t x) { return drop(x); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t size) {
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA && size == sizeof described.a) std::memcpy(&described.a, value, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type, std::uint64_t, std::uint64_t,
                                          std::int64_t) {
    described.is_fp8 = described.is_fp8 || type == CUDA_R_8F_E4M3;
    return make(out);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t x) { return drop(x); }
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) { return make(out); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t x) { return drop(x); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
    *count = 0;
    if (described.is_fp8 && described.a != CUBLAS_OP_T) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (most < 2) return CUBLAS_STATUS_INVALID_VALUE;
    *count = 2;
    results[0] = results[1] = {};
    results[0].algo = made(3, 9, 2);
    results[1].algo = made(5, 20, 4);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t, int, int ids[], int* count) {
    *count = 3;
    ids[0] = 3;
    ids[1] = 5;
    ids[2] = 8;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int number,
                                      cublasLtMatmulAlgo_t* algo) {
    *algo = made(static_cast<std::uint64_t>(number), 0, 0);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
    *result = {};
    result->algo = *algo;
    result->workspaceSize = 1024;
    return runs(*algo) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void* buffer,
                                                 std::size_t size, std::size_t* written) {
    struct List {
        std::uint32_t values[3];
    };
    switch (attribute) {
        case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
            return give(std::int32_t{algo->data[id] != 3}, buffer, size, written);
        case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
            return give(std::uint32_t{algo->data[id] == 5 ? 6u : 1u}, buffer, size, written);
        case CUBLASLT_ALGO_CAP_TILE_IDS:
            return give(List{{15, 18, 20}}, buffer, size, written);
        case CUBLASLT_ALGO_CAP_STAGES_IDS:
            if (algo->data[id] == 8) return CUBLAS_STATUS_NOT_SUPPORTED;  // algorithm 8 has no list of stages
            return give(List{{1, 4, 7}}, buffer, size, written);
        case CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS:
            return give(std::uint64_t{CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA}, buffer, size, written);
        default:
            return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* buffer,
                                                    std::size_t size, std::size_t* written) {
    switch (attribute) {
        case CUBLASLT_ALGO_CONFIG_ID:
            return give(static_cast<std::int32_t>(algo->data[id]), buffer, size, written);
        case CUBLASLT_ALGO_CONFIG_TILE_ID:
            return give(static_cast<std::uint32_t>(algo->data[tile]), buffer, size, written);
        case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
            return give(static_cast<std::int32_t>(algo->data[slices]), buffer, size, written);
        case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
            return give(static_cast<std::uint32_t>(algo->data[scheme]), buffer, size, written);
        case CUBLASLT_ALGO_CONFIG_STAGES_ID:
            return give(static_cast<std::uint32_t>(algo->data[stages]), buffer, size, written);
        default:
            return CUBLAS_STATUS_INVALID_VALUE;
    }
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, const void* buffer,
                                                    std::size_t size) {
    std::uint32_t value = 0;
    if (size != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&value, buffer, size);
    switch (attribute) {
        case CUBLASLT_ALGO_CONFIG_TILE_ID:
            algo->data[tile] = value;
            return CUBLAS_STATUS_SUCCESS;
        case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
            algo->data[slices] = value;
            return CUBLAS_STATUS_SUCCESS;
        case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
            algo->data[scheme] = value;
            return CUBLAS_STATUS_SUCCESS;
        case CUBLASLT_ALGO_CONFIG_STAGES_ID:
            algo->data[stages] = value;
            return CUBLAS_STATUS_SUCCESS;
        default:
            return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

}  // extern "C"
