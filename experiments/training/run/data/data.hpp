// SPDX-License-Identifier: Apache-2.0
// Training data: a synthetic language or files of tokens. A batch depends only on the data, the split, the seed and the
// step.
#pragma once
#include "experiments/files/file_bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// Shapes: tokens and targets [batch, context]. The targets are the tokens shifted by one position.
struct Batch {
    std::vector<std::int32_t> tokens, targets;
    double entropy_floor = 0;  ///< mean conditional entropy of the targets in nats; NaN if unknown
};

/// Divides the samples into `parts` equal parts and keeps part number `part`. The entropy floor does not change: it
/// remains the mean over all samples.
void keep_part(Batch& batch, std::int64_t part, std::int64_t parts);

enum class Split : std::uint8_t { train, held_out };

class Data {
  public:
    virtual ~Data() = default;
    virtual Batch batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                        std::int64_t context) const = 0;
    virtual std::int64_t vocabulary() const = 0;
    virtual std::string describe() const = 0;  ///< human-readable
};

/// The synthetic language. Every sample is a fresh document of context + 1 tokens.
///
/// Token 0 announces a copied span: the next `span` tokens repeat the tokens `offset` positions before them, so
/// attention reduces the loss. The other tokens follow an order-2 Markov chain with Zipf-distributed successors. With
/// weight 0.50, the next token is one of the 8 successors of the last token. With weight 0.35, it is one of the 8
/// successors of the second-last token. With weight 0.15, it is any token, Zipf-distributed by its global rank. Token 0
/// has probability 1/16 wherever a whole span fits and `offset` tokens precede it.
///
/// All probabilities are known multiples of 2^-36. The conditional entropy of every token, given all earlier tokens, is
/// therefore known (computed in fp64 with core/math64.hpp). The language itself is fixed; `seed` selects only the
/// documents.
class SyntheticLanguage final : public Data {
  public:
    explicit SyntheticLanguage(std::int64_t vocabulary);
    Batch batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                std::int64_t context) const override;
    std::int64_t vocabulary() const override { return vocabulary_; }
    std::string describe() const override;

    static constexpr std::int64_t offset = 8, span = 6;
    static constexpr std::int64_t successors = 8;

    /// Returns the probability that `next` follows the tokens `second` and `last` while no span is being copied.
    /// `may_announce` is true if token 0 may occur at this position.
    double probability(std::int32_t second, std::int32_t last, bool may_announce, std::int32_t next) const;
    /// Returns the entropy of the next token in nats. The arguments have the same meaning as in probability().
    double entropy(std::int32_t second, std::int32_t last, bool may_announce) const;
    /// Returns true if token 0 may occur at index `position` of a document of `length` tokens.
    static bool may_announce(std::int64_t position, std::int64_t length) {
        return position >= offset && position + span < length;
    }

  private:
    std::int32_t draw(std::int32_t second, std::int32_t last, bool may_announce, std::uint32_t choice,
                      std::uint32_t word) const;
    std::uint64_t weight(std::int32_t second, std::int32_t last, std::int32_t next) const;

    std::int64_t vocabulary_;
    std::vector<std::int32_t> successor_;                  // [vocabulary, successors], sorted by rank
    std::vector<std::uint32_t> successor_share_;           // [successors], sums to 2^16
    std::vector<std::uint32_t> global_share_;              // [vocabulary], sums to 2^16; 0 for token 0
    std::vector<std::uint16_t> successor_of_, global_of_;  // [2^16]: rank or token that owns each unit of 2^-16
    mutable std::vector<double> entropy_cache_;            // [vocabulary, vocabulary]; -1: not computed yet
};

