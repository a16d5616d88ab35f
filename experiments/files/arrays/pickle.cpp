// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/pickle.hpp"

#include "core/error.hpp"
#include "core/hd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace macheps::files {

namespace {

using Kind = PickleValue::Kind;

class PickleReader {
  public:
    PickleReader(std::string_view bytes, std::span<const std::string_view> names, const std::string& where)
        : bytes_(bytes), names_(names), where_(where) {}

    Pickle read();

    // Each function below executes one pickle instruction. The table `instructions` maps opcodes to these functions.
    void protocol() {
        const std::uint64_t version = number(1);
        if (version != 2) fail(fmt::format("the pickle has protocol {}, not 2", version));
    }
    void global() {
        std::string name = line() + ".";
        name += line();
        if (std::find(names_.begin(), names_.end(), name) == names_.end())
            fail(fmt::format("the pickle names {}, and macheps does not open pickled code", name));
        put({.kind = Kind::name, .text = std::move(name)});
    }
    void mark() { marks_.push_back(stack_.size()); }
    void stop() { is_done_ = true; }

    void none() { put({}); }
    void is_true() { put({.kind = Kind::boolean, .integer = 1}); }
    void is_false() { put({.kind = Kind::boolean}); }
    void integer_1() { put_integer(static_cast<std::int64_t>(number(1))); }
    void integer_2() { put_integer(static_cast<std::int64_t>(number(2))); }
    void integer_4() { put_integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4)))); }
    /// Reads a byte with a size n, and then an integer of n bytes in two's complement.
    void long_1() {
        const auto size = static_cast<int>(number(1));
        // No size or offset of a tensor needs more than 8 bytes, but the seed of a random generator may. Its value is
        // not used, so it is stored as None.
        if (size > 8) {
            take(static_cast<std::uint64_t>(size));
            return put({});
        }
        const std::uint64_t low = number(size);
        const int spare = 64 - 8 * size;
        put_integer(size == 0 ? 0 : static_cast<std::int64_t>(low << spare) >> spare);
    }
    void real() {
        const std::string_view big_endian = take(8);
        std::uint64_t bits = 0;
        for (const char byte : big_endian) bits = bits << 8 | static_cast<unsigned char>(byte);
        put({.kind = Kind::real, .real = bit_cast<double>(bits)});
    }
    void text() {
        const std::uint64_t size = number(4);
        put({.kind = Kind::text, .text = std::string(take(size))});
    }

    void empty_tuple() { put({.kind = Kind::tuple}); }
    void tuple_1() { put_tuple(1); }
    void tuple_2() { put_tuple(2); }
    void tuple_3() { put_tuple(3); }
    void tuple() { put({.kind = Kind::tuple, .parts = since_mark()}); }
    void empty_list() { put({.kind = Kind::list}); }
    void empty_dictionary() { put({.kind = Kind::dictionary}); }
    void append() {
        const std::size_t item = pop();
        add(Kind::list, {item});
    }
    void appends() {
        const std::vector<std::size_t> items = since_mark();
        add(Kind::list, items);
    }
    void set_item() {
        const std::size_t value = pop(), key = pop();
        add(Kind::dictionary, {key, value});
    }
    void set_items() {
        const std::vector<std::size_t> items = since_mark();
        if (items.size() % 2 != 0) fail("a key has no value");
        add(Kind::dictionary, items);
    }

    void remember_1() { memory_[number(1)] = top(); }
    void remember_4() { memory_[number(4)] = top(); }
    void recall_1() { recall(number(1)); }
    void recall_4() { recall(number(4)); }

    void outside() { put({.kind = Kind::outside, .parts = {pop()}}); }
    void call() {
        const std::size_t arguments = pop(), function = pop();
        if (pickle_.at(function).kind != Kind::name || pickle_.at(arguments).kind != Kind::tuple)
            fail("the pickle calls something that is not a named function");
        put({.kind = Kind::call, .parts = {function, arguments}});
    }

    /// Drops the attributes of an OrderedDict, such as the version numbers in the state_dict of a module.
    void build() {
        pop();
        const PickleValue& to = pickle_.values[top()];
        if (to.kind != Kind::call || pickle_.at(to.parts.front()).text != "collections.OrderedDict")
            fail("the pickle sets the state of an object that is not an OrderedDict");
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw Error({.what = fmt::format("{} (byte {} of the pickle)", what, begin_),
                     .where = where_,
                     .fix = "save as safetensors, or with numpy.savez"});
    }
    std::string_view take(std::uint64_t size) {
        if (size > bytes_.size() - at_) fail("the pickle is cut short");
        at_ += size;
        return bytes_.substr(at_ - size, size);
    }
    std::uint64_t number(int size) {
        const std::string_view text = take(static_cast<std::uint64_t>(size));
        std::uint64_t value = 0;
        for (int i = size - 1; i >= 0; --i)
            value = value << 8 | static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
        return value;
    }
    std::string line() {
        const std::size_t end = bytes_.find('\n', at_);
        if (end == std::string_view::npos) fail("the pickle is cut short");
        std::string text(take(end - at_));
        ++at_;
        return text;
    }

    void put(PickleValue value) {
        stack_.push_back(pickle_.values.size());
        pickle_.values.push_back(std::move(value));
    }
    void put_integer(std::int64_t x) { put({.kind = Kind::integer, .integer = x}); }
    void put_tuple(std::size_t size) {
        std::vector<std::size_t> parts(size);
        for (std::size_t i = size; i-- > 0;) parts[i] = pop();
        put({.kind = Kind::tuple, .parts = std::move(parts)});
    }
    std::size_t top() const {
        if (stack_.size() <= floor()) fail("an instruction has no operand");
        return stack_.back();
    }
    std::size_t pop() {
        const std::size_t place = top();
        stack_.pop_back();
        return place;
    }
    /// Returns the size that the stack had when the last mark was set. Until the mark is removed, instructions cannot
    /// take the values below it as operands.
    std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
    std::vector<std::size_t> since_mark() {
        if (marks_.empty()) fail("an instruction has no mark");
        const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        std::vector<std::size_t> items(first, stack_.end());
        stack_.erase(first, stack_.end());
        marks_.pop_back();
        return items;
    }
    void add(Kind kind, const std::vector<std::size_t>& items) {
        PickleValue& to = pickle_.values[top()];
        // A pickle creates an OrderedDict with a call, and then fills it like a dictionary.
        if (to.kind != kind && !(kind == Kind::dictionary && to.kind == Kind::call))
            fail("items are added to a value that is not a container");
        to.parts.insert(to.parts.end(), items.begin(), items.end());
    }
    void recall(std::uint64_t place) {
        const auto known = memory_.find(place);
        if (known == memory_.end()) fail("the pickle reads a memo entry that was never stored");
        stack_.push_back(known->second);
    }

    std::string_view bytes_;
    std::span<const std::string_view> names_;
    const std::string& where_;
    std::size_t at_ = 0, begin_ = 0;
    bool is_done_ = false;
    Pickle pickle_{};
    std::vector<std::size_t> stack_{}, marks_{};
    std::unordered_map<std::uint64_t, std::size_t> memory_{};
};

