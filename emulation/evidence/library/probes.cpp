// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/probes.hpp"

#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/evidence/library/capture.hpp"
#include "emulation/evidence/library/claims.hpp"
#include "emulation/evidence/library/cublaslt/cublaslt.hpp"
#include "emulation/evidence/library/match.hpp"
#include "emulation/evidence/library/reveal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace macheps::evidence {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

LibraryProblem problem(const Format& a, const Format& b, const Format& out, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
    return {.m = m, .n = n, .k = k, .a = a, .b = b, .out = out};
}

/// The library, and the host backend that evaluates candidate rules. The first probe creates both.
class Session {
  public:
    explicit Session(std::function<LoadedLibrary()> load, std::string claim = {})
        : load_(std::move(load)), claim_(std::move(claim)) {}

    /// Returns the claimed rule for this problem, or an empty string if nothing is claimed.
    std::string claim(const LibraryProblem& p, const LibraryAlgorithm& algorithm) {
        if (!claim_.empty()) return claim_;
        const MatmulLibrary& library = *loaded().library;
        return claimed_rule(p, algorithm,
                            {.architecture = library.architecture(), .is_row_major = library.is_row_major()});
    }

    LoadedLibrary& loaded() {
        if (load_) {
            loaded_ = load_();
            load_ = nullptr;
        }
        return loaded_;
    }
    Backend& host() {
        if (host_ == nullptr) host_ = std::make_unique<CpuBackend>();
        return *host_;
    }

  private:
    std::function<LoadedLibrary()> load_;
    std::string claim_;
    LoadedLibrary loaded_{};
    std::unique_ptr<CpuBackend> host_{};
};

std::string joined(const std::vector<std::string>& names, const char* between, std::size_t most) {
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), most); ++i) text.append(i == 0 ? "" : between).append(names[i]);
    if (names.size() > most) text += fmt::format("{}{} more", between, names.size() - most);
    return text;
}

std::string first_few(const std::vector<std::string>& names) { return joined(names, " | ", 12); }

std::string finite_classes(std::size_t count) {
    return joined({std::begin(library_classes), std::begin(library_classes) + count}, " ", count);
}

std::vector<std::string> all_names(const std::vector<LibraryCandidate>& candidates) {
    std::vector<std::string> names;
    for (const LibraryCandidate& c : candidates) names.insert(names.end(), c.names.begin(), c.names.end());
    return names;
}

evidence::ProbeResult row(const std::string& instruction, std::string operands) {
    return {.kind = "library", .instruction = instruction, .operands = std::move(operands), .model = {}, .note = {}};
}

evidence::ProbeResult declined(const std::string& instruction, const std::string& why) {
    evidence::ProbeResult result = row(instruction, "");
    result.verdict = evidence::Verdict::declined;
    result.note = why;
    return result;
}

/// Returns the verdict about agreement with the claimed rule, or `recorded` if no rule is claimed.
evidence::Verdict verdict_of(const std::string& claim, bool agrees) {
    if (claim.empty()) return evidence::Verdict::recorded;
    return agrees ? evidence::Verdict::equal : evidence::Verdict::differs;
}

