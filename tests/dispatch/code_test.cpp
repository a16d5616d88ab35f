// SPDX-License-Identifier: Apache-2.0
// Searches the program's machine code for instructions that may run on a CPU without them. If two files compile the
// same inline function, the linker keeps either copy for the whole program. If it keeps a copy that was compiled for a
// SIMD target, every CPU may run that copy. Static initialisers also run on every CPU.
#include "tests/test.hpp"

#include <cxxabi.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace code_test {

namespace {

using Names = std::vector<std::string>;

/// Functions that are compiled for more instructions than the rest of the build, although they are not in the namespace
/// of a SIMD target.
struct Guarded {
    std::string_view name;   ///< a part of the function's symbol
    std::string_view guard;  ///< the check that every caller makes before the call
};
constexpr Guarded guarded[] = {
    {"brain_chain", "has_extension(avx512_bf16)"},
    {"turn_columns", "has_extension(avx512_bf16)"},
    {"half_chain", "has_extension(avx512_fp16)"},
    {"halve_rows", "has_extension(avx512_fp16)"},
    {"halve_columns", "has_extension(avx512_fp16)"},
    {"in_half", "has_half_arithmetic()"},
    {"hash_fma", "has_fma()"},
    {"sum_fma", "has_fma()"},
    {"8evidence12_GLOBAL__N_1", "`present` of the rows of cpu_units() and cpu_conversions()"},
};
constexpr std::string_view targets[] = {"N_AVX2", "N_AVX3", "Avx2Target", "Avx512Target", "_avx2", "_avx512"};

bool is_of_target(std::string_view symbol) {
    if (symbol.find("has_avx") != std::string_view::npos) return false;  // has_avx2() etc. are compiled for every CPU
    for (const std::string_view target : targets) {
        if (symbol.find(target) != std::string_view::npos) return true;
    }
    return false;
}
bool is_guarded(std::string_view symbol) {
    for (const Guarded& row : guarded) {
        if (symbol.find(row.name) != std::string_view::npos) return true;
    }
    return false;
}

/// Returns whether a CPU of the first level of x86-64 lacks the instruction. It lacks AVX and later extensions, BMI,
/// LZCNT, POPCNT and AMX. TZCNT does not count. This CPU runs it as BSF, which gives the same result unless the operand
/// is 0. Compilers use TZCNT only for operands that are not 0.
bool is_beyond_baseline(std::string_view mnemonic, std::string_view operands) {
    static const std::set<std::string_view> others{
        "andn", "bextr", "blsi",  "blsr",   "blsmsk", "bzhi", "mulx", "pdep",  "pext",      "rorx",     "sarx",
        "shlx", "shrx",  "lzcnt", "popcnt", "movbe",  "adcx", "adox", "crc32", "ldtilecfg", "sttilecfg"};
    if (mnemonic == "verr" || mnemonic == "verw") return false;
    if (mnemonic.starts_with('v') || mnemonic.starts_with("tile") || mnemonic.starts_with("tdp")) return true;
    return others.contains(mnemonic) || (mnemonic.starts_with('k') && operands.find("%k") != std::string_view::npos);
}

std::string demangled(const std::string& symbol) {
    const std::string name = symbol.substr(0, symbol.find('.'));  // without the suffixes of clones
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                      std::free);
    return status == 0 ? text.get() : symbol;
}

/// The code of a program, read line by line from objdump -d.
class Code {
  public:
    void read(std::string_view line) {
        if (line.empty()) return;
        if (line.front() != ' ') {
            const std::size_t open = line.find('<'), close = line.rfind(">:");
            if (open != line.npos && close != line.npos) function_ = line.substr(open + 1, close - open - 1);
            return;
        }
        const std::size_t tab = line.find('\t');
        if (tab == line.npos) return;
        const std::string_view text = line.substr(tab + 1);
        const std::size_t space = text.find(' ');
        const std::string_view mnemonic = text.substr(0, space);
        const std::string_view operands = space == text.npos ? "" : text.substr(space);
        if (mnemonic == "call" || mnemonic == "jmp") {
            const std::size_t open = operands.find('<'), close = operands.rfind('>');
            if (open == operands.npos || operands.find('*') != operands.npos) return;
            std::string_view callee = operands.substr(open + 1, close - open - 1);
            callee = callee.substr(0, callee.find_first_of("+@"));
            if (callee != function_) calls_.emplace(function_, callee);
        } else if (is_beyond_baseline(mnemonic, operands)) {
            vector_code_.try_emplace(function_, text);
        }
    }

