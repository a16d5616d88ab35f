// SPDX-License-Identifier: Apache-2.0
#include "core/field_error.hpp"
#include "core/math64.hpp"
#include "core/rng.hpp"
#include "experiments/training/run/data/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace macheps::training {

void keep_part(Batch& batch, std::int64_t part, std::int64_t parts) {
    if (parts == 1) return;
    for (std::vector<std::int32_t>* tokens : {&batch.tokens, &batch.targets}) {
        const auto size = static_cast<std::ptrdiff_t>(tokens->size()) / parts;
        tokens->assign(tokens->begin() + part * size, tokens->begin() + (part + 1) * size);
    }
}

namespace {

constexpr std::uint32_t share_unit = 1u << 16;             // shares are multiples of 2^-16
constexpr std::uint32_t announce_share = share_unit / 16;  // in units of 2^-16
// Weights of the three parts of the chain in units of 2^-16: 0.50, 0.35 and 0.15, rounded to the nearest unit.
constexpr std::uint32_t last_share = 32768, second_share = 22938,
                        global_weight = share_unit - last_share - second_share;
constexpr std::uint64_t language_seed = 0x6d61636865707321;  // fixed: a run's seed changes only the documents

/// Returns shares in units of 2^-16 that are proportional to 1 / rank. The remainder of the division goes to rank 1.
std::vector<std::uint32_t> zipf_shares(std::int64_t ranks) {
    double total = 0;
    for (std::int64_t r = 1; r <= ranks; ++r) total += 1.0 / static_cast<double>(r);
    std::vector<std::uint32_t> shares(static_cast<std::size_t>(ranks));
    std::uint32_t used = 0;
    for (std::int64_t r = 0; r < ranks; ++r) {
        shares[r] = static_cast<std::uint32_t>(share_unit / (total * static_cast<double>(r + 1)));
        used += shares[r];
    }
    shares[0] += share_unit - used;
    return shares;
}

/// The shares divide 2^16 units among their indices. Returns a table that maps each unit to the index that owns it.
std::vector<std::uint16_t> inverse(const std::vector<std::uint32_t>& shares) {
    std::vector<std::uint16_t> owner;
    owner.reserve(share_unit);
    for (std::size_t i = 0; i < shares.size(); ++i) owner.insert(owner.end(), shares[i], static_cast<std::uint16_t>(i));
    return owner;
}

}  // namespace

SyntheticLanguage::SyntheticLanguage(std::int64_t vocabulary) : vocabulary_(vocabulary) {
    if (vocabulary < successors + 1 || vocabulary > 4096) {
        throw FieldError("vocabulary", fmt::format("the synthetic language cannot have {} tokens", vocabulary),
                         fmt::format("use {} to 4096, or pass a text with `data_file`", successors + 1));
    }
    // The successors of a token are the first elements of a random permutation of the tokens 1 .. V-1.
    std::vector<std::int32_t> order(static_cast<std::size_t>(vocabulary - 1));
    for (std::int64_t token = 0; token < vocabulary; ++token) {
        std::iota(order.begin(), order.end(), 1);
        for (std::int64_t i = 0; i < successors; ++i) {
            const std::uint32_t word = random_bits(
                {language_seed, static_cast<std::uint32_t>(token), site_id("language")}, static_cast<std::uint64_t>(i));
            const auto left = static_cast<std::uint64_t>(vocabulary - 1 - i);
            std::swap(order[i], order[i + static_cast<std::int64_t>((word * left) >> 32)]);
            successor_.push_back(order[i]);
        }
    }
    successor_share_ = zipf_shares(successors);
    global_share_ = zipf_shares(vocabulary - 1);
    global_share_.insert(global_share_.begin(), 0);  // token t has global rank t; token 0 has no share
    successor_of_ = inverse(successor_share_);
    global_of_ = inverse(global_share_);
    entropy_cache_.assign(static_cast<std::size_t>(vocabulary * vocabulary), -1.0);
}

