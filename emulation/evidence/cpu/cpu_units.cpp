// SPDX-License-Identifier: Apache-2.0
// Each function that runs an instruction is compiled for a CPU with this instruction, even if the rest of the program
// is not. The function is called only if the CPU has the instruction.
#include "emulation/evidence/cpu/cpu_units.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <array>
#include <cstring>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace macheps::evidence {

namespace {

#if defined(__x86_64__)

struct CpuidWords {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidWords cpuid_of(unsigned leaf, unsigned part = 0) {
    CpuidWords r;
    if (static_cast<unsigned>(__get_cpuid_max(leaf & 0x80000000u, nullptr)) < leaf) return r;
    __cpuid_count(leaf, part, r.eax, r.ebx, r.ecx, r.edx);
    return r;
}

bool has_bit(unsigned word, int bit) { return (word >> bit & 1) != 0; }

/// Returns the set of registers that the operating system saves (XCR0).
std::uint64_t saved_state() {
    if (!has_bit(cpuid_of(1).ecx, 27)) return 0;  // OSXSAVE
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return std::uint64_t{high} << 32 | low;
}

bool saves(std::uint64_t mask) { return (saved_state() & mask) == mask; }
bool saves_ymm() { return saves(0x6); }
bool saves_zmm() { return saves(0xe6); }

/// Requests the permission to use AMX tiles, without which Linux does not let a process use them. Returns whether the
/// process has it.
bool may_use_tiles() {
    constexpr int request_permission = 0x1023, tile_data = 18;
    static const bool granted = saves(0x60000) && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
    return granted;
}

bool has_avx512bw() { return saves_zmm() && has_bit(cpuid_of(7).ebx, 16) && has_bit(cpuid_of(7).ebx, 30); }
bool has_avx512_bf16() { return has_avx512bw() && has_bit(cpuid_of(7, 1).eax, 5); }
bool has_avx512_fp16() { return has_avx512bw() && has_bit(cpuid_of(7).edx, 23); }
bool has_amx_bf16() { return has_bit(cpuid_of(7).edx, 22) && has_bit(cpuid_of(7).edx, 24) && may_use_tiles(); }
bool has_amx_fp16() { return has_bit(cpuid_of(7, 1).eax, 21) && has_bit(cpuid_of(7).edx, 24) && may_use_tiles(); }
bool has_amx_fp8() { return has_bit(cpuid_of(0x1e, 1).eax, 4) && may_use_tiles(); }
bool has_avx10_2() { return saves_zmm() && (cpuid_of(0x24).ebx & 0xff) >= 2; }
bool has_f16c() { return saves_ymm() && has_bit(cpuid_of(1).ecx, 29); }

/// Multiplies 16 rows of a by 16 columns of b with the 512-bit VDPBF16PS, one row at a time. Each lane computes one
/// output, which is a sum of two products.
__attribute__((target("avx512f,avx512bw,avx512bf16"))) void run_vdpbf16ps(const std::uint64_t* a,
                                                                          const std::uint64_t* b,
                                                                          const std::uint64_t* c, std::uint64_t* d) {
    alignas(64) std::uint32_t pairs[16], lanes[16];
    for (int j = 0; j < 16; ++j) pairs[j] = static_cast<std::uint32_t>(b[16 + j] << 16 | b[j]);
    const __m512i columns = _mm512_load_si512(pairs);
    for (int i = 0; i < 16; ++i, a += 2, c += 16, d += 16) {
        for (int j = 0; j < 16; ++j) lanes[j] = static_cast<std::uint32_t>(c[j]);
        __m512 sum = _mm512_castsi512_ps(_mm512_load_si512(lanes));
        const __m512i row = _mm512_set1_epi32(static_cast<int>(a[1] << 16 | a[0]));
        // Inline assembly, because a compiler may exchange the factors of an intrinsic, and NaN results depend on the
        // order of the factors.
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(columns));
        _mm512_store_si512(lanes, _mm512_castps_si512(sum));
        for (int j = 0; j < 16; ++j) d[j] = lanes[j];
    }
}

/// Runs the 128-bit form of VDPBF16PS, four lanes at a time.
__attribute__((target("avx512f,avx512vl,avx512bf16"))) void run_vdpbf16ps_128(const std::uint64_t* a,
                                                                              const std::uint64_t* b,
                                                                              const std::uint64_t* c,
                                                                              std::uint64_t* d) {
    for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 16; j += 4) {
            alignas(16) std::uint32_t pairs[4], lanes[4];
            for (int l = 0; l < 4; ++l) {
                pairs[l] = static_cast<std::uint32_t>(b[16 + j + l] << 16 | b[j + l]);
                lanes[l] = static_cast<std::uint32_t>(c[16 * i + j + l]);
            }
            __m128i sum = _mm_load_si128(reinterpret_cast<const __m128i*>(lanes));
            const __m128i columns = _mm_load_si128(reinterpret_cast<const __m128i*>(pairs));
            const __m128i row = _mm_set1_epi32(static_cast<int>(a[2 * i + 1] << 16 | a[2 * i]));
            asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(columns));
            _mm_store_si128(reinterpret_cast<__m128i*>(lanes), sum);
            for (int l = 0; l < 4; ++l) d[16 * i + j + l] = lanes[l];
        }
    }
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512fp16"))) void run_vfmaddph(const std::uint64_t* a,
                                                                                  const std::uint64_t* b,
                                                                                  const std::uint64_t* c,
                                                                                  std::uint64_t* d) {
    alignas(64) std::uint16_t columns[32], lanes[32] = {};
    for (int j = 0; j < 32; ++j) columns[j] = static_cast<std::uint16_t>(b[j % 16]);
    const __m512i y = _mm512_load_si512(columns);
    for (int i = 0; i < 16; ++i, c += 16, d += 16) {
        for (int j = 0; j < 16; ++j) lanes[j] = static_cast<std::uint16_t>(c[j]);
        __m512i sum = _mm512_load_si512(lanes);
        const __m512i x = _mm512_set1_epi16(static_cast<short>(a[i]));
        asm("vfmadd231ph %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
        _mm512_store_si512(lanes, sum);
        for (int j = 0; j < 16; ++j) d[j] = lanes[j];
    }
}

/// Runs an AMX tile instruction. Shapes: a [16, 32], b [32, 16], c and d [16, 16]. The tile register of b has 16 rows
/// of 2 * 16 elements: each holds two rows of b with their elements interleaved.
template <bool is_fp16>
__attribute__((target("amx-tile,amx-bf16"))) void run_tile(const std::uint64_t* a, const std::uint64_t* b,
                                                           const std::uint64_t* c, std::uint64_t* d) {
    struct alignas(64) {
        std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
        std::uint16_t bytes_per_row[16] = {64, 64, 64};
        std::uint8_t rows[16] = {16, 16, 16};
    } config;
    static_assert(sizeof config == 64);
    alignas(64) std::uint16_t rows[16 * 32], pairs[16 * 32];
    alignas(64) std::uint32_t sums[16 * 16];
    for (int i = 0; i < 16 * 32; ++i) rows[i] = static_cast<std::uint16_t>(a[i]);
    for (int p = 0; p < 32; ++p)
        for (int j = 0; j < 16; ++j) pairs[p / 2 * 32 + 2 * j + p % 2] = static_cast<std::uint16_t>(b[p * 16 + j]);
    for (int i = 0; i < 16 * 16; ++i) sums[i] = static_cast<std::uint32_t>(c[i]);
    _tile_loadconfig(&config);
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, rows, 64);
    _tile_loadd(2, pairs, 64);
    if constexpr (is_fp16) {
        asm volatile(".byte 0xc4, 0xe2, 0x6b, 0x5c, 0xc1");  // tdpfp16ps %tmm2, %tmm1, %tmm0, which assemblers may lack
    } else {
        _tile_dpbf16ps(0, 1, 2);
    }
    _tile_stored(0, sums, 64);
    _tile_release();
    for (int i = 0; i < 16 * 16; ++i) d[i] = sums[i];
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) void run_vcvtneps2bf16(const std::uint32_t* x,
                                                                              std::uint16_t* codes) {
    const __m512 in = _mm512_castsi512_ps(_mm512_loadu_si512(x));
    __m256i out;
    asm("vcvtneps2bf16 %1, %0" : "=v"(out) : "v"(in));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), out);
}

