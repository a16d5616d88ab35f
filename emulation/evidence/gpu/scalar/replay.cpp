// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/gpu/scalar/replay.hpp"

#include "emulation/evidence/gpu/scalar/blocks.hpp"
#include "emulation/evidence/gpu/scalar/function_model.hpp"
#include "emulation/evidence/traces/json_lines.hpp"

#include <charconv>

namespace macheps::evidence {

namespace {

constexpr std::uint64_t few_results = std::uint64_t{1} << 16;

/// The inputs of one kernel launch: begin, begin + stride, ... (`count` of them).
struct Launch {
    std::uint64_t begin = 0, stride = 1, count = 0;
};

/// Returns the inputs that sum number `number` covers; compare() computes the sums in the order of their numbers.
/// `inputs` is the number of inputs of the operation, or 0 for an endless range. `count` is the number of inputs per
/// sum.
Launch launch_of(std::uint64_t inputs, std::uint64_t count, std::uint64_t number) {
    if (inputs == 0) return {.begin = number * count, .stride = 1, .count = count};
    const std::uint64_t all = inputs / count;
    return {.begin = reversed(number, 63 - countl_zero(all)), .stride = all, .count = count};
}

template <class Result>
std::uint64_t sum_of(const Result& result, const Launch& launch, std::uint64_t from, std::uint64_t to) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = from; i < to; ++i) {
        const std::uint64_t input = launch.begin + launch.stride * i;
        sum += hash_item(input, result(input));
    }
    return sum;
}

/// Returns part(0) + ... + part(parts - 1). Any thread may compute any part.
template <class Part>
std::uint64_t sum_of_parts(std::uint64_t parts, unsigned threads, const Part& part) {
    std::atomic<std::uint64_t> next{0}, sum{0};
    const auto work = [&] {
        for (std::uint64_t i = next++; i < parts; i = next++) sum += part(i);
    };
    std::vector<std::thread> pool;
    try {
        for (unsigned t = 1; t < std::min<std::uint64_t>(threads, parts); ++t) pool.emplace_back(work);
    } catch (const std::system_error&) {
        // The system grants no more threads. Fewer threads give the same result.
    }
    work();
    for (std::thread& thread : pool) thread.join();
    return sum;
}

/// A model of an operation, which recomputes recorded sums of hashes.
struct Model {
    std::string name{};
    bool known = false;          ///< whether this program has the operation
    bool reproduces = false;     ///< whether the model claims to give every bit of the results
    std::uint64_t results = 0;   ///< number of results per sum
    std::uint64_t max_sums = 0;  ///< 0: no limit
    std::function<std::uint64_t(std::uint64_t number, unsigned threads)> sum{};
};

/// Returns the model for a recorded row. `result` returns the bits for an input. `inputs` is the number of inputs of
/// the operation, or 0 for an endless range.
template <class Result>
Model model_of(std::string name, bool reproduces, std::uint64_t inputs, const RecordedSums::Row& row,
               const Result& result) {
    const std::uint64_t count = row.trials / row.sums.size();
    return {.name = std::move(name),
            .known = true,
            .reproduces = reproduces,
            .results = count,
            .max_sums = inputs == 0 ? 0 : inputs / std::max<std::uint64_t>(count, 1),
            .sum = [inputs, count, result](std::uint64_t number, unsigned threads) {
                const Launch launch = launch_of(inputs, count, number);
                const std::uint64_t part = std::min(few_results, count);
                return sum_of_parts(count / part, threads,
                                    [&](std::uint64_t i) { return sum_of(result, launch, i * part, (i + 1) * part); });
            }};
}

Model convert_model(const RecordedSums::Row& row) {
    for (const ConvertRow& each : convert_rows) {
        if (row.instruction != each.instruction) continue;
        const ConvertByModel model{each};
        return model_of(each.model.name, true, model.inputs(), row,
                        [model](std::uint64_t input) { return model.result(model.operands(input)); });
    }
    return {};
}

