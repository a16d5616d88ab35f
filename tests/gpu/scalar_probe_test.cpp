// SPDX-License-Identifier: Apache-2.0
// Tests the probes of scalar operations on the host. The host functions of the CUDA toolkit and the processor replace
// the device, so kernels, inputs, packing and verdicts are tested without a GPU.
#include "emulation/evidence/gpu/scalar/groups.hpp"
#include "emulation/evidence/gpu/scalar/probes.hpp"
#include "tests/gpu/host_device.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace scalar_probe_test {

using namespace macheps;
using namespace macheps::evidence;
using namespace macheps::gpu;

namespace {

constexpr Batches few{.inputs = 1u << 12, .most = 8};
constexpr double no_limit = 1e9;

/// A fake probe that differs at one input and has its largest error at two others. It counts the visits of each input.
struct Marked {
    std::uint64_t differs_at = ~0ull, worst_at = ~0ull, worst_too = ~0ull;
    bool offered = true;
    std::uint64_t* visits = nullptr;
    std::uint64_t visited_from = 0;

    Trial operator()(std::uint64_t index) const {
        if (visits != nullptr) atomic_add(&visits[index - visited_from], 1);
        Trial trial;
        trial.a = index;
        trial.offered = offered;
        trial.differs = trial.beyond = trial.turns = index == differs_at;
        trial.kind = InputClass::subnormal;
        trial.error = index == worst_at || index == worst_too ? 3.0f : 0.5f;
        return trial;
    }
};

/// Visits the inputs of `probe` in another order, in which the first few inputs are as good as a random sample.
template <class Probe>
struct Scattered {
    Probe probe;
    Trial operator()(std::uint64_t index) const {
        if (probe.inputs() == 0) return probe(index);
        const std::uint64_t mask = probe.inputs() - 1;
        const int half = 32 - countl_zero(mask) / 2;  // half the number of bits of an index
        std::uint64_t u = index ^ index >> half;      // each step is a bijection
        u = u * 0x9e3779b97f4a7c15u & mask;
        return probe(u ^ u >> half);
    }
};

/// A probe that swaps the halves of a packed result.
struct Swapped {
    ConvertProbe probe;
    Trial operator()(std::uint64_t index) const {
        Trial trial = probe(index);
        const int bits = packed_bits(probe.row.to);
        const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
        trial.got = trial.got >> bits | (trial.got & mask) << bits;
        trial.differs = trial.got != trial.want;
        return trial;
    }
};

const ConvertRow& convert_row(const std::string& instruction) {
    for (const ConvertRow& row : convert_rows) {
        if (instruction == row.instruction) return row;
    }
    FAIL(instruction << " has no row");
    return convert_rows[0];
}
const ArithmeticRow& arithmetic_row(const std::string& instruction) {
    for (const ArithmeticRow& row : arithmetic_rows) {
        if (instruction == row.instruction) return row;
    }
    FAIL(instruction << " has no row");
    return arithmetic_rows[0];
}

std::vector<evidence::ProbeGroup> groups_on(HostDevice& device, std::uint64_t most = 4) {
    return scalar_groups<HostDevice>([&device]() -> HostDevice& { return device; },
                                     {.batches = {.inputs = 1u << 12, .most = most}, .blocks = 1, .threads = 1});
}

std::vector<evidence::ProbeResult> run_all(const std::vector<evidence::ProbeGroup>& groups,
                                           const evidence::ProbeOptions& options) {
    std::vector<evidence::ProbeResult> results;
    for (const evidence::ProbeGroup& group : groups) {
        for (const std::string& name : group.instructions) {
            const std::size_t before = results.size();
            group.run(name, no_limit, options, [&](const evidence::ProbeResult& result) { results.push_back(result); });
            REQUIRE(results.size() == before + 1);
            CHECK(results.back().kind == group.kind);
            CHECK(results.back().instruction == name);
        }
    }
    return results;
}

}  // namespace

