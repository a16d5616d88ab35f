// SPDX-License-Identifier: Apache-2.0
// A library that is preloaded into the program. It makes chosen calls of one function of the C library fail, as the
// system may do at any time.
//
//   MACHEPS_FAULT=write:3:28:sticky   the third write, and every one after it, fails with errno 28
//   MACHEPS_FAULT=write:3:4:once      only the third write fails, with errno 4
//   MACHEPS_FAULT=write:3:0:short     the third write takes only half of its bytes
//   MACHEPS_FAULT=rename:1:0:kill     the program is killed before the first rename
//   MACHEPS_FAULT_COUNT=file          the number of calls of each function is written to this file at the end
//
// Calls on stderr do not fail, so that error messages can be read. `new` is C++'s operator new, which throws
// std::bad_alloc.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

enum class Call : unsigned {
    open,
    fopen,
    read,
    write,
    writev,
    pread,
    pwrite,
    lseek,
    fsync,
    rename,
    unlink,
    unlinkat,
    mkdir,
    ftruncate,
    close,
    fstat,
    stat,
    lstat,
    flock,
    mmap,
    fdopendir,
    readdir,
    statvfs,
    getcwd,
    access,
    pthread_create,
    fwrite,
    fflush,
    fclose,
    allocate,
    count
};
constexpr const char* names[] = {
    "open",      "fopen",    "read",    "write",     "writev", "pread",          "pwrite", "lseek",  "fsync",  "rename",
    "unlink",    "unlinkat", "mkdir",   "ftruncate", "close",  "fstat",          "stat",   "lstat",  "flock",  "mmap",
    "fdopendir", "readdir",  "statvfs", "getcwd",    "access", "pthread_create", "fwrite", "fflush", "fclose", "new"};
static_assert(sizeof names / sizeof *names == static_cast<unsigned>(Call::count));

std::atomic<long> calls[static_cast<unsigned>(Call::count)];

enum class Mode { none, once, sticky, cut_short, kill };
struct Fault {
    unsigned call = static_cast<unsigned>(Call::count);
    long number = 0;
    int error = 0;
    Mode mode = Mode::none;
} fault;

[[gnu::constructor(101)]] void read_fault() {
    const char* text = std::getenv("MACHEPS_FAULT");
    char name[32] = "", mode[16] = "";
    if (text == nullptr || std::sscanf(text, "%31[^:]:%ld:%d:%15s", name, &fault.number, &fault.error, mode) != 4)
        return;
    for (unsigned i = 0; i < static_cast<unsigned>(Call::count); ++i) {
        if (std::strcmp(names[i], name) == 0) fault.call = i;
    }
    fault.mode = std::strcmp(mode, "once") == 0     ? Mode::once
                 : std::strcmp(mode, "sticky") == 0 ? Mode::sticky
                 : std::strcmp(mode, "short") == 0  ? Mode::cut_short
                                                    : Mode::kill;
}

[[gnu::destructor]] void write_counts() {
    const char* path = std::getenv("MACHEPS_FAULT_COUNT");
    if (path == nullptr) return;
    long counts[static_cast<unsigned>(Call::count)];
    for (unsigned i = 0; i < static_cast<unsigned>(Call::count); ++i) counts[i] = calls[i];
    std::FILE* file = std::fopen(path, "w");
    if (file == nullptr) return;
    for (unsigned i = 0; i < static_cast<unsigned>(Call::count); ++i)
        std::fprintf(file, "%s %ld\n", names[i], counts[i]);
    std::fclose(file);
}

/// Counts this call, and returns whether it must fail. If so, sets errno or kills the program.
bool fails(Call call) {
    const auto index = static_cast<unsigned>(call);
    const long number = ++calls[index];
    if (index != fault.call || fault.mode == Mode::cut_short) return false;
    if (fault.mode == Mode::sticky ? number < fault.number : number != fault.number) return false;
    if (fault.mode == Mode::kill) ::kill(::getpid(), SIGKILL);
    errno = fault.error;
    return true;
}

