// SPDX-License-Identifier: Apache-2.0
// Probes of matrix instructions on a Device (CudaDevice, or HostDevice in tests). A `matrix` probe runs each class of
// operands for its share of the time. A `question` probe runs one instruction on operands for which published models
// give different results. This is host code that does not use fmt, because .cu files include it.
#pragma once
#include "core/error.hpp"
#include "emulation/evidence/gpu/matrix/kernels.hpp"
#include "emulation/evidence/gpu/matrix/questions.hpp"
#include "emulation/evidence/operands/mutants.hpp"
#include "emulation/evidence/probe.hpp"
#include "emulation/machine/instruction.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

namespace macheps::evidence {

/// The properties of a device that determine which instructions it has.
struct InstructionTarget {
    std::string arch;    ///< `sm_90`
    int capability = 0;  ///< 90
    int compiled = 0;    ///< the architecture that the running code was compiled for
    bool has_wgmma = false;
};

/// Limits on the work of a probe.
struct InstructionEffort {
    std::int64_t outputs = std::int64_t{1} << 20;  ///< maximum number of outputs per kernel launch
    std::uint64_t max_tiles = ~std::uint64_t{0};   ///< maximum number of tiles per class of operands
    /// Number of outputs per class that become candidates for a trace, and the number of tiles that they come from. In
    /// some classes, both are four times as large.
    int candidate_tiles = 128, candidates = 1024;
};

namespace detail {

template <class Device>
class DeviceBytes {
  public:
    DeviceBytes(Device& device, std::size_t bytes) : device_(device), bytes_(bytes), data_(device.allocate(bytes)) {}
    ~DeviceBytes() { device_.release(data_); }
    DeviceBytes(const DeviceBytes&) = delete;
    DeviceBytes& operator=(const DeviceBytes&) = delete;
    std::byte* data() const { return static_cast<std::byte*>(data_); }
    std::vector<std::byte> read(std::size_t bytes) const {
        std::vector<std::byte> host(bytes);
        device_.copy_out(host.data(), data_, bytes);
        return host;
    }
    void write(const std::vector<std::byte>& host) { device_.copy_in(data_, host.data(), host.size()); }

  private:
    Device& device_;
    std::size_t bytes_;
    void* data_;
};

/// Device memory for a number of tiles and for the result of a comparison.
template <class Device>
struct TileStore {
    TileStore(Device& device, const FormData& data, std::int64_t tiles)
        : a(device, size(tiles, data.a_bytes())),
          b(device, size(tiles, data.b_bytes())),
          c(device, size(tiles, data.d_bytes())),
          d(device, size(tiles, data.d_bytes())),
          found(device, sizeof(OutputComparison)) {}
    static std::size_t size(std::int64_t tiles, int bytes) {
        return static_cast<std::size_t>(tiles) * static_cast<std::size_t>(bytes);
    }
    TileMemory memory() const { return {a.data(), b.data(), c.data(), d.data()}; }

    DeviceBytes<Device> a, b, c, d;
    DeviceBytes<Device> found;  ///< an OutputComparison
};

}  // namespace detail

template <class Device>
class InstructionProbe {
  public:
    InstructionProbe(std::unique_ptr<Device> device, InstructionTarget target, InstructionEffort effort = {})
        : device_(std::move(device)), target_(std::move(target)), effort_(effort) {}

    /// Runs all classes of operands on one instruction form. Throws Error if the device fails.
    void run_form(int index, double seconds, const evidence::ProbeOptions& options, const evidence::ProbeSink& sink) {
        const InstructionForm& form = instruction_form(index);
        const std::optional<FormData> found = form_data(form, options, sink, "matrix", form.name());
        if (!found) return;
        evidence::Candidates candidates{
            .form = trace_form(*found), .machine = machine_, .sass = form.sass(), .seed = options.seed, .rows = {}};
        const detail::TileStore<Device> store(*device_, *found, tiles_of_launch(*found));
        for (int i = 0; i < evidence::operand_classes; ++i) {
            run_class(index, *found, static_cast<evidence::OperandClass>(i), seconds / evidence::operand_classes,
                      options, sink, store, candidates.rows);
        }
        if (options.record && form.is_traced()) options.record(candidates);
        // Variants have no traces, so their differing outputs go to a separate file.
        if (options.keep && !form.is_traced() && !candidates.rows.empty()) options.keep(capture_of(form, candidates));
    }

