// SPDX-License-Identifier: Apache-2.0
// Python bindings for matrix products that sum as a machine does, and for arrays with scales.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "core/rounding_names.hpp"
#include "emulation/matmul/machine_spelling.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/study/scale/scaled_array.hpp"
#include "python/engine.hpp"
#include "python/rooms.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace macheps::python {

using namespace study;

namespace {

Format argument_format(const std::string& name, const char* argument) {
    return format_named(name, argument, Exit::usage);
}

/// Decode scales of an operand. `data[i, j]` applies to the i-th group of `outer_block` rows of a (or columns of b),
/// and in it to the j-th group of `k_block` terms.
struct BlockScales {
    std::optional<Floats> data{};
    std::int64_t outer_block = 1, k_block = 1;
    std::string format{};  ///< format of the scales

    OperandScales scales() const {
        if (!data) return {};
        return {.data = data->data(),
                .outer_block = outer_block,
                .k_block = k_block,
                .outer_stride = static_cast<std::int64_t>(data->shape(1)),
                .k_stride = data->shape(1) > 1 ? 1 : 0};
    }
};

struct Product {
    SpelledRule spelled{};
    Format a{}, b{}, out{};
    float scale = 1;
};

/// Computes a product whose sums follow an order of summation (such as `pairwise:fp16`) instead of a matrix unit. The
/// results are those of `macheps gemm`.
void order_product(Engine& engine, const Product& p, const Floats& a, const Floats& b, std::optional<Floats>& bias,
                   const FloatsOut& out, std::uint64_t seed) {
    const auto m = static_cast<std::int64_t>(a.shape(0)), k = static_cast<std::int64_t>(a.shape(1)),
               n = static_cast<std::int64_t>(b.shape(1));
    const RngKey stream{seed, 0, site_id(p.spelled.name)};
    in_timed_chunks(m * n, 64, [&](std::int64_t first, std::int64_t count) {
        engine.pool.run(count, [&](std::int64_t element) {
            const std::int64_t i = (first + element) / n, j = (first + element) % n;
            std::vector<double> products(static_cast<std::size_t>(k));
            for (std::int64_t t = 0; t < k; ++t)
                products[static_cast<std::size_t>(t)] = double{a.data()[i * k + t]} * double{b.data()[t * n + j]};
            auto sum =
                static_cast<float>(p.spelled.order->sum(products, stream, static_cast<std::uint64_t>(i * n + j)));
            if (p.scale != 1) sum *= p.scale;
            if (bias) sum += bias->data()[j];
            out.data()[i * n + j] = decode(p.out, encode64(p.out, sum, Round::nearest_even, Overflow::nonsaturate));
        });
    });
}

void machine_product(Engine& engine, const Product& p, const Floats& a, const Floats& b, std::optional<Floats>& bias,
                     const FloatsOut& out, const BlockScales& a_scales, const BlockScales& b_scales) {
    const auto m = static_cast<std::int64_t>(a.shape(0)), k = static_cast<std::int64_t>(a.shape(1)),
               n = static_cast<std::int64_t>(b.shape(1));
    // A long product checks for signals between chunks of rows, which are independent. Rows that share a scale stay in
    // one chunk.
    const std::int64_t step = (8 + a_scales.outer_block - 1) / a_scales.outer_block * a_scales.outer_block;
    const auto block = [&](std::int64_t first, std::int64_t rows, std::int64_t column, std::int64_t columns) {
        Matmul args{.m = rows, .n = columns, .k = k};
        args.a = {.data = a.data() + first * k, .ld = k, .format = p.a, .scales = a_scales.scales()};
        args.b = {.data = b.data() + column, .ld = n, .format = p.b, .scales = b_scales.scales()};
        if (args.a.scales.data != nullptr)
            args.a.scales.data += first / a_scales.outer_block * args.a.scales.outer_stride;
        if (args.b.scales.data != nullptr)
            args.b.scales.data += column / b_scales.outer_block * args.b.scales.outer_stride;
        args.out = out.data() + first * n + column;
        args.ld_out = n;
        args.rule = p.spelled.rule;
        args.out_scale = p.scale;
        args.bias = bias ? bias->data() + column : nullptr;
        args.out_cast.format = p.out;
        engine.backend().matmul(args);
    };
    // A few rows of a wide product can take seconds. For such a product, signals are also checked between chunks of
    // columns. This is possible because columns, like rows, are independent of each other.
    constexpr double few_products = 0x1p26;
    const std::int64_t column_step = (64 + b_scales.outer_block - 1) / b_scales.outer_block * b_scales.outer_block;
    in_timed_chunks(m, step, [&](std::int64_t first, std::int64_t rows) {
        if (static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k) <= few_products)
            return block(first, rows, 0, n);
        in_timed_chunks(n, column_step,
                        [&](std::int64_t column, std::int64_t columns) { block(first, rows, column, columns); });
    });
}

/// Parses the names of a machine and of formats. If `out_format` is empty, the output has the machine's result format.
Product product_of(const std::string& machine, const std::string& format_a, const std::string& format_b,
                   const std::string& out_format, double scale) {
    Product p{.spelled = parse_machine(machine)};
    p.a = argument_format(format_a, "format_a");
    p.b = argument_format(format_b, "format_b");
    p.out = out_format.empty() ? p.spelled.result() : argument_format(out_format, "out_format");
    p.scale = static_cast<float>(scale);
    return p;
}

/// Returns the layout of scales for a product of `k` terms.
ScaleLayout layout_of(const BlockScales& scales, std::int64_t k) {
    if (!scales.data) return {};
    return {.kind = scales.k_block < k ? ScaleLayout::Kind::blocks : ScaleLayout::Kind::outer,
            .k_block = scales.k_block,
            .format = argument_format(scales.format, "scales")};
}

