// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/rules.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <tuple>

namespace macheps::evidence {

namespace {

/// Returns whether two machines compute the same sums, whatever their names are.
bool sums_alike(const Machine& x, const Machine& y) {
    const auto numbers = [](const Machine& m) {
        const SumRule& s = m.sum;
        return std::tuple(m.k, s.model, s.terms, s.fraction_bits, s.delivery, s.zero_exponent, s.zero_factor_counts,
                          s.underflow_keeps_sign, s.zeros_keep_sign, s.normalises_addend);
    };
    return numbers(x) == numbers(y) && x.addend == y.addend && x.result == y.result;
}

/// Returns all machines. If an instruction also has a shape with a smaller k, the machine of the instruction is
/// followed by a copy for this shape.
const std::deque<Machine>& instructions() {
    static const std::deque<Machine> list = [] {
        std::deque<Machine> all;
        for (const Machine* machine : all_machines) {
            all.push_back(*machine);
            if (machine->small_k == 0) continue;
            Machine small = *machine;
            small.k = machine->small_k;
            small.sum.terms = std::min(small.sum.terms, small.k);
            all.push_back(small);
        }
        return all;
    }();
    return list;
}

std::string instruction_name(const Machine& machine) {
    const Machine* row = find_machine(machine.name);
    return row->k == machine.k ? std::string(machine.name) : fmt::format("{}.k{}", machine.name, machine.k);
}

bool fits(const Machine& machine, const LibraryProblem& p) {
    if (machine.has_scales() || machine.instruction == "mfma" || !(machine.addend == machine.result)) return false;
    if (!(machine.result == p.accumulator)) return false;
    if (is_order_of_summation(machine)) return true;
    if (p.a == fp32) return machine.operands.contains(tf32);  // detects a library that silently uses tf32
    return machine.operands.contains(p.a) && machine.operands.contains(p.b);
}

/// Group of machines that compute the same sums.
struct Summing {
    const Machine* machine;
    std::vector<const Machine*> all;
};

std::vector<Summing> summings(const LibraryProblem& p) {
    std::vector<Summing> groups;
    for (const Machine& machine : instructions()) {
        if (!fits(machine, p)) continue;
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const Summing& g) {
            return sums_alike(*g.machine, machine) && decoded_format(*g.machine, p.a) == decoded_format(machine, p.a) &&
                   decoded_format(*g.machine, p.b) == decoded_format(machine, p.b);
        });
        if (same == groups.end()) {
            groups.push_back({&machine, {&machine}});
        } else {
            same->all.push_back(&machine);
        }
    }
    return groups;
}

struct Promoted {
    Promotion promotion = Promotion::none;
    int interval = 0;
};

std::vector<Promoted> promotions(const Machine& machine, const LibraryProblem& p, int slices) {
    const bool blocks = p.scaling == LibraryScaling::blocks_1x1 || p.scaling == LibraryScaling::blocks_1x2;
    if (blocks) return {{Promotion::fma_joint, 128}, {Promotion::fma_left, 128}};
    std::vector<Promoted> list{{}};
    if (!is_fp8(p.a) || is_order_of_summation(machine)) return list;
    list.push_back({Promotion::add, 128});
    if (slices > 1) return list;
    for (const int interval : {32, 64, 256, 512}) list.push_back({Promotion::add, interval});
    return list;
}

std::vector<ScaleOrder> scale_orders(const LibraryProblem& p) {
    if (p.scaling != LibraryScaling::tensor && p.scaling != LibraryScaling::outer) return {ScaleOrder::joint};
    return {ScaleOrder::joint, ScaleOrder::a_first, ScaleOrder::b_first};
}

struct Sliced {
    SliceJoin join = SliceJoin::workspace;
    int slices = 1, granule = MatmulRule{}.slice_granule;
};

