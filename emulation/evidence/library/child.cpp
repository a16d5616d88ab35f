// SPDX-License-Identifier: Apache-2.0
// Parent and child exchange lines over two pipes. Operands and results are in a file that both map.
#include "emulation/evidence/library/child.hpp"

#include "core/error.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace macheps::evidence {

namespace {

constexpr std::size_t memory_bytes = std::size_t{64} << 20;

struct KnownLibrary {
    std::string_view name;
    std::array<const char*, 4> files;
};
constexpr KnownLibrary known_libraries[] = {
    {"openblas", {"libopenblas.so.0", "libopenblas.so", nullptr, nullptr}},
    {"onednn", {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so", nullptr}},
    {"mkl", {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"}},
    {"blis", {"libblis.so.4", "libblis.so.3", "libblis.so", nullptr}},
};

// --- the child

/// Type of cblas_sgemm in a library whose integers have type `Integer`.
template <class Integer>
using CblasGemm = void (*)(int, int, int, Integer, Integer, Integer, float, const float*, Integer, const float*,
                           Integer, float, float*, Integer);
using DnnlGemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t,
                         const float*, std::int64_t, float, float*, std::int64_t);

struct OpenLibrary {
    void* handle = nullptr;
    CblasGemm<int> gemm = nullptr;
    CblasGemm<std::int64_t> gemm64 = nullptr;
    DnnlGemm dnnl = nullptr;
    LibraryIdentity identity{};

    template <class Function>
    Function symbol(const char* name) const {
        return reinterpret_cast<Function>(dlsym(handle, name));
    }
    bool find_gemm() {
        if ((gemm = symbol<CblasGemm<int>>("cblas_sgemm")) != nullptr) {
            identity.function = "cblas_sgemm";
            return true;
        }
        for (const char* name : {"cblas_sgemm64_", "scipy_cblas_sgemm64_"}) {
            if ((gemm64 = symbol<CblasGemm<std::int64_t>>(name)) == nullptr) continue;
            identity.function = name;
            return true;
        }
        dnnl = symbol<DnnlGemm>("dnnl_sgemm");
        identity.function = "dnnl_sgemm";
        return dnnl != nullptr;
    }
    void describe() {
        for (const char* prefix : {"", "scipy_"}) {
            for (const char* suffix : {"", "64_"}) {
                const auto config =
                    symbol<const char* (*)()>(fmt::format("{}openblas_get_config{}", prefix, suffix).c_str());
                const auto core =
                    symbol<const char* (*)()>(fmt::format("{}openblas_get_corename{}", prefix, suffix).c_str());
                if (config != nullptr) identity.version = config();
                if (core != nullptr) identity.kernel = core();
            }
        }
        if (const auto mkl = symbol<void (*)(char*, int)>("MKL_Get_Version_String")) {
            char text[256] = {};
            mkl(text, sizeof text - 1);
            identity.version = text;
        }
        if (const auto blis = symbol<const char* (*)()>("bli_info_get_version_str")) {
            identity.version = fmt::format("BLIS {}", blis());
        }
        if (const auto arch = symbol<int (*)()>("bli_arch_query_id")) {
            if (const auto name = symbol<const char* (*)(int)>("bli_arch_string")) identity.kernel = name(arch());
        }
        struct DnnlVersion {
            int major, minor, patch;
        };
        if (const auto version = symbol<const DnnlVersion* (*)()>("dnnl_version")) {
            const DnnlVersion* v = version();
            identity.version = fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
        }
    }
    void set_threads(int threads) const {
        for (const char* name : {"openblas_set_num_threads", "openblas_set_num_threads64_",
                                 "scipy_openblas_set_num_threads64_", "MKL_Set_Num_Threads"}) {
            if (const auto set = symbol<void (*)(int)>(name)) set(threads);
        }
        if (const auto set = symbol<void (*)(std::int64_t)>("bli_thread_set_num_threads")) set(threads);
    }
    void multiply(int m, int n, int k, const float* a, const float* b, float* c) const {
        constexpr int row_major = 101, no_transpose = 111;
        if (gemm != nullptr) {
            gemm(row_major, no_transpose, no_transpose, m, n, k, 1, a, k, b, n, 0, c, n);
        } else if (gemm64 != nullptr) {
            gemm64(row_major, no_transpose, no_transpose, m, n, k, 1, a, k, b, n, 0, c, n);
        } else {
            (void)dnnl('N', 'N', m, n, k, 1, a, k, b, n, 0, c, n);
        }
    }
};

std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::replace(text.begin(), text.end(), '\t', ' ');
    return text;
}

/// Answers requests until the input ends, and then ends the process.
[[noreturn]] void serve(const std::string& library, int threads, int in, int out, float* memory) {
    const auto say = [&](const std::string& text) {
        const std::string line = one_line(text) + "\n";
        if (write(out, line.data(), line.size()) < 0) _exit(1);
    };
    OpenLibrary open;
    std::vector<std::string> files{library};
    for (const KnownLibrary& known : known_libraries) {
        if (known.name != library) continue;
        files.clear();
        for (const char* file : known.files)
            if (file != nullptr) files.emplace_back(file);
    }
    std::string why;
    for (const std::string& file : files) {
        open.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (open.handle != nullptr) {
            open.identity.path = file;
            break;
        }
        if (why.empty()) why = dlerror();
    }
    if (open.handle == nullptr) {
        say("absent " + why);
        _exit(0);
    }
    if (!open.find_gemm()) {
        say("absent it has neither cblas_sgemm nor dnnl_sgemm");
        _exit(0);
    }
    open.set_threads(threads);
    open.describe();
    const auto field = [](const std::string& text) { return text.empty() ? std::string("-") : one_line(text); };
    const std::string described = field(open.identity.path) + "\t" + field(open.identity.version) + "\t" +
                                  field(open.identity.kernel) + "\t" + field(open.identity.function) + "\n";
    const std::string ready = "ready " + described;
    if (write(out, ready.data(), ready.size()) < 0) _exit(1);
    std::string request;
    for (char letter; read(in, &letter, 1) == 1;) {
        if (letter != '\n') {
            request += letter;
            continue;
        }
        int m = 0, n = 0, k = 0;
        if (std::sscanf(request.c_str(), "%d %d %d", &m, &n, &k) != 3) _exit(1);
        request.clear();
        float* const b = memory + static_cast<std::ptrdiff_t>(m) * k;
        open.multiply(m, n, k, memory, b, b + static_cast<std::ptrdiff_t>(k) * n);
        say("done");
    }
    _exit(0);
}

/// The child process for PyTorch: a Python script with the same protocol as serve(). Library names are torch,
/// torch.FORMAT, torch.cuda.FORMAT and torch.cuda.scaled.{tensor,row}[.fast].
constexpr const char* torch_script = R"(import os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
def say(text):
    out.write(" ".join(text.split("\n")) + "\n"); out.flush()
try:
    import numpy, torch
except Exception as error:
    say("absent %s" % error); sys.exit(0)
file, threads, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
words = name.split(".")[1:]
cuda = words[:1] == ["cuda"]
words = words[1:] if cuda else words
scaled, fast, row = words[:1] == ["scaled"], words[-1:] == ["fast"], words[1:2] == ["row"]
architecture = ""
try:
    torch.set_num_threads(threads)
    if cuda:
        if not torch.cuda.is_available():
            say("absent PyTorch %s finds no CUDA device" % torch.__version__); sys.exit(0)
        architecture = "sm_%d%d" % tuple(torch.cuda.get_device_capability())
        torch.backends.cuda.matmul.allow_tf32 = words == ["tf32"]
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "scaled": torch.float8_e4m3fn}.get((words or ["fp32"])[0], torch.float32)
    memory = numpy.memmap(file, dtype=numpy.float32, mode="r+")
    if cuda:
        kernel = torch.cuda.get_device_name()
    else:
        blas = [w.strip() for w in torch.__config__.show().split("\n") if "MKL" in w or "DNN" in w][:2]
        kernel = "; ".join(blas) + "; " + torch.backends.cpu.get_cpu_capability()
except SystemExit:
    raise
except Exception as error:
    say("absent %s" % error); sys.exit(0)
function = "torch._scaled_mm" if scaled else "torch.matmul"
say("ready %s\tPyTorch %s\t%s\t%s %s\t%s" % (torch.__file__, torch.__version__, kernel, function, str(dtype).split(".")[1], architecture))
def moved(x):
    return x.cuda() if cuda else x
def product(a, b, a_scale, b_scale):
    if not scaled:
        return torch.matmul(a, b)
    return torch._scaled_mm(a, b, scale_a=a_scale, scale_b=b_scale, out_dtype=torch.float32, use_fast_accum=fast)
last = None
for line in sys.stdin:
    try:
        if line.strip() == "kernels":
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
                product(*last)
                torch.cuda.synchronize()
            names = [e.key.replace(",", ";") for e in seen.key_averages() if not e.key.startswith(("cuda", "Memcpy", "Memset", "Activity"))]
            say("kernels " + ", ".join(names))
            continue
        m, n, k, a_scales, b_scales = map(int, line.split())
        at = [0]
        def part(*shape):
            begin = at[0]
            at[0] += int(numpy.prod(shape))
            return torch.from_numpy(numpy.array(memory[begin:at[0]]).reshape(*shape))
        a, b = part(m, k), part(k, n)
        x, y = part(a_scales), part(b_scales)
        a = moved(a.to(dtype))
        b = moved(b.t().contiguous().to(dtype)).t() if scaled else moved(b.to(dtype))
        x, y = (moved(x.reshape(-1, 1)), moved(y.reshape(1, -1))) if row else (moved(x.reshape(-1)), moved(y.reshape(-1)))
        last = a, b, x, y
        result = product(*last).float()
        memory[at[0]:at[0] + m * n] = (result.cpu() if cuda else result).numpy().ravel()
        memory.flush()
        say("done")
    except Exception as error:
        say("failed %s: %s" % (type(error).__name__, error))
)";

}  // namespace

