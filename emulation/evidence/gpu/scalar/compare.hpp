// SPDX-License-Identifier: Apache-2.0
// Compares a scalar operation of the device with its model. The comparison runs on the device, input by input. A kernel
// counts the inputs for which the results differ, and keeps the first of them. `Device` is CudaDevice or HostDevice.
#pragma once
#include "core/codec.hpp"
#include "emulation/evidence/gpu/scalar/inputs.hpp"
#include "emulation/gpu/device/threads.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace macheps::evidence {

/// Class of an operand. Several operands together have the class of the operand whose class comes last in this list.
enum class InputClass : std::uint8_t { normal, zero, subnormal, infinite, nan };
inline constexpr int input_classes = 5;
inline constexpr const char* input_class_names[] = {"normal", "zero", "subnormal", "infinite", "nan"};

MACHEPS_HD constexpr InputClass class_of(Format f, std::uint64_t container) {
    const std::uint64_t magnitude = (container >> f.padding) & f.magnitude_mask();
    if (magnitude > f.max_finite_code()) {
        return f.has_inf() && magnitude == f.inf_code() ? InputClass::infinite : InputClass::nan;
    }
    if (magnitude == 0) return InputClass::zero;
    return magnitude < f.min_normal_code() ? InputClass::subnormal : InputClass::normal;
}

MACHEPS_HD constexpr bool is_nan_code(Format f, std::uint64_t container) {
    return class_of(f, container) == InputClass::nan;
}

/// One input and its results. A packed pair is one number, with the first element in its low half.
struct Trial {
    std::uint64_t a = 0, b = 0, c = 0;  ///< bits of the operands
    std::uint64_t got = 0, want = 0;    ///< result of the device, and of the model
    float error = 0;                    ///< error in ulp, or the absolute error if the bound is absolute
    InputClass kind = InputClass::normal;
    bool offered = true;    ///< false: this device does not have the instruction
    bool differs = false;   ///< the result is not that of the model
    bool beyond = false;    ///< the error is larger than the documented bound
    bool turns = false;     ///< from this input to the next, the result falls but the function rises, or vice versa
    bool nan_code = false;  ///< both results are NaN, but with different codes
};

/// Results of a range of inputs. `first` and the other positions are indices in this range.
struct Partial {
    static constexpr std::uint32_t none = 0xffffffffu;
    std::uint32_t differing[input_classes] = {}, first[input_classes] = {none, none, none, none, none};
    std::uint32_t absent = 0, nan_codes = 0;
    std::uint32_t beyond = 0, first_beyond = none;
    std::uint32_t turns = 0, first_turn = none;
    std::uint32_t worst = 0, worst_at = none;  ///< largest error, as the bits of a float, and its first position
    std::uint64_t hash = 0;                    ///< sum of hash_item() over the inputs

    /// Adds a trial. `input` is the number of the input among all inputs of the operation, and `at` its position in the
    /// range.
    MACHEPS_HD void take(const Trial& trial, std::uint64_t input, std::uint32_t at) {
        if (!trial.offered) {
            ++absent;
            return;
        }
        // If a NaN with another code is accepted, hash the NaN of the model instead.
        hash += hash_item(input, trial.nan_code ? trial.want : trial.got);
        if (trial.differs) {
            for (int k = 0; k < input_classes; ++k) {  // unrolled: indexing would move the counts out of registers
                if (k != static_cast<int>(trial.kind)) continue;
                ++differing[k];
                first[k] = min_of(first[k], at);
            }
        }
        nan_codes += trial.nan_code ? 1 : 0;
        if (trial.beyond) ++beyond, first_beyond = min_of(first_beyond, at);
        if (trial.turns) ++turns, first_turn = min_of(first_turn, at);
        take_worst(bit_cast<std::uint32_t>(trial.error), at);
    }
    MACHEPS_HD void take_worst(std::uint32_t error, std::uint32_t at) {
        if (error < worst || error == 0 || (error == worst && at > worst_at)) return;
        worst = error;
        worst_at = at;
    }
    MACHEPS_HD Partial& operator+=(const Partial& other) {
        for (int k = 0; k < input_classes; ++k) {
            differing[k] += other.differing[k];
            first[k] = min_of(first[k], other.first[k]);
        }
        absent += other.absent;
        nan_codes += other.nan_codes;
        beyond += other.beyond;
        first_beyond = min_of(first_beyond, other.first_beyond);
        turns += other.turns;
        hash += other.hash;
        first_turn = min_of(first_turn, other.first_turn);
        take_worst(other.worst, other.worst_at);
        return *this;
    }
};