/// Returns the ways to divide k into slices and to join their sums. For each number of slices, the join that the
/// library reports comes first. A sum without slices comes last.
std::vector<Sliced> slicings(const LibraryProblem& p, const LibraryAlgorithm& algorithm) {
    std::vector<Sliced> list;
    std::vector<int> counts{algorithm.slices};
    if (algorithm.slices == 0) counts = {2, 3, 4, 5, 6, 8};
    for (const int slices : counts) {
        if (slices < 2) continue;
        std::vector<SliceJoin> joins{SliceJoin::workspace, SliceJoin::rounded_workspace, SliceJoin::serial,
                                     SliceJoin::stream_k};
        const SliceJoin reported = algorithm.reduction == Reduction::in_place      ? SliceJoin::serial
                                   : algorithm.reduction == Reduction::output_type ? SliceJoin::rounded_workspace
                                                                                   : SliceJoin::workspace;
        std::iter_swap(joins.begin(), std::find(joins.begin(), joins.end(), reported));
        const auto granules = is_fp8(p.a) ? std::array{128, 64, 32, 256, 16, 8} : std::array{64, 32, 128, 256, 16, 8};
        for (const SliceJoin join : joins) {
            for (const int granule : granules) list.push_back({join, slices, granule});
        }
    }
    list.push_back({});
    return list;
}

bool is_possible(const MatmulRule& rule, const LibraryProblem& p) {
    const bool blocks = p.scaling == LibraryScaling::blocks_1x1 || p.scaling == LibraryScaling::blocks_1x2;
    const bool by_factor = p.scaling == LibraryScaling::outer ||
                           (p.scaling == LibraryScaling::tensor && rule.scale_order != ScaleOrder::joint);
    const ScaleLayout scales = blocks      ? ScaleLayout{ScaleLayout::Kind::blocks, 128, fp32}
                               : by_factor ? ScaleLayout{ScaleLayout::Kind::outer, 0, fp32}
                                           : ScaleLayout{};
    try {
        require_possible(rule,
                         {.a = p.a, .b = p.b, .a_scales = scales, .b_scales = scales, .out_cast = {.format = p.out}},
                         "library");
    } catch (const Error&) {
        return false;
    }
    return true;
}

/// Returns whether the named rule is the same as `rule`, a rule for `machine`.
bool is_called(const NamedMatmulRule& named, const MatmulRule& rule, const Machine& machine) {
    MatmulRule same = named.rule;
    if (same.machine != nullptr) {
        if (instruction_name(machine) != same.machine->name) return false;
        same.machine = rule.machine;
        same.slice_granule = rule.slice_granule;
        // The promotion interval matters only if there is a promotion.
        if (named.takes_interval && rule.promotion == Promotion::add) {
            same.promotion = rule.promotion;
            same.promotion_interval = rule.promotion_interval;
        }
        return same == rule;
    }
    return rule.slices > 1 && rule.join == same.join && rule.promotion == Promotion::none &&
           rule.scale_order == ScaleOrder::joint;
}

std::string in_words(MatmulRule rule, const Machine& machine) {
    rule.machine = &machine;
    std::string text = to_string(rule);
    text.replace(0, machine.name.size(), instruction_name(machine));
    return text;
}

std::vector<std::string> names_of(const MatmulRule& rule, const Summing& group) {
    std::vector<std::string> names;
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        const bool is_own = std::any_of(group.all.begin(), group.all.end(),
                                        [&](const Machine* machine) { return is_called(named, rule, *machine); });
        if (is_own) names.emplace_back(named.name);
    }
    // Put the names of cuBLASLt rules first, because readers look for them.
    std::stable_partition(names.begin(), names.end(), [](const std::string& n) { return n.starts_with("cublaslt."); });
    names.push_back(in_words(rule, *group.machine));
    for (const Machine* machine : group.all) {
        if (machine != group.machine) names.push_back(instruction_name(*machine));
    }
    return names;
}

/// Returns the rule that gives the same sums for the product b^T a^T. The returned rule applies the scales of the two
/// operands in the opposite order.
MatmulRule exchanged(MatmulRule rule) {
    if (rule.scale_order == ScaleOrder::joint) return rule;
    rule.scale_order = rule.scale_order == ScaleOrder::a_first ? ScaleOrder::b_first : ScaleOrder::a_first;
    return rule;
}

LibraryCandidate candidate_of(const MatmulRule& rule, const Summing& group) {
    LibraryCandidate candidate{.names = names_of(rule, group), .rule = rule};
    if (rule.scale_order == ScaleOrder::joint) return candidate;
    for (const std::string& name : names_of(exchanged(rule), group))
        candidate.names.push_back(name + std::string(exchanged_words));
    return candidate;
}