struct Instruction {
    unsigned char code;
    void (PickleReader::*run)();
};

constexpr Instruction instructions[] = {
    {0x80, &PickleReader::protocol},  {'c', &PickleReader::global},
    {'(', &PickleReader::mark},       {'.', &PickleReader::stop},
    {'N', &PickleReader::none},       {0x88, &PickleReader::is_true},
    {0x89, &PickleReader::is_false},  {'K', &PickleReader::integer_1},
    {'M', &PickleReader::integer_2},  {'J', &PickleReader::integer_4},
    {0x8a, &PickleReader::long_1},    {'G', &PickleReader::real},
    {'X', &PickleReader::text},       {')', &PickleReader::empty_tuple},
    {0x85, &PickleReader::tuple_1},   {0x86, &PickleReader::tuple_2},
    {0x87, &PickleReader::tuple_3},   {'t', &PickleReader::tuple},
    {']', &PickleReader::empty_list}, {'}', &PickleReader::empty_dictionary},
    {'a', &PickleReader::append},     {'e', &PickleReader::appends},
    {'s', &PickleReader::set_item},   {'u', &PickleReader::set_items},
    {'q', &PickleReader::remember_1}, {'r', &PickleReader::remember_4},
    {'h', &PickleReader::recall_1},   {'j', &PickleReader::recall_4},
    {'Q', &PickleReader::outside},    {'R', &PickleReader::call},
    {'b', &PickleReader::build},
};

Pickle PickleReader::read() {
    while (!is_done_) {
        begin_ = at_;
        const auto code = static_cast<unsigned char>(take(1).front());
        const auto* row = std::find_if(std::begin(instructions), std::end(instructions),
                                       [&](const Instruction& each) { return each.code == code; });
        if (row == std::end(instructions))
            fail(fmt::format("the instruction {:#04x} is refused, because files of tensors do not need it", code));
        (this->*row->run)();
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("the pickle ends with more than one value, or with none");
    pickle_.root = stack_.front();
    return std::move(pickle_);
}

}  // namespace

Pickle parse_pickle(std::string_view bytes, std::span<const std::string_view> names, const std::string& where) {
    return PickleReader(bytes, names, where).read();
}

}  // namespace macheps::files
