// SPDX-License-Identifier: Apache-2.0
// Checks SARIF and JUnit XML against the parts of their schemas that macheps uses. SARIF's schema is from OASIS
// (sarif-schema-2.1.0.json). Required members, permitted members, types and ranges are checked. JUnit XML has no
// standard. The checks permit the elements and attributes that Jenkins (junit-10.xsd), GitLab and pytest have in
// common. They also permit `properties` of a test case, as pytest writes them.
#pragma once
#include "core/text/json.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::test {

[[noreturn]] inline void broken(const std::string& what) { throw std::runtime_error(what); }
inline void need(bool holds, const std::string& what) {
    if (!holds) broken(what);
}

// --- SARIF

/// Checks that an object has every member of `required`, and no others except those of `optional`.
inline void members(const Json& json, const std::string& what, const std::set<std::string>& required,
                    const std::set<std::string>& optional = {}) {
    need(json.is_object(), what + " is not an object");
    for (const std::string& name : required) need(json.contains(name), what + " lacks " + name);
    for (const Json::Member& member : json.items())
        need(required.contains(member.key) || optional.contains(member.key), what + " has a member " + member.key);
}
inline void at_least_one(const Json& json, const std::string& what) {
    need(json.is_number_integer() && json.get<std::int64_t>() >= 1, what + " is not a positive integer");
}
/// Checks a URI reference (RFC 3986): it has only permitted characters, and two hexadecimal digits follow each percent
/// sign.
inline void uri_reference(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '%')
            need(i + 2 < text.size() && std::isxdigit(text[i + 1]) && std::isxdigit(text[i + 2]), "a bare percent");
        else
            need(std::isalnum(static_cast<unsigned char>(c)) ||
                     std::string_view("-._~:/?#[]@!$&'()*+,;=").find(c) != std::string_view::npos,
                 "not a URI reference: " + text);
    }
}

inline void check_location(const Json& location) {
    members(location, "location", {}, {"physicalLocation"});
    if (const Json* place = location.find("physicalLocation")) {
        members(*place, "physicalLocation", {"artifactLocation"}, {"region"});
        members(place->at("artifactLocation"), "artifactLocation", {"uri"});
        uri_reference(place->at("artifactLocation").at("uri").string());
        if (const Json* region = place->find("region")) {
            members(*region, "region", {}, {"startLine", "startColumn"});
            for (const Json::Member& member : region->items()) at_least_one(member.value, member.key);
        }
    }
}

inline void check_result(const Json& result, const Json& rules) {
    members(result, "result", {"message"},
            {"ruleId", "ruleIndex", "level", "locations", "partialFingerprints", "properties"});
    members(result.at("message"), "message", {"text"});
    need(!result.at("message").at("text").string().empty(), "a message without text");
    const std::string level = result.at("level").string();
    need(std::set<std::string>{"none", "note", "warning", "error"}.contains(level), "level " + level);
    const auto rule = result.at("ruleIndex").get<std::size_t>();
    need(rule < rules.size() && rules[rule].at("id") == result.at("ruleId"), "ruleIndex and ruleId differ");
    for (const Json& location : result.at("locations")) check_location(location);
    if (const Json* prints = result.find("partialFingerprints")) {
        for (const Json::Member& one : prints->items()) need(one.value.is_string(), "a fingerprint is not a text");
    }
    if (const Json* bag = result.find("properties")) need(bag->is_object(), "properties are not an object");
}

/// Throws if the document violates the schema.
inline void check_sarif(const Json& log) {
    members(log, "the log", {"version", "runs"}, {"$schema"});
    need(log.at("version").string() == "2.1.0", "version");
    for (const Json& run : log.at("runs")) {
        members(run, "run", {"tool"}, {"results"});
        members(run.at("tool"), "tool", {"driver"});
        const Json& driver = run.at("tool").at("driver");
        members(driver, "driver", {"name"}, {"version", "rules"});
        std::set<std::string> ids;
        for (const Json& rule : driver.at("rules")) {
            members(rule, "rule", {"id"}, {"shortDescription"});
            need(ids.insert(rule.at("id").string()).second, "two rules of one id");
            if (const Json* text = rule.find("shortDescription")) members(*text, "shortDescription", {"text"});
        }
        for (const Json& result : run.at("results")) check_result(result, driver.at("rules"));
    }
}

// --- XML

struct Element {
    std::string name{}, text{};
    std::map<std::string, std::string> attributes{};
    std::vector<Element> children{};

    const std::string& at(const std::string& attribute) const { return attributes.at(attribute); }
};

/// Reads XML 1.0 in UTF-8 that consists of elements, attributes and text, and refuses everything else.
class XmlReader {
  public:
    explicit XmlReader(std::string_view text) : text_(text) {}

