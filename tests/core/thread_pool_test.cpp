// SPDX-License-Identifier: Apache-2.0
#include "core/host/thread_pool.hpp"

#include "core/error.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace thread_pool_test {

using namespace macheps;

TEST_CASE("every task runs exactly once, for any number of threads and tasks", "[core][thread_pool]") {
    const int threads = GENERATE(1, 2, 3, 8);
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) {
        CAPTURE(threads, tasks);
        std::vector<std::atomic<int>> calls(static_cast<std::size_t>(tasks));
        pool.run(tasks, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
        CHECK(std::all_of(calls.begin(), calls.end(), [](const auto& n) { return n == 1; }));
    }
}

TEST_CASE("after each run, the caller sees all values that the tasks wrote", "[core][thread_pool]") {
    ThreadPool pool(3);
    std::vector<std::int64_t> square(100);
    for (std::int64_t round = 0; round < 2000; ++round) {
        pool.run(100, [&](std::int64_t i) { square[static_cast<std::size_t>(i)] = i * i + round; });
        REQUIRE(std::accumulate(square.begin(), square.end(), std::int64_t{0}) == 328350 + 100 * round);
    }
}

TEST_CASE("the first exception of a task reaches the caller, and the pool stays usable", "[core][thread_pool]") {
    const int threads = GENERATE(1, 2, 3);
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
        CHECK_THROWS_AS(pool.run(100,
                                 [](std::int64_t i) {
                                     if (i == 17) throw std::runtime_error("seventeen");
                                 }),
                        std::runtime_error);
        std::atomic<int> calls = 0;
        pool.run(10, [&](std::int64_t) { ++calls; });
        CHECK(calls == 10);
    }
}

TEST_CASE("a nested run of a thread pool is serial and stays in the thread of its caller", "[core][thread_pool]") {
    ThreadPool pool(3);
    std::atomic<int> calls = 0, elsewhere = 0;
    pool.run(20, [&](std::int64_t) {
        const auto here = std::this_thread::get_id();
        pool.run(20, [&](std::int64_t) {
            ++calls;
            if (std::this_thread::get_id() != here) ++elsewhere;
        });
    });
    CHECK(calls == 400);
    CHECK(elsewhere == 0);
}

TEST_CASE("two threads may use one pool at the same time", "[core][thread_pool]") {
    ThreadPool pool(2);
    std::atomic<int> calls = 0;
    const auto use = [&] {
        for (int i = 0; i < 200; ++i) pool.run(10, [&](std::int64_t) { ++calls; });
    };
    std::thread other(use);
    use();
    other.join();
    CHECK(calls == 4000);
}

TEST_CASE("a pool has at least one thread", "[core][thread_pool]") {
    CHECK_THROWS_AS(ThreadPool(0), Error);
    CHECK(available_threads() >= 1);
}

}  // namespace thread_pool_test