Model scalar_model(const RecordedSums::Row& row, std::uint64_t seed) {
    for (const ArithmeticRow& each : arithmetic_rows) {
        if (row.instruction != each.instruction) continue;
        const auto result = [each, seed](std::uint64_t input) {
            const auto [x, y] = arithmetic_operands(each, seed, input);
            const std::uint64_t first = detail::arithmetic_by_model(each, x.a, x.b, x.c);
            return each.elements == Elements::one ? first
                                                  : first | detail::arithmetic_by_model(each, y.a, y.b, y.c) << 16;
        };
        return model_of(std::string("IEEE 754 ") + detail::mode_name(each.mode), each.codes == 0, each.inputs(), row,
                        result);
    }
    for (const FunctionRow& each : function_rows) {
        if (row.instruction != each.instruction) continue;
        return model_of(
            "fp64 reference", each.claim == Claim::correct, each.inputs(), row,
            [each](std::uint64_t input) { return detail::nearest_code(each, detail::operand_of(each, input)); });
    }
    return {};
}

Model math_model(const RecordedSums::Row& row) {
    for (const sweep::NamedTask& named : sweep::math_tasks()) {
        if (row.instruction != named.name) continue;
        const sweep::Task task = named.task;
        return {.name = "the same on the host",
                .known = true,
                .reproduces = true,
                .results = std::uint64_t{sweep::blocks_of_sum} * sweep::block_inputs,
                .max_sums = sweep::blocks / sweep::blocks_of_sum,
                .sum = [task](std::uint64_t number, unsigned threads) {
                    return sum_of_parts(sweep::blocks_of_sum, threads, [&](std::uint64_t i) {
                        const auto block = static_cast<std::uint32_t>(number * sweep::blocks_of_sum + i);
                        return sweep::has_fma() ? sweep::hash_fma(task, block) : sweep::hash_plain(task, block);
                    });
                }};
    }
    return {};
}

Model model_of_row(const RecordedSums& recorded, const RecordedSums::Row& row) {
    if (recorded.kind == "convert") return convert_model(row);
    if (recorded.kind == "scalar") return scalar_model(row, recorded.seed);
    return math_model(row);
}

std::uint64_t parse_hex(const std::string& digits, const std::string& where) {
    std::uint64_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value, 16);
    if (digits.size() != 16 || parsed.ec != std::errc{} || parsed.ptr != end) {
        evidence::bad_json_lines("'" + digits + "' is not a sum of hashes, which has 16 hexadecimal digits", where);
    }
    return value;
}

}  // namespace

bool is_sums(const Json& header) { return header.find("macheps_sums") != nullptr; }