TEST_CASE("a comparison visits every input of its launches exactly once", "[gpu][scalar]") {
    HostDevice device;
    for (const std::uint64_t inputs : {1u, 2u, 32u, 1024u, 2048u, 1u << 14, 1u << 16}) {
        Room<std::uint64_t, HostDevice> visits(device, static_cast<std::int64_t>(inputs));
        device.clear(visits.data(), inputs * 8);
        Marked probe;
        probe.visits = visits.data();
        const ScalarComparison found = compare(device, probe, inputs, no_limit, {.inputs = 1u << 12});
        CAPTURE(inputs);
        CHECK(found.trials == inputs);
        CHECK(found.complete);
        CHECK(found.mismatches() == 0);
        CHECK(found.first.empty());
        std::uint64_t wrong = 0;
        const auto counts = visits.download();
        // At the end, one more launch evaluates the inputs that are reported, such as that of the largest error. It
        // evaluates input 0 in place of each case that did not occur. Therefore the visits of input 0 are not checked.
        for (std::size_t i = 1; i < counts.size(); ++i) wrong += counts[i] != 1;
        CHECK(wrong == 0);
    }
}

TEST_CASE("a single mismatch is found at any input", "[gpu][scalar]") {
    HostDevice device;
    for (const std::uint64_t at : {0u, 1u, 31u, 32u, 1023u, 1024u, 4095u, 4096u, 8191u, 30000u, 65535u}) {
        Marked probe;
        probe.differs_at = at;
        probe.worst_at = 65535 - at;
        probe.worst_too = 65535;
        const ScalarComparison found = compare(device, probe, 1u << 16, no_limit, {.inputs = 1u << 12});
        CAPTURE(at);
        CHECK(found.mismatches() == 1);
        CHECK(found.differing[static_cast<int>(InputClass::subnormal)] == 1);
        REQUIRE(found.first.size() == 1);
        CHECK(found.first[0].a == at);
        CHECK(found.beyond == 1);
        CHECK(found.first_beyond.a == at);
        CHECK(found.turns == 1);
        CHECK(found.first_turn.a == at);
        CHECK(found.worst.error == 3.0f);
        CHECK(found.worst.a == 65535 - at);  // the first of two equally large errors
    }
}

TEST_CASE("no result is lost when the results of many warps are combined", "[gpu][scalar]") {
    HostDevice device;
    // Two warps combine the results of 2048 warps.
    for (const std::uint64_t at : {0u, 40u * 1024, 1023u * 1024 + 5, 1024u * 1024, (1u << 21) - 1}) {
        Marked probe;
        probe.differs_at = at;
        const ScalarComparison found = compare(device, probe, 1u << 21, no_limit, {.inputs = 1u << 21});
        CAPTURE(at);
        CHECK(found.trials == 1u << 21);
        CHECK(found.mismatches() == 1);
        REQUIRE(found.first.size() == 1);
        CHECK(found.first[0].a == at);
    }
}

TEST_CASE("a few launches sample the whole range of inputs, and a probe with unlimited inputs is never complete",
          "[gpu][scalar]") {
    HostDevice device;
    // The first four of 16 launches take the inputs with the remainders 0, 8, 4 and 12 modulo 16.
    for (const auto& [rest, seen] : {std::pair{0, true}, {8, true}, {4, true}, {12, true}, {1, false}, {15, false}}) {
        Marked probe;
        probe.differs_at = static_cast<std::uint64_t>(rest) + 16 * 4001;
        const ScalarComparison found = compare(device, probe, 1u << 16, no_limit, {.inputs = 1u << 12, .most = 4});
        CAPTURE(rest);
        CHECK((found.mismatches() == 1) == seen);
        if (seen) CHECK(found.first.at(0).a == probe.differs_at);
        CHECK(found.trials == 4 * 4096);
        CHECK_FALSE(found.complete);
    }
    Marked probe;
    probe.differs_at = 3 * 4096;
    const ScalarComparison endless = compare(device, probe, 0, no_limit, {.inputs = 1u << 12, .most = 4});
    CHECK(endless.mismatches() == 1);
    CHECK_FALSE(endless.complete);
    CHECK(compare(device, probe, 0, -1.0, {.inputs = 1u << 12}).trials == 4096);  // at least one launch
    probe.offered = false;
    const ScalarComparison absent = compare(device, probe, 1u << 16, no_limit, {.inputs = 1u << 12});
    CHECK(absent.trials == 0);
    CHECK(absent.absent == 4096);
}

TEST_CASE("each code is assigned to its class: zero, subnormal, normal, infinite or NaN", "[gpu][scalar]") {
    struct Case {
        Format format;
        std::uint64_t code;
        InputClass kind;
    };
    const Case cases[] = {{fp32, 0x80000000, InputClass::zero},     {fp32, 0x007fffff, InputClass::subnormal},
                          {fp32, 0x80800000, InputClass::normal},   {fp32, 0xff800000, InputClass::infinite},
                          {fp32, 0x7f800001, InputClass::nan},      {e4m3fn, 0x7f, InputClass::nan},
                          {e4m3fn, 0x7e, InputClass::normal},       {e5m2, 0xfc, InputClass::infinite},
                          {tf32, 0x7f800000, InputClass::infinite}, {tf32, 0x00002000, InputClass::subnormal},
                          {e2m1fn, 0xf, InputClass::normal},        {e8m0fnu, 0xff, InputClass::nan}};
    for (const Case& c : cases) {
        CAPTURE(c.format.bits, c.code);
        CHECK(class_of(c.format, c.code) == c.kind);
    }
}

