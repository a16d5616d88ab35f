// SPDX-License-Identifier: Apache-2.0
// Makes least sets, which are what `macheps check make-inputs` writes. A least set is a small selection from the
// available inputs. It reveals every wrong kernel that the available inputs together reveal. This file also lists the
// declarations for which tests make inputs.
#pragma once
#include "experiments/check/verdicts/run.hpp"
#include "tests/check/made_kernels.hpp"

#include <fmt/format.h>

#include <random>

namespace macheps::test::made {

struct LeastSet {
    check::Coverage coverage{};
    std::vector<std::size_t> chosen{};
    std::vector<Launch> launches{};
};

inline LeastSet least_set_of(const std::string& keys, const std::string& shape) {
    const auto plan = check::parse_plans(fmt::format("[recipe]\n{}\n{}\n", keys, shape), "made").front();
    const std::vector<check::MadeInputs> all = check::all_inputs(plan);
    LeastSet set{.coverage = check::coverage_of(all, 1e-9, pool())};
    set.chosen = check::least_set(set.coverage);
    for (const std::size_t i : set.chosen) set.launches.push_back(launch_of(all[i]));
    return set;
}

/// Returns inputs drawn from N(0, 1), as common tests use them.
inline Launch normal_launch(const std::string& keys, const std::string& shape) {
    const auto plan =
        check::parse_plans(fmt::format("[recipe]\n{}\n{}\ninputs = ['normal']\n", keys, shape), "made").front();
    return launch_of(check::all_inputs(plan).front());
}

/// A declaration for which tests make inputs. %x is the format of x, and %o is the format of the output.
struct Plan {
    const char *op, *keys;
    bool has_formats = true;  ///< the keys contain %x and %o
};
inline constexpr Plan plans[] = {
    {"sum", "x = '%x'; out = '%o'"},
    {"mean", "x = '%x'; out = '%o'"},
    {"max", "x = '%x'; out = '%o'"},
    {"min", "x = '%x'; out = '%o'"},
    {"amax", "x = '%x'; out = '%o'"},
    {"argmax", "x = '%x'"},
    {"norm2", "x = '%x'; out = '%o'"},
    {"logsumexp", "x = '%x'; out = '%o'"},
    {"softmax", "x = '%x'; out = '%o'"},
    {"log_softmax", "x = '%x'; out = '%o'"},
    {"rmsnorm", "x = '%x'; gain = '%x'; out = '%o'; eps = 1e-5"},
    {"layernorm", "x = '%x'; gain = '%x'; shift = '%x'; out = '%o'; eps = 1e-5"},
    {"cross_entropy", "x = '%x'; out = '%o'"},
    {"cross_entropy", "x = '%x'; out = '%o'; reduction = 'mean'"},
    {"relu", "x = '%x'; out = '%o'"},
    {"gelu", "x = '%x'; out = '%o'"},
    {"gelu_tanh", "x = '%x'; out = '%o'"},
    {"silu", "x = '%x'; out = '%o'"},
    {"sigmoid", "x = '%x'; out = '%o'"},
    {"tanh", "x = '%x'; out = '%o'"},
    {"exp", "x = '%x'; out = '%o'"},
    {"swiglu", "gate = '%x'; up = '%x'; out = '%o'"},
    {"geglu", "gate = '%x'; up = '%x'; out = '%o'"},
    {"geglu_tanh", "gate = '%x'; up = '%x'; out = '%o'"},
    {"rope", "x = '%x'; cos = 'fp32'; sin = 'fp32'; out = '%o'"},
    {"embedding", "table = '%x'; out = '%x'"},
    {"cast", "x = '%x'; out = '%o'"},
    {"quantize", "x = '%x'; out = 'e4m3fn'; granularity = 'tensor'"},
    {"quantize", "x = '%x'; out = 'e4m3fn'; granularity = '1x128'"},
    {"gemm", "a = '%x'; b = '%x'; out = '%o'"},
    {"gemm", "a = '%x'; b = '%x'; a_scale = 'fp32'; b_scale = 'fp32'; bias = 'fp32'; activation = 'gelu'; out = '%o'"},
    {"gemm", "a = '%x'; b = '%x'; c = '%x'; alpha = 2; beta = 0.5; residual = '%x'; out = '%o'"},
    {"gemm", "a = '%x'; b = '%x'; batches = 2; out = '%o'"},
    {"gemm", "a = 'e4m3fn/1x128'; b = 'e4m3fn/128x128'; out = '%o'"},
};

inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
    return text;
}

inline std::string keys_of(const Plan& plan, const std::string& x, const std::string& out) {
    return fmt::format("op = '{}'; {}", plan.op, replaced(replaced(plan.keys, "%x", x), "%o", out));
}
inline std::string shape_of(const Plan& plan, bool is_small = true) {
    const bool has_blocks = std::string_view(plan.keys).find("128x128") != std::string_view::npos;
    if (std::string_view(plan.op) == "gemm")
        return has_blocks ? "m = 36; n = 130; k = 300"
               : is_small ? "m = 36; n = 44; k = 130"
                          : "m = 64; n = 60; k = 500";
    return is_small ? "rows = 40; columns = 130" : "rows = 64; columns = 1000";
}

/// Returns `count` legal variants of a correct kernel.
inline std::vector<Kernel> right_kernels(std::size_t count) {
    std::vector<Kernel> all;
    const auto orders = kernels::orders();
    for (std::size_t i = 0; i < count; ++i) {
        Kernel kernel;
        kernel.order = orders[(i * 2) % orders.size()];
        kernel.reciprocal = i % 2 == 1;
        kernel.joint = i % 3 == 1;
        kernel.binary = i % 2 == 1;
        all.push_back(kernel);
    }
    return all;
}

/// Returns true if a test refuses an output of the kernel.
inline bool is_refused(const Kernel& kernel, const Launch& in) {
    const check::Posed posed = check::pose(in.declaration, launched(kernel, in), pool());
    const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
    if (limits.declined >= 0) return false;
    check::Premise premise(posed.problem, limits);
    const check::JudgeOptions options{.premise = &premise, .stops_at_first = true, .pool = &pool()};
    return !posed.problem.findings.empty() || !check::judge(limits, posed.out, options).reasons.empty();
}

}  // namespace macheps::test::made