template <int mode>
__attribute__((target("avx,f16c"))) void run_vcvtps2ph(const std::uint32_t* x, std::uint16_t* codes) {
    for (int half = 0; half < 2; ++half, x += 8, codes += 8) {
        const __m256 in = _mm256_loadu_ps(reinterpret_cast<const float*>(x));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm256_cvtps_ph(in, mode));
    }
}

constexpr CpuUnit units[] = {
    {"x86", "vdpbf16ps", "k2.f32.bf16.bf16.f32", "avx512_bf16", 16, 16, 2, has_avx512_bf16, run_vdpbf16ps},
    {"x86", "vdpbf16ps", "k2.f32.bf16.bf16.f32", "avx512_bf16, 128 bits", 16, 16, 2, has_avx512_bf16,
     run_vdpbf16ps_128},
    {"x86", "tdpbf16ps", "k32.f32.bf16.bf16.f32", "amx_bf16", 16, 16, 32, has_amx_bf16, run_tile<false>},
    {"x86", "tdpfp16ps", "k32.f32.f16.f16.f32", "amx_fp16", 16, 16, 32, has_amx_fp16, run_tile<true>},
    {"x86", "tdphf8ps", "k64.f32.e4m3.e4m3.f32", "amx_fp8", 16, 16, 64, has_amx_fp8, nullptr},
    {"x86", "vdpphps", "k2.f32.f16.f16.f32", "avx10.2", 16, 16, 2, has_avx10_2, nullptr},
    {"x86", "vfmaddph", "k1.f16.f16.f16.f16", "avx512_fp16", 16, 16, 1, has_avx512_fp16, run_vfmaddph},
};

