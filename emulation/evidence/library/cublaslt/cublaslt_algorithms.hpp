// SPDX-License-Identifier: Apache-2.0
// The descriptors of a problem for cuBLASLt, and the choice of an algorithm. Source of attributes: cuBLAS 13 manual,
// "cublasLt". Host only.
#pragma once
#include "emulation/evidence/library/cublaslt/cublaslt_api.hpp"
#include "emulation/evidence/library/matmul.hpp"

#include <algorithm>
#include <optional>

namespace macheps::evidence::cublaslt {

/// Size of the allocated workspace. LibraryProblem::workspace is at most this large.
inline constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

inline cudaDataType data_type(const Format& f) {
    if (f == fp16) return CUDA_R_16F;
    if (f == bf16) return CUDA_R_16BF;
    if (f == e4m3fn) return CUDA_R_8F_E4M3;
    if (f == e5m2) return CUDA_R_8F_E5M2;
    return CUDA_R_32F;
}

inline cublasComputeType_t compute_type(const LibraryProblem& p) {
    if (p.accumulator == fp16) return CUBLAS_COMPUTE_16F;
    return p.a == tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

inline cudaDataType scale_type(const LibraryProblem& p) { return p.accumulator == fp16 ? CUDA_R_16F : CUDA_R_32F; }

/// Returns the format of C: the output format, or bf16 if the output is fp8. C is never read.
inline Format c_format(const LibraryProblem& p) { return p.out.bits == 8 ? bf16 : p.out; }

/// The descriptors of a problem. The library's matrices are column-major, so a matrix that is stored by rows is passed
/// as a transpose.
class Descriptors {
  public:
    Descriptors(const Api& api, const LibraryProblem& p)
        : api_(api),
          matmul_(api.cublasLtMatmulDescDestroy),
          a_(api.cublasLtMatrixLayoutDestroy),
          b_(api.cublasLtMatrixLayoutDestroy),
          c_(api.cublasLtMatrixLayoutDestroy),
          d_(api.cublasLtMatrixLayoutDestroy) {
        MACHEPS_LT(api, cublasLtMatmulDescCreate, matmul_.out(), compute_type(p), scale_type(p));
        set(CUBLASLT_MATMUL_DESC_TRANSA, p.a_by_rows ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, p.b_by_columns ? CUBLAS_OP_N : CUBLAS_OP_T);
        if (p.a.bits == 8) {
            set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(p.fast_accumulation ? 1 : 0));
        }
        layout(a_, p.a, p.a_by_rows ? p.k : p.m, p.a_by_rows ? p.m : p.k);
        layout(b_, p.b, p.b_by_columns ? p.k : p.n, p.b_by_columns ? p.n : p.k);
        layout(c_, c_format(p), p.m, p.n);
        layout(d_, p.out, p.m, p.n);
    }

    /// Sets the pointers to the decode scales in device memory. For scalar scales, the attribute for the mode is not
    /// set: scalar scales are the default, and libraries before 12.8 do not have this attribute.
    void set_scales(LibraryScaling scaling, const float* a, const float* b) {
        if (scaling == LibraryScaling::none) return;
        set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a);
        set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b);
        if (scaling == LibraryScaling::tensor) return;
        const auto mode = [&](bool is_2d) -> std::int32_t {
            return scaling == LibraryScaling::outer ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
                   : is_2d                          ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                                    : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
        };
        set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode(false));
        set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode(scaling == LibraryScaling::blocks_1x2));
    }

    cublasLtMatmulDesc_t matmul() const { return matmul_.get(); }
    cublasLtMatrixLayout_t a() const { return a_.get(); }
    cublasLtMatrixLayout_t b() const { return b_.get(); }
    cublasLtMatrixLayout_t c() const { return c_.get(); }
    cublasLtMatrixLayout_t d() const { return d_.get(); }

  private:
    template <class T>
    void set(cublasLtMatmulDescAttributes_t attribute, T value) {
        MACHEPS_LT(api_, cublasLtMatmulDescSetAttribute, matmul_.get(), attribute, &value, sizeof value);
    }
    void layout(Owned<cublasLtMatrixLayout_t>& out, const Format& f, std::int64_t rows, std::int64_t columns) {
        MACHEPS_LT(api_, cublasLtMatrixLayoutCreate, out.out(), data_type(f), static_cast<std::uint64_t>(rows),
                   static_cast<std::uint64_t>(columns), rows);
    }

    const Api& api_;
    Owned<cublasLtMatmulDesc_t> matmul_;
    Owned<cublasLtMatrixLayout_t> a_, b_, c_, d_;
};

