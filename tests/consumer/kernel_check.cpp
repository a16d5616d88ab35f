// SPDX-License-Identifier: Apache-2.0
// A program that uses the kernel checks. It checks a correct matrix product in memory, and the same product with one
// wrong element.
#include "check.hpp"

#include "core/host/thread_pool.hpp"
#include "experiments/check/checked.hpp"

#include <vector>

int main() {
    namespace check = macheps::check;
    constexpr int m = 40, n = 36, k = 48;
    std::vector<float> a(m * k), b(k * n), out(m * n);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 37 % 129) / 16 - 4;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 53 % 127) / 16 - 4;
    for (int i = 0; i < m * n; ++i) {
        for (int p = 0; p < k; ++p) out[i] += a[i / n * k + p] * b[p * n + i % n];
    }
    check::Declaration gemm{.operation = &check::find_operation("gemm")};
    check::declare(gemm, "machine", "any");
    macheps::ThreadPool pool(2);
    const auto judge = [&] {
        return check::check_arrays(gemm,
                                   {check::stored_array("a", {m, k}, a), check::stored_array("b", {k, n}, b),
                                    check::stored_array("out", {m, n}, out)},
                                   {.require = check::Power::structure}, pool);
    };
    const check::Checked right = judge();
    CONSUMER_CHECK(bool(right));
    CONSUMER_CHECK(right.verdict.judgement.rho <= 1);
    CONSUMER_CHECK(!right.verdict.mutants.empty());
    out[77] += 0.25f;
    const check::Checked wrong = judge();
    CONSUMER_CHECK(!wrong);
    CONSUMER_CHECK(wrong.outcome == check::Outcome::fail);
    CONSUMER_CHECK(wrong.text().find("(2, 5): got ") != std::string::npos);
    CONSUMER_CHECK(wrong.json().at("verdict") == macheps::Json("fail"));
    bool refused = false;
    try {
        check::declare(gemm, "machin", "any");
    } catch (const macheps::Error& error) {
        refused = error.exit() == macheps::Exit::usage;
    }
    CONSUMER_CHECK(refused);
    return failures == 0 ? 0 : 1;
}
