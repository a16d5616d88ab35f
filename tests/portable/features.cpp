// SPDX-License-Identifier: Apache-2.0
// A program that uses what portable_test.sh tests: each function that glibc 2.28 lacks and glibc_2_28.cpp provides.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

const std::string constructed = "constructed";  // by a constructor that runs before main()

/// Throws and catches exceptions in four threads at the same time. Returns their number.
int caught_exceptions() {
    std::atomic<int> caught = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) {
                try {
                    throw std::runtime_error("thrown");
                } catch (const std::exception&) {
                    ++caught;
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return caught;
}

/// Returns whether a wait for 30 ms, with nobody who ends it, takes at least 30 ms and less than 20 s.
bool waits() {
    using namespace std::chrono;
    std::mutex mutex;
    std::condition_variable condition;
    std::unique_lock lock(mutex);
    const auto start = steady_clock::now();
    const bool is_ended = condition.wait_for(lock, milliseconds(30), [] { return false; });
    const auto waited = steady_clock::now() - start;
    return !is_ended && waited >= milliseconds(30) && waited < seconds(20);
}

}  // namespace

int main(int, char** arguments) {
    namespace fs = std::filesystem;
    const fs::path file = fs::path(arguments[1]) / "file", link = fs::path(arguments[1]) / "link";
    std::ofstream(file) << "12345";
    fs::create_symlink("file", link);
    std::random_device random;
    const bool varies = random() != random() || random() != random();
    std::printf("%s, caught %d, size %d, link %d, waits %d, random %d\n", constructed.c_str(), caught_exceptions(),
                static_cast<int>(fs::file_size(file)), fs::is_symlink(link), waits(), varies);
}
