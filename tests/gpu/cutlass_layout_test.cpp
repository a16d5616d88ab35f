// SPDX-License-Identifier: Apache-2.0
// Checks that macheps places the elements of matrix operands as the layouts of CUTLASS do. CuTe writes a layout as
// extents and strides. The index of a coordinate is the sum of its components, each multiplied by its stride. In a
// matrix with `rows` rows, index i is the element in row i % rows and column i / rows. B counts as a matrix with n rows
// and k columns. Source of the numbers: NVIDIA/cutlass, include/cute/atom/mma_traits_sm80.hpp, mma_traits_sm89.hpp,
// mma_traits_sm90.hpp, mma_traits_sm90_gmma.hpp, and include/cute/arch/mma_sm90_desc.hpp for the fields of a
// descriptor.
#include "emulation/evidence/gpu/matrix/layout.hpp"
#include "emulation/gpu/matmul/wgmma.hpp"
#include "tests/test.hpp"

#include <map>
#include <utility>
#include <vector>

namespace cutlass_layout_test {

using namespace macheps;
using namespace macheps::evidence;
using namespace macheps::gpu;

namespace {

/// Pairs of extent and stride. The fastest coordinate is first.
using Modes = std::vector<std::pair<int, int>>;

/// Returns the index of coordinate number `i`, or -1 if there are fewer coordinates.
int index_of(const Modes& modes, int i) {
    int index = 0;
    for (const auto& [extent, stride] : modes) {
        index += i % extent * stride;
        i /= extent;
    }
    return i == 0 ? index : -1;
}

int size_of(const Modes& modes) {
    int size = 1;
    for (const auto& mode : modes) size *= mode.first;
    return size;
}

/// Each thread holds several values of a matrix with `rows` rows. A layout maps the number of a thread, and the number
/// of a value within this thread, to the index of the value in the matrix.
struct Layout {
    int rows;
    Modes threads, values;