TEST_CASE("the table row of a PTX conversion agrees with the name of the instruction", "[gpu][scalar]") {
    const std::pair<const char*, Format> types[] = {{"f16", fp16},    {"f16x2", fp16},    {"bf16", bf16},
                                                    {"bf16x2", bf16}, {"tf32", tf32},     {"f32", fp32},
                                                    {"f64", fp64},    {"e4m3x2", e4m3fn}, {"e5m2x2", e5m2}};
    const std::pair<const char*, Round> modes[] = {{"rn", Round::nearest_even},
                                                   {"rz", Round::toward_zero},
                                                   {"rm", Round::down},
                                                   {"rp", Round::up},
                                                   {"rna", Round::nearest_away}};
    int instructions = 0;
    for (const ConvertRow& row : convert_rows) {
        CHECK(&convert_rows[static_cast<std::size_t>(row.id)] == &row);
        if (std::strncmp(row.instruction, "cvt.", 4) != 0) continue;
        ++instructions;
        CAPTURE(row.instruction);
        std::vector<Format> formats;
        Round mode = Round::nearest_even;
        bool relu = false, unit = false, satfinite = false, pair = false;
        std::string word;
        for (const char* at = row.instruction + 4;; ++at) {
            if (*at != '.' && *at != '\0') {
                word += *at;
                continue;
            }
            for (const auto& [name, format] : types) {
                if (word == name) formats.push_back(format);
            }
            for (const auto& [name, value] : modes) {
                if (word == name) mode = value;
            }
            relu = relu || word == "relu";
            unit = unit || word == "sat";
            satfinite = satfinite || word == "satfinite";
            pair = pair || word.find("x2") != std::string::npos;
            word.clear();
            if (*at == '\0') break;
        }
        REQUIRE(formats.size() == 2);
        CHECK(row.to == formats[0]);
        CHECK(row.from == formats[1]);
        CHECK(row.mode == mode);
        CHECK(row.after == (relu ? After::relu : unit ? After::unit : After::none));
        CHECK((row.elements == Elements::two) == pair);
        CHECK((row.model.profile.saturates == Reach::every_format) == satfinite);
    }
    CHECK(instructions == 83);
}

TEST_CASE("the table row of a toolkit function agrees with the name of the function", "[gpu][scalar]") {
    // The name of a function may end in its rounding mode. A mistake in the table is most likely in the rows with
    // directed modes.
    const std::pair<const char*, Round> endings[] = {
        {"_rn", Round::nearest_even}, {"_rz", Round::toward_zero}, {"_ru", Round::up}, {"_rd", Round::down}};
    const std::pair<const char*, Operation> words[] = {
        {"add", Operation::add}, {"sub", Operation::sub},   {"mul", Operation::mul}, {"fma", Operation::fma},
        {"div", Operation::div}, {"sqrt", Operation::sqrt}, {"rcp", Operation::div}};
    for (const ArithmeticRow& row : arithmetic_rows) {
        const std::string name = row.instruction;
        CAPTURE(name);
        CHECK(&arithmetic_rows[static_cast<std::size_t>(row.id)] == &row);
        for (const auto& [ending, mode] : endings) {
            if (name.size() > 3 && name.compare(name.size() - 3, 3, ending) == 0) CHECK(row.mode == mode);
        }
        int named = 0;
        for (const auto& [word, operation] : words) {
            if (name.find(word) == std::string::npos) continue;
            ++named;
            CHECK(row.operation == operation);
        }
        CHECK(named == 1);
        CHECK(row.reciprocal == (name.find("rcp") != std::string::npos));
        CHECK((row.variant == Variant::ftz) == (name.find("ftz") != std::string::npos));
        CHECK((row.variant == Variant::unit) == (name.find("sat") != std::string::npos));
        CHECK((row.variant == Variant::relu) == (name.find("relu") != std::string::npos));
    }
    for (const FunctionRow& row : function_rows) {
        CAPTURE(row.instruction);
        CHECK(&function_rows[static_cast<std::size_t>(row.id)] == &row);
        CHECK((row.variant == Variant::ftz) == (std::strstr(row.instruction, "ftz") != nullptr));
    }
}

