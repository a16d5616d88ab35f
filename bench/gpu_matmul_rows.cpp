// SPDX-License-Identifier: Apache-2.0
// Measures matmuls on a GPU. A matmul on the GPU's own matrix units is compared with cuBLASLt. So is a matmul on
// fp32.chain, which uses the GPU's fp32 arithmetic. A matmul on an emulated matrix unit is compared with our
// fp32.chain.
#include "bench/gpu_rows.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "emulation/evidence/library/operands.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/matmul.hpp"
#include "emulation/matmul/rules.hpp"

#include <fmt/format.h>

namespace macheps::bench {

namespace {

constexpr std::int64_t full_size = 4096, emulated_size = 2048, small_size = 128;

struct Case {
    std::string name;
    Format format = fp32;  ///< format of both operands
    MatmulRule rule{};
    Format out = fp32;
    bool is_emulated = false;
    bool is_fast = false;  ///< whether cuBLASLt uses fast accumulation
    double target = 0;
};

/// The product of two n x n matrices. The first is stored by rows and the second by columns, as in the forward matmul
/// of a linear layer.
class Product {
  public:
    Product(Backend& backend, const Case& c, std::int64_t n) : backend_(backend), case_(c), n_(n) {
        host_a_ = bench_values(n * n, 1, c.format);
        host_b_ = bench_values(n * n, 2, c.format);
        a_ = uploaded(host_a_);
        b_ = uploaded(host_b_);
        out_ = backend.empty({n, n});
        const Machine& machine = *c.rule.machine;
        if (machine.has_scales()) {
            const std::int64_t blocks = n / machine.scale_block;
            host_scales_ = bench_values(n * blocks, 3, machine.scale);
            for (float& s : host_scales_) s = s == 0 ? 1.0f : s < 0 ? -s : s;
            scales_ = uploaded(host_scales_);
            layout_ = {.k_block = machine.scale_block, .outer_stride = blocks, .k_stride = 1};
        }
    }

    void launch() { backend_.matmul(args(a_.data(), b_.data(), scales_.data())); }

    /// Runs the product and compares the bits of a few elements with the definition.
    void check() {
        launch();
        const Matmul host = args(host_a_.data(), host_b_.data(), host_scales_.data());
        for (const std::int64_t i : evidence::spread(n_, 4)) {
            std::vector<float> row(static_cast<std::size_t>(n_));
            backend_.download(ConstView{out_.data() + i * n_, {n_}}, row);
            for (const std::int64_t j : evidence::spread(n_, 8)) {
                const float expected = definition::matmul_element(host, host.a.data, host.b.data, i, j,
                                                                  static_cast<std::uint64_t>(i * n_ + j))
                                           .after;
                const float got = row[static_cast<std::size_t>(j)];
                if (bit_cast<std::uint32_t>(got) == bit_cast<std::uint32_t>(expected)) continue;
                throw Error({.what = fmt::format("[{},{}] is {} instead of {}", i, j, got, expected),
                             .where = case_.name,
                             .fix = "",
                             .exit = Exit::check_failed});
            }
        }
    }

    const std::vector<float>& host_a() const { return host_a_; }
    const std::vector<float>& host_b() const { return host_b_; }

  private:
    Tensor uploaded(const std::vector<float>& values) {
        Tensor t = backend_.empty({static_cast<std::int64_t>(values.size())});
        backend_.upload(values, t.view());
        return t;
    }
    Matmul args(const float* a, const float* b, const float* scales) const {
        Matmul m;
        m.m = m.n = m.k = n_;
        m.a = {.data = a, .ld = n_, .format = case_.format};
        m.b = {.data = b, .ld = n_, .transposed = true, .format = case_.format};
        if (!host_scales_.empty()) {
            m.a.scales = m.b.scales = layout_;
            m.a.scales.data = m.b.scales.data = scales;
        }
        m.out = out_.data();
        m.ld_out = n_;
        m.rule = case_.rule;
        m.out_cast = {.format = case_.out};
        return m;
    }

