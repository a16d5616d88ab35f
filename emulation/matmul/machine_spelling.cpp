// SPDX-License-Identifier: Apache-2.0
#include "emulation/matmul/machine_spelling.hpp"

#include "core/field_error.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/machine/gpus.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/library_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

namespace macheps {

namespace {

FieldError bad(std::string what, std::string_view text, std::string fix) {
    return FieldError("machine", std::move(what), std::move(fix), std::string(text));
}

/// Returns the rule for a name without suffixes: the name of a machine, of a rule that has a machine, or of a library
/// function. `text` is the whole text, for error messages.
SpelledRule base_rule(std::string_view name, std::string_view text) {
    if (const Machine* machine = find_machine(name)) return {.name = std::string(text), .rule = {.machine = machine}};
    if (const NamedMatmulRule* named = find_matmul_rule(name)) {
        if (named->rule.machine != nullptr) return {std::string(text), named->rule, named};
        throw bad(fmt::format("the rule '{}' needs a machine", name), text,
                  fmt::format("put a machine before it, such as sm90.mma.fp16+{}", name));
    }
    // The result has the rule's own name, not the library's, because the rule's name means the same on every CPU.
    if (const NamedMatmulRule* here = library_rule_here(name))
        return {std::string(here->name).append(text.substr(name.size())), here->rule, here};
    std::vector<std::string> names;
    for (const Machine* machine : all_machines) names.emplace_back(machine->name);
    for (const NamedMatmulRule& rule : all_matmul_rules()) names.emplace_back(rule.name);
    for (const LibraryName& library : library_names()) {
        if (library.name == name)
            throw bad(fmt::format("no rule of '{}' is known for this CPU", name), text,
                      fmt::format("use the name of a rule, such as {}", library.variants.front().rule));
        names.emplace_back(library.name);
    }
    if (name.find(':') != std::string_view::npos) {
        names.clear();
        for (const SumOrderRow& row : sum_orders()) names.emplace_back(row.name);
        const std::string_view order = name.substr(0, name.find(':'));
        const std::string nearest = nearest_name(order, names);
        throw bad(fmt::format("unknown order of summation '{}'", order), text,
                  nearest.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                                  : fmt::format("did you mean '{}'?", nearest));
    }
    if (const std::vector<const Machine*> units = machines_of_gpu(name); !units.empty()) {
        std::vector<std::string_view> unit_names;
        for (const Machine* unit : units) unit_names.push_back(unit->name);
        throw bad(fmt::format("'{}' is a GPU with several machines", name), text,
                  fmt::format("use one of {}", fmt::join(unit_names, ", ")));
    }
    const std::string near = nearest_name(std::string(name), names);
    throw bad(fmt::format("unknown machine '{}'", name), text,
              near.empty() ? "see `macheps machine list`" : fmt::format("did you mean '{}'?", near));
}

/// Returns the number after `prefix`, or 0 if `word` is something else.
int number_after(std::string_view prefix, std::string_view word) {
    if (word.substr(0, prefix.size()) != prefix) return 0;
    const std::string_view digits = word.substr(prefix.size());
    int number = 0;
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc{} && last == digits.data() + digits.size() && number > 0 ? number : 0;
}

void add_suffix(SpelledRule& spelled, std::string_view word) {
    if (const int slices = number_after("slices", word)) {
        spelled.rule.slices = slices;
        return;
    }
    if (const int interval = number_after("promote", word)) {
        if (interval % spelled.rule.machine->k != 0) {
            throw bad(fmt::format("{} is not a multiple of the instruction's k", interval), spelled.name,
                      fmt::format("use a multiple of {}", spelled.rule.machine->k));
        }
        spelled.rule.promotion = Promotion::add;
        spelled.rule.promotion_interval = interval;
        return;
    }
    const NamedMatmulRule* named = find_matmul_rule(word);
    if (named == nullptr || named->rule.machine != nullptr) {
        throw bad(fmt::format("unknown suffix '+{}'", word), spelled.name,
                  "use +promoteN, +slicesN, or a rule that needs a machine");
    }
    const Machine* machine = spelled.rule.machine;
    spelled.rule = named->rule;
    spelled.rule.machine = machine;
    spelled.named = named;
}

}  // namespace

SpelledRule parse_machine(std::string_view given) {
    const std::string text = lowered(given);  // every name is in lower case
    if (const std::optional<SumOrder> order = parse_sum_order(text)) {
        return {.name = text, .order = order};
    }
    const std::size_t end = std::min(text.find('+'), text.size());
    SpelledRule spelled = base_rule(std::string_view(text).substr(0, end), text);
    std::string_view rest = std::string_view(text).substr(end);
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const std::string_view word = rest.substr(0, rest.find('+'));
        rest.remove_prefix(word.size());
        add_suffix(spelled, word);
    }
    if (spelled.rule.slices == 0) {
        throw bad("the number of slices is missing", spelled.name,
                  fmt::format("add it, such as {}+slices4", spelled.name));
    }
    return spelled;
}

}  // namespace macheps
