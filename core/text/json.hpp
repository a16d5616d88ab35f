// SPDX-License-Identifier: Apache-2.0
// Json: a value of a JSON document, with a parser and a writer. Host only. json.cpp parses and writes with
// nlohmann/json and is the only file that includes that library, because it costs seconds of compile time.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps {

/// Error for text that is not valid JSON, and for a value whose kind is not the requested one.
class JsonError : public std::runtime_error {
  public:
    explicit JsonError(const std::string& what, std::size_t byte = 0) : std::runtime_error(what), byte_(byte) {}
    /// Returns the byte position, counted from 1, at which the text stops being valid JSON, or 0 if the position is
    /// unknown.
    std::size_t byte() const { return byte_; }

  private:
    std::size_t byte_;
};

/// A JSON value: null, a bool, a number, a string, an array, or an object. Objects keep the order of their members. A
/// number without fraction or exponent is an integer if 64 bits can hold it. All other numbers are doubles.
class Json {
  public:
    struct Member;
    using Array = std::vector<Json>;
    using Object = std::vector<Member>;

    Json() noexcept {}
    Json(std::nullptr_t) noexcept {}
    Json(std::same_as<bool> auto value) noexcept : kind_(Kind::boolean) { of_.boolean = value; }
    Json(std::signed_integral auto value) noexcept : kind_(Kind::integer) { of_.integer = value; }
    template <std::unsigned_integral Integer>
    requires(!std::same_as<Integer, bool>) Json(Integer value)
    noexcept : kind_(Kind::natural) { of_.natural = value; }
    Json(std::floating_point auto value) noexcept : kind_(Kind::real) { of_.real = static_cast<double>(value); }
    Json(std::string_view text);
    Json(const char* text) : Json(std::string_view(text)) {}
    Json(const std::string& text) : Json(std::string_view(text)) {}
    template <class T>
    Json(const std::vector<T>& values) : Json(array()) {
        for (const T& value : values) push_back(value);
    }
    template <class T>
    Json(const std::map<std::string, T>& values) : Json(object()) {
        for (const auto& [key, value] : values) (*this)[key] = value;
    }
    /// Makes an object if every element is a pair of a string and a value, as in {{"a", 1}, {"b", 2}}. Otherwise makes
    /// an array.
    Json(std::initializer_list<Json> values);
    explicit Json(Array&& elements);
    explicit Json(Object&& members);  ///< keys must be unique
    Json(const Json& other);
    Json(Json&& other) noexcept : kind_(std::exchange(other.kind_, Kind::null)), of_(other.of_) {}
    Json& operator=(Json other) noexcept {
        std::swap(kind_, other.kind_);
        std::swap(of_, other.of_);
        return *this;
    }
    ~Json() {
        if (kind_ >= Kind::string) release();
    }

    static Json array();
    static Json object();

    /// Parses a JSON text. If an object repeats a key, the last value takes the place of the first. Throws JsonError if
    /// the text is not valid JSON, if a number is too large for fp64, or if arrays and objects are nested more than
    /// 1000 deep. If `unique_keys` is true, a repeated key is an error as well.
    static Json parse(std::string_view text, bool unique_keys = false);
    /// Parses a JSON text like parse(text), but returns null instead of throwing JsonError.
    static Json parse_or_null(std::string_view text);

    bool is_null() const { return kind_ == Kind::null; }
    bool is_boolean() const { return kind_ == Kind::boolean; }
    bool is_number_integer() const { return kind_ == Kind::integer || kind_ == Kind::natural; }
    /// Returns true for an integer that was parsed without a sign or made from an unsigned integer.
    bool is_number_unsigned() const { return kind_ == Kind::natural; }
    bool is_number_float() const { return kind_ == Kind::real; }
    bool is_string() const { return kind_ == Kind::string; }
    bool is_array() const { return kind_ == Kind::array; }
    bool is_object() const { return kind_ == Kind::object; }
    bool is_structured() const { return is_array() || is_object(); }

    /// Returns the value as T: a bool, an integer, a float, a double, a std::string, a Json, or a vector of one of
    /// these. An integer can also be read as a float or double. Throws JsonError if the value has another kind, or if T
    /// cannot hold the integer.
    template <class T>
    T get() const {
        T value{};
        get_to(value);
        return value;
    }
    void get_to(Json& out) const { out = *this; }
    void get_to(bool& out) const;
    void get_to(std::string& out) const { out = string(); }
    template <std::floating_point Real>
    void get_to(Real& out) const {
        out = static_cast<Real>(real());
    }
    template <std::integral Integer>
    requires(!std::same_as<Integer, bool>) void get_to(Integer& out) const {
        const bool is_held = kind_ == Kind::natural ? std::in_range<Integer>(of_.natural)
                                                    : kind_ == Kind::integer && std::in_range<Integer>(of_.integer);
        if (!is_held) fail("an integer in range");
        out = kind_ == Kind::natural ? static_cast<Integer>(of_.natural) : static_cast<Integer>(of_.integer);
    }
    template <class T>
    void get_to(std::vector<T>& out) const {
        out.clear();
        for (const Json& value : elements()) out.push_back(value.get<T>());
    }
    const std::string& string() const;  ///< throws JsonError if the value is not a string

    /// Returns the number of elements or members, or 0 if the value is neither an array nor an object.
    std::size_t size() const;
    bool empty() const { return size() == 0; }

    // --- arrays: these functions throw JsonError if the value is not an array; push_back() turns null into an array
    const Array& elements() const;
    auto begin() const { return elements().begin(); }
    auto end() const { return elements().end(); }
    const Json& front() const { return (*this)[0]; }
    const Json& operator[](std::integral auto i) const { return element(static_cast<std::size_t>(i)); }
    void push_back(Json value);

    // --- objects: these functions, except contains() and find(), throw JsonError if the value is not an object; the
    // non-const operator[] turns null into an object
    const Object& items() const;
    bool contains(std::string_view key) const { return find(key) != nullptr; }
    /// Returns nullptr if the member does not exist or the value is not an object.
    const Json* find(std::string_view key) const;
    const Json& at(std::string_view key) const;
    const Json& operator[](std::string_view key) const { return at(key); }
    Json& operator[](std::string_view key);  ///< adds the member if it is missing
    const Json& operator[](const char* key) const { return at(key); }
    Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
    void erase(std::string_view key);
    /// Adds each member of `other`, or replaces the value if the key exists.
    void update(const Json& other);

    bool operator==(const Json& other) const;

    enum class BadUtf8 : std::uint8_t { throws, is_replaced };
    /// Returns the value as JSON text, with `indent` spaces per level, or on one line if `indent` is negative. Real
    /// numbers are written as the shortest decimals that read back as the same number. Infinities and NaN become null.
    std::string dump(int indent = -1, BadUtf8 bad = BadUtf8::throws) const;

  private:
    enum class Kind : std::uint8_t { null, boolean, integer, natural, real, string, array, object };
    union Of {
        bool boolean;
        std::int64_t integer;
        std::uint64_t natural = 0;
        double real;
        std::string* string;
        Array* array;
        Object* object;
    };

    [[noreturn]] void fail(const char* wanted) const;
    double real() const;
    const Json& element(std::size_t i) const;
    void release() noexcept;

    Kind kind_ = Kind::null;
    Of of_;
};

struct Json::Member {
    std::string key;
    Json value;

    bool operator==(const Member&) const = default;
};

/// Returns `text` as a JSON string in quotes. Characters outside ASCII are escaped, and bytes that are not valid UTF-8
/// are replaced.
std::string json_ascii(std::string_view text);

}  // namespace macheps
