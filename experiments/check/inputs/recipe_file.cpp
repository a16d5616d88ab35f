// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/inputs/recipe_file.hpp"

#include "core/host/read_file.hpp"
#include "core/text/shown.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/files/config/toml_lines.hpp"
#include "experiments/files/config/toml_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace macheps::check {

namespace {

struct SizeKey {
    std::string_view name;
    std::int64_t InputRequest::*field;
    bool is_of_products;
};
constexpr SizeKey size_keys[] = {
    {"batches", &InputRequest::batches, true},
    {"group_rows", &InputRequest::group_rows, true},
    {"m", &InputRequest::m, true},
    {"n", &InputRequest::n, true},
    {"k", &InputRequest::k, true},
    {"rows", &InputRequest::rows, false},
    {"columns", &InputRequest::columns, false},
};

void check_sizes(const InputRequest& r, const std::string& where) {
    constexpr double most = 0x1p28;
    std::vector<std::vector<std::int64_t>> shapes{r.out_shape()};
    for (const std::string_view array : r.arrays()) shapes.push_back(r.shape_of(array));
    for (const auto& shape : shapes) {
        double count = 1;
        for (const std::int64_t size : shape) count *= static_cast<double>(size);
        if (count > most)
            throw usage_error(fmt::format("an array of shape [{}] is too large", fmt::join(shape, ", ")), where,
                              "use at most 2^28 elements");
    }
}

class PlanReader {
  public:
    PlanReader(const files::TomlLines& lines, const std::string& file)
        : reader_(lines.text, file, lines.starts), file_(file) {
        if (lines.stray)
            throw usage_error("a character outside of strings and comments is not ASCII",
                              fmt::format("{}:{}:{}", file, lines.stray->line, lines.stray->column),
                              "put the name in quotes");
    }

    std::vector<InputPlan> read() const {
        const toml::table document = reader_.document();
        reader_.only(document, {"recipe", "suite", "check"}, "a file of recipes");
        std::vector<InputPlan> plans;
        if (const toml::node* recipe = document.get("recipe"))
            plans.push_back(read_recipe(reader_.table(*recipe, "recipe")));
        if (const toml::node* checks = document.get("check")) {
            if (!checks->is_array_of_tables()) reader_.wrong_type(*checks, "check", "tables, each after [[check]]");
            for (const toml::node& check : *checks->as_array()) plans.push_back(read_check(*check.as_table()));
        }
        if (plans.empty())
            throw usage_error("the file has neither a [recipe] nor a [[check]]", file_, "add a table [recipe]");
        return plans;
    }

  private:
    std::string text_of(const toml::node& node, const DeclareKey& key) const {
        switch (key.takes) {
            case DeclareKey::Takes::flag:
                return reader_.flag(node, key.name) ? "true" : "false";
            case DeclareKey::Takes::number:
                return fmt::format("{}", reader_.number(node, key.name));
            default:
                return reader_.text(node, key.name);
        }
    }
    /// Reads `op` and every key of a declaration from the table.
    void read_declaration(const toml::table& table, Declaration& d) const {
        const toml::node* op = table.get("op");
        if (op == nullptr)
            throw usage_error("the key 'op' is missing", reader_.where(table, "op"),
                              "add the operation, as in op = \"gemm\"");
        d.operation = &named_operation(*op);
        for (const DeclareKey& key : declare_keys()) {
            if (const toml::node* node = table.get(key.name))
                declare(d, key, text_of(*node, key), reader_.where(*node, key.name));
        }
    }
    const Operation& named_operation(const toml::node& node) const {
        try {
            return find_operation(reader_.text(node, "op"));
        } catch (const Error& error) {
            throw usage_error(error.parts().what, reader_.where(node, "op"), error.parts().fix);
        }
    }

    InputPlan read_recipe(const toml::table& table) const {
        InputPlan plan;
        files::Names known{"op", "inputs", "seed", "groups"};
        for (const SizeKey& key : size_keys) known.push_back(key.name);
        for (const DeclareKey& key : declare_keys()) known.push_back(key.name);
        reader_.only(table, known, "[recipe]");
        read_declaration(table, plan.request.declaration);
        plan.name = plan.request.declaration.operation->name;
        for (const SizeKey& key : size_keys) {
            if (const toml::node* node = table.get(key.name))
                set_size(plan.request, key.name, reader_.integer(*node, key.name), reader_.where(*node, key.name));
        }
        if (const toml::node* groups = table.get("groups")) {
            if (!groups->is_array()) reader_.wrong_type(*groups, "groups", "a list of row counts");
            std::vector<std::int64_t> sizes;
            for (const toml::node& node : *groups->as_array()) sizes.push_back(reader_.integer(node, "groups"));
            if (const toml::node* m = table.get("m"))
                throw usage_error("m cannot be combined with groups", reader_.where(*m, "m"),
                                  "remove m; the groups determine it");
            set_groups(plan.request, sizes, reader_.where(*groups, "groups"));
        } else if (plan.request.group_rows > 0) {
            throw usage_error("group_rows is set, but there are no groups", reader_.where(table, "group_rows"),
                              "add groups, as in groups = [64, 0, 80]");
        }
        if (const toml::node* seed = table.get("seed"))
            set_size(plan.request, "seed", reader_.integer(*seed, "seed"), reader_.where(*seed, "seed"));
        if (const toml::node* inputs = table.get("inputs")) {
            if (!inputs->is_array()) reader_.wrong_type(*inputs, "inputs", "a list of names");
            for (const toml::node& node : *inputs->as_array()) {
                plan.recipes.push_back(&find_recipe(*plan.request.declaration.operation, reader_.text(node, "inputs"),
                                                    reader_.where(node, "inputs")));
            }
        }
        return plan;
    }