    void run_question(const Question& question, const evidence::ProbeOptions& options,
                      const evidence::ProbeSink& sink) {
        const int index = find_instruction_form(question.form);
        const std::optional<FormData> found =
            form_data(instruction_form(index), options, sink, "question", question.name());
        if (!found) return;
        const auto start = std::chrono::steady_clock::now();
        FormData data = *found;
        const int products = data.form.products(), a_size = bytes_of(data.form.a), b_size = bytes_of(data.form.b),
                  d_size = bytes_of(data.form.d);
        std::vector<std::byte> a(static_cast<std::size_t>(data.a_bytes())), b(static_cast<std::size_t>(data.b_bytes())),
            c(static_cast<std::size_t>(data.d_bytes()));
        for (const Question::Term& term : question.terms) {
            for (int i = 0; i < data.form.m; ++i) store_code(&a[at(i * products + term.k, a_size)], a_size, term.a);
            for (int i = 0; i < data.form.n; ++i) store_code(&b[at(i * products + term.k, b_size)], b_size, term.b);
        }
        for (int i = 0; i < data.outputs(); ++i) store_code(&c[at(i, d_size)], d_size, question.c);
        detail::TileStore<Device> store(*device_, data, 1);
        store.a.write(a);
        store.b.write(b);
        store.c.write(c);
        execute_instruction(*device_, index, data, 1, store.memory());
        device_->wait();
        const std::vector<std::byte> d = store.d.read(c.size());
        const auto model = [&](const SumRule& rule) {
            return reference_output(data, rule, a.data(), b.data(), question.c);
        };
        if (options.fault) {  // use a wrong model that gives another result for these operands
            std::vector<SumRule> wrong{data.rule, data.truth};
            wrong[1].model = SumModel::pairwise;  // instructions do not have this model; the definition gives d = c
            for (const evidence::Mutant& mutant : evidence::mutants(data.truth, data.form.k))
                wrong.push_back(mutant.rule);
            for (const SumRule& rule : wrong) {
                if (!same_output(data, model(rule), model(data.truth))) data.rule = rule;
            }
        }
        const std::uint64_t got = load_code(d.data(), d_size), want = model(data.rule);
        evidence::ProbeResult row{.kind = "question",
                                  .instruction = question.name(),
                                  .operands = question.asks,
                                  .model = machine_,
                                  .trials = static_cast<std::uint64_t>(data.outputs()),
                                  .note = {}};
        for (int i = 0; i < data.outputs(); ++i) {
            row.mismatches += !same_output(data, load_code(&d[at(i, d_size)], d_size), want);
        }
        std::string meaning = "no published model gives this result";
        for (const Question::Answer& answer : question.answers) {
            if (answer.d == got) meaning = answer.means;
        }
        if (question.only_recorded) {
            row.mismatches = 0;
            meaning = "nothing is claimed";
        }
        row.verdict = question.only_recorded ? evidence::Verdict::recorded
                      : row.mismatches == 0  ? evidence::Verdict::equal
                                             : evidence::Verdict::differs;
        row.note = "got " + evidence::hex_digits(data.shape.c, got) + ": " + meaning;
        if (row.verdict == evidence::Verdict::differs)
            row.note += "; the model gives " + evidence::hex_digits(data.shape.c, want);
        row.seconds = since(start);
        sink(row);
    }

  protected:
    static double since(std::chrono::steady_clock::time_point start) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    std::int64_t tiles_of_launch(const FormData& data) const {
        const std::int64_t tiles = max_of(effort_.outputs / data.outputs(), std::int64_t{1});
        return static_cast<std::int64_t>(min_of(effort_.max_tiles, static_cast<std::uint64_t>(tiles)));
    }
    static std::size_t at(int element, int bytes) { return static_cast<std::size_t>(element * bytes); }

