// SPDX-License-Identifier: Apache-2.0
// Runs the matmul kernels of the GPU on the host, and compares them with the scalar definition.
#include "emulation/gpu/matmul/matmul.hpp"
#include "emulation/evidence/gpu/matrix/layout.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/emulation/backends.hpp"
#include "tests/gpu/host_device.hpp"

#include <cmath>

namespace matmul_test {

using namespace macheps;
using namespace macheps::test;
using gpu::MatrixUnits;

namespace {

/// Kinds of operands. Each kind tests a different part of the kernels.
enum class Draw { normal, codes, tiny, huge, sparse, leader };
constexpr Draw all_draws[] = {Draw::normal, Draw::codes, Draw::tiny, Draw::huge, Draw::sparse, Draw::leader};

class Maker {
  public:
    explicit Maker(std::uint32_t seed) : key_{.seed = 0x6d61746d, .step = seed} {}

    std::uint32_t bits() { return random_bits(key_, next_++); }
    int below(int n) { return static_cast<int>(bits() % static_cast<std::uint32_t>(n)); }
    bool chance(int n) { return below(n) == 0; }

    float draw(Draw how, const Format& f) {
        const int bottom = f.emin() - f.fraction_bits(), top = f.exponent_bits() == 8   ? 100
                                                               : f.exponent_bits() == 5 ? 15
                                                                                        : 2;
        const double significand = (chance(2) ? -1 : 1) * (1 + bits() * 0x1p-32);
        const auto rounded = [&](double x) {
            return quantize(f, static_cast<float>(x), Round::toward_zero, Overflow::saturate);
        };
        switch (how) {
            case Draw::codes:
                return f.bits == 32 ? bit_cast<float>(bits())
                                    : decode(f, std::uint64_t{bits() % (1u << f.bits)} << f.padding);
            case Draw::tiny:
                return rounded(std::ldexp(significand, bottom + below(f.fraction_bits() + 3)));
            case Draw::huge:
                return rounded(std::ldexp(significand, top / 2 + below(3)));
            case Draw::sparse:
                return chance(4) ? rounded(std::ldexp(significand, below(6) - 3)) : chance(2) ? -0.0f : 0.0f;
            case Draw::leader:
                return rounded(std::ldexp(significand, chance(8) ? 4 : -below(9)));
            default:
                return rounded(std::ldexp(significand, -below(4)));
        }
    }

  private:
    RngKey key_;
    std::uint64_t next_ = 0;
};

/// A matmul and the host's copy of its memory.
struct Problem {
    Matmul args{};
    std::vector<float> a, b, out, bias, a_scales, b_scales;

