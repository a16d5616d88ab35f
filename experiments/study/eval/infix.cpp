// SPDX-License-Identifier: Apache-2.0
// Reads infix formulas by precedence climbing. From lowest to highest precedence: comparisons, + -, * /, unary minus,
// and ^, which is right-associative.
#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/study/eval/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace macheps::study {

namespace {

class InfixReader {
  public:
    explicit InfixReader(std::string_view text) : text_(text) {}

    Expression read() {
        Expression out{.text = std::string(text_)};
        out.body = comparison(0);
        skip_spaces();
        if (at_ < text_.size())
            fail(fmt::format("unexpected '{}' after the end of the expression", text_.substr(at_, 1)));
        if (gives_truth(out.body)) fail("the result is a comparison, not a number", "use if, such as if(x < 0, -x, x)");
        out.inputs = inputs_;
        out.slots = static_cast<int>(inputs_.size());
        return out;
    }

  private:
    [[noreturn]] void fail(
        std::string what,
        std::string fix = "use names, numbers, + - * / ^, calls such as log1p(x), and if(a < b, c, d)") const {
        throw Error({.what = std::move(what),
                     .where = fmt::format("expression, column {}", at_ + 1),
                     .fix = std::move(fix),
                     .exit = Exit::usage});
    }
    void skip_spaces() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
    }
    bool takes(std::string_view word) {
        skip_spaces();
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }
    Node call(Op op, std::vector<Node> children) const {
        Node node{.kind = Node::Kind::call, .op = op, .children = std::move(children)};
        if (const std::string wrong = wrong_arguments(node); !wrong.empty()) fail(wrong);
        return node;
    }
    Node call_of(Op op, Node a, Node b) const {
        std::vector<Node> children;
        children.push_back(std::move(a));
        children.push_back(std::move(b));
        return call(op, std::move(children));
    }

