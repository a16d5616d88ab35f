// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/verify/library.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/evidence/library/fit.hpp"
#include "emulation/evidence/library/torch.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/machine_spelling.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/verify/output.hpp"
#include "experiments/study/product/error_bound.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>

namespace macheps::cmd::verify {

using namespace study;

namespace {

using evidence::LibraryChild;
using evidence::LibraryExamination;
using evidence::LibraryJob;

std::vector<float> by_rule(CpuBackend& backend, const MatmulRule& rule, const LibraryJob& job, const Format& format) {
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
    std::vector<float> out(static_cast<std::size_t>(job.m) * static_cast<std::size_t>(job.n));
    backend.download(c.view(), out);
    return out;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](float a, float b) {
        return bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b) || (a != a && b != b);
    });
}

/// The shapes on which one and two threads are compared.
constexpr int thread_shapes[][3] = {{64, 64, 512}, {300, 300, 300},    {512, 512, 512}, {64, 48, 4096},
                                    {8, 8, 20000}, {1000, 1000, 1000}, {1, 512, 512},   {512, 1, 512}};

std::vector<std::string> thread_changes(LibraryChild& one, LibraryChild& two, const Format& format,
                                        std::uint64_t seed) {
    std::vector<std::string> changed;
    for (const auto& [m, n, k] : thread_shapes) {
        const LibraryJob job = evidence::cancelling_job(m, n, k, format, seed);
        if (!same_bits(one.multiply(job), two.multiply(job))) changed.push_back(fmt::format("{}x{}x{}", m, n, k));
    }
    return changed;
}

/// How an environment variable of this process affects the bits of products: the number of shapes that were multiplied
/// with and without the variable, and the number of shapes whose bits differ. A child process computes the products
/// without the variable.
struct SettingEffect {
    evidence::LibrarySetting setting;
    int shapes = 0, changed = 0;
};

/// Returns the effect of each variable in evidence::library_environment(). Every child is a separate process and uses
/// one thread, as `here` does.
std::vector<SettingEffect> setting_effects(LibraryChild& here, const LibraryOptions& options, const Format& format) {
    std::vector<SettingEffect> effects;
    for (evidence::LibrarySetting& setting : evidence::library_environment()) {
        std::string why;
        std::optional<LibraryChild> without = LibraryChild::open(options.library, 1, why, setting.name);
        SettingEffect effect{.setting = std::move(setting)};
        for (const auto& [m, n, k] : without ? std::span(thread_shapes) : std::span<const int[3]>()) {
            const LibraryJob job = evidence::cancelling_job(m, n, k, format, options.seed);
            ++effect.shapes;
            effect.changed += same_bits(here.multiply(job), without->multiply(job)) ? 0 : 1;
        }
        effects.push_back(std::move(effect));
    }
    return effects;
}

/// Returns whether three calls give the same bits.
bool is_steady(LibraryChild& child, const Format& format) {
    const LibraryJob job = evidence::cancelling_job(64, 64, 700, format, 3);
    const std::vector<float> first = child.multiply(job);
    return same_bits(first, child.multiply(job)) && same_bits(first, child.multiply(job));
}

std::string order_text(const LibraryExamination& finding) {
    std::string text;
    for (const auto& [k, ends] : finding.ends) {
        std::vector<int> lengths;
        for (std::size_t i = 0; i < ends.size(); ++i) lengths.push_back(ends[i] - (i == 0 ? 0 : ends[i - 1]));
        text += fmt::format("{}k = {}: {}", text.empty() ? "" : "; ", k,
                            lengths.empty() ? "not a chain of blocks" : fmt::format("{}", fmt::join(lengths, ", ")));
    }
    return text.empty() ? "not measured: the output has too few bits to count terms" : text;
}

/// Returns the rule of --rule, or nothing.
std::optional<MatmulRule> asked_rule(const LibraryOptions& options, const Format& format) {
    if (options.rule.empty()) return {};
    const SpelledRule spelled = parse_machine(options.rule);
    if (spelled.order || !reads(*spelled.rule.machine, format)) {
        throw Error({.what = fmt::format("{} is not a rule for products of {}", options.rule, format_name(format)),
                     .where = "--rule",
                     .fix = "use a machine from `macheps machine list`, or a rule from docs/evidence.md",
                     .exit = Exit::usage});
    }
    return spelled.rule;
}

