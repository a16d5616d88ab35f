// SPDX-License-Identifier: Apache-2.0
// Builds the JSON data of an HTML report, value by value.
#pragma once
#include "core/text/json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::reports {

/// A JSON text to which keys and values are appended. Inserts the commas. Escapes '<', so that the text is safe inside
/// a <script> element.
class JsonText {
  public:
    void key(std::string_view name) { comma(), string(name), text_ += ':', fresh_ = true; }
    void open(char bracket) { comma(), text_ += bracket, fresh_ = true; }
    void close(char bracket) { text_ += bracket, fresh_ = false; }
    void put(std::string_view value) { comma(), string(value); }
    void put(bool value) { comma(), text_ += value ? "true" : "false"; }
    void put(std::int64_t value) { comma(), text_ += fmt::format("{}", value); }
    void put(std::uint64_t value) { comma(), text_ += fmt::format("{}", value); }
    void put(double value, int digits = 6) {
        comma(), text_ += std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
    }
    void put_null() { comma(), text_ += "null"; }
    template <class List>
    void put_list(std::string_view name, const List& list) {
        key(name), open('[');
        for (const auto& value : list) put(value);
        close(']');
    }
    void put_list(std::string_view name, const std::vector<double>& list, int digits) {
        key(name), open('[');
        for (const double value : list) put(value, digits);
        close(']');
    }
    std::string take() { return std::move(text_); }

  private:
    void comma() {
        if (!fresh_) text_ += ',';
        fresh_ = false;
    }
    void string(std::string_view value) {
        const std::string quoted = json_ascii(value);
        // "</script>" and "<!--" would end or change the script that contains this text.
        for (const char c : quoted) c == '<' ? text_ += "\\u003c" : text_ += c;
    }
    std::string text_;
    bool fresh_ = true;
};

}  // namespace macheps::reports
