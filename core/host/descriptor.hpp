// SPDX-License-Identifier: Apache-2.0
// An open file of the system, closed by itself. Host only.
#pragma once
#include <cstddef>
#include <string_view>
#include <utility>

namespace macheps {

class Descriptor {
  public:
    Descriptor() = default;
    /// Owns `number`; negative: nothing is open.
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) close(), number_ = std::exchange(other.number_, -1);
        return *this;
    }

    explicit operator bool() const { return number_ >= 0; }
    int number() const { return number_; }
    /// Each gives 0, or errno.
    int close();
    /// Writes all of `text`; `done`, where it is asked for, is how much of it was written.
    int write_all(std::string_view text, std::size_t* done = nullptr) const;
    /// Puts what was written onto the disk. What cannot be synced (a pipe, a terminal) needs none.
    int sync() const;

  private:
    int number_ = -1;
};

}  // namespace macheps
