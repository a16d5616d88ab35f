// SPDX-License-Identifier: Apache-2.0
// Tests the formats that CI servers read: JUnit XML, SARIF and annotations. The names of kernels and files are meant to
// break these formats.
#include "reports/ci/annotations.hpp"
#include "reports/ci/junit.hpp"
#include "reports/ci/sarif.hpp"
#include "reports/rows/sha256.hpp"
#include "tests/reports/ci_schema.hpp"
#include "tests/test.hpp"

#include <string>
#include <vector>

namespace ci_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::reports;

namespace {

/// Names of kernels and files that are meant to break a report.
const std::vector<std::string> hostile{"plain",
                                       "a<b>&\"c'",
                                       "]]> <!-- --> <?x?>",
                                       "tab\tline\nreturn\rend",
                                       std::string("nul\0here", 8),
                                       "\x01\x1b[31mred\x7f",
                                       "\xff\xfe no UTF-8 \xc3",
                                       "overlong \xc0\xaf \xe0\x80\xaf, surrogate \xed\xa0\x80",
                                       "beyond \xf4\x90\x80\x80, U+FFFE \xef\xbf\xbe",
                                       "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
                                       "::error file=x::y",
                                       "100%,a:b%0A::warning::z",
                                       "&lt;&#10;&amp;",
                                       ""};

}  // namespace

TEST_CASE("JUnit's XML conforms to its schema, whatever the names and texts are", "[reports][ci]") {
    using Result = JUnitCase::Result;
    std::vector<JUnitCase> cases;
    for (const std::string& name : hostile) {
        for (const Result result : {Result::passed, Result::failure, Result::error, Result::skipped})
            cases.push_back({name, name, result, name, name, name, {{name, name}}});
    }
    const Element suite = check_junit(junit_text(hostile[1], cases));
    CHECK(suite.at("name") == hostile[1]);
    CHECK(suite.attributes.count("time") == 0);
    REQUIRE(suite.children.size() == cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
        // Names are read back unchanged if their characters are valid in XML and safe to show in a log.
        const std::string& name = cases[i].name;
        const std::string shown = name == hostile[3] ? "tab\tline\nreturn\\rend" : name;
        const bool is_text = name == "plain" || name == hostile[1] || name == hostile[2] || name == hostile[3] ||
                             name == hostile[9] || name == hostile[12];
        if (is_text) CHECK(suite.children[i].at("name") == shown);
        if (is_text && cases[i].result == Result::failure) CHECK(suite.children[i].children.back().text == shown);
    }
    CHECK(suite.children[4 * 4].at("name") == "nul\\x00here");
    CHECK(suite.children[6 * 4].at("name") == "\\xff\\xfe no UTF-8 \\xc3");
    CHECK(suite.children[8 * 4].at("name").find('\xf4') == std::string::npos);
}

TEST_CASE("a JUnit suite has the sum of the times of its test cases", "[reports][ci]") {
    const std::vector<JUnitCase> cases{{.classname = "a", .name = "b", .seconds = 0.25},
                                       {.classname = "a", .name = "c", .seconds = 1.5}};
    const Element suite = check_junit(junit_text("s", cases));
    CHECK(suite.at("time") == "1.750");
    CHECK(suite.children[0].at("time") == "0.250");
    CHECK(check_junit(junit_text("none", {})).children.empty());
}

TEST_CASE("the schema checks refuse documents that violate the schema", "[reports][ci]") {
    const std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
    const std::string suite = "<testsuite name=\"s\" tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"0\">";
    const std::string end = "</testsuite></testsuites>";
    CHECK_NOTHROW(check_junit(head + suite + "<testcase classname=\"a\" name=\"b\"/>" + end));
    for (const std::string& inside :
         {std::string("<testcase name=\"b\"/>"), std::string("<testcase classname=\"a\" name=\"b\" host=\"c\"/>"),
          std::string("<testcase classname=\"a\" name=\"<\"/>"), std::string("<testcase classname=\"a\" name=\"&\"/>"),
          std::string("<testcase classname=\"a\" name=\"b\"><failure message=\"c\"/></testcase>"), std::string()})
        CHECK_THROWS(check_junit(head + suite + inside + end));
    CHECK_THROWS(check_sarif(Json::parse(R"({"version": "2.1.0"})")));
    CHECK_THROWS(check_sarif(Json::parse(R"({"version": "2.1.0", "runs": [{"tool": {"driver": {"rules": []}}}]})")));
}

TEST_CASE("SARIF conforms to its schema, whatever the names and texts are", "[reports][ci]") {
    std::vector<SarifResult> results;
    for (const std::string& name : hostile) {
        results.push_back({.rule = "KC0" + std::to_string(results.size() % 3),
                           .level = results.size() % 2 == 0 ? "error" : "note",
                           .text = name + ".",
                           .file = name,
                           .line = static_cast<std::uint32_t>(results.size())});
        results.back().fingerprints["macheps/check"] = sha256_text(name);
        results.back().properties["name"] = name;
    }
    const Json log =
        Json::parse(sarif_document("1.0", results, {{"KC00", "a rule"}}).dump(2, Json::BadUtf8::is_replaced));
    REQUIRE_NOTHROW(check_sarif(log));
    const Json& run = log.at("runs")[0];
    CHECK(run.at("results").size() == hostile.size());
    CHECK(run.at("tool").at("driver").at("rules").size() == 3);
    CHECK(run.at("tool").at("driver").at("rules")[0].at("shortDescription").at("text") == Json("a rule"));
    CHECK(run.at("results")[13].at("locations").empty());  // the empty name
    REQUIRE_NOTHROW(check_sarif(sarif_document("1.0", {})));
}

TEST_CASE("a name cannot end an annotation or begin another annotation", "[reports][ci]") {
    std::vector<Annotation> annotations;
    for (const std::string& name : hostile)
        annotations.push_back({.level = "error", .title = name, .text = name, .file = name, .line = 7});
    const std::string lines = annotation_lines(annotations);
    CHECK(static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n')) == hostile.size());
    std::size_t at = 0;
    for (const std::string& name : hostile) {
        const std::string line = lines.substr(at, lines.find('\n', at) - at);
        at += line.size() + 1;
        CAPTURE(name, line);
        CHECK(line.starts_with(name.empty() ? "::error line=7," : "::error file="));
        // The message follows the second `::`, and the values of properties contain no separator.
        const std::string properties = line.substr(8, line.find("::", 8) - 8);
        CHECK(std::count(properties.begin(), properties.end(), ',') == (name.empty() ? 1 : 2));
        CHECK(line.find('\r') == std::string::npos);
    }
    CHECK(annotation_lines(annotations, 2).find("]]>") == std::string::npos);
    CHECK(annotation_lines({}) == "");
    const std::vector<Annotation> one{
        {.level = "note", .title = "t", .text = "a\nb", .file = "f", .line = 2, .column = 3}};
    CHECK(annotation_lines(one) == "::notice file=f,line=2,col=3,title=t::a%0Ab\n");
}

TEST_CASE("sha256_text returns the digest in hexadecimal", "[reports][ci]") {
    CHECK(sha256_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-4
}

}  // namespace ci_test