/// Emits the rows of one algorithm. If a rule is claimed, the rows are about that rule, even if other rules agree.
void match_rows(Session& session, LibraryPlan& plan, const LibraryProblem& p, double seconds,
                const evidence::ProbeOptions& options, const evidence::ProbeSink& sink) {
    const Clock::time_point start = Clock::now();
    // The number of products grows with the time, because comparing a candidate takes a few milliseconds for four
    // million products.
    const double products = std::clamp(seconds * 0x1p23, 0x1p16, 0x1p22);
    MatchOptions match{.seed = options.seed, .fault = options.fault};
    match.products = static_cast<std::int64_t>(products);
    match.claim = session.claim(p, plan.algorithm());
    if (seconds < 0.25) match.classes = 3;
    const std::string instruction = p.name();
    const LibraryFinding found = match_library(plan, p, session.host(), match);
    const std::string by = fmt::format("{}, {}", plan.algorithm().to_string(), session.loaded().library->name());
    const auto first_of = [&](const std::vector<LibraryCandidate>& equal) {
        return match.claim.empty() ? equal.front().names.front() : match.claim;
    };
    const auto note_of = [&](const std::vector<LibraryCandidate>& equal) {
        return fmt::format("{}equal to {}; {}", match.claim.empty() ? "nothing is claimed; " : "",
                           first_few(all_names(equal)), by);
    };
    evidence::ProbeResult result = row(instruction, finite_classes(match.classes));
    result.trials = found.trials;
    result.verdict = verdict_of(match.claim, found.has_claimed && !found.varies);
    if (found.equal.empty()) {
        result.model = match.claim.empty() ? found.closest : match.claim;
        result.mismatches = found.mismatches;
        result.note = fmt::format("different from each of {} rules; {}; {}", found.candidates, found.difference, by);
        // With a deliberate fault, the verdict must be `differs` even if no rule is claimed.
        if (options.fault) result.verdict = evidence::Verdict::differs;
    } else {
        result.model = first_of(found.equal);
        result.note = note_of(found.equal);
    }
    const bool is_refuted = !match.claim.empty() && !found.has_claimed;
    if (is_refuted) {
        result.mismatches = std::max<std::uint64_t>(found.claim_mismatches, 1);
        result.note = fmt::format(
            "not {}: {}; {}", match.claim,
            found.claim_difference.empty() ? "no kernel of this kind follows this rule" : found.claim_difference,
            result.note);
    }
    if (found.varies) result.note = "results vary from run to run; " + result.note;
    result.seconds = seconds_since(start);
    sink(result);
    if (found.equal.empty() || is_refuted) return;
    evidence::ProbeResult specials = row(instruction, std::string(special_class));
    specials.trials = found.special_trials;
    specials.model = result.model;
    const std::vector<LibraryCandidate>& equal = found.equal_with_specials;
    const bool agrees = std::any_of(equal.begin(), equal.end(), [&](const LibraryCandidate& each) {
        return match.claim.empty() || is_claimed(each, match.claim);
    });
    specials.verdict = verdict_of(match.claim, agrees);
    if (agrees) {
        specials.model = first_of(equal);
        specials.note = note_of(equal);
    } else {
        specials.mismatches = 1;
        specials.note = fmt::format("{}; {}", found.special_difference, by);
    }
    sink(specials);
}

/// Captures outputs for a file and emits a row with their number. Does not compare them with any rule.
void capture_rows(const LibraryProblem& p, MatmulLibrary& library, const evidence::ProbeOptions& options,
                  const evidence::ProbeSink& sink) {
    const Clock::time_point start = Clock::now();
    CapturedProblem captured = capture_library(library, p, options.seed);
    if (captured.algorithms == 0) return sink(declined(p.name(), captured.declined));
    if (options.keep) options.keep(captured.capture);
    evidence::ProbeResult result =
        row(p.name(), finite_classes(std::size(library_classes)) + " " + std::string(special_class));
    result.verdict = evidence::Verdict::recorded;
    result.trials = captured.outputs;
    result.note =
        fmt::format("{} algorithms; the first is {}, {}", captured.algorithms, captured.chosen, library.name());
    result.seconds = seconds_since(start);
    sink(result);
}

class RecordedAnswers final : public MatmulLibrary {
  public:
    explicit RecordedAnswers(const RecordedLibrary& recorded) : recorded_(recorded) {}
    std::string name() const override { return recorded_.library; }
    std::string architecture() const override { return recorded_.architecture; }
    LibraryAnswer plan(const LibraryProblem&, int choice) override {
        const auto at = static_cast<std::size_t>(choice);
        if (at >= recorded_.algorithms.size()) return {nullptr, "no more algorithms were captured"};
        return {recorded_plan(recorded_, at), {}};
    }

  private:
    const RecordedLibrary& recorded_;
};