constexpr Format to_bf16 = bf16, to_fp16 = fp16;
constexpr CpuConversion conversions[] = {
    {"vcvtneps2bf16", "k1.bf16.f32", "x86.vcvtneps2bf16", "avx512_bf16", to_bf16, Round::nearest_even, has_avx512_bf16,
     run_vcvtneps2bf16},
    {"vcvtps2ph", "k1.f16.f32.rne", "x86.vcvtps2ph", "f16c", to_fp16, Round::nearest_even, has_f16c, run_vcvtps2ph<0>},
    {"vcvtps2ph", "k1.f16.f32.down", "x86.vcvtps2ph", "f16c", to_fp16, Round::down, has_f16c, run_vcvtps2ph<1>},
    {"vcvtps2ph", "k1.f16.f32.up", "x86.vcvtps2ph", "f16c", to_fp16, Round::up, has_f16c, run_vcvtps2ph<2>},
    {"vcvtps2ph", "k1.f16.f32.zero", "x86.vcvtps2ph", "f16c", to_fp16, Round::toward_zero, has_f16c, run_vcvtps2ph<3>},
};

std::string cpu_name() {
    std::string vendor(12, '\0'), brand;
    const CpuidWords first = cpuid_of(0), version = cpuid_of(1);
    std::memcpy(vendor.data(), &first.ebx, 4);
    std::memcpy(vendor.data() + 4, &first.edx, 4);
    std::memcpy(vendor.data() + 8, &first.ecx, 4);
    for (unsigned leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf) {
        const CpuidWords part = cpuid_of(leaf);
        char text[16];
        std::memcpy(text, &part, sizeof text);
        brand.append(text, sizeof text);
    }
    brand.resize(std::strlen(brand.c_str()));
    while (brand.starts_with(' ')) brand.erase(0, 1);
    while (brand.ends_with(' ')) brand.pop_back();
    const unsigned base = version.eax >> 8 & 15, family = base == 15 ? base + (version.eax >> 20 & 255) : base;
    const unsigned model = (version.eax >> 4 & 15) | (base == 6 || base == 15 ? version.eax >> 12 & 0xf0 : 0);
    return fmt::format("{} family {} model {} stepping {}{}", vendor, family, model, version.eax & 15,
                       brand.empty() ? "" : " (" + brand + ")");
}

#else

constexpr std::array<CpuUnit, 0> units{};
constexpr std::array<CpuConversion, 0> conversions{};
std::string cpu_name() { return "a CPU with units that this program does not know"; }

#endif

}  // namespace

std::span<const CpuUnit> cpu_units() { return units; }
std::span<const CpuConversion> cpu_conversions() { return conversions; }

CpuIdentity cpu_identity() {
    CpuIdentity identity{.cpu = cpu_name()};
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        const std::size_t colon = line.find(": ");
        if (!line.starts_with("microcode") || colon == std::string::npos) continue;
        identity.microcode = line.substr(colon + 2);
        break;
    }
    utsname name{};
    if (uname(&name) == 0) identity.os = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
#if defined(__clang__)
    identity.compiler = "Clang " __clang_version__;
#else
    identity.compiler = "GCC " __VERSION__;
#endif
    return identity;
}

}  // namespace macheps::evidence