TEST_CASE("on a correct device, every probe agrees with its model and differs from a wrong model", "[gpu][scalar]") {
    HostDevice device;
    const auto groups = groups_on(device);
    for (const evidence::ProbeResult& result : run_all(groups, {})) {
        CAPTURE(result.kind, result.instruction, result.note);
        CHECK((result.verdict == evidence::Verdict::equal || result.verdict == evidence::Verdict::recorded));
        CHECK(result.mismatches == 0);
        CHECK(result.note.find("not monotonic") == std::string::npos);
        CHECK(result.trials > 0);
        CHECK_FALSE(result.operands.empty());
        CHECK_FALSE(result.model.empty());
    }
    evidence::ProbeOptions wrong;
    wrong.fault = true;
    for (const evidence::ProbeResult& result : run_all(groups, wrong)) {
        CAPTURE(result.kind, result.instruction, result.note);
        CHECK(result.verdict == evidence::Verdict::differs);
        CHECK(result.mismatches > 0);
        CHECK_FALSE(result.note.empty());
    }
}

TEST_CASE("the names of probes are unique, and an unknown name is an error", "[gpu][scalar]") {
    HostDevice device;
    std::set<std::string> names;
    for (const evidence::ProbeGroup& group : groups_on(device)) {
        for (const std::string& name : group.instructions) {
            CAPTURE(group.kind, name);
            CHECK(names.insert(group.kind + ":" + name).second);
        }
        CHECK_THROWS_AS(group.run("cvt.none", 1, {}, [](const evidence::ProbeResult&) {}), Error);
    }
    for (const char* wanted : {"convert:cvt.rna.tf32.f32", "convert:cvt.rn.satfinite.e4m3x2.f16x2", "scalar:__fmaf_rd",
                               "scalar:__hdiv(half)", "scalar:hrcp(bfloat16)", "scalar:ex2.approx.ftz.f32", "math:tanh",
                               "math:exp64", "math:lane_sum"}) {
        CAPTURE(wanted);
        CHECK(names.count(wanted) == 1);
    }
}

TEST_CASE("a build without CUDA lists the same probes, and running one is an error", "[gpu][scalar]") {
    HostDevice device;
    const auto here = groups_on(device), absent = scalar_probe_groups(0);
    REQUIRE(here.size() == absent.size());
    for (std::size_t i = 0; i < here.size(); ++i) {
        CHECK(here[i].kind == absent[i].kind);
        CHECK(here[i].instructions == absent[i].instructions);
        try {
            absent[i].run(absent[i].instructions[0], 1, {},
                          [](const evidence::ProbeResult&) { FAIL("a result without a device"); });
            FAIL("no error");
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::no_device);
        }
    }
}

TEST_CASE("a conversion that differs from its table row is detected", "[gpu][scalar]") {
    HostDevice device;
    int mutants = 0;
    const auto mismatches = [&](const ConvertRow& row) {
        const Scattered<ConvertProbe> probe{{row}};
        return compare(device, probe, probe.probe.inputs(), no_limit, few).mismatches();
    };
    const auto caught = [&](const ConvertRow& mutant) {
        ++mutants;
        return mismatches(mutant) > 0;
    };
    for (const ConvertRow& row : convert_rows) {
        CAPTURE(row.instruction);
        CHECK(mismatches(row) == 0);
        const bool narrowing = row.to.container_bits() < row.from.container_bits() || row.to.padding != 0;
        const bool positive = row.after != After::none;  // results are not negative, so down is toward zero
        if (narrowing && !(positive && row.mode == Round::down)) {
            ConvertRow mutant = row;
            mutant.mode = row.mode == Round::toward_zero ? Round::nearest_even : Round::toward_zero;
            CHECK(caught(mutant));
        }
        ConvertRow mutant = row;
        mutant.after = row.after == After::none ? After::relu : After::none;
        if (row.from.has_sign() && row.to.has_sign()) CHECK(caught(mutant));
        if (!row.to.can_overflow() || row.after == After::unit || !row.from.has_inf() || row.from.bits == 64) continue;
        mutant = row;
        mutant.model.profile.saturates = mutant.model.profile.saturates_infinity =
            row.model.profile.saturates == Reach::every_format ? Reach::no_format : Reach::every_format;
        ++mutants;
        CHECK_FALSE(ConvertProbe{row}(row.from.inf_code()).differs);
        CHECK(ConvertProbe{mutant}(row.from.inf_code()).differs);
    }
    CHECK(mutants > 250);
}

