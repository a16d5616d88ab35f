// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/fit.hpp"

#include "core/codec.hpp"
#include "core/rng.hpp"
#include "emulation/machine/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace macheps::evidence {

namespace {

/// Sequence of random numbers.
class Draws {
  public:
    explicit Draws(std::uint64_t seed) : seed_(seed) {}
    std::uint32_t word() {
        if (at_ % 4 == 0) block_ = random_block({.seed = seed_, .step = 0, .site = 77}, at_ / 4);
        return block_.word[at_++ % 4];
    }
    int between(int low, int high) {
        return low + static_cast<int>(std::uint64_t{word()} * static_cast<std::uint64_t>(high - low + 1) >> 32);
    }

  private:
    std::uint64_t seed_, at_ = 0;
    PhiloxBlock block_{};
};

std::size_t place(int row, int width, int column) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + static_cast<std::size_t>(column);
}

/// Returns the rules that a library may follow. They differ in the step: fma, the addition of a rounded product or, for
/// bf16, the addition of a pair of products by an x86 instruction. They also differ in the order: one chain, blocks of
/// k or, with fma only, several chains that take the terms in turn.
std::vector<MatmulRule> candidates(const std::vector<std::pair<int, std::vector<int>>>& ends, const Format& format) {
    std::vector<const Machine*> machines{&fp32_chain, find_machine("fp32.unfused")};
    if (format == bf16) {
        machines.push_back(find_machine("x86.vdpbf16ps"));
        machines.push_back(find_machine("x86.amx.bf16"));
    }
    std::vector<KBlocks> blocks{{}};
    std::vector<int> limits;
    for (const auto& [k, list] : ends) {
        if (list.size() > 1) limits.push_back(list.front());
    }
    std::sort(limits.begin(), limits.end());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    for (const int limit : limits) {
        blocks.push_back({.limit = limit});
        blocks.push_back({.limit = limit, .split = KBlocks::Split::halve_all});
        for (const int multiple : {1, 2, 4, 8, 16, 32}) {
            for (const bool greater : {false, true}) {
                blocks.push_back({.limit = limit,
                                  .split = KBlocks::Split::halve_last,
                                  .multiple = multiple,
                                  .greater_half = greater});
            }
        }
    }
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        const bool is_new = named.rule.has_blocks() && named.rule.blocks.limit != 0 &&
                            std::find(blocks.begin(), blocks.end(), named.rule.blocks) == blocks.end();
        if (is_new) blocks.push_back(named.rule.blocks);
    }
    std::vector<MatmulRule> rules;
    for (const Machine* machine : machines) {
        for (const KBlocks& each : blocks) rules.push_back({.machine = machine, .blocks = each});
    }
    for (const int lanes : {2, 4, 8, 16}) rules.push_back({.machine = &fp32_chain, .lanes = lanes});
    return rules;
}

/// Returns the ends of the blocks into which a rule divides k.
std::vector<int> ends_of(const MatmulRule& rule, int k) {
    std::vector<int> ends;
    for (std::int64_t p = 0; p < k;) ends.push_back(static_cast<int>(p += rule.blocks.length(k, k - p)));
    return ends;
}

bool has_order(const MatmulRule& rule, const std::vector<std::pair<int, std::vector<int>>>& ends) {
    if (rule.lanes > 1) return true;  // masks cannot detect lanes; the comparison of bits decides
    for (const auto& [k, list] : ends) {
        if (list.empty()) continue;
        // A pair of products is one step, so masks at odd positions cannot locate the end of a block exactly.
        const std::vector<int> want = ends_of(rule, k);
        if (want.size() != list.size()) return false;
        for (std::size_t i = 0; i < want.size(); ++i) {
            if (std::abs(want[i] - list[i]) >= std::max(rule.machine->k, 2)) return false;
        }
    }
    return true;
}

std::uint64_t differing(const std::vector<float>& x, const std::vector<float>& y, std::size_t& first) {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const bool same =
            bit_cast<std::uint32_t>(x[i]) == bit_cast<std::uint32_t>(y[i]) || (x[i] != x[i] && y[i] != y[i]);
        if (!same && wrong++ == 0) first = i;
    }
    return wrong;
}

/// Random shape of a product for the comparison of a library with a rule. k may cross the ends of blocks, and m and n
/// need not be multiples of a tile. Each shape has more than 10^6 multiply-adds, because libraries use other kernels
/// for smaller products.
struct AcidShape {
    int m, n, k;
    std::uint64_t seed;
    LibraryJob job(const Format& format) const { return cancelling_job(m, n, k, format, seed); }
};