/// Returns how many of `bytes` bytes the call may read or write.
std::size_t taken(Call call, std::size_t bytes) {
    const auto index = static_cast<unsigned>(call);
    const bool is_short = index == fault.call && fault.mode == Mode::cut_short && calls[index] == fault.number;
    return is_short && bytes > 1 ? bytes / 2 : bytes;
}

template <class Function>
Function next(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

/// Declares `real`, a pointer to the C library's function `name` of type `type`. The function is looked up only once.
#define NEXT(name, type) static const auto real = next<type>(name)

int opened(const char* name, const char* path, int flags, mode_t mode) {
    if (fails(Call::open)) return -1;
    return next<int (*)(const char*, int, mode_t)>(name)(path, flags, mode);
}
int opened_at(const char* name, int folder, const char* path, int flags, mode_t mode) {
    if (fails(Call::open)) return -1;
    return next<int (*)(int, const char*, int, mode_t)>(name)(folder, path, flags, mode);
}
mode_t mode_in(int flags, va_list list) { return (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0; }

void* allocated(std::size_t bytes, std::size_t alignment) {
    if (fails(Call::allocate)) throw std::bad_alloc();
    bytes = bytes == 0 ? 1 : bytes;
    void* memory = nullptr;
    if (alignment <= alignof(std::max_align_t)) {
        memory = std::malloc(bytes);
    } else if (::posix_memalign(&memory, alignment, bytes) != 0) {
        memory = nullptr;
    }
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_in(flags, list);
    va_end(list);
    return opened("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_in(flags, list);
    va_end(list);
    return opened("open64", path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_in(flags, list);
    va_end(list);
    return opened_at("openat", folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_in(flags, list);
    va_end(list);
    return opened_at("openat64", folder, path, flags, mode);
}
std::FILE* fopen(const char* path, const char* mode) {
    NEXT("fopen", std::FILE * (*)(const char*, const char*));
    return fails(Call::fopen) ? nullptr : real(path, mode);
}
std::FILE* fopen64(const char* path, const char* mode) {
    NEXT("fopen64", std::FILE * (*)(const char*, const char*));
    return fails(Call::fopen) ? nullptr : real(path, mode);
}
ssize_t read(int file, void* data, std::size_t bytes) {
    NEXT("read", ssize_t(*)(int, void*, std::size_t));
    return fails(Call::read) ? -1 : real(file, data, taken(Call::read, bytes));
}
ssize_t write(int file, const void* data, std::size_t bytes) {
    NEXT("write", ssize_t(*)(int, const void*, std::size_t));
    if (file == STDERR_FILENO) return real(file, data, bytes);
    return fails(Call::write) ? -1 : real(file, data, taken(Call::write, bytes));
}
ssize_t writev(int file, const iovec* parts, int count) {
    NEXT("writev", ssize_t(*)(int, const iovec*, int));
    return fails(Call::writev) ? -1 : real(file, parts, count);
}
ssize_t pread(int file, void* data, std::size_t bytes, off_t at) {
    NEXT("pread", ssize_t(*)(int, void*, std::size_t, off_t));
    return fails(Call::pread) ? -1 : real(file, data, taken(Call::pread, bytes), at);
}
ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t at) {
    NEXT("pwrite", ssize_t(*)(int, const void*, std::size_t, off_t));
    return fails(Call::pwrite) ? -1 : real(file, data, taken(Call::pwrite, bytes), at);
}
off64_t lseek64(int file, off64_t at, int whence) noexcept {
    NEXT("lseek64", off64_t(*)(int, off64_t, int));
    return fails(Call::lseek) ? -1 : real(file, at, whence);
}
int fsync(int file) {
    NEXT("fsync", int (*)(int));
    return fails(Call::fsync) ? -1 : real(file);
}
int rename(const char* from, const char* to) noexcept {
    NEXT("rename", int (*)(const char*, const char*));
    return fails(Call::rename) ? -1 : real(from, to);
}
int unlink(const char* path) noexcept {
    NEXT("unlink", int (*)(const char*));
    return fails(Call::unlink) ? -1 : real(path);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
    NEXT("unlinkat", int (*)(int, const char*, int));
    return fails(Call::unlinkat) ? -1 : real(folder, path, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
    NEXT("mkdir", int (*)(const char*, mode_t));
    return fails(Call::mkdir) ? -1 : real(path, mode);
}
int ftruncate(int file, off_t bytes) noexcept {
    NEXT("ftruncate", int (*)(int, off_t));
    return fails(Call::ftruncate) ? -1 : real(file, bytes);
}
int close(int file) {  // as on Linux, closes the descriptor even if it reports an error
    NEXT("close", int (*)(int));
    if (file == STDERR_FILENO) return real(file);
    const bool fail = fails(Call::close);
    const int error = errno, result = real(file);
    if (!fail) return result;
    errno = error;
    return -1;
}
int fstat(int file, struct stat* status) noexcept {
    NEXT("fstat", int (*)(int, struct stat*));
    return fails(Call::fstat) ? -1 : real(file, status);
}
int stat(const char* path, struct stat* status) noexcept {
    NEXT("stat", int (*)(const char*, struct stat*));
    return fails(Call::stat) ? -1 : real(path, status);
}
int lstat(const char* path, struct stat* status) noexcept {
    NEXT("lstat", int (*)(const char*, struct stat*));
    return fails(Call::lstat) ? -1 : real(path, status);
}
int flock(int file, int how) noexcept {
    NEXT("flock", int (*)(int, int));
    return fails(Call::flock) ? -1 : real(file, how);
}
void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t from) noexcept {
    NEXT("mmap", void* (*)(void*, std::size_t, int, int, int, off_t));
    return fails(Call::mmap) ? MAP_FAILED : real(at, bytes, protection, flags, file, from);
}
DIR* fdopendir(int file) {
    NEXT("fdopendir", DIR * (*)(int));
    return fails(Call::fdopendir) ? nullptr : real(file);
}
dirent* readdir(DIR* folder) {
    NEXT("readdir", dirent * (*)(DIR*));
    return fails(Call::readdir) ? nullptr : real(folder);
}
int statvfs(const char* path, struct statvfs* status) noexcept {
    NEXT("statvfs", int (*)(const char*, struct statvfs*));
    return fails(Call::statvfs) ? -1 : real(path, status);
}
char* getcwd(char* path, std::size_t bytes) noexcept {
    NEXT("getcwd", char* (*)(char*, std::size_t));
    return fails(Call::getcwd) ? nullptr : real(path, bytes);
}
int access(const char* path, int how) noexcept {
    NEXT("access", int (*)(const char*, int));
    return fails(Call::access) ? -1 : real(path, how);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*start)(void*), void* argument) noexcept {
    NEXT("pthread_create", int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*));
    return fails(Call::pthread_create) ? errno : real(thread, how, start, argument);
}
/// A stream writes inside the C library, where write() cannot be replaced. Therefore fwrite() itself fails here, and
/// sets the stream's error flag.
std::size_t fwrite(const void* data, std::size_t size, std::size_t count, std::FILE* stream) {
    NEXT("fwrite", std::size_t(*)(const void*, std::size_t, std::size_t, std::FILE*));
    if (stream == stderr || !fails(Call::fwrite)) return real(data, size, count, stream);
    stream->_flags |= 0x20;  // glibc's error flag, which ferror reads
    return 0;
}
int fflush(std::FILE* stream) {
    NEXT("fflush", int (*)(std::FILE*));
    if (stream == nullptr || stream == stderr || !fails(Call::fflush)) return real(stream);
    stream->_flags |= 0x20;
    return EOF;
}
int fclose(std::FILE* stream) {
    NEXT("fclose", int (*)(std::FILE*));
    if (stream == stderr) return real(stream);
    const bool fail = fails(Call::fclose);
    const int error = errno, result = real(stream);
    if (!fail) return result;
    errno = error;
    return EOF;
}

}  // extern "C"

void* operator new(std::size_t bytes) { return allocated(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return allocated(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
