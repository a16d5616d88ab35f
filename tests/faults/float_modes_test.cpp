// SPDX-License-Identifier: Apache-2.0
// Tests that the library gives the same bits in every floating-point mode of its caller, and does not change the mode.
#include "tests/faults/float_modes.hpp"
#include "core/host/float_environment.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/adam.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/scaling/scaling.hpp"
#include "experiments/study/product/gemm.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/findings/divergence.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/pages/html.hpp"
#include "reports/rows/csv.hpp"
#include "tests/emulation/backends.hpp"
#include "tests/scratch.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <functional>
#include <map>
#include <thread>

namespace float_modes_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::study;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;

namespace {

using Values = std::vector<float>;

#if defined(__x86_64__)
/// Returns whether xgetbv reports which registers are not in their initial state (CPUID leaf 13).
bool tells_states_in_use() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("avx") != 0 && __get_cpuid_count(13, 1, &a, &b, &c, &d) != 0 && (a & 4) != 0;
}
/// Returns whether the upper halves of vector registers are in use. While they are in use, scalar code is many times
/// slower on Intel's CPUs.
bool upper_halves_in_use() {
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    constexpr unsigned ymm = 4, zmm = 64;
    return (low & (ymm | zmm)) != 0;
}
void clean_upper_halves() { asm volatile("vzeroupper" ::: "memory"); }
#else
bool tells_states_in_use() { return false; }
bool upper_halves_in_use() { return false; }
void clean_upper_halves() {}
#endif

/// Operands for the operations. For these operands, another rounding direction or flushing to zero changes the results.
struct Inputs {
    explicit Inputs(Backend& backend)
        : b(backend),
          x(uploaded(b, operands(Operands::wild, count, 1), {rows, columns})),
          y(uploaded(b, operands(Operands::plain, count, 2), {rows, columns})),
          small(uploaded(b, tiny(count), {rows, columns})),
          out(b.empty({rows, columns})),
          other(b.empty({rows, columns})),
          of_rows(b.empty({rows})),
          more_of_rows(b.empty({rows})),
          of_columns(b.empty({columns})),
          more_of_columns(b.empty({columns})),
          gamma(uploaded(b, operands(Operands::plain, columns, 3), {columns})),
          beta(uploaded(b, operands(Operands::plain, columns, 4), {columns})),
          wte(uploaded(b, operands(Operands::wild, vocabulary * columns, 5), {vocabulary, columns})),
          wpe(uploaded(b, operands(Operands::wild, columns * times, 6), {times, columns})),
          words(uploaded_tokens(b, tokens(rows, vocabulary, 7), {rows / times, times})),
          targets(uploaded_tokens(b, tokens(rows, columns, 8), {rows / times, times})) {}

    /// Returns subnormals and small normal numbers.
    static Values tiny(std::int64_t n) {
        const DefaultFloatModes modes;
        Values values = operands(Operands::plain, n, 9);
        for (float& value : values) value *= 0x1p-126f;
        return values;
    }
    Values got(const Tensor& tensor) const { return downloaded(b, tensor); }

    static constexpr std::int64_t rows = 64, columns = 64, count = rows * columns, times = 64, vocabulary = 50;
    Backend& b;
    Tensor x, y, small, out, other, of_rows, more_of_rows, of_columns, more_of_columns, gamma, beta, wte, wpe;
    TokenTensor words, targets;
};