void run_problem(Session& session, const LibraryProblem& p, double seconds, const evidence::ProbeOptions& options,
                 const evidence::ProbeSink& sink, int max_choices = 3) {
    const Clock::time_point start = Clock::now();
    const std::string instruction = p.name();
    if (session.loaded().library == nullptr) return sink(declined(instruction, session.loaded().missing));
    MatmulLibrary& library = *session.loaded().library;
    if (options.only_captures) return capture_rows(p, library, options, sink);
    std::vector<LibraryAlgorithm> seen;
    for (int choice = 0; choice < max_choices; ++choice) {
        const LibraryAnswer answer = library.plan(p, choice);
        if (answer.plan == nullptr) {
            if (choice == 0) sink(declined(instruction, answer.declined));
            return;
        }
        const LibraryAlgorithm algorithm = answer.plan->algorithm();
        if (std::find(seen.begin(), seen.end(), algorithm) != seen.end()) continue;
        seen.push_back(algorithm);
        match_rows(session, *answer.plan, p, seconds, options, sink);
        if (seconds_since(start) > seconds) return;
    }
}

/// Returns a row about an order of summation. If a rule is claimed, the verdict says whether the library adds in the
/// order of the rule.
evidence::ProbeResult order_row(const LibraryOrder& order, const std::string& claim, const std::string& by) {
    evidence::ProbeResult result = row("", "masks of FPRev");
    result.trials = static_cast<std::uint64_t>(order.tree.probes);
    result.verdict = verdict_of(claim, order.has_claimed);
    result.model = !claim.empty() ? claim : order.rules.empty() ? "" : order.rules.front();
    if (!order.no_tree.empty()) {
        result.note = fmt::format("no tree was found: {}; {}", order.no_tree, by);
    } else if (order.rules.empty()) {
        result.note =
            fmt::format("{}; none of {} rules has this order; {}", one_line(order.tree), order.candidates, by);
    } else {
        result.note = fmt::format("{}{}; this is the order of {}; {}", claim.empty() ? "nothing is claimed; " : "",
                                  one_line(order.tree), first_few(order.rules), by);
    }
    if (result.verdict == evidence::Verdict::differs) {
        result.mismatches = 1;
        result.note = fmt::format("not the order of {}; {}", claim, result.note);
    }
    return result;
}

void run_reveal(Session& session, const LibraryProblem& p, const evidence::ProbeOptions& options,
                const evidence::ProbeSink& sink) {
    const Clock::time_point start = Clock::now();
    const std::string instruction = "reveal:" + p.name();
    if (session.loaded().library == nullptr) return sink(declined(instruction, session.loaded().missing));
    const LibraryAnswer answer = session.loaded().library->plan(p);
    if (answer.plan == nullptr) return sink(declined(instruction, answer.declined));
    const MatmulLibrary& library = *session.loaded().library;
    const std::string claim = session.claim(p, answer.plan->algorithm());
    const LibraryOrder order = options.only_captures ? reveal_library_tree(*answer.plan, p)
                                                     : reveal_library(*answer.plan, p, session.host(),
                                                                      {.claim = claim, .fault = options.fault});
    if (options.only_captures && options.keep && order.no_tree.empty())
        options.keep(tree_capture(p, answer.plan->algorithm(), library, order.tree));
    const std::string by = fmt::format("{}, {}", answer.plan->algorithm().to_string(), library.name());
    evidence::ProbeResult result = order_row(order, options.only_captures ? "" : claim, by);
    result.instruction = instruction;
    if (options.only_captures)
        result.note = order.no_tree.empty() ? fmt::format("{}; {}", one_line(order.tree), by) : result.note;
    if (options.fault && order.rules.empty()) result.verdict = evidence::Verdict::differs;
    result.seconds = seconds_since(start);
    sink(result);
}

evidence::ProbeGroup group_of(const std::shared_ptr<Session>& session, const std::vector<LibraryProblem>& problems,
                              bool is_reveal) {
    evidence::ProbeGroup group{.kind = "library", .instructions = {}, .run = {}};
    for (const LibraryProblem& p : problems) group.instructions.push_back((is_reveal ? "reveal:" : "") + p.name());
    group.run = [session, problems, is_reveal, names = group.instructions](
                    const std::string& instruction, double seconds, const evidence::ProbeOptions& options,
                    const evidence::ProbeSink& sink) {
        const auto found = std::find(names.begin(), names.end(), instruction);
        if (found == names.end()) {
            throw Error({.what = fmt::format("unknown probe '{}'", instruction),
                         .where = "library probes",
                         .fix = "use a name from the list of the group"});
        }
        const LibraryProblem& p = problems[static_cast<std::size_t>(found - names.begin())];
        if (is_reveal) return run_reveal(*session, p, options, sink);
        run_problem(*session, p, seconds, options, sink);
    };
    return group;
}

