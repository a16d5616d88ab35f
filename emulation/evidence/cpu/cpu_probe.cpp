// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/cpu/cpu_probe.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/host/float_environment.hpp"
#include "core/profile_table.hpp"
#include "emulation/evidence/operands/mutants.hpp"
#include "emulation/evidence/operands/tile.hpp"
#include "emulation/machine/instruction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

namespace macheps::evidence {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string name_of(const CpuUnit& unit) { return fmt::format("{}.{}", unit.instr, unit.qual); }

/// The classes of operand_class.hpp, and the additional class `boundary`: sums near 2^-126, where the ways to flush
/// subnormal results differ.
constexpr int boundary = operand_classes, unit_classes = operand_classes + 1;

std::string class_name(int cls) {
    return cls == boundary ? "boundary" : evidence::name_of(static_cast<OperandClass>(cls));
}

/// Number of results that are kept of each class as candidates for a trace. They come from the first tiles of the
/// class.
constexpr std::uint64_t kept_of_class = 4096;

/// Compares one dot-product unit with its machine, or with a wrong model of the unit.
class UnitProbe {
  public:
    UnitProbe(const CpuUnit& unit, std::uint64_t seed, const std::string& mutant = {})
        : unit_(unit),
          instruction_(find_instruction(unit.arch, unit.instr, unit.qual)),
          expected_{.name = {}, .rule = instruction_.machine->sum},
          shape_(operand_shape(unit.m, unit.n, unit.k, 1, instruction_.a, instruction_.b, instruction_.machine->sum,
                               id_of(unit))),
          seed_(seed) {
        const auto size = [](int rows, int columns) { return static_cast<std::size_t>(rows * columns); };
        a_.resize(size(unit.m, unit.k));
        b_.resize(size(unit.k, unit.n));
        c_.resize(size(unit.m, unit.n));
        d_ = c_;
        for (const Mutant& wrong : mutants(instruction_.machine->sum, unit.k)) {
            if (wrong.name == mutant) expected_ = wrong;
        }
    }

    /// Runs tiles first .. first + tiles - 1 of a class, counts results and mismatches in `row`, and describes the
    /// first mismatch there.
    void run(int cls, std::uint64_t first, std::uint64_t tiles, ProbeResult& row, Candidates* candidates) {
        for (std::uint64_t tile = first; tile < first + tiles; ++tile) {
            cls == boundary ? make_boundary(tile) : make_operands(static_cast<OperandClass>(cls), tile);
            std::fill(d_.begin(), d_.end(), ~std::uint64_t{0});  // unwritten elements must not pass as results
            unit_.run(a_.data(), b_.data(), c_.data(), d_.data());
            compare(cls, row, candidates);
        }
    }

    const Machine& machine() const { return *instruction_.machine; }
    std::uint64_t results_of_tile() const { return c_.size(); }
    std::uint64_t tiles_of(int cls) const {
        if (cls == boundary) return machine().operands.contains(bf16) ? ~std::uint64_t{0} : 0;
        const bool has_last = static_cast<OperandClass>(cls) == OperandClass::exhaustive;
        return has_last ? Tile::exhaustive_tiles(shape_) : ~std::uint64_t{0};
    }
    TraceForm form() const {
        return {.arch = std::string(unit_.arch),
                .instr = std::string(unit_.instr),
                .qual = std::string(unit_.qual),
                .a = instruction_.a,
                .b = instruction_.b,
                .c = machine().result,
                .any_nan = !machine().fixes_nan()};
    }

  private:
    static std::uint32_t id_of(const CpuUnit& unit) {
        std::uint32_t hash = 2166136261u;
        for (const char letter : name_of(unit)) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
        return hash;
    }

    void make_operands(OperandClass cls, std::uint64_t number) {
        const Tile tile(shape_, cls, seed_, number);
        rows_.clear();
        columns_.clear();
        for (int i = 0; i < unit_.m; ++i) {
            for (int k = 0; k < unit_.k; ++k) {
                const std::uint64_t code = tile.a(i, k);
                a_[static_cast<std::size_t>(i * unit_.k + k)] = code;
                rows_.push_back(factor_of_code(instruction_.a, code));
            }
        }
        for (int j = 0; j < unit_.n; ++j) {
            for (int k = 0; k < unit_.k; ++k) {
                const std::uint64_t code = tile.b(k, j);
                b_[static_cast<std::size_t>(k * unit_.n + j)] = code;
                columns_.push_back(factor_of_code(instruction_.b, code));
            }
        }
        const bool opposite = tile.addend_is_opposite();
        for (int i = 0; i < unit_.m; ++i) {
            for (int j = 0; j < unit_.n; ++j) {
                c_[static_cast<std::size_t>(i * unit_.n + j)] =
                    opposite ? tile.addend_opposite(i, j, model(machine().sum, i, j, 0)) : tile.c(i, j);
            }
        }
    }

