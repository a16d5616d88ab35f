// SPDX-License-Identifier: Apache-2.0
// Keys of a matmul in a policy, in addition to its casts: `forward = { machine = "sm90.wgmma.fp8", promote = 128 }`.
// A key is a row, which the parser, the resolver and `macheps policy words` read.
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
    /// Order in which the keys of a table change the choice that earlier rules left. A table with a `base` or `machine`
    /// key first resets the matmul's rule. A machine in the same table as a named rule replaces the rule's machine. A
    /// `last` key is applied after the options and overrides them.
    enum class Turn : std::uint8_t { base, machine, option, last };

    std::string_view name;
    Takes takes = Takes::count;
    std::string_view what{};                                ///< for a name: what kind of name, in errors
    std::vector<std::string_view> (*names)() = nullptr;     ///< for a name: the valid names
    int least = 0, most = std::numeric_limits<int>::max();  ///< limits of a count
    Turn turn = Turn::option;
    /// If not empty: the only group that may have this key, and only at sites with a weight, to which a bias may be
    /// added. Such a key does not change the matmul's rule. If empty, every matmul may have the key.
    std::string_view only_with_bias_in{};
    /// Changes `choice`. `value` is the index of a name in names(), a count, or 0 or 1.
    void (*apply)(std::int64_t value, MatmulChoice& choice) = nullptr;
    /// Returns what `policy explain` prints after the rule; null if to_string(MatmulRule) already includes it.
    std::string (*print)(const MatmulChoice& choice) = nullptr;
    std::string_view source{}, summary{};

    bool may_stand_in(std::string_view group) const { return only_with_bias_in.empty() || only_with_bias_in == group; }
    bool changes_rule() const { return only_with_bias_in.empty(); }
    bool resets_rule() const { return turn == Turn::base || turn == Turn::machine; }
};

/// Returns the keys in the order of errors and of `macheps policy words`.
std::span<const MatmulKey> matmul_keys();
/// Returns the key of that name, or nullptr.
const MatmulKey* find_matmul_key(std::string_view name);

}  // namespace macheps::policy
