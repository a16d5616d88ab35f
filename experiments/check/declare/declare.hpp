// SPDX-License-Identifier: Apache-2.0
// Table of the keys of a declaration. A row defines both `--eps 1e-5` on the command line and `eps = 1e-5` in a suite.
#pragma once
#include "core/error.hpp"
#include "core/text/json.hpp"
#include "experiments/check/declare/declaration.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// One key of a declaration. To add a key, add a row in declare.cpp; command line, help, suites and JSON use the table.
struct DeclareKey {
    /// Type of the value in a suite: "bf16", 1e-5, true. On the command line, a flag has no value.
    enum class Takes : std::uint8_t { text, number, flag };

    std::string name;  ///< key in a suite; the command line has --name with hyphens
    Takes takes = Takes::text;
    std::string value{};  ///< placeholder of the value in --help, such as FORMAT
    std::string help{};
    std::vector<std::string_view> (*words)() = nullptr;  ///< returns all allowed values; null: `set` checks the text
    bool (*applies)(const Operation& operation, const DeclareKey& key) = nullptr;
    /// Sets the key. Errors: throws Error (usage) for an invalid value. The error names `where` as its place.
    void (*set)(Declaration& declaration, const DeclareKey& key, const std::string& text,
                const std::string& where) = nullptr;
    /// Returns the declared value, or else the default value; null if there is neither.
    Json (*get)(const Declaration& declaration, const DeclareKey& key) = nullptr;
    bool is_common = false;  ///< listed by `check --help`; the other keys are listed by `check --help OP`

    std::string default_text() const;  ///< default value as text; empty: none
};

/// Returns all keys in the order of --help and JSON: the formats of all arrays, then all others.
const std::vector<DeclareKey>& declare_keys();
const DeclareKey* find_declare_key(std::string_view name);

/// Sets `key`. Precondition: the declaration has an operation. Errors: throws Error (usage) if the operation has no
/// such key or the text is not a valid value, and Declined if the value is known but no check supports it.
void declare(Declaration& declaration, const DeclareKey& key, const std::string& text, const std::string& where);

/// Returns the help text of a key for one operation. For `form`, it lists the operation's forms. For the format of an
/// array, it says whether the array is optional.
std::string help_of(const DeclareKey& key, const Operation& operation);

/// Returns the names of the arrays that an operation may have.
std::vector<std::string> array_roles(const Operation& operation);

/// Returns all keys that apply to this declaration, with their declared or default values.
Json declared_json(const Declaration& declaration);

/// A key and its value, as declare() reads it.
struct DeclaredValue {
    const DeclareKey* key;
    std::string text;
};
/// Returns the keys that apply to this declaration and whose values differ from the default.
std::vector<DeclaredValue> declared_values(const Declaration& declaration);
/// Returns a value of declared_json() as declare() reads it.
std::string declared_text(const Json& value);

/// Error for a valid declaration that no check supports yet. The check is declined instead of guessing.
class Declined : public Error {
  public:
    Declined(const std::string& what, std::string where)
        : Error({.what = "declined: " + what, .where = std::move(where), .exit = Exit::usage}) {}
};

/// Returns the error message for an operation of later_operations(), which no check supports yet.
std::string no_check_of(std::string_view operation);

/// Returns a finite number from `least` to `greatest`. Errors: throws Error (usage) for any other text.
double declared_number(const std::string& text, const std::string& where, double least, double greatest);
std::int64_t declared_whole_number(const std::string& text, const std::string& where, std::int64_t least,
                                   std::int64_t greatest);

}  // namespace macheps::check