    /// Makes a tile in which each output has at most two nonzero products. They are at the same two indices along k for
    /// all outputs. The first product is near 2^-126 or zero, the second is between 2^-153 and 2^-147, and the addend c
    /// is zero or near 2^-126.
    void make_boundary(std::uint64_t number) {
        Dice dice(seed_, shape_.id, number, 31u << 27);
        // If k > 2 (AMX), both indices are even or both are odd, so that the two products are added in the same chain.
        const int k = unit_.k, first = k == 2 ? dice.between(0, 1) : dice.between(0, k - 3);
        const int second = k == 2 ? 1 - first : first + 2;
        const bool has_first = dice.chance(60), has_addend = dice.chance(70) || !has_first;
        const int tiny = dice.between(-78, -74);
        const auto digits = [&] { return dice.chance(60) ? Digits::none : Digits::few; };
        std::fill(a_.begin(), a_.end(), 0);
        std::fill(b_.begin(), b_.end(), 0);
        for (int line = 0; line < unit_.m; ++line) {
            const auto row = static_cast<std::size_t>(line * k);
            const auto at = [&](int product) { return static_cast<std::size_t>(product * unit_.n + line); };
            if (has_first) {
                a_[row + static_cast<std::size_t>(first)] = make_code(bf16, dice.chance(50), -63, digits(), dice);
                b_[at(first)] = make_code(bf16, false, -63, digits(), dice);
            }
            a_[row + static_cast<std::size_t>(second)] = make_code(bf16, dice.chance(50), -75, digits(), dice);
            b_[at(second)] = make_code(bf16, false, tiny, digits(), dice);
        }
        rows_.clear();
        columns_.clear();
        for (const std::uint64_t code : a_) rows_.push_back(factor_of_code(bf16, code));
        for (int j = 0; j < unit_.n; ++j)
            for (int p = 0; p < k; ++p)
                columns_.push_back(factor_of_code(bf16, b_[static_cast<std::size_t>(p * unit_.n + j)]));
        for (std::uint64_t& c : c_) {
            const std::uint64_t least = fp32.min_normal_code() + static_cast<std::uint64_t>(dice.between(0, 2));
            c = has_addend ? least | (dice.chance(50) ? fp32.sign_bit() : 0) : 0;
        }
    }

    std::uint64_t model(const SumRule& rule, int i, int j, std::uint64_t c) const {
        return matrix_instruction(rule, unit_.k, rows_.data() + i * unit_.k, columns_.data() + j * unit_.k, c);
    }

    bool same(std::uint64_t x, std::uint64_t y) const {
        const Format& f = machine().result;
        return x == y || (!machine().fixes_nan() && matrix_unit::is_nan_code(f, x) && matrix_unit::is_nan_code(f, y));
    }

    TraceRow trace_row(int cls, int i, int j) const {
        TraceRow row{.cls = class_name(cls)};
        for (int k = 0; k < unit_.k; ++k) {
            row.a.push_back(a_[static_cast<std::size_t>(i * unit_.k + k)]);
            row.b.push_back(b_[static_cast<std::size_t>(k * unit_.n + j)]);
        }
        row.c = c_[static_cast<std::size_t>(i * unit_.n + j)];
        row.d = d_[static_cast<std::size_t>(i * unit_.n + j)];
        return row;
    }

    void compare(int cls, ProbeResult& row, Candidates* candidates) {
        const bool keep = candidates != nullptr && row.trials < kept_of_class;
        for (int i = 0; i < unit_.m; ++i) {
            for (int j = 0; j < unit_.n; ++j) {
                const auto at = static_cast<std::size_t>(i * unit_.n + j);
                const std::uint64_t want = model(expected_.rule, i, j, c_[at]);
                const bool right = same(want, d_[at]);
                if (!right && row.mismatches++ == 0) {
                    row.note =
                        fmt::format("the model{} gives {}; {}", expected_.name.empty() ? "" : " " + expected_.name,
                                    hex_digits(machine().result, want), row_text(form(), trace_row(cls, i, j)));
                }
                if (keep || (candidates != nullptr && !right)) candidates->rows.push_back(trace_row(cls, i, j));
            }
        }
        row.trials += results_of_tile();
    }