    Node comparison(int level) {
        Node left = sum(level);
        struct Sign {
            std::string_view text;
            Op op;
        };
        constexpr Sign signs[] = {{"<=", Op::less_equal}, {">=", Op::greater_equal}, {"==", Op::equal},
                                  {"!=", Op::unequal},    {"<", Op::less},           {">", Op::greater}};
        for (const Sign& sign : signs) {
            if (takes(sign.text)) return call_of(sign.op, std::move(left), sum(level));
        }
        return left;
    }
    Node sum(int level) {
        Node left = product(level);
        // A sum of n terms is a tree of n - 1 nested additions, so each term counts as one level.
        for (int terms = 0;; ++terms) {
            const bool adds = takes("+");
            if (!adds && !takes("-")) return left;
            left = call_of(adds ? Op::add : Op::sub, std::move(left), product(level + terms + 1));
        }
    }
    Node product(int level) {
        Node left = signed_power(level);
        for (int factors = 0;; ++factors) {
            const bool multiplies = takes("*");
            if (!multiplies && !takes("/")) return left;
            left = call_of(multiplies ? Op::mul : Op::div, std::move(left), signed_power(level + factors + 1));
        }
    }
    Node signed_power(int level) {
        if (level > max_expression_levels)
            fail("the expression is nested deeper than 256 levels",
                 "use fewer levels; each term of a sum and each factor of a product counts as one");
        if (takes("-")) {
            std::vector<Node> child;
            child.push_back(signed_power(level + 1));
            return call(Op::neg, std::move(child));
        }
        Node base = primary(level);
        if (takes("^")) return call_of(Op::pow, std::move(base), signed_power(level + 1));
        return base;
    }
    Node primary(int level) {
        skip_spaces();
        if (at_ >= text_.size()) fail("the expression ends where a number or a name is expected");
        if (takes("(")) {
            Node inner = comparison(level + 1);
            if (!takes(")")) fail("a parenthesis is not closed");
            return inner;
        }
        const char first = text_[at_];
        if ((first >= '0' && first <= '9') || first == '.') return number();
        if (std::isalpha(static_cast<unsigned char>(first)) == 0 && first != '_') {
            fail(fmt::format(
                "expected a number or a name, found '{}'",
                std::isprint(static_cast<unsigned char>(first)) != 0 ? std::string(1, first) : std::string("?")));
        }
        const std::size_t start = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
            ++at_;
        const std::string name(text_.substr(start, at_ - start));
        if (takes("(")) return named_call(name, level);
        if (is_constant(name)) return {.kind = Node::Kind::constant, .text = name};
        const auto known = std::find(inputs_.begin(), inputs_.end(), name);
        const int slot = static_cast<int>(known - inputs_.begin());
        if (known == inputs_.end()) inputs_.push_back(name);
        return {.kind = Node::Kind::variable, .slot = slot, .text = name};
    }
    Node number() {
        const std::size_t start = at_;
        const bool is_hex = text_.substr(at_, 2) == "0x" || text_.substr(at_, 2) == "0X";
        while (at_ < text_.size()) {
            const char c = text_[at_], before = at_ > start ? text_[at_ - 1] : ' ';
            const bool is_sign = (c == '+' || c == '-') && at_ > start &&
                                 (is_hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E');
            if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && !is_sign) break;
            ++at_;
        }
        const std::string_view digits = text_.substr(start, at_ - start);
        if (!is_number_text(digits, false)) fail(fmt::format("'{}' is not a valid number", digits));
        return {.kind = Node::Kind::number, .text = std::string(digits)};
    }
    Node named_call(const std::string& name, int level) {
        std::vector<Node> arguments;
        if (!takes(")")) {
            do {
                arguments.push_back(comparison(level + 1));
            } while (takes(","));
            if (!takes(")")) fail(fmt::format("the closing parenthesis of {}(...) is missing", name));
        }
        if (name == "if") {
            if (arguments.size() != 3 || !gives_truth(arguments[0]) || gives_truth(arguments[1]) ||
                gives_truth(arguments[2])) {
                fail("if needs a comparison and two numbers");
            }
            return {.kind = Node::Kind::choice, .children = std::move(arguments)};
        }
        const OpRow* row = find_op(name == "abs" ? "fabs" : name == "min" ? "fmin" : name == "max" ? "fmax" : name);
        if (row == nullptr) {
            std::vector<std::string_view> names;
            for (const OpRow& each : op_rows()) names.push_back(each.name);
            const std::string near = nearest_name(name, names);
            fail(fmt::format("unknown function '{}'", name),
                 near.empty() ? "see `macheps eval --help`" : fmt::format("did you mean {}?", near));
        }
        return call(row->op, std::move(arguments));
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::vector<std::string> inputs_;
};

}  // namespace

bool is_number_text(std::string_view text, bool allows_ratio) {
    const auto digits = [&](bool hex) {
        std::size_t count = 0;
        while (!text.empty() && (hex ? std::isxdigit(static_cast<unsigned char>(text.front())) != 0
                                     : text.front() >= '0' && text.front() <= '9')) {
            text.remove_prefix(1);
            ++count;
        }
        return count;
    };
    const auto takes = [&](std::string_view any) {
        if (text.empty() || any.find(text.front()) == std::string_view::npos) return false;
        text.remove_prefix(1);
        return true;
    };
    if (text.size() > 200) return false;
    if (allows_ratio) takes("+-");
    const bool is_hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    if (is_hex) text.remove_prefix(2);
    std::size_t count = digits(is_hex);
    if (allows_ratio && !is_hex && count > 0 && takes("/")) return digits(false) > 0 && text.empty();
    if (takes(".")) count += digits(is_hex);
    if (count == 0) return false;
    if (takes(is_hex ? "pP" : "eE")) {
        takes("+-");
        const std::size_t before = text.size();
        // Exponents of up to four digits reach far beyond every format.
        if (digits(false) == 0 || before > 4) return false;
    }
    return text.empty();
}

Expression parse_infix(std::string_view text) { return InfixReader(text).read(); }

}  // namespace macheps::study
