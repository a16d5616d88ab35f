// SPDX-License-Identifier: Apache-2.0
// Tests that the inputs chosen by `make-inputs` reveal every wrong kernel of every operation. If the fault concerns
// structure or scale, the refusal must be certain: it must not depend on the rounding errors that the kernel has
// besides its fault.
#include "experiments/check/inputs.hpp"
#include "tests/check/problems.hpp"

#include <algorithm>
#include <set>

namespace mandatory_mutants_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::check;

namespace {

/// A declaration. `unseen` lists the wrong kernels that no inputs for this declaration can reveal. A semicolon precedes
/// each name.
struct MutantPlan {
    const char *op, *keys;
    const char* unseen = "";
};
// A check treats a product with a scale as inexact, whatever the scale is. It treats an activation in the same way.
// After an inexact step, no result is certain to be a tie.
constexpr const char* no_ties = ";ties away from zero";
// Operations that select an element do not round it, because it already has the format of the output.
constexpr const char* no_rounding =
    ";output truncated;ties away from zero;rounded twice, by way of fp16;output rounded up;output rounded down"
    ";output rounded to odd;output rounded by chance";
// fp16 has seven bits more than e4m3fn. No number of the recipes is so close to the midpoint of two e4m3fn numbers that
// rounding to fp16 first changes the result.
constexpr const char* no_middle = ";rounded twice, by way of fp16";
constexpr MutantPlan mutant_plans[] = {
    {"gemm",
     "a = 'fp16'; b = 'fp16'; a_scale = 'fp32'; b_scale = 'fp32'; bias = 'fp16'; out = 'bf16'; m = 40; n = 36; k = "
     "250",
     no_ties},
    {"gemm",
     "a = 'bf16'; b = 'bf16'; c = 'bf16'; beta = 0.5; alpha = 2; residual = 'bf16'; out = 'bf16'; activation = 'gelu'; "
     "machine = 'sm80.mma.bf16'; m = 40; n = 36; k = 250",
     no_ties},
    {"gemm", "a = 'fp16'; b = 'fp16'; out = 'fp16'; batches = 3; m = 24; n = 20; k = 90"},
    {"gemm", "machine = 'any'; m = 40; n = 36; k = 250"},
    {"gemm", "a = 'e4m3fn/1x128'; b = 'e4m3fn/128x128'; out = 'bf16'; m = 40; n = 260; k = 400",
     ";ties away from zero"},
    {"gemm", "a = 'bf16'; b = 'bf16'; out = 'bf16'; groups = [20, 0, 17, 1]; n = 20; k = 90"},
    {"sum", "x = 'fp16'; out = 'fp32'"},
    {"mean", "x = 'bf16'; out = 'bf16'"},
    {"max", "x = 'bf16'; out = 'bf16'", no_rounding},
    {"min", "x = 'bf16'; out = 'bf16'", no_rounding},
    {"amax", "x = 'bf16'; out = 'fp32'"},
    {"argmax", "x = 'bf16'"},
    {"norm2", "x = 'fp16'; out = 'fp32'"},
    {"logsumexp", "x = 'fp16'; out = 'fp32'"},
    {"softmax", "x = 'fp16'; out = 'bf16'"},
    {"log_softmax", "x = 'fp16'; out = 'bf16'"},
    {"rmsnorm", "x = 'fp16'; gain = 'fp16'; eps = 1e-5; out = 'bf16'"},
    {"layernorm", "x = 'fp16'; gain = 'fp16'; shift = 'fp16'; eps = 1e-5; out = 'bf16'"},
    {"cross_entropy", "x = 'bf16'; out = 'fp32'"},
    // In the mean, the errors of the rows (a few ulp each) cancel, but the bound of the mean adds the bounds of all
    // rows.
    {"cross_entropy", "x = 'bf16'; out = 'fp32'; reduction = 'mean'", ";functions of cuda.fast"},
    {"relu", "x = 'bf16'; out = 'bf16'", no_rounding},
    {"gelu", "x = 'bf16'; out = 'bf16'"},
    {"gelu_tanh", "x = 'bf16'; out = 'bf16'"},
    {"silu", "x = 'bf16'; out = 'bf16'"},
    {"sigmoid", "x = 'bf16'; out = 'bf16'"},
    {"tanh", "x = 'bf16'; out = 'bf16'"},
    {"exp", "x = 'bf16'; out = 'bf16'"},
    {"swiglu", "gate = 'bf16'; up = 'bf16'; out = 'bf16'"},
    {"geglu", "gate = 'bf16'; up = 'bf16'; out = 'bf16'"},
    {"geglu_tanh", "gate = 'bf16'; up = 'bf16'; out = 'bf16'"},
    {"rope", "x = 'bf16'; out = 'bf16'"},
    {"embedding", "table = 'bf16'; out = 'bf16'", no_rounding},
    {"cast", "x = 'fp32'; out = 'bf16'"},
    {"quantize", "x = 'bf16'; out = 'e4m3fn'; granularity = 'row'", no_middle},
    {"quantize", "x = 'bf16'; out = 'e4m3fn'; granularity = '1x128'", no_middle},
};

/// Returns true if no inputs can reveal the wrong kernel `mutant`. Functions have irrational results, so none of them
/// is certain to be a tie.
bool is_excused(const MutantPlan& plan, const std::string& mutant) {
    if (mutant == "ties away from zero" && !find_operation(plan.op).is_product) return true;
    // An error of a few ulp of fp32 changes a 16-bit output only close to the midpoint of two codes.
    if (mutant == "functions of cuda.fast" && std::string(plan.keys).find("out = 'fp32'") == std::string::npos)
        return true;
    return std::string(plan.unseen).find(";" + mutant) != std::string::npos;
}

}  // namespace

TEST_CASE("the least set of inputs of each operation reveals every wrong kernel that a check must catch",
          "[check][recipes][mandatory]") {
    std::set<std::string_view> judged;
    int lines = 0;
    for (const MutantPlan& plan : mutant_plans) {
        const auto& [name, keys, excused] = plan;
        const Operation& operation = find_operation(name);
        judged.insert(operation.name);
        std::string text = std::string("[recipe]\nop = '") + name + "'; " + keys + "\n";
        if (!operation.is_product) text += "rows = 40; columns = 130\n";
        CAPTURE(name, keys);
        const Coverage coverage = coverage_of(all_inputs(parse_plans(text, "mutants").front()), 1e-9, pool());
        const std::vector<std::size_t> least = least_set(coverage);
        for (const Coverage::Line& line : coverage.lines) {
            Detection best = Detection::none;
            for (const std::size_t i : least) best = std::max(best, line.detections[i]);
            CAPTURE(line.mutant, excused);
            // Three kinds of wrong kernels need not be caught. For faults whose size may vary, a report gives the size
            // from which they are detected. Faults in special values show only on inputs with NaN or infinity, and a
            // report says if no input has such values. No inputs can reveal the excused wrong kernels.
            if (line.kind == "size" || line.kind == "specials" || is_excused(plan, line.mutant)) continue;
            ++lines;
            CHECK(best >= Detection::caught);
            if (line.kind == "structure" || line.kind == "scale") CHECK(best == Detection::certified);
        }
    }
    CHECK(judged.size() == all_operations().size());
    std::printf("%d wrong kernels of %zu operations\n", lines, judged.size());
}

}  // namespace mandatory_mutants_test