    /// Describes the faulty functions. A function is faulty if every CPU may run it, but it contains an instruction
    /// that some CPUs lack or directly calls a function of a SIMD target.
    Names faults() const {
        Names faults;
        for (const auto& [function, instruction] : vector_code_) {
            if (!is_of_target(function) && !is_guarded(function))
                faults.push_back(demangled(function) + " has " + instruction);
        }
        for (const auto& [caller, callee] : calls_) {
            const bool runs_everywhere = !is_of_target(caller) && !is_guarded(caller);
            if (runs_everywhere && is_of_target(callee))
                faults.push_back(demangled(caller) + " calls " + demangled(callee));
        }
        return faults;
    }
    std::size_t vector_functions() const { return vector_code_.size(); }

  private:
    std::string function_;
    std::map<std::string, std::string> vector_code_;
    std::set<std::pair<std::string, std::string>> calls_;
};

Code code_of(const std::string& program) {
    Code code;
    const std::string command = "'" MACHEPS_OBJDUMP "' -d -w --no-show-raw-insn '" + program + "'";
    const std::unique_ptr<FILE, int (*)(FILE*)> lines(popen(command.c_str(), "r"), pclose);
    REQUIRE(lines != nullptr);
    std::vector<char> buffer(1 << 16);
    while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), lines.get()) != nullptr) {
        std::string_view line = buffer.data();
        if (line.ends_with('\n')) line.remove_suffix(1);
        code.read(line);
    }
    return code;
}

Names faults_in(std::initializer_list<const char*> lines) {
    Code code;
    for (const char* line : lines) code.read(line);
    return code.faults();
}

}  // namespace

#if defined(__x86_64__)
TEST_CASE("only functions of a SIMD target use its instructions, and no other function calls them directly",
          "[dispatch]") {
    if (std::string_view(MACHEPS_OBJDUMP).empty()) SKIP_TEST("absent: objdump (Debian: binutils)");
    const Code code = code_of(MACHEPS_PROGRAM);
    CHECK(code.faults() == Names{});
    CHECK(code.vector_functions() > 100);
}
#endif

TEST_CASE("the search of machine code finds SIMD instructions in functions that run on every CPU", "[dispatch]") {
    const char* const shared = "0000000000001000 <_ZSt3minIlERKT_S2_S2_>:";
    const char* const kernel = "0000000000001000 <_ZN7macheps7N_AVX35tableEv>:";
    const char* const initialiser = "0000000000001000 <_GLOBAL__sub_I_kernel.cpp>:";
    const char* const vector = "    1000:\tvmovups (%rdi),%zmm0";
    const char* const call = "    1004:\tcall   1000 <_ZN7macheps7N_AVX35tableEv>";
    CHECK(faults_in({shared, vector}).size() == 1);
    CHECK(faults_in({initialiser, vector}).size() == 1);
    CHECK(faults_in({initialiser, call}).size() == 1);
    CHECK(faults_in({shared, "    1000:\tjmp    1000 <_ZN7macheps7N_AVX35tableEv>"}).size() == 1);
    CHECK(faults_in({shared, "    1000:\tlzcnt  %eax,%eax"}).size() == 1);
    CHECK(faults_in({kernel, vector, call}).empty());
    CHECK(
        faults_in({shared, "    1000:\tcall   *%rax", "    1004:\ttzcnt  %eax,%eax", "    1008:\tmovups %xmm0,(%rax)"})
            .empty());
}

}  // namespace code_test
