// SPDX-License-Identifier: Apache-2.0
// Arrays of files become a problem: found by name, decoded, and their shapes compared with each other.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/canary.hpp"
#include "experiments/check/check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::check {

namespace {

using Shape = std::vector<std::int64_t>;

struct Decoded {
    Format format{};
    Shape shape{};
    std::vector<double> values{};
};

std::string text_of(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

class Poser {
  public:
    Poser(const Declaration& declaration, const std::vector<StoredArray>& arrays) : d_(declaration), arrays_(arrays) {}

    [[noreturn]] void bad(std::string_view name, std::string what, std::string fix) const {
        const StoredArray* array = find(name);
        throw Error({.what = std::move(what),
                     .where = array == nullptr ? std::string(name) : fmt::format("{} ({})", array->where, name),
                     .fix = std::move(fix)});
    }
    const StoredArray* find(std::string_view name) const {
        const auto at =
            std::find_if(arrays_.begin(), arrays_.end(), [&](const StoredArray& a) { return a.name == name; });
        return at == arrays_.end() ? nullptr : &*at;
    }
    Decoded decode(std::string_view name) const {
        const StoredArray* array = find(name);
        if (array == nullptr) {
            std::vector<std::string> names;
            for (const StoredArray& each : arrays_) names.push_back(each.name);
            throw Error({.what = fmt::format("there is no array '{}'", name),
                         .where = arrays_.empty() ? "" : arrays_.front().where,
                         .fix = fmt::format("there are {}; {}=NAME renames", fmt::join(names, ", "), name)});
        }
        const auto declared = d_.formats.find(name);
        if (declared == d_.formats.end() && !array->format)
            bad(name, fmt::format("its type {} does not say which format its codes are of", array->type),
                fmt::format("declare it: --{} bf16, or another format", option_name(name)));
        const ArrayFormat format = declared == d_.formats.end() ? ArrayFormat{*array->format} : declared->second;
        Decoded decoded{.format = format.format,
                        .shape = array->shape,
                        .values = values_of(*array, format.format, format.is_packed)};
        if (format.is_packed && !decoded.shape.empty()) decoded.shape.back() *= 2;
        if (decoded.values.empty()) bad(name, "an empty array", "save one with elements");
        if (decoded.format.precision > fp32.precision || decoded.format.bits > 32)
            throw Error(
                {.what = fmt::format("{} is wider than the fp32 that checks compute in", format_name(decoded.format)),
                 .where = fmt::format("{} ({})", array->where, name),
                 .fix = "declined: save it as fp32",
                 .exit = Exit::usage});
        return decoded;
    }
    static std::string option_name(std::string_view name) {
        std::string option(name);
        std::replace(option.begin(), option.end(), '_', '-');
        return option;
    }

    /// The optional arrays of the operation, whose sizes must fit rows and columns.
    void add_inputs(Problem& problem, const Shape& out_shape) const {
        for (const ArrayRole& role : d_.operation->arrays) {
            const auto declared = d_.scale_shapes.find(role.name);
            const bool is_declared =
                declared != d_.scale_shapes.end() || d_.formats.find(role.name) != d_.formats.end();
            if (!role.is_required && !is_declared && find(role.name) == nullptr) continue;
            const Decoded array = decode(role.name);
            const auto count = static_cast<std::int64_t>(array.values.size());
            Axis axis = role.axis;
            const std::int64_t wanted = axis == Axis::each  ? problem.rows * problem.columns
                                        : axis == Axis::row ? problem.rows
                                                            : problem.columns;
            if (count == 1 && axis != Axis::each) axis = Axis::whole;
            const bool is_vector =
                std::count_if(array.shape.begin(), array.shape.end(), [](std::int64_t n) { return n != 1; }) <= 1;
            const bool fits = axis == Axis::whole ||
                              (count == wanted && (axis == Axis::each ? role.name == "x" || array.shape == out_shape
                                                                      : axis == Axis::row || is_vector));
            if (!fits) {
                bad(role.name, fmt::format("shape {} beside outputs of {}", text_of(array.shape), text_of(out_shape)),
                    axis == Axis::each ? "save it in the shape of the output"
                                       : fmt::format("give 1 or {} elements", wanted));
            }
            if (declared != d_.scale_shapes.end()) {
                const bool is_one = declared->second == "tensor";
                const Axis claimed = is_one ? Axis::whole : declared->second == "row" ? Axis::row : Axis::column;
                if (is_one ? count != 1 : claimed != role.axis || count != wanted)
                    bad(role.name,
                        fmt::format("shape {}, declared one of each {}", text_of(array.shape), declared->second),
                        "save or declare the other");
            }
            problem.declaration.formats[std::string(role.name)].format = array.format;
            problem.inputs.push_back({role.name, axis, array.values});
        }
    }

  private:
    const Declaration& d_;
    const std::vector<StoredArray>& arrays_;
};

std::int64_t product_of(const Shape& shape, std::size_t from, std::size_t to) {
    std::int64_t product = 1;
    for (std::size_t i = from; i < to; ++i) product *= shape[i];
    return product;
}

void pose_product(const Poser& poser, const Declaration& d, Posed& posed, ThreadPool& pool) {
    Decoded a = poser.decode("a"), b = poser.decode("b");
    const std::size_t rank = a.shape.size();
    if (rank < 2 || b.shape.size() < 2)
        poser.bad("a", fmt::format("shapes a {}, b {}", text_of(a.shape), text_of(b.shape)),
                  "give matrices, or batches of them");
    ProductOperands of{.batches = product_of(a.shape, 0, rank - 2),
                       .m = a.shape[rank - 2],
                       .n = b.shape.back(),
                       .k = a.shape[rank - 1]};
    const std::int64_t b_batches = product_of(b.shape, 0, b.shape.size() - 2);
    of.has_one_b = b_batches == 1;
    Shape shape(a.shape.begin(), a.shape.end() - 1);
    shape.push_back(of.n);
    if (b.shape[b.shape.size() - 2] != of.k || (b_batches != 1 && b_batches != of.batches) ||
        posed.out_shape != shape) {
        poser.bad("out",
                  fmt::format("shapes disagree: a {}, b {}, out {}", text_of(a.shape), text_of(b.shape),
                              text_of(posed.out_shape)),
                  "a [m,k], b [k,n], out [m,n], each with the same batches in front");
    }
    if (d.machine) {
        MatmulUse use{.a = a.format, .b = b.format};
        use.out_cast.format = fp32;
        require_possible(*d.machine, use, "--machine");
        for (const Format& format : {a.format, b.format}) {
            if (decoded_format(*d.machine->machine, format) == format) continue;
            throw Error({.what = fmt::format("{} reads {} as {}, and the check is of the operands as they are stored",
                                             d.machine_name, format_name(format),
                                             format_name(decoded_format(*d.machine->machine, format))),
                         .where = "--machine",
                         .fix = "declined: save the operands as the machine reads them",
                         .exit = Exit::usage});
        }
    }
    posed.problem.declaration.formats["a"].format = a.format;
    posed.problem.declaration.formats["b"].format = b.format;
    of.a_format = a.format;
    of.b_format = b.format;
    of.a = std::move(a.values);
    of.b = std::move(b.values);
    posed.problem.rows = of.batches * of.m;
    posed.problem.columns = of.n;
    posed.problem.group_rows = of.m;
    posed.problem.products = std::make_shared<const Products>(std::move(of), d.machine, pool);
}

void pose_rows(const Poser& poser, const Declaration& d, Posed& posed) {
    const Decoded x = poser.decode("x");
    if (x.shape.empty()) poser.bad("x", "one number has no last axis", "give at least one axis");
    Shape wanted = x.shape;
    if (d.operation->is_one_per_row) {
        wanted.pop_back();
        Shape kept = wanted;
        kept.push_back(1);
        if (posed.out_shape == kept) wanted = kept;
    }
    if (posed.out_shape != wanted)
        poser.bad("out", fmt::format("shape {} of x {}", text_of(posed.out_shape), text_of(x.shape)),
                  fmt::format("save {}", text_of(wanted)));
    posed.problem.columns = x.shape.back();
    posed.problem.rows = static_cast<std::int64_t>(x.values.size()) / x.shape.back();
    posed.problem.group_rows = posed.problem.rows;
}

}  // namespace

Posed pose(const Declaration& d, const std::vector<StoredArray>& arrays, ThreadPool& pool) {
    if (d.canaries > 0) return pose_before_canaries(d, arrays, pool);
    const auto usage = [](std::string what, std::string where, std::string fix) {
        return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
    };
    if (d.operation->has_eps && !d.eps)
        throw usage(fmt::format("{} has an eps", d.operation->name), "--eps", "give the kernel's, such as 1e-5");
    const Poser poser(d, arrays);
    for (const StoredArray& array : arrays) {
        if (std::count_if(arrays.begin(), arrays.end(),
                          [&](const StoredArray& other) { return other.name == array.name; }) > 1)
            throw Error({.what = fmt::format("two arrays are called '{}'", array.name),
                         .where = array.where,
                         .fix = "rename one"});
    }
    if (d.beta != 1 && poser.find("c") == nullptr)
        throw usage("there is no array 'c'", "--beta", "leave it out, or save c");
    Posed posed;
    Decoded out = poser.decode("out");
    posed.out_shape = out.shape;
    posed.problem.declaration = d;
    posed.problem.declaration.formats["out"].format = posed.problem.output = out.format;
    if (d.operation->is_product) {
        pose_product(poser, d, posed, pool);
    } else {
        pose_rows(poser, d, posed);
    }
    poser.add_inputs(posed.problem, posed.out_shape);
    posed.out = std::move(out.values);
    return posed;
}

}  // namespace macheps::check