    evidence::TraceForm trace_form(const FormData& data) const {
        return {.arch = target_.arch,
                .instr = data.form.instruction(),
                .qual = data.form.qualifier(),
                .a = data.shape.a,
                .b = data.shape.b,
                .c = data.shape.c,
                .any_nan = !data.canonical_nan};
    }

    /// Returns the form and its model on this device. If the device or this build does not have the instruction, or if
    /// no machine models it, emits a row with the verdict `declined` and returns nothing.
    std::optional<FormData> form_data(const InstructionForm& form, const evidence::ProbeOptions& options,
                                      const evidence::ProbeSink& sink, const char* kind, const std::string& name) {
        const auto decline = [&](const std::string& why) {
            sink({.kind = kind,
                  .instruction = name,
                  .operands = {},
                  .model = {},
                  .verdict = evidence::Verdict::declined,
                  .note = why});
            return std::nullopt;
        };
        if (target_.capability < form.min_capability() || target_.compiled < form.min_capability() ||
            (form.needs_sm90a() && !target_.has_wgmma)) {
            return decline(target_.capability < form.min_capability() ? "not an instruction of " + target_.arch
                           : form.needs_sm90a()                       ? "needs code for sm_90a on " + target_.arch
                                                : "not in the code of this build for " + target_.arch);
        }
        FormData data{.form = form};
        try {
            const Instruction instruction = find_instruction(target_.arch, form.instruction(), form.qualifier());
            data.truth = data.rule = instruction.machine->sum;
            data.canonical_nan = instruction.machine->fixes_nan();
            machine_ = instruction.machine->name;
        } catch (const Error&) {
            return decline("no machine models this instruction on " + target_.arch);
        }
        data.shape = evidence::operand_shape(form.m, form.n, form.k, form.chain, format_of(form.a), format_of(form.b),
                                             data.rule, site_id(form.name()));
        if (options.fault) {
            // The fault is a model that rounds results to another width. It gives wrong results in every class of
            // operands.
            data.rule.delivery = bytes_of(form.d) == 4 ? Delivery::bf16_nearest_even : Delivery::fp32_nearest_even;
        }
        return data;
    }

    void run_class(int index, const FormData& data, evidence::OperandClass cls, double seconds,
                   const evidence::ProbeOptions& options, const evidence::ProbeSink& sink,
                   const detail::TileStore<Device>& store, std::vector<evidence::TraceRow>& candidates) {
        const bool is_exhaustive = cls == evidence::OperandClass::exhaustive;
        std::uint64_t most = effort_.max_tiles;
        if (is_exhaustive) {
            most = min_of(most, evidence::Tile::exhaustive_tiles(data.shape));
            if (most == 0 || !data.form.is_traced()) return;
        }
        const auto start = std::chrono::steady_clock::now();
        const std::uint64_t tiles = min_of(most, static_cast<std::uint64_t>(tiles_of_launch(data)));
        auto* const found = reinterpret_cast<OutputComparison*>(store.found.data());
        evidence::ProbeResult row{.kind = "matrix",
                                  .instruction = data.form.name(),
                                  .operands = evidence::name_of(cls),
                                  .model = machine_,
                                  .note = {}};
        std::uint64_t first = 0;
        do {
            const std::int64_t count = static_cast<std::int64_t>(min_of(tiles, most - first));
            make_operands(*device_, data, cls, options.seed, first, count, store.memory());
            // Clear old results, so that elements which the instruction does not write cannot pass as results.
            device_->clear(store.d.data(), detail::TileStore<Device>::size(count, data.d_bytes()));
            execute_instruction(*device_, index, data, count, store.memory());
            const OutputComparison none;
            device_->copy_in(found, &none, sizeof none);  // waits for the kernel, so that its errors are reported here
            compare_outputs(*device_, data, count, store.memory(), found);
            OutputComparison comparison;
            device_->copy_out(&comparison, found, sizeof comparison);
            if (comparison.mismatches > 0 && row.mismatches == 0) {
                row.note = describe(data, cls, store, comparison.first, count, candidates, options);
            }
            if (first == 0 && options.record && data.form.is_traced()) keep(data, cls, store, count, candidates);
            row.mismatches += comparison.mismatches;
            row.trials += static_cast<std::uint64_t>(count * data.outputs());
            first += static_cast<std::uint64_t>(count);
        } while (first < most && (is_exhaustive || since(start) < seconds));
        row.verdict = row.mismatches == 0 ? evidence::Verdict::equal : evidence::Verdict::differs;
        row.seconds = since(start);
        sink(row);
    }

