// SPDX-License-Identifier: Apache-2.0
// Fields that describe the arithmetic of a config, independent of its framework. There is one field for each setting
// that affects numerical results, and each field records its source.
#pragma once
#include "experiments/files/config/value.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace macheps::configs {

/// The value of a field or of one of its parts: a word ("F", "H", "B", "T", "torch-cuda", "ds-zero"), a number or a
/// flag.
using FieldScalar = std::variant<std::string, double, bool>;

struct FieldValue {
    FieldScalar value;
    /// Parameters of fields such as `scaler`, `clip` and `fp8`, in the order in which they are printed. In JSON, a
    /// field with parameters is an object, and its first member `kind` contains `value`.
    std::vector<std::pair<std::string, FieldScalar>> parts;
    bool operator==(const FieldValue&) const = default;
};

enum class Origin : std::uint8_t {
    file,      ///< a key of a file or an override
    standard,  ///< the default of the framework's version
    inferred,  ///< follows from other fields
    device,    ///< decided by the device profile
};

/// Returns a value that is a word without parts.
inline FieldValue word_field(std::string word) { return {.value = std::move(word), .parts = {}}; }

/// A row of the table that `policy import` prints.
struct ResolvedField {
    std::string_view name;  ///< one of the names in field_rows()
    FieldValue value;
    Origin origin = Origin::inferred;
    std::string from;  ///< "ds.json:3:5 fp16.loss_scale", "default of deepspeed 0.19.6", "from compute", "device a100"
};

/// Name and description of a field. Fields are printed in the order of these rows. To add a field, add a row.
struct FieldRow {
    std::string_view name;     ///< "store"
    std::string_view summary;  ///< "format in which parameters are kept"
};
std::span<const FieldRow> field_rows();

/// Returns "bf16" for the letter B, "6" for 6.0, and other words unchanged.
std::string scalar_text(const FieldScalar& value);
/// Returns the value and its parts by name: "torch max=1".
std::string field_text(const FieldValue& value);

/// The fields of one config.
class ResolvedConfig {
  public:
    /// Sets a field and replaces its earlier value. Throws Error if the name is not in field_rows, which is a
    /// programming error.
    void set(std::string_view name, FieldValue value, Origin origin, std::string from);
    void erase(std::string_view name);
    /// Returns nullptr if the field is not set.
    const ResolvedField* find(std::string_view name) const;
    /// Returns the word of a field, or an empty text if it is not set or is not a word.
    std::string_view word(std::string_view name) const;
    /// Returns the fields that are set, in the order of field_rows.
    std::vector<const ResolvedField*> fields() const;

  private:
    std::vector<ResolvedField> fields_;
};

}  // namespace macheps::configs
