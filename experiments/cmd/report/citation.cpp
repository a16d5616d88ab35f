// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/report/citation.hpp"

#include "core/host/version.hpp"
#include "experiments/files/config/value.hpp"
#include "reports/paper/latex_text.hpp"

#include <fmt/format.h>

#include <string_view>

namespace macheps::cmd::report {

extern const std::string_view citation_cff;  // citation_text.cpp.in

namespace {

using files::ConfigValue;

std::string text_at(const ConfigValue& map, std::string_view key) {
    const ConfigValue* value = map.find(key);
    return value == nullptr ? std::string{} : value->written;
}

/// Returns the authors, separated by `and`. The name of a group is in braces, so that BibTeX does not split it.
std::string authors_of(const ConfigValue& citation) {
    std::string authors;
    const ConfigValue* list = citation.find("authors");
    if (list == nullptr) return authors;
    for (const ConfigValue& author : list->items) {
        if (!authors.empty()) authors += " and ";
        const std::string group = text_at(author, "name"), family = text_at(author, "family-names");
        authors += group.empty() ? reports::latex_text(family + ", " + text_at(author, "given-names"))
                                 : "{" + reports::latex_text(group) + "}";
    }
    return authors;
}

/// Returns the year of the release, or that of the commit if there is no release.
std::string year_of(const ConfigValue& citation) {
    const std::string released = text_at(citation, "date-released");
    return released.size() >= 4 ? released.substr(0, 4) : git_year();
}

/// A field of the entry and the key of CITATION.cff that has its value.
struct CitedField {
    std::string_view name, key;
};
constexpr CitedField cited_fields[] = {{"title", "title"}, {"url", "repository-code"}, {"doi", "doi"}};

}  // namespace

std::string bibtex() {
    const ConfigValue citation = files::read_yaml_config(citation_cff, "CITATION.cff").root;
    std::string out = fmt::format("@misc{{macheps,\n  author = {{{}}},\n", authors_of(citation));
    for (const CitedField& field : cited_fields) {
        if (const std::string text = text_at(citation, field.key); !text.empty())
            out += fmt::format("  {} = {{{}}},\n", field.name, reports::latex_text(text));
    }
    if (const std::string year = year_of(citation); !year.empty()) out += fmt::format("  year = {{{}}},\n", year);
    return out + fmt::format("  note = {{Version {}, revision {}, {}}}\n}}\n", text_at(citation, "version"),
                             reports::latex_text(git_revision()), reports::latex_text(text_at(citation, "license")));
}

}  // namespace macheps::cmd::report