    /// Host copy of the operands and results of the first tiles. One copy of all tiles is faster than one copy per
    /// tile.
    struct HostTiles {
        std::vector<std::byte> a, b, c, d;
    };
    static HostTiles tiles_of(const FormData& data, const detail::TileStore<Device>& store, std::int64_t tiles) {
        const auto part = [&](const detail::DeviceBytes<Device>& from, int bytes) {
            return from.read(detail::TileStore<Device>::size(tiles, bytes));
        };
        return {part(store.a, data.a_bytes()), part(store.b, data.b_bytes()), part(store.c, data.d_bytes()),
                part(store.d, data.d_bytes())};
    }
    /// Returns the address of element `element` of a tile's operand or result.
    static const std::byte* element_of(const std::vector<std::byte>& tiles, std::size_t tile, int tile_bytes,
                                       int element, int bytes) {
        return &tiles[tile * static_cast<std::size_t>(tile_bytes) + at(element, bytes)];
    }
    static evidence::TraceRow row_of(const FormData& data, evidence::OperandClass cls, const HostTiles& tiles,
                                     std::size_t tile, int output) {
        const int products = data.form.products(), row = output / data.form.n, column = output % data.form.n;
        const int a_size = bytes_of(data.form.a), b_size = bytes_of(data.form.b), d_size = bytes_of(data.form.d);
        const std::byte* const a = element_of(tiles.a, tile, data.a_bytes(), row * products, a_size);
        const std::byte* const b = element_of(tiles.b, tile, data.b_bytes(), column * products, b_size);
        evidence::TraceRow out{.cls = evidence::name_of(cls)};
        for (int i = 0; i < products; ++i) {
            out.a.push_back(load_code(a + at(i, a_size), a_size));
            out.b.push_back(load_code(b + at(i, b_size), b_size));
        }
        out.c = load_code(element_of(tiles.c, tile, data.d_bytes(), output, d_size), d_size);
        out.d = load_code(element_of(tiles.d, tile, data.d_bytes(), output, d_size), d_size);
        return out;
    }
    /// Returns the model's result for one output of a tile.
    static std::uint64_t wanted(const FormData& data, const HostTiles& tiles, std::size_t tile, int output) {
        const int products = data.form.products(), c_size = bytes_of(data.form.d);
        return reference_output(
            data, data.rule,
            element_of(tiles.a, tile, data.a_bytes(), output / data.form.n * products, bytes_of(data.form.a)),
            element_of(tiles.b, tile, data.b_bytes(), output % data.form.n * products, bytes_of(data.form.b)),
            load_code(element_of(tiles.c, tile, data.d_bytes(), output, c_size), c_size));
    }
    /// Returns a description of the first mismatch. If a trace is recorded, also adds this mismatch and some later ones
    /// to the candidates for the trace.
    std::string describe(const FormData& data, evidence::OperandClass cls, const detail::TileStore<Device>& store,
                         std::uint32_t first, std::int64_t count, std::vector<evidence::TraceRow>& candidates,
                         const evidence::ProbeOptions& options) {
        constexpr std::uint32_t max_kept = 64, most_looked_at = 1 << 16;
        const auto outputs = static_cast<std::uint32_t>(data.outputs());
        const auto all = static_cast<std::uint32_t>(count) * outputs;
        const std::uint32_t end = min_of(all, first + (options.record ? most_looked_at : 1));
        const HostTiles tiles = tiles_of(data, store, static_cast<std::int64_t>((end - 1) / outputs) + 1);
        std::uint32_t kept = 0;
        for (std::uint32_t i = first; options.record && i < end && kept < max_kept; ++i) {
            const auto output = static_cast<int>(i % outputs);
            const evidence::TraceRow row = row_of(data, cls, tiles, i / outputs, output);
            if (same_output(data, row.d, wanted(data, tiles, i / outputs, output))) continue;
            candidates.push_back(row);
            ++kept;
        }
        const auto output = static_cast<int>(first % outputs);
        const evidence::TraceRow row = row_of(data, cls, tiles, first / outputs, output);
        return std::string("row ") + std::to_string(output / data.form.n) + std::string(", column ") +
               std::to_string(output % data.form.n) + ": the model gives " +
               evidence::hex_digits(data.shape.c, wanted(data, tiles, first / outputs, output)) + "; " +
               row_text(trace_form(data), row);
    }
    /// Returns a capture of the rows in which a variant differs from its model.
    evidence::Capture capture_of(const InstructionForm& form, const evidence::Candidates& candidates) const {
        evidence::Capture capture{.name = target_.arch + "." + form.name() + ".differing"};
        capture.header = R"({"macheps_capture":1,"kind":"matrix","instruction":")" + form.name() + R"(","arch":")" +
                         target_.arch + R"(","machine":")" + candidates.machine + R"(","seed":)" +
                         std::to_string(candidates.seed) + "}";
        for (const evidence::TraceRow& row : candidates.rows) capture.lines += row_text(candidates.form, row) + '\n';
        return capture;
    }
    /// Adds outputs to the candidates for a trace. The outputs added are spread evenly over the tiles of the first
    /// launch.
    void keep(const FormData& data, evidence::OperandClass cls, const detail::TileStore<Device>& store,
              std::int64_t tiles, std::vector<evidence::TraceRow>& candidates) const {
        // In these classes, some wrong models differ only on rare operands, so keep four times as many outputs.
        using C = evidence::OperandClass;
        const int more =
            cls == C::swamp || cls == C::one_to_four || cls == C::subnormal || cls == C::underflow || cls == C::tie ? 4
                                                                                                                    : 1;
        const int kept = static_cast<int>(min_of(tiles, static_cast<std::int64_t>(more * effort_.candidate_tiles)));
        const int each = max_of(more * effort_.candidates / kept, 1);
        const HostTiles host = tiles_of(data, store, tiles);
        for (int t = 0; t < kept; ++t) {
            // The exhaustive class enumerates operands in order, so take tiles from the whole range.
            const auto tile = static_cast<std::size_t>(t * tiles / kept);
            for (int i = 0; i < min_of(each, data.outputs()); ++i) {
                const int output = (i * data.outputs() / min_of(each, data.outputs()) + 7 * t) % data.outputs();
                candidates.push_back(row_of(data, cls, host, tile, output));
            }
        }
    }

    std::unique_ptr<Device> device_;
    InstructionTarget target_;
    InstructionEffort effort_;
    std::string machine_;
};