inline constexpr std::int64_t inputs_per_warp = 1024;

/// Kernel that tries inputs first, first + stride, ... Warp w tries 1024 of them, at positions 1024 w to 1024 w + 1023.
/// This is a class because nvcc compiles lambdas as kernels only with an additional option.
template <class Probe>
struct CompareRange {
    Probe probe;
    std::uint64_t first, stride;
    std::int64_t count;
    Partial* partials;  ///< one per warp

    MACHEPS_KERNEL void operator()(const gpu::Warp& warp, std::int64_t w) const {
        gpu::Lanes<Partial> sum;
        const std::int64_t begin = w * inputs_per_warp, end = min_of(begin + inputs_per_warp, count);
        warp.each([&](int lane) {
            Partial mine;
            for (std::int64_t i = begin + lane; i < end; i += gpu::warp_lanes) {
                const std::uint64_t input = first + stride * static_cast<std::uint64_t>(i);
                mine.take(probe(input), input, static_cast<std::uint32_t>(i));
            }
            sum[lane] = mine;
        });
        const Partial all = warp.fold(sum);
        warp.each([&](int lane) {
            if (lane == 0) partials[w] = all;
        });
    }
};

/// Kernel in which each warp adds 1024 partial results.
struct FoldPartials {
    const Partial* from;
    Partial* to;
    std::int64_t count;

    MACHEPS_KERNEL void operator()(const gpu::Warp& warp, std::int64_t w) const {
        gpu::Lanes<Partial> sum;
        const std::int64_t begin = w * inputs_per_warp, end = min_of(begin + inputs_per_warp, count);
        warp.each([&](int lane) {
            Partial mine;
            for (std::int64_t i = begin + lane; i < end; i += gpu::warp_lanes) mine += from[i];
            sum[lane] = mine;
        });
        const Partial all = warp.fold(sum);
        warp.each([&](int lane) {
            if (lane == 0) to[w] = all;
        });
    }
};

/// Kernel that computes the trials of a list of inputs.
template <class Probe>
struct ShowInputs {
    Probe probe;
    const std::uint64_t* inputs;
    Trial* trials;

    MACHEPS_KERNEL void operator()(std::int64_t i) const { trials[i] = probe(inputs[i]); }
};

/// Owner of device memory for `count` values of type T.
template <class T, class Device>
class Room {
  public:
    Room(Device& device, std::int64_t count)
        : device_(device),
          count_(static_cast<std::size_t>(count)),
          data_(static_cast<T*>(device.allocate(count_ * sizeof(T)))) {}
    ~Room() { device_.release(data_); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

    T* data() const { return data_; }
    void upload(const std::vector<T>& values) { device_.copy_in(data_, values.data(), values.size() * sizeof(T)); }
    /// Waits for all launched kernels and copies the memory to the host.
    std::vector<T> download() const {
        std::vector<T> host(count_);
        device_.copy_out(host.data(), data_, count_ * sizeof(T));
        return host;
    }

  private:
    Device& device_;
    std::size_t count_;
    T* data_;
};

/// How a comparison is split into launches.
struct Batches {
    std::uint64_t inputs = std::uint64_t{1} << 24;  ///< inputs per launch: a power of two, at most 2^31
    std::uint64_t most = ~std::uint64_t{0};         ///< maximum number of launches
};

/// Result of compare().
struct ScalarComparison {
    std::uint64_t trials = 0, absent = 0, nan_codes = 0, beyond = 0, turns = 0;
    std::uint64_t differing[input_classes] = {};
    std::vector<Trial> first;  ///< the first differing input of each class that has any
    Trial worst{}, first_beyond{}, first_turn{};
    bool complete = false;  ///< every input was tried
    double seconds = 0;
    std::vector<std::uint64_t> hashes;  ///< one hash per launch, in the order of the launches