bool is_torch(const std::string& library) { return library == "torch" || library.starts_with("torch."); }

bool is_torch_cuda(const std::string& library) { return library.starts_with("torch.cuda."); }

Format library_format(const std::string& library) {
    return library == "torch.bf16" ? bf16 : library == "torch.fp16" ? fp16 : fp32;
}

std::vector<LibrarySetting> library_environment() {
    std::vector<LibrarySetting> set;
    // The variables for the number of threads are not in this list, because the program sets the number itself.
    for (const char* name :
         {"OPENBLAS_CORETYPE", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE",
          "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "BLIS_ARCH_TYPE", "ATEN_CPU_CAPABILITY"}) {
        if (const char* value = std::getenv(name)) set.push_back({name, value});
    }
    return set;
}

std::optional<LibraryChild> LibraryChild::open(const std::string& library, int threads, std::string& why,
                                               const std::string& without) {
    LibraryChild child;
    const char* folder = std::getenv("TMPDIR");
    std::string file = fmt::format("{}/macheps-library-XXXXXX", folder != nullptr ? folder : "/tmp");
    const int fd = mkstemp(file.data());
    if (fd >= 0) child.file_.swap(file);  // from now on, the destructor of `child` removes the file
    int request[2], answer[2];
    if (fd < 0 || ftruncate(fd, memory_bytes) != 0 || pipe2(request, O_CLOEXEC) != 0 || pipe2(answer, O_CLOEXEC) != 0) {
        throw Error({.what = fmt::format("cannot create shared memory or pipes: {}", std::strerror(errno)),
                     .where = fd < 0 ? file : child.file_,
                     .fix = "set TMPDIR to a folder with 64 MB of free space",
                     .exit = Exit::cannot_write});
    }
    void* memory = mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) {
        throw Error({.what = "cannot map shared memory",
                     .where = child.file_,
                     .fix = "set TMPDIR to a folder with 64 MB of free space",
                     .exit = Exit::cannot_write});
    }
    child.memory_ = static_cast<float*>(memory);
    const std::string count = std::to_string(threads);
    child.process_ = fork();
    if (child.process_ == 0) {
        setenv("OMP_NUM_THREADS", count.c_str(), 1);
        if (!without.empty()) unsetenv(without.c_str());
        const int silent = ::open("/dev/null", O_WRONLY);
        if (silent >= 0) dup2(silent, STDERR_FILENO);
        if (is_torch(library)) {
            dup2(request[0], STDIN_FILENO);
            dup2(answer[1], STDOUT_FILENO);
            const char* python = std::getenv("MACHEPS_PYTHON");
            if (python == nullptr) python = "python3";
            execlp(python, python, "-u", "-c", torch_script, child.file_.c_str(), count.c_str(), library.c_str(),
                   nullptr);
            constexpr std::string_view none = "absent Python was not found: set MACHEPS_PYTHON\n";
            if (write(STDOUT_FILENO, none.data(), none.size()) < 0) _exit(1);
            _exit(0);
        }
        close(request[1]);
        close(answer[0]);
        // Discards the output that the library prints. Answers go through a pipe instead.
        if (silent >= 0) dup2(silent, STDOUT_FILENO);
        serve(library, threads, request[0], answer[1], child.memory_);
    }
    close(request[0]);
    close(answer[1]);
    child.to_ = request[1];
    child.from_ = answer[0];
    const std::string greeting = child.ask("");
    if (!greeting.starts_with("ready ")) {
        why = greeting.starts_with("absent ") ? greeting.substr(7) : greeting;
        return std::nullopt;
    }
    std::vector<std::string> fields{""};
    for (const char letter : greeting.substr(6)) {
        if (letter == '\t') {
            fields.emplace_back();
        } else {
            fields.back() += letter;
        }
    }
    fields.resize(5);
    child.identity_ = {fields[0], fields[1], fields[2], fields[3], fields[4]};
    return child;
}

