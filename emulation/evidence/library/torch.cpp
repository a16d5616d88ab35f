// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/torch.hpp"

#include "emulation/evidence/library/child.hpp"
#include "emulation/evidence/library/operands.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::evidence {

namespace {

using evidence::LibraryChild;
using evidence::LibraryJob;

LibraryProblem product_of(const Format& operands, const Format& out, LibraryScaling scaling = LibraryScaling::none,
                          bool fast = false) {
    LibraryProblem p{.a = operands, .b = operands, .out = out};
    p.whole_words = operands == tf32;  // PyTorch converts fp32 operands to tf32 itself
    p.fast_accumulation = fast;
    p.b_by_columns = scaling != LibraryScaling::none;  // _scaled_mm needs b stored by columns
    p.scaling = scaling;
    return p;
}

LibraryProblem of_shape(LibraryProblem p, std::int64_t m, std::int64_t n, std::int64_t k) {
    p.m = m;
    p.n = n;
    p.k = k;
    return p;
}

class TorchPlan final : public LibraryPlan {
  public:
    TorchPlan(std::shared_ptr<LibraryChild> child, const LibraryProblem& problem)
        : child_(std::move(child)), p_(problem) {
        // Computes a product of zeros, which shows whether PyTorch accepts the problem and which kernels it uses.
        upload({.name = "zeros",
                .a = std::vector<float>(static_cast<std::size_t>(p_.m * p_.k)),
                .b = std::vector<float>(static_cast<std::size_t>(p_.k * p_.n)),
                .a_scales = std::vector<float>(static_cast<std::size_t>(scale_counts(p_).a), 1.0f),
                .b_scales = std::vector<float>(static_cast<std::size_t>(scale_counts(p_).b), 1.0f)});
        (void)download();
        algorithm_.kernel = child_->kernels();
        // The name of a kernel shows that it splits k, but not into how many slices. 0 means an unknown number.
        if (algorithm_.kernel.find("splitK") != std::string::npos) algorithm_.slices = 0;
        if (algorithm_.kernel.empty()) algorithm_.kernel = "a kernel without a name";
    }

    LibraryAlgorithm algorithm() const override { return algorithm_; }
    void upload(const LibraryOperands& x) override {
        job_ = {.m = static_cast<int>(p_.m),
                .n = static_cast<int>(p_.n),
                .k = static_cast<int>(p_.k),
                .a = x.a,
                .b = x.b,
                .a_scales = x.a_scales,
                .b_scales = x.b_scales};
    }
    void launch() override {}
    std::vector<float> download() override { return child_->multiply(job_); }

  private:
    std::shared_ptr<LibraryChild> child_;
    LibraryProblem p_;
    LibraryJob job_{};
    LibraryAlgorithm algorithm_{};
};

class Torch final : public MatmulLibrary {
  public:
    explicit Torch(std::shared_ptr<LibraryChild> child) : child_(std::move(child)) {}
    std::string name() const override {
        const evidence::LibraryIdentity& identity = child_->identity();
        return fmt::format("{}, {} on {}", identity.version, identity.function, identity.kernel);
    }
    std::string architecture() const override { return child_->identity().architecture; }
    bool is_row_major() const override { return true; }
    LibraryAnswer plan(const LibraryProblem& problem, int choice) override {
        if (choice > 0) return {nullptr, "PyTorch chooses only one kernel"};
        return {std::make_unique<TorchPlan>(child_, problem), {}};
    }

  private:
    std::shared_ptr<LibraryChild> child_;
};

}  // namespace

std::vector<TorchProduct> torch_products() {
    using Scaling = LibraryScaling;
    return {{"torch.cuda.fp32", product_of(fp32, fp32)},
            {"torch.cuda.tf32", product_of(tf32, fp32)},
            {"torch.cuda.bf16", product_of(bf16, bf16)},
            {"torch.cuda.fp16", product_of(fp16, fp16)},
            {"torch.cuda.scaled.tensor", product_of(e4m3fn, fp32, Scaling::tensor)},
            {"torch.cuda.scaled.tensor.fast", product_of(e4m3fn, fp32, Scaling::tensor, true)},
            {"torch.cuda.scaled.row", product_of(e4m3fn, fp32, Scaling::outer)},
            {"torch.cuda.scaled.row.fast", product_of(e4m3fn, fp32, Scaling::outer, true)}};
}

std::optional<TorchProduct> find_torch_product(std::string_view name) {
    for (const TorchProduct& product : torch_products()) {
        if (product.name == name) return product;
    }
    return std::nullopt;
}

std::vector<LibraryProblem> torch_problems(const TorchProduct& product) {
    std::vector<LibraryProblem> list;
    list.push_back(of_shape(product.kind, 64, 48, 144));
    for (const std::int64_t k : {1024, 4096}) list.push_back(of_shape(product.kind, 128, 64, k));
    list.push_back(of_shape(product.kind, 1024, 768, 1024));
    return list;
}

LibraryProblem torch_reveal_problem(const TorchProduct& product) {
    return of_shape(product.kind, 64, 64, product.kind.out == fp32 ? 160 : 64);
}

LoadedLibrary load_torch(const TorchProduct& product) {
    std::string why;
    std::optional<LibraryChild> child = LibraryChild::open(std::string(product.name), 1, why);
    if (!child) return {nullptr, why};
    return {std::make_shared<Torch>(std::make_shared<LibraryChild>(std::move(*child))), {}};
}

}  // namespace macheps::evidence
