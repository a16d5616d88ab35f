// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/device.hpp"

#include "core/error.hpp"
#include "core/host/memory_limit.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/gpu/gpu.hpp"
#include "emulation/machine/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace macheps::cmd {

namespace {

/// Returns the N of `cuda:N`, 0 for `cuda`, or -1 for any other text.
int cuda_index(std::string_view device) {
    if (device == "cuda") return 0;
    if (!device.starts_with("cuda:")) return -1;
    device.remove_prefix(5);
    int index = -1;
    const auto [end, error] = std::from_chars(device.data(), device.data() + device.size(), index);
    return error == std::errc{} && end == device.data() + device.size() ? index : -1;
}

}  // namespace

void add_device_options(Command& verb, DeviceChoice& choice) {
    verb.option("--device", choice.device,
                "Device that computes: cpu, or a GPU (cuda, cuda:1, ...). The results do not depend on it")
        .takes("DEVICE")
        .in_lower_case()
        .shows_default();
    verb.option(
            "--matrix-units", choice.matrix_units,
            "GPU only. native: run the machines that the GPU has on its tensor cores; emulated: emulate all machines")
        .one_of({"native", "emulated"})
        .shows_default();
    verb.integer(
            "--threads", choice.threads, {0, max_threads},
            "Number of CPU threads. 0: one for every core that this process may use. The results do not depend on it")
        .shows_default();
    verb.option("--memory", choice.memory,
                "Memory that may be planned for, such as 8G. Work that needs more is refused. "
                "Default: the smallest limit of this machine, its control group and this process")
        .takes("SIZE");
}

std::optional<std::int64_t> DeviceChoice::memory_bytes() const {
    if (memory.empty()) return std::nullopt;
    const std::optional<std::int64_t> bytes = parse_bytes(memory);
    if (bytes) return bytes;
    throw Error({.what = fmt::format("'{}' is not a valid size", memory),
                 .where = "--memory",
                 .fix = "give bytes, or a number with K, M, G or T, such as 8G",
                 .exit = Exit::usage});
}

std::unique_ptr<Backend> make_backend(const DeviceChoice& choice) {
    if (choice.device == "cpu") return std::make_unique<CpuBackend>(choice.threads);
    const int index = cuda_index(choice.device);
    if (index < 0) {
        throw Error({.what = fmt::format("there is no device '{}'", choice.device),
                     .where = "--device",
                     .fix = machines_of_gpu(choice.device).empty()
                                ? "give cpu, cuda, or cuda:1 for the second GPU"
                                : "give cpu or cuda. To emulate this GPU, choose its machines or its policies, such as "
                                  "--machine h100 or --policy h100-amp-bf16",
                     .exit = Exit::usage});
    }
    return gpu::make_cuda_backend(
        index, choice.matrix_units == "emulated" ? gpu::MatrixUnits::emulated : gpu::MatrixUnits::native);
}

std::vector<std::unique_ptr<Backend>> make_backends(const DeviceChoice& choice, int count) {
    std::vector<std::unique_ptr<Backend>> backends;
    if (count == 1 || choice.device != "cpu") {
        backends.push_back(make_backend(choice));
        return backends;
    }
    const int threads = choice.threads > 0 ? choice.threads : available_threads();
    for (int i = 0; i < count; ++i) {
        backends.push_back(std::make_unique<CpuBackend>(std::max(1, threads / count + (i < threads % count ? 1 : 0))));
    }
    return backends;
}

}  // namespace macheps::cmd