Values joined(Values a, const Values& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// Appends an fp64 number as two floats with its bits, so that all results can be compared as floats.
void append(Values& values, double number) {
    const auto bits = bit_cast<std::uint64_t>(number);
    values.push_back(bit_cast<float>(static_cast<std::uint32_t>(bits)));
    values.push_back(bit_cast<float>(static_cast<std::uint32_t>(bits >> 32)));
}
Values numbers(std::initializer_list<double> list) {
    Values values;
    for (const double number : list) append(values, number);
    return values;
}

Matmul product_of(Inputs& in, const Machine& machine) {
    Matmul args{.m = in.rows, .n = in.columns, .k = in.columns};
    args.a = {.data = in.small.data(), .ld = in.columns};
    args.b = {.data = in.y.data(), .ld = in.columns};
    args.out = in.out.data();
    args.ld_out = in.columns;
    args.rule.machine = &machine;
    return args;
}

struct Operation {
    const char* name;
    std::function<Values(Inputs&)> run;
};

/// Returns every operation of Backend that does arithmetic, except the elementwise operations.
std::vector<Operation> other_operations() {
    return {
        {"cast",
         [](Inputs& in) {
             Tally tally;
             in.b.cast(in.x, in.out, {.format = fp16, .encode_scale = 3}, &tally);
             return joined(in.got(in.out), numbers({tally.amax}));
         }},
        {"decode_groups",
         [](Inputs& in) {
             OperandScales scales{.data = in.y.data(), .k_block = in.columns, .outer_stride = 1, .k_stride = 1};
             in.b.decode_groups(in.small, scales, true, 0.3f, in.out);
             return in.got(in.out);
         }},
        {"amax", [](Inputs& in) { return Values{in.b.amax(in.small)}; }},
        {"compare",
         [](Inputs& in) {
             const ErrorSums s = in.b.compare(in.x, in.y, 0.7f);
             return numbers({s.error2, s.x2, s.y2, s.xy});
         }},
        {"exponents",
         [](Inputs& in) {
             const ExponentHistogram h = in.b.exponents(in.small);
             return Values{static_cast<float>(h.zeros), static_cast<float>(h.bins[0]), static_cast<float>(h.bins[22])};
         }},
        {"matmul fp32.chain",
         [](Inputs& in) {
             in.b.matmul(product_of(in, *find_machine("fp32.chain")));
             return in.got(in.out);
         }},
        {"matmul sm90.wgmma.bf16",
         [](Inputs& in) {
             Matmul args = product_of(in, *find_machine("sm90.wgmma.bf16"));
             args.a.format = args.b.format = bf16;
             in.b.matmul(args);
             return in.got(in.out);
         }},
        {"matmul with a scale and a bias",
         [](Inputs& in) {
             Matmul args = product_of(in, *find_machine("fp32.pairwise"));
             args.out_scale = 0.3f;
             args.bias = in.beta.data();
             args.out_cast.format = bf16;
             in.b.matmul(args);
             return in.got(in.out);
         }},
        {"embedding", [](Inputs& in) { return in.b.embedding(in.words, in.wte, in.wpe, in.out), in.got(in.out); }},
        {"embedding_backward",
         [](Inputs& in) {
             Tensor dwte = in.b.empty({in.vocabulary, in.columns}), dwpe = in.b.empty({in.times, in.columns});
             in.b.embedding_backward(in.words, in.small, dwte, dwpe);
             return joined(in.got(dwte), in.got(dwpe));
         }},
        {"layernorm",
         [](Inputs& in) {
             in.b.layernorm(in.y, in.gamma, in.beta, 1e-5f, in.out, in.of_rows, in.more_of_rows);
             return joined(in.got(in.out), joined(in.got(in.of_rows), in.got(in.more_of_rows)));
         }},
        {"layernorm_backward",
         [](Inputs& in) {
             in.b.layernorm(in.y, in.gamma, in.beta, 1e-5f, in.other, in.of_rows, in.more_of_rows);
             in.b.layernorm_backward(in.y, in.gamma, in.of_rows, in.more_of_rows, in.small, in.out, in.of_columns,
                                     in.more_of_columns);
             return joined(in.got(in.out), joined(in.got(in.of_columns), in.got(in.more_of_columns)));
         }},
        {"rms_normalise",
         [](Inputs& in) {
             in.b.rms_normalise(in.y, 1e-5f, in.out, in.of_rows);
             return joined(in.got(in.out), in.got(in.of_rows));
         }},
        {"rms_normalise_backward",
         [](Inputs& in) {
             in.b.rms_normalise(in.y, 1e-5f, in.other, in.of_rows);
             in.b.rms_normalise_backward(in.y, in.of_rows, in.small, in.out);
             return in.got(in.out);
         }},
        {"multiply_columns",
         [](Inputs& in) { return in.b.multiply_columns(in.small, in.gamma, in.out), in.got(in.out); }},
        {"softmax_causal", [](Inputs& in) { return in.b.softmax_causal(in.y, in.out), in.got(in.out); }},
        {"softmax_causal_backward",
         [](Inputs& in) {
             in.b.softmax_causal(in.y, in.other);
             return in.b.softmax_causal_backward(in.other, in.small, in.out), in.got(in.out);
         }},
        {"log_softmax", [](Inputs& in) { return in.b.log_softmax(in.y, in.out), in.got(in.out); }},
        {"nll", [](Inputs& in) { return Values{in.b.nll(in.y, in.targets)}; }},
        {"cross_entropy", [](Inputs& in) { return numbers({in.b.cross_entropy(in.y, in.targets)}); }},
        {"nll_backward",
         [](Inputs& in) { return in.b.nll_backward(in.y, in.targets, 0x1p-126f, in.out), in.got(in.out); }},
        {"column_sum", [](Inputs& in) { return in.b.column_sum(in.small, in.of_columns), in.got(in.of_columns); }},
        {"sum_head_groups",
         [](Inputs& in) {
             const View heads{in.small.data(), {1, 4, 16, 64}};
             Tensor sum = in.b.empty({1, 2, 16, 64});
             return in.b.sum_head_groups(heads, sum), in.got(sum);
         }},
        {"rotate",
         [](Inputs& in) {
             const View values{in.small.data(), {1, 64, 64}}, direct{in.out.data(), {1, 64, 64}},
                 turned{in.other.data(), {1, 64, 64}};
             const ConstView cosines{in.y.data(), {64, 16}}, sines{in.y.data() + 1024, {64, 16}};
             in.b.rotate(values, cosines, sines, Turn::backward, direct, turned);
             return joined(in.got(in.out), in.got(in.other));
         }},
        {"sum_of_squares", [](Inputs& in) { return Values{in.b.sum_of_squares(in.y)}; }},
        {"adamw",
         [](Inputs& in) {
             Tensor p = uploaded(in.b, operands(Operands::plain, in.count, 11), {in.count});
             Tensor m = uploaded(in.b, Inputs::tiny(in.count), {in.count});
             Tensor v = uploaded(in.b, Values(static_cast<std::size_t>(in.count), 0x1p-130f), {in.count});
             UpdateStats stats;
             AdamW how{.step_size = 1e-3f, .decay = 1e-4f};
             in.b.adamw(p, ConstView{in.small.data(), {in.count}}, m, v, how, &stats);
             Values out = joined(in.got(p), joined(in.got(m), in.got(v)));
             append(out, stats.moved2), append(out, stats.wanted2), append(out, stats.moved_wanted);
             return out;
         }},
        {"adam",
         [](Inputs& in) {
             Values out;
             for (const adam::Kernel& kernel : adam::kernels) {
                 Tensor p = uploaded(in.b, operands(Operands::plain, in.count, 11), {in.count});
                 Tensor m = uploaded(in.b, Inputs::tiny(in.count), {in.count});
                 Tensor v = uploaded(in.b, Values(static_cast<std::size_t>(in.count), 0x1p-130f), {in.count});
                 UpdateStats stats;
                 const Adam how{.kernel = kernel, .lr = 1e-3, .weight_decay = 0.1, .bias_correction1 = 0.1};
                 in.b.adam(p, ConstView{in.small.data(), {in.count}}, m, v, how, &stats);
                 out = joined(out, joined(in.got(p), joined(in.got(m), in.got(v))));
                 append(out, stats.moved2), append(out, stats.wanted2), append(out, stats.moved_wanted);
             }
             return out;
         }},
        {"sgd", [](Inputs& in) {
             Tensor p = uploaded(in.b, operands(Operands::plain, in.count, 11), {in.count});
             Tensor momentum = uploaded(in.b, Inputs::tiny(in.count), {in.count});
             UpdateStats stats;
             in.b.sgd(p, ConstView{in.small.data(), {in.count}}, momentum, {.lr = 0.3f, .momentum = 0.9f}, &stats);
             Values out = joined(in.got(p), in.got(momentum));
             append(out, stats.moved2);
             return out;
         }}};
}

/// Returns every operation of Backend that does arithmetic.
const std::vector<Operation>& all_operations() {
    static const std::vector<Operation> list = [] {
        std::vector<Operation> operations = other_operations();
        for (const elementwise::Unary& f : elementwise::unaries) {
            operations.push_back(
                {f.name.data(), [f](Inputs& in) { return in.b.map(f, in.y, in.out), in.got(in.out); }});
            operations.push_back({f.name.data(), [f](Inputs& in) {
                                      return in.b.map_backward(f, in.y, in.small, in.out), in.got(in.out);
                                  }});
        }
        for (const elementwise::Binary& f : elementwise::binaries) {
            operations.push_back(
                {f.name.data(), [f](Inputs& in) { return in.b.map(f, in.small, in.y, in.out), in.got(in.out); }});
            operations.push_back(
                {f.name.data(), [f](Inputs& in) { return in.b.map(f, in.small, 0.3f, in.out), in.got(in.out); }});
        }
        return operations;
    }();
    return list;
}

/// Returns, by file name, the contents of the files that contain the rows, the manifest and the summary of a run. The
/// summary lacks the slowdown, which is a time.
std::map<std::string, std::string> files_of(const std::filesystem::path& directory) {
    std::map<std::string, std::string> files;
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv", "manifest.json"})
        files[name] = csv::read_text(directory / name);
    for (SummaryRow row : CsvReader<SummaryRow>(directory / "summary.csv").rows()) {
        row.slowdown.reset();  // a time
        csv::append_line(files["summary.csv"], row);
    }
    return files;
}

std::map<std::string, std::string> trained(const std::filesystem::path& directory, const char* kind) {
    Experiment experiment;
    experiment.model = {
        .kind = parse_model_kind(kind), .layers = 1, .width = 16, .heads = 2, .context = 8, .vocabulary = 24};
    experiment.options = {.steps = 6, .batch = 2, .warmup = 2, .eval_every = 3, .eval_batches = 1};
    // This token weight makes the gradients fp32 subnormals.
    experiment.options.token_weight = 0x1p-99;
    experiment.options.probe_every = 2, experiment.options.histogram_every = 2;
    for (const char* name : {"fp32", "amp-fp16", "fp8-tensorwise", "pure-bf16-sr"})
        experiment.policies.push_back(load_policy(name));
    experiment.directory = directory;
    experiment.force = true;
    CpuBackend backend(2);
    const std::atomic<bool> stop{false};
    REQUIRE(run_experiment(backend, experiment, {}, stop));
    const Log log = read_runs(std::span(&directory, 1));
    const Summary summary = summarise(log);
    write_summary(summary, directory / "summary.csv");
    return files_of(directory);
}

std::string gemm_rows() {
    CpuBackend backend(2);
    ThreadPool pool(2);
    GemmGrid grid;
    for (const char* name : {"fp32.chain", "sm90.wgmma.fp8"}) grid.machines.push_back(parse_machine(name));
    grid.formats = {{e4m3fn, e4m3fn}};
    grid.scalings = {OperandScaling::none, OperandScaling::row};
    grid.scales = {0x1p-60};
    grid.k = {96};
    std::string rows;
    run_gemm(backend, pool, grid, [&](const GemmRow& row) { csv::append_line(rows, row); });
    return rows;
}

}  // namespace