    Backend& backend_;
    const Case& case_;
    std::int64_t n_;
    std::vector<float> host_a_, host_b_, host_scales_;
    Tensor a_, b_, scales_, out_;
    OperandScales layout_{};
};

/// Prepares cuBLASLt to multiply the operands of `ours`. Returns a plan, or the reason why cuBLASLt cannot compute the
/// product.
evidence::LibraryAnswer library_product(Bench& bench, const Case& c, const Product& ours, std::int64_t n) {
    if (bench.library == nullptr) return {nullptr, bench.no_library};
    const evidence::LibraryProblem problem{
        .m = n, .n = n, .k = n, .a = c.format, .b = c.format, .out = c.out, .fast_accumulation = c.is_fast};
    evidence::LibraryAnswer answer = bench.library->plan(problem);
    if (answer.plan == nullptr) return answer;
    evidence::LibraryOperands operands{
        .name = "bench", .a = ours.host_a(), .b = std::vector<float>(ours.host_b().size())};
    for (std::int64_t j = 0; j < n; ++j) {  // `ours` stores b by columns
        for (std::int64_t t = 0; t < n; ++t) {
            operands.b[static_cast<std::size_t>(t * n + j)] = ours.host_b()[static_cast<std::size_t>(j * n + t)];
        }
    }
    answer.plan->upload(operands);
    return answer;
}

Row matmul_row(Bench& bench, const Case& c) {
    const std::int64_t n = bench.small ? small_size : c.is_emulated ? emulated_size : full_size;
    Backend& backend = c.is_emulated ? *bench.emulated : *bench.native;
    Product ours(backend, c, n);
    ours.check();
    std::vector<Work> works{{[&] { ours.launch(); }, c.is_emulated ? bench.emulated_stream : bench.native_stream}};
    Row row{.what = c.name, .yardstick = "cuBLASLt", .target = c.target, .work = {}, .unit = "Gmac"};
    row.work = fmt::format("{0} x {0} x {0}", n);
    row.amount = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) * 1e-9;
    const Case chain{.name = "fp32.chain"};
    std::unique_ptr<Product> own;
    evidence::LibraryAnswer library;
    if (c.is_emulated) {
        row.yardstick = "our fp32.chain";
        own = std::make_unique<Product>(*bench.native, chain, n);
        works.push_back({[&] { own->launch(); }, bench.native_stream});
    } else {
        library = library_product(bench, c, ours, n);
        if (library.plan == nullptr) {
            row.note = library.declined;
        } else {
            row.note = library.plan->algorithm().to_string() + ", " + bench.library->name();
            works.push_back({[&] { library.plan->launch(); }});
        }
    }
    const std::vector<Times> times = in_turns(works, bench.turns);
    row.ours = times[0];
    if (times.size() > 1) row.theirs = times[1];
    return row;
}

MatmulRule on(std::string_view machine) { return {.machine = find_machine(machine)}; }

}  // namespace

std::vector<RowMaker> matmul_rows() {
    const MatmulRule split = find_matmul_rule("cublaslt.fp8.split")->rule;
    std::vector<RowMaker> rows;
    for (const Case& c : std::vector<Case>{
             {.name = "matmul.fp32.chain", .target = 0.6},
             {.name = "matmul.native.bf16", .format = bf16, .rule = on("sm90.wgmma.bf16"), .out = bf16, .target = 0.5},
             {.name = "matmul.native.fp16", .format = fp16, .rule = on("sm90.wgmma.fp16"), .out = fp16, .target = 0.5},
             {.name = "matmul.native.tf32", .format = tf32, .rule = on("sm90.wgmma.tf32"), .target = 0.5},
             {.name = "matmul.native.fp8.fast",
             .format = e4m3fn,
             .rule = on("sm90.wgmma.fp8"),
             .out = bf16,
             .is_fast = true,
             .target = 0.5},
             {.name = "matmul.native.fp8.promoted", .format = e4m3fn, .rule = split, .out = bf16, .target = 0.5},
             {.name = "matmul.emulated.sm100.nvfp4",
             .format = e2m1fn,
             .rule = on("sm100.tcgen05.nvfp4"),
             .is_emulated = true,
             .target = 0.05},
             {.name = "matmul.emulated.sm80.fp16",
             .format = fp16,
             .rule = on("sm80.mma.fp16"),
             .is_emulated = true,
             .target = 0.05},
             {.name = "matmul.emulated.sm90.bf16",
             .format = bf16,
             .rule = on("sm90.wgmma.bf16"),
             .is_emulated = true,
             .target = 0.05},
             {.name = "matmul.emulated.sm90.fp8",
             .format = e4m3fn,
             .rule = on("sm90.wgmma.fp8"),
             .is_emulated = true,
             .target = 0.05}}) {
        rows.push_back({c.name, [c](Bench& bench) { return matmul_row(bench, c); }});
    }
    return rows;
}

}  // namespace macheps::bench
