// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/studies/gemm_via.hpp"

#include "core/format_table.hpp"
#include "core/host/memory_limit.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/study/product/via.hpp"

#include <fmt/format.h>

namespace macheps::cmd::gemm {

using namespace reports;

using namespace study;

namespace {

study::ViaGrid via_grid(const ViaArguments& a, const GemmGrid& grid, const std::vector<std::string>& formats) {
    study::ViaGrid via{.via = study::parse_via(a.via),
                       .machines = grid.machines,
                       .distributions = grid.distributions,
                       .scales = grid.scales,
                       .seeds = grid.seeds,
                       .m = grid.m,
                       .n = grid.n,
                       .k = grid.k,
                       .digit_bits = static_cast<int>(a.digit_bits),
                       .full = a.full,
                       .combines_exactly = a.combine == "exact"};
    if (via.via.has_residues && (a.digit_bits > 0 || a.full)) {
        throw usage_error("residues have no digits", a.via, "leave out --digit-bits and --full, or use ozaki1");
    }
    for (const SpelledRule& machine : via.machines) {
        if (machine.order)
            throw usage_error("an order of summation cannot be used here", "--machine " + machine.name,
                              "use a machine from `macheps machine list`");
    }
    for (const std::string& name : formats) {
        const Format format = format_named(name, "--format", Exit::usage);
        if (!(format == fp64) && !(format == fp32)) {
            throw usage_error(fmt::format("{} cannot be the format of these products", name), "--format",
                              "use fp64 or fp32");
        }
        via.formats.push_back(format);
    }
    if (via.formats.empty()) via.formats.push_back(via.via.is_ozaki() ? fp64 : fp32);
    for (const Format& format : via.formats) {
        if (format == fp64 && !via.via.is_ozaki()) {
            throw usage_error(fmt::format("{} computes products of fp32 numbers", a.via), "--format", "use fp32");
        }
    }
    return via;
}

}  // namespace

void describe_via(Command& verb, ViaArguments& a) {
    verb.option("--via", a.via,
                "Compute products of fp64 or fp32 numbers (--format) from narrow products on the machine. "
                "WAY is ozaki1:S (S digits), ozaki1:auto, ozaki2:N (residues of N moduli), bf16x9, tf32x3 or fp16x2. "
                "For digits and residues, the machine can also be exact.int32: int8 products, added in int32. "
                "Default: none")
        .takes("WAY");
    verb.integer("--digit-bits", a.digit_bits, {1, 25},
                 "ozaki1 only: bits of a digit. Default: the largest exact number of bits");
    verb.flag("--full", a.full,
              "Compute all products of digits or parts, not only the larger ones. Not possible with ozaki2");
    verb.option("--combine", a.combine,
                "ozaki1 only. fp64: round to fp64 after each addition of a digit product. exact: round once at the end")
        .one_of({"fp64", "exact"})
        .shows_default();
    verb.option("--require", a.require,
                "exact: refuse digits and residues whose products may not be exact (exit 2). Default: only warn")
        .one_of({"exact"});
}

std::vector<SpelledRule> via_machines(const std::vector<std::string>& names) {
    std::vector<SpelledRule> machines;
    for (const std::string& name : names) machines.push_back(study::parse_via_machine(name));
    return machines;
}

Exit run_gemm_via(const ViaArguments& a, const GemmGrid& grid, const std::vector<std::string>& formats,
                  const DeviceChoice& device, const ViaOutput& output) {
    const study::ViaGrid via = via_grid(a, grid, formats);
    const std::string beyond = study::beyond_exactness(via);
    if (!beyond.empty() && !a.require.empty()) {
        throw usage_error(beyond.substr(0, beyond.find('\n')), "--require exact",
                          "use fewer bits, fewer terms, or +promoteN");
    }
    if (!beyond.empty()) eprint_text("warning: " + beyond);
    double bytes = 0;
    std::size_t rows_count = 0;
    for (const std::int64_t m : grid.m) {
        for (const std::int64_t n : grid.n) {
            for (const std::int64_t k : grid.k) {
                rows_count += via.machines.size() * via.formats.size() * grid.distributions.size() * grid.seeds.size() *
                              grid.scales.size();
                const double ab = (double(m) + double(n)) * double(k), out = double(m) * double(n);
                const double slices = via.via.slices == 0 ? 24 : via.via.slices;
                bytes = std::max(bytes, ab * (8 + 4 * slices) + out * 160);
            }
        }
    }
    if (output.dry_run) {
        if (output.form.json) {
            print_json({{"rows", rows_count}, {"bytes", bytes}});
        } else {
            print("{} rows, {:.1f} MiB\n", rows_count, bytes / (1 << 20));
        }
        return Exit::ok;
    }
    require_memory(bytes, device.memory_bytes(), "the largest of these products");
    const std::unique_ptr<Backend> backend = make_backend(device);
    ThreadPool pool(device.threads == 0 ? available_threads() : device.threads);
    RowOutput<GemmRow> rows(output.out, output.form);
    std::uint64_t inexact = 0;
    study::run_via(
        *backend, pool, via,
        [&](const GemmRow& row) {
            inexact += row.inexact_products.value_or(0);
            rows.add(row);
        },
        [&](const std::string& words) {
            if (!output.quiet) eprint("{}\n", words);
        });
    rows.finish();
    if (inexact == 0) return Exit::ok;
    eprint("{} elements of the digit or residue products are not the exact integers\n", inexact);
    return Exit::check_failed;
}

}  // namespace macheps::cmd::gemm
