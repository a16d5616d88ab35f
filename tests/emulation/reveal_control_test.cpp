// SPDX-License-Identifier: Apache-2.0
// Tests the control rows of `macheps reveal`, which show whether a sum contains every term exactly once. Every machine
// must pass them, and the error for a wrong sum must name the wrong terms.
#include "emulation/matmul/reveal_control.hpp"

#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/test.hpp"

#include <string>

namespace reveal_control_test {

using namespace macheps;

namespace {

/// Returns the error text for a sum in which term i counts `times(i)` times.
template <class Times>
std::string said(int terms, Times times) {
    const RevealOperands operands = reveal_operands(fp16, fp16, terms, {});
    const auto k = static_cast<std::size_t>(terms);
    std::vector<float> a(k), b(k);
    std::vector<double> results;
    for (int row = 0; row < control_rows(terms); ++row) {
        fill_control(operands, terms, row, a.data(), b.data());
        double sum = 0;
        for (std::size_t i = 0; i < k; ++i) sum += double{a[i]} * b[i] * times(static_cast<int>(i));
        results.push_back(sum);
    }
    try {
        check_controls(operands, terms, results);
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::check_failed);
        return error.parts().what;
    }
    return {};
}

}  // namespace

TEST_CASE("reveal detects with control rows that a sum omits or repeats a term, and the error names the term",
          "[emulation][reveal]") {
    CHECK(control_rows(1) == 1);
    CHECK(control_rows(2) == 2);
    CHECK(control_rows(64) == 7);
    CHECK(control_rows(65) == 8);
    for (const int terms : {2, 3, 31, 64, 65}) {
        CHECK(said(terms, [](int) { return 1; }).empty());
        for (int wrong = 0; wrong < terms; ++wrong) {
            CAPTURE(terms, wrong);
            const std::string number = std::to_string(wrong);
            CHECK(said(terms, [&](int i) {
                      return i == wrong ? 0 : 1;
                  }).starts_with("term " + number + " is missing from the sum"));
            CHECK(said(terms, [&](int i) {
                      return i == wrong ? 2 : 1;
                  }).starts_with("term " + number + " is read twice"));
        }
    }
    CHECK(said(64, [](int i) { return i < 3 ? 0 : 1; }).starts_with("the first 3 terms are missing"));
    CHECK(said(64, [](int i) { return i >= 60 ? 0 : 1; }).starts_with("the last 4 terms, from 60 on, are missing"));
    CHECK(said(64, [](int i) { return i % 5 == 0 ? 0 : 1; }).starts_with("13 of the 64 terms are missing"));
    CHECK(said(64, [](int i) { return i < 2 ? 3 : 1; }).starts_with("the sum has 4 terms too many"));
    CHECK(said(64, [](int) { return 3; }).starts_with("every result is 3 times the sum"));
    CHECK(said(64, [](int i) { return i == 0 ? 0.5 : 1; }).find("not a whole number") != std::string::npos);
    CHECK(said(64, [](int i) {
              return i == 6 ? 0 : i == 7 ? 2 : 1;
          }).find("another is read instead") != std::string::npos);
}

TEST_CASE("every machine passes the control rows of reveal if the range of its operand format suffices for masks",
          "[emulation][reveal]") {
    CpuBackend backend(1);
    int passed = 0;
    for (const Machine* machine : all_machines) {
        const MatmulRule rule{.machine = machine};
        Format format = fp64;
        for (const Format& each : FormatSet::known) {
            if (format == fp64 && each != fp64 && machine->operands.contains(each)) format = each;
        }
        if (format == fp64 || machine->addend != machine->result) continue;
        const int terms = 48;
        RevealOperands operands;
        try {
            require_possible(rule, {.a = format, .b = format}, machine->name);
            operands = reveal_operands(format, format, terms, reveal_limits(rule));
        } catch (const Error&) {
            continue;  // the range of the format is too small for masks
        }
        const std::int64_t rows = control_rows(terms);
        std::vector<float> a(static_cast<std::size_t>(rows * terms)), b(a.size()), out(static_cast<std::size_t>(rows));
        for (std::int64_t row = 0; row < rows; ++row) {
            const auto at = static_cast<std::size_t>(row * terms);
            fill_control(operands, terms, static_cast<int>(row), &a[at], &b[at]);
        }
        Tensor x = backend.empty({rows, terms}), y = backend.empty({rows, terms}), sums = backend.empty({rows});
        backend.upload(a, x.view());
        backend.upload(b, y.view());
        Matmul args{.m = 1, .n = 1, .k = terms};
        args.batch_outer = rows;
        args.a = {.data = x.data(), .ld = terms, .stride_outer = terms, .format = format};
        args.b = {.data = y.data(), .ld = terms, .transposed = true, .stride_outer = terms, .format = format};
        args.out = sums.data();
        args.ld_out = args.stride_out_outer = 1;
        args.rule = rule;
        backend.matmul(args);
        backend.download(sums.view(), out);
        CAPTURE(machine->name);
        CHECK_NOTHROW(check_controls(operands, terms, std::vector<double>(out.begin(), out.end())));
        ++passed;
    }
    CHECK(passed > 50);
}

}  // namespace reveal_control_test
