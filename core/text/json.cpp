// SPDX-License-Identifier: Apache-2.0
#include "core/text/json.hpp"

#include "core/text/shown.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_map>

namespace macheps {

namespace {

using Library = nlohmann::ordered_json;

Library to_library(const Json& json) {
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_unsigned()) return json.get<std::uint64_t>();
    if (json.is_number_integer()) return json.get<std::int64_t>();
    if (json.is_number_float()) return json.get<double>();
    if (json.is_string()) return json.string();
    if (json.is_array()) {
        Library array = Library::array();
        for (const Json& value : json) array.push_back(to_library(value));
        return array;
    }
    if (json.is_object()) {
        Library object = Library::object();
        // The keys are known to be unique, so the members are appended to the underlying vector. An insertion through
        // nlohmann::json would compare each key with all previous keys.
        auto& members = object.get_ref<Library::object_t&>();
        for (const auto& [key, value] : json.items()) {
            static_cast<Library::object_t::Container&>(members).emplace_back(key, to_library(value));
        }
        return object;
    }
    return nullptr;
}

/// Escapes invisible characters in a JSON text, and also `##[`, which the log of a CI job would execute as a command.
/// nlohmann::json escapes only characters below U+0020. A parser reads the same strings from the result as from `text`.
std::string with_escapes(std::string text) {
    if (is_printable_lines(text)) return text;
    std::string out;
    for (std::string_view rest = text; !rest.empty();) {
        const Character at = first_character(rest);
        if (begins_log_command(rest)) {
            out += "\\u0023";
        } else if (at.code == '\n' || !is_invisible(at.code)) {
            out += rest.substr(0, std::max<std::size_t>(at.bytes, 1));
        } else if (at.code < 0x10000) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(at.code));
        } else {
            const unsigned beyond = static_cast<unsigned>(at.code) - 0x10000;
            out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (beyond >> 10), 0xdc00 + (beyond & 0x3ff));
        }
        rest.remove_prefix(std::max<std::size_t>(at.bytes, 1));
    }
    return out;
}

/// Maximum depth of nested values. Nested values are created and destroyed recursively, and this depth fits on any
/// stack.
constexpr std::size_t max_levels = 1000;

/// Builds a value from the callbacks of the parser.
class Builder : public nlohmann::json_sax<Library> {
  public:
    explicit Builder(bool unique_keys) : unique_keys_(unique_keys) {}
    Json take() { return std::move(root_); }

