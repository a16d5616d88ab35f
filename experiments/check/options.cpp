// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/options.hpp"

#include "core/host/memory_limit.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace macheps::check {

namespace {

using Takes = DeclareKey::Takes;
using Text = const std::string&;

constexpr std::string_view powers[] = {"null", "structure", "precision", "all"};

Error no_such(std::string what, Text name, const std::vector<std::string_view>& names, Text where,
              std::string_view form = "use ") {
    const std::string near = nearest_name(name, names);
    return Error({.what = std::move(what),
                  .where = where,
                  .fix = fmt::format("{}{}one of {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                                     form, fmt::join(names, ", ")),
                  .exit = Exit::usage});
}

/// Removes the unit from text such as 60s.
std::string seconds_of(Text text) {
    return text.size() > 1 && text.back() == 's' ? text.substr(0, text.size() - 1) : text;
}

void set_require(Options& options, Text text, Text where) { options.require = power_named(text, where); }

void set_limit(Options& options, Text text, Text where) {
    std::vector<std::string_view> names;
    ThreadPool alone(1);
    for (const Metric& metric : metrics({}, {}, alone)) names.push_back(metric.name);
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || std::find(names.begin(), names.end(), name) == names.end())
        throw no_such(fmt::format("'{}' is not a valid limit", text), name, names, where, "use METRIC=X with ");
    options.metric_limits[name] = declared_number(text.substr(equals + 1), where, -1e300, 1e300);
}

constexpr std::string_view cost = "Time and memory";

constexpr OptionKey keys[] = {
    {.name = "require",
     .value = "POWER",
     .help = "Class of wrong kernels that the check must be able to catch",
     .words = power_words,
     .set = set_require,
     .default_text = "structure"},
    {.name = "allow_weak",
     .takes = Takes::flag,
     .help = "Exit with 0 if a check is weak",
     .set = [](Options& options, Text text, Text) { options.allow_weak = text == "true"; }},
    {.name = "certain_only",
     .takes = Takes::flag,
     .help = "Do not fail if only a probable bound is exceeded",
     .set = [](Options& options, Text text, Text) { options.certain_only = text == "true"; }},
    {.name = "delta",
     .takes = Takes::number,
     .value = "X",
     .help = "Probability that a legal kernel exceeds a probable bound",
     .set = [](Options& options, Text text, Text where) { options.delta = declared_number(text, where, 1e-300, 0.5); },
     .default_text = "1e-9"},
    {.name = "rtol",
     .takes = Takes::number,
     .value = "X",
     .help = "Also require |error| <= atol + rtol |exact|. Default: not required",
     .set = [](Options& options, Text text, Text where) { options.rtol = declared_number(text, where, 0, 1e300); }},
    {.name = "atol",
     .takes = Takes::number,
     .value = "X",
     .help = "Absolute tolerance, see --rtol. Default: 0",
     .set = [](Options& options, Text text, Text where) { options.atol = declared_number(text, where, 0, 1e300); }},
    {.name = "limit",
     .value = "METRIC=X",
     .help = "Also require a limit on max, ulp, fro, sqnr, cosine or calc_diff. Repeat for several",
     .repeats = true,
     .set = set_limit},
    {.name = "deterministic_with",
     .value = "FILE",
     .help = "Output of another run on the same inputs, which must have the same bits. * is replaced by the name "
             "of the input. Default: none",
     .set = [](Options& options, Text text, Text) { options.deterministic_with = text; }},
    {.name = "sample",
     .takes = Takes::number,
     .value = "N",
     .help = "Check one output in N of each matrix product, and screen all outputs. 1: check all outputs",
     .set = [](Options& options, Text text,
               Text where) { options.sampling.every = declared_whole_number(text, where, 1, max_every); },
     .default_text = "1",
     .group = cost},
    {.name = "budget",
     .takes = Takes::number,
     .value = "SECONDS",
     .help = "Check as many outputs of each matrix product as fit in SECONDS on this machine. The report gives the "
             "equivalent --sample value. Default: check all outputs",
     .set = [](Options& options, Text text,
               Text where) { options.sampling.seconds = declared_number(seconds_of(text), where, 0, 1e9); },
     .group = cost},
    {.name = "memory",
     .value = "SIZE",
     .help = "Memory that the check may plan for, such as 8G. A check that needs more is refused. If the limits of all "
             "outputs do not fit, they are computed a few rows at a time. Default: what this process may use, and 2G "
             "for limits",
     .set =
         [](Options& options, Text text, Text where) {
             options.memory = parse_bytes(text);
             if (!options.memory)
                 throw Error({.what = fmt::format("'{}' is not a valid size", text),
                              .where = where,
                              .fix = "give bytes, or a number with K, M, G or T, such as 8G",
                              .exit = Exit::usage});
         },
     .group = cost},
};

}  // namespace

std::span<const OptionKey> option_keys() { return keys; }

const OptionKey* find_option_key(std::string_view name) {
    const auto found =
        std::find_if(std::begin(keys), std::end(keys), [&](const OptionKey& key) { return key.name == name; });
    return found == std::end(keys) ? nullptr : &*found;
}

std::vector<std::string_view> power_words() { return {std::begin(powers), std::end(powers)}; }

Power power_named(const std::string& text, const std::string& where) {
    const auto found = std::find(std::begin(powers), std::end(powers), text);
    if (found == std::end(powers))
        throw no_such(fmt::format("'{}' is not a class of wrong kernels", text), text, power_words(), where);
    return static_cast<Power>(found - std::begin(powers));
}

std::string_view to_string(Power power) { return powers[static_cast<std::size_t>(power)]; }

}  // namespace macheps::check