TEST_CASE("an operation that differs from its table row is detected", "[gpu][scalar]") {
    HostDevice device;
    struct Mutation {
        const char* instruction;
        void (*change)(ArithmeticRow&);
        const char* why;
    };
    const Mutation mutations[] = {
        {"__fadd_rn", [](ArithmeticRow& r) { r.mode = Round::nearest_away; }, "ties"},
        {"__fadd_rn", [](ArithmeticRow& r) { r.mode = Round::to_odd; }, "another mode"},
        {"__fsub_rz", [](ArithmeticRow& r) { r.mode = Round::down; }, "another mode"},
        {"__fadd_rd", [](ArithmeticRow& r) { r.mode = Round::toward_zero; }, "the sign of a zero sum, negative sums"},
        {"__fmul_rn", [](ArithmeticRow& r) { r.mode = Round::nearest_away; }, "ties"},
        {"__fmul_rn", [](ArithmeticRow& r) { r.variant = Variant::ftz; }, "subnormals are kept"},
        {"__fmaf_rn", [](ArithmeticRow& r) { r.operation = Operation::mul; }, "the addend"},
        {"__fmaf_ru", [](ArithmeticRow& r) { r.mode = Round::nearest_even; }, "another mode"},
        {"__fdiv_rn", [](ArithmeticRow& r) { r.mode = Round::nearest_away; }, "ties among subnormal quotients"},
        {"__fsqrt_ru", [](ArithmeticRow& r) { r.mode = Round::nearest_even; }, "another mode"},
        {"__frcp_rd", [](ArithmeticRow& r) { r.mode = Round::up; }, "another mode"},
        {"__dadd_rn", [](ArithmeticRow& r) { r.mode = Round::nearest_away; }, "ties"},
        {"__dmul_rn", [](ArithmeticRow& r) { r.mode = Round::nearest_away; }, "ties"},
        {"__dsqrt_rz",
         [](ArithmeticRow& r) {
             r.mode = Round::down;
             r.operation = Operation::add;
         },
         "another operation"},
        {"__fma_rn", [](ArithmeticRow& r) { r.mode = Round::nearest_away; }, "ties"},
        {"__ddiv_rd", [](ArithmeticRow& r) { r.mode = Round::up; }, "another mode"},
        {"add.rn.ftz.f32", [](ArithmeticRow& r) { r.variant = Variant::none; }, "subnormals are flushed"},
        {"fma.rn.ftz.f32", [](ArithmeticRow& r) { r.variant = Variant::none; }, "subnormals are flushed"},
        {"__hadd(half)", [](ArithmeticRow& r) { r.mode = Round::nearest_away; }, "ties"},
        {"__hmul(bfloat16)", [](ArithmeticRow& r) { r.mode = Round::nearest_away; }, "ties"},
        {"__hsub2(half2)", [](ArithmeticRow& r) { r.operation = Operation::add; }, "another operation"},
        {"__hfma_relu(half)", [](ArithmeticRow& r) { r.variant = Variant::none; }, "negative results"},
        {"__hfma_sat(bfloat16)", [](ArithmeticRow& r) { r.variant = Variant::relu; }, "results above 1"},
        {"__hdiv(half)", [](ArithmeticRow& r) { r.mode = Round::toward_zero; }, "another mode"},
        {"div.full.f32", [](ArithmeticRow& r) { r.operation = Operation::mul; }, "beyond three codes"},
        {"mul.rn.ftz.f32", [](ArithmeticRow& r) { r.variant = Variant::none; }, "subnormals are flushed"},
    };
    for (const Mutation& mutation : mutations) {
        ArithmeticProbe probe{arithmetic_row(mutation.instruction)};
        CAPTURE(mutation.instruction, mutation.why);
        const Batches batches{.inputs = 1u << 12, .most = 32};
        const auto run = [&] {
            return compare(device, Scattered<ArithmeticProbe>{probe}, probe.inputs(), no_limit, batches);
        };
        CHECK(run().mismatches() == 0);
        mutation.change(probe.row);
        const ScalarComparison found = run();
        CHECK(found.mismatches() > 0);
        if (probe.row.codes != 0) CHECK(found.beyond > 0);
    }
}

