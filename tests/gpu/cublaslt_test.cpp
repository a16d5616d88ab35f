// SPDX-License-Identifier: Apache-2.0
// Tests how cuBLASLt is found, how a problem is described to it, and how its algorithms are chosen. No device is
// needed: a library with the same functions (fake_cublaslt.cpp) replaces cuBLASLt. Only the test of the descriptors
// uses the real cuBLASLt.
#include "emulation/evidence/library/cublaslt/cublaslt.hpp"
#include "emulation/evidence/library/cublaslt/cublaslt_algorithms.hpp"
#include "emulation/gpu/device/device.hpp"
#include "tests/test.hpp"

#include <cstdlib>

namespace cublaslt_test {

using namespace macheps;
using namespace macheps::evidence;
using namespace macheps::gpu;

namespace {

/// Sets the environment variable MACHEPS_CUBLASLT as long as the object exists.
class Named {
  public:
    explicit Named(const char* path) { setenv("MACHEPS_CUBLASLT", path, 1); }
    ~Named() { unsetenv("MACHEPS_CUBLASLT"); }
    Named(const Named&) = delete;
    Named& operator=(const Named&) = delete;
};

/// Returns a description of the algorithm that is selected by `choice` for this problem, or the reason why none could
/// be selected.
std::string chosen(const LibraryProblem& p, int choice) {
    const cublaslt::FoundApi found = cublaslt::find_api();
    if (found.api == nullptr) return found.missing;
    const cublaslt::Api& api = *found.api;
    try {
        cublaslt::Owned<cublasLtHandle_t> handle(api.cublasLtDestroy);
        MACHEPS_LT(api, cublasLtCreate, handle.out());
        const cublaslt::Descriptors descriptors(api, p);
        const cublaslt::Algorithms algorithms(api, handle.get(), p, descriptors);
        return algorithms.describe(algorithms.choose(choice)).to_string();
    } catch (const cublaslt::Refused& refused) {
        return refused.what;
    }
}

}  // namespace

TEST_CASE("a missing cuBLASLt is reported with the reason", "[gpu][library]") {
    {
        const Named named("/nowhere/libcublasLt.so");
        const LoadedLibrary loaded = load_cublaslt(0);
        CHECK(loaded.library == nullptr);
        CHECK(loaded.missing.find("/nowhere/libcublasLt.so") != std::string::npos);
    }
    const Named named("libm.so.6");
    CHECK(load_cublaslt(0).missing.find("libm.so.6 does not have cublasLtCreate") != std::string::npos);
}

TEST_CASE("cuBLASLt accepts the descriptors of every matrix product that is probed", "[gpu][library]") {
    const std::string first = check_cublaslt_descriptors(library_problems().front());
    if (first.starts_with("cannot load cuBLASLt")) SKIP_TEST(first);
    for (const auto& problems : {library_problems(), reveal_problems()}) {
        for (const LibraryProblem& p : problems) {
            CAPTURE(p.name());
            CHECK(check_cublaslt_descriptors(p) == "");
        }
    }
}

TEST_CASE(
    "cuBLASLt algorithms are chosen in the heuristic's order, and sliced products use only those that support slices",
    "[gpu][library]") {
    const Named named(MACHEPS_FAKE_CUBLASLT);
    LibraryProblem p{.m = 64, .n = 32, .k = 256, .a = bf16, .b = bf16, .out = bf16};
    CHECK(chosen(p, 0) == "algo 3 tile 9 stages 2 splitk 1 tensor 0x2");
    CHECK(chosen(p, 1) == "algo 5 tile 20 stages 4 splitk 1 tensor 0x2");
    CHECK(chosen(p, 2) == "cublasLtMatmulAlgoGetHeuristic: no more algorithms");
    p.slices = 4;
    p.reduction = Reduction::compute_type;  // only algorithm 5 supports it; the heuristic and the search find it
    CHECK(chosen(p, 0) == "algo 5 tile 20 stages 4 splitk 4 compute_type tensor 0x2");
    CHECK(chosen(p, 1) == "algo 5 tile 20 stages 4 splitk 4 compute_type tensor 0x2");
    CHECK(chosen(p, 2) == "no algorithm supports 4 slices with the reduction compute_type");
    p.reduction = Reduction::output_type;
    CHECK(chosen(p, 0) == "algo 5 tile 20 stages 4 splitk 4 output_type tensor 0x2");
    p.reduction = Reduction::in_place;  // only the search finds algorithm 8
    CHECK(chosen(p, 0) == "algo 8 tile 15 stages 0 splitk 4 in_place tensor 0x2");
    p.slices = 0;
    p.a = p.b = e4m3fn;
    CHECK(chosen(p, 0) == "algo 3 tile 9 stages 2 splitk 1 tensor 0x2");
    p.a_by_rows = false;
    CHECK(chosen(p, 0) == "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED (15)");
}

TEST_CASE("the error of a failed CUDA call names the call, and only an unusable device gives the exit code no_device",
          "[gpu][cublaslt]") {
    const auto exit_of = [](cudaError_t status) {
        try {
            gpu::check(status, "cudaThing(x)", "emulation/gpu/thing.cu", 7);
        } catch (const Error& error) {
            CHECK(std::string(error.what()).find("emulation/gpu/thing.cu:7: cudaThing(x): ") == 0);
            return error.exit();
        }
        return Exit::ok;
    };
    CHECK(exit_of(cudaSuccess) == Exit::ok);
    CHECK(exit_of(cudaErrorNoDevice) == Exit::no_device);
    CHECK(exit_of(cudaErrorInsufficientDriver) == Exit::no_device);
    CHECK(exit_of(cudaErrorNoKernelImageForDevice) == Exit::no_device);
    CHECK(exit_of(cudaErrorMemoryAllocation) == Exit::bad_input);
    CHECK(exit_of(cudaErrorIllegalAddress) == Exit::check_failed);
    CHECK(exit_of(cudaErrorLaunchFailure) == Exit::check_failed);
}

}  // namespace cublaslt_test
