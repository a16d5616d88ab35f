// SPDX-License-Identifier: Apache-2.0
// macheps_gpu_sweep: does core compute the same bits on this GPU and on this CPU? Every task of sweep_tasks.hpp runs
// over all 2^32 inputs on the device, hashed in blocks of 2^16 inputs; the host hashes the same blocks, evenly spread,
// for as long as the part's time lasts. A block that differs is recomputed input by input. Part `hardware` compares
// real convert instructions with the codec instead.
#include "core/error.hpp"
#include "emulation/gpu/device.hpp"
#include "emulation/gpu/hardware_cvt.hpp"
#include "emulation/gpu/sweep_tasks.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

namespace macheps::sweep {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::vector<std::string> parts;
    double seconds = 60;  ///< per part
    std::uint32_t blocks = sweep::blocks;
    unsigned threads = std::max(1u, std::thread::hardware_concurrency());
    bool host_only = false;
    std::optional<std::uint32_t>
        break_input;  ///< spoils this input's result on the first engine: does the sweep see it?
};

/// Hashes one block on the host; each function call the compiler leaves outside runs on the baseline instruction set.
inline std::uint64_t hash_inputs(const Task& task, std::uint32_t block) {
    std::uint64_t hash = 0;
    for (std::uint32_t i = 0; i < block_inputs; ++i) {
        const std::uint32_t u = block * block_inputs + i;
        hash += item(u, evaluate(task, u));
    }
    return hash;
}
std::uint64_t hash_plain(const Task& task, std::uint32_t block) { return hash_inputs(task, block); }

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// The same text compiled with the FMA instruction in place of the C library's fma: same bits, several times as fast.
__attribute__((target("fma,lzcnt"), flatten)) std::uint64_t hash_fma(const Task& task, std::uint32_t block) {
    return hash_inputs(task, block);
}
bool has_fma() { return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"); }
#else
std::uint64_t hash_fma(const Task& task, std::uint32_t block) { return hash_plain(task, block); }
bool has_fma() { return false; }
#endif

constexpr std::uint32_t no_input = 0xffffffffu;  // a NaN: spoiling it would prove nothing

__global__ void hash_blocks(Task task, std::uint32_t spoiled, bool spoil, std::uint64_t* hashes) {
    __shared__ unsigned long long sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    std::uint64_t hash = 0;
    for (std::uint32_t i = threadIdx.x; i < block_inputs; i += blockDim.x) {
        const std::uint32_t u = blockIdx.x * block_inputs + i;
        hash += item(u, evaluate(task, u) ^ (spoil && u == spoiled ? 1 : 0));
    }
    atomicAdd(&sum, static_cast<unsigned long long>(hash));
    __syncthreads();
    if (threadIdx.x == 0) hashes[blockIdx.x] = sum;
}

__global__ void results_of_block(Task task, std::uint32_t block, std::uint32_t spoiled, bool spoil,
                                 std::uint64_t* results) {
    for (std::uint32_t i = threadIdx.x; i < block_inputs; i += blockDim.x) {
        const std::uint32_t u = block * block_inputs + i;
        results[i] = evaluate(task, u) ^ (spoil && u == spoiled ? 1 : 0);
    }
}

/// One side of the comparison: hashes of blocks, and the results of one block.
struct Engine {
    std::function<std::uint64_t(const Task&, std::uint32_t)> hash;
    std::function<std::vector<std::uint64_t>(const Task&, std::uint32_t)> results;
};

Engine host_engine(const Options& options, bool fast, bool spoil) {
    const std::uint32_t spoiled = options.break_input.value_or(no_input);
    spoil = spoil && options.break_input.has_value();
    return {.hash =
                [=](const Task& task, std::uint32_t block) {
                    std::uint64_t hash = fast ? hash_fma(task, block) : hash_plain(task, block);
                    if (spoil && spoiled / block_inputs == block) {
                        const std::uint64_t result = evaluate(task, spoiled);
                        hash += item(spoiled, result ^ 1) - item(spoiled, result);
                    }
                    return hash;
                },
            .results =
                [=](const Task& task, std::uint32_t block) {
                    std::vector<std::uint64_t> results(block_inputs);
                    for (std::uint32_t i = 0; i < block_inputs; ++i) {
                        const std::uint32_t u = block * block_inputs + i;
                        results[i] = evaluate(task, u) ^ (spoil && u == spoiled ? 1 : 0);
                    }
                    return results;
                }};
}

std::uint32_t reverse16(std::uint32_t x) {
    std::uint32_t y = 0;
    for (int bit = 0; bit < 16; ++bit) y |= (x >> bit & 1) << (15 - bit);
    return y;
}

struct Outcome {
    std::uint32_t compared = 0, differing = 0;
};

/// Compares the first `count` blocks in bit-reversed order (any prefix of it is evenly spread) until `deadline`; prints
/// the ten first differing inputs of the lowest differing block.
Outcome compare(const NamedTask& named, const Engine& first, const Engine& second, std::uint32_t count,
                unsigned threads, Clock::time_point deadline) {
    std::atomic<std::uint32_t> next{0}, compared{0}, differing{0}, lowest{blocks};
    const auto work = [&] {
        for (std::uint32_t i = next++; i < count && (i == 0 || Clock::now() < deadline); i = next++) {
            const std::uint32_t block = reverse16(i);
            ++compared;
            if (first.hash(named.task, block) == second.hash(named.task, block)) continue;
            ++differing;
            std::uint32_t seen = lowest;
            while (block < seen && !lowest.compare_exchange_weak(seen, block)) {
            }
        }
    };
    std::vector<std::thread> pool;
    for (unsigned t = 1; t < threads; ++t) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
    if (lowest < blocks) {
        const auto a = first.results(named.task, lowest), b = second.results(named.task, lowest);
        int shown = 0;
        for (std::uint32_t i = 0; i < block_inputs && shown < 10; ++i) {
            if (a[i] == b[i]) continue;
            ++shown;
            std::printf("  %s: input %08x: first engine %016llx, host %016llx\n", named.name.c_str(),
                        lowest * block_inputs + i, static_cast<unsigned long long>(a[i]),
                        static_cast<unsigned long long>(b[i]));
        }
        if (shown == 0)
            std::printf("  %s: block %04x hashes differently but recomputes equal\n", named.name.c_str(),
                        lowest.load());
    }
    return {compared, differing};
}

/// Runs one part; returns the number of tasks that differ.
int run_part(const Part& part, const Options& options) {
    const auto start = Clock::now();
    const std::uint32_t spoiled = options.break_input.value_or(no_input);
    const bool spoil = options.break_input.has_value(), fast = has_fma();
    const Engine host = host_engine(options, fast, false);
    std::optional<gpu::DeviceArray<std::uint64_t>> memory;
    if (!options.host_only) memory.emplace(blocks);
    std::printf("part %s: %s\npart,task,blocks_compared,blocks_of,blocks_differing,device_seconds,host_seconds\n",
                part.name.c_str(), part.summary.c_str());
    int differing_tasks = 0;
    for (std::size_t i = 0; i < part.tasks.size(); ++i) {
        const NamedTask& named = part.tasks[i];
        const auto began = Clock::now();
        Engine first = host_engine(options, false, true);
        std::vector<std::uint64_t> hashes;
        if (!options.host_only) {
            hash_blocks<<<blocks, 256>>>(named.task, spoiled, spoil, memory->data());
            MACHEPS_CUDA_CHECK_LAUNCH();
            hashes = memory->download();
            first.hash = [&](const Task&, std::uint32_t block) { return hashes[block]; };
            first.results = [&](const Task& task, std::uint32_t block) {
                gpu::DeviceArray<std::uint64_t> results(block_inputs);
                results_of_block<<<1, 256>>>(task, block, spoiled, spoil, results.data());
                MACHEPS_CUDA_CHECK_LAUNCH();
                return results.download();
            };
        }
        const auto device_done = Clock::now();
        // What is left is shared evenly between the tasks to come; what one task leaves goes to the next.
        const std::chrono::duration<double> left(options.seconds -
                                                 std::chrono::duration<double>(device_done - start).count());
        const auto share =
            std::chrono::duration_cast<Clock::duration>(left / static_cast<double>(part.tasks.size() - i));
        const Outcome outcome = compare(named, first, host, options.blocks, options.threads, device_done + share);
        differing_tasks += outcome.differing != 0;
        const std::chrono::duration<double> device = device_done - began, whole = Clock::now() - device_done;
        std::printf("%s,%s,%u,%u,%u,%.3f,%.3f\n", part.name.c_str(), named.name.c_str(), outcome.compared, blocks,
                    outcome.differing, device.count(), whole.count());
        std::fflush(stdout);
    }
    return differing_tasks;
}

constexpr const char* usage =
    "usage: macheps_gpu_sweep [PART...] [--seconds N] [--threads N] [--blocks N] [--host-only] [--break-input HEX] "
    "[--list]\n"
    "  parts: math nearest modes from64 profiles rest hardware (default: all)\n"
    "  --seconds N        time for each part (60); the share of blocks compared in it is printed\n"
    "  --blocks N         at most N of the 65536 blocks of each task\n"
    "  --host-only        no GPU: the C library's fma against the FMA instruction\n"
    "  --break-input HEX  spoil that input's result on the first side, to see the sweep find it\n";

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
            std::printf("hardware: convert instructions against the codec, %zu rows\n", std::size(gpu::cvt_rows));
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
    int differing = 0;
    for (const std::string& name : wanted) {
        const auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.name == name; });
        if (part != parts.end()) {
            differing += run_part(*part, options);
        } else if (name == "hardware" && !options.host_only) {
            differing += gpu::sweep_cvt();
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