TEST_CASE("a converted NaN keeps the bits that an H100 keeps", "[gpu][scalar]") {
    struct Case {
        const char* instruction;
        std::uint64_t in, out;
        const char* why;
    };
    const Case cases[] = {
        {"cvt.rna.satfinite.tf32.f32", 0x7f800001, 0x7f7fe000, "masked to Inf, then one step below"},
        {"cvt.rna.satfinite.tf32.f32", 0xffc02001, 0xffc00000, "one step below"},
        {"cvt.rna.satfinite.tf32.f32", 0x7f800000, 0x7f7fe000, "Inf saturates"},
        {"cvt.rna.tf32.f32", 0x7f800001, 0x7f800000, "masked to Inf"},
        {"__double2half", 0x7ff19b5fac34060b, 0x7e66, "top of the payload and the quiet bit"},
        {"__double2half", 0xfff0000000000001, 0xfe00, "sign"},
        {"__double2bfloat16", 0x7ff19b5fac34060b, 0x7fcc, "top of the payload and the quiet bit"},
        {"cvt.rz.f32.f64", 0xfff19b5fac34060b, 0xffccdafd, "top of the payload and the quiet bit"},
        {"cvt.f64.f16", 0xfc01, 0xfff8040000000000, "a signaling NaN turns quiet"},
        {"cvt.f64.f32", 0x7f800001, 0x7ff8000020000000, "a signaling NaN turns quiet"},
        {"cvt.f32.f16", 0xfc01, 0x7fffffff, "all ones"},
        {"cvt.f32.bf16", 0xff81, 0xff810000, "a shift"},
        {"cvt.rn.bf16.f16", 0xfc01, 0x7fff, "all ones"},
    };
    for (const Case& c : cases) {
        std::uint64_t got = 0;
        CAPTURE(c.instruction, c.in, c.why);
        const ConvertRow& row = convert_row(c.instruction);
        REQUIRE(convert_by_hardware(row, c.in, 0, got));
        CHECK(got == c.out);
        CHECK(ConvertByModel{row}.expected(c.in) == c.out);
    }
}

TEST_CASE("ftz flushes results that are tiny after rounding with an unbounded exponent", "[gpu][scalar]") {
    struct Case {
        const char* instruction;
        std::uint32_t a, b, c, out;
        const char* why;
    };
    const Case cases[] = {
        {"mul.rn.ftz.f32", 0x3f7fffff, 0x00800000, 0, 0, "recorded on an H100: 2^-126 - 2^-150"},
        {"mul.rn.ftz.f32", 0xbf7fffff, 0x00800000, 0, 0x80000000, "the sign stays"},
        {"mul.rn.ftz.f32", 0x3f7fffff, 0x00800001, 0, 0x00800000, "2^-126 + 2^-150 and less: to 2^-126"},
        {"fma.rn.ftz.f32", 0x3f7fffff, 0x00800000, 0x80000000, 0, "recorded on an H100"},
        {"fma.rn.ftz.f32", 0x0fd1412f, 0xa3ebc825, 0x00800000, 0, "recorded on an H100"},
        {"fma.rn.ftz.f32", 0x80800000, 0x33800000, 0x00800000, 0, "2^-126 - 2^-150 has 24 bits: tiny"},
        {"fma.rn.ftz.f32", 0x80800000, 0x33000000, 0x00800000, 0x00800000, "2^-126 - 2^-151 rounds to 2^-126: kept"},
        {"fma.rn.ftz.f32", 0x00800000, 0x33000000, 0x80800000, 0x80800000, "the same with the other sign"},
        {"add.rn.ftz.f32", 0x00800001, 0x80800000, 0, 0, "a difference is exact"},
        {"div.rn.ftz.f32", 0x00fffffe, 0x3fffffff, 0, 0, "the largest quotient below 2^-126"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.instruction, c.why);
        const ArithmeticRow& row = arithmetic_row(c.instruction);
        std::uint64_t got = 0;
        REQUIRE(evidence::detail::arithmetic_by_hardware(row, c.a, c.b, c.c, got));
        CHECK(got == c.out);
        CHECK(evidence::detail::arithmetic_by_model(row, c.a, c.b, c.c) == c.out);
    }
}

