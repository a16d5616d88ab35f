// SPDX-License-Identifier: Apache-2.0
// What a config computes, whatever framework it is written for: one field for each thing that decides a number, each
// with where it came from.
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

/// The value of a field, or of one of its parts: a word ("F", "H", "B", "T", "torch-cuda", "ds-zero"), a number or a flag.
using FieldScalar = std::variant<std::string, double, bool>;

struct FieldValue {
    FieldScalar value;
    /// Parameters, for fields that have them (`scaler`, `clip`, `fp8`, ...), in the order of print. JSON prints a field that
    /// has parts as an object whose first member is `kind`, the value above.
    std::vector<std::pair<std::string, FieldScalar>> parts;
    bool operator==(const FieldValue&) const = default;
};

enum class Origin : std::uint8_t {
    file,      ///< a key of a file or an override
    standard,  ///< the default of the framework's version
    inferred,  ///< follows from other fields
    device,    ///< the device profile decided
};

/// A row of `policy import`'s table.
struct ResolvedField {
    std::string_view name;  ///< a name of field_rows
    FieldValue value;
    Origin origin = Origin::inferred;
    std::string from;  ///< "ds.json:3:5 fp16.loss_scale", "default of deepspeed 0.19.6", "from compute", "device a100"
};

/// One row per field, in the order of print. A new field is a row here.
struct FieldRow {
    std::string_view name;     ///< "store"
    std::string_view summary;  ///< "format in which parameters are kept"
};
std::span<const FieldRow> field_rows();

/// "bf16" where JSON has the letter B, "6" for 6.0; other words as they are.
std::string scalar_text(const FieldScalar& value);
/// "torch max=1": the value, and its parts by name.
std::string field_text(const FieldValue& value);

/// The fields of one config.
class ResolvedConfig {
  public:
    /// Sets a field; an earlier value is replaced. The name is one of field_rows (an Error of the program otherwise).
    void set(std::string_view name, FieldValue value, Origin origin, std::string from);
    /// nullptr where nothing has set the field.
    const ResolvedField* find(std::string_view name) const;
    /// The word of a field, empty where it is not set or is no word.
    std::string_view word(std::string_view name) const;
    /// In the order of field_rows, those that are set.
    std::vector<const ResolvedField*> fields() const;

  private:
    std::vector<ResolvedField> fields_;
};

}  // namespace macheps::configs
