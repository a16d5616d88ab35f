// SPDX-License-Identifier: Apache-2.0
// The kernel that runs a matrix instruction on tiles of operands. It is compiled once per instruction form (forms.hpp).
// The kernels that make the operands and compare the outputs are in tiles.hpp.
#pragma once
#include "emulation/evidence/gpu/matrix/registers.hpp"

#if defined(__CUDACC__)
#include "emulation/evidence/gpu/matrix/ptx.hpp"
#endif

#include <array>
#include <utility>

namespace macheps::evidence {

/// Runs mma.sync, one warp per tile.
template <int index, class Device>
void execute_mma(Device& device, const FormData& data, std::int64_t tiles, const TileMemory& memory) {
    device.warps(tiles, [=] MACHEPS_KERNEL(const gpu::Warp& warp, std::int64_t tile) {
        using At = FormAt<index>;
        const int chain = data.form.chain, row_bytes = chain * At::form.row_bytes();
        const std::byte *a = memory.a + tile * data.a_bytes(), *b = memory.b + tile * data.b_bytes();
        gpu::Lanes<Registers<index>> registers;
        warp.each([&](int lane) { load_accumulators<index>(registers[lane], lane, memory.c + tile * data.d_bytes()); });
        for (int step = 0; step < chain; ++step) {
            const int offset = step * At::form.row_bytes();
            warp.each([&](int lane) {
                load_a<index>(registers[lane], lane, a, row_bytes, offset);
                for (int i = 0; i < At::b_words; ++i) {
                    const WordPlace place = b_place(lane, i);
                    registers[lane].b[i] = static_cast<typename At::Word>(
                        load_code(b + place.row * row_bytes + offset + place.word * At::word_bytes, At::word_bytes));
                }
            });
#if defined(__CUDACC__)
            constexpr InstructionForm f = At::form;
            warp.each([&](int lane) {
                ptx::Mma<f.m, f.k, f.a, f.b, f.d>::run(registers[lane].d, registers[lane].a, registers[lane].b);
            });
#else
            GatheredRegisters<index> tiles_of;
            const auto thread = [&](int lane) -> Registers<index>& { return registers[lane]; };
            tiles_of.gather_a(thread);
            tiles_of.gather_b(thread);
            tiles_of.gather_d(thread);
            const auto code = [](const std::vector<std::uint64_t>& codes, int width) {
                return [&codes, width](int row, int i) { return codes[static_cast<std::size_t>(row * width + i)]; };
            };
            for (int at = 0; at < data.outputs(); ++at) {
                tiles_of.d[static_cast<std::size_t>(at)] =
                    emulate_output(data, code(tiles_of.a, At::form.k), code(tiles_of.b, At::form.k),
                                   code(tiles_of.d, At::form.n), at / At::form.n, at % At::form.n);
            }
            tiles_of.scatter_d(thread);
#endif
        }
        warp.each(
            [&](int lane) { store_accumulators<index>(registers[lane], lane, memory.d + tile * data.d_bytes()); });
    });
}

#if defined(__CUDACC__)
/// Runs `chain` wgmma instructions in one commit group.
template <int index, int chain>
__device__ void run_wgmma(Registers<index>& r, std::uint64_t a, std::uint64_t b, int scale_d) {
    constexpr InstructionForm f = FormAt<index>::form;
    constexpr int scale_a = f.negates_a ? -1 : 1, scale_b = f.negates_b ? -1 : 1;
    ptx::begin_group();
#pragma unroll
    for (int step = 0; step < chain; ++step) {
        // Each instruction reads two core matrices along k, so the start addresses advance by this distance. In a
        // descriptor, they are in units of 16 bytes.
        const std::uint64_t a_step = a + static_cast<std::uint64_t>(step * 2 * k_stride(f.m) >> 4),
                            b_step = b + static_cast<std::uint64_t>(step * 2 * k_stride(f.n) >> 4);
        const int scale = step == 0 ? scale_d : 1;
        if constexpr (f.a_in_registers) {
            ptx::WgmmaRegisters<f.n, f.k, f.a, f.b, f.d>::template run<scale_a, scale_b, f.transposes_b>(r.d, r.a,
                                                                                                         b_step, scale);
        } else {
            ptx::Wgmma<f.n, f.k, f.a, f.b, f.d>::template run<scale_a, scale_b, f.transposes_a, f.transposes_b>(
                r.d, a_step, b_step, scale);
        }
    }
    ptx::end_group();
}
template <int index>
__device__ void run_wgmma(Registers<index>& r, std::uint64_t a, std::uint64_t b, int scale_d, int chain) {
    if constexpr (FormAt<index>::form.is_plain() && FormAt<index>::form.n == 8) {
        if (chain == 2) return run_wgmma<index, 2>(r, a, b, scale_d);
        if (chain == 4) return run_wgmma<index, 4>(r, a, b, scale_d);
        if (chain == 8) return run_wgmma<index, 8>(r, a, b, scale_d);
    }
    run_wgmma<index, 1>(r, a, b, scale_d);
}
#else
/// Returns the code of element (row, k) in shared memory. Locates it as wgmma does: the two strides in the matrix
/// descriptor give the core matrix; then follow the line in the core matrix and the byte in the line.
inline std::uint64_t described_code(const std::byte* shared, std::uint64_t descriptor, int row, int k, int bytes,
                                    bool transposed) {
    const auto field = [&](int shift) { return static_cast<std::size_t>(descriptor >> shift & 0x3fff) * 16; };
    const int per_line = line_bytes / bytes;
    const int line = transposed ? k % 8 : row % 8, in_line = transposed ? row % per_line : k % per_line;
    const int along_k = transposed ? k / 8 : k / per_line, along_rows = transposed ? row / per_line : row / 8;
    const std::size_t at = field(0) + static_cast<std::size_t>(along_k) * field(16) +
                           static_cast<std::size_t>(along_rows) * field(32) +
                           static_cast<std::size_t>(line * line_bytes + in_line * bytes);
    return load_code(shared + at, bytes);
}
#endif

/// Runs wgmma.mma_async, one warpgroup per tile.
template <int index, class Device>
void execute_wgmma(Device& device, const FormData& data, std::int64_t tiles, const TileMemory& memory) {
    const auto shared_bytes = static_cast<std::size_t>(data.a_bytes() + data.b_bytes());
    device.blocks({.x = tiles, .threads = 128, .shared_bytes = shared_bytes},
                  [=] MACHEPS_KERNEL(const gpu::Block& block) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
                      __trap();  // this architecture has no wgmma; the host does not launch the kernel
#else
        using At = FormAt<index>;
        constexpr InstructionForm f = At::form;
        const std::int64_t tile = block.x();
        const int products = data.form.products();
        const std::byte *a = memory.a + tile * data.a_bytes(), *b = memory.b + tile * data.b_bytes();
        std::byte *a_shared = block.shared(), *b_shared = a_shared + data.a_bytes();
        gpu::PerThread<Registers<index>> registers(block);
        block.each([&](int thread) {
            constexpr int a_size = bytes_of(f.a), b_size = bytes_of(f.b);
            for (int i = thread; i < f.m * products; i += At::threads) {
                store_code(a_shared + shared_offset(f.m, i / products, i % products, a_size, f.transposes_a), a_size,
                           load_code(a + i * a_size, a_size));
            }
            for (int i = thread; i < f.n * products; i += At::threads) {
                store_code(b_shared + shared_offset(f.n, i / products, i % products, b_size, f.transposes_b), b_size,
                           load_code(b + i * b_size, b_size));
            }
#if defined(__CUDACC__)
            ptx::fence_shared();
#endif
        });
        block.each([&](int thread) {
            load_accumulators<index>(registers[thread], thread, memory.c + tile * data.d_bytes());
            if (f.a_in_registers) load_a<index>(registers[thread], thread, a, f.row_bytes(), 0);
        });
#if defined(__CUDACC__)
        block.each([&](int thread) {
            const auto address = [](const std::byte* p) {
                return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
            };
            run_wgmma<index>(registers[thread], shared_descriptor(address(a_shared), f.m),
                             shared_descriptor(address(b_shared), f.n), data.form.ignores_addend ? 0 : 1,
                             data.form.chain);
        });
#else
        GatheredRegisters<index> gathered;
        const auto thread = [&](int t) -> Registers<index>& { return registers[t]; };
        gathered.gather_d(thread);
        if (f.a_in_registers) gathered.gather_a(thread);
        if (data.form.ignores_addend) gathered.d.assign(gathered.d.size(), 0);
        for (int step = 0; step < data.form.chain; ++step) {
            const auto shift = [&](int rows) { return static_cast<std::uint64_t>(step * 2 * k_stride(rows) >> 4); };
            const std::uint64_t a_start = shared_descriptor(0, f.m) + shift(f.m),
                                b_start = shared_descriptor(static_cast<std::uint32_t>(data.a_bytes()), f.n) + shift(f.n);
            const auto code = [&](bool is_a) {
                return [&, is_a](int row, int i) -> std::uint64_t {
                    if (is_a && f.a_in_registers) return gathered.a[static_cast<std::size_t>(row * f.k + i)];
                    return described_code(a_shared, is_a ? a_start : b_start, row, i, bytes_of(is_a ? f.a : f.b),
                                          is_a ? f.transposes_a : f.transposes_b);
                };
            };
            const auto addend = [&](int row, int column) {
                return gathered.d[static_cast<std::size_t>(row * f.n + column)];
            };
            for (int at = 0; at < data.outputs(); ++at) {
                gathered.d[static_cast<std::size_t>(at)] =
                    emulate_output(data, code(true), code(false), addend, at / f.n, at % f.n);
            }
        }
        gathered.scatter_d(thread);
#endif
        block.each([&](int t) { store_accumulators<index>(registers[t], t, memory.d + tile * data.d_bytes()); });
#endif
                  });
}

template <int index, class Device>
void execute_form(Device& device, const FormData& data, std::int64_t tiles, const TileMemory& memory) {
    if constexpr (FormAt<index>::form.unit == Unit::mma) {
        execute_mma<index>(device, data, tiles, memory);
    } else {
        execute_wgmma<index>(device, data, tiles, memory);
    }
}

/// Computes d of every tile with the instruction of form number `form`.
template <class Device>
void execute_instruction(Device& device, int form, const FormData& data, std::int64_t tiles, const TileMemory& memory) {
    using Execute = void (*)(Device&, const FormData&, std::int64_t, const TileMemory&);
    static constexpr auto table = []<int... index>(std::integer_sequence<int, index...>) {
        return std::array<Execute, sizeof...(index)>{&execute_form<ptx_index(index), Device>...};
    }
    (std::make_integer_sequence<int, instruction_forms>{});
    table[static_cast<std::size_t>(form)](device, data, tiles, memory);
}

}  // namespace macheps::evidence