void add_split(std::vector<LibraryProblem>& list, LibraryProblem p) {
    for (const Reduction reduction : {Reduction::compute_type, Reduction::output_type, Reduction::in_place}) {
        for (const int slices : {2, 5}) {
            p.slices = slices;
            p.reduction = reduction;
            list.push_back(p);
        }
    }
}

void add_fp8(std::vector<LibraryProblem>& list, std::vector<LibraryProblem>& splits) {
    for (const bool fast : {true, false}) {
        const auto add = [&](LibraryProblem p, LibraryScaling scaling = LibraryScaling::none) {
            p.fast_accumulation = fast;
            p.scaling = scaling;
            list.push_back(p);
        };
        for (const std::int64_t k : {16, 48, 128, 144, 1008, 4096}) {
            add(problem(e4m3fn, e4m3fn, bf16, 64, 48, k));
            add(problem(e4m3fn, e4m3fn, fp32, 64, 48, k));
        }
        add(problem(e5m2, e4m3fn, bf16, 64, 48, 1008));
        add(problem(e4m3fn, e5m2, bf16, 64, 48, 1008));
        add(problem(e4m3fn, e4m3fn, fp32, 1024, 768, 1024));
        add(problem(e4m3fn, e4m3fn, e4m3fn, 64, 48, 1008));
        add(problem(e4m3fn, e4m3fn, fp16, 64, 48, 1008));
        for (const LibraryScaling scaling : {LibraryScaling::tensor, LibraryScaling::outer}) {
            add(problem(e4m3fn, e4m3fn, bf16, 64, 48, 1008), scaling);
            add(problem(e4m3fn, e4m3fn, fp32, 64, 48, 1008), scaling);
        }
        // Shapes and layouts that the manual does not allow.
        add(problem(e4m3fn, e4m3fn, bf16, 65, 33, 1000));
        add(problem(e4m3fn, e4m3fn, bf16, 64, 48, 129));
        LibraryProblem other = problem(e4m3fn, e4m3fn, bf16, 64, 48, 1008);
        other.a_by_rows = other.b_by_columns = false;
        add(other);
    }
    for (const LibraryScaling scaling : {LibraryScaling::blocks_1x1, LibraryScaling::blocks_1x2}) {
        for (const Format& out : {bf16, fp32}) {
            LibraryProblem p = problem(e4m3fn, e4m3fn, out, 256, 256, 1024);
            p.scaling = scaling;
            list.push_back(p);
        }
    }
    LibraryProblem split = problem(e4m3fn, e4m3fn, bf16, 64, 48, 4096);
    split.fast_accumulation = true;
    add_split(splits, split);
}

}  // namespace

std::vector<LibraryProblem> library_problems() {
    std::vector<LibraryProblem> list, splits;
    struct Kind {
        Format a, out;
    };
    constexpr Kind kinds[] = {{bf16, bf16}, {bf16, fp32}, {fp16, fp16}, {fp16, fp32}, {tf32, fp32}, {fp32, fp32}};
    // Problems with named rules come first, in case there is not enough time for all problems.
    add_fp8(list, splits);
    for (const Kind& kind : kinds) {
        for (const std::int64_t k : {1000, 4096}) list.push_back(problem(kind.a, kind.a, kind.out, 128, 64, k));
    }
    for (const Kind& kind : kinds) {
        for (const std::int64_t k : {16, 48, 100, 129, 1000, 4096}) {
            list.push_back(problem(kind.a, kind.a, kind.out, 129, 65, k));
            if (k != 1000 && k != 4096) list.push_back(problem(kind.a, kind.a, kind.out, 128, 64, k));
        }
        // Add problems with one row, problems with one column, problems that fill the device, and other layouts.
        list.push_back(problem(kind.a, kind.a, kind.out, 1, 65, 1000));
        list.push_back(problem(kind.a, kind.a, kind.out, 64, 1, 1000));
        list.push_back(problem(kind.a, kind.a, kind.out, 1024, 768, 1024));
        for (int layout = 1; layout < 4; ++layout) {
            LibraryProblem p = problem(kind.a, kind.a, kind.out, 128, 64, 1000);
            p.a_by_rows = (layout & 1) == 0;
            p.b_by_columns = (layout & 2) == 0;
            list.push_back(p);
        }
        add_split(splits, problem(kind.a, kind.a, kind.out, 128, 64, 4096));
    }
    for (const std::int64_t k : {48, 1000, 4096}) {
        LibraryProblem p = problem(fp16, fp16, fp16, 128, 64, k);
        p.accumulator = fp16;
        list.push_back(p);
        p = problem(tf32, tf32, fp32, 128, 64, k);
        p.whole_words = true;
        list.push_back(p);
    }
    list.insert(list.end(), splits.begin(), splits.end());
    return list;
}

