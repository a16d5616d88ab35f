// SPDX-License-Identifier: Apache-2.0
// What the model reads. A batch depends on (seed, step) alone.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace macheps {

/// tokens and targets [batch, context]: targets are the tokens one place on.
struct Batch {
    std::vector<std::int32_t> tokens, targets;
    double entropy_floor = 0;  ///< mean conditional entropy of the targets in nats; NaN where it is not known
};

enum class Split : std::uint8_t { train, held_out };

class Data {
  public:
    virtual ~Data() = default;
    virtual Batch batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                        std::int64_t context) const = 0;
    virtual std::int64_t vocabulary() const = 0;
    virtual std::string describe() const = 0;  ///< for people
};

/// The synthetic language. Every sample is a fresh document of context + 1 tokens.
///
/// Token 0 announces a copied span: the `span` tokens after it repeat what stood `offset` places before them, so that
/// attention pays. Other tokens follow an order-2 Markov chain with Zipf-distributed successors: with weight 0.50 one
/// of the 8 successors of the last token, with 0.35 one of the 8 successors of the last but one, with 0.15 any token by
/// its global rank. Token 0 comes with probability 1/16 wherever a whole span fits and `offset` tokens precede it.
///
/// All probabilities are multiples of 2^-32, so the conditional entropy of every token given its whole past is known
/// exactly (computed in fp64 with core/math64.hpp). The language itself is fixed; `seed` draws documents from it.
class SyntheticLanguage final : public Data {
  public:
    explicit SyntheticLanguage(std::int64_t vocabulary);
    Batch batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                std::int64_t context) const override;
    std::int64_t vocabulary() const override { return vocabulary_; }
    std::string describe() const override;

    static constexpr std::int64_t offset = 8, span = 6;
    static constexpr std::int64_t successors = 8;

    /// Probability of `next` after (second, last) where no span is being copied. `may_announce`: token 0 is possible
    /// here.
    double probability(std::int32_t second, std::int32_t last, bool may_announce, std::int32_t next) const;
    /// Entropy of that distribution, in nats.
    double entropy(std::int32_t second, std::int32_t last, bool may_announce) const;
    /// True where token 0 may come as token `position` of a document of `length` tokens.
    static bool may_announce(std::int64_t position, std::int64_t length) {
        return position >= offset && position + span < length;
    }

  private:
    std::int32_t draw(std::int32_t second, std::int32_t last, bool may_announce, std::uint32_t choice,
                      std::uint32_t word) const;
    std::uint64_t weight(std::int32_t second, std::int32_t last, std::int32_t next) const;

    std::int64_t vocabulary_;
    std::vector<std::int32_t> successor_;                  // [vocabulary, successors] by rank
    std::vector<std::uint32_t> successor_share_;           // [successors], sums to 2^16
    std::vector<std::uint32_t> global_share_;              // [vocabulary], sums to 2^16; token 0 has none
    std::vector<std::uint16_t> successor_of_, global_of_;  // inverse tables: share unit -> rank, token
    mutable std::vector<double> entropy_cache_;            // [vocabulary, vocabulary]; -1 where not yet known
};

/// A text file, read as bytes: vocabulary 256. The last tenth is held out.
class TextFile final : public Data {
  public:
    /// Throws Error for a file that is missing, unreadable, or too short for `context` in either split.
    TextFile(const std::filesystem::path& path, std::int64_t context);
    Batch batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                std::int64_t context) const override;
    std::int64_t vocabulary() const override { return 256; }
    std::string describe() const override;

  private:
    std::filesystem::path path_;
    std::vector<unsigned char> bytes_;
    std::size_t train_bytes_ = 0;
};

}  // namespace macheps