TEST_CASE("DefaultFloatModes sets the default modes, and its destructor restores the modes of the caller",
          "[float_modes]") {
    for (const FloatMode& mode : float_modes) {
        CAPTURE(std::string(mode.name));
        const InFloatMode in(mode);
        CHECK(is_set(mode));
        {
            const DefaultFloatModes defaults;
            CHECK(is_set({"", FE_TONEAREST, false, false}));
            const DefaultFloatModes again;
            CHECK(is_set({"", FE_TONEAREST, false, false}));
        }
        CHECK(is_set(mode));
    }
    CHECK(is_set({"", FE_TONEAREST, false, false}));
}

TEST_CASE("every backend operation gives the same bits in every floating-point mode and does not change the mode",
          "[float_modes]") {
    for (const auto& engine : backends({1, 3})) {
        Inputs in(*engine);
        for (const Operation& operation : all_operations()) {
            const Values wanted = operation.run(in);
            for (const FloatMode& mode : float_modes) {
                CAPTURE(engine->name(), operation.name, std::string(mode.name));
                Values got;
                bool kept = false;
                {
                    const InFloatMode inside(mode);
                    got = operation.run(in);
                    kept = is_set(mode);
                }
                CHECK(kept);
                CHECK(differences(got, wanted) == "");
            }
        }
    }
}