TEST_CASE("the first element of a packed pair is in the low half of the word", "[gpu][scalar]") {
    std::uint64_t result = 0;
    const auto float_bits = [](float x) { return std::uint64_t{bit_cast<std::uint32_t>(x)}; };
    for (const auto& [instruction, packed] : {std::pair<const char*, std::uint64_t>{"cvt.rn.f16x2.f32", 0xc0003c00},
                                              {"__floats2half2_rn", 0xc0003c00},
                                              {"cvt.rn.bf16x2.f32", 0xc0003f80},
                                              {"cvt.rn.satfinite.e4m3x2.f32", 0xc038},
                                              {"cvt.rn.relu.f16x2.f32", 0x00003c00},
                                              {"__nv_cvt_float2_to_fp4x2.e2m1", 0xc2}}) {
        CAPTURE(instruction);
        REQUIRE(convert_by_hardware(convert_row(instruction), float_bits(1), float_bits(-2), result));
        CHECK(result == packed);
    }
    for (const auto& [instruction, source, packed] :
         {std::tuple<const char*, std::uint64_t, std::uint64_t>{"cvt.rn.satfinite.e5m2x2.f16x2", 0xc0003c00, 0xc03c},
          {"cvt.rn.f16x2.e4m3x2", 0xc038, 0xc0003c00},
          {"__nv_cvt_fp8x2_to_halfraw2.e5m2", 0xc03c, 0xc0003c00}}) {
        CAPTURE(instruction);
        REQUIRE(convert_by_hardware(convert_row(instruction), source, 0, result));
        CHECK(result == packed);
    }
    HostDevice device;
    for (const ConvertRow& row : convert_rows) {
        if (row.elements == Elements::one) continue;
        CAPTURE(row.instruction);
        const ConvertProbe probe{row};
        CHECK(compare(device, Swapped{probe}, probe.inputs(), no_limit, few).mismatches() > 0);
    }
}

TEST_CASE("over all inputs of a packed operation, the other element of the pair takes every 16-bit code",
          "[gpu][scalar]") {
    // Multiplying by an odd number and adding a constant is a bijection modulo every power of two up to 2^32.
    std::vector<bool> seen(1 << 16);
    for (std::uint32_t u = 0; u < 1 << 16; ++u) seen[other_element(u) & 0xffff] = true;
    CHECK(std::count(seen.begin(), seen.end(), true) == 1 << 16);
    CHECK(reversed(1, 4) == 8);
    CHECK(reversed(6, 4) == 6);
    CHECK(reversed(3, 8) == 0xc0);
}

TEST_CASE("the hard test operands produce every kind of result for every operation", "[gpu][scalar]") {
    for (const Format& f : {fp32, fp64, fp16, bf16}) {
        for (const Operation operation :
             {Operation::add, Operation::sub, Operation::mul, Operation::div, Operation::sqrt, Operation::fma}) {
            int finite = 0, subnormal = 0, overflow = 0, tie = 0, exact = 0, nan = 0, zero = 0;
            constexpr int count = 20000;
            for (int i = 0; i < count; ++i) {
                const Operands x = hard_operands(f, operation, 3, static_cast<std::uint64_t>(i));
                const auto at = [&](Round mode) { return op(operation, f, x.a, x.b, x.c, mode); };
                const Rounded even = at(Round::nearest_even);
                const InputClass kind = class_of(f, even.bits);
                finite += kind == InputClass::normal || kind == InputClass::subnormal;
                subnormal += kind == InputClass::subnormal;
                overflow += even.flags.overflow;
                nan += kind == InputClass::nan;
                zero += kind == InputClass::zero;
                exact += !even.flags.inexact && kind == InputClass::normal;
                tie += at(Round::nearest_away).bits != even.bits;
            }
            CAPTURE(f.bits, f.precision, static_cast<int>(operation));
            CHECK(finite > count / 2);
            CHECK(exact > 50);
            CHECK(nan > 50);
            const bool root = operation == Operation::sqrt;  // a root has no tie, no overflow and no subnormal result
            const bool sum = operation == Operation::add || operation == Operation::sub;
            CHECK((root ? subnormal == 0 : subnormal > 50));
            CHECK((root ? overflow == 0 : overflow > 20));
            CHECK((root ? tie == 0 : tie > (operation == Operation::div ? 0 : 20)));
            if (sum || operation == Operation::fma) CHECK(zero > 20);
        }
    }
}

