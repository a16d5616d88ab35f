// SPDX-License-Identifier: Apache-2.0
// Matrix instructions on tiles of operands: make the operands, run the instruction, compare each output with the scalar
// definition. Four kernels with device memory between them: only the one that runs the instruction is compiled once per
// form; the others read the form as data.
#pragma once
#include "emulation/gpu/device/threads.hpp"
#include "emulation/gpu/probe/matrix/layout.hpp"
#include "emulation/verify/tile.hpp"

#if defined(__CUDACC__)
#include "emulation/gpu/probe/matrix/ptx.hpp"
#endif

#include <cstring>
#include <utility>

namespace macheps::gpu {

/// A form and its model. Plain data for host and device.
struct FormData {
    InstructionForm form{};
    verify::OperandShape shape{};
    SumRule rule{};              ///< what results are compared with
    SumRule truth{};             ///< what the instruction's body on the host computes
    bool canonical_nan = false;  ///< NaN results are compared as bits

    MACHEPS_HD constexpr int a_bytes() const { return form.m * form.products() * bytes_of(form.a); }
    MACHEPS_HD constexpr int b_bytes() const { return form.n * form.products() * bytes_of(form.b); }
    MACHEPS_HD constexpr int outputs() const { return form.m * form.n; }
    MACHEPS_HD constexpr int d_bytes() const { return outputs() * bytes_of(form.d); }
};

/// Operands and results of many tiles: a [m, products] and c, d [m, n] row by row, b column by column.
struct TileMemory {
    std::byte *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
};

MACHEPS_HD inline std::uint64_t load_code(const std::byte* from, int bytes) {
    std::uint64_t code = 0;
    for (int i = bytes - 1; i >= 0; --i) code = code << 8 | static_cast<std::uint64_t>(from[i]);
    return code;
}
MACHEPS_HD inline void store_code(std::byte* to, int bytes, std::uint64_t code) {
    for (int i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(code >> 8 * i & 0xff);
}

/// One output by `rule`: a's row and b's column lie as in TileMemory.
MACHEPS_HD inline std::uint64_t reference_output(const FormData& data, const SumRule& rule, const std::byte* a,
                                                 const std::byte* b, std::uint64_t c) {
    constexpr int most = 32;
    const InstructionForm& f = data.form;
    const int a_bytes = bytes_of(f.a), b_bytes = bytes_of(f.b);
    if (f.ignores_addend) c = 0;
    for (int first = 0; first < f.products(); first += f.k) {
        Factor x[most], y[most];
        for (int i = 0; i < f.k; ++i) {
            x[i] = factor_of_code(data.shape.a, load_code(a + (first + i) * a_bytes, a_bytes));
            y[i] = factor_of_code(data.shape.b, load_code(b + (first + i) * b_bytes, b_bytes));
            x[i].negative = x[i].negative != f.negates_a;
            y[i].negative = y[i].negative != f.negates_b;
        }
        c = matrix_instruction(rule, f.k, x, y, c);
    }
    return c;
}

MACHEPS_HD constexpr bool same_output(const FormData& data, std::uint64_t x, std::uint64_t y) {
    if (x == y) return true;
    const Format& f = data.shape.c;
    return !data.canonical_nan && (x & f.magnitude_mask()) > f.inf_code() && (y & f.magnitude_mask()) > f.inf_code();
}

/// Tiles number first, first + 1, ... of a class.
template <class Device>
void make_operands(Device& device, const FormData& data, verify::OperandClass cls, std::uint64_t seed,
                   std::uint64_t first, std::int64_t tiles, const TileMemory& memory) {
    const int products = data.form.products(), a_codes = data.form.m * products, b_codes = data.form.n * products;
    const std::int64_t codes = a_codes + b_codes;
    device.each(tiles * codes, [=] MACHEPS_KERNEL(std::int64_t i) {
        const std::int64_t tile = i / codes;
        const verify::Tile maker(data.shape, cls, seed, first + static_cast<std::uint64_t>(tile));
        const auto at = static_cast<int>(i % codes);
        if (at < a_codes) {
            const int bytes = bytes_of(data.form.a);
            store_code(memory.a + tile * data.a_bytes() + at * bytes, bytes, maker.a(at / products, at % products));
        } else {
            const int bytes = bytes_of(data.form.b), place = at - a_codes;
            store_code(memory.b + tile * data.b_bytes() + place * bytes, bytes,
                       maker.b(place % products, place / products));
        }
    });
    device.each(tiles * data.outputs(), [=] MACHEPS_KERNEL(std::int64_t i) {
        const std::int64_t tile = i / data.outputs();
        const auto at = static_cast<int>(i % data.outputs());
        const int row = at / data.form.n, column = at % data.form.n, bytes = bytes_of(data.form.d);
        const verify::Tile maker(data.shape, cls, seed, first + static_cast<std::uint64_t>(tile));
        std::uint64_t c = 0;
        if (maker.addend_is_opposite()) {
            const std::byte* a = memory.a + tile * data.a_bytes() + row * products * bytes_of(data.form.a);
            const std::byte* b = memory.b + tile * data.b_bytes() + column * products * bytes_of(data.form.b);
            c = maker.addend_opposite(row, column, reference_output(data, data.truth, a, b, 0));
        } else {
            c = maker.c(row, column);
        }
        store_code(memory.c + tile * data.d_bytes() + at * bytes, bytes, c);
    });
}

/// What a comparison found.
struct OutputComparison {
    std::uint64_t mismatches = 0;
    std::uint32_t first = ~0u;  ///< the first output that differs, counted over all tiles
    std::uint32_t unused = 0;
};

template <class Device>
void compare_outputs(Device& device, const FormData& data, std::int64_t tiles, const TileMemory& memory,
                     OutputComparison* found) {
    const int products = data.form.products();
    device.each(tiles * data.outputs(), [=] MACHEPS_KERNEL(std::int64_t i) {
        const std::int64_t tile = i / data.outputs();
        const auto at = static_cast<int>(i % data.outputs());
        const int row = at / data.form.n, column = at % data.form.n, bytes = bytes_of(data.form.d);
        const std::byte* a = memory.a + tile * data.a_bytes() + row * products * bytes_of(data.form.a);
        const std::byte* b = memory.b + tile * data.b_bytes() + column * products * bytes_of(data.form.b);
        const std::int64_t place = tile * data.d_bytes() + at * bytes;
        const std::uint64_t want = reference_output(data, data.rule, a, b, load_code(memory.c + place, bytes));
        if (same_output(data, load_code(memory.d + place, bytes), want)) return;
        atomic_add(&found->mismatches, 1);
        atomic_min(&found->first, static_cast<std::uint32_t>(i));
    });
}

template <int index>
struct FormAt {
    static constexpr InstructionForm form = instruction_form(index);
    static constexpr bool is_wide = form.d == PtxType::f64;
    using Word = std::conditional_t<is_wide, unsigned long long, unsigned>;
    static constexpr int word_bytes = sizeof(Word);
    static constexpr int k_words = form.row_bytes() / word_bytes;   ///< of one instruction's row
    static constexpr int per_word = word_bytes / bytes_of(form.d);  ///< accumulators in a register
    static constexpr int threads = form.unit == Unit::mma ? 32 : 128;
    static constexpr int d_words = form.m * form.n / threads / per_word;
    static constexpr int a_words = form.unit == Unit::mma ? form.m / 8 * k_words / 4 : 4;
    static constexpr int b_words = k_words / 4;  ///< of mma
};

/// Registers of a thread.
template <int index>
struct Registers {
    typename FormAt<index>::Word d[FormAt<index>::d_words], a[FormAt<index>::a_words], b[FormAt<index>::b_words];
};

/// Words lie at multiples of their size.
template <class Word>
MACHEPS_KERNEL Word load_word(const std::byte* from) {
#if defined(__CUDACC__)
    return *reinterpret_cast<const Word*>(from);
#else
    Word word;
    std::memcpy(&word, from, sizeof word);
    return word;
#endif
}
template <class Word>
MACHEPS_KERNEL void store_word(std::byte* to, Word word) {
#if defined(__CUDACC__)
    *reinterpret_cast<Word*>(to) = word;
#else
    std::memcpy(to, &word, sizeof word);
#endif
}

/// What a thread's accumulators read from c, and write to d.
template <int index>
MACHEPS_KERNEL void load_accumulators(Registers<index>& r, int thread, const std::byte* c) {
    using At = FormAt<index>;
    constexpr int bytes = bytes_of(At::form.d);
    MACHEPS_UNROLL
    for (int i = 0; i < At::d_words; ++i) {
        const OutputPlace place = output_place(thread, i * At::per_word);
        r.d[i] = load_word<typename At::Word>(c + (place.row * At::form.n + place.column) * bytes);
    }
}
template <int index>
MACHEPS_KERNEL void store_accumulators(const Registers<index>& r, int thread, std::byte* d) {
    using At = FormAt<index>;
    constexpr int bytes = bytes_of(At::form.d);
    MACHEPS_UNROLL
    for (int i = 0; i < At::d_words; ++i) {
        const OutputPlace place = output_place(thread, i * At::per_word);
        store_word(d + (place.row * At::form.n + place.column) * bytes, r.d[i]);
    }
}
/// Registers of a: rows of `row_bytes` bytes, products from `offset` bytes on.
template <int index>
MACHEPS_KERNEL void load_a(Registers<index>& r, int thread, const std::byte* a, int row_bytes, int offset) {
    using At = FormAt<index>;
    MACHEPS_UNROLL
    for (int i = 0; i < At::a_words; ++i) {
        const WordPlace place = a_place(At::form.m, thread, i);
        r.a[i] = load_word<typename At::Word>(a + place.row * row_bytes + offset + place.word * At::word_bytes);
    }
}

#if !defined(__CUDACC__)
/// The host's instruction: element (row, column) of c becomes that of d.
template <class A, class B, class Addend>
std::uint64_t emulate_output(const FormData& data, const A& a, const B& b, const Addend& c, int row, int column) {
    const InstructionForm& f = data.form;
    Factor x[32], y[32];
    for (int i = 0; i < f.k; ++i) {
        x[i] = factor_of_code(data.shape.a, a(row, i));
        y[i] = factor_of_code(data.shape.b, b(column, i));
        x[i].negative = x[i].negative != f.negates_a;
        y[i].negative = y[i].negative != f.negates_b;
    }
    return matrix_instruction(data.truth, f.k, x, y, c(row, column));
}

/// Operands and accumulators as matrices of codes: from registers to them and back.
template <int index>
class GatheredRegisters {
    using At = FormAt<index>;

  public:
    template <class Thread>
    void gather_d(const Thread& registers) {
        d.assign(static_cast<std::size_t>(At::form.m * At::form.n), 0);
        each_accumulator([&](std::size_t at, int thread, int i, int shift) {
            d[at] = static_cast<std::uint64_t>(registers(thread).d[i]) >> shift & mask(At::form.d);
        });
    }
    template <class Thread>
    void scatter_d(const Thread& registers) const {
        for (int thread = 0; thread < At::threads; ++thread) {
            for (auto& word : registers(thread).d) word = 0;
        }
        each_accumulator([&](std::size_t at, int thread, int i, int shift) {
            registers(thread).d[i] |= static_cast<typename At::Word>(d[at] << shift);
        });
    }
    template <class Thread>
    void gather_a(const Thread& registers) {
        a.assign(static_cast<std::size_t>(At::form.m * At::form.k), 0);
        for (int thread = 0; thread < At::threads; ++thread) {
            for (int i = 0; i < At::a_words; ++i) {
                const WordPlace place = a_place(At::form.m, thread, i);
                unpack(a, place, registers(thread).a[i], At::form.a);
            }
        }
    }
    template <class Thread>
    void gather_b(const Thread& registers) {
        b.assign(static_cast<std::size_t>(At::form.n * At::form.k), 0);
        for (int thread = 0; thread < At::threads; ++thread) {
            for (int i = 0; i < At::b_words; ++i) unpack(b, b_place(thread, i), registers(thread).b[i], At::form.b);
        }
    }
    std::vector<std::uint64_t> a, b, d;  ///< b column by column

  private:
    static std::uint64_t mask(PtxType type) { return ~std::uint64_t{0} >> (64 - 8 * bytes_of(type)); }
    template <class F>
    static void each_accumulator(const F& f) {
        for (int thread = 0; thread < At::threads; ++thread) {
            for (int i = 0; i < At::d_words * At::per_word; ++i) {
                const OutputPlace place = output_place(thread, i);
                f(static_cast<std::size_t>(place.row * At::form.n + place.column), thread, i / At::per_word,
                  8 * bytes_of(At::form.d) * (i % At::per_word));
            }
        }
    }
    static void unpack(std::vector<std::uint64_t>& codes, WordPlace place, std::uint64_t word, PtxType type) {
        const int bytes = bytes_of(type), count = At::word_bytes / bytes;
        for (int i = 0; i < count; ++i) {
            codes[static_cast<std::size_t>(place.row * At::form.k + place.word * count + i)] =
                word >> 8 * bytes * i & mask(type);
        }
    }
};
#endif

/// mma.sync: a warp to a tile.
template <int index, class Device>
void execute_mma(Device& device, const FormData& data, std::int64_t tiles, const TileMemory& memory) {
    device.warps(tiles, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t tile) {
        using At = FormAt<index>;
        const int chain = data.form.chain, row_bytes = chain * At::form.row_bytes();
        const std::byte *a = memory.a + tile * data.a_bytes(), *b = memory.b + tile * data.b_bytes();
        Lanes<Registers<index>> registers;
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
/// `chain` wgmma of one commit group.
template <int index, int chain>
__device__ void run_wgmma(Registers<index>& r, std::uint64_t a, std::uint64_t b, int scale_d) {
    constexpr InstructionForm f = FormAt<index>::form;
    constexpr int scale_a = f.negates_a ? -1 : 1, scale_b = f.negates_b ? -1 : 1;
    ptx::begin_group();
#pragma unroll
    for (int step = 0; step < chain; ++step) {
        // Descriptors count in 16 bytes; an instruction takes two lines along k.
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
/// Shared memory as wgmma reads it through a descriptor: a core matrix by its two strides, then line and byte.
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

/// wgmma.mma_async: a warpgroup to a tile.
template <int index, class Device>
void execute_wgmma(Device& device, const FormData& data, std::int64_t tiles, const TileMemory& memory) {
    const auto shared_bytes = static_cast<std::size_t>(data.a_bytes() + data.b_bytes());
    device.blocks({.x = tiles, .threads = 128, .shared_bytes = shared_bytes}, [=] MACHEPS_KERNEL(const Block& block) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
        __trap();  // no wgmma here: there is nothing to compile, and the host does not launch it
#else
        using At = FormAt<index>;
        constexpr InstructionForm f = At::form;
        const std::int64_t tile = block.x();
        const int products = data.form.products();
        const std::byte *a = memory.a + tile * data.a_bytes(), *b = memory.b + tile * data.b_bytes();
        std::byte *a_shared = block.shared(), *b_shared = a_shared + data.a_bytes();
        PerThread<Registers<index>> registers(block);
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

/// d of every tile, by the instruction of form number `form`.
template <class Device>
void execute_instruction(Device& device, int form, const FormData& data, std::int64_t tiles, const TileMemory& memory) {
    using Execute = void (*)(Device&, const FormData&, std::int64_t, const TileMemory&);
    static constexpr auto table = []<int... index>(std::integer_sequence<int, index...>) {
        return std::array<Execute, sizeof...(index)>{&execute_form<ptx_index(index), Device>...};
    }
    (std::make_integer_sequence<int, instruction_forms>{});
    table[static_cast<std::size_t>(form)](device, data, tiles, memory);
}

}  // namespace macheps::gpu
