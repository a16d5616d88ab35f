// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/cublaslt/cublaslt.hpp"

#include "emulation/evidence/library/cublaslt/cublaslt_algorithms.hpp"
#include "emulation/evidence/library/layout.hpp"
#include "emulation/evidence/library/operands.hpp"
#include "emulation/gpu/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::evidence {

using namespace cublaslt;

namespace {

/// The handle and the workspace of cuBLASLt, shared by all plans.
struct Context {
    std::shared_ptr<const Api> api;
    int device;
    Owned<cublasLtHandle_t> handle;
    gpu::DeviceArray<std::byte> workspace{workspace_bytes};

    Context(std::shared_ptr<const Api> found, int index)
        : api(std::move(found)), device(index), handle(api->cublasLtDestroy) {
        MACHEPS_LT(*api, cublasLtCreate, handle.out());
    }
};

class CublasLtPlan final : public LibraryPlan {
  public:
    CublasLtPlan(std::shared_ptr<Context> context, const LibraryProblem& problem, int choice)
        : context_(std::move(context)),
          p_(problem),
          descriptors_(*context_->api, p_),
          a_(static_cast<std::size_t>(p_.m * p_.k) * bytes_of(p_.a)),
          b_(static_cast<std::size_t>(p_.k * p_.n) * bytes_of(p_.b)),
          c_(static_cast<std::size_t>(p_.m * p_.n) * bytes_of(c_format(p_))),
          d_(static_cast<std::size_t>(p_.m * p_.n) * bytes_of(p_.out)),
          a_scales_(scale_room(false)),
          b_scales_(scale_room(true)) {
        descriptors_.set_scales(p_.scaling, a_scales_.data(), b_scales_.data());
        const Algorithms algorithms(*context_->api, context_->handle.get(), p_, descriptors_);
        algo_ = algorithms.choose(choice);
        description_ = algorithms.describe(algo_);
        // cuBLASLt refuses some algorithms only when they start, so start this one once.
        a_.clear();
        b_.clear();
        require(*context_->api, start(), "cublasLtMatmul");
        MACHEPS_CUDA_CHECK(cudaDeviceSynchronize());
    }

    LibraryAlgorithm algorithm() const override { return description_; }

    void upload(const LibraryOperands& x) override {
        MACHEPS_CUDA_CHECK(cudaSetDevice(context_->device));
        fill(a_, packed_values(x.a, p_.a, p_.m, p_.k, p_.a_by_rows));
        fill(b_, packed_values(x.b, p_.b, p_.k, p_.n, !p_.b_by_columns));
        fill(a_scales_, packed_scales(x.a_scales, p_.scaling, p_.k, false));
        fill(b_scales_, packed_scales(x.b_scales, p_.scaling, p_.k, p_.scaling == LibraryScaling::blocks_1x2));
        // Bytes of 0xff are NaN in every format used here, so an element that the library does not write is visible.
        MACHEPS_CUDA_CHECK(cudaMemset(d_.data(), 0xff, static_cast<std::size_t>(p_.m * p_.n) * bytes_of(p_.out)));
    }

    void launch() override {
        const cublasStatus_t status = start();
        if (status == CUBLAS_STATUS_SUCCESS) return;
        throw Error(
            {.what = fmt::format("cublasLtMatmul: {} ({})", context_->api->cublasLtGetStatusString(status),
                                 static_cast<int>(status)),
             .where = fmt::format("{}, {}", p_.name(), description_.to_string()),
             .fix = "check whether another program uses the memory of the device (this algorithm has already run once)",
             .exit = Exit::check_failed});
    }

    std::vector<float> download() override {
        MACHEPS_CUDA_CHECK(cudaDeviceSynchronize());
        return unpacked_values(d_.download(), p_.out, p_.m, p_.n);
    }

  private:
    cublasStatus_t start() const {
        const float one = 1, zero = 0;
        const std::uint16_t half_one = 0x3c00, half_zero = 0;
        const bool is_half = p_.accumulator == fp16;
        const void* alpha = is_half ? static_cast<const void*>(&half_one) : &one;
        const void* beta = is_half ? static_cast<const void*>(&half_zero) : &zero;
        // If C and D have the same type, D is also passed as C. C is not read, because beta is 0.
        const void* c = c_format(p_) == p_.out ? d_.data() : c_.data();
        return context_->api->cublasLtMatmul(context_->handle.get(), descriptors_.matmul(), alpha, a_.data(),
                                             descriptors_.a(), b_.data(), descriptors_.b(), beta, c, descriptors_.c(),
                                             d_.data(), descriptors_.d(), &algo_, context_->workspace.data(),
                                             static_cast<std::size_t>(p_.workspace), nullptr);
    }
    std::size_t scale_room(bool is_b) const {
        const ScaleCounts counts = scale_counts(p_);
        // The scales of two-dimensional blocks are stored in columns, each padded to a multiple of four scales.
        return static_cast<std::size_t>(std::max<std::int64_t>(4 * (is_b ? counts.b : counts.a), 4));
    }
    template <class T>
    static void fill(gpu::DeviceArray<T>& to, const std::vector<T>& values) {
        if (values.empty()) return;
        MACHEPS_CUDA_CHECK(cudaMemcpy(to.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    }

    std::shared_ptr<Context> context_;
    LibraryProblem p_;
    Descriptors descriptors_;
    gpu::DeviceArray<std::byte> a_, b_, c_, d_;
    gpu::DeviceArray<float> a_scales_, b_scales_;
    cublasLtMatmulAlgo_t algo_{};
    LibraryAlgorithm description_{};
};

class CublasLt final : public MatmulLibrary {
  public:
    explicit CublasLt(std::shared_ptr<Context> context) : context_(std::move(context)) {}

    std::string name() const override {
        const std::size_t version = context_->api->cublasLtGetVersion();
        return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
    }

    std::string architecture() const override {
        return "sm_" + std::to_string(gpu::compute_capability(context_->device));
    }

    LibraryAnswer plan(const LibraryProblem& problem, int choice) override {
        try {
            MACHEPS_CUDA_CHECK(cudaSetDevice(context_->device));
            return {std::make_unique<CublasLtPlan>(context_, problem, choice), {}};
        } catch (const Refused& refused) {
            return {nullptr, fmt::format("{}, {}", refused.what, name())};
        }
    }

  private:
    std::shared_ptr<Context> context_;
};

}  // namespace

LoadedLibrary load_cublaslt(int device) {
    const FoundApi found = find_api();
    if (found.api == nullptr) return {nullptr, found.missing};
    try {
        MACHEPS_CUDA_CHECK(cudaSetDevice(device));
        return {std::make_shared<CublasLt>(std::make_shared<Context>(found.api, device)), {}};
    } catch (const Refused& refused) {
        return {nullptr, fmt::format("{} of {}", refused.what, found.api->path)};
    }
}

std::string check_cublaslt_descriptors(const LibraryProblem& problem) {
    const FoundApi found = find_api();
    if (found.api == nullptr) return found.missing;
    try {
        Descriptors descriptors(*found.api, problem);
        const float scale = 1;  // provides an address, which is never dereferenced
        descriptors.set_scales(problem.scaling, &scale, &scale);
    } catch (const Refused& refused) {
        return refused.what;
    }
    return {};
}

}  // namespace macheps::evidence
