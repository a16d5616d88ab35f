// SPDX-License-Identifier: Apache-2.0
// Functions of newer versions of glibc that GCC's libraries and startup files need and that glibc 2.28 lacks. Only a
// portable program contains this file (macheps_portable.cmake).
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

extern "C" {

// --- constructors: before glibc 2.34, the program itself runs them

using Initialiser = void (*)(int, char**, char**);
using Main = int (*)(int, char**, char**);
extern Initialiser __preinit_array_start[], __preinit_array_end[], __init_array_start[], __init_array_end[];
void _init();

static void run_initialisers(int argc, char** argv, char** environment) {
    for (Initialiser* f = __preinit_array_start; f != __preinit_array_end; ++f) (*f)(argc, argv, environment);
    _init();
    for (Initialiser* f = __init_array_start; f != __init_array_end; ++f) (*f)(argc, argv, environment);
}

int __real___libc_start_main(Main main, int argc, char** argv, Initialiser init, void (*fini)(), void (*unload)(),
                             void* stack_end);

/// Starts the program. The linker option `--wrap` makes the startup code call this function. The startup code of glibc
/// 2.34 and later passes no `init`, because these versions run the constructors of a program that has none. If there is
/// an `init`, they call only `init`.
int __wrap___libc_start_main(Main main, int argc, char** argv, Initialiser, void (*fini)(), void (*unload)(),
                             void* stack_end) {
    return __real___libc_start_main(main, argc, argv, run_initialisers, fini, unload, stack_end);
}

// --- glibc 2.33: stat and its variants were inline functions before

constexpr int stat_layout = 1;  // _STAT_VER on x86-64
int __xstat(int layout, const char* path, struct stat* result);
int __lxstat(int layout, const char* path, struct stat* result);
int __fxstat(int layout, int file, struct stat* result);

int stat(const char* path, struct stat* result) noexcept { return __xstat(stat_layout, path, result); }
int lstat(const char* path, struct stat* result) noexcept { return __lxstat(stat_layout, path, result); }
int fstat(int file, struct stat* result) noexcept { return __fxstat(stat_layout, file, result); }
int fstat64(int file, struct stat64* result) noexcept {
    return __fxstat(stat_layout, file, reinterpret_cast<struct stat*>(result));  // the same layout on x86-64
}

// --- glibc 2.32: the reference counts of libstdc++ are atomic unless this variable is true

char __libc_single_threaded = 0;

// --- glibc 2.30: std::condition_variable waits on the steady clock

/// Waits on the clock of the time of day until the same moment. If that clock is changed meanwhile, the wait ends early
/// or late. libstdc++ then reads its own clock and, if it is early, waits again.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
    constexpr long second = 1'000'000'000;
    timespec now{}, day{};
    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &day);
    timespec end{.tv_sec = day.tv_sec + until->tv_sec - now.tv_sec,
                 .tv_nsec = day.tv_nsec + until->tv_nsec - now.tv_nsec};
    for (; end.tv_nsec < 0; end.tv_nsec += second) --end.tv_sec;
    for (; end.tv_nsec >= second; end.tv_nsec -= second) ++end.tv_sec;
    return pthread_cond_timedwait(condition, mutex, &end);
}

// --- glibc 2.36: std::random_device

std::uint32_t arc4random() noexcept {
    std::uint32_t word;
    if (getentropy(&word, sizeof word) != 0) std::abort();
    return word;
}

// --- glibc 2.35: the unwinder of libgcc asks for the object that contains an address

struct ObjectSearch {
    std::uintptr_t address;
    dl_find_object* result;
};

static int find_in_object(dl_phdr_info* info, std::size_t, void* data) {
    const auto& search = *static_cast<ObjectSearch*>(data);
    bool is_found = false;
    void* unwind_table = nullptr;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& header = info->dlpi_phdr[i];
        const std::uintptr_t start = info->dlpi_addr + header.p_vaddr;
        if (header.p_type == PT_GNU_EH_FRAME) unwind_table = reinterpret_cast<void*>(start);
        if (header.p_type != PT_LOAD || search.address < start || search.address - start >= header.p_memsz) continue;
        is_found = true;
        search.result->dlfo_map_start = reinterpret_cast<void*>(start);
        search.result->dlfo_map_end = reinterpret_cast<void*>(start + header.p_memsz);
    }
    search.result->dlfo_eh_frame = unwind_table;
    return is_found && unwind_table != nullptr;
}

/// Sets the fields of `result` that libgcc reads. Returns 0, or -1 if no object with unwind tables has the address.
int _dl_find_object(void* address, dl_find_object* result) noexcept {
    *result = {};
    ObjectSearch search{reinterpret_cast<std::uintptr_t>(address), result};
    return dl_iterate_phdr(find_in_object, &search) != 0 ? 0 : -1;
}

}  // extern "C"
