// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/fit.hpp"

#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/library_names.hpp"
#include "tests/test.hpp"

#include <cstdio>
#include <cstdlib>

namespace library_test {

using namespace macheps;
using namespace macheps::evidence;

namespace {

std::vector<float> by_rule(const MatmulRule& rule, const LibraryJob& job, const Format& format) {
    static CpuBackend backend(1);
    Tensor a = backend.empty({job.m, job.k}), b = backend.empty({job.k, job.n}), c = backend.empty({job.m, job.n});
    backend.upload(job.a, a.view());
    backend.upload(job.b, b.view());
    Matmul args{.m = job.m, .n = job.n, .k = job.k};
    args.a = {.data = a.data(), .ld = job.k, .format = format};
    args.b = {.data = b.data(), .ld = job.n, .format = format};
    args.out = c.data();
    args.ld_out = job.n;
    args.out_cast.format = format;
    args.rule = rule;
    backend.matmul(args);
    std::vector<float> out(static_cast<std::size_t>(job.m * job.n));
    backend.download(c.view(), out);
    return out;
}

LibraryExamination examined(const MatmulRule& rule, int shapes) {
    return examine_library([&](const LibraryJob& job) { return by_rule(rule, job, fp32); }, by_rule, fp32, shapes, 1);
}

}  // namespace

TEST_CASE("examine_library recognises each rule of a library from results of that rule", "[emulation][library]") {
    for (const char* name :
         {"blas.openblas-0.3.21.skylakex", "blas.openblas.448", "blas.onednn", "blas.mkl", "blas.blis-0.9.generic",
          "blas.blis-0.9.haswell", "blas.blis-0.9.haswell.wide", "eigen.gemm", "eigen.gemm.32k"}) {
        CAPTURE(name);
        const LibraryExamination found = examined(find_matmul_rule(name)->rule, 4);
        CHECK(found.verdict == LibraryVerdict::reproduced);
        CHECK(found.rule == name);
        CHECK(found.equal == 4);
    }
    // No named rule has these blocks. The rule is still found, and the nearest named rule is reported.
    const LibraryExamination other = examined({.blocks = {.limit = 336}}, 3);
    CHECK(other.verdict == LibraryVerdict::reproduced);
    CHECK(other.best.blocks.limit == 336);
    CHECK(other.nearest.find("differs in the terms of a block (336 instead of ") != std::string::npos);
}

TEST_CASE("the name of a library selects the rule of the kernel that the library runs on this CPU",
          "[emulation][library]") {
    for (const LibraryName& each : library_names()) {
        CAPTURE(each.name);
        CHECK(find_matmul_rule(each.name) == nullptr);  // a policy must not depend on the CPU
        const NamedMatmulRule* here = library_rule_here(each.name);
        bool is_one_of_them = here == nullptr;
        for (const LibraryName::Variant& variant : each.variants) {
            if (variant.rule.empty()) continue;
            REQUIRE(find_matmul_rule(variant.rule) != nullptr);
            is_one_of_them = is_one_of_them || (variant.is_here() && here->name == variant.rule);
        }
        CHECK(is_one_of_them);
        std::printf("%s here: %s\n", std::string(each.name).c_str(),
                    here == nullptr ? "none known" : std::string(here->name).c_str());
    }
    CHECK(library_rule_here("openblas.dgemm") == nullptr);
}

TEST_CASE("Eigen divides k into blocks of nearly equal length, and all but the last are multiples of eight",
          "[emulation][library]") {
    const KBlocks blocks = find_matmul_rule("eigen.gemm")->rule.blocks;
    const auto lengths = [&](std::int64_t k) {
        std::vector<std::int64_t> all;
        for (std::int64_t rest = k; rest > 0; rest -= all.back()) all.push_back(blocks.length(k, rest));
        return all;
    };
    CHECK(lengths(432) == std::vector<std::int64_t>{432});
    CHECK(lengths(500) == std::vector<std::int64_t>{256, 244});
    CHECK(lengths(864) == std::vector<std::int64_t>{432, 432});
    CHECK(lengths(1000) == std::vector<std::int64_t>{336, 336, 328});
    CHECK(lengths(2048) == std::vector<std::int64_t>{416, 416, 416, 416, 384});
}

TEST_CASE("each rule is compared with a library only on the shapes for which the rule is claimed",
          "[emulation][library]") {
    // Imitates BLIS: blocks of 256 if panels consist of rows, blocks of 48 if they consist of columns. If n is odd, the
    // last output is wrong.
    const auto* tall = find_matmul_rule("blas.blis-0.9.haswell");
    const auto* wide = find_matmul_rule("blas.blis-0.9.haswell.wide");
    const auto blis = [&](const LibraryJob& job) {
        std::vector<float> out =
            by_rule(tall->claims(job.m, job.n / 2 * 2, job.k) ? tall->rule : wide->rule, job, fp32);
        if (job.n % 2 != 0) out.back() += 1;
        return out;
    };
    const LibraryExamination found = examine_library(blis, by_rule, fp32, 60, 1);
    CHECK(found.verdict == LibraryVerdict::reproduced);
    CHECK(found.rule == tall->name);
    CHECK(found.range == tall->valid);
    CHECK(found.shapes == 60);
    CHECK(found.equal == 60);
    CHECK(found.outside > 0);
    CHECK(found.outside_equal < found.outside);
    REQUIRE(found.others.size() == 1);
    CHECK(found.others[0].name == wide->name);
    CHECK(found.others[0].shapes > 0);
    CHECK(found.others[0].equal == found.others[0].shapes);
}

TEST_CASE("block_ends finds the ends of the blocks of OpenBLAS and MKL rules", "[emulation][library]") {
    const MatmulRule rule = find_matmul_rule("blas.openblas-0.3.21.skylakex")->rule;
    const auto ends = [&](int k) {
        return block_ends([&](const LibraryJob& job) { return by_rule(rule, job, fp32); }, fp32, 3, 3, k, 0, 0);
    };
    CHECK(ends(1000) == std::vector<int>{320, 640, 832, 1000});
    CHECK(ends(1024) == std::vector<int>{320, 640, 832, 1024});
    CHECK(ends(300) == std::vector<int>{300});
    const MatmulRule longer = find_matmul_rule("blas.openblas.448")->rule;
    CHECK(block_ends([&](const LibraryJob& job) { return by_rule(longer, job, fp32); }, fp32, 3, 3, 1500, 0, 0) ==
          std::vector<int>{448, 896, 1200, 1500});
    // The last block, of 40 terms, begins where a full block ends.
    const MatmulRule mkl = find_matmul_rule("blas.mkl")->rule;
    CHECK(block_ends([&](const LibraryJob& job) { return by_rule(mkl, job, fp32); }, fp32, 3, 3, 1000, 0, 0) ==
          std::vector<int>{192, 384, 576, 768, 960, 1000});
}

TEST_CASE("sums of a library that follow no rule are not reported as reproduced", "[emulation][library]") {
    std::string why;
    auto wide = LibraryChild::open(MACHEPS_STUB_FP64, 1, why);
    REQUIRE(wide);
    const LibraryExamination found =
        examine_library([&](const LibraryJob& job) { return wide->multiply(job); }, by_rule, fp32, 3, 1);
    // The order is that of a chain, but the sums are not those of any fp32 chain.
    CHECK(found.verdict == LibraryVerdict::order_only);
    CHECK(found.equal < found.shapes);
    auto unsteady = LibraryChild::open(MACHEPS_STUB_UNSTEADY, 1, why);
    REQUIRE(unsteady);
    const LibraryJob job = cancelling_job(4, 4, 33, fp32, 1);
    CHECK(unsteady->multiply(job) != unsteady->multiply(job));
}

TEST_CASE("a rule whose blocks or roundings differ from the library's is not reported as reproduced",
          "[emulation][library]") {
    const MatmulRule right = find_matmul_rule("blas.openblas-0.3.21.skylakex")->rule;
    const LibraryMultiply library = [&](const LibraryJob& job) { return by_rule(right, job, fp32); };
    // The library adds in blocks of 320 terms, as the rule says, and the test with masks finds this order. This
    // emulation of the rule wrongly uses blocks of 384 terms, so its bits differ from the library's.
    const RuleMultiply longer = [&](const MatmulRule& rule, const LibraryJob& job, const Format& format) {
        MatmulRule wrong = rule;
        if (wrong.blocks.limit == right.blocks.limit) wrong.blocks.limit = 384;
        return by_rule(wrong, job, format);
    };
    const LibraryExamination slipped = examine_library(library, longer, fp32, 60, 1);
    CHECK(slipped.verdict == LibraryVerdict::order_only);
    CHECK(slipped.shapes == 60);
    CHECK(slipped.equal < slipped.shapes);
    // Requests the rule with blocks of 384 terms. The library's blocks end elsewhere.
    MatmulRule asked = right;
    asked.blocks.limit = 384;
    const LibraryExamination other = examine_library(library, by_rule, fp32, 8, 1, &asked);
    CHECK(other.verdict == LibraryVerdict::unknown);
    CHECK(other.equal < other.shapes);
    CHECK(other.best.blocks.limit == 384);
    // Requests the right blocks, but with products that are rounded before they are added.
    asked = right;
    asked.machine = find_machine("fp32.unfused");
    const LibraryExamination unfused = examine_library(library, by_rule, fp32, 8, 1, &asked);
    CHECK(unfused.verdict == LibraryVerdict::order_only);
    CHECK(unfused.equal < unfused.shapes);
    CHECK(examine_library(library, by_rule, fp32, 8, 1, &right).verdict == LibraryVerdict::reproduced);
}

TEST_CASE("a library that crashes or does not exist causes an error and does not end the test program",
          "[emulation][library]") {
    std::string why;
    auto crashing = LibraryChild::open(MACHEPS_STUB_CRASH, 1, why);
    REQUIRE(crashing);
    const LibraryJob job = cancelling_job(4, 4, 33, fp32, 1);
    (void)crashing->multiply(job);
    try {
        (void)crashing->multiply(job);
        FAIL("it did not crash");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find("signal 11") != std::string::npos);
        CHECK(error.exit() == Exit::check_failed);
    }
    CHECK_FALSE(LibraryChild::open("/nowhere/libnothing.so", 1, why));
    CHECK_FALSE(why.empty());
}