    std::uint64_t mismatches() const {
        std::uint64_t sum = 0;
        for (const std::uint64_t count : differing) sum += count;
        return sum;
    }
};

/// Returns the lowest `bits` bits of x in reversed order. For x = 0, 1, 2, ..., the results so far are always evenly
/// spread.
constexpr std::uint64_t reversed(std::uint64_t x, int bits) {
    std::uint64_t y = 0;
    for (int i = 0; i < bits; ++i) y |= (x >> i & 1) << (bits - 1 - i);
    return y;
}

/// Tries inputs 0 to inputs - 1 until all are done or `seconds` have passed. `inputs` is a power of two, or 0 for an
/// endless range. If the range is finite, each launch takes inputs from the whole range, at equal distances, and later
/// launches fill the gaps. Therefore the inputs tried so far are evenly spread at any time. Makes at least one launch.
template <class Device, class Probe>
ScalarComparison compare(Device& device, const Probe& probe, std::uint64_t inputs, double seconds,
                         const Batches& batches = {}) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    const std::uint64_t batch = inputs == 0 ? batches.inputs : std::min(inputs, batches.inputs);
    const std::uint64_t all = inputs == 0 ? ~std::uint64_t{0} : inputs / batch;
    const int bits = inputs == 0 ? 0 : 63 - countl_zero(all);
    const auto count = static_cast<std::int64_t>(batch);
    const auto groups = [](std::int64_t n) { return (n + inputs_per_warp - 1) / inputs_per_warp; };
    const std::int64_t warps = groups(count), folded = groups(warps);
    Room<Partial, Device> partials(device, warps), sums(device, folded);

    ScalarComparison found;
    constexpr std::uint64_t nowhere = ~std::uint64_t{0};
    std::uint64_t first[input_classes], first_beyond = nowhere, first_turn = nowhere, worst_at = nowhere;
    std::fill(std::begin(first), std::end(first), nowhere);
    std::uint32_t worst = 0;
    std::uint64_t done = 0;
    for (; done < std::min(all, batches.most) && (done == 0 || elapsed() < seconds); ++done) {
        const std::uint64_t begin = inputs == 0 ? done * batch : reversed(done, bits), stride = inputs == 0 ? 1 : all;
        device.warps(warps, CompareRange<Probe>{probe, begin, stride, count, partials.data()});
        device.warps(folded, FoldPartials{partials.data(), sums.data(), warps});
        Partial sum;
        for (const Partial& part : sums.download()) sum += part;
        const auto place = [&](std::uint32_t at) { return at == Partial::none ? nowhere : begin + stride * at; };
        found.trials += batch - sum.absent;
        found.absent += sum.absent;
        found.nan_codes += sum.nan_codes;
        found.beyond += sum.beyond;
        found.turns += sum.turns;
        found.hashes.push_back(sum.hash);
        for (int k = 0; k < input_classes; ++k) {
            found.differing[k] += sum.differing[k];
            first[k] = std::min(first[k], place(sum.first[k]));
        }
        first_beyond = std::min(first_beyond, place(sum.first_beyond));
        first_turn = std::min(first_turn, place(sum.first_turn));
        if (sum.worst > worst || (sum.worst == worst && place(sum.worst_at) < worst_at)) {
            worst = sum.worst;
            worst_at = place(sum.worst_at);
        }
        if (sum.absent == batch) break;  // this device does not have the instruction
    }
    found.complete = inputs != 0 && done == all;

    std::vector<std::uint64_t> shown = {first_beyond, first_turn, worst_at};
    for (const std::uint64_t at : first) shown.push_back(at);
    std::vector<std::uint64_t> asked = shown;
    for (std::uint64_t& at : asked) at = at == nowhere ? 0 : at;
    const auto asked_count = static_cast<std::int64_t>(asked.size());
    Room<std::uint64_t, Device> places(device, asked_count);
    Room<Trial, Device> trials(device, asked_count);
    places.upload(asked);
    device.each(asked_count, ShowInputs<Probe>{probe, places.data(), trials.data()});
    const std::vector<Trial> answers = trials.download();
    if (first_beyond != nowhere) found.first_beyond = answers[0];
    if (first_turn != nowhere) found.first_turn = answers[1];
    if (worst_at != nowhere) found.worst = answers[2];
    for (std::size_t i = 3; i < shown.size(); ++i) {
        if (shown[i] != nowhere) found.first.push_back(answers[i]);
    }
    found.seconds = elapsed();
    return found;
}

}  // namespace macheps::evidence