Exit absent(const LibraryOptions& options, const std::string& why) {
    if (options.json) {
        print_json({{"library", options.library}, {"verdict", "absent"}, {"why", why}});
    } else {
        print("{}: absent: {}\n", options.library, why);
    }
    if (!options.require) return Exit::ok;
    throw Error({.what = fmt::format("{} is absent", options.library),
                 .where = "--require",
                 .fix = "install it, give its file, or leave out --require",
                 .exit = Exit::no_device});
}

/// Verifies PyTorch on a GPU: compares the bits of its products with the rule of --rule or, by default, with the
/// claimed rule. Also finds the order of a sum.
Exit verify_torch(const LibraryOptions& options) {
    const std::optional<evidence::TorchProduct> product = evidence::find_torch_product(options.library);
    if (!product) {
        std::vector<std::string_view> names;
        for (const evidence::TorchProduct& each : evidence::torch_products()) names.push_back(each.name);
        throw Error({.what = fmt::format("'{}' is not a product of PyTorch", options.library),
                     .where = "--library",
                     .fix = fmt::format("use one of {}", fmt::join(names, ", ")),
                     .exit = Exit::usage});
    }
    if (!options.rule.empty() && find_matmul_rule(options.rule) == nullptr && find_machine(options.rule) == nullptr) {
        throw Error({.what = fmt::format("unknown rule or machine '{}'", options.rule),
                     .where = "--rule",
                     .fix = "use a name from `macheps machine list`, or a rule from docs/evidence.md",
                     .exit = Exit::usage});
    }
    evidence::LoadedLibrary loaded = evidence::load_torch(*product);
    if (loaded.library == nullptr) return absent(options, loaded.missing);
    const std::string device = loaded.library->name();
    std::vector<evidence::LibraryProblem> products = evidence::torch_problems(*product);
    products.resize(std::min(products.size(), static_cast<std::size_t>(options.shapes)));
    const std::vector<evidence::ProbeGroup> groups = evidence::library_probe_groups(
        [&] { return loaded; },
        {.products = products, .orders = {evidence::torch_reveal_problem(*product)}, .claim = options.rule});
    std::vector<evidence::ProbeResult> rows;
    constexpr double seconds = 10;  // for one problem
    for (const evidence::ProbeGroup& group : groups) {
        for (const std::string& instruction : group.instructions) {
            for (evidence::ProbeResult& row : evidence::run_probe(group, instruction, seconds, {.seed = options.seed}))
                rows.push_back(std::move(row));
        }
    }
    if (options.json) {
        print_verify_json(rows, device, {});
    } else {
        const VerifyCounts counts = count_rows(rows);
        print_text(verify_table(rows) + fmt::format("\n{}: {} rows: {} equal, {} differ, {} recorded, {} failed\n",
                                                    device, counts.rows, counts.equal, counts.differ, counts.recorded,
                                                    counts.failed));
    }
    return count_rows(rows).all_well() ? Exit::ok : Exit::check_failed;
}

}  // namespace

