// SPDX-License-Identifier: Apache-2.0
// Reads FPCore 2.0 (S-expressions) into trees. FPCores that use an unsupported feature, such as arrays, are reported as
// skipped.
#include "core/error.hpp"
#include "core/text/shown.hpp"
#include "experiments/study/eval/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace macheps::study {

namespace {

/// An S-expression: a symbol, a string or a list.
struct Form {
    enum class Kind : std::uint8_t { symbol, string, list };
    Kind kind = Kind::symbol;
    std::string text{};
    std::vector<Form> items{};
    std::size_t line = 1;

    bool is(std::string_view word) const { return kind == Kind::symbol && text == word; }
};

class FormReader {
  public:
    FormReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

    std::vector<Form> read() {
        std::vector<Form> forms;
        for (skip(); at_ < text_.size(); skip()) forms.push_back(form(0));
        return forms;
    }
    [[noreturn]] void fail(std::string what, std::size_t line) const {
        throw Error({.what = std::move(what),
                     .where = fmt::format("{}:{}", where_, line),
                     .fix = "write FPCore 2.0, such as (FPCore (x) :pre (< 0 x) (sqrt x))",
                     .exit = Exit::bad_input});
    }

  private:
    void skip() {
        for (; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == ';') {
                while (at_ < text_.size() && text_[at_] != '\n') ++at_;
                if (at_ == text_.size()) return;
            }
            if (text_[at_] == '\n') {
                ++line_;
            } else if (text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\r') {
                return;
            }
        }
    }
    Form form(int level) {
        if (level > max_expression_levels) fail("the expression is nested deeper than 256 levels", line_);
        Form out{.line = line_};
        const char first = text_[at_];
        if (first == '(' || first == '[') {
            const char last = first == '(' ? ')' : ']';
            out.kind = Form::Kind::list;
            ++at_;
            for (skip(); at_ < text_.size() && text_[at_] != ')' && text_[at_] != ']'; skip())
                out.items.push_back(form(level + 1));
            if (at_ == text_.size() || text_[at_] != last)
                fail(fmt::format("the '{}' in line {} is not closed", first, out.line), line_);
            ++at_;
            return out;
        }
        if (first == ')' || first == ']') fail(fmt::format("the '{}' has no matching opening bracket", first), line_);
        if (first == '"') {
            out.kind = Form::Kind::string;
            for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
                if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
                if (text_[at_] == '\n') ++line_;
                out.text += text_[at_];
            }
            if (at_ == text_.size()) fail("a string is not closed", out.line);
            ++at_;
            out.text = printable(out.text);
            return out;
        }
        constexpr std::string_view ends = "()[]\"; \t\r\n";
        const std::size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
        out.text = printable(text_.substr(at_, end - at_));  // names are printed in messages
        at_ = end;
        return out;
    }

    std::string_view text_;
    const std::string& where_;
    std::size_t at_ = 0, line_ = 1;
};

/// Thrown for an FPCore that is valid, but not supported by this reader.
struct LeftOut {
    std::string why;
};

std::string form_text(const Form& form) {
    if (form.kind != Form::Kind::list) return form.text;
    std::string out;
    for (const Form& item : form.items) out += (out.empty() ? "" : " ") + form_text(item);
    return "(" + out + ")";
}

class CoreReader {
  public:
    CoreReader(const FormReader& forms, bool keeps_precision) : forms_(forms), keeps_precision_(keeps_precision) {}

    Expression read(const Form& core) {
        std::size_t at = 1;
        if (at < core.items.size() && core.items[at].kind == Form::Kind::symbol) ++at;  // the optional name
        if (at >= core.items.size() || core.items[at].kind != Form::Kind::list)
            forms_.fail("the list of inputs is missing", core.line);
        for (const Form& input : core.items[at].items) {
            const Form* name = &input;
            if (input.kind == Form::Kind::list && !input.items.empty() && input.items.front().is("!")) {
                name = &input.items.back();
                if (keeps_precision_ && input.items.size() > 2) throw LeftOut{"an input sets its own precision"};
            }
            if (name->kind == Form::Kind::list) throw LeftOut{"an input is an array"};
            if (is_constant(name->text) || is_number_text(name->text, true)) {
                forms_.fail(fmt::format("'{}' cannot be the name of an input", name->text), input.line);
            }
            out_.inputs.push_back(name->text);
            scope_.emplace_back(name->text, next_++);
        }
        const Form* precondition = nullptr;
        for (++at; at + 1 < core.items.size(); at += 2) {
            const Form& key = core.items[at];
            if (key.kind != Form::Kind::symbol || !key.text.starts_with(":"))
                forms_.fail("a property does not begin with a colon", key.line);
            if (key.text == ":name") out_.name = core.items[at + 1].text;
            if (key.text == ":pre") precondition = &core.items[at + 1];
            if (keeps_precision_) add_property(out_.own, key.text, core.items[at + 1]);
        }
        if (at + 1 != core.items.size())
            forms_.fail("a property has no value, or the expression at the end is missing", core.line);
        if (precondition != nullptr) {
            out_.precondition.push_back(node(*precondition));
            if (!gives_truth(out_.precondition.front())) forms_.fail(":pre is not a comparison", precondition->line);
        }
        out_.body = node(core.items[at]);
        if (gives_truth(out_.body)) throw LeftOut{"the result is a truth value, not a number"};
        out_.slots = next_;
        out_.text = fpcore_text(out_);
        return std::move(out_);
    }