TEST_CASE("every backend operation leaves the upper halves of vector registers clean", "[float_modes]") {
    if (!tells_states_in_use()) SKIP_TEST("this CPU does not report which registers are in use");
    for (const auto& engine : backends({1})) {
        Inputs in(*engine);
        for (const Operation& operation : all_operations()) {
            CAPTURE(engine->name(), operation.name);
            clean_upper_halves();
            if (upper_halves_in_use()) SKIP_TEST("this CPU does not track the upper halves");
            operation.run(in);
            CHECK_FALSE(upper_halves_in_use());
        }
    }
}

TEST_CASE("scales of groups have the same bits in every floating-point mode", "[float_modes]") {
    for (const auto& engine : backends({1, 3})) {
        Inputs in(*engine);
        for (const char* rule : {"ao_fp8_power", "ao_fp8"}) {
            const ScaleRule* row = find_scale_rule(rule);
            if (row == nullptr) continue;
            ScaledCast how{.cast = {.format = e4m3fn}, .granularity = find_granularity("row"), .rule = row};
            const auto scaled = [&] {
                Tensor scales = in.b.empty({in.rows, 1});
                const ScaledResult result = in.b.scaled_cast(in.small, in.out, scales, how);
                Values values = joined(in.got(in.out), in.got(scales));
                append(values, result.decode_min), append(values, result.decode_max);
                return values;
            };
            const Values wanted = scaled();
            for (const FloatMode& mode : float_modes) {
                CAPTURE(engine->name(), rule, std::string(mode.name));
                Values got;
                {
                    const InFloatMode inside(mode);
                    got = scaled();
                }
                CHECK(differences(got, wanted) == "");
            }
        }
    }
}

