// SPDX-License-Identifier: Apache-2.0
// The matmul kernels, on the host, against the scalar definition.
#include "emulation/gpu/matmul.hpp"
#include "emulation/matmul_rules.hpp"
#include "tests/emulation/backends.hpp"
#include "tests/gpu/host_device.hpp"

#include <cmath>

using namespace macheps;
using namespace macheps::test;
using gpu::MatmulPath;
using gpu::MatrixUnits;

namespace {

/// How operands are made; each kind aims at another part of the kernels.
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
    bool extras = false;  ///< bias, scales of rows and columns, a cast: what an epilogue can do
};

std::int64_t blocks_of(std::int64_t k, std::int64_t block) { return (k + block - 1) / block; }

/// Shape, layout and extras of a matmul; transpositions, gaps and extras are drawn.
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

/// Memory of a HostDevice for as long as this lives.
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

/// "" when the kernels give the definition's bits and counts.
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
                       p.matrices(), gpu::to_string(gpu::matmul_path(units, architecture, x)), text);
}

constexpr Shape3 odd_shapes[] = {{1, 1, 1}, {33, 5, 17}, {3, 70, 40}, {65, 33, 31}, {5, 3, 0}};

}  // namespace

TEST_CASE("fp32.chain on the device gives the definition's bits at every tile size", "[gpu][matmul]") {
    gpu::HostDevice device;
    Maker make(1);
    const auto check = [&](const Shape3& shape, const Options& options) {
        const Problem p = problem(make, shape, options);
        CHECK(gpu::matmul_path(MatrixUnits::native, 90, p.args) == MatmulPath::fp32_chain);
        CHECK(mismatch(device, MatrixUnits::native, 90, p) == "");
    };
    for (const Draw draw : all_draws) {
        for (const Shape3& shape : odd_shapes) {
            for (const bool extras : {false, true}) check(shape, {.draw = draw, .extras = extras});
            check(shape, {.draw = draw, .batched = true, .extras = make.chance(2)});
        }
    }
    check({700, 650, 37}, {.draw = Draw::leader});    // 64 x 64
    check({1300, 1270, 19}, {.draw = Draw::leader});  // 128 x 128
    check({1300, 1270, 32}, {.draw = Draw::codes, .extras = true});
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
            CHECK(gpu::matmul_path(MatrixUnits::native, c.architecture, p.args) == MatmulPath::mma);
            CHECK(mismatch(device, MatrixUnits::native, c.architecture, p) == "");
        };
        for (const Draw draw : all_draws) {
            for (const Shape3& shape : odd_shapes) check(shape, {.draw = draw, .extras = make.chance(2)});
            check({20, 9, 50}, {.draw = draw, .batched = true});
        }
        for (const SliceJoin join :
             {SliceJoin::workspace, SliceJoin::rounded_workspace, SliceJoin::serial, SliceJoin::stream_k}) {
            check({9, 7, 300}, {.rule = {.join = join, .slices = 3, .slice_granule = 32}, .extras = true});
            check({9, 7, 40}, {.rule = {.join = join, .slices = 4}, .draw = Draw::leader});
        }
    }
}

TEST_CASE("machines on wgmma give the definition's bits, promotion and slices included", "[gpu][matmul]") {
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
            CHECK(gpu::matmul_path(MatrixUnits::native, 90, p.args) == MatmulPath::wgmma);
            CHECK(mismatch(device, MatrixUnits::native, 90, p) == "");
        };
        for (const Draw draw : all_draws) {
            check({33, 5, 17}, {.draw = draw, .extras = true});
            check({65, 70, 131}, {.draw = draw});
        }
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
    const auto check = [&](const char* machine, Format a, Format b, Promotion promotion, MatmulPath path) {
        Options options{.a = a, .b = b, .draw = Draw::leader};
        options.rule.machine = find_machine(machine);
        options.rule.promotion = promotion;
        if (promotion != Promotion::none) options.rule.promotion_interval = 64;
        // One hundred slices make the work for large tiles.
        options.rule.slices = 50;
        options.rule.slice_granule = 32;
        const Problem p = problem(make, {130, 33, 50 * 32}, options);
        CHECK(gpu::matmul_path(MatrixUnits::native, 90, p.args) == path);
        CHECK(mismatch(device, MatrixUnits::native, 90, p) == "");
    };
    check("sm90.wgmma.fp8", e4m3fn, e5m2, Promotion::none, MatmulPath::wgmma);
}
