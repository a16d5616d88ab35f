// SPDX-License-Identifier: Apache-2.0
// Probes of sparse matrix instructions on a Device. The model of a sparse instruction is the dense instruction over the
// products that the metadata selects. This model reproduced every bit that was measured on an H100. For comparison, the
// rows also report how many outputs a chain of two dense instructions over all products reproduces. This is host code
// that does not use fmt.
#pragma once
#include "emulation/evidence/gpu/matrix/probe.hpp"
#include "emulation/evidence/gpu/matrix/sparse_kernels.hpp"

namespace macheps::evidence {

/// Classes of operands that the sparse probes use.
inline constexpr std::array sparse_classes{evidence::OperandClass::normal,       evidence::OperandClass::finite_bits,
                                           evidence::OperandClass::cancellation, evidence::OperandClass::alignment_edge,
                                           evidence::OperandClass::swamp,        evidence::OperandClass::mixed,
                                           evidence::OperandClass::specials};

template <class Device>
class SparseProbe : InstructionProbe<Device> {
    using Base = InstructionProbe<Device>;

  public:
    using Base::Base;

    /// Runs all classes of operands on sparse form number `index`. With options.fault, the operands are arranged for
    /// another pattern than the metadata gives, so that outputs must differ. Throws Error if the device fails.
    void run_form(int index, double seconds, const evidence::ProbeOptions& options, const evidence::ProbeSink& sink) {
        const InstructionForm& dense = dense_form(index);
        evidence::ProbeOptions right = options;
        right.fault = false;  // the model stays correct, because the fault is in the pattern
        const std::optional<FormData> data = this->form_data(dense, right, sink, "sparse", sparse_name(dense));
        if (!data) return;
        evidence::Candidates candidates{.form = this->trace_form(*data),
                                        .machine = this->machine_,
                                        .sass = sparse_sass(dense),
                                        .seed = options.seed,
                                        .rows = {}};
        candidates.form.instr = sparse_instruction(dense);
        candidates.form.qual = sparse_qualifier(dense);
        const Store store(*this->device_, *data, this->tiles_of_launch(*data));
        for (const evidence::OperandClass cls : sparse_classes)
            run_class(index, *data, cls, seconds / sparse_classes.size(), options, sink, store, candidates.rows);
        if (options.record) options.record(candidates);
    }

  private:
    /// Device memory for the selected products (with addends and results) and for the operands of all products.
    struct Store {
        Store(Device& device, const FormData& data, std::int64_t tiles)
            : chosen(device, data, tiles),
              a(device, 2 * chosen.size(tiles, data.a_bytes())),
              b(device, 2 * chosen.size(tiles, data.b_bytes())) {}
        TileMemory all() const { return {a.data(), b.data(), chosen.c.data(), chosen.d.data()}; }

        detail::TileStore<Device> chosen;
        detail::DeviceBytes<Device> a, b;
    };

    /// Returns how many outputs agree with the model in `data` on the operands in `memory`.
    std::uint64_t agreeing(const FormData& data, std::int64_t tiles, const TileMemory& memory, const Store& store) {
        auto* const found = reinterpret_cast<OutputComparison*>(store.chosen.found.data());
        OutputComparison comparison;
        this->device_->copy_in(found, &comparison, sizeof comparison);
        compare_outputs(*this->device_, data, tiles, memory, found);
        this->device_->copy_out(&comparison, found, sizeof comparison);
        return static_cast<std::uint64_t>(tiles * data.outputs()) - comparison.mismatches;
    }

    void run_class(int index, const FormData& data, evidence::OperandClass cls, double seconds,
                   const evidence::ProbeOptions& options, const evidence::ProbeSink& sink, const Store& store,
                   std::vector<evidence::TraceRow>& candidates) {
        const auto start = std::chrono::steady_clock::now();
        Device& device = *this->device_;
        const TileMemory chosen = store.chosen.memory(), all = store.all();
        FormData two_steps = data;
        two_steps.form.chain = 2;
        std::uint64_t first = 0, as_one = 0, as_two = 0;
        evidence::ProbeResult row{.kind = "sparse",
                                  .instruction = sparse_name(data.form),
                                  .operands = evidence::name_of(cls),
                                  .model = this->machine_,
                                  .note = {}};
        do {
            const auto tiles = static_cast<std::int64_t>(
                min_of(static_cast<std::uint64_t>(this->tiles_of_launch(data)), this->effort_.max_tiles - first));
            make_operands(device, data, cls, options.seed, first, tiles, chosen);
            spread_operands(device, data, cls, options.seed, first, tiles, options.fault ? 1 : 0, chosen, all);
            // Clear old results, so that elements which the instruction does not write cannot pass as results.
            device.clear(chosen.d, store.chosen.size(tiles, data.d_bytes()));
            execute_sparse(device, index, data, first, tiles, {chosen.a, all.b, chosen.c, chosen.d});
            device.wait();  // so that an error of the instruction is reported here
            as_one += agreeing(data, tiles, chosen, store);
            as_two += agreeing(two_steps, tiles, all, store);
            if (first == 0 && options.record) this->keep(data, cls, store.chosen, tiles, candidates);
            row.trials += static_cast<std::uint64_t>(tiles * data.outputs());
            first += static_cast<std::uint64_t>(tiles);
        } while (first < this->effort_.max_tiles && this->since(start) < seconds);
        const auto of_all = [&](std::uint64_t count) {
            return std::to_string(count) + std::string(" of ") + std::to_string(row.trials);
        };
        row.mismatches = row.trials - as_one;
        row.verdict = row.mismatches == 0 ? evidence::Verdict::equal : evidence::Verdict::differs;
        row.note = "equal to one dense step over the selected products: " + of_all(as_one) +
                   "; equal to two dense steps over all products: " + of_all(as_two);
        row.seconds = this->since(start);
        sink(row);
    }
};

/// Returns a group with one probe per sparse form. The first probe that runs calls `make`; all later probes use the
/// same result.
template <class Device>
std::vector<evidence::ProbeGroup> sparse_probe_groups(std::function<std::unique_ptr<SparseProbe<Device>>()> make) {
    const auto probe = std::make_shared<std::unique_ptr<SparseProbe<Device>>>();
    evidence::ProbeGroup group{.kind = "sparse", .instructions = {}, .run = {}};
    for (int i = 0; i < sparse_forms; ++i) group.instructions.push_back(sparse_name(dense_form(i)));
    group.run = [probe, make = std::move(make)](const std::string& name, double seconds,
                                                const evidence::ProbeOptions& options,
                                                const evidence::ProbeSink& sink) {
        if (!*probe) *probe = make();
        for (int i = 0; i < sparse_forms; ++i) {
            if (sparse_name(dense_form(i)) == name) (*probe)->run_form(i, seconds, options, sink);
        }
    };
    return {group};
}

}  // namespace macheps::evidence
