// SPDX-License-Identifier: Apache-2.0
// A library that help_test.cpp preloads into the program. It counts the calls of operator new, including calls from
// static initialisers. When the program ends, it writes the count to the file named by MACHEPS_ALLOCATIONS.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::atomic<unsigned long> allocations{0};

struct Report {
    ~Report() {
        const unsigned long count = allocations;
        const char* path = std::getenv("MACHEPS_ALLOCATIONS");
        std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
        if (file == nullptr) return;
        std::fprintf(file, "%lu\n", count);
        std::fclose(file);
    }
} report;

}  // namespace

void* operator new(std::size_t bytes) {
    ++allocations;
    void* memory = std::malloc(bytes == 0 ? 1 : bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