std::vector<LibraryProblem> reveal_problems() {
    std::vector<LibraryProblem> list;
    for (const Format& f : {bf16, fp16, tf32, fp32}) {
        list.push_back(problem(f, f, fp32, 128, 128, 256));
        LibraryProblem split = problem(f, f, fp32, 128, 128, 1024);
        split.slices = 4;
        split.reduction = Reduction::compute_type;
        list.push_back(split);
    }
    list.push_back(problem(fp32, fp32, fp32, 1024, 1024, 256));
    list.push_back(problem(bf16, bf16, fp32, 1024, 1024, 256));
    LibraryProblem half = problem(fp16, fp16, fp16, 128, 128, 64);
    half.accumulator = fp16;
    list.push_back(half);
    for (const bool fast : {true, false}) {
        LibraryProblem p = problem(e4m3fn, e4m3fn, fp32, 128, 128, 256);
        p.fast_accumulation = fast;
        list.push_back(p);
        p = problem(e5m2, e4m3fn, fp32, 128, 128, 512);
        p.fast_accumulation = fast;
        list.push_back(p);
    }
    return list;
}

void replay_library(const RecordedLibrary& recorded, const evidence::ProbeSink& sink) {
    Session session([&] { return LoadedLibrary{std::make_shared<RecordedAnswers>(recorded), {}}; });
    constexpr double as_long_as_it_takes = 1e9;
    run_problem(
        session, recorded.problem, as_long_as_it_takes, {.seed = recorded.seed},
        [&](evidence::ProbeResult row) {
            row.kind = "replay";
            sink(row);
        },
        static_cast<int>(recorded.algorithms.size()));
}

void replay_tree(const RecordedTree& recorded, const evidence::ProbeSink& sink) {
    const Clock::time_point start = Clock::now();
    const std::vector<LibraryProblem> problems = reveal_problems();
    const auto problem = std::find_if(problems.begin(), problems.end(),
                                      [&](const LibraryProblem& each) { return each.name() == recorded.problem; });
    evidence::ProbeResult result = row("", "masks of FPRev");
    const std::string by = recorded.algorithm + ", " + recorded.library;
    if (problem == problems.end()) {
        result.verdict = evidence::Verdict::recorded;
        result.note = "nothing is claimed, because this version does not have the problem; " + by;
    } else {
        const LibraryAlgorithm algorithm{.slices = recorded.slices};
        const std::string claim = claimed_rule(*problem, algorithm, {.architecture = recorded.architecture});
        CpuBackend host;
        LibraryOrder order;
        order.tree = recorded.tree;
        find_rules(order, *problem, algorithm, host, claim);
        result = order_row(order, claim, by);
    }
    result.kind = "replay";
    result.instruction = "reveal:" + recorded.problem;
    result.seconds = seconds_since(start);
    sink(result);
}

std::vector<evidence::ProbeGroup> library_probe_groups(std::function<LoadedLibrary()> load,
                                                       const LibraryQuestions& questions) {
    const auto session = std::make_shared<Session>(std::move(load), questions.claim);
    return {group_of(session, questions.products, false), group_of(session, questions.orders, true)};
}

std::vector<evidence::ProbeGroup> library_probe_groups(std::function<LoadedLibrary()> load) {
    return library_probe_groups(std::move(load), {.products = library_problems(), .orders = reveal_problems()});
}

std::vector<evidence::ProbeGroup> library_probe_groups(int device) {
    return library_probe_groups([device] { return load_cublaslt(device); });
}

}  // namespace macheps::evidence