AcidShape acid_shape(int number, const std::vector<int>& limits, std::uint64_t seed) {
    Draws draw(seed * 1000 + static_cast<std::uint64_t>(number));
    for (;;) {
        const int m = draw.between(16, 129), n = draw.between(16, 129);
        int k = draw.between(33, 2999);
        if (!limits.empty() && number % 3 == 0) {
            const int limit = limits[static_cast<std::size_t>(draw.between(0, static_cast<int>(limits.size()) - 1))];
            k = std::clamp(limit * draw.between(1, 3) + draw.between(-1, 1), 33, 2999);
        }
        if (static_cast<std::int64_t>(m) * n * k > 1'000'000) return {m, n, k, draw.word()};
    }
}

/// Returns a shape for the choice of the best rule. It has many rows, and its columns fill whole tiles. Nearly every
/// rule claims such a shape.
AcidShape plain_shape(int number, const std::vector<int>& limits, std::uint64_t seed) {
    AcidShape shape = acid_shape(number, limits, seed);
    shape.m = 96 + shape.m % 34;
    shape.n = 48 * (1 + shape.n % 2);
    shape.k = std::clamp(shape.k, 340, 2944);
    return shape;
}

bool is_of_cpu(const NamedMatmulRule& named) { return !named.versions.empty(); }

/// Returns the named rule of a CPU library that equals `rule`, or nullptr.
const NamedMatmulRule* named_of(const MatmulRule& rule) {
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        MatmulRule same = named.rule;
        same.bias_first = rule.bias_first;
        if (is_of_cpu(named) && same == rule) return &named;
    }
    return nullptr;
}

std::string block_words(const MatmulRule& rule) {
    return rule.blocks.limit == 0 ? "all of k" : std::to_string(rule.blocks.limit);
}

/// Describes a rule that has no name: returns the name of the most similar named rule, and the differences in words.
std::string nearest_to(const MatmulRule& rule) {
    const NamedMatmulRule* nearest = nullptr;
    int least = 1 << 30;
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        if (!is_of_cpu(named)) continue;
        const int far = std::abs(named.rule.blocks.limit - rule.blocks.limit) +
                        (named.rule.machine == rule.machine ? 0 : 1000) + (named.rule.lanes == rule.lanes ? 0 : 1000) +
                        (named.rule.blocks.split == rule.blocks.split ? 0 : 100);
        if (far < least) least = far, nearest = &named;
    }
    if (nearest == nullptr) return {};
    std::vector<std::string> differences;
    if (nearest->rule.machine != rule.machine)
        differences.push_back(
            fmt::format("the machine ({} instead of {})", rule.machine->name, nearest->rule.machine->name));
    if (nearest->rule.lanes != rule.lanes)
        differences.push_back(
            fmt::format("the number of alternating chains ({} instead of {})", rule.lanes, nearest->rule.lanes));
    if (nearest->rule.blocks.limit != rule.blocks.limit)
        differences.push_back(
            fmt::format("the terms of a block ({} instead of {})", block_words(rule), block_words(nearest->rule)));
    if (differences.empty()) differences.emplace_back("the lengths of the last blocks");
    return fmt::format("{}, which differs in {}", nearest->name, fmt::join(differences, "; "));
}