/// Returns a list with the candidate. If exchanging the operands (b^T a^T) can change its sums, the list also has the
/// candidate with exchanged operands.
std::vector<LibraryCandidate> with_roles(LibraryCandidate candidate) {
    if (candidate.rule.promotion != Promotion::fma_left) return {std::move(candidate)};
    LibraryCandidate other = candidate;
    other.is_exchanged = true;
    for (std::string& name : other.names) name += exchanged_words;
    return {std::move(candidate), std::move(other)};
}

std::vector<LibraryCandidate> with_conversions(const LibraryProblem& p, LibraryCandidate candidate) {
    if (!p.whole_words) return {candidate};
    std::vector<LibraryCandidate> list;
    for (const Round round : {Round::nearest_even, Round::nearest_away}) {
        LibraryCandidate rounded = candidate;
        rounded.converts = true;
        rounded.conversion = round;
        for (std::string& name : rounded.names) {
            name += round == Round::nearest_even ? ", operands rounded to tf32 by nearest_even" : ", by nearest_away";
        }
        list.push_back(std::move(rounded));
    }
    for (std::string& name : candidate.names) name += ", low 13 bits cut off";
    list.insert(list.begin(), std::move(candidate));
    return list;
}

}  // namespace

std::vector<LibraryCandidate> library_candidates(const LibraryProblem& p, const LibraryAlgorithm& algorithm) {
    std::vector<LibraryCandidate> list;
    for (const Sliced& sliced : slicings(p, algorithm)) {
        for (const Summing& group : summings(p)) {
            for (const Promoted& promoted : promotions(*group.machine, p, sliced.slices)) {
                for (const ScaleOrder order : scale_orders(p)) {
                    const MatmulRule rule{.machine = group.machine,
                                          .promotion = promoted.promotion,
                                          .promotion_interval = promoted.interval,
                                          .join = sliced.join,
                                          .slices = sliced.slices,
                                          .slice_granule = sliced.granule,
                                          .scale_order = order};
                    // No kernel of a library divides a pairwise or an exact sum into slices.
                    const bool is_odd =
                        is_order_of_summation(*group.machine) && group.machine->sum.model != SumModel::fma_chain;
                    if ((is_odd && sliced.slices > 1) || !is_possible(rule, p)) continue;
                    for (const LibraryCandidate& roles : with_roles(candidate_of(rule, group))) {
                        for (LibraryCandidate& c : with_conversions(p, roles)) list.push_back(std::move(c));
                    }
                }
            }
        }
    }
    return list;
}

LibrarySample library_sample(const LibraryProblem& p, const LibraryOperands& x, std::vector<std::int64_t> rows,
                             std::vector<std::int64_t> columns) {
    LibrarySample s{.rows = std::move(rows), .columns = std::move(columns), .problem = p, .operands = {.name = x.name}};
    s.problem.m = static_cast<std::int64_t>(s.rows.size());
    s.problem.n = static_cast<std::int64_t>(s.columns.size());
    const auto append = [](std::vector<float>& to, const std::vector<float>& from, std::int64_t row,
                           std::int64_t length) {
        to.insert(to.end(), from.begin() + row * length, from.begin() + (row + 1) * length);
    };
    for (const std::int64_t i : s.rows) append(s.operands.a, x.a, i, p.k);
    for (std::int64_t t = 0; t < p.k; ++t) {
        for (const std::int64_t j : s.columns) s.operands.b.push_back(x.b[static_cast<std::size_t>(t * p.n + j)]);
    }
    const bool is_1d = p.scaling == LibraryScaling::blocks_1x1, is_2d = p.scaling == LibraryScaling::blocks_1x2;
    if (is_1d || is_2d || p.scaling == LibraryScaling::outer) {
        const std::int64_t blocks = is_1d || is_2d ? blocks_of_128(p.k) : 1;
        for (const std::int64_t i : s.rows) append(s.operands.a_scales, x.a_scales, i, blocks);
        for (const std::int64_t j : s.columns) append(s.operands.b_scales, x.b_scales, is_2d ? j / 128 : j, blocks);
        if (is_2d) s.problem.scaling = LibraryScaling::blocks_1x1;  // a sample may cut blocks of columns
    } else {
        s.operands.a_scales = x.a_scales;
        s.operands.b_scales = x.b_scales;
    }
    return s;
}