/// Format of a file of tokens.
enum class DataFormat : std::uint8_t {
    automatic,  ///< llmc if the file has its magic number; else nanogpt if the name ends in .bin; else text
    text,       ///< every byte is a token; the vocabulary is 256
    llmc,       ///< a header of 256 int32, then tokens as uint16 (GPT-2) or uint32 (Llama 3)
    nanogpt,    ///< uint16 tokens without a header, as numpy's tofile writes them; meta.pkl is not read
};
std::string_view to_string(DataFormat format);  ///< auto, text, llmc, nanogpt
/// Throws Error (usage) if the name is unknown.
DataFormat parse_data_format(std::string_view name);

/// The tokens of a file. Tokens of several bytes are little-endian. Sources of the formats: karpathy/llm.c
/// dev/data/data_common.py (write_datafile); karpathy/nanoGPT data/shakespeare_char/prepare.py.
class TokenStream {
  public:
    /// Opens a file. Unless it is a text, reads it once to find the largest token. The bytes of a pipe are kept in
    /// memory. Throws Error if the file is missing, empty or truncated, or if its header contradicts its contents. If
    /// possible, the error states the position of the wrong byte.
    static TokenStream open(const std::filesystem::path& path, DataFormat format);
    /// Reads tokens from `bytes`, the contents of a file, as open() does. `bytes` must outlive the stream. `name` is
    /// the file name for errors and for DataFormat::automatic, which examines its ending.
    static TokenStream parse(std::span<const std::byte> bytes, const std::string& name, DataFormat format);

    std::size_t size() const { return size_; }
    DataFormat format() const { return format_; }
    int token_bytes() const { return token_bytes_; }
    /// Returns 256 for a text, else the largest token plus one.
    std::int64_t vocabulary() const { return vocabulary_; }
    const std::string& name() const { return file_.name(); }

    /// Appends `count` tokens to `out`, starting at index `first`. The file must have these tokens. Throws Error if the
    /// file has changed since it was opened and is now too short, or if one of the tokens is outside `vocabulary`.
    void append(std::size_t first, std::size_t count, std::vector<std::int32_t>& out, std::int64_t vocabulary) const;
    /// Throws Error if a token is outside `vocabulary`. The error states the first such token and its byte position.
    void check(std::int64_t vocabulary) const;
    std::string describe() const;  ///< e.g. `train.bin (1000 uint16 tokens of llmc`; the caller adds `)`

  private:
    static TokenStream parse(files::FileBytes file, DataFormat format);
    std::int64_t largest_token() const;
    template <class Visitor>
    void for_each_token(std::size_t first, std::size_t count, Visitor&& visit) const;
    [[noreturn]] void refuse_token(std::size_t i, std::int64_t token, std::int64_t vocabulary) const;

    files::FileBytes file_;
    DataFormat format_ = DataFormat::text;
    int token_bytes_ = 1;
    std::size_t header_bytes_ = 0, size_ = 0;
    std::int64_t vocabulary_ = 256;
};

/// The files and the format given by --data, --val-data and --data-format.
struct DataFiles {
    std::filesystem::path train{};     ///< empty: the synthetic language
    std::filesystem::path held_out{};  ///< empty: the last tenth of `train`
    DataFormat format = DataFormat::automatic;
};

/// Samples from random positions in files of text or tokens.
class TokenFile final : public Data {
  public:
    /// Throws Error if TokenStream rejects a file, or if a split is too short for `context`.
    TokenFile(const DataFiles& files, std::int64_t context);
    Batch batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                std::int64_t context) const override;
    std::int64_t vocabulary() const override;
    std::string describe() const override;
    void check(std::int64_t vocabulary) const;  ///< checks both splits, as TokenStream::check does

  private:
    TokenStream train_;
    std::optional<TokenStream> held_out_;  // none: the last tenth of train_
    std::size_t train_size_ = 0;
};

/// Returns the vocabulary that the files need: 256 for a text, else the largest token plus one.
std::int64_t vocabulary_of(const DataFiles& files);

/// Opens the files, or creates the synthetic language if `files.train` is empty. Throws Error if a token is outside
/// `vocabulary`.
std::unique_ptr<Data> open_data(const DataFiles& files, std::int64_t vocabulary, std::int64_t context);

}  // namespace macheps::training