#if defined(MACHEPS_EIGEN_BLAS)
TEST_CASE("Eigen, if it is available, is reported as reproduced only if every shape agrees", "[emulation][library]") {
    std::string why;
    auto child = LibraryChild::open(MACHEPS_EIGEN_BLAS, 1, why);
    REQUIRE(child);
    const LibraryExamination found =
        examine_library([&](const LibraryJob& job) { return child->multiply(job); }, by_rule, fp32, 8, 1);
    std::printf("Eigen: %s, %d of %d shapes, %s\n", to_string(found.verdict), found.equal, found.shapes,
                found.rule.c_str());
    CHECK((found.verdict == LibraryVerdict::reproduced) == (found.equal == found.shapes));
}
#endif

TEST_CASE("a child process can load a library without an environment variable that changes its results",
          "[emulation][library]") {
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    bool is_named = false;
    for (const LibrarySetting& each : library_environment())
        is_named = is_named || (each.name == "OPENBLAS_CORETYPE" && each.value == "Haswell");
    CHECK(is_named);
    std::string why;
    auto with = LibraryChild::open("openblas", 1, why),
         without = LibraryChild::open("openblas", 1, why, "OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_CORETYPE");
    if (!with || !without) SKIP_TEST("absent: " + why);
    CHECK(with->identity().kernel == "Haswell");
    const LibraryJob job = cancelling_job(101, 101, 1000, fp32, 1);
    CHECK((without->identity().kernel == "Haswell" || with->multiply(job) != without->multiply(job)));
}

