// SPDX-License-Identifier: Apache-2.0
// What a declaration may say, as a table: `--eps 1e-5` on the command line and `eps = 1e-5` in a suite are one row.
#pragma once
#include "core/error.hpp"
#include "core/text/json.hpp"
#include "experiments/check/declare/declaration.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// One key of a declaration. A new one is a row in declare.cpp; command line, help, suites and JSON follow.
struct DeclareKey {
    /// What the value is in a suite: "bf16", 1e-5, true. On the command line a flag stands alone.
    enum class Takes : std::uint8_t { text, number, flag };

    std::string name;  ///< as a suite has it; the option is --name with hyphens
    Takes takes = Takes::text;
    std::string value{};  ///< what stands for it in --help: FORMAT, NAME, X
    std::string help{};
    std::vector<std::string_view> (*words)() = nullptr;  ///< the only values that there are; null: others, too
    bool (*applies)(const Operation& operation, const DeclareKey& key) = nullptr;
    /// Errors: throws Error (usage) for a text that is no such value; `where` is what it names.
    void (*set)(Declaration& declaration, const DeclareKey& key, const std::string& text,
                const std::string& where) = nullptr;
    /// What was declared, or holds when nothing is; null where neither says anything.
    Json (*get)(const Declaration& declaration, const DeclareKey& key) = nullptr;

    std::string default_text() const;  ///< what holds when it is left out; empty: nothing does
};

/// In the order of --help and of JSON: formats of all arrays that operations have, then what else can be said.
const std::vector<DeclareKey>& declare_keys();
const DeclareKey* find_declare_key(std::string_view name);

/// Sets `key` of a declaration whose operation is known. Errors: throws Error (usage) where the operation has no such
/// key, and for a text that is none of its values; Declined where the value is known and no check can judge it.
void declare(Declaration& declaration, const DeclareKey& key, const std::string& text, const std::string& where);

/// The arrays that an operation may have, by the names of their keys.
std::vector<std::string> array_roles(const Operation& operation);

/// Every key that says something of this declaration, resolved.
Json declared_json(const Declaration& declaration);

/// What somebody may well declare and no check can judge yet: nothing is guessed, and nothing else is wrong.
class Declined : public Error {
  public:
    Declined(const std::string& what, std::string where)
        : Error({.what = "declined: " + what, .where = std::move(where), .exit = Exit::usage}) {}
};

/// Returns why an operation of later_operations() is declined.
std::string no_check_of(std::string_view operation);

/// A finite number from `least` to `greatest`. Throws Error (usage).
double declared_number(const std::string& text, const std::string& where, double least, double greatest);
std::int64_t declared_whole_number(const std::string& text, const std::string& where, std::int64_t least,
                                   std::int64_t greatest);

}  // namespace macheps::check