    const CpuUnit& unit_;
    Instruction instruction_;
    Mutant expected_;
    OperandShape shape_;
    std::uint64_t seed_;
    std::vector<std::uint64_t> a_, b_, c_, d_;
    std::vector<Factor> rows_, columns_;
};

ProbeResult row_without_results(std::string_view kind, std::string name, std::string_view model, Verdict verdict,
                                std::string note) {
    return {.kind = std::string(kind),
            .instruction = std::move(name),
            .operands = {},
            .model = std::string(model),
            .verdict = verdict,
            .note = std::move(note)};
}

/// Returns, for each class, the number of tiles to run. If `most` is 0, this is every tile of the class. Otherwise, the
/// total is the smallest number of tiles that have at least `most` results. It is divided equally among the classes; if
/// a class has fewer tiles than its share, the other classes get the rest of the share.
std::vector<std::uint64_t> tiles_of_classes(const UnitProbe& probe, std::uint64_t most) {
    std::vector<std::uint64_t> tiles(unit_classes);
    for (int cls = 0; cls < unit_classes; ++cls) tiles[static_cast<std::size_t>(cls)] = probe.tiles_of(cls);
    if (most == 0) return tiles;
    std::vector<std::size_t> by_size(tiles.size());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t x, std::size_t y) { return tiles[x] < tiles[y]; });
    std::uint64_t rest = (most + probe.results_of_tile() - 1) / probe.results_of_tile();
    for (std::size_t i = 0; i < by_size.size(); ++i) {
        const std::uint64_t left = by_size.size() - i;
        std::uint64_t& mine = tiles[by_size[i]];
        mine = std::min(mine, (rest + left - 1) / left);
        rest -= mine;
    }
    return tiles;
}

void run_unit(const CpuUnit& unit, double seconds, std::uint64_t most, const std::string& mutant,
              const ProbeOptions& options, const ProbeSink& sink) {
    const DefaultFloatModes modes;
    const std::string name = name_of(unit) + (unit.feature.find("128") == std::string_view::npos ? "" : " (128 bits)");
    UnitProbe probe(unit, options.seed, mutant);
    if (!unit.present()) {
        return sink(row_without_results("cpu", name, probe.machine().name, Verdict::absent,
                                        fmt::format("this CPU does not have {}", unit.feature)));
    }
    if (unit.run == nullptr) {
        return sink(
            row_without_results("cpu", name, probe.machine().name, Verdict::declined,
                                fmt::format("this CPU has {}, but this program has no probe for it", unit.feature)));
    }
    Candidates candidates{.form = probe.form(),
                          .machine = std::string(probe.machine().name),
                          .sass = {},
                          .seed = options.seed,
                          .rows = {}};
    const std::vector<std::uint64_t> shares = tiles_of_classes(probe, most);
    for (int cls = 0; cls < unit_classes; ++cls) {
        const std::uint64_t end = shares[static_cast<std::size_t>(cls)];
        if (end == 0) continue;
        const auto start = std::chrono::steady_clock::now();
        ProbeResult row{.kind = "cpu",
                        .instruction = name,
                        .operands = class_name(cls),
                        .model = std::string(probe.machine().name),
                        .note = {}};
        for (std::uint64_t at = 0; at < end;) {
            const std::uint64_t step = std::min<std::uint64_t>(16, end - at);
            probe.run(cls, at, step, row, options.record ? &candidates : nullptr);
            at += step;
            if (seconds_since(start) > seconds / unit_classes) break;
        }
        row.verdict = row.mismatches == 0 ? Verdict::equal : Verdict::differs;
        row.seconds = seconds_since(start);
        sink(row);
    }
    if (options.record && unit.feature.find("128") == std::string_view::npos) options.record(candidates);
}

