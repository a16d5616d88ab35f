// SPDX-License-Identifier: Apache-2.0
// A library that tests preload into the program (LD_PRELOAD). Successive reads of the system clock are alternately
// eleven days fast and eleven days slow. The monotonic clock is not changed.
#include <dlfcn.h>
#include <sys/time.h>

#include <atomic>
#include <ctime>

namespace {

std::atomic<long> asked{0};

time_t jumped(time_t seconds) { return seconds + (asked++ % 2 == 0 ? 1000000 : -1000000); }

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    static const auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
    const int result = real(clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec = jumped(time->tv_sec);
    return result;
}

int gettimeofday(timeval* time, void* zone) noexcept {
    static const auto real = reinterpret_cast<int (*)(timeval*, void*)>(::dlsym(RTLD_NEXT, "gettimeofday"));
    const int result = real(time, zone);
    if (result == 0) time->tv_sec = jumped(time->tv_sec);
    return result;
}

time_t time(time_t* out) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != nullptr) *out = now.tv_sec;
    return now.tv_sec;
}

}  // extern "C"