    int index(int thread, int value) const { return index_of(threads, thread) + index_of(values, value); }
};

/// Layouts of the registers of an instruction.
struct Fragments {
    Layout a, b, c;
};

/// Returns the register layouts of mma.sync for m, k and the bytes of an element. CUTLASS has no layout of m16n8k16
/// with fp8 operands. The layout with s8 operands, which has the same shape, replaces it.
Fragments mma_fragments(int m, int k, int bytes) {
    const Modes c_threads{{4, 32}, {8, 1}}, pairs{{2, 16}, {2, 8}};
    const Layout c{16, c_threads, pairs};
    if (bytes == 8 && m == 8)
        return {{8, {{4, 8}, {8, 1}}, {{1, 0}}}, {8, {{4, 8}, {8, 1}}, {{1, 0}}}, {8, {{4, 16}, {8, 1}}, {{2, 8}}}};
    const std::map<std::pair<int, int>, Fragments> known{
        {{2, 8}, {{16, c_threads, pairs}, {8, {{4, 16}, {8, 1}}, {{2, 8}}}, c}},
        {{2, 16}, {{16, c_threads, {{2, 16}, {2, 8}, {2, 128}}}, {8, {{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}}, c}},
        {{4, 4}, {{16, {{4, 16}, {8, 1}}, {{2, 8}}}, {8, {{4, 8}, {8, 1}}, {{1, 0}}}, c}},
        {{4, 8}, {{16, {{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}}, {8, {{4, 8}, {8, 1}}, {{2, 32}}}, c}},
        {{1, 16}, {{16, {{4, 64}, {8, 1}}, {{4, 16}, {2, 8}}}, {8, {{4, 32}, {8, 1}}, {{4, 8}}}, c}},
        {{1, 32},
         {{16, {{4, 64}, {8, 1}}, {{4, 16}, {2, 8}, {2, 256}}}, {8, {{4, 32}, {8, 1}}, {{4, 8}, {2, 128}}}, c}},
        {{8, 4}, {{16, {{4, 16}, {8, 1}}, {{2, 8}}}, {8, {{4, 8}, {8, 1}}, {{1, 0}}}, c}},
        {{8, 8}, {{16, {{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}}, {8, {{4, 8}, {8, 1}}, {{2, 32}}}, c}},
        {{8, 16}, {{16, {{4, 16}, {8, 1}}, {{2, 8}, {4, 64}}}, {8, {{4, 8}, {8, 1}}, {{4, 32}}}, c}},
    };
    return known.at({bytes, k});
}

/// These functions return the register layouts of operand a and of the sums of wgmma (m64nNkK).
Layout wgmma_a(int bytes) {
    const std::map<int, Layout> known{{4, {64, {{4, 64}, {8, 1}, {4, 16}}, {{2, 8}, {2, 256}}}},
                                      {2, {64, {{4, 128}, {8, 1}, {4, 16}}, {{2, 64}, {2, 8}, {2, 512}}}},
                                      {1, {64, {{4, 256}, {8, 1}, {4, 16}}, {{4, 64}, {2, 8}, {2, 1024}}}}};
    return known.at(bytes);
}
Layout wgmma_c(int n) { return {64, {{4, 128}, {8, 1}, {4, 16}}, {{2, 64}, {2, 8}, {n / 8, 512}}}; }

/// Fields of a matrix descriptor for shared memory. The start address and the two strides are in bytes.
struct Descriptor {
    int start, leading, stride, base_offset, layout_type;

    explicit Descriptor(std::uint64_t bits)
        : start(static_cast<int>(bits & 0x3fff) * 16),
          leading(static_cast<int>(bits >> 16 & 0x3fff) * 16),
          stride(static_cast<int>(bits >> 32 & 0x3fff) * 16),
          base_offset(static_cast<int>(bits >> 49 & 7)),
          layout_type(static_cast<int>(bits >> 62)) {}

    /// Returns the byte address of element (row, k) in the layout without swizzle (INTERLEAVE). T is the number of
    /// elements in 16 bytes. K-major: ((8,m),(T,2)) with the strides ((T,SBO),(1,LBO)). MN-major: ((T,m),(8,k)) with
    /// the strides ((1,SBO),(T,LBO)).
    int place(int rows, int products, int element_bytes, bool mn_major, int row, int k) const {
        const int line = 16 / element_bytes;
        const Modes row_modes =
            mn_major ? Modes{{line, element_bytes}, {rows / line, stride}} : Modes{{8, 16}, {rows / 8, stride}};
        const Modes k_modes = mn_major ? Modes{{8, 16}, {products / 8, leading}}
                                       : Modes{{line, element_bytes}, {products / line, leading}};
        return start + index_of(row_modes, row) + index_of(k_modes, k);
    }
};

int places = 0, wrong = 0;
void count(bool equal) {
    ++places;
    wrong += equal ? 0 : 1;
}

/// Compares registers that hold words of several elements. Element `i` of a thread is element i % per_word of its word
/// number i / per_word.
template <class Place>
void compare_words(const Layout& layout, int k, int bytes, int word_bytes, const Place& place) {
    const int per_word = word_bytes / bytes;
    CHECK(size_of(layout.threads) * size_of(layout.values) == layout.rows * k);
    for (int thread = 0; thread < size_of(layout.threads); ++thread) {
        for (int i = 0; i < size_of(layout.values); ++i) {
            const WordPlace mine = place(thread, i / per_word);
            const int theirs = layout.index(thread, i);
            count(mine.row == theirs % layout.rows && mine.word * per_word + i % per_word == theirs / layout.rows);
        }
    }
}
template <class Place>
void compare_sums(const Layout& layout, int n, const Place& place) {
    CHECK(size_of(layout.threads) * size_of(layout.values) == layout.rows * n);
    for (int thread = 0; thread < size_of(layout.threads); ++thread) {
        for (int i = 0; i < size_of(layout.values); ++i) {
            const auto mine = place(thread, i);
            const int theirs = layout.index(thread, i);
            count(mine.row == theirs % layout.rows && mine.column == theirs / layout.rows);
        }
    }
}

void compare_shared(int rows, int k, int bytes, bool mn_major) {
    constexpr int address = 0x4a50;
    const Descriptor descriptor(shared_descriptor(address, rows));
    CHECK(descriptor.base_offset == 0);
    CHECK(descriptor.layout_type == 0);  // no swizzle
    for (int row = 0; row < rows; ++row) {
        for (int i = 0; i < k; ++i) {
            count(address + shared_offset(rows, row, i, bytes, mn_major) ==
                  descriptor.place(rows, k, bytes, mn_major, row, i));
        }
    }
}

}  // namespace

TEST_CASE("the instruction probes place operands as CUTLASS's layouts do", "[gpu][layout]") {
    places = wrong = 0;
    int forms = 0;
    for (int index = 0; index < instruction_forms; ++index) {
        const InstructionForm& form = instruction_form(index);
        if (form.ptx() != form) continue;
        ++forms;
        CAPTURE(form.name());
        const int bytes = bytes_of(form.a);
        if (form.unit == Unit::mma) {
            const int word_bytes = bytes == 8 ? 8 : 4;
            const Fragments fragments = mma_fragments(form.m, form.k, bytes);
            compare_words(fragments.a, form.k, bytes, word_bytes,
                          [&](int thread, int r) { return a_place(form.m, thread, r); });
            compare_words(fragments.b, form.k, bytes, word_bytes,
                          [&](int thread, int r) { return b_place(thread, r); });
            compare_sums(fragments.c, form.n, [](int thread, int i) { return output_place(thread, i); });
        } else {
            if (form.a_in_registers) {
                compare_words(wgmma_a(bytes), form.k, bytes, 4,
                              [&](int thread, int r) { return a_place(form.m, thread, r); });
            } else {
                compare_shared(form.m, form.k, bytes, form.transposes_a);
            }
            compare_shared(form.n, form.k, bytes, form.transposes_b);
            compare_sums(wgmma_c(form.n), form.n, [](int thread, int i) { return output_place(thread, i); });
        }
        CHECK(wrong == 0);
    }
    CHECK(forms > 100);
    CHECK(places >= 759'488);
}

TEST_CASE("the matrix products place operands as CUTLASS's layouts do", "[gpu][layout]") {
    places = wrong = 0;
    for (const auto& [bytes, k] : {std::pair{2, 16}, {4, 8}}) {  // m16n8k16 with 16-bit operands, m16n8k8 with tf32
        const Fragments fragments = mma_fragments(16, k, bytes);
        compare_words(fragments.a, k, bytes, 4, [](int lane, int r) {
            const FragmentPlace place = mma_a_place(lane, r);
            return WordPlace{place.row, place.column};
        });
        compare_words(fragments.b, k, bytes, 4, [](int lane, int r) {
            const FragmentPlace place = mma_b_place(lane, r);  // place.row counts words along k
            return WordPlace{place.column, place.row};
        });
        compare_sums(fragments.c, 8, [](int lane, int i) { return mma_c_place(lane, i); });
    }
    for (const int n : {64, 128})
        compare_sums(wgmma_c(n), n, [](int thread, int i) { return wgmma_sum_place(thread, i); });
    // An instruction reads 32 bytes of each row. The strides may have any value.
    constexpr SharedOperand operands[]{{0x4a50, 64 * 16, 128}, {0x400, 128 * 16, 128}, {0x10, 144, 8 * 144}};
    for (const SharedOperand& operand : operands) {
        const std::uint64_t bits = operand.descriptor();
        const Descriptor descriptor(bits);
        CHECK(descriptor.start == static_cast<int>(operand.address));
        CHECK(descriptor.leading == static_cast<int>(operand.k_stride));
        CHECK(descriptor.stride == static_cast<int>(operand.row_stride));
        CHECK(descriptor.base_offset == 0);
        CHECK(descriptor.layout_type == 0);
        for (const int bytes : {1, 2, 4}) {
            for (int row = 0; row < 128; ++row) {
                for (int k = 0; k < 32 / bytes; ++k)
                    count(static_cast<int>(SharedOperand::place(bits, row, k * bytes)) ==
                          descriptor.place(128, 32 / bytes, bytes, false, row, k));
            }
        }
    }
    CHECK(wrong == 0);
    CHECK(places >= 34'624);
}

}  // namespace cutlass_layout_test
