// SPDX-License-Identifier: Apache-2.0
// A library's matrix product as a black box: the problem, the algorithm that the library reports, and the outputs. Host
// only. The implementations are cuBLASLt and PyTorch on a GPU, a recorded capture, and, in the tests, a known rule.
#pragma once
#include "emulation/backend.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::evidence {

/// How the library joins the partial sums of slices of k, according to its own report. The values are those of
/// cuBLASLt.
enum class Reduction : std::uint8_t { none = 0, in_place = 1, compute_type = 2, output_type = 4 };

/// How the operands are scaled.
enum class LibraryScaling : std::uint8_t {
    none,
    tensor,      ///< one factor for each operand
    outer,       ///< one factor for each row of a and each column of b
    blocks_1x1,  ///< for each row of a and each column of b, one factor per 128 terms of k
    blocks_1x2,  ///< for a, the same as blocks_1x1; for b, one factor per 128 terms of k and 128 columns
};

/// out = a b. Shapes: a [m,k], b [k,n], out [m,n].
struct LibraryProblem {
    std::int64_t m = 0, n = 0, k = 0;
    Format a = fp32, b = fp32, out = fp32;
    Format accumulator = fp32;  ///< if this is fp16, the library is asked to sum in fp16
    /// For tf32: operands are fp32 words with more bits than tf32 has, and the library converts them to tf32 itself.
    bool whole_words = false;
    bool fast_accumulation = false;  ///< for fp8: the library may leave out the promotion of partial sums
    bool a_by_rows = true;           ///< a is stored as [m,k]; if false, as [k,m]
    bool b_by_columns = true;        ///< b is stored as [n,k]; if false, as [k,n]
    int slices = 0;                  ///< number of slices of k; 0: the library chooses
    Reduction reduction{};           ///< used if there is more than one slice
    LibraryScaling scaling{};
    std::int64_t workspace = std::int64_t{64} << 20;  ///< maximum number of bytes that the library may use

    /// Returns the name: `cublasLt.e4m3fn.e5m2.bf16.fast.tn.128x256x1024.tensor`.
    std::string name() const;
};

/// The algorithm of the library, as the library reports it.
struct LibraryAlgorithm {
    int id = -1, tile = 0, stages = 0;
    int slices = 1;  ///< number of slices of k; 0: more than one, but how many is unknown
    Reduction reduction{};
    int inner_shape = 0, cluster = 0, swizzle = 0, custom = 0;
    std::uint64_t implementation = 0;  ///< cuBLASLt's numerical implementation flags
    std::string kernel{};              ///< name of the kernel, if the library reports nothing else

    bool operator==(const LibraryAlgorithm&) const = default;
    /// Returns a description: `algo 66 tile 20 stages 36 splitk 4 compute_type ...`.
    std::string to_string() const;
};

/// Values of the operands, on the grids of their formats. They are row-major, independently of the library's storage.
struct LibraryOperands {
    std::string name{};           ///< name of their class: `normal`
    std::vector<float> a{}, b{};  ///< [m,k], [k,n]
    /// Decode scales. Their shapes depend on LibraryScaling. a: [1], [m] or [m, k/128]; b: [1], [n], [n, k/128] or
    /// [n/128, k/128].
    std::vector<float> a_scales{}, b_scales{};
};

/// Selected rows and columns of the output.
struct LibraryPlaces {
    std::vector<std::int64_t> rows{}, columns{};
};

/// An algorithm that was chosen for a problem. It runs the same kernel for all operands.
class LibraryPlan {
  public:
    virtual ~LibraryPlan() = default;
    virtual LibraryAlgorithm algorithm() const = 0;
    /// Returns the rows and columns in which the plan gives outputs, or nullptr if it gives all outputs.
    virtual const LibraryPlaces* places() const { return nullptr; }

    // Errors: upload(), launch() and download() throw Error if the device fails.
    virtual void upload(const LibraryOperands& operands) = 0;
    /// Starts the product of the uploaded operands, and does not wait for it.
    virtual void launch() = 0;
    /// Waits for the product and returns it [m,n], row-major, as numbers.
    virtual std::vector<float> download() = 0;

    std::vector<float> run(const LibraryOperands& operands) {
        upload(operands);
        launch();
        return download();
    }
};

/// A plan for a problem, or the reason why the library does not have one.
struct LibraryAnswer {
    std::unique_ptr<LibraryPlan> plan{};
    std::string declined{};  ///< if `plan` is null: the status that the library returned
};

class MatmulLibrary {
  public:
    virtual ~MatmulLibrary() = default;
    virtual std::string name() const = 0;  ///< `cuBLASLt 13.1.0`
    /// Returns the architecture of the device: `sm_90`. A rule is claimed only for the kernels of one architecture.
    virtual std::string architecture() const = 0;
    /// Returns whether outputs are row-major. The outputs of cuBLASLt are column-major. The outputs of PyTorch are
    /// row-major, because PyTorch asks cuBLASLt for the product b^T a^T.
    virtual bool is_row_major() const { return false; }
    /// Returns algorithm number `choice` in the library's order of preference, from 0.
    virtual LibraryAnswer plan(const LibraryProblem& problem, int choice = 0) = 0;
};

std::string_view to_string(Reduction reduction);

constexpr bool is_fp8(const Format& f) { return f == e4m3fn || f == e5m2; }

/// Returns the number of blocks of 128 elements that are needed to cover n elements.
constexpr std::int64_t blocks_of_128(std::int64_t n) { return (n + 127) / 128; }

}  // namespace macheps::evidence