/// Computes a product into `out`. Returns the name of the output's format.
std::string matmul_into(const Floats& a, const Floats& b, const FloatsOut& out, std::optional<Floats> bias,
                        const std::string& machine, const std::string& format_a, const std::string& format_b,
                        const std::string& out_format, double scale, const BlockScales& a_scales,
                        const BlockScales& b_scales, std::uint64_t seed) {
    Product p = product_of(machine, format_a, format_b, out_format, scale);
    if (!p.spelled.order) {
        const auto k = static_cast<std::int64_t>(a.shape(1));
        const ScaleLayout a_layout = layout_of(a_scales, k), b_layout = layout_of(b_scales, k);
        p.spelled.rule = with_block_scales(p.spelled.rule, a_layout, b_layout);
        require_possible(p.spelled.rule,
                         {.a = p.a,
                          .b = p.b,
                          .a_scales = a_layout,
                          .b_scales = b_layout,
                          .has_bias = bias.has_value(),
                          .out_cast = {.format = p.out}},
                         "machine");
    } else if (a_scales.data || b_scales.data) {
        throw Error({.what = "an order of summation does not accept block scales",
                     .where = "machine",
                     .fix = "use a matrix unit, or pass decoded values",
                     .exit = Exit::usage});
    }
    with_engine([&](Engine& engine) {
        const DefaultFloatModes modes;
        if (p.spelled.order)
            order_product(engine, p, a, b, bias, out, seed);
        else
            machine_product(engine, p, a, b, bias, out, a_scales, b_scales);
    });
    return std::string(format_name(p.out));
}

/// Returns whether the sums of `machine` take random words, as orders of summation with stochastic rounding do.
bool draws(const std::string& machine) {
    const SpelledRule spelled = parse_machine(machine);
    return spelled.order && spelled.order->round == Round::stochastic;
}

template <class Number>
nb::bytes bytes_of(const std::vector<Number>& numbers) {
    return nb::bytes(numbers.data(), numbers.size() * sizeof(Number));
}

/// Casts a matrix with scales. Returns (codes as uint32, rows of the grid of scales, its columns, scales, codes of the
/// scales, tensor scale or None, decoded numbers, rule for the scales, whether k runs along the last axis, size of a
/// block along the other axis, size of a block along k). A size of 0 means that a block spans the whole axis.
nb::object scale(const Floats& x, const std::string& format, const std::string& granularity, const std::string& rule,
                 std::optional<int> axis, const std::string& mode, std::uint64_t seed) {
    Round round = Round::nearest_even;
    for (const RoundName& row : round_names) {
        if (mode == row.name || mode == row.acronym) round = row.value;
    }
    const auto rows = static_cast<std::int64_t>(x.shape(0)), columns = static_cast<std::int64_t>(x.shape(1));
    const ScaledCast how = scaled_cast_of({.format = argument_format(format, "format"),
                                           .granularity = granularity,
                                           .scale_rule = rule,
                                           .axis = axis,
                                           .round = round,
                                           .key = {seed, 0, site_id("convert")}},
                                          rows, columns);
    ScaledArray made;
    constexpr std::size_t few = std::size_t{1} << 22;
    if (x.size() <= few) {
        with_engine([&](Engine& engine) {
            made = scale_array(engine.backend(), how, {x.data(), x.size()}, rows, columns);
        });
    } else {
        // This cast is not split into chunks. If a signal interrupts the caller, the job continues, so it needs a copy
        // of x.
        struct Job {
            ScaledCast how;
            std::vector<float> x;
            ScaledArray made{};
        };
        const auto job = std::make_shared<Job>(Job{how, {x.data(), x.data() + x.size()}});
        run_aside([job, rows, columns](ThreadPool& pool) {
            CpuBackend backend(pool.threads(), chosen_simd());
            job->made = scale_array(backend, job->how, job->x, rows, columns);
        });
        made = std::move(job->made);
    }
    const nb::object tensor = made.tensor_scale ? nb::cast(double{*made.tensor_scale}) : nb::none();
    return nb::make_tuple(bytes_of(made.codes), made.grid.rows, made.grid.columns, bytes_of(made.scales),
                          bytes_of(made.scale_codes), tensor, bytes_of(made.decoded), std::string(how.rule->name),
                          how.k_is_last, how.granularity->outer, how.granularity->k);
}

}  // namespace

void add_products(nb::module_& m) {
    nb::class_<BlockScales>(m, "BlockScales", "Decode scales of an operand, [outer groups, groups of k].")
        .def(nb::init<>())
        .def(
            "__init__",
            [](BlockScales* self, const Floats& data, std::int64_t outer_block, std::int64_t k_block,
               const std::string& format) {
                new (self) BlockScales{data, outer_block, k_block, format};
            },
            nb::arg("data").noconvert(), nb::arg("outer_block"), nb::arg("k_block"), nb::arg("format"));
    m.def("matmul_into", &matmul_into, nb::arg("a").noconvert(), nb::arg("b").noconvert(), nb::arg("out").noconvert(),
          nb::arg("bias").none(), nb::arg("machine"), nb::arg("format_a"), nb::arg("format_b"), nb::arg("out_format"),
          nb::arg("scale"), nb::arg("a_scales"), nb::arg("b_scales"), nb::arg("seed"));
    m.def("draws", &draws, nb::arg("machine"));
    m.def("scale", &scale, nb::arg("x").noconvert(), nb::arg("format"), nb::arg("granularity"), nb::arg("rule"),
          nb::arg("axis").none(), nb::arg("mode"), nb::arg("seed"));
}

}  // namespace macheps::python