    Element document() {
        take("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
        space();
        Element root = element();
        space();
        need(text_.empty(), "text after the root");
        return root;
    }

  private:
    void take(std::string_view word) {
        need(text_.starts_with(word), "no " + std::string(word) + " at " + std::string(text_.substr(0, 20)));
        text_.remove_prefix(word.size());
    }
    void space() {
        while (!text_.empty() && std::string_view(" \t\r\n").find(text_[0]) != std::string_view::npos)
            text_.remove_prefix(1);
    }
    std::string name() {
        std::string word;
        while (!text_.empty() && (std::isalnum(static_cast<unsigned char>(text_[0])) || text_[0] == '-')) {
            word += text_[0];
            text_.remove_prefix(1);
        }
        need(!word.empty() && std::isalpha(static_cast<unsigned char>(word[0])), "no name");
        return word;
    }
    /// Returns the text up to `end`, with references resolved.
    std::string characters(char end) {
        std::string out;
        while (need(!text_.empty(), "the end is missing"), text_[0] != end) {
            const char c = text_[0];
            need(c != '<', "a bare <");
            if (c == '&') {
                const std::size_t semicolon = text_.find(';');
                need(semicolon != std::string_view::npos, "a bare &");
                const std::string reference(text_.substr(1, semicolon - 1));
                static const std::map<std::string, char> named{{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}};
                if (named.contains(reference)) {
                    out += named.at(reference);
                } else {
                    need(reference == "#9" || reference == "#10" || reference == "#13", "reference " + reference);
                    out += static_cast<char>(std::stoi(reference.substr(1)));
                }
                text_.remove_prefix(semicolon + 1);
                continue;
            }
            need(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t' || c == '\r', "a control character");
            out += c;
            text_.remove_prefix(1);
        }
        // The JSON library throws here if the text is not valid UTF-8.
        Json(out).dump();
        return out;
    }
    Element element() {
        take("<");
        Element one{.name = name()};
        for (space(); !text_.starts_with(">") && !text_.starts_with("/>"); space()) {
            const std::string attribute = name();
            take("=\"");
            need(one.attributes.emplace(attribute, characters('"')).second, "attribute " + attribute + " twice");
            take("\"");
        }
        if (text_.starts_with("/>")) {
            take("/>");
            return one;
        }
        take(">");
        for (;;) {
            one.text += characters('<');
            if (text_.starts_with("</")) break;
            one.children.push_back(element());
        }
        take("</" + one.name + ">");
        return one;
    }

    std::string_view text_;
};

inline void check_attributes(const Element& one, const std::set<std::string>& required,
                             const std::set<std::string>& optional = {}) {
    for (const std::string& name : required) need(one.attributes.contains(name), one.name + " lacks " + name);
    for (const auto& [name, value] : one.attributes)
        need(required.contains(name) || optional.contains(name), one.name + " has an attribute " + name);
}

inline void check_test_case(const Element& one) {
    need(one.name == "testcase", "a suite holds test cases");
    check_attributes(one, {"name", "classname"}, {"time"});
    for (std::size_t i = 0; i < one.children.size(); ++i) {
        const Element& child = one.children[i];
        if (child.name == "properties") {
            need(i == 0, "properties must be first");
            for (const Element& property : child.children) {
                need(property.name == "property" && property.children.empty(), "properties hold properties");
                check_attributes(property, {"name", "value"});
            }
            continue;
        }
        need(child.name == "failure" || child.name == "error" || child.name == "skipped", "element " + child.name);
        need(child.children.empty(), child.name + " contains more than text");
        check_attributes(child, {"message"}, {"type"});
    }
}

/// Returns the only suite of a document. Throws if the document violates the schema or its counts are wrong.
inline Element check_junit(std::string_view xml) {
    const Element root = XmlReader(xml).document();
    need(root.name == "testsuites" && root.attributes.empty() && root.children.size() == 1, "one suite of suites");
    const Element& suite = root.children.front();
    need(suite.name == "testsuite", "a suite");
    check_attributes(suite, {"name", "tests", "failures", "errors", "skipped"}, {"time"});
    std::map<std::string, int> counts;
    for (const Element& one : suite.children) {
        check_test_case(one);
        for (const Element& child : one.children) ++counts[child.name];
    }
    need(suite.at("tests") == std::to_string(suite.children.size()), "tests");
    need(suite.at("failures") == std::to_string(counts["failure"]), "failures");
    need(suite.at("errors") == std::to_string(counts["error"]), "errors");
    need(suite.at("skipped") == std::to_string(counts["skipped"]), "skipped");
    return suite;
}

}  // namespace macheps::test