    std::int64_t matrices() const { return args.batch_outer * args.batch_inner; }
};

struct Shape3 {
    std::int64_t m, n, k;
};

struct Options {
    MatmulRule rule{};
    Format a = fp32, b = fp32;
    Draw draw = Draw::normal;
    bool batched = false;
    bool extras = false;  ///< bias, scales of rows and columns, and a cast, which is all that an epilogue can do
};

std::int64_t blocks_of(std::int64_t k, std::int64_t block) { return (k + block - 1) / block; }

/// Returns a matmul with this shape. Transpositions, gaps between rows and between matrices, and extras are random.
Problem problem(Maker& make, const Shape3& shape, const Options& options) {
    Problem p;
    Matmul& args = p.args;
    args.m = shape.m, args.n = shape.n, args.k = shape.k;
    args.rule = options.rule;
    if (options.batched) args.batch_outer = 2, args.batch_inner = 3;
    const auto operand = [&](MatmulOperand& x, std::vector<float>& values, Format format, std::int64_t rows,
                             std::int64_t columns) {
        x.format = decoded_format(*args.rule.machine, format);
        x.transposed = make.chance(2);
        const std::int64_t stored_rows = x.transposed ? columns : rows, width = x.transposed ? rows : columns;
        x.ld = make.chance(2) ? (width + 3) / 4 * 4 : width + make.below(3);
        x.stride_inner = options.batched ? stored_rows * x.ld + (make.chance(2) ? 0 : 4 + make.below(2)) : 0;
        x.stride_outer = options.batched ? (make.chance(4) ? 0 : x.stride_inner * args.batch_inner) : 0;
        values.resize(static_cast<std::size_t>(x.stride_outer * (args.batch_outer - 1) +
                                               x.stride_inner * (args.batch_inner - 1) + stored_rows * x.ld));
        for (float& v : values) v = make.draw(options.draw, format);
        x.data = values.data();
    };
    operand(args.a, p.a, options.a, args.m, args.k);
    operand(args.b, p.b, options.b, args.k, args.n);
    args.ld_out = args.n + make.below(3);
    args.stride_out_inner = args.m * args.ld_out + make.below(2);
    args.stride_out_outer = args.stride_out_inner * args.batch_inner;
    p.out.assign(static_cast<std::size_t>(args.stride_out_outer * args.batch_outer), 7.0f);
    const Machine& machine = *args.rule.machine;
    const auto scales = [&](MatmulOperand& x, std::vector<float>& values, std::int64_t outer) {
        const bool blocked = machine.has_scales() || definition::scales_in_promotion(args);
        if (!blocked && !(options.extras && make.chance(2))) return;
        const std::int64_t block = machine.has_scales() ? machine.scale_block : 128;
        const std::int64_t count = blocked ? max_of(blocks_of(args.k, block), std::int64_t{1}) : 1;
        for (std::int64_t i = 0; i < outer * count; ++i) {
            const bool power = machine.has_scales() && machine.scale.encoding == Encoding::power_of_two;
            float scale = power ? static_cast<float>(std::ldexp(1.0, make.below(12) - 6))
                                : decode(e4m3fn, 0x28 + static_cast<std::uint64_t>(make.below(32)));
            if (machine.has_scales() && make.chance(30)) {
                scale = decode(machine.scale, make.bits() & (power ? 0xff : 0x7f));
            }
            values.push_back(scale);
        }
        x.scales = {values.data(), 1, block, count, blocked ? 1 : 0};
    };
    scales(args.a, p.a_scales, args.m);
    scales(args.b, p.b_scales, args.n);
    if (options.extras) {
        if (make.chance(2)) args.out_scale = 0.75f;
        if (!rounds_slices(args.rule))
            args.rule.scale_order = std::array{ScaleOrder::joint, ScaleOrder::a_first,
                                               ScaleOrder::b_first}[static_cast<std::size_t>(make.below(3))];
        if (make.chance(2)) {
            for (std::int64_t j = 0; j < args.n; ++j) p.bias.push_back(make.draw(Draw::normal, fp32));
            args.bias = p.bias.data();
            args.bias_after_cast = make.chance(2);
        }
        const bool stochastic = make.chance(3) && !args.bias_after_cast && !rounds_slices(args.rule);
        args.out_cast = {.format = std::array{bf16, fp16, e4m3fn}[static_cast<std::size_t>(make.below(3))],
                         .round = stochastic ? Round::stochastic : Round::nearest_even,
                         .overflow = make.chance(2) ? Overflow::saturate : Overflow::nonsaturate,
                         .encode_scale = make.chance(2) ? 1.0f : 4.0f,
                         .key = {.seed = 3, .step = 1, .site = 5}};
    }
    return p;
}

struct Result {
    std::vector<float> out;
    Tally tally;
};

Result by_definition(const Problem& p) {
    Result r{p.out, {}};
    Matmul args = p.args;
    args.out = r.out.data();
    CpuBackend(1, Simd::scalar).matmul(args, &r.tally);
    return r;
}

/// Memory of a HostDevice, released by the destructor.
template <class T>
class OnDevice {
  public:
    OnDevice(gpu::HostDevice& device, const T* values, std::size_t count)
        : device_(device), data_(static_cast<T*>(device.allocate(count * sizeof(T)))) {
        device_.copy_in(data_, values, count * sizeof(T));
    }
    OnDevice(gpu::HostDevice& device, const std::vector<T>& values) : OnDevice(device, values.data(), values.size()) {}
    ~OnDevice() { device_.release(data_); }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    T* data() const { return data_; }

