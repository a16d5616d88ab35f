// SPDX-License-Identifier: Apache-2.0
// Keys of a matmul in a policy, in addition to its casts: `forward = { machine = "sm90.wgmma.fp8", promote = 128 }`.
// Each key is a table row that the parser, the resolver and `macheps policy words` read.
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
    /// When the key is applied, relative to the other keys of the same table: `base` keys first, `last` keys last. The
    /// keys change the MatmulChoice that earlier rules have set. If the table has a `base` or `machine` key, the
    /// matmul's rule, except for its machine, is reset before the first key is applied. The key `rule` has the turn
    /// `base`, so a machine in the same table replaces the machine of the named rule. `last` keys override the options.
    enum class Turn : std::uint8_t { base, machine, option, last };

    std::string_view name;
    Takes takes = Takes::count;
    std::string_view what{};                                ///< for a name: its kind in errors, such as `machine`
    std::vector<std::string_view> (*names)() = nullptr;     ///< for a name: the valid names
    int least = 0, most = std::numeric_limits<int>::max();  ///< limits of a count
    Turn turn = Turn::option;
    /// Group of slots (`forward`) in whose table the key is allowed. Empty: the key is allowed for every matmul. If a
    /// group is set, the key applies only to sites that may have a bias, that is, to sites with a weight. Such a key
    /// does not change the matmul's rule.
    std::string_view only_with_bias_in{};
    /// Applies the key to `choice`. `value` is an index in names(), a count, or 0 or 1 for a flag.
    void (*apply)(std::int64_t value, MatmulChoice& choice) = nullptr;
    /// Returns the text that `policy explain` prints for this key after the matmul's rule. Null if
    /// to_string(MatmulRule) already prints the key.
    std::string (*print)(const MatmulChoice& choice) = nullptr;
    std::string_view source{}, summary{};

    bool may_stand_in(std::string_view group) const { return only_with_bias_in.empty() || only_with_bias_in == group; }
    bool changes_rule() const { return only_with_bias_in.empty(); }
    bool resets_rule() const { return turn == Turn::base || turn == Turn::machine; }
};

/// Returns the keys in the order in which errors and `macheps policy words` list them.
std::span<const MatmulKey> matmul_keys();
/// Returns the key of that name, or nullptr.
const MatmulKey* find_matmul_key(std::string_view name);

}  // namespace macheps::policy
