// SPDX-License-Identifier: Apache-2.0
// Kernels for sparse matrix instructions on tiles of operands. The products that the metadata selects are the operands
// of the corresponding dense form, and tiles.hpp makes them. The kernels here insert the products that are not
// selected, and run the instruction.
#pragma once
#include "emulation/evidence/gpu/matrix/kernels.hpp"
#include "emulation/evidence/gpu/matrix/sparse_forms.hpp"

#if defined(__CUDACC__)
#include "emulation/evidence/gpu/matrix/sparse_ptx.hpp"
#endif

namespace macheps::evidence {

/// Makes the operands of all products of tiles first, first + 1, ... It copies the operands of the selected products
/// from `chosen` to `all`. The other elements become zeros in `all.a` and random numbers of the same class in `all.b`.
/// Tile number t uses metadata pattern t + shift.
/// Shapes per tile: chosen.a [m, k] and chosen.b [k, n]; all.a [m, 2 k] and all.b [2 k, n]; k: data.form.k.
template <class Device>
void spread_operands(Device& device, const FormData& data, evidence::OperandClass cls, std::uint64_t seed,
                     std::uint64_t first, std::int64_t tiles, std::uint64_t shift, const TileMemory& chosen,
                     const TileMemory& all) {
    const int m = data.form.m, k = data.form.k;
    const std::int64_t codes = (m + data.form.n) * k;
    device.each(tiles * codes, [=] MACHEPS_KERNEL(std::int64_t at) {
        const std::int64_t tile = at / codes;
        const std::uint64_t number = first + static_cast<std::uint64_t>(tile), pattern = number + shift;
        const PtxType type = data.form.a;
        const auto patterns = static_cast<std::uint64_t>(sparse_patterns(type));
        const auto line = static_cast<int>(at % codes) / k, i = static_cast<int>(at % k);
        const bool is_a = line < m;
        const int row = is_a ? line : line - m, bytes = bytes_of(is_a ? type : data.form.b);
        const std::int64_t start = tile * (is_a ? data.a_bytes() : data.b_bytes()) + row * k * bytes;
        const std::byte* const from = (is_a ? chosen.a : chosen.b) + start;
        std::byte* const to = (is_a ? all.a : all.b) + 2 * start;
        const std::uint64_t other = is_a ? 0 : evidence::Tile(data.shape, cls, ~seed, number).b(i, row);
        const std::uint32_t taken = sparse_metadata(type, pattern),
                            left = sparse_metadata(type, patterns - 1 - pattern % patterns);
        store_code(to + chosen_product(type, taken, i) * bytes, bytes, load_code(from + i * bytes, bytes));
        store_code(to + chosen_product(type, left, i) * bytes, bytes, other);
    });
}

/// Registers of a thread.
template <int index>
struct SparseRegisters {
    Registers<index> dense;
    unsigned all_b[2 * FormAt<index>::b_words];
    unsigned metadata;
};

#if !defined(__CUDACC__)
/// Emulates the instruction on the host: computes each element of `d` with the dense instruction over the selected
/// products.
inline void emulate_sparse(const FormData& data, std::uint32_t metadata, CodeAt a, CodeAt b,
                           std::vector<std::uint64_t>& d) {
    const int n = data.form.n;
    const auto chosen = [&](int column, int i) { return b(column, chosen_product(data.form.a, metadata, i)); };
    const auto addend = [&](int row, int column) { return d[static_cast<std::size_t>(row * n + column)]; };
    for (int at = 0; at < data.outputs(); ++at)
        d[static_cast<std::size_t>(at)] = emulate_output(data, a, chosen, addend, at / n, at % n);
}
#endif

/// Runs mma.sp, one warp per tile. memory: a [m, k], b [2 k, n].
template <int index, class Device>
void execute_sparse_mma(Device& device, const FormData& data, std::uint64_t first, std::int64_t tiles,
                        const TileMemory& memory) {
    device.warps(tiles, [=] MACHEPS_KERNEL(const gpu::Warp& warp, std::int64_t tile) {
        using At = FormAt<index>;
        constexpr InstructionForm f = At::form;
        const std::byte *a = memory.a + tile * data.a_bytes(), *b = memory.b + 2 * tile * data.b_bytes();
        gpu::Lanes<SparseRegisters<index>> registers;
        warp.each([&](int lane) {
            SparseRegisters<index>& r = registers[lane];
            load_accumulators<index>(r.dense, lane, memory.c + tile * data.d_bytes());
            load_a<index>(r.dense, lane, a, f.row_bytes(), 0);
            MACHEPS_UNROLL
            for (int i = 0; i < 2 * At::b_words; ++i) {
                const WordPlace place = b_place(lane, i);
                r.all_b[i] = load_word<unsigned>(b + place.row * 2 * f.row_bytes() + place.word * At::word_bytes);
            }
            r.metadata = sparse_metadata(f.a, first + static_cast<std::uint64_t>(tile));
        });
#if defined(__CUDACC__)
        warp.each([&](int lane) {
            SparseRegisters<index>& r = registers[lane];
            ptx::SparseMma<f.m, f.k, f.a, f.b, f.d>::run(r.dense.d, r.dense.a, r.all_b, r.metadata);
        });
#else
        GatheredRegisters<index> gathered;
        const auto thread = [&](int lane) -> Registers<index>& { return registers[lane].dense; };
        gathered.gather_a(thread);
        gathered.gather_d(thread);
        const auto a_code = [&](int row, int i) { return gathered.a[static_cast<std::size_t>(row * f.k + i)]; };
        const auto b_code = [&](int column, int i) -> std::uint64_t {
            constexpr int bytes = bytes_of(f.b), per_word = At::word_bytes / bytes;
            for (int lane = 0; lane < At::threads; ++lane) {
                for (int r = 0; r < 2 * At::b_words; ++r) {
                    const WordPlace place = b_place(lane, r);
                    if (place.row != column || place.word != i / per_word) continue;
                    return registers[lane].all_b[r] >> 8 * bytes * (i % per_word) & ~std::uint32_t{0} >> (32 - 8 * bytes);
                }
            }
            return 0;
        };
        emulate_sparse(data, registers[0].metadata, a_code, b_code, gathered.d);
        gathered.scatter_d(thread);
#endif
        warp.each([&](int lane) {
            store_accumulators<index>(registers[lane].dense, lane, memory.d + tile * data.d_bytes());
        });
    });
}

/// Runs wgmma.mma_async.sp, one warpgroup per tile. memory: a [m, k], b [2 k, n].
template <int index, class Device>
void execute_sparse_wgmma(Device& device, const FormData& data, std::uint64_t first, std::int64_t tiles,
                          const TileMemory& memory) {
    const auto shared_bytes = static_cast<std::size_t>(data.a_bytes() + 2 * data.b_bytes());
    device.blocks({.x = tiles, .threads = 128, .shared_bytes = shared_bytes},
                  [=] MACHEPS_KERNEL(const gpu::Block& block) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
                      __trap();  // this architecture has no wgmma; the host does not launch the kernel
#else
        using At = FormAt<index>;
        constexpr InstructionForm f = At::form;
        const std::int64_t tile = block.x();
        const std::byte *a = memory.a + tile * data.a_bytes(), *b = memory.b + 2 * tile * data.b_bytes();
        std::byte *a_shared = block.shared(), *b_shared = a_shared + data.a_bytes();
        gpu::PerThread<SparseRegisters<index>> registers(block);
        block.each([&](int thread) {
            const auto share = [&](std::byte* to, const std::byte* from, int rows, int products, int bytes) {
                for (int i = thread; i < rows * products; i += At::threads) {
                    store_code(to + shared_offset(rows, i / products, i % products, bytes, false), bytes,
                               load_code(from + i * bytes, bytes));
                }
            };
            share(a_shared, a, f.m, f.k, bytes_of(f.a));
            share(b_shared, b, f.n, 2 * f.k, bytes_of(f.b));
#if defined(__CUDACC__)
            ptx::fence_shared();
#endif
        });
        block.each([&](int thread) {
            load_accumulators<index>(registers[thread].dense, thread, memory.c + tile * data.d_bytes());
            registers[thread].metadata = sparse_metadata(f.a, first + static_cast<std::uint64_t>(tile));
        });
#if defined(__CUDACC__)
        block.each([&](int thread) {
            const auto address = [](const std::byte* p) {
                return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
            };
            SparseRegisters<index>& r = registers[thread];
            ptx::begin_group();
            ptx::SparseWgmma<f.k, f.a, f.b, f.d>::run(r.dense.d, shared_descriptor(address(a_shared), f.m),
                                                      shared_descriptor(address(b_shared), f.n), r.metadata);
            ptx::end_group();
        });
#else
        GatheredRegisters<index> gathered;
        const auto thread = [&](int t) -> Registers<index>& { return registers[t].dense; };
        gathered.gather_d(thread);
        const auto code = [&](std::uint64_t descriptor, PtxType type) {
            return [=](int row, int i) { return described_code(a_shared, descriptor, row, i, bytes_of(type), false); };
        };
        emulate_sparse(data, registers[0].metadata, code(shared_descriptor(0, f.m), f.a),
                       code(shared_descriptor(static_cast<std::uint32_t>(data.a_bytes()), f.n), f.b), gathered.d);
        gathered.scatter_d(thread);
#endif
        block.each([&](int t) { store_accumulators<index>(registers[t].dense, t, memory.d + tile * data.d_bytes()); });
#endif
                  });
}

/// Computes d of tiles first, first + 1, ... with the instruction of sparse form number `form`. `data` describes the
/// corresponding dense form.
template <class Device>
void execute_sparse(Device& device, int form, const FormData& data, std::uint64_t first, std::int64_t tiles,
                    const TileMemory& memory) {
    using Execute = void (*)(Device&, const FormData&, std::uint64_t, std::int64_t, const TileMemory&);
    static constexpr auto table = []<int... i>(std::integer_sequence<int, i...>) {
        return std::array<Execute, sizeof...(i)>{[] {
            if constexpr (dense_form(i).unit == Unit::mma) {
                return &execute_sparse_mma<sparse_form_list[i], Device>;
            } else {
                return &execute_sparse_wgmma<sparse_form_list[i], Device>;
            }
        }()...};
    }
    (std::make_integer_sequence<int, sparse_forms>{});
    table[static_cast<std::size_t>(form)](device, data, first, tiles, memory);
}

}  // namespace macheps::evidence