Exit verify_library(const LibraryOptions& options) {
    if (evidence::is_torch_cuda(options.library)) return verify_torch(options);
    const Format format = evidence::library_format(options.library);
    const std::optional<MatmulRule> asked = asked_rule(options, format);
    // The children are forked here, before CpuBackend starts threads: this process still has only one thread.
    std::string why;
    std::optional<LibraryChild> one = LibraryChild::open(options.library, 1, why);
    if (!one) return absent(options, why);
    std::optional<LibraryChild> two = LibraryChild::open(options.library, 2, why);
    const std::vector<SettingEffect> effects = setting_effects(*one, options, format);
    const bool steady = is_steady(*one, format);
    CpuBackend backend(0);
    const LibraryExamination finding = evidence::examine_library(
        [&](const LibraryJob& job) { return one->multiply(job); },
        [&](const MatmulRule& rule, const LibraryJob& job, const Format& f) { return by_rule(backend, rule, job, f); },
        format, options.shapes, options.seed, asked ? &*asked : nullptr);
    const std::vector<std::string> changed =
        two ? thread_changes(*one, *two, format, options.seed) : std::vector<std::string>{};
    const evidence::LibraryIdentity& identity = one->identity();
    const bool reproduced = finding.verdict == evidence::LibraryVerdict::reproduced && steady;
    const Exit exit = reproduced || (steady && !asked) ? Exit::ok : Exit::check_failed;
    constexpr std::int64_t bound_k = 4096;
    OutputSize unit;
    unit.magnitudes = 1;
    const double bound = error_bound(finding.best, bound_k, fp32, 0).certain(unit) / fp32.unit_roundoff();
    if (options.json) {
        Json ends = Json::array();
        for (const auto& [k, list] : finding.ends) ends.push_back({{"k", k}, {"ends", list}});
        Json others = Json::array(), environment = Json::array();
        for (const evidence::OtherRule& each : finding.others)
            others.push_back({{"rule", std::string(each.name)}, {"shapes", each.shapes}, {"equal", each.equal}});
        for (const SettingEffect& each : effects)
            environment.push_back({{"name", each.setting.name},
                                   {"value", each.setting.value},
                                   {"shapes", each.shapes},
                                   {"changed", each.changed}});
        print_json({{"library", options.library},
                    {"path", identity.path},
                    {"version", identity.version},
                    {"kernel", identity.kernel},
                    {"function", identity.function},
                    {"environment", environment},
                    {"verdict", steady ? evidence::to_string(finding.verdict) : "nondeterministic"},
                    {"rule", finding.rule},
                    {"nearest", finding.nearest},
                    {"block_ends", ends},
                    {"tile_dependent", finding.tile_dependent},
                    {"shapes", finding.shapes},
                    {"equal", finding.equal},
                    {"outputs", finding.outputs},
                    {"wrong", finding.wrong},
                    {"range", std::string(finding.range)},
                    {"outside", finding.outside},
                    {"outside_equal", finding.outside_equal},
                    {"other_rules", others},
                    {"bound_u_at_4096", reproduced ? Json(bound) : Json()},
                    {"thread_changes", changed}});
        return exit;
    }
    std::string text = fmt::format("{}, kernel {}, 1 thread    {} on {}, row-major\n", identity.version,
                                   identity.kernel, identity.function, format_name(format));
    for (const SettingEffect& each : effects)
        text += fmt::format(
            "set here   {}={}: {}\n", each.setting.name, each.setting.value,
            each.shapes == 0 ? "its effect could not be measured"
                             : fmt::format("without it the bits differ at {} of {} shapes", each.changed, each.shapes));
    text += fmt::format(
        "order      blocks of k: {}{}\n", order_text(finding),
        finding.tile_dependent ? "; tile-dependent: corners of the output are added in different orders" : "");
    text += fmt::format("rule       {}\n", finding.rule);
    if (!finding.range.empty()) text += fmt::format("range      {}\n", finding.range);
    if (!finding.nearest.empty())
        text += fmt::format("           no known rule fits; the nearest is {}\n", finding.nearest);
    text += fmt::format("bits       {}: {} of {} shapes above 10^6 multiply-adds, {} of {} outputs differ{}\n",
                        steady ? evidence::to_string(finding.verdict) : "nondeterministic", finding.equal,
                        finding.shapes, finding.wrong, finding.outputs,
                        finding.first_wrong.empty() ? "" : "; first " + finding.first_wrong);
    if (finding.outside > 0)
        text += fmt::format(
            "outside    {} of {} shapes outside the range are equal, but the rule is not claimed for these shapes\n",
            finding.outside_equal, finding.outside);
    for (const evidence::OtherRule& each : finding.others)
        text += fmt::format("           {} covers {} of these shapes, and reproduces all their bits\n", each.name,
                            each.shapes);
    if (reproduced)
        text += fmt::format("error      for k = {}, at most {:.0f} u times the sum of |a b|\n", bound_k, bound);
    text += fmt::format("threads    {}\n",
                        !two ? "only 1 thread was tried: " + why
                        : changed.empty()
                            ? "no change between 1 and 2 threads at 8 shapes; more threads were not tried"
                            : fmt::format("bits change between 1 and 2 threads at {}", fmt::join(changed, ", ")));
    print_text(text);
    return exit;
}

}  // namespace macheps::cmd::verify