/// Returns 2^32 times the probability of `next` at a position where token 0 cannot occur.
std::uint64_t SyntheticLanguage::weight(std::int32_t second, std::int32_t last, std::int32_t next) const {
    std::uint64_t sum = std::uint64_t{global_weight} * global_share_[next];
    for (std::int64_t r = 0; r < successors; ++r) {
        if (successor_[last * successors + r] == next) sum += std::uint64_t{last_share} * successor_share_[r];
        if (successor_[second * successors + r] == next) sum += std::uint64_t{second_share} * successor_share_[r];
    }
    return sum;
}

double SyntheticLanguage::probability(std::int32_t second, std::int32_t last, bool announces, std::int32_t next) const {
    const double announce = announces ? static_cast<double>(announce_share) / share_unit : 0.0;
    if (next == 0) return announce;
    return (1.0 - announce) * (static_cast<double>(weight(second, last, next)) * 0x1p-32);
}

double SyntheticLanguage::entropy(std::int32_t second, std::int32_t last, bool announces) const {
    double& known = entropy_cache_[static_cast<std::size_t>(second * vocabulary_ + last)];
    if (known < 0) {
        double sum = 0;
        for (std::int32_t next = 1; next < vocabulary_; ++next) {
            const double p = static_cast<double>(weight(second, last, next)) * 0x1p-32;
            if (p > 0) sum -= p * math::log(p);
        }
        known = sum;
    }
    if (!announces) return known;
    const double q = static_cast<double>(announce_share) / share_unit;
    return (1 - q) * known - q * math::log(q) - (1 - q) * math::log(1 - q);
}

std::int32_t SyntheticLanguage::draw(std::int32_t second, std::int32_t last, bool announces, std::uint32_t choice,
                                     std::uint32_t word) const {
    if (announces && (choice >> 16) < announce_share) return 0;
    const std::uint32_t part = choice & 0xffff, unit = word & 0xffff;
    if (part < last_share) return successor_[last * successors + successor_of_[unit]];
    if (part < last_share + second_share) return successor_[second * successors + successor_of_[unit]];
    return global_of_[unit];
}

Batch SyntheticLanguage::batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                               std::int64_t context) const {
    const std::int64_t length = context + 1;
    const RngKey key{seed, step, site_id(split == Split::train ? "data.train" : "data.held_out")};
    Batch out;
    std::vector<std::int32_t> document(static_cast<std::size_t>(length));
    double entropy_sum = 0;
    for (std::int64_t sample = 0; sample < batch; ++sample) {
        std::int64_t copying = 0;  // number of tokens of the announced span that are not copied yet
        for (std::int64_t i = 0; i < length; ++i) {
            const PhiloxBlock random =
                random_block(key, static_cast<std::uint64_t>(sample) << 32 | static_cast<std::uint64_t>(i));
            // The two tokens before the start of a document are assumed to be token 1.
            const std::int32_t last = i > 0 ? document[i - 1] : 1, second = i > 1 ? document[i - 2] : 1;
            double entropy_here = 0;
            if (copying > 0) {
                document[i] = document[i - offset];
                --copying;
            } else {
                const bool announces = may_announce(i, length);
                document[i] = draw(second, last, announces, random.word[0], random.word[1]);
                if (document[i] == 0) copying = span;
                entropy_here = entropy(second, last, announces);
            }
            if (i > 0) entropy_sum += entropy_here;  // the first token of a document is never a target
        }
        out.tokens.insert(out.tokens.end(), document.begin(), document.end() - 1);
        out.targets.insert(out.targets.end(), document.begin() + 1, document.end());
    }
    out.entropy_floor = entropy_sum / static_cast<double>(batch * context);
    return out;
}

std::string SyntheticLanguage::describe() const {
    return fmt::format("synthetic language, {} tokens, copied spans of {} from {} back", vocabulary_, span, offset);
}

}  // namespace macheps::training