/// Compares the library with the best rule on random shapes, and counts the results in `finding`. Shapes that the best
/// rule does not claim are counted separately. On such a shape, the library is also compared with the other named rules
/// that claim the shape.
void acid_test(const LibraryMultiply& multiply, const RuleMultiply& rule_multiply, const Format& format,
               const std::vector<int>& limits, int shapes, std::uint64_t seed, LibraryExamination& finding) {
    const NamedMatmulRule* const best = named_of(finding.best);
    const auto claims = [](const NamedMatmulRule* named, const AcidShape& shape) {
        return named == nullptr || named->claims == nullptr || named->claims(shape.m, shape.n, shape.k);
    };
    constexpr int max_draws = 100;  // number of shapes that may be drawn per shape that is compared
    for (int number = 0; finding.shapes < shapes && number < max_draws * shapes; ++number) {
        const AcidShape shape = acid_shape(number, limits, seed);
        const bool is_claimed = claims(best, shape);
        std::vector<const NamedMatmulRule*> asked;
        for (const NamedMatmulRule& other : all_matmul_rules()) {
            if (is_claimed || &other == best || other.claims == nullptr || !reads(*other.rule.machine, format))
                continue;
            if (!claims(&other, shape)) continue;
            const auto row = std::find_if(finding.others.begin(), finding.others.end(),
                                          [&](const OtherRule& each) { return each.name == other.name; });
            const bool is_open = row == finding.others.end() || (row->equal == row->shapes && row->shapes < shapes);
            if (is_open) asked.push_back(&other);
        }
        if (!is_claimed && finding.outside >= shapes && asked.empty()) continue;
        const LibraryJob job = shape.job(format);
        const std::vector<float> got = multiply(job);
        std::size_t first = 0;
        for (const NamedMatmulRule* other : asked) {
            auto row = std::find_if(finding.others.begin(), finding.others.end(),
                                    [&](const OtherRule& each) { return each.name == other->name; });
            if (row == finding.others.end()) row = finding.others.insert(row, {.name = other->name});
            ++row->shapes;
            row->equal += differing(rule_multiply(other->rule, job, format), got, first) == 0 ? 1 : 0;
        }
        if (!is_claimed && finding.outside >= shapes) continue;
        const std::vector<float> want = rule_multiply(finding.best, job, format);
        const std::uint64_t wrong = differing(want, got, first);
        if (!is_claimed) {
            ++finding.outside;
            finding.outside_equal += wrong == 0 ? 1 : 0;
            continue;
        }
        if (wrong != 0 && finding.wrong == 0) {
            finding.first_wrong =
                fmt::format("{}x{}x{}: {} instead of {}", job.m, job.n, job.k, got[first], want[first]);
        }
        finding.outputs += got.size();
        finding.wrong += wrong;
        ++finding.shapes;
        finding.equal += wrong == 0 ? 1 : 0;
    }
    std::erase_if(finding.others, [](const OtherRule& each) { return each.equal < each.shapes; });
}

}  // namespace

const char* to_string(LibraryVerdict verdict) {
    constexpr const char* names[] = {"reproduced", "order only", "unknown"};
    return names[static_cast<int>(verdict)];
}

LibraryJob cancelling_job(int m, int n, int k, const Format& format, std::uint64_t seed) {
    Draws draw(seed);
    LibraryJob job{.m = m, .n = n, .k = k};
    job.a.resize(static_cast<std::size_t>(m) * static_cast<std::size_t>(k));
    job.b.resize(static_cast<std::size_t>(k) * static_cast<std::size_t>(n));
    // Terms order[h] and order[h + 1] cancel, for every even h. The order is the same for every row and column.
    std::vector<int> order(static_cast<std::size_t>(k));
    for (int p = 0; p < k; ++p) order[static_cast<std::size_t>(p)] = p;
    for (int p = k - 1; p > 0; --p)
        std::swap(order[static_cast<std::size_t>(p)], order[static_cast<std::size_t>(draw.between(0, p))]);
    const auto number = [&] {
        double x = -3;
        for (int i = 0; i < 6; ++i) x += static_cast<double>(draw.word()) * 0x1p-32;
        return decode(format, encode64(format, static_cast<float>(x), Round::nearest_even, Overflow::saturate));
    };
    for (int h = 0; h < k; h += 2) {
        const int p = order[static_cast<std::size_t>(h)], q = h + 1 < k ? order[static_cast<std::size_t>(h + 1)] : -1;
        for (int i = 0; i < m; ++i) {
            const float x = number();
            job.a[place(i, k, p)] = x;
            if (q >= 0) job.a[place(i, k, q)] = -x;
        }
        for (int j = 0; j < n; ++j) {
            const float x = number();
            job.b[place(p, n, j)] = x;
            if (q >= 0) job.b[place(q, n, j)] = x;
        }
    }
    return job;
}

