// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/arithmetic.hpp"

#include "experiments/files/config/text.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace macheps::files {

namespace {

using Number = ArithmeticNumber;
using Result = std::optional<Number>;

constexpr int max_depth = 64;           // of parentheses and signs
constexpr double max_integer = 0x1p53;  // beyond it, a double does not represent every integer

/// A parser by recursive descent. After a failure, every function returns nothing.
class Arithmetic {
  public:
    Arithmetic(std::string_view text, const ArithmeticRules& rules) : text_(text), rules_(rules) {}

    Result result() {
        const Result value = sum();
        skip_blanks();
        return at_ == text_.size() ? value : Result{};
    }

  private:
    void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n\\", at_), text_.size()); }

    bool takes(std::string_view sign) {
        skip_blanks();
        if (!text_.substr(at_).starts_with(sign)) return false;
        at_ += sign.size();
        return true;
    }

    Result sum() {
        Result left = product();
        while (left) {
            const bool adds = takes("+");
            if (!adds && !takes("-")) break;
            const Result right = product();
            if (!right) return {};
            left = checked({adds ? left->value + right->value : left->value - right->value,
                            left->is_integer && right->is_integer});
        }
        return left;
    }

    Result product() {
        Result left = signed_power();
        while (left) {
            skip_blanks();
            if (text_.substr(at_).starts_with("**")) return {};  // signed_power() has taken every `**` that may be here
            const std::string_view sign = takes("*")    ? "*"
                                          : takes("//") ? "//"
                                          : takes("/")  ? "/"
                                          : takes("%")  ? "%"
                                                        : "";
            if (sign.empty()) break;
            const Result right = signed_power();
            if (!right) return {};
            left = combined(*left, sign, *right);
        }
        return left;
    }

    Result combined(Number a, std::string_view sign, Number b) const {
        const bool is_integer = a.is_integer && b.is_integer;
        if (sign == "*") return checked({a.value * b.value, is_integer});
        if (b.value == 0) return {};
        if (rules_.is_shell) {
            if (sign == "//") return {};
            return checked({sign == "/" ? std::trunc(a.value / b.value) : std::fmod(a.value, b.value), true});
        }
        if (sign == "/") return checked({a.value / b.value, false});
        const double quotient = std::floor(a.value / b.value);
        return checked({sign == "//" ? quotient : a.value - quotient * b.value, is_integer});
    }

    Result signed_power() {
        if (depth_ >= max_depth) return {};
        ++depth_;
        const Result value = takes("-") ? negated(signed_power()) : takes("+") ? signed_power() : power();
        --depth_;
        return value;
    }

    static Result negated(Result value) {
        if (value) value->value = -value->value;
        return value;
    }

    Result power() {
        const Result base = atom();
        if (!base || rules_.is_shell || !takes("**")) return base;
        const Result exponent = signed_power();
        if (!exponent) return {};
        const bool is_integer = base->is_integer && exponent->is_integer && exponent->value >= 0;
        if (base->value == 0 && exponent->value < 0) return {};
        return checked({std::pow(base->value, exponent->value), is_integer});
    }

    Result atom() {
        if (takes("(")) {
            const Result inner = sum();
            return takes(")") ? inner : Result{};
        }
        const std::size_t start = at_;
        const auto is_name = [&](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
        while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '.' || is_exponent_sign(start))) ++at_;
        const std::string_view word = text_.substr(start, at_ - start);
        if (word.empty()) return {};
        if (!std::isdigit(static_cast<unsigned char>(word.front())) && word.front() != '.') return rules_.name(word);
        const bool is_octal =
            word.size() > 1 && word.front() == '0' && std::isdigit(static_cast<unsigned char>(word[1]));
        const std::optional<double> number = config_text::number_of(word);
        if (!number || is_octal || (rules_.is_shell && word.find('_') != std::string_view::npos)) return {};
        const bool is_hexadecimal = word.starts_with("0x") || word.starts_with("0X");
        const bool is_integer = is_hexadecimal || word.find_first_of(".eE") == std::string_view::npos;
        return checked({*number, is_integer});
    }

    /// Returns whether the character at the current place is the sign in a number such as 1e-5.
    bool is_exponent_sign(std::size_t start) const {
        const char c = text_[at_];
        return (c == '-' || c == '+') && at_ > start && (text_[at_ - 1] | 0x20) == 'e' &&
               std::isdigit(static_cast<unsigned char>(text_[start])) && !text_.substr(start).starts_with("0x");
    }

    Result checked(Number number) const {
        if (!std::isfinite(number.value) || (rules_.is_shell && !number.is_integer)) return {};
        if (number.is_integer && std::abs(number.value) > max_integer) return {};
        return number;
    }

    std::string_view text_;
    const ArithmeticRules& rules_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace

std::optional<ArithmeticNumber> evaluate_arithmetic(std::string_view text, const ArithmeticRules& rules) {
    return Arithmetic(text, rules).result();
}

}  // namespace macheps::files