  private:
    gpu::HostDevice& device_;
    T* data_;
};

Result by_kernels(gpu::HostDevice& device, MatrixUnits units, int architecture, const Problem& p, bool counts = true) {
    const OnDevice a(device, p.a), b(device, p.b), out(device, p.out), bias(device, p.bias);
    const OnDevice a_scales(device, p.a_scales), b_scales(device, p.b_scales);
    const gpu::DeviceTally fresh;
    const OnDevice tally(device, &fresh, 1);
    Matmul args = p.args;
    args.a.data = a.data();
    args.b.data = b.data();
    args.out = out.data();
    if (args.bias != nullptr) args.bias = bias.data();
    if (args.a.scales.data != nullptr) args.a.scales.data = a_scales.data();
    if (args.b.scales.data != nullptr) args.b.scales.data = b_scales.data();
    gpu::matmul(device, units, architecture, args, counts ? tally.data() : nullptr);
    Result r{p.out, {}};
    device.copy_out(r.out.data(), out.data(), r.out.size() * sizeof(float));
    gpu::DeviceTally counted;
    device.copy_out(&counted, tally.data(), sizeof counted);
    r.tally = gpu::finish(counted);
    return r;
}

/// Returns the name of the kernels that a matmul uses.
std::string_view path_of(MatrixUnits units, int architecture, const Matmul& args) {
    return gpu::to_string(gpu::matmul_path(units, architecture, args));
}

/// Returns how bits and counts of the kernels differ from those of the definition, or an empty text if they are equal.
std::string mismatch(gpu::HostDevice& device, MatrixUnits units, int architecture, const Problem& p) {
    const Result want = by_definition(p), got = by_kernels(device, units, architecture, p);
    std::string text = differences(got.out, want.out);
    if (!(got.tally == want.tally)) text += "tallies differ\n";
    if (p.args.out_cast.is_identity() &&
        differences(by_kernels(device, units, architecture, p, false).out, want.out) != "") {
        text += "without a tally: different\n";
    }
    if (text.empty()) return text;
    const Matmul& x = p.args;
    return fmt::format("{} ({}x{}x{}, {}{}, formats {} {} bits, {} matrices, path {}): {}", to_string(x.rule), x.m, x.n,
                       x.k, x.a.transposed ? 't' : 'n', x.b.transposed ? 't' : 'n', x.a.format.bits, x.b.format.bits,
                       p.matrices(), path_of(units, architecture, x), text);
}

constexpr Shape3 odd_shapes[] = {{1, 1, 1}, {33, 5, 17}, {3, 70, 40}, {65, 33, 31}, {5, 3, 0}};

}  // namespace

TEST_CASE("fp32.chain on the device gives the definition's bits at every tile size", "[gpu][matmul]") {
    gpu::HostDevice device;
    Maker make(1);
    const auto check = [&](const Shape3& shape, const Options& options) {
        const Problem p = problem(make, shape, options);
        CHECK(path_of(MatrixUnits::native, 90, p.args) == "fp32_chain");
        CHECK(mismatch(device, MatrixUnits::native, 90, p) == "");
    };
    for (const Draw draw : all_draws) {
        for (const Shape3& shape : odd_shapes) {
            for (const bool extras : {false, true}) check(shape, {.draw = draw, .extras = extras});
            check(shape, {.draw = draw, .batched = true, .extras = make.chance(2)});
        }
    }
    check({700, 650, 37}, {.draw = Draw::leader});    // tiles of 64 x 64
    check({1300, 1270, 19}, {.draw = Draw::leader});  // tiles of 128 x 128
    check({1300, 1270, 32}, {.draw = Draw::codes, .extras = true});
}

TEST_CASE("elements of fragments are where the PTX ISA places them", "[gpu][matmul]") {
    // Checks every element of 16 bits with the formulas that the PTX ISA gives for m16n8k16.
    for (int lane = 0; lane < 32; ++lane) {
        const int group = lane >> 2, in_group = lane % 4;
        for (int i = 0; i < 8; ++i) {
            const int row = i % 4 < 2 ? group : group + 8;
            const int column = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
            const gpu::FragmentPlace a = gpu::mma_a_place(lane, i / 2);
            CHECK((a.row == row && a.column * 2 + i % 2 == column));
        }
        for (int i = 0; i < 4; ++i) {
            const int row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
            const gpu::FragmentPlace b = gpu::mma_b_place(lane, i / 2);
            CHECK((b.row * 2 + i % 2 == row && b.column == group));
            const gpu::FragmentPlace c = gpu::mma_c_place(lane, i);
            CHECK((c.row == (i < 2 ? group : group + 8) && c.column == in_group * 2 + (i & 1)));
        }
    }
    // In m64nNk, warp w has the rows 16 w to 16 w + 15. Checks places that were computed by hand, and compares with the
    // layouts that the instruction probes use.
    CHECK(gpu::wgmma_sum_place(37, 6).row == 25);
    CHECK(gpu::wgmma_sum_place(37, 6).column == 10);
    CHECK(gpu::wgmma_sum_place(127, 63).row == 63);
    CHECK(gpu::wgmma_sum_place(127, 63).column == 127);
    bool same = true;
    for (int thread = 0; thread < 128; ++thread) {
        for (int i = 0; i < 64; ++i) {
            const auto mine = gpu::wgmma_sum_place(thread, i);
            const auto theirs = evidence::output_place(thread, i);
            same = same && mine.row == theirs.row && mine.column == theirs.column;
        }
    }
    CHECK(same);
    constexpr std::uint32_t address = 0x4a50;
    const gpu::SharedOperand operand{address, 128 * 16, 128};
    CHECK(operand.descriptor() == evidence::shared_descriptor(address, 128));
    for (int row = 0; row < 128; ++row) {
        for (int k = 0; k < 32; ++k) {
            const auto theirs = address + static_cast<std::uint32_t>(evidence::shared_offset(128, row, k, 1, false));
            same = same && gpu::SharedOperand::place(operand.descriptor(), row, k) == theirs;
        }
    }
    CHECK(same);
}

TEST_CASE("machines on mma.sync give the definition's bits", "[gpu][matmul]") {
    struct Case {
        const char* machine;
        int architecture;
        Format format;
    };
    constexpr Case cases[] = {
        {"sm90.mma.fp16", 90, fp16}, {"sm90.mma.bf16", 90, bf16},       {"sm90.mma.tf32", 90, tf32},
        {"sm90.mma.tf32", 90, bf16}, {"sm90.mma.fp16.acc16", 90, fp16}, {"sm80.mma.fp16", 80, fp16},
        {"sm80.mma.bf16", 86, bf16}, {"sm80.mma.tf32", 80, fp32},       {"sm80.mma.fp16.acc16", 80, fp16},
        {"sm89.mma.fp16", 89, fp16}, {"sm90.wgmma.bf16", 90, bf16},     {"sm100.tcgen05.fp16", 90, fp16},
    };
    gpu::HostDevice device;
    Maker make(2);
    for (const Case& c : cases) {
        const auto check = [&](const Shape3& shape, Options options) {
            options.rule.machine = find_machine(c.machine);
            options.a = options.b = c.format;
            const Problem p = problem(make, shape, options);
            CHECK(path_of(MatrixUnits::native, c.architecture, p.args) == "mma");
            CHECK(mismatch(device, MatrixUnits::native, c.architecture, p) == "");
        };
        for (const Draw draw : all_draws) {
            check({33, 5, 17}, {.draw = draw, .extras = make.chance(2)});
            check({3, 40, 40}, {.draw = draw});
        }
        for (const Shape3& shape : odd_shapes) check(shape, {.draw = Draw::leader});
        check({20, 9, 50}, {.draw = Draw::codes, .batched = true});
        for (const SliceJoin join :
             {SliceJoin::workspace, SliceJoin::rounded_workspace, SliceJoin::serial, SliceJoin::stream_k}) {
            check({9, 7, 300}, {.rule = {.join = join, .slices = 3, .slice_granule = 32}, .extras = true});
            check({9, 7, 40}, {.rule = {.join = join, .slices = 4}, .draw = Draw::leader});
        }
    }
}

TEST_CASE("machines on wgmma give the definition's bits, also with promotion and with slices", "[gpu][matmul]") {
    struct Case {
        const char* machine;
        Format a, b;
    };
    constexpr Case cases[] = {{"sm90.wgmma.fp8", e4m3fn, e4m3fn},
                              {"sm90.wgmma.fp8", e4m3fn, e5m2},
                              {"sm90.wgmma.fp8", e5m2, e4m3fn},
                              {"sm90.wgmma.fp8", e5m2, e5m2},
                              {"sm90.wgmma.fp16.acc16", fp16, fp16}};
    gpu::HostDevice device;
    Maker make(3);
    for (const Case& c : cases) {
        const auto check = [&](const Shape3& shape, Options options) {
            options.rule.machine = find_machine(c.machine);
            options.a = c.a, options.b = c.b;
            const Problem p = problem(make, shape, options);
            // With fp16 operands and fp16 sums, mma.sync gives the same bits as wgmma. It is used here, because the
            // matmuls are small.
            CHECK(path_of(MatrixUnits::native, 90, p.args) == (c.a.bits == 8 ? "wgmma" : "mma"));
            CHECK(mismatch(device, MatrixUnits::native, 90, p) == "");
        };
        for (const Draw draw : all_draws) {
            check({33, 5, 33}, {.draw = draw, .extras = true});
        }
        check({65, 70, 131}, {.draw = Draw::leader});
        check({5, 3, 0}, {});
        check({20, 9, 50}, {.draw = Draw::leader, .batched = true});
        check({9, 7, 300}, {.rule = {.join = SliceJoin::serial, .slices = 3}, .draw = Draw::leader, .extras = true});
        if (c.a.bits != 8) continue;
        for (const Promotion promotion : {Promotion::add, Promotion::fma_joint, Promotion::fma_left}) {
            check({9, 7, 300}, {.rule = {.promotion = promotion, .promotion_interval = 128}, .draw = Draw::leader});
            check({9, 7, 300},
                  {.rule = {.promotion = promotion, .promotion_interval = 128, .slices = 2, .slice_granule = 128},
                   .draw = Draw::leader});
        }
        check({9, 7, 200}, {.rule = {.promotion = Promotion::add, .promotion_interval = 64}, .draw = Draw::leader});
        check({9, 7, 200}, {.rule = {.promotion = Promotion::add, .promotion_interval = 192}, .draw = Draw::codes});
    }
}

TEST_CASE("the large tiles of the matrix units give the definition's bits", "[gpu][matmul]") {
    gpu::HostDevice device;
    Maker make(4);
    /// Checks one kernel on a random matmul. run(memory, job) starts this kernel, even if matmul_path chooses another
    /// kernel.
    const auto check = [&](const char* machine, Format a, Format b, MatmulRule rule, const auto& run,
                           std::int64_t rows = 125) {
        rule.machine = find_machine(machine);
        const Problem p = problem(make, {rows, 125, 70}, {.rule = rule, .a = a, .b = b, .draw = Draw::leader});
        const Result want = by_definition(p);
        const OnDevice x(device, p.a), y(device, p.b), out(device, p.out);
        const OnDevice x_scales(device, p.a_scales), y_scales(device, p.b_scales);
        Matmul args = p.args;
        args.a.data = x.data();
        args.b.data = y.data();
        args.out = out.data();
        if (args.a.scales.data != nullptr) args.a.scales.data = x_scales.data();
        if (args.b.scales.data != nullptr) args.b.scales.data = y_scales.data();
        gpu::PlainMemory<gpu::HostDevice> memory(device);
        run(memory, gpu::matmul_job(args, nullptr));
        std::vector<float> got = p.out;
        device.copy_out(got.data(), out.data(), got.size() * sizeof(float));
        INFO(machine << " " << a.bits << " " << b.bits << " bits");
        CHECK(differences(got, want.out) == "");
    };
    const auto mma = [&]<gpu::MmaType type>(std::integral_constant<gpu::MmaType, type>) {
        return [&](auto& memory, const gpu::MatmulJob& job) { gpu::run_mma<type, 4, 4, 2, 4>(device, memory, job); };
    };
    const auto wgmma = [&]<gpu::WgmmaType type, bool promoted>(std::integral_constant<gpu::WgmmaType, type>,
                                                               std::bool_constant<promoted>) {
        return [&](auto& memory, const gpu::MatmulJob& job) {
            gpu::run_wgmma<type, promoted, 2, 128>(device, memory, job);
        };
    };
    using gpu::MmaType;
    using gpu::WgmmaType;
    check("sm90.mma.fp16", fp16, fp16, {}, mma(std::integral_constant<MmaType, MmaType::fp16>{}));
    check("sm90.mma.bf16", bf16, bf16, {}, mma(std::integral_constant<MmaType, MmaType::bf16>{}));
    check("sm90.mma.tf32", tf32, tf32, {}, mma(std::integral_constant<MmaType, MmaType::tf32>{}));
    check("sm90.mma.fp16.acc16", fp16, fp16, {}, mma(std::integral_constant<MmaType, MmaType::fp16_acc16>{}));
    const std::false_type once{};
    const std::true_type promoted{};
    check("sm90.wgmma.fp16", fp16, fp16, {}, wgmma(std::integral_constant<WgmmaType, WgmmaType::fp16>{}, once));
    check("sm90.wgmma.bf16", bf16, bf16, {}, wgmma(std::integral_constant<WgmmaType, WgmmaType::bf16>{}, once));
    check("sm90.wgmma.tf32", tf32, tf32, {}, wgmma(std::integral_constant<WgmmaType, WgmmaType::tf32>{}, once));
    check("sm90.wgmma.fp16.acc16", fp16, fp16, {},
          wgmma(std::integral_constant<WgmmaType, WgmmaType::fp16_acc16>{}, once));
    check("sm90.wgmma.fp8", e4m3fn, e5m2, {}, wgmma(std::integral_constant<WgmmaType, WgmmaType::e4m3_e5m2>{}, once));
    check("sm90.wgmma.fp8", e4m3fn, e4m3fn, {.promotion = Promotion::add, .promotion_interval = 64},
          wgmma(std::integral_constant<WgmmaType, WgmmaType::e4m3_e4m3>{}, promoted));
    check("sm90.wgmma.fp8", e4m3fn, e4m3fn, {.promotion = Promotion::fma_left, .promotion_interval = 128},
          wgmma(std::integral_constant<WgmmaType, WgmmaType::e4m3_e4m3>{}, promoted));
    check(
        "sm90.wgmma.bf16", bf16, bf16, {},
        [&](auto& memory, const gpu::MatmulJob& job) {
            gpu::run_wgmma<WgmmaType::bf16, false, 2, 128, 2>(device, memory, job);
        },
        254);
}

TEST_CASE("a negative sum that underflows gives +0 in a matrix unit and -0 in a chain, for every length k",
          "[gpu][matmul]") {
    struct Case {
        const char* machine;
        Format format;
        float a, b;  ///< a product that underflows
    };
    const Case cases[] = {{"sm90.wgmma.fp16.acc16", fp16, -0x1p-24f, 0x1p-24f},
                          {"sm90.mma.bf16", bf16, -0x1p-78f, 0x1p-77f},
                          {"sm90.mma.tf32", tf32, -0x1p-78f, 0x1p-77f},
                          {"sm80.mma.tf32", tf32, -0x1p-78f, 0x1p-77f},
                          {"fp32.chain", fp32, -0x1p-78f, 0x1p-77f}};
    gpu::HostDevice device;
    for (const Case& c : cases) {
        const std::uint32_t wanted = c.format == fp32 ? 0x80000000u : 0;
        for (const std::int64_t k : {1, 8, 16, 17, 24, 33, 70}) {
            const Machine& machine = *find_machine(c.machine);
            Maker make(6);
            Problem p = problem(make, {3, 2, k}, {.rule = {.machine = &machine}, .a = c.format, .b = c.format});
            std::fill(p.a.begin(), p.a.end(), c.a);
            std::fill(p.b.begin(), p.b.end(), c.b);
            CAPTURE(c.machine, k);
            CHECK(bit_cast<std::uint32_t>(by_definition(p).out[0]) == wanted);
            for (const MatrixUnits units : {MatrixUnits::native, MatrixUnits::emulated}) {
                CHECK(mismatch(device, units, machine.arch == "sm_90" ? 90 : 80, p) == "");
            }
        }
    }
}

TEST_CASE("a matmul uses a matrix unit only if the unit gives the machine's bits", "[gpu][matmul]") {
    struct Case {
        const char* machine;
        Format a, b;
        int architecture;
        std::string_view path;
        const char* why;
    };
    constexpr Case cases[] = {
        {"sm80.mma.fp16", fp16, fp16, 90, "emulated", "one fraction bit less, two steps of eight terms"},
        {"sm90.mma.fp16", fp16, fp16, 80, "emulated", "one fraction bit more, one step of 16 terms"},
        {"sm90.mma.fp16", fp16, fp16, 0, "emulated", "the GPU is unknown"},
        {"sm90.mma.fp16", fp16, fp16, 100, "mma", "the same numbers on sm_100"},
        {"sm90.wgmma.fp16.acc16", fp16, fp16, 90, "mma", "the same numbers; the matmul is small"},
        {"sm90.mma.fp16.acc16", fp16, fp16, 90, "mma", ""},
        {"sm100.tcgen05.fp16.acc16", fp16, fp16, 90, "emulated", "another zero exponent"},
        {"sm90.mma.fp8", e4m3fn, e4m3fn, 90, "emulated", "two fp16 steps"},
        {"sm90.wgmma.fp8", e4m3fn, e5m2, 90, "wgmma", ""},
        {"sm90.wgmma.fp8", e4m3fn, e5m2, 89, "emulated", "no wgmma"},
        {"sm89.mma.fp8", e4m3fn, e5m2, 90, "emulated", "16 terms per step, not 32"},
        {"sm100.tcgen05.nvfp4", e2m1fn, e2m1fn, 90, "emulated", "an instruction of another GPU"},
        {"sm100.tcgen05.bf16", bf16, bf16, 90, "mma", "the same numbers"},
        {"cdna3.mfma.fp16", fp16, fp16, 90, "definition", "another model"},
        {"fp32.chain", bf16, bf16, 90, "fp32_chain", ""},
        {"exact", bf16, bf16, 90, "definition", ""},
    };
    for (const Case& c : cases) {
        Matmul args{.m = 64, .n = 64, .k = 64};
        args.rule.machine = find_machine(c.machine);
        args.a.format = c.a;
        args.b.format = c.b;
        CAPTURE(c.machine, c.architecture, c.why);
        CHECK(path_of(MatrixUnits::native, c.architecture, args) == c.path);
        if (c.path == "mma" || c.path == "wgmma") {
            CHECK(path_of(MatrixUnits::emulated, c.architecture, args) == "emulated");
        }
    }
    Matmul args{.m = 4096, .n = 4096, .k = 64};
    args.rule.machine = find_machine("sm90.mma.bf16");
    args.a.format = args.b.format = bf16;
    CHECK(path_of(MatrixUnits::native, 90, args) == "wgmma");  // the faster unit
}

TEST_CASE("every machine that is emulated on the device gives the definition's bits", "[gpu][matmul]") {
    gpu::HostDevice device;
    Maker make(5);
    for (const Machine* machine : all_machines) {
        if (machine->operands.contains(fp64) || machine->addend != machine->result) continue;
        std::vector<Format> formats;
        for (const Format& f : FormatSet::known) {
            if (machine->operands.contains(f)) formats.push_back(f);
        }
        const auto pick = [&] {
            return formats[static_cast<std::size_t>(make.below(static_cast<int>(formats.size())))];
        };
        const auto check = [&](const Shape3& shape, Options options) {
            options.rule.machine = machine;
            options.a = pick(), options.b = pick();
            CHECK(mismatch(device, MatrixUnits::emulated, 90, problem(make, shape, options)) == "");
        };
        for (const Draw draw : all_draws) check({5, 7, 1 + make.below(100)}, {.draw = draw});
        check({3, 2, 0}, {});
        check({2, 70, 65}, {.draw = Draw::leader, .extras = !machine->reads_values});
        check({9, 4, 20}, {.draw = Draw::normal, .batched = true});
        if (is_order_of_summation(*machine) || machine->has_scales() || machine->result != fp32) continue;
        for (const Promotion promotion : {Promotion::add, Promotion::fma_joint, Promotion::fma_left}) {
            check({5, 7, 300}, {.rule = {.promotion = promotion, .promotion_interval = 128}, .draw = Draw::leader});
        }
        check({5, 7, 300}, {.rule = {.slices = 3}, .draw = Draw::leader});
    }
}

TEST_CASE("the tiled emulation supports NVIDIA's machines", "[gpu][matmul]") {
    for (const Machine* machine : all_machines) {
        const bool tiled = machine->sum.model == SumModel::truncated || machine->sum.model == SumModel::scaled_groups ||
                           (machine->sum.model == SumModel::through_fp16 && machine->result == fp32);
        for (const Format& f : FormatSet::known) {
            if (!tiled || machine->addend != machine->result || !machine->operands.contains(f)) continue;
            Matmul args{.m = 1, .n = 1, .k = 1};
            args.a.format = args.b.format = f;
            args.rule.machine = machine;
            CAPTURE(machine->name, f.bits);
            CHECK(path_of(MatrixUnits::emulated, 90, args) == "emulated");
            CHECK(path_of(MatrixUnits::native, 0, args) == "emulated");
        }
    }
}

}  // namespace matmul_test
