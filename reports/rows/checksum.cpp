// SPDX-License-Identifier: Apache-2.0
#include "reports/rows/checksum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace macheps::reports {

namespace {

constexpr std::uint64_t prime1 = 0x9e3779b185ebca87u, prime2 = 0xc2b2ae3d27d4eb4fu, prime3 = 0x165667b19e3779f9u,
                        prime4 = 0x85ebca77c2b2ae63u, prime5 = 0x27d4eb2f165667c5u;

template <class Word>
Word little_endian(const char* at) {
    static_assert(std::endian::native == std::endian::little);
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) { return std::rotl(lane + word * prime2, 31) * prime1; }

}  // namespace

void Checksum::consume(const char* at) {
    for (std::size_t i = 0; i < lanes_.size(); ++i)
        lanes_[i] = round(lanes_[i], little_endian<std::uint64_t>(at + 8 * i));
}

void Checksum::update(std::string_view text) {
    const std::size_t waiting = bytes_ % stripe;
    bytes_ += text.size();
    if (waiting > 0) {
        const std::size_t taken = std::min(stripe - waiting, text.size());
        std::copy_n(text.data(), taken, rest_.data() + waiting);
        text.remove_prefix(taken);
        if (waiting + taken < stripe) return;
        consume(rest_.data());
    }
    for (; text.size() >= stripe; text.remove_prefix(stripe)) consume(text.data());
    std::copy_n(text.data(), text.size(), rest_.data());
}

std::uint64_t Checksum::value() const {
    std::uint64_t hash = prime5;  // start value for the seed 0
    if (bytes_ >= stripe) {
        constexpr int turns[] = {1, 7, 12, 18};
        hash = 0;
        for (std::size_t i = 0; i < lanes_.size(); ++i) hash += std::rotl(lanes_[i], turns[i]);
        for (const std::uint64_t lane : lanes_) hash = (hash ^ round(0, lane)) * prime1 + prime4;
    }
    hash += bytes_;
    std::string_view rest(rest_.data(), bytes_ % stripe);
    for (; rest.size() >= 8; rest.remove_prefix(8)) {
        hash = std::rotl(hash ^ round(0, little_endian<std::uint64_t>(rest.data())), 27) * prime1 + prime4;
    }
    if (rest.size() >= 4) {
        hash = std::rotl(hash ^ little_endian<std::uint32_t>(rest.data()) * prime1, 23) * prime2 + prime3;
        rest.remove_prefix(4);
    }
    for (const char c : rest) hash = std::rotl(hash ^ static_cast<unsigned char>(c) * prime5, 11) * prime1;
    hash = (hash ^ hash >> 33) * prime2;
    hash = (hash ^ hash >> 29) * prime3;
    return hash ^ hash >> 32;
}

std::string to_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace macheps::reports