LibraryChild::LibraryChild(LibraryChild&& other) noexcept
    : identity_(std::move(other.identity_)),
      process_(std::exchange(other.process_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      memory_(std::exchange(other.memory_, nullptr)),
      file_(std::exchange(other.file_, {})) {}

LibraryChild::~LibraryChild() {
    if (to_ >= 0) close(to_);
    if (from_ >= 0) close(from_);
    if (process_ > 0) {
        int status = 0;
        waitpid(process_, &status, 0);
    }
    if (memory_ != nullptr) munmap(memory_, memory_bytes);
    if (!file_.empty()) unlink(file_.c_str());
}

std::string LibraryChild::ask(const std::string& line) {
    // If the child has died, a write must fail with an error and must not end this program (SIGPIPE).
    struct sigaction ignore {
    }, before{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before);
    bool alive = line.empty() || write(to_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    std::string answer;
    for (char letter = 0; alive;) {
        const ssize_t count = read(from_, &letter, 1);
        if (count < 0 && errno == EINTR) continue;
        alive = count == 1;
        if (alive && letter == '\n') break;
        if (alive) answer += letter;
    }
    sigaction(SIGPIPE, &before, nullptr);
    if (alive) return answer;
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    const std::string how = WIFSIGNALED(status)
                                ? fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                                : fmt::format("exit code {}", WEXITSTATUS(status));
    throw Error({.what = fmt::format("the library ended its process: {}", how),
                 .where = identity_.path,
                 .fix = "run the test suite of the library, or use another version",
                 .exit = Exit::check_failed});
}

std::vector<float> LibraryChild::multiply(const LibraryJob& job) {
    const std::size_t outputs = static_cast<std::size_t>(job.m) * static_cast<std::size_t>(job.n);
    float* c = memory_;
    std::size_t total = outputs;
    for (const auto* values : {&job.a, &job.b, &job.a_scales, &job.b_scales}) total += values->size();
    if (total * sizeof(float) > memory_bytes)
        throw Error(
            {.what = "the product takes more than 64 MB", .where = identity_.path, .fix = "use a smaller product"});
    for (const auto* values : {&job.a, &job.b, &job.a_scales, &job.b_scales})
        c = std::copy(values->begin(), values->end(), c);
    std::fill_n(c, outputs, 12345.0f);  // the product overwrites this, because beta = 0
    const std::string answer =
        ask(fmt::format("{} {} {} {} {}\n", job.m, job.n, job.k, job.a_scales.size(), job.b_scales.size()));
    if (answer != "done") throw Error({.what = answer, .where = identity_.path, .exit = Exit::check_failed});
    return {c, c + outputs};
}

std::string LibraryChild::kernels() {
    const std::string answer = ask("kernels\n");
    return answer.starts_with("kernels ") ? answer.substr(8) : "";
}

}  // namespace macheps::evidence