/// Returns two groups: one with a probe per instruction form, and one with a probe per question. The first probe that
/// runs calls `make` to create the InstructionProbe, and all later probes use the same object.
template <class Device>
std::vector<evidence::ProbeGroup> instruction_probe_groups(
    std::function<std::unique_ptr<InstructionProbe<Device>>()> make) {
    const auto probe = std::make_shared<std::unique_ptr<InstructionProbe<Device>>>();
    const auto get = [probe, make = std::move(make)]() -> InstructionProbe<Device>& {
        if (!*probe) *probe = make();
        return **probe;
    };
    evidence::ProbeGroup matrix{.kind = "matrix", .instructions = {}, .run = {}},
        questions{.kind = "question", .instructions = {}, .run = {}};
    for (int i = 0; i < instruction_forms; ++i) matrix.instructions.push_back(instruction_form(i).name());
    matrix.run = [get](const std::string& name, double seconds, const evidence::ProbeOptions& options,
                       const evidence::ProbeSink& sink) {
        get().run_form(find_instruction_form(name), seconds, options, sink);
    };
    matrix.is_variant = is_variant_form;
    for (const Question& question : instruction_questions()) questions.instructions.push_back(question.name());
    questions.run = [get](const std::string& name, double, const evidence::ProbeOptions& options,
                          const evidence::ProbeSink& sink) {
        for (const Question& question : instruction_questions()) {
            if (question.name() == name) get().run_question(question, options, sink);
        }
    };
    return {matrix, questions};
}

}  // namespace macheps::evidence