/// The algorithms of a problem and the choice among them.
class Algorithms {
  public:
    Algorithms(const Api& api, cublasLtHandle_t handle, const LibraryProblem& problem, const Descriptors& descriptors)
        : api_(api), handle_(handle), p_(problem), x_(descriptors) {}

    /// Returns algorithm number `choice`. Throws Refused if the library has fewer algorithms.
    cublasLtMatmulAlgo_t choose(int choice) const {
        const std::vector<cublasLtMatmulAlgo_t> preferred = heuristic();
        if (p_.slices == 0) {
            if (static_cast<std::size_t>(choice) < preferred.size()) return preferred[static_cast<std::size_t>(choice)];
            throw Refused{"cublasLtMatmulAlgoGetHeuristic: no more algorithms"};
        }
        int left = choice;
        for (cublasLtMatmulAlgo_t algo : preferred) {
            if (takes_slices(algo) && left-- == 0) return algo;
        }
        if (const auto found = search(left)) return *found;
        throw Refused{"no algorithm supports " + std::to_string(p_.slices) + " slices with the reduction " +
                      std::string(to_string(p_.reduction))};
    }

    LibraryAlgorithm describe(const cublasLtMatmulAlgo_t& algo) const {
        LibraryAlgorithm result;
        result.id = config<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID);
        result.tile = static_cast<int>(config<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID));
        result.stages = static_cast<int>(config<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID));
        result.slices = std::max(config<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), 1);
        result.reduction =
            static_cast<Reduction>(config<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) & 7);
        result.inner_shape = config<std::uint16_t>(algo, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID);
        result.cluster = config<std::uint16_t>(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
        result.swizzle = static_cast<int>(config<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING));
        result.custom = static_cast<int>(config<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION));
        result.implementation = capability<std::uint64_t>(algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS);
        return result;
    }

  private:
    std::vector<cublasLtMatmulAlgo_t> heuristic() const {
        constexpr int most = 32;
        Owned<cublasLtMatmulPreference_t> preference(api_.cublasLtMatmulPreferenceDestroy);
        MACHEPS_LT(api_, cublasLtMatmulPreferenceCreate, preference.out());
        const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
            MACHEPS_LT(api_, cublasLtMatmulPreferenceSetAttribute, preference.get(), attribute, &value, sizeof value);
        };
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(p_.workspace));
        if (p_.slices > 0) prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(p_.reduction));
        std::vector<cublasLtMatmulHeuristicResult_t> results(most);
        int count = 0;
        const cublasStatus_t status = api_.cublasLtMatmulAlgoGetHeuristic(
            handle_, x_.matmul(), x_.a(), x_.b(), x_.c(), x_.d(), preference.get(), most, results.data(), &count);
        // The heuristic must succeed only if the library chooses the number of slices. If the problem gives the number,
        // an algorithm may exist even if the heuristic finds none.
        if (p_.slices == 0) require(api_, status, "cublasLtMatmulAlgoGetHeuristic");
        std::vector<cublasLtMatmulAlgo_t> algorithms;
        for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
            if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS) {
                algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
            }
        }
        return algorithms;
    }

    bool accepted(const cublasLtMatmulAlgo_t& algo) const {
        cublasLtMatmulHeuristicResult_t result{};
        return api_.cublasLtMatmulAlgoCheck(handle_, x_.matmul(), x_.a(), x_.b(), x_.c(), x_.d(), &algo, &result) ==
                   CUBLAS_STATUS_SUCCESS &&
               result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= static_cast<std::size_t>(p_.workspace);
    }

    template <class T>
    bool configure(cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute, T value) const {
        return api_.cublasLtMatmulAlgoConfigSetAttribute(&algo, attribute, &value, sizeof value) ==
               CUBLAS_STATUS_SUCCESS;
    }

    /// Configures `algo` with the number of slices and the reduction that the problem requires. Returns whether the
    /// library accepts the result.
    bool takes_slices(cublasLtMatmulAlgo_t& algo) const {
        return configure(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::int32_t{p_.slices}) &&
               configure(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, static_cast<std::uint32_t>(p_.reduction)) &&
               accepted(algo);
    }

    /// Tries all algorithms of the library, tile by tile, with the number of slices that the problem requires. Among
    /// the algorithms that the library accepts, returns number `choice`. Gives up after 3000 configurations.
    std::optional<cublasLtMatmulAlgo_t> search(int choice) const {
        constexpr int max_asked = 3000;
        std::vector<int> ids(256);
        int count = 0, asked = 0;
        MACHEPS_LT(api_, cublasLtMatmulAlgoGetIds, handle_, compute_type(p_), scale_type(p_), data_type(p_.a),
                   data_type(p_.b), data_type(c_format(p_)), data_type(p_.out), static_cast<int>(ids.size()),
                   ids.data(), &count);
        for (int i = 0; i < count; ++i) {
            cublasLtMatmulAlgo_t fresh{};
            if (api_.cublasLtMatmulAlgoInit(handle_, compute_type(p_), scale_type(p_), data_type(p_.a), data_type(p_.b),
                                            data_type(c_format(p_)), data_type(p_.out),
                                            ids[static_cast<std::size_t>(i)], &fresh) != CUBLAS_STATUS_SUCCESS) {
                continue;
            }
            const auto schemes = capability<std::uint32_t>(fresh, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK);
            if (capability<std::int32_t>(fresh, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) == 0 ||
                (schemes & static_cast<std::uint32_t>(p_.reduction)) == 0) {
                continue;
            }
            // Stops at the first configuration of this algorithm that is accepted, because the tile and the number of
            // stages do not change any bit of the results.
            for (const std::uint32_t tile : capabilities(fresh, CUBLASLT_ALGO_CAP_TILE_IDS)) {
                bool taken = false;
                for (const std::uint32_t stages : capabilities(fresh, CUBLASLT_ALGO_CAP_STAGES_IDS)) {
                    cublasLtMatmulAlgo_t algo = fresh;
                    if (!configure(algo, CUBLASLT_ALGO_CONFIG_TILE_ID, tile)) continue;
                    if (!configure(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, stages)) continue;
                    if (++asked > max_asked) return std::nullopt;
                    if (!takes_slices(algo)) continue;
                    if (choice-- <= 0) return algo;
                    taken = true;
                    break;
                }
                if (taken) break;
            }
        }
        return std::nullopt;
    }

    /// Returns the value of an attribute of an algorithm, or 0 if the library does not know the attribute.
    template <class T>
    T config(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute) const {
        T value{};
        std::size_t written = 0;
        const cublasStatus_t status =
            api_.cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written);
        return status == CUBLAS_STATUS_SUCCESS ? value : T{};
    }
    template <class T>
    T capability(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoCapAttributes_t attribute) const {
        T value{};
        std::size_t written = 0;
        const cublasStatus_t status =
            api_.cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, &value, sizeof value, &written);
        return status == CUBLAS_STATUS_SUCCESS ? value : T{};
    }
    /// Returns the values of an attribute that is a list. If the list is empty, returns a single 0, which means
    /// "undefined".
    std::vector<std::uint32_t> capabilities(const cublasLtMatmulAlgo_t& algo,
                                            cublasLtMatmulAlgoCapAttributes_t attribute) const {
        std::size_t bytes = 0;
        (void)api_.cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, nullptr, 0, &bytes);
        std::vector<std::uint32_t> list(bytes / sizeof(std::uint32_t));
        if (list.empty() ||
            api_.cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, list.data(), list.size() * sizeof(std::uint32_t),
                                                   &bytes) != CUBLAS_STATUS_SUCCESS) {
            return {0};
        }
        return list;
    }

    const Api& api_;
    cublasLtHandle_t handle_;
    const LibraryProblem& p_;
    const Descriptors& x_;
};

}  // namespace macheps::evidence::cublaslt