    bool null() override { return put({}); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(std::int64_t value) override { return put(value); }
    bool number_unsigned(std::uint64_t value) override { return put(value); }
    bool number_float(double value, const std::string&) override { return put(value); }
    bool string(std::string& value) override { return put(value); }
    bool binary(Library::binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(true); }
    bool start_array(std::size_t) override { return open(false); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(std::string& name) override {
        Open& open = open_.back();
        const auto [found, is_new] = open.places.try_emplace(name, open.object.size());
        if (!is_new && unique_keys_) throw JsonError("the key '" + name + "' occurs twice");
        if (is_new) open.object.push_back({.key = name, .value = {}});
        open.place = found->second;
        return true;
    }
    bool parse_error(std::size_t byte, const std::string& token, const nlohmann::detail::exception& error) override {
        // The id of nlohmann::json's error for a number that is too large for fp64. Such a text is still valid JSON, so
        // the JsonError has no position.
        constexpr int number_out_of_range = 406;
        if (error.id == number_out_of_range) throw JsonError("a number is too large for fp64: " + token);
        // The message begins with the name of the exception, such as `[json.exception.parse_error.101]`. Remove this
        // name.
        const std::string_view what = error.what();
        const std::size_t end = what.starts_with('[') ? what.find("] ") : what.npos;
        throw JsonError(std::string(end == what.npos ? what : what.substr(end + 2)), byte);
    }

  private:
    /// An array or object that is still open.
    struct Open {
        bool is_object;
        Json::Array array{};
        Json::Object object{};
        std::unordered_map<std::string, std::size_t> places{};  ///< positions of the object's keys
        std::size_t place = 0;                                  ///< position of the member whose value comes next
    };
    bool open(bool is_object) {
        if (open_.size() == max_levels) {
            throw JsonError("arrays and objects are nested more than " + std::to_string(max_levels) + " deep");
        }
        open_.push_back({.is_object = is_object});
        return true;
    }
    bool close() {
        Open done = std::move(open_.back());
        open_.pop_back();
        return put(done.is_object ? Json(std::move(done.object)) : Json(std::move(done.array)));
    }
    bool put(Json value) {
        if (open_.empty()) {
            root_ = std::move(value);
        } else if (Open& open = open_.back(); open.is_object) {
            open.object[open.place].value = std::move(value);
        } else {
            open.array.push_back(std::move(value));
        }
        return true;
    }

    bool unique_keys_;
    std::vector<Open> open_;
    Json root_;
};

}  // namespace

Json::Json(std::string_view text) : kind_(Kind::string) { of_.string = new std::string(text); }

Json::Json(std::initializer_list<Json> values) {
    const bool is_object = std::all_of(values.begin(), values.end(), [](const Json& value) {
        return value.is_array() && value.size() == 2 && value[0].is_string();
    });
    *this = is_object ? object() : array();
    for (const Json& value : values) {
        if (is_object) {
            (*this)[value[0].string()] = value[1];
        } else {
            push_back(value);
        }
    }
}

Json::Json(const Json& other) : kind_(other.kind_), of_(other.of_) {
    if (kind_ == Kind::string) of_.string = new std::string(*other.of_.string);
    if (kind_ == Kind::array) of_.array = new Array(*other.of_.array);
    if (kind_ == Kind::object) of_.object = new Object(*other.of_.object);
}

void Json::release() noexcept {
    if (kind_ == Kind::string) delete of_.string;
    if (kind_ == Kind::array) delete of_.array;
    if (kind_ == Kind::object) delete of_.object;
}

Json::Json(Array&& elements) : kind_(Kind::array) { of_.array = new Array(std::move(elements)); }
Json::Json(Object&& members) : kind_(Kind::object) { of_.object = new Object(std::move(members)); }
Json Json::array() { return Json(Array{}); }
Json Json::object() { return Json(Object{}); }

Json Json::parse(std::string_view text, bool unique_keys) {
    Builder builder(unique_keys);
    Library::sax_parse(text.begin(), text.end(), &builder);
    return builder.take();
}

Json Json::parse_or_null(std::string_view text) try { return parse(text); } catch (const JsonError&) {
    return {};
}

void Json::fail(const char* wanted) const {
    constexpr const char* kinds[] = {"null",     "a bool",   "an integer", "an integer",
                                     "a number", "a string", "an array",   "an object"};
    throw JsonError(std::string("expected ") + wanted + ", found " + kinds[static_cast<std::size_t>(kind_)]);
}

void Json::get_to(bool& out) const {
    if (!is_boolean()) fail("a bool");
    out = of_.boolean;
}

double Json::real() const {
    if (kind_ == Kind::integer) return static_cast<double>(of_.integer);
    if (kind_ == Kind::natural) return static_cast<double>(of_.natural);
    if (kind_ != Kind::real) fail("a number");
    return of_.real;
}

const std::string& Json::string() const {
    if (!is_string()) fail("a string");
    return *of_.string;
}

std::size_t Json::size() const { return is_array() ? of_.array->size() : is_object() ? of_.object->size() : 0; }

const Json::Array& Json::elements() const {
    if (!is_array()) fail("an array");
    return *of_.array;
}

const Json& Json::element(std::size_t i) const {
    if (i >= elements().size()) throw JsonError("the array has only " + std::to_string(size()) + " elements");
    return (*of_.array)[i];
}

void Json::push_back(Json value) {
    if (is_null()) *this = array();
    if (!is_array()) fail("an array");
    of_.array->push_back(std::move(value));
}

const Json::Object& Json::items() const {
    if (!is_object()) fail("an object");
    return *of_.object;
}

const Json* Json::find(std::string_view key) const {
    if (!is_object()) return nullptr;
    const auto found =
        std::find_if(of_.object->begin(), of_.object->end(), [&](const Member& member) { return member.key == key; });
    return found == of_.object->end() ? nullptr : &found->value;
}

const Json& Json::at(std::string_view key) const {
    (void)items();
    const Json* found = find(key);
    if (found == nullptr) throw JsonError("the key '" + std::string(key) + "' is missing");
    return *found;
}

Json& Json::operator[](std::string_view key) {
    if (is_null()) *this = object();
    if (!is_object()) fail("an object");
    if (const Json* found = find(key)) return const_cast<Json&>(*found);
    return of_.object->emplace_back(Member{std::string(key), {}}).value;
}

void Json::erase(std::string_view key) {
    (void)items();
    std::erase_if(*of_.object, [&](const Member& member) { return member.key == key; });
}

void Json::update(const Json& other) {
    for (const auto& [key, value] : other.items()) (*this)[key] = value;
}

bool Json::operator==(const Json& other) const {
    if (is_string() && other.is_string()) return *of_.string == *other.of_.string;
    if (is_array() && other.is_array()) return *of_.array == *other.of_.array;
    if (is_object() && other.is_object()) return *of_.object == *other.of_.object;
    if (is_boolean() && other.is_boolean()) return of_.boolean == other.of_.boolean;
    if (is_null() || other.is_null()) return is_null() && other.is_null();
    const auto is_number = [](const Json& json) { return json.is_number_integer() || json.is_number_float(); };
    if (!is_number(*this) || !is_number(other)) return false;
    if (is_number_float() || other.is_number_float()) return real() == other.real();
    const bool is_negative = kind_ == Kind::integer && of_.integer < 0,
               other_is = other.kind_ == Kind::integer && other.of_.integer < 0;
    return is_negative == other_is && of_.natural == other.of_.natural;
}

std::string Json::dump(int indent, BadUtf8 bad) const try {
    return with_escapes(to_library(*this).dump(
        indent, ' ', false,
        bad == BadUtf8::throws ? Library::error_handler_t::strict : Library::error_handler_t::replace));
} catch (const Library::exception& error) {
    throw JsonError(error.what());
}

std::string json_ascii(std::string_view text) {
    return Library(text).dump(-1, ' ', true, Library::error_handler_t::replace);
}

}  // namespace macheps