TEST_CASE("the reference functions are within their error bounds", "[gpu][scalar]") {
    if (std::numeric_limits<long double>::digits < 64) SKIP_TEST("long double is no wider than double here");
    using Wide = long double;
    const std::pair<Function, Wide (*)(Wide)> functions[] = {
        {Function::rcp, [](Wide x) { return 1 / x; }},
        {Function::sqrt, [](Wide x) { return std::sqrt(x); }},
        {Function::rsqrt, [](Wide x) { return 1 / std::sqrt(x); }},
        {Function::ex2, [](Wide x) { return std::exp2(x); }},
        {Function::exp, [](Wide x) { return std::exp(x); }},
        {Function::exp10, [](Wide x) { return std::pow(Wide{10}, x); }},
        {Function::lg2, [](Wide x) { return std::log2(x); }},
        {Function::log, [](Wide x) { return std::log(x); }},
        {Function::log10, [](Wide x) { return std::log10(x); }},
        {Function::sin, [](Wide x) { return std::sin(x); }},
        {Function::cos, [](Wide x) { return std::cos(x); }},
        {Function::tanh, [](Wide x) { return std::tanh(x); }}};
    for (const auto& [function, exact] : functions) {
        Wide worst = 0, worst_large = 0;
        for (std::uint64_t u = 0; u < std::uint64_t{1} << 32; u += 40961) {
            const auto x = bit_cast<float>(static_cast<std::uint32_t>(u));
            const Wide y = exact(x);
            const double got = reference(function, x);
            if (y != y) {
                CHECK(got != got);
            } else if (std::fabs(y) < std::numeric_limits<float>::denorm_min() || std::isinf(static_cast<float>(y))) {
                CHECK(static_cast<float>(got) == static_cast<float>(y));  // only the fp32 result counts in this range
            } else {
                Wide& error = std::fabs(x) > 0x1p20f ? worst_large : worst;
                error = std::max(error, std::fabs(got - y) / std::fabs(y));
            }
        }
        CAPTURE(static_cast<int>(function), static_cast<double>(worst), static_cast<double>(worst_large));
        // The bounds are derived in scalar/reference.hpp.
        const Wide bound = function == Function::exp10 ? 0x1p-42L : 0x1p-50L;
        const bool wave = function == Function::sin || function == Function::cos;
        CHECK(worst < bound);
        CHECK(worst_large < (wave ? 0x1p-32L : bound));
    }
}

TEST_CASE("errors are measured in units of the last place at the exact value", "[gpu][scalar]") {
    CHECK(evidence::detail::quantum_at(fp32, 1.0) == 0x1p-23);
    CHECK(evidence::detail::quantum_at(fp32, -1.99) == 0x1p-23);
    CHECK(evidence::detail::quantum_at(fp32, 0x1p-140) == 0x1p-149);
    CHECK(evidence::detail::quantum_at(fp32, 0) == 0x1p-149);
    CHECK(evidence::detail::quantum_at(fp32, 0x1p300) == 0x1p104);
    CHECK(evidence::detail::quantum_at(fp16, 65504) == 32);
    CHECK(evidence::detail::quantum_at(bf16, 3) == 0x1p-6);
}

TEST_CASE("a function that decreases where it should increase is reported as not monotonic", "[gpu][scalar]") {
    HostDevice device;
    for (const FunctionRow& row : function_rows) {
        if (row.function != Function::ex2) continue;
        FunctionProbe probe{row};
        CAPTURE(row.instruction);
        CHECK(compare(device, probe, probe.inputs(), no_limit, few).turns == 0);
        probe.row.function = Function::rcp;
        const ScalarComparison found = compare(device, probe, probe.inputs(), no_limit, few);
        CHECK(found.turns > 0);
        CHECK(found.first_turn.turns);
    }
}

TEST_CASE("a corrupted result of a function of macheps is found, and its input is reported", "[gpu][scalar]") {
    HostDevice device;
    const auto named = sweep::math_tasks();
    REQUIRE(named.size() == 20);
    for (const std::uint32_t input : {0x00000000u, 0x00002345u, 0x0000ffffu, 0x80000000u, 0x80001234u}) {
        const sweep::Spoil spoil{sweep::Spoil::Which::one, input};
        // The first two blocks are those of the inputs 0000.... and 8000.... (hexadecimal).
        const auto there = sweep::device_engine(device, named[0].task, spoil, 2);
        const auto here = sweep::host_engine(named[0].task, sweep::has_fma());
        const auto outcome = sweep::compare_blocks(there, here, 2, 1, sweep::Clock::now() + std::chrono::hours(1));
        CAPTURE(input);
        CHECK(outcome.compared == 2);
        CHECK(outcome.differing == 1);
        CHECK(outcome.inputs == 1);
        REQUIRE(outcome.shown.size() == 1);
        CHECK(outcome.shown[0].input == input);
    }
}

}  // namespace scalar_probe_test
