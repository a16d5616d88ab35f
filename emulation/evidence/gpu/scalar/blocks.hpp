// SPDX-License-Identifier: Apache-2.0
// Checks whether a device and this processor compute the same bits. A task (scalar/tasks.hpp) maps each of 2^32 inputs
// to 64 bits. Both sides hash the results of blocks of 2^16 inputs. If blocks differ, the lowest of them is recomputed
// input by input. The host is slower than the device, so it hashes evenly spread blocks until the time is up.
#pragma once
#include "emulation/evidence/gpu/scalar/compare.hpp"
#include "emulation/evidence/gpu/scalar/tasks.hpp"

#include <atomic>
#include <functional>
#include <system_error>
#include <thread>

namespace macheps::sweep {

using Clock = std::chrono::steady_clock;

/// Deliberately wrong results, which the comparison must find.
struct Spoil {
    enum class Which : std::uint8_t { none, one, all } which = Which::none;
    std::uint32_t input = 0;  ///< for `one`: the input with the wrong result

    MACHEPS_HD std::uint64_t operator()(std::uint32_t u, std::uint64_t result) const {
        return which == Which::all || (which == Which::one && u == input) ? result ^ 1 : result;
    }
};

/// Returns the number of the i-th block to compare. For any n, the first n numbers are spread evenly over all blocks.
MACHEPS_HD constexpr std::uint32_t block_number(std::uint32_t i) {
    std::uint32_t y = 0;
    for (int bit = 0; bit < 16; ++bit) y |= (i >> bit & 1) << (15 - bit);
    return y;
}

/// One side of the comparison: a function that returns the hash of a block, and one that returns all results of a
/// block.
struct Engine {
    std::function<std::uint64_t(std::uint32_t block)> hash;
    std::function<std::vector<std::uint64_t>(std::uint32_t block)> results;
};

inline constexpr std::uint32_t blocks_of_sum = 256;

/// Hashes all blocks. Returns one sum of hashes for every 256 consecutive blocks.
inline std::vector<std::uint64_t> hash_sums(const Engine& engine) {
    std::vector<std::uint64_t> sums(blocks / blocks_of_sum);
    for (std::uint32_t block = 0; block < blocks; ++block) sums[block / blocks_of_sum] += engine.hash(block);
    return sums;
}

/// Hashes one block on the host, with the instruction set that the whole program is compiled for.
inline std::uint64_t hash_plain(const Task& task, std::uint32_t block) {
    std::uint64_t hash = 0;
    for (std::uint32_t i = 0; i < block_inputs; ++i) {
        const std::uint32_t u = block * block_inputs + i;
        hash += evidence::hash_item(u, evaluate(task, u));
    }
    return hash;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Same as hash_plain(), but compiled to use the FMA instruction instead of the fma function of the C library. The
// result has the same bits and takes a fraction of the time.
__attribute__((target("fma,lzcnt"), flatten)) inline std::uint64_t hash_fma(const Task& task, std::uint32_t block) {
    return hash_plain(task, block);
}
inline bool has_fma() { return __builtin_cpu_supports("fma") && __builtin_cpu_supports("lzcnt"); }
#else
inline std::uint64_t hash_fma(const Task& task, std::uint32_t block) { return hash_plain(task, block); }
inline bool has_fma() { return false; }
#endif

inline Engine host_engine(const Task& task, bool fast, Spoil spoil = {}) {
    const auto results = [=](std::uint32_t block) {
        std::vector<std::uint64_t> values(block_inputs);
        for (std::uint32_t i = 0; i < block_inputs; ++i) {
            const std::uint32_t u = block * block_inputs + i;
            values[i] = spoil(u, evaluate(task, u));
        }
        return values;
    };
    return {.hash =
                [=](std::uint32_t block) {
                    if (spoil.which == Spoil::Which::none ||
                        (spoil.which == Spoil::Which::one && spoil.input / block_inputs != block)) {
                        return fast ? hash_fma(task, block) : hash_plain(task, block);
                    }
                    std::uint64_t hash = 0;
                    const auto values = results(block);
                    for (std::uint32_t i = 0; i < block_inputs; ++i)
                        hash += evidence::hash_item(block * block_inputs + i, values[i]);
                    return hash;
                },
            .results = results};
}

/// Kernel in which each warp hashes one block.
struct HashBlocks {
    Task task;
    Spoil spoil;
    std::uint64_t* hashes;  ///< indexed by block number

    MACHEPS_KERNEL void operator()(const gpu::Warp& warp, std::int64_t i) const {
        const std::uint32_t block = block_number(static_cast<std::uint32_t>(i));
        gpu::Lanes<std::uint64_t> sum;
        warp.each([&](int lane) {
            std::uint64_t mine = 0;
            for (std::uint32_t j = static_cast<std::uint32_t>(lane); j < block_inputs; j += gpu::warp_lanes) {
                const std::uint32_t u = block * block_inputs + j;
                mine += evidence::hash_item(u, spoil(u, evaluate(task, u)));
            }
            sum[lane] = mine;
        });
        const std::uint64_t hash = warp.fold(sum);
        warp.each([&](int lane) {
            if (lane == 0) hashes[block] = hash;
        });
    }
};

struct BlockResults {
    Task task;
    Spoil spoil;
    std::uint32_t block;
    std::uint64_t* results;

    MACHEPS_KERNEL void operator()(std::int64_t i) const {
        const std::uint32_t u = block * block_inputs + static_cast<std::uint32_t>(i);
        results[i] = spoil(u, evaluate(task, u));
    }
};

/// Hashes the first `count` blocks (in the order of block_number) on the device, in one launch.
template <class Device>
Engine device_engine(Device& device, const Task& task, Spoil spoil, std::uint32_t count) {
    evidence::Room<std::uint64_t, Device> memory(device, blocks);
    device.warps(count, HashBlocks{task, spoil, memory.data()});
    auto hashes = std::make_shared<std::vector<std::uint64_t>>(memory.download());
    return {.hash = [hashes](std::uint32_t block) { return (*hashes)[block]; },
            .results =
                [&device, task, spoil](std::uint32_t block) {
                    evidence::Room<std::uint64_t, Device> results(device, block_inputs);
                    device.each(block_inputs, BlockResults{task, spoil, block, results.data()});
                    return results.download();
                }};
}

struct Difference {
    std::uint32_t input;
    std::uint64_t first, second;
};
struct Outcome {
    std::uint32_t compared = 0, differing = 0;  ///< numbers of blocks
    std::uint32_t lowest = blocks;              ///< the lowest block that differs
    std::uint32_t inputs = 0;                   ///< number of inputs that differ in this block
    std::vector<Difference> shown;              ///< the first ten of these inputs
};

/// Compares blocks until `deadline`: at least one and at most `count` blocks.
inline Outcome compare_blocks(const Engine& first, const Engine& second, std::uint32_t count, unsigned threads,
                              Clock::time_point deadline) {
    std::atomic<std::uint32_t> next{0}, compared{0}, differing{0}, lowest{blocks};
    const auto work = [&] {
        for (std::uint32_t i = next++; i < count && (i == 0 || Clock::now() < deadline); i = next++) {
            const std::uint32_t block = block_number(i);
            ++compared;
            if (first.hash(block) == second.hash(block)) continue;
            ++differing;
            std::uint32_t seen = lowest;
            while (block < seen && !lowest.compare_exchange_weak(seen, block)) {
            }
        }
    };
    std::vector<std::thread> pool;
    pool.reserve(threads);
    try {
        for (unsigned t = 1; t < threads; ++t) pool.emplace_back(work);
    } catch (const std::system_error&) {
        // The system grants no more threads. Fewer threads give the same result.
    }
    work();
    for (std::thread& thread : pool) thread.join();
    Outcome outcome{compared, differing, lowest, 0, {}};
    if (outcome.lowest == blocks) return outcome;
    const auto a = first.results(outcome.lowest), b = second.results(outcome.lowest);
    for (std::uint32_t i = 0; i < block_inputs; ++i) {
        if (a[i] == b[i]) continue;
        if (++outcome.inputs <= 10) outcome.shown.push_back({outcome.lowest * block_inputs + i, a[i], b[i]});
    }
    return outcome;
}

}  // namespace macheps::sweep