void run_conversion(const CpuConversion& conversion, double seconds, std::uint64_t most, const ProbeOptions& options,
                    const ProbeSink& sink) {
    const DefaultFloatModes modes;
    const std::string name = fmt::format("{}.{}", conversion.instr, conversion.qual);
    const std::string model = fmt::format("codec {}", conversion.profile);
    if (!conversion.present()) {
        return sink(row_without_results("convert", name, model, Verdict::absent,
                                        fmt::format("this CPU does not have {}", conversion.feature)));
    }
    const Profile profile = options.fault ? Profile{} : profile_named(conversion.profile);
    constexpr std::uint64_t all = std::uint64_t{1} << 32;
    const std::uint64_t wanted = most == 0 ? all : std::min(all, most);
    const auto start = std::chrono::steady_clock::now();
    ProbeResult row{.kind = "convert", .instruction = name, .operands = {}, .model = model, .note = {}};
    for (std::uint64_t first = 0; first < wanted; first += 16) {
        std::uint32_t x[16];
        std::uint16_t codes[16] = {};
        // Because the multiplier is odd, the products modulo 2^32 visit all 2^32 inputs. Because it is large,
        // consecutive inputs are far apart and every exponent occurs early.
        for (std::uint32_t i = 0; i < 16; ++i) x[i] = (static_cast<std::uint32_t>(first) + i) * 0x9e3779b1u;
        conversion.run(x, codes);
        for (int i = 0; i < 16; ++i) {
            const std::uint64_t want = encode64(profile, conversion.to, bit_cast<float>(x[i]), conversion.round);
            if (codes[i] != want && row.mismatches++ == 0)
                row.note = fmt::format("{:08x} gives {:04x}, but the codec gives {:04x}", x[i], codes[i], want);
        }
        row.trials += 16;
        if (first % 65536 == 0 && seconds_since(start) > seconds) break;
    }
    row.operands = row.trials == all ? "all 2^32" : "spread";
    row.verdict = row.mismatches == 0 ? Verdict::equal : Verdict::differs;
    row.seconds = seconds_since(start);
    sink(row);
}

bool has_mutant(const CpuUnit& unit, const std::string& name) {
    const Instruction instruction = find_instruction(unit.arch, unit.instr, unit.qual);
    const std::vector<Mutant> wrong = mutants(instruction.machine->sum, unit.k);
    return std::any_of(wrong.begin(), wrong.end(), [&](const Mutant& mutant) { return mutant.name == name; });
}

}  // namespace

std::vector<ProbeGroup> cpu_probe_groups(std::uint64_t most, const std::string& mutant) {
    ProbeGroup sums{.kind = "cpu"}, conversions{.kind = "convert"};
    std::string known;
    for (const CpuUnit& unit : cpu_units()) {
        const std::string name = name_of(unit);
        if (!mutant.empty() && !has_mutant(unit, mutant)) {
            for (const Mutant& wrong :
                 mutants(find_instruction(unit.arch, unit.instr, unit.qual).machine->sum, unit.k)) {
                if (known.find(wrong.name) == std::string::npos) known += (known.empty() ? "" : ", ") + wrong.name;
            }
            continue;
        }
        if (std::find(sums.instructions.begin(), sums.instructions.end(), name) == sums.instructions.end())
            sums.instructions.push_back(name);
    }
    if (!mutant.empty() && sums.instructions.empty()) {
        throw Error({.what = fmt::format("unknown wrong model '{}'", mutant),
                     .where = "--mutant",
                     .fix = "use one of " + known,
                     .exit = Exit::usage});
    }
    sums.run = [most, mutant](const std::string& instruction, double seconds, const ProbeOptions& options,
                              const ProbeSink& sink) {
        for (const CpuUnit& unit : cpu_units()) {
            if (name_of(unit) == instruction) run_unit(unit, seconds, most, mutant, options, sink);
        }
    };
    for (const CpuConversion& conversion : cpu_conversions())
        conversions.instructions.push_back(fmt::format("{}.{}", conversion.instr, conversion.qual));
    conversions.run = [most](const std::string& instruction, double seconds, const ProbeOptions& options,
                             const ProbeSink& sink) {
        for (const CpuConversion& conversion : cpu_conversions()) {
            if (fmt::format("{}.{}", conversion.instr, conversion.qual) == instruction)
                run_conversion(conversion, seconds, most, options, sink);
        }
    };
    if (!mutant.empty()) return {sums};
    return {sums, conversions};
}

std::vector<LiveCheck> check_on_this_cpu(const Machine& machine) {
    const DefaultFloatModes modes;
    std::vector<LiveCheck> checks;
    for (const CpuUnit& unit : cpu_units()) {
        if (find_instruction(unit.arch, unit.instr, unit.qual).machine != &machine) continue;
        if (unit.run == nullptr || !unit.present()) continue;
        UnitProbe probe(unit, 1);
        ProbeResult row;
        const std::uint64_t tiles = unit.k > 2 ? 2 : 8;
        for (int cls = 0; cls < unit_classes; ++cls) {
            probe.run(cls, 0, std::min(tiles, probe.tiles_of(cls)), row, nullptr);
        }
        checks.push_back({name_of(unit), row.trials, row.mismatches});
    }
    return checks;
}

}  // namespace macheps::evidence