#if defined(__x86_64__)
TEST_CASE("Debian's OpenBLAS with a given kernel follows the rule of this kernel and not another kernel's rule",
          "[emulation][library]") {
    if (!__builtin_cpu_supports("avx512bf16")) SKIP_TEST("absent: this CPU has no avx512_bf16");
    struct Kernel {
        const char *name, *rule, *wrong;
        std::vector<int> ends_at_1000;
    };
    for (const Kernel& each :
         {Kernel{"Cooperlake", "blas.openblas-0.3.21.skylakex", "blas.openblas.448", {320, 640, 832, 1000}},
          Kernel{"SkylakeX", "blas.openblas.448", "blas.onednn", {448, 736, 1000}}}) {
        CAPTURE(each.name);
        setenv("OPENBLAS_CORETYPE", each.name, 1);
        std::string why;
        auto child = LibraryChild::open("openblas", 1, why);
        unsetenv("OPENBLAS_CORETYPE");
        if (!child) SKIP_TEST("absent: " + why);
        if (child->identity().version.find("0.3.21") == std::string::npos || child->identity().kernel != each.name)
            SKIP_TEST("another version or kernel: " + child->identity().version + ", kernel " +
                      child->identity().kernel);
        const LibraryMultiply library = [&](const LibraryJob& job) { return child->multiply(job); };
        CHECK(block_ends(library, fp32, 101, 101, 1000, 0, 0) == each.ends_at_1000);
        const LibraryExamination found = examine_library(library, by_rule, fp32, 60, 1);
        CHECK(found.verdict == LibraryVerdict::reproduced);
        CHECK(found.rule == each.rule);
        CHECK(found.equal == 60);
        CHECK(examine_library(library, by_rule, fp32, 4, 1, &find_matmul_rule(each.wrong)->rule).verdict ==
              LibraryVerdict::unknown);
    }
}
#endif

TEST_CASE("OpenBLAS, if it is available, is reported as reproduced only if every shape agrees",
          "[emulation][library]") {
    std::string why;
    auto child = LibraryChild::open("openblas", 1, why);
    if (!child) SKIP_TEST("absent: " + why);
    const LibraryExamination found =
        examine_library([&](const LibraryJob& job) { return child->multiply(job); }, by_rule, fp32, 8, 1);
    std::printf("%s, kernel %s: %s, %d of %d shapes, %s\n", child->identity().version.c_str(),
                child->identity().kernel.c_str(), to_string(found.verdict), found.equal, found.shapes,
                found.rule.c_str());
    CHECK((found.verdict == LibraryVerdict::reproduced) == (found.equal == found.shapes));
    CHECK(found.shapes == 8);
}

}  // namespace library_test
