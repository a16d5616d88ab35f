// SPDX-License-Identifier: Apache-2.0
#include "core/host/descriptor.hpp"

#include <unistd.h>

#include <cerrno>

namespace macheps {

int Descriptor::close() {
    if (number_ < 0) return 0;
    return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno;
}

int Descriptor::write_all(std::string_view text, std::size_t* done) const {
    std::size_t written = 0;
    int error = 0;
    while (written < text.size() && error == 0) {
        const ssize_t n = ::write(number_, text.data() + written, text.size() - written);
        if (n > 0) {
            written += static_cast<std::size_t>(n);
        } else if (n == 0) {
            error = ENOSPC;
        } else if (errno != EINTR) {
            error = errno;
        }
    }
    if (done != nullptr) *done = written;
    return error;
}

int Descriptor::sync() const {
    while (::fsync(number_) != 0) {
        if (errno == EINVAL || errno == ENOTSUP) return 0;
        if (errno != EINTR) return errno;
    }
    return 0;
}

}  // namespace macheps
