// SPDX-License-Identifier: Apache-2.0
// A file descriptor that is closed automatically. Host only.
#pragma once
#include <cstddef>
#include <string_view>
#include <utility>

namespace macheps {

class Descriptor {
  public:
    Descriptor() = default;
    /// Takes ownership of `number`. A negative number means that nothing is open.
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) close(), number_ = std::exchange(other.number_, -1);
        return *this;
    }

    explicit operator bool() const { return number_ >= 0; }
    int number() const { return number_; }
    /// Closes the descriptor. Like write_all() and sync(), returns 0, or errno if the call failed.
    int close();
    /// Writes all of `text`. If `done` is not null, it receives the number of bytes that were written.
    int write_all(std::string_view text, std::size_t* done = nullptr) const;
    /// Flushes the written bytes to the disk. A file that cannot be synced (a pipe, a terminal) counts as synced.
    int sync() const;

  private:
    int number_ = -1;
};

}  // namespace macheps
