// SPDX-License-Identifier: Apache-2.0
// Tests how Json reads and writes, which texts it refuses, and which positions its errors report.
#include "core/text/json.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <limits>

namespace json_test {

using namespace macheps;

namespace {

/// Returns the text of the JsonError that `work` throws, or an empty string if it throws none.
template <class Work>
std::string error_of(const Work& work) {
    try {
        work();
    } catch (const JsonError& error) {
        return error.what();
    }
    return {};
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a JSON text keeps its order and its numbers when it is read and written", "[core][json]") {
    for (const char* text : {"null", "true", "0", "-1", "18446744073709551615", "-9223372036854775808", "1.5", "1e+300",
                             "-0.0", "\"\"", R"("a\"b\\c\n\u0001é")", "[]", "{}",
                             R"([1,[2,[]],{"z":1,"a":[null,false]}])", R"({"b":1,"a":{"d":2,"c":3}})"}) {
        CAPTURE(text);
        CHECK(Json::parse(text).dump() == text);
    }
    CHECK(Json::parse("18446744073709551616").is_number_float());
    CHECK(Json::parse("1.0").dump() == "1.0");
    CHECK(Json::parse(R"({"a":[1,{}],"b":[]})").dump(2) == "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
    CHECK(Json(INFINITY).dump() == "null");
    CHECK(Json(0.1).dump() == "0.1");
}

TEST_CASE("a list in braces is an object if every element is a pair of a key and a value", "[core][json]") {
    const Json object{{"a", 1}, {"b", {1, 2}}, {"c", {{"d", "e"}}}};
    CHECK(object.dump() == R"({"a":1,"b":[1,2],"c":{"d":"e"}})");
    CHECK(Json({"a", 1}).dump() == R"(["a",1])");
    CHECK(Json({{1, 2}, {3, 4}}).dump() == "[[1,2],[3,4]]");
    CHECK(Json(std::vector<std::string>{"x", "y"}).dump() == R"(["x","y"])");
    CHECK(Json(std::map<std::string, int>{{"y", 1}, {"x", 2}}).dump() == R"({"x":2,"y":1})");
    CHECK(Json(true).is_boolean());
    CHECK(Json("true").is_string());
    CHECK(Json(1u).is_number_unsigned());
    CHECK_FALSE(Json(1).is_number_unsigned());
    CHECK(Json::parse("1").is_number_unsigned());
}

TEST_CASE("members are added, replaced, found and removed", "[core][json]") {
    Json json;
    json["b"] = 1;
    json["a"].push_back("x");
    json["b"] = nullptr;
    CHECK(json.dump() == R"({"b":null,"a":["x"]})");
    json.update({{"c", 2}, {"b", 3}});
    CHECK(json.dump() == R"({"b":3,"a":["x"],"c":2})");
    json.erase("a");
    json.erase("nothing");
    CHECK(json == Json{{"b", 3}, {"c", 2u}});
    CHECK(json.contains("c"));
    CHECK(json.find("a") == nullptr);
    CHECK(Json(7).find("a") == nullptr);
    CHECK(json.size() == 2);
    CHECK(Json(7).empty());
    std::string keys;
    for (const auto& [key, value] : json.items()) keys += key;
    CHECK(keys == "bc");
    Json copy = json;
    copy["b"] = "changed";
    CHECK(json["b"] == 3);
    const Json moved = std::move(copy);
    CHECK(moved["b"] == "changed");
    json = json["b"];  // assigns a part of itself
    CHECK(json == 3);
}

TEST_CASE("JSON numbers of different types are equal if their values are equal", "[core][json]") {
    CHECK(Json(3) == Json(3u));
    CHECK(Json(3) == Json(3.0));
    CHECK_FALSE(Json(-1) == Json(std::numeric_limits<std::uint64_t>::max()));
    CHECK_FALSE(Json(1) == Json(true));
    CHECK_FALSE(Json(0) == Json());
    CHECK_FALSE(Json("1") == Json(1));
    CHECK_FALSE(Json(std::nan("")) == Json(std::nan("")));
}

TEST_CASE("a value of the wrong kind or out of range throws an error that describes the problem", "[core][json]") {
    CHECK(Json(200).get<std::uint8_t>() == 200);
    CHECK(says(error_of([] { (void)Json(256).get<std::uint8_t>(); }), "an integer in range"));
    CHECK(says(error_of([] { (void)Json(-1).get<std::uint64_t>(); }), "an integer in range"));
    CHECK(says(error_of([] { (void)Json(1.5).get<int>(); }), "expected an integer in range, found a number"));
    CHECK(says(error_of([] { (void)Json("1").get<double>(); }), "expected a number, found a string"));
    CHECK(says(error_of([] { (void)Json(1).get<bool>(); }), "expected a bool"));
    CHECK(says(error_of([] { (void)Json().string(); }), "expected a string, found null"));
    CHECK(says(error_of([] { (void)Json(1).items(); }), "expected an object"));
    CHECK(says(error_of([] { (void)Json::object().begin(); }), "expected an array"));
    CHECK(says(error_of([] { Json(1).push_back(2); }), "expected an array"));
    CHECK(says(error_of([] { (void)Json::object().at("steps"); }), "the key 'steps' is missing"));
    CHECK(says(error_of([] { (void)Json({1, 2})[2]; }), "has only 2 elements"));
    CHECK(Json(3).get<double>() == 3);
    CHECK(Json({1, 2}).get<std::vector<int>>() == std::vector<int>{1, 2});
}

TEST_CASE("a text that is not JSON is refused, and the error gives the position", "[core][json]") {
    const struct {
        const char* text;
        std::size_t byte;
    } cases[] = {{"", 1}, {"{", 2}, {"[1,]", 4}, {"{\"a\" 1}", 6}, {"1 2", 3}, {"\"\xff\"", 2}, {"nul", 4}, {"[1}", 3}};
    for (const auto& [text, byte] : cases) {
        CAPTURE(text);
        try {
            (void)Json::parse(text);
            FAIL_CHECK("it was accepted");
        } catch (const JsonError& error) {
            CHECK(error.byte() == byte);
        }
        CHECK(Json::parse_or_null(text).is_null());
    }
    CHECK(says(error_of([] { (void)Json::parse("1e999"); }), "1e999"));
}

TEST_CASE("a repeated key replaces the earlier value, or is refused on request", "[core][json]") {
    const char* text = R"({"a":1,"b":2,"a":{"c":3}})";
    CHECK(Json::parse(text).dump() == R"({"a":{"c":3},"b":2})");
    CHECK(says(error_of([&] { (void)Json::parse(text, true); }), "the key 'a' occurs twice"));
    CHECK(Json::parse(R"([{"a":1},{"a":1,"b":{"a":2}}])", true).size() == 2);
}

TEST_CASE("a text with a thousand nested levels is read, and one with more is refused", "[core][json]") {
    const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
    CHECK(Json::parse(nested(1000)).dump() == nested(1000));
    CHECK(says(error_of([&] { (void)Json::parse(nested(1001)); }), "1000 deep"));
    CHECK(says(error_of([&] { (void)Json::parse(std::string(10'000'000, '[')); }), "1000 deep"));
}

TEST_CASE("bytes that are not UTF-8 are refused, replaced or escaped", "[core][json]") {
    const Json json{{"name", "a\xff"}};
    CHECK(says(error_of([&] { (void)json.dump(); }), "UTF-8"));
    CHECK(json.dump(-1, Json::BadUtf8::is_replaced) == "{\"name\":\"a\xef\xbf\xbd\"}");
    CHECK(json_ascii("é\xff") == R"("\u00e9\ufffd")");
}

}  // namespace json_test