namespace {

/// Transposes a matrix. Shapes: values [rows, columns], the result [columns, rows].
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
    std::vector<float> result(values.size());
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j)
            result[static_cast<std::size_t>(j * rows + i)] = values[static_cast<std::size_t>(i * columns + j)];
    }
    return result;
}

/// Returns the equivalent sample of the product b^T a^T.
LibrarySample exchanged(const LibrarySample& sample) {
    LibrarySample other = sample;
    const LibraryProblem& p = sample.problem;
    std::swap(other.problem.m, other.problem.n);
    std::swap(other.problem.a, other.problem.b);
    other.operands.a = transposed(sample.operands.b, p.k, p.n);
    other.operands.b = transposed(sample.operands.a, p.m, p.k);
    std::swap(other.operands.a_scales, other.operands.b_scales);
    return other;
}

}  // namespace

std::vector<float> candidate_results(Backend& host, const LibraryCandidate& candidate, const LibrarySample& sample) {
    if (candidate.is_exchanged) {
        LibraryCandidate plain = candidate;
        plain.is_exchanged = false;
        const LibrarySample other = exchanged(sample);
        return transposed(candidate_results(host, plain, other), other.problem.m, other.problem.n);
    }
    const LibraryProblem& p = sample.problem;
    const LibraryOperands& x = sample.operands;
    std::vector<float> a_scales = x.a_scales, b_scales = x.b_scales, out(static_cast<std::size_t>(p.m * p.n));
    Matmul args;
    args.m = p.m;
    args.n = p.n;
    args.k = p.k;
    args.rule = candidate.rule;
    args.ld_out = p.n;
    // fp8 outputs saturate, and 16-bit outputs do not.
    args.out_cast = {.format = p.out, .overflow = is_fp8(p.out) ? Overflow::saturate : Overflow::nonsaturate};
    // A tf32 instruction cuts the low bits of fp32 words. decoded_format() gives the format that remains.
    args.a = {.ld = p.k, .format = decoded_format(*candidate.rule.machine, p.a)};
    args.b = {.ld = p.n, .format = decoded_format(*candidate.rule.machine, p.b)};
    switch (p.scaling) {
        case LibraryScaling::tensor:
            if (candidate.rule.scale_order == ScaleOrder::joint) {
                args.out_scale = x.a_scales[0] * x.b_scales[0];
                a_scales.clear();
            }
            break;  // one factor for all rows, and one for all columns: strides of 0
        case LibraryScaling::outer:
            args.a.scales.outer_stride = args.b.scales.outer_stride = 1;
            break;
        case LibraryScaling::blocks_1x1:
            for (OperandScales* scales : {&args.a.scales, &args.b.scales}) {
                *scales = {.k_block = 128, .outer_stride = blocks_of_128(p.k), .k_stride = 1};
            }
            break;
        default:
            break;
    }
    const auto uploaded = [&host](const std::vector<float>& values) {
        Tensor t = host.empty({static_cast<std::int64_t>(values.size())});
        host.upload(values, t.view());
        return t;
    };
    const auto converted = [&](std::vector<float> values) {
        for (float& v : values) v = decode(tf32, encode(tf32, v, candidate.conversion, Overflow::nonsaturate));
        return values;
    };
    const Tensor ta = uploaded(candidate.converts ? converted(x.a) : x.a);
    const Tensor tb = uploaded(candidate.converts ? converted(x.b) : x.b);
    const Tensor sa = uploaded(a_scales), sb = uploaded(b_scales), result = host.empty({p.m, p.n});
    args.a.data = ta.data();
    args.b.data = tb.data();
    args.out = result.data();
    if (!a_scales.empty()) {
        args.a.scales.data = sa.data();
        args.b.scales.data = sb.data();
    }
    host.matmul(args);
    host.download(result.view(), out);
    return out;
}

}  // namespace macheps::evidence