std::vector<int> block_ends(const LibraryMultiply& multiply, const Format& format, int m, int n, int k, int row,
                            int column) {
    // Terms 0 and j are masks, which cancel; all other terms are a small unit. A unit that meets a mask is lost, so the
    // result counts the units that are added after the masks cancelled.
    const bool is_half = format == fp16;
    const float mask = is_half ? 0x1p15f : 0x1p60f, unit = is_half ? 0x1p-14f : 0x1p-30f;
    LibraryJob job{.m = m, .n = n, .k = k};
    job.a.assign(static_cast<std::size_t>(m) * static_cast<std::size_t>(k), unit);
    job.b.assign(static_cast<std::size_t>(k) * static_cast<std::size_t>(n), 1.0f);
    const auto met_at = [&](int j) {
        for (int i = 0; i < m; ++i) {
            job.a[place(i, k, 0)] = mask;
            job.a[place(i, k, j)] = -mask;
        }
        const float left = multiply(job)[place(row, n, column)];
        for (int i = 0; i < m; ++i) job.a[place(i, k, j)] = unit;
        return k - static_cast<int>(std::lround(static_cast<double>(left) / unit));
    };
    // met_at(j) is the number of terms that were added before the two masks cancelled. In a chain, it is j + 1 (in a
    // chain of pairs, one more or less). If term j is in a later block, met_at(j) is the end of that block.
    std::vector<int> ends;
    int low = 1, high = k - 1;
    // met_at() does not distinguish the last term of a later block from a term of the first block. So in_first() also
    // checks two earlier terms. One would not be enough, because it may itself be the last term of a block.
    constexpr int apart = 40;
    const auto meets_next = [&](int j) { return std::abs(met_at(j) - (j + 1)) <= 1; };
    const auto in_first = [&](int j) {
        return meets_next(j) && (j <= apart || (meets_next(j - apart / 2) && meets_next(j - apart)));
    };
    if (!in_first(low)) return {};
    if (in_first(high)) return {k};
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        (in_first(middle) ? low : high) = middle;
    }
    ends.push_back(low + 1);
    for (int at = low + 1; at < k;) {
        const int end = met_at(at);
        if (end <= at || end > k) return {};
        ends.push_back(end);
        at = end;
    }
    return ends;
}

LibraryExamination examine_library(const LibraryMultiply& multiply, const RuleMultiply& rule_multiply,
                                   const Format& format, int shapes, std::uint64_t seed, const MatmulRule* asked) {
    LibraryExamination finding;
    std::vector<int> limits;
    // The ends of blocks can be found only with fp32 outputs. A narrower format cannot represent counts of that many
    // terms exactly.
    if (format == fp32) {
        for (const int k : {193, 385, 512, 1000, 1024, 2048}) {
            const std::vector<int> ends = block_ends(multiply, format, 101, 101, k, 0, 0);
            for (const auto& [row, column] : {std::pair{100, 0}, {0, 100}, {100, 100}, {50, 51}}) {
                if (k == 1000 && block_ends(multiply, format, 101, 101, k, row, column) != ends)
                    finding.tile_dependent = true;
            }
            finding.ends.emplace_back(k, ends);
            if (ends.size() > 1) limits.push_back(ends.front());
        }
    } else {
        limits = {256, 512, 1024};
    }
    std::vector<MatmulRule> rules;
    for (const MatmulRule& rule : asked == nullptr ? candidates(finding.ends, format) : std::vector{*asked}) {
        if (has_order(rule, finding.ends)) rules.push_back(rule);
    }
    const bool has_block_order =
        std::any_of(rules.begin(), rules.end(), [](const MatmulRule& rule) { return rule.lanes == 1; }) &&
        format == fp32 &&
        std::any_of(finding.ends.begin(), finding.ends.end(), [](const auto& each) { return !each.second.empty(); });
    // Unless the caller asked about one rule, choose the rule that reproduces the library on most of a few shapes. Few
    // are enough, because they refute most of the other rules.
    std::vector<int> score(rules.size());
    for (int number = 0; asked == nullptr && number < 9; ++number) {
        const LibraryJob job = plain_shape(number, limits, seed).job(format);
        const std::vector<float> got = multiply(job);
        for (std::size_t r = 0; r < rules.size(); ++r) {
            if (score[r] < number - 4) continue;  // hopeless
            std::size_t first = 0;
            score[r] += differing(rule_multiply(rules[r], job, format), got, first) == 0 ? 1 : 0;
        }
    }
    const auto best = static_cast<std::size_t>(std::max_element(score.begin(), score.end()) - score.begin());
    finding.best = asked != nullptr ? *asked : rules[best];
    if (const NamedMatmulRule* const named = named_of(finding.best)) {
        finding.rule = named->name;
        finding.range = named->valid;
    } else {
        finding.rule = to_string(finding.best);
        if (asked == nullptr) finding.nearest = nearest_to(finding.best);
    }
    acid_test(multiply, rule_multiply, format, limits, shapes, seed, finding);
    finding.verdict = finding.equal == finding.shapes ? LibraryVerdict::reproduced
                      : has_block_order               ? LibraryVerdict::order_only
                                                      : LibraryVerdict::unknown;
    return finding;
}

}  // namespace macheps::evidence