RecordedSums parse_sums(std::string_view text, const std::string& where) {
    const Json header = evidence::json_lines_header(text, where);
    const std::string top = where + ":1";
    if (evidence::json_field<int>(header, "macheps_sums", top) != 1) {
        evidence::bad_json_lines("the version of the sums of hashes is not 1", top);
    }
    RecordedSums recorded{.kind = evidence::json_field<std::string>(header, "kind", top),
                          .gpu = evidence::json_field<std::string>(header, "gpu", top),
                          .driver = evidence::json_field<std::string>(header, "driver", top),
                          .toolkit = evidence::json_field<std::string>(header, "toolkit", top),
                          .date = evidence::json_field<std::string>(header, "date", top)};
    if (header.find("seed") != nullptr) recorded.seed = evidence::json_field<std::uint64_t>(header, "seed", top);
    if (recorded.kind != "convert" && recorded.kind != "scalar" && recorded.kind != "math") {
        evidence::bad_json_lines("the kind of the sums of hashes is unknown: '" + recorded.kind + "'", top);
    }
    std::size_t at = text.find('\n'), number = 1;
    while (at != std::string_view::npos && at + 1 < text.size()) {
        const std::size_t end = text.find('\n', at + 1);
        const std::string here = fmt::format("{}:{}", where, ++number);
        const Json line = evidence::parse_json_line(text.substr(at + 1, end - at - 1), here);
        RecordedSums::Row row{.instruction = evidence::json_field<std::string>(line, "instruction", here),
                              .model = evidence::json_field<std::string>(line, "model", here),
                              .trials = evidence::json_field<std::uint64_t>(line, "trials", here)};
        for (const std::string& digits : evidence::json_field<std::vector<std::string>>(line, "sums", here)) {
            row.sums.push_back(parse_hex(digits, here));
        }
        if (row.sums.empty()) evidence::bad_json_lines("there are no sums of hashes", here);
        const Model model = model_of_row(recorded, row);
        const bool power = model.results != 0 && (model.results & (model.results - 1)) == 0;
        if (model.known && (!power || (model.max_sums != 0 && row.sums.size() > model.max_sums))) {
            evidence::bad_json_lines(fmt::format("{} sums of hashes over {} results are not possible for {}",
                                                 row.sums.size(), row.trials, row.instruction),
                                     here);
        }
        recorded.rows.push_back(std::move(row));
        at = end;
    }
    return recorded;
}

void replay_sums(const RecordedSums& recorded, const SumsShare& share, const evidence::ProbeSink& sink) {
    struct Work {
        Model model;
        std::vector<std::uint64_t> numbers{};  ///< numbers of the sums to recompute
    };
    std::vector<Work> works;
    std::vector<std::size_t> large;
    for (const RecordedSums::Row& row : recorded.rows) {
        Work work{model_of_row(recorded, row)};
        const bool is_large = work.model.results > few_results;
        if (work.model.reproduces && (share.all || !is_large)) {
            for (std::uint64_t i = 0; i < row.sums.size(); ++i) work.numbers.push_back(i);
        } else if (work.model.reproduces) {
            large.push_back(works.size());
        }
        works.push_back(std::move(work));
    }
    for (std::uint64_t j = 0; !large.empty() && j < share.sums; ++j) {
        const std::uint64_t turn = share.seed * share.sums + j;
        const std::size_t at = large[turn % large.size()];
        const std::uint64_t number = turn / large.size() % recorded.rows[at].sums.size();
        std::vector<std::uint64_t>& numbers = works[at].numbers;
        if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) numbers.push_back(number);
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
        const RecordedSums::Row& row = recorded.rows[i];
        const auto& [model, numbers] = works[i];
        evidence::ProbeResult result{.kind = "replay",
                                     .instruction = row.instruction,
                                     .operands = fmt::format("{} of {} sums", numbers.size(), row.sums.size()),
                                     .model = model.name,
                                     .trials = numbers.size()};
        if (model.known) result.operands += fmt::format(" of {} results", model.results);
        const auto start = std::chrono::steady_clock::now();
        for (const std::uint64_t number : numbers) {
            if (model.sum(number, share.threads) == row.sums[number]) continue;
            if (result.mismatches++ == 0) result.note = fmt::format("the first sum that differs is number {}", number);
        }
        result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (result.mismatches != 0) {
            const bool same_model = row.model == model.name;
            result.verdict = same_model ? evidence::Verdict::differs : evidence::Verdict::recorded;
            if (!same_model) result.note += ", recorded against the model '" + row.model + "'";
        } else if (!model.known) {
            result.verdict = evidence::Verdict::absent;
            result.note = "this program does not have this operation";
        } else if (!model.reproduces) {
            result.verdict = evidence::Verdict::recorded;
            result.note = "no model gives these bits";
        } else if (numbers.empty()) {
            result.verdict = evidence::Verdict::recorded;
            result.note = "not recomputed in this run; --seed selects other sums, --full recomputes all";
        }
        sink(result);
    }
}

}  // namespace macheps::evidence
