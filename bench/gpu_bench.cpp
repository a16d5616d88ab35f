// SPDX-License-Identifier: Apache-2.0
// bench_gpu compares the GPU engine with cuBLASLt and with the copy bandwidth, which it measures in the same run. At
// run time it needs neither Google Benchmark nor a CUDA toolkit, so it can be copied to any machine with a driver.
#include "bench/gpu_rows.hpp"
#include "core/codec.hpp"
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/evidence/library/cublaslt/cublaslt.hpp"
#include "emulation/gpu/device/device.hpp"
#include "emulation/gpu/gpu.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace macheps::bench {

std::vector<float> bench_values(std::int64_t count, std::uint32_t seed, const Format& format) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::uint32_t state = seed * 0x9e3779b9u + 1;
    for (float& v : values) {
        // Makes one step of a 32-bit xorshift generator. Its statistical quality does not affect the times.
        const auto next = [&state] {
            state ^= state << 13;
            state ^= state >> 17;
            return state ^= state << 5;
        };
        const float x = static_cast<float>(next() >> 8) * 0x1p-23f - 1.0f,
                    y = static_cast<float>(next() >> 8) * 0x1p-22f;
        v = x * y;
        if (!(format == fp32)) v = decode(format, encode(format, v, Round::nearest_even, Overflow::saturate));
    }
    return values;
}

namespace {

constexpr const char* help =
    "usage: bench_gpu [--list] [--only PATTERN] [--device N] [--repetitions N] [--host]\n"
    "Prints rows as CSV on stdout. yardstick: the work that ours is compared with. ratio: time of the yardstick / our\n"
    "time. Times are medians. A spread is half of the interquartile range, divided by the median. --host: try the\n"
    "program without a GPU; everything runs on the CPU with small sizes.\n"
    "Exit codes: 1, a result differs from its definition; 2, wrong usage; 4, no device.\n";

struct Arguments {
    std::string only = "*";
    int device = 0, repetitions = 11;
    bool list = false, host = false;
};

Error usage(std::string what) {
    return Error({.what = std::move(what), .where = "bench_gpu", .fix = "see --help", .exit = Exit::usage});
}

Arguments parse(int argc, char** argv) {
    Arguments a;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto value = [&]() -> std::string {
            if (++i == argc) throw usage(word + " needs a value");
            return argv[i];
        };
        const auto number = [&](int least) {
            const std::string text = value();
            char* end = nullptr;
            const long n = std::strtol(text.c_str(), &end, 10);
            if (text.empty() || *end != '\0' || n < least || n > 1000) throw usage(word + ": invalid value " + text);
            return static_cast<int>(n);
        };
        if (word == "--list") {
            a.list = true;
        } else if (word == "--host") {
            a.host = true;
        } else if (word == "--only") {
            a.only = value();
        } else if (word == "--device") {
            a.device = number(0);
        } else if (word == "--repetitions") {
            a.repetitions = number(1);
        } else if (word == "--help") {
            std::fputs(help, stdout);
            std::exit(0);
        } else {
            throw usage("unknown argument " + word);
        }
    }
    return a;
}

Bench bench_on_host() {
    Bench bench;
    bench.native = bench.emulated = std::make_shared<CpuBackend>(1);
    bench.no_library = "the program runs on the host";
    bench.turns.time = [](const Work& work, int calls) {
        using Clock = std::chrono::steady_clock;
        const Clock::time_point begin = Clock::now();
        for (int i = 0; i < calls; ++i) work.start();
        return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    };
    bench.turns.sample_ms = 0;
    bench.small = true;
    return bench;
}

Bench bench_on_device(int device) {
    Bench bench;
    bench.native = gpu::make_cuda_backend(device, gpu::MatrixUnits::native);
    bench.emulated = gpu::make_cuda_backend(device, gpu::MatrixUnits::emulated);
    evidence::LoadedLibrary loaded = evidence::load_cublaslt(device);
    bench.library = std::move(loaded.library);
    bench.no_library = std::move(loaded.missing);
    if (bench.library == nullptr) fmt::print(stderr, "the yardstick for matmuls is missing: {}\n", bench.no_library);
    bench.turns.time = [begin = std::make_shared<gpu::Event>(), end = std::make_shared<gpu::Event>()](const Work& work,
                                                                                                      int calls) {
        const auto stream = static_cast<cudaStream_t>(work.stream);
        MACHEPS_CUDA_CHECK(cudaDeviceSynchronize());
        begin->record(stream);
        for (int i = 0; i < calls; ++i) work.start();
        end->record(stream);
        return end->ms_since(*begin);
    };
    bench.native_stream = gpu::stream_of(*bench.native);
    bench.emulated_stream = gpu::stream_of(*bench.emulated);
    bench.copy = [](void* to, const void* from, std::size_t bytes) {
        MACHEPS_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr));
    };
    const gpu::DeviceInfo info = gpu::device_info(device);
    fmt::print(stderr, "{}, sm_{}, driver {}, runtime {}\n", info.name, info.architecture, info.driver, info.runtime);
    return bench;
}

void print(const Row& row) {
    const bool has_yardstick = row.theirs.median > 0;
    const std::string theirs = has_yardstick ? fmt::format("{:.5g}", row.theirs.median) : "nan";
    const std::string ratio = has_yardstick ? fmt::format("{:.3f}", row.theirs.median / row.ours.median) : "nan";
    fmt::print("{},{},{:.5g},{},{},{},{},{:.5g},{}/s,{:.3f},{:.3f},\"{}\"\n", row.what, row.yardstick, row.ours.median,
               theirs, ratio, row.target, row.work, row.amount / row.ours.median * 1e3, row.unit, row.ours.spread,
               row.theirs.spread, row.note);
    std::fflush(stdout);
}

int run(int argc, char** argv) {
    const Arguments a = parse(argc, argv);
    std::vector<RowMaker> rows = matmul_rows();
    for (RowMaker& row : cast_rows()) rows.push_back(std::move(row));
    std::erase_if(rows, [&](const RowMaker& row) { return fnmatch(a.only.c_str(), row.name.c_str(), 0) != 0; });
    if (rows.empty()) throw usage("no row matches " + a.only);
    if (a.list) {
        for (const RowMaker& row : rows) fmt::print("{}\n", row.name);
        return 0;
    }
    Bench bench = a.host ? bench_on_host() : bench_on_device(a.device);
    bench.turns.repetitions = a.repetitions;
    fmt::print("what,yardstick,ours_ms,yardstick_ms,ratio,target,work,rate,unit,ours_spread,yardstick_spread,note\n");
    int failed = 0;
    for (const RowMaker& row : rows) {
        try {
            print(row.run(bench));
        } catch (const Error& error) {
            // An error in one row does not stop the others.
            fmt::print(stderr, "{}: {}\n", row.name, error.what());
            failed = std::max(failed, static_cast<int>(error.exit()));
        }
    }
    return failed;
}

}  // namespace

}  // namespace macheps::bench

int main(int argc, char** argv) {
    try {
        return macheps::bench::run(argc, argv);
    } catch (const macheps::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return static_cast<int>(error.exit());
    }
}
