// SPDX-License-Identifier: Apache-2.0
// What a policy may say of a matmul, beside its casts: `forward = { machine = "sm90.wgmma.fp8", promote = 128 }`.
// A key is a row: parser, resolver and `macheps policy words` read it.
#pragma once
#include "experiments/policy/policy.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::policy {

struct MatmulKey {
    enum class Takes : std::uint8_t { name, count, flag };
    /// When the key of a table is applied to what earlier rules left. A `base` begins the matmul's rule anew, and a
    /// machine said beside a named rule replaces that rule's own; `last` has the last word on what an option set.
    enum class Turn : std::uint8_t { base, machine, option, last };

    std::string_view name;
    Takes takes = Takes::count;
    std::string_view what{};                                ///< of a name: what it names, in the words of errors
    std::vector<std::string_view> (*names)() = nullptr;     ///< of a name: those that it may be
    int least = 0, most = std::numeric_limits<int>::max();  ///< of a count
    Turn turn = Turn::option;
    /// The one group that may have this key, and then only at sites with a bias, whose matmul keeps its rule; empty:
    /// every matmul may have it.
    std::string_view only_with_bias_in{};
    /// Changes `choice`. `value` is the place of a name in names(), a count, or 0 and 1.
    void (*apply)(std::int64_t value, MatmulChoice& choice) = nullptr;
    /// What `policy explain` says of the choice behind its rule; null where to_string(MatmulRule) says it.
    std::string (*print)(const MatmulChoice& choice) = nullptr;
    std::string_view source{}, summary{};

    bool may_stand_in(std::string_view group) const { return only_with_bias_in.empty() || only_with_bias_in == group; }
    bool changes_rule() const { return only_with_bias_in.empty(); }
    bool begins_anew() const { return turn == Turn::base || turn == Turn::machine; }
};

/// In the order of errors and of `macheps policy words`.
std::span<const MatmulKey> matmul_keys();
/// The key of that name, or nullptr.
const MatmulKey* find_matmul_key(std::string_view name);

}  // namespace macheps::policy