  private:
    static void add_property(RoundingContext& context, std::string_view key, const Form& value) {
        const bool is_precision = key == ":precision";
        if (!is_precision && key != ":round") return;
        const std::string text = form_text(value);
        const bool is_float = value.kind == Form::Kind::list && value.items.size() == 3 && value.items[0].is("float");
        if (is_precision) {
            context.format =
                is_float ? float_precision(value.items[1].text, value.items[2].text) : find_precision(text);
        } else {
            context.round = find_round(text);
        }
        if (is_precision ? !context.format : !context.round) {
            throw LeftOut{fmt::format("{} {} is not supported", is_precision ? "precision" : "rounding", text)};
        }
    }
    /// Reads (! :precision binary32 :round toZero body).
    Node context(const Form& form) {
        if (!keeps_precision_) return node(form.items.back());
        RoundingContext found;
        if (form.items.size() % 2 != 0)
            forms_.fail("! needs pairs of a property and a value, then an expression", form.line);
        for (std::size_t i = 1; i + 1 < form.items.size(); i += 2) {
            if (!form.items[i].text.starts_with(":"))
                forms_.fail("a property does not begin with a colon", form.items[i].line);
            add_property(found, form.items[i].text, form.items[i + 1]);
        }
        Node body = node(form.items.back());
        if (!found.format && !found.round) return body;
        out_.contexts.push_back(found);
        Node out{.kind = Node::Kind::context, .slot = static_cast<int>(out_.contexts.size()) - 1};
        out.children.push_back(std::move(body));
        return out;
    }
    Node cast(const Form& form) {
        if (!keeps_precision_) return node(form.items.back());
        Node out{.kind = Node::Kind::cast};
        out.children.push_back(node(form.items.back()));
        if (gives_truth(out.children.front())) forms_.fail("the argument of cast is not a number", form.line);
        return out;
    }
    Node node(const Form& form) {
        if (form.kind == Form::Kind::string) forms_.fail("expected a number, found a string", form.line);
        if (form.kind == Form::Kind::symbol) return symbol(form);
        if (form.items.empty() || form.items.front().kind != Form::Kind::symbol)
            forms_.fail("a call does not begin with an operator", form.line);
        const std::string& head = form.items.front().text;
        for (const std::string_view word :
             {"array", "tensor", "tensor*", "ref", "for", "for*", "dim", "size", "digits"}) {
            if (head == word) throw LeftOut{fmt::format("'{}' is not supported", head)};
        }
        if (head == "!" && form.items.size() >= 2) return context(form);
        if (head == "cast" && form.items.size() == 2) return cast(form);
        if (head == "let" || head == "let*") return let(form, head == "let*");
        if (head == "while" || head == "while*") return loop(form, head == "while*");
        Node out;
        if (head == "if") {
            if (form.items.size() != 4) forms_.fail("if needs a comparison and two expressions", form.line);
            out.kind = Node::Kind::choice;
        } else {
            const OpRow* row = find_op(head);
            if (row == nullptr) {
                // A call of another FPCore, or an unsupported function.
                forms_.fail(fmt::format("unknown function '{}'", head), form.line);
            }
            out.kind = Node::Kind::call;
            out.op = row->op == Op::sub && form.items.size() == 2 ? Op::neg : row->op;
        }
        for (std::size_t i = 1; i < form.items.size(); ++i) out.children.push_back(node(form.items[i]));
        if (out.kind == Node::Kind::choice) {
            if (!gives_truth(out.children[0]) || gives_truth(out.children[1]) || gives_truth(out.children[2])) {
                forms_.fail("if needs a comparison and two numbers", form.line);
            }
        } else if (const std::string wrong = wrong_arguments(out); !wrong.empty()) {
            forms_.fail(wrong, form.line);
        }
        return out;
    }
    Node symbol(const Form& form) const {
        if (is_constant(form.text)) return {.kind = Node::Kind::constant, .text = form.text};
        if (is_number_text(form.text, true)) return {.kind = Node::Kind::number, .text = form.text};
        for (auto bound = scope_.rbegin(); bound != scope_.rend(); ++bound) {
            if (bound->first == form.text)
                return {.kind = Node::Kind::variable, .slot = bound->second, .text = form.text};
        }
        forms_.fail(fmt::format("'{}' is not an input, a binding or a constant", form.text), form.line);
    }
    const std::vector<Form>& bindings(const Form& form, std::size_t at, std::size_t parts) const {
        if (form.items.size() <= at + 1 || form.items[at].kind != Form::Kind::list || form.items.size() != at + 2) {
            forms_.fail(fmt::format("{} needs a list of bindings and a body", form.items.front().text), form.line);
        }
        for (const Form& binding : form.items[at].items) {
            if (binding.kind == Form::Kind::list && binding.items.size() == parts &&
                binding.items.front().kind == Form::Kind::symbol) {
                continue;
            }
            forms_.fail(parts == 2 ? "a binding does not have the form [name value]"
                                   : "a binding does not have the form [name first update]",
                        binding.line);
        }
        return form.items[at].items;
    }
    Node value(const Form& form) {
        Node out = node(form);
        if (gives_truth(out)) throw LeftOut{"a binding or the body of let or while is a truth value"};
        return out;
    }
    Node let(const Form& form, bool is_sequential) {
        const std::vector<Form>& list = bindings(form, 1, 2);
        Node out{.kind = Node::Kind::let, .is_sequential = is_sequential};
        const std::size_t outside = scope_.size();
        std::vector<std::pair<std::string, int>> bound;
        for (const Form& binding : list) {
            out.children.push_back(value(binding.items[1]));
            out.slots.push_back(next_);
            (is_sequential ? scope_ : bound).emplace_back(binding.items[0].text, next_++);
        }
        scope_.insert(scope_.end(), bound.begin(), bound.end());
        out.children.push_back(value(form.items[2]));
        scope_.resize(outside);
        return out;
    }
    Node loop(const Form& form, bool is_sequential) {
        const std::vector<Form>& list = bindings(form, 2, 3);
        Node out{.kind = Node::Kind::loop, .is_sequential = is_sequential};
        const std::size_t outside = scope_.size();
        std::vector<Node> first, updates;
        std::vector<std::pair<std::string, int>> bound;
        for (const Form& binding : list) {
            first.push_back(value(binding.items[1]));
            out.slots.push_back(next_);
            (is_sequential ? scope_ : bound).emplace_back(binding.items[0].text, next_++);
        }
        scope_.insert(scope_.end(), bound.begin(), bound.end());
        for (const Form& binding : list) updates.push_back(value(binding.items[2]));
        out.children.push_back(node(form.items[1]));
        if (!gives_truth(out.children.front())) forms_.fail("the condition of while is not a comparison", form.line);
        for (std::vector<Node>* each : {&first, &updates}) {
            for (Node& child : *each) out.children.push_back(std::move(child));
        }
        out.children.push_back(value(form.items[3]));
        scope_.resize(outside);
        return out;
    }

    const FormReader& forms_;
    bool keeps_precision_ = false;
    Expression out_{};
    std::vector<std::pair<std::string, int>> scope_{};
    int next_ = 0;
};

}  // namespace

Cores parse_cores(std::string_view text, const std::string& where, bool keeps_precision) {
    FormReader reader(text, where);
    Cores out;
    for (const Form& form : reader.read()) {
        if (form.kind != Form::Kind::list || form.items.empty() || !form.items.front().is("FPCore")) {
            reader.fail("the form is not an FPCore", form.line);
        }
        try {
            out.expressions.push_back(CoreReader(reader, keeps_precision).read(form));
        } catch (const LeftOut& left_out) {
            std::string name = fmt::format("line {}", form.line);
            for (std::size_t i = 0; i + 1 < form.items.size(); ++i) {
                if (form.items[i].is(":name")) name = form.items[i + 1].text;
            }
            out.skipped.push_back({std::move(name), left_out.why});
        }
    }
    return out;
}

}  // namespace macheps::study
