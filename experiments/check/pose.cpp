// SPDX-License-Identifier: Apache-2.0
// Arrays of files become a problem: found by name, decoded, and their shapes compared with each other.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/canary.hpp"
#include "experiments/check/poser.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::check {

namespace {

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
    posed.problem.products = std::make_shared<const Products>(std::move(of), d.machine, pool,
                                                               SumFreedom{.output = posed.problem.output});
}

/// What an operation needs to have been said, and arrays whose names are clear.
void check_declaration(const Poser& poser, const Declaration& d, const std::vector<StoredArray>& arrays) {
    const auto usage = [](std::string what, std::string where, std::string fix) {
        return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
    };
    if (d.operation->has_eps && !d.eps)
        throw usage(fmt::format("{} has an eps", d.operation->name), "--eps", "give the kernel's, such as 1e-5");
    for (const StoredArray& array : arrays) {
        if (std::count_if(arrays.begin(), arrays.end(),
                          [&](const StoredArray& other) { return other.name == array.name; }) > 1)
            throw Error({.what = fmt::format("two arrays are called '{}'", array.name),
                         .where = array.where,
                         .fix = "rename one"});
    }
    if (d.beta != 1 && poser.find("c") == nullptr)
        throw usage("there is no array 'c'", "--beta", "leave it out, or save c");
}

}  // namespace

Posed pose(const Declaration& d, const std::vector<StoredArray>& arrays, ThreadPool& pool) {
    if (d.canaries > 0) return pose_before_canaries(d, arrays, pool);
    const Poser poser(d, arrays);
    check_declaration(poser, d, arrays);
    Posed posed;
    posed.problem.declaration = d;
    if (!d.operation->gives_index) {
        Decoded out = poser.decode("out");
        posed.out_shape = std::move(out.shape);
        posed.out = std::move(out.values);
        posed.problem.declaration.formats["out"].format = posed.problem.output = out.format;
    }
    switch (d.operation->layout) {
        case Layout::product:
            pose_product(poser, d, posed, pool);
            poser.add_inputs(posed.problem, posed.out_shape);
            break;
        case Layout::rows:
            pose_rows(poser, posed);
            break;
        case Layout::gated:
            pose_gated(poser, posed);
            break;
        case Layout::rotary:
            pose_rotary(poser, posed);
            break;
        case Layout::gathered:
            pose_gathered(poser, posed);
            break;
        case Layout::classes:
            pose_classes(poser, posed);
            break;
        case Layout::quantised:
            pose_quantised(poser, posed);
            break;
    }
    return posed;
}

}  // namespace macheps::check
