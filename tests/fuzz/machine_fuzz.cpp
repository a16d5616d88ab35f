// SPDX-License-Identifier: Apache-2.0
// Compares every engine of the matrix units with the scalar reference: chains of instructions with any addend, and
// whole matmuls under any rule. The first bytes of an input choose the machine, the shape and the rule. The other bytes
// are codes of the operands. If an input is short, its codes repeat with some bits flipped.
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/matmul/machine/machine_kernel.hpp"
#include "emulation/cpu/matmul/matmul.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/matmul.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <string>
#include <vector>

using namespace macheps;

namespace {

struct Codes {
    std::vector<std::uint32_t> pool;

    explicit Codes(fuzz::Bytes& bytes) {
        while (bytes.left() > 0 && pool.size() < 2048) pool.push_back(bytes.take<std::uint32_t>());
        if (pool.empty()) pool.push_back(0x3c00);
    }
    /// Returns numbers of `format`. If `off_grid`, the numbers are arbitrary fp32 numbers within the range of `format`,
    /// which need not be numbers of `format`.
    std::vector<float> draw(const Format& format, std::int64_t count, std::uint32_t turn, bool off_grid = false) const {
        std::vector<float> values(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto lap = static_cast<std::uint32_t>((i + turn) / pool.size());
            const std::uint32_t bits = pool[(i + turn) % pool.size()] ^ lap * 0x9e3779b9u;
            const std::uint64_t mask = (std::uint64_t{1} << format.container_bits()) - 1;
            const float any = bit_cast<float>(bits);
            const float top = decode(format, format.max_finite_code() << format.padding);
            const bool usable = any != any ? format.has_nan() : any >= -top && any <= top;
            values[i] = off_grid && usable ? any : decode(format, bits & mask);
        }
        return values;
    }
};

Format any_operand(fuzz::Bytes& bytes, const Machine& machine) {
    std::vector<Format> formats;
    for (const Format& f : FormatSet::known) {
        if (machine.operands.contains(f)) formats.push_back(f);
    }
    return formats[static_cast<std::size_t>(bytes.below(static_cast<int>(formats.size())))];
}

void compare(const std::vector<float>& want, const std::vector<float>& got, const Machine& machine, Simd level,
             const char* what) {
    for (std::size_t i = 0; i < want.size(); ++i) {
        const auto w = bit_cast<std::uint32_t>(want[i]), g = bit_cast<std::uint32_t>(got[i]);
        if (w == g) continue;
        char bits[64];
        std::snprintf(bits, sizeof bits, ": element %zu is %08x, not %08x", i, g, w);
        fuzz::require(false, std::string(what) + " on " + std::string(machine.name) + ", " +
                                 std::string(simd_name(level)) + bits);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Bytes bytes(data, size);
    const Machine& machine =
        *all_machines[static_cast<std::size_t>(bytes.below(static_cast<int>(all_machines.size())))];
    if (machine.addend != machine.result || machine.result == fp64) return 0;
    Matmul args{.m = 1 + bytes.below(5), .n = 1 + bytes.below(70), .k = bytes.below(140)};
    args.rule.machine = &machine;
    args.a.format = any_operand(bytes, machine);
    args.b.format = any_operand(bytes, machine);
    const int flags = bytes.take<std::uint8_t>(), rules = bytes.take<std::uint8_t>();
    args.a.transposed = (flags & 1) != 0;
    args.b.transposed = (flags & 2) != 0;
    const bool off_grid = (flags & 4) != 0;
    args.a.ld = args.a.transposed ? args.m : args.k;
    args.b.ld = args.b.transposed ? args.k : args.n;
    // If the machine itself takes scales, they are numbers of its scale format. Otherwise the scales are fp32 numbers,
    // which a promotion or the matmul as a whole applies.
    const bool scaled = machine.has_scales() || (flags & 8) != 0;
    const std::int64_t block = machine.has_scales() ? machine.scale_block : 128;

    const Codes codes(bytes);
    const std::vector<float> a = codes.draw(args.a.format, args.m * args.k, 0, off_grid);
    const std::vector<float> b = codes.draw(args.b.format, args.n * args.k, 1, off_grid);
    const std::vector<float> c = codes.draw(machine.addend, args.m * args.n, 2);
    const std::int64_t blocks = (args.k + block - 1) / block + 1;
    const Format scale_format = machine.has_scales() ? machine.scale : fp32;
    const std::vector<float> sa = codes.draw(scale_format, args.m * blocks, 3),
                             sb = codes.draw(scale_format, args.n * blocks, 4);
    args.a.data = a.data();
    args.b.data = b.data();
    if (scaled) {
        args.a.scales = {sa.data(), 1, block, blocks, 1};
        args.b.scales = {sb.data(), 1, block, blocks, 1};
    }

    const bool is_unit = !machine.instruction.empty() && machine.sum.model != SumModel::fma_chain;
    for (const Simd level : available_simd()) {
        if (level == Simd::scalar || !is_unit || args.k == 0) continue;
        std::vector<float> want = c, got = c;
        machine_chain(Simd::scalar, args, want.data());
        machine_chain(level, args, got.data());
        compare(want, got, machine, level, "a chain");
    }

    args.rule.promotion = static_cast<Promotion>(rules & 3);
    if (machine.has_scales() && args.rule.promotion != Promotion::none) args.rule.promotion = Promotion::add;
    args.rule.promotion_interval = args.rule.promotion == Promotion::none ? 0 : 128;
    args.rule.slices = 1 + ((rules >> 2) & 3);
    args.rule.join = static_cast<SliceJoin>((rules >> 4) & 3);
    args.rule.scale_order = static_cast<ScaleOrder>((rules >> 6) % 3);
    args.out_scale = (flags & 16) != 0 ? 0.5f : 1.0f;
    args.out_cast.format = (flags & 32) != 0 ? bf16 : fp32;
    args.bias = (flags & 64) != 0 ? c.data() : nullptr;
    args.bias_after_cast = (flags & 128) != 0;
    if (static_cast<std::int64_t>(c.size()) < args.n) args.bias = nullptr;
    std::vector<float> want(c.size()), got(c.size());
    args.ld_out = args.n;
    args.out = want.data();
    ThreadPool one(1), two(2);
    matmul(Simd::scalar, one, args);
    for (const Simd level : available_simd()) {
        if (level == Simd::scalar) continue;
        args.out = got.data();
        matmul(level, (rules & 1) != 0 ? two : one, args);
        compare(want, got, machine, level, "a matmul");
    }
    return 0;
}
