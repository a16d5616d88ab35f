// SPDX-License-Identifier: Apache-2.0
// macheps_gpu_sweep checks whether core computes the same bits on this GPU and on this CPU. The device runs every task
// of scalar/tasks.hpp over all 2^32 inputs and hashes the results of blocks of 2^16 inputs. The host hashes evenly
// spread blocks of the same inputs until the time for the part is up. If blocks of a task differ, the lowest of them is
// recomputed input by input. The part `hardware` instead compares the conversions of the device with the codec.
#include "core/error.hpp"
#include "emulation/evidence/gpu/scalar/groups.hpp"
#include "emulation/gpu/device/cuda_device.hpp"

#include <cstdlib>
#include <optional>

namespace macheps::sweep {
namespace {

struct Options {
    std::vector<std::string> parts;
    double seconds = 60;  ///< per part
    std::uint32_t blocks = sweep::blocks;
    unsigned threads = std::max(1u, std::thread::hardware_concurrency());
    bool host_only = false;
    /// For tests of the sweep: the input for which the first engine's result is made wrong. The sweep must find it.
    std::optional<std::uint32_t> break_input;
};

/// Runs one part; returns the number of tasks that differ.
int run_part(const Part& part, const Options& options, gpu::CudaDevice* device) {
    const auto start = Clock::now();
    Spoil spoil;
    if (options.break_input) spoil = {Spoil::Which::one, *options.break_input};
    std::printf("part %s: %s\npart,task,blocks_compared,blocks_of,blocks_differing,device_seconds,host_seconds\n",
                part.name.c_str(), part.summary.c_str());
    int differing_tasks = 0;
    for (std::size_t i = 0; i < part.tasks.size(); ++i) {
        const NamedTask& named = part.tasks[i];
        const auto began = Clock::now();
        const Engine host = host_engine(named.task, has_fma());
        const Engine first = device != nullptr ? device_engine(*device, named.task, spoil, options.blocks)
                                               : host_engine(named.task, false, spoil);
        const auto device_done = Clock::now();
        // The remaining tasks share the remaining time evenly. Time that one task does not use goes to the next tasks.
        const std::chrono::duration<double> left(options.seconds -
                                                 std::chrono::duration<double>(device_done - start).count());
        const auto share =
            std::chrono::duration_cast<Clock::duration>(left / static_cast<double>(part.tasks.size() - i));
        const Outcome outcome = compare_blocks(first, host, options.blocks, options.threads, device_done + share);
        for (const Difference& difference : outcome.shown) {
            std::printf("  %s: input %08x: first engine %016llx, host %016llx\n", named.name.c_str(), difference.input,
                        static_cast<unsigned long long>(difference.first),
                        static_cast<unsigned long long>(difference.second));
        }
        if (outcome.differing != 0 && outcome.inputs == 0) {
            std::printf("  %s: block %04x: the hashes differ, but the recomputed results are equal\n",
                        named.name.c_str(), outcome.lowest);
        }
        differing_tasks += outcome.differing != 0;
        const std::chrono::duration<double> on_device = device_done - began, whole = Clock::now() - device_done;
        std::printf("%s,%s,%u,%u,%u,%.3f,%.3f\n", part.name.c_str(), named.name.c_str(), outcome.compared, blocks,
                    outcome.differing, on_device.count(), whole.count());
        std::fflush(stdout);
    }
    return differing_tasks;
}

/// Compares conversion instructions and functions with the codec. Returns the number of rows that disagree.
int run_hardware(const Options& options, gpu::CudaDevice& device) {
    const auto start = Clock::now();
    int disagreeing = 0;
    std::size_t rows_left = std::size(evidence::convert_rows);
    for (const evidence::ConvertRow& row : evidence::convert_rows) {
        const double left = options.seconds - std::chrono::duration<double>(Clock::now() - start).count();
        const evidence::ProbeResult result =
            evidence::detail::run_convert(device, row, left / static_cast<double>(rows_left--), {}, false);
        disagreeing += result.verdict == evidence::Verdict::differs;
        std::printf("hardware,%s,compared=%llu,differing=%llu,%s\n", row.instruction,
                    static_cast<unsigned long long>(result.trials), static_cast<unsigned long long>(result.mismatches),
                    result.note.c_str());
        std::fflush(stdout);
    }
    return disagreeing;
}

constexpr const char* usage =
    "usage: macheps_gpu_sweep [PART...] [--seconds N] [--threads N] [--blocks N] [--host-only] [--break-input HEX] "
    "[--list]\n"
    "  parts: math nearest modes from64 profiles rest hardware (default: all)\n"
    "  --seconds N        time for each part (default: 60); the output shows how many blocks it covered\n"
    "  --blocks N         compare at most N of the 65536 blocks of each task\n"
    "  --host-only        use no GPU: compare the C library's fma with the FMA instruction\n"
    "  --break-input HEX  change the first engine's result for this input, to check that the sweep finds it\n";

Options parse(int argc, char** argv) {
    Options options;
    const auto wrong = [](const std::string& what) {
        return Error({.what = what, .where = "macheps_gpu_sweep", .fix = "see --help", .exit = Exit::usage});
    };
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto value = [&](int base) -> unsigned long {
            if (++i >= argc) throw wrong(word + " needs a value");
            char* end = nullptr;
            const unsigned long number = std::strtoul(argv[i], &end, base);
            if (end == argv[i] || *end != '\0') throw wrong(word + ": '" + argv[i] + "' is not a number");
            return number;
        };
        if (word == "--help") {
            std::fputs(usage, stdout);
            std::exit(0);
        } else if (word == "--list") {
            for (const Part& part : all_parts()) {
                std::printf("%s: %s, %zu tasks\n", part.name.c_str(), part.summary.c_str(), part.tasks.size());
            }
            std::printf("hardware: conversions of the device against the codec, %zu rows\n",
                        std::size(evidence::convert_rows));
            std::exit(0);
        } else if (word == "--seconds") {
            options.seconds = static_cast<double>(value(10));
        } else if (word == "--threads") {
            options.threads = static_cast<unsigned>(std::max(1ul, value(10)));
        } else if (word == "--blocks") {
            options.blocks = static_cast<std::uint32_t>(std::min<unsigned long>(value(10), blocks));
        } else if (word == "--host-only") {
            options.host_only = true;
        } else if (word == "--break-input") {
            options.break_input = static_cast<std::uint32_t>(value(16));
        } else if (word.rfind("-", 0) == 0) {
            throw wrong("unknown option " + word);
        } else {
            options.parts.push_back(word);
        }
    }
    return options;
}

int run(int argc, char** argv) {
    const Options options = parse(argc, argv);
    const std::vector<Part> parts = all_parts();
    std::vector<std::string> wanted = options.parts;
    if (wanted.empty()) {
        for (const Part& part : parts) wanted.push_back(part.name);
        if (!options.host_only) wanted.push_back("hardware");
    }
    if (options.host_only) {
        std::printf("host only: %s against the C library's fma, %u threads\n",
                    has_fma() ? "the FMA instruction" : "(no FMA here) the C library's fma", options.threads);
    } else {
        int count = 0;
        const cudaError_t status = cudaGetDeviceCount(&count);
        if (status != cudaSuccess || count == 0) {
            throw Error({.what = std::string("no CUDA device: ") + cudaGetErrorString(status),
                         .where = "cudaGetDeviceCount",
                         .fix = "run on a machine with a GPU, or use --host-only",
                         .exit = Exit::no_device});
        }
        cudaDeviceProp device{};
        int driver = 0, runtime = 0;
        MACHEPS_CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
        MACHEPS_CUDA_CHECK(cudaDriverGetVersion(&driver));
        MACHEPS_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
        std::printf("device: %s, sm_%d%d; driver API %d, runtime %d; %u host threads, FMA %s\n", device.name,
                    device.major, device.minor, driver, runtime, options.threads,
                    has_fma() ? "instruction" : "from the C library");
    }
    std::fflush(stdout);
    std::optional<gpu::CudaDevice> gpu;
    if (!options.host_only) gpu.emplace(0);
    int differing = 0;
    for (const std::string& name : wanted) {
        const auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.name == name; });
        if (part != parts.end()) {
            differing += run_part(*part, options, gpu ? &*gpu : nullptr);
        } else if (name == "hardware" && !options.host_only) {
            differing += run_hardware(options, *gpu);
        } else {
            throw Error({.what = "unknown part '" + name + "'",
                         .where = "macheps_gpu_sweep",
                         .fix = "see --list",
                         .exit = Exit::usage});
        }
    }
    std::printf("%s: %d differing\n", differing == 0 ? "equal" : "DIFFERENT", differing);
    return static_cast<int>(differing == 0 ? Exit::ok : Exit::check_failed);
}

}  // namespace
}  // namespace macheps::sweep

int main(int argc, char** argv) {
    try {
        return macheps::sweep::run(argc, argv);
    } catch (const macheps::Error& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return static_cast<int>(error.exit());
    }
}