TEST_CASE("a thread pool that was created in another mode computes in the default mode", "[float_modes]") {
    for (const FloatMode& mode : float_modes) {
        CAPTURE(std::string(mode.name));
        std::atomic<int> wrong{0};
        const InFloatMode inside(mode);
        ThreadPool pool(4);
        pool.run(64, [&](std::int64_t) {
            std::this_thread::yield();
            wrong += is_set({"", FE_TONEAREST, false, false}) ? 0 : 1;
        });
        CHECK(wrong == 0);
        CHECK(is_set(mode));
    }
}

TEST_CASE("a training run, its summary and a grid of products have the same bytes in every floating-point mode",
          "[float_modes]") {
    const auto folder = memory_folder() / "float_modes";
    for (const char* kind : {"gpt2", "llama"}) {
        const auto wanted = trained(folder, kind);
        for (const FloatMode& mode : float_modes) {
            std::map<std::string, std::string> got;
            {
                const InFloatMode inside(mode);
                got = trained(folder, kind);
            }
            for (const auto& [name, text] : wanted) {
                CAPTURE(kind, name, std::string(mode.name));
                CHECK(got[name] == text);
            }
        }
    }
    const std::string wanted = gemm_rows();
    for (const FloatMode& mode : float_modes) {
        CAPTURE(std::string(mode.name));
        std::string got;
        {
            const InFloatMode inside(mode);
            got = gemm_rows();
        }
        CHECK(got == wanted);
    }
    std::filesystem::remove_all(folder);
}

}  // namespace float_modes_test