    /// Reads one [[check]] table of a suite. Ignores the keys that are not part of the declaration, because the reader
    /// of suites validates them.
    InputPlan read_check(const toml::table& table) const {
        InputPlan plan;
        if (const toml::node* name = table.get("name")) plan.name = printable(reader_.text(*name, "name"));
        try {
            read_declaration(table, plan.request.declaration);
            if (plan.name.empty()) plan.name = plan.request.declaration.operation->name;
        } catch (const Error& error) {
            plan.declined = error.what();
        }
        return plan;
    }

    files::TomlReader reader_;
    const std::string& file_;
};

}  // namespace

void set_size(InputRequest& request, std::string_view name, std::int64_t value, const std::string& where) {
    if (name == "seed") {
        if (value < 0) throw usage_error(fmt::format("the seed {} is negative", value), where, "use 0 or more");
        request.seed = static_cast<std::uint64_t>(value);
        return;
    }
    const Operation& operation = *request.declaration.operation;
    const auto* key = std::find_if(std::begin(size_keys), std::end(size_keys), [&](const SizeKey& each) {
        return each.name == name && each.is_of_products == operation.is_product;
    });
    if (key == std::end(size_keys))
        throw usage_error(fmt::format("{} has no size '{}'", operation.name, name), where,
                          operation.is_product ? "use one of batches, group_rows, m, n, k" : "use rows or columns");
    if (value < 1 || value > (1 << 28))
        throw usage_error(fmt::format("{} = {} is out of range", name, value), where, "give 1 to 2^28");
    request.*(key->field) = value;
    check_sizes(request, where);
}

void set_groups(InputRequest& request, const std::vector<std::int64_t>& sizes, const std::string& where) {
    constexpr std::int64_t most = 1 << 28;
    if (!request.declaration.operation->is_product)
        throw usage_error(fmt::format("{} has no groups", request.declaration.operation->name), where,
                          "remove the groups");
    if (request.batches > 1) throw usage_error("batches and groups cannot be combined", where, "remove one of them");
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes) {
        const std::int64_t room = request.group_rows > 0 ? request.group_rows : most - sum;
        if (size < 0 || size > room)
            throw usage_error(fmt::format("a group cannot have {} rows", size), where,
                              fmt::format("give 0 to {}", room));
        sum += size;
    }
    if (sizes.empty() || sum == 0)
        throw usage_error("all groups are empty", where, "give at least one group some rows, as in 64,0,80");
    request.groups = sizes;
    request.m = request.group_rows > 0 ? request.group_rows * static_cast<std::int64_t>(sizes.size()) : sum;
    check_sizes(request, where);
}

void set_shape(InputRequest& request, const std::vector<std::int64_t>& shape, const std::string& where) {
    const bool is_product = request.declaration.operation->is_product;
    std::vector<std::string_view> names{"rows", "columns"};
    if (is_product) names = {"m", "n", "k"};
    if (is_product && shape.size() == 4) names.insert(names.begin(), "batches");
    if (shape.size() != names.size())
        throw usage_error(fmt::format("the shape has {} sizes", shape.size()), where,
                          fmt::format("give {}", fmt::join(names, ",")));
    for (std::size_t i = 0; i < names.size(); ++i) set_size(request, names[i], shape[i], where);
}

std::vector<MadeInputs> all_inputs(const InputPlan& plan) {
    if (plan.request.arrays().empty()) {
        throw usage_error(fmt::format("no array of {} is declared", plan.name), "inputs",
                          "declare the formats of the arrays that the kernel reads");
    }
    std::vector<const Recipe*> recipes = plan.recipes;
    if (recipes.empty()) {
        for (const Recipe& recipe : recipes_of(*plan.request.declaration.operation)) {
            if (recipe.applies(plan.request)) recipes.push_back(&recipe);
        }
    }
    std::vector<MadeInputs> all;
    for (const Recipe* recipe : recipes) {
        if (!recipe->applies(plan.request)) {
            throw usage_error(fmt::format("the recipe '{}' ({}) does not fit these formats, sizes or arrays",
                                          recipe->name, recipe->contents),
                              "inputs", "remove it");
        }
        for (MadeInputs& inputs : make_inputs(*recipe, plan.request)) all.push_back(std::move(inputs));
    }
    return all;
}

std::vector<InputPlan> parse_plans(std::string_view text, const std::string& file) {
    try {
        return PlanReader(files::split_toml_lines(text), file).read();
    } catch (const Error& error) {
        // An unknown key is a usage error, like an unknown option.
        throw usage_error(error.parts().what, error.parts().where, error.parts().fix);
    }
}

std::vector<InputPlan> load_plans(const std::filesystem::path& file) {
    constexpr std::uint64_t max_bytes = std::uint64_t{16} << 20;  // the same limit as for a suite
    return parse_plans(read_file(file, max_bytes), file.string());
}

}  // namespace macheps::check
