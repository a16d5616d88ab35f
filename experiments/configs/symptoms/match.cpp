// SPDX-License-Identifier: Apache-2.0
// The text is split into words and marks. A mark is a number, a path, a quoted name or a dtype, so it may differ
// between two occurrences of the same message. Three comparisons are made, from strict to tolerant: a text of a symptom
// occurs in the given text; consecutive words and marks are equal; most words are equal, in any order.
#include "experiments/configs/symptoms/match.hpp"
#include "core/text/colour_codes.hpp"
#include "core/text/nearest_name.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace macheps::configs {

namespace {

/// Largest number of tokens in a sentence, and largest share of numbers. Other texts are logs, in which the words of a
/// sentence occur by chance.
constexpr std::size_t max_sentence_tokens = 60;
constexpr double max_sentence_numbers = 0.3;
/// Number of tokens of the given text that are compared with titles.
constexpr std::size_t max_nearest_tokens = 1000;
/// Smallest number of consecutive words in common, and how many of them must not be common words (is_common_word).
constexpr std::size_t min_run_words = 4, min_run_content = 3;
/// Smallest share of both texts that a shorter run must cover. A run must cover short texts completely.
constexpr double min_run_share = 0.6;
constexpr std::size_t short_text_tokens = 5;
/// Smallest share of the words of a symptom's text that a sentence must contain, and the smallest number. A sentence
/// must contain all words of a short text.
constexpr double min_words_share = 0.75;
constexpr std::size_t min_words = 2, short_text_words = 4;

enum class TokenKind : std::uint8_t { word, number, path, quoted, dtype };

struct Token {
    std::string text;  ///< in lower case
    TokenKind kind = TokenKind::word;
};
using Tokens = std::vector<Token>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
/// Bytes of characters outside ASCII count as letters.
bool is_word_char(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

/// Returns the text in lower case without colour codes of terminals, and with one blank for each group of blanks and
/// line breaks.
std::string normalised(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (const char c : without_colour_codes(text)) {
        if (!is_space(c)) {
            result += lower(c);
        } else if (!result.empty() && result.back() != ' ') {
            result += ' ';
        }
    }
    if (!result.empty() && result.back() == ' ') result.pop_back();
    return result;
}

bool contains(std::initializer_list<std::string_view> list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_dtype(std::string_view word) {
    for (const std::string_view prefix : {"torch.", "c10::", "jnp.", "at::"}) {
        if (word.starts_with(prefix)) word.remove_prefix(prefix.size());
    }
    return word.starts_with("float8") ||
           contains({"fp64", "fp32", "fp16", "bf16", "fp8", "fp4", "tf32", "float64", "float32", "float16", "bfloat16",
                     "float", "double", "half", "int8", "uint8", "int32", "int64"},
                    word);
}

bool is_number(std::string_view word) {
    if (word.starts_with("rank")) word.remove_prefix(4);
    if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
    return !word.empty() && is_digit(word.front());
}

bool is_path(std::string_view word) {
    if (std::count_if(word.begin(), word.end(), [](char c) { return c == '/' || c == '\\'; }) >= 2) return true;
    const std::string_view ending = word.substr(std::min(word.rfind('.'), word.size()));
    return contains({".py", ".json", ".yaml", ".yml", ".cpp", ".cu", ".so", ".pt", ".safetensors", ".png", ".jpg"},
                    ending);
}

TokenKind kind_of(std::string_view word, bool is_quoted) {
    if (is_dtype(word)) return TokenKind::dtype;
    if (is_number(word)) return TokenKind::number;
    if (is_path(word)) return TokenKind::path;
    return is_quoted ? TokenKind::quoted : TokenKind::word;
}

bool is_quote(char c) { return c == '\'' || c == '"' || c == '`'; }

/// Splits a normalised text. Inside a token, the characters . / \ - ' and the characters :: may join two word
/// characters.
Tokens tokens_of(std::string_view text) {
    Tokens tokens;
    const auto is_word_at = [&](std::size_t i) { return i < text.size() && is_word_char(text[i]); };
    for (std::size_t i = 0; i < text.size();) {
        const bool is_sign = (text[i] == '-' || text[i] == '+') && i + 1 < text.size() && is_digit(text[i + 1]) &&
                             (i == 0 || !is_word_char(text[i - 1]));
        const bool is_root = text[i] == '/' && is_word_at(i + 1);
        if (!is_word_char(text[i]) && !is_sign && !is_root) {
            ++i;
            continue;
        }
        const std::size_t first = i++;
        while (i < text.size()) {
            if (is_word_char(text[i])) {
                ++i;
            } else if (std::string_view("./\\-'").find(text[i]) != std::string_view::npos && is_word_at(i + 1)) {
                i += 2;
            } else if (text.substr(i, 2) == "::" && is_word_at(i + 2)) {
                i += 3;
            } else {
                break;
            }
        }
        const std::string_view word = text.substr(first, i - first);
        const bool is_quoted = first > 0 && i < text.size() && is_quote(text[first - 1]) && text[i] == text[first - 1];
        tokens.push_back({std::string(word), kind_of(word, is_quoted)});
    }
    return tokens;
}

/// Words that occur in any sentence.
bool is_common_word(std::string_view word) {
    return contains({"a",      "an",     "the",    "of",   "to",    "in",   "on",    "at",   "for",   "from",   "with",
                     "and",    "or",     "is",     "are",  "was",   "were", "be",    "been", "it",    "its",    "this",
                     "that",   "as",     "by",     "if",   "my",    "our",  "your",  "i",    "we",    "you",    "do",
                     "does",   "did",    "has",    "have", "had",   "will", "would", "can",  "could", "should", "must",
                     "but",    "so",     "than",   "then", "there", "here", "when",  "why",  "how",   "what",   "which",
                     "after",  "before", "during", "only", "just",  "very", "while", "s",    "t",     "not",    "no",
                     "please", "also",   "get",    "gets", "all",   "any",  "me",    "am",   "since", "because"},
                    word);
}

bool is_same(const Token& a, const Token& b) { return a.text == b.text; }
bool is_similar(const Token& a, const Token& b) {
    return is_same(a, b) || (a.kind == b.kind && a.kind != TokenKind::word);
}
/// Words and quoted names carry the meaning of a message. Other marks differ between occurrences.
bool is_literal(const Token& token) { return token.kind == TokenKind::word || token.kind == TokenKind::quoted; }

/// A text of a symptom, prepared for comparison.
struct Prepared {
    const SymptomRow* row = nullptr;
    std::string_view text;
    std::string plain;  ///< normalised
    Tokens tokens{};
    std::vector<bool> is_content{};  ///< for each token: a literal that is not a common word
    std::size_t required = 0;        ///< number of such tokens that a short run is compared with
};

Prepared prepare(const SymptomRow* row, std::string_view text) {
    Prepared prepared{.row = row, .text = text, .plain = normalised(text)};
    prepared.tokens = tokens_of(prepared.plain);
    const auto words = std::count_if(prepared.tokens.begin(), prepared.tokens.end(),
                                     [](const Token& token) { return token.kind == TokenKind::word; });
    for (const Token& token : prepared.tokens) {
        const bool is_content = is_literal(token) && !is_common_word(token.text);
        prepared.is_content.push_back(is_content);
        // Quoted names may differ, unless the text has hardly any other words.
        const bool may_differ = token.kind == TokenKind::quoted && words >= 2;
        prepared.required += is_content && !may_differ ? 1 : 0;
    }
    return prepared;
}

std::vector<Prepared> prepared_texts() {
    std::vector<Prepared> all;
    for (const SymptomRow* row : symptom_rows()) {
        for (const std::string_view text : row->texts()) all.push_back(prepare(row, text));
    }
    return all;
}

std::string text_of(const Tokens& tokens, std::size_t first, std::size_t count) {
    std::string text;
    for (std::size_t i = first; i < first + count; ++i) text += (text.empty() ? "" : " ") + tokens[i].text;
    return text;
}

// --- the text of a symptom occurs in the given text

/// Returns whether no word or number of `text` continues across the ends of the part [first, end).
bool has_ends(std::string_view text, std::size_t first, std::size_t end) {
    if (first > 0 && is_word_char(text[first]) && is_word_char(text[first - 1])) return false;
    if (end == text.size() || !is_word_char(text[end - 1])) return true;
    const bool has_fraction =
        is_digit(text[end - 1]) && text[end] == '.' && end + 1 < text.size() && is_digit(text[end + 1]);
    return !is_word_char(text[end]) && !has_fraction;
}

bool occurs(const Prepared& wanted, std::string_view text) {
    for (std::size_t at = text.find(wanted.plain); at != text.npos; at = text.find(wanted.plain, at + 1)) {
        if (has_ends(text, at, at + wanted.plain.size())) return true;
    }
    return false;
}

// --- consecutive words are equal

/// Consecutive tokens in common: `count` tokens from `given` in the given text and from `wanted` in a symptom's text.
struct Run {
    std::size_t given = 0, wanted = 0, count = 0;
    std::size_t words = 0, content = 0, marks = 0;  ///< equal words, those that are not common, equal marks
};

/// Extends a pair of equal words in both directions.
Run run_around(const Tokens& given, std::size_t g, const Prepared& text, std::size_t w) {
    const Tokens& wanted = text.tokens;
    while (g > 0 && w > 0 && is_similar(given[g - 1], wanted[w - 1])) --g, --w;
    Run run{.given = g, .wanted = w};
    for (; g < given.size() && w < wanted.size() && is_similar(given[g], wanted[w]); ++g, ++w) {
        ++run.count;
        if (!is_same(given[g], wanted[w])) continue;
        if (!is_literal(wanted[w])) {
            ++run.marks;
            continue;
        }
        ++run.words;
        if (text.is_content[w]) ++run.content;
    }
    return run;
}

bool is_enough(const Run& run, const Tokens& given, const Prepared& text) {
    if (run.words >= min_run_words && run.content >= min_run_content) return true;
    const std::size_t wanted = text.tokens.size();
    const double share = wanted <= short_text_tokens ? 1 : min_run_share;
    return run.count >= 2 && run.content >= 1 && double(run.content) >= share * double(text.required) &&
           double(run.count) >= share * double(wanted) && double(run.count) >= min_run_share * double(given.size());
}

/// Returns the best run of each text, or a run of 0 tokens if no run is long enough.
std::vector<Run> best_runs(const Tokens& given, const std::vector<Prepared>& texts) {
    std::vector<Run> best(texts.size());
    std::unordered_map<std::string_view, std::vector<std::pair<std::size_t, std::size_t>>> places;
    for (std::size_t t = 0; t < texts.size(); ++t) {
        for (std::size_t w = 0; w < texts[t].tokens.size(); ++w) {
            const Token& token = texts[t].tokens[w];
            if (is_literal(token)) places[token.text].emplace_back(t, w);
        }
    }
    for (std::size_t g = 0; g < given.size(); ++g) {
        const auto found = places.find(given[g].text);
        if (found == places.end()) continue;
        for (const auto& [t, w] : found->second) {
            const Tokens& wanted = texts[t].tokens;
            // This run was already found at the previous word.
            if (g > 0 && w > 0 && is_literal(wanted[w - 1]) && is_same(given[g - 1], wanted[w - 1])) continue;
            const Run run = run_around(given, g, texts[t], w);
            const bool is_better = std::pair(run.words, run.marks) > std::pair(best[t].words, best[t].marks);
            if (is_better && is_enough(run, given, texts[t])) best[t] = run;
        }
    }
    return best;
}

// --- most words are equal

/// Returns the stem of a word, so that forms such as "decreases" and "decreasing" are equal.
std::string stem(std::string word) {
    const auto cut = [&](std::string_view ending) {
        if (word.size() < ending.size() + 3 || !word.ends_with(ending)) return false;
        word.resize(word.size() - ending.size());
        return true;
    };
    if (!cut("ing") && !cut("ed") && !cut("es") && !word.ends_with("ss")) cut("s");
    cut("e");
    return word == "grad" ? "gradient" : word;
}

/// Returns the numbers and the stems of the words that carry a meaning, and "not" for each kind of negation. Parts of a
/// name such as grad_norm are separate words.
std::set<std::string> stems_of(const Tokens& tokens) {
    std::set<std::string> stems;
    for (const Token& token : tokens) {
        if (token.kind == TokenKind::path) continue;
        if (token.text.ends_with("n't") || contains({"not", "never", "cannot", "without"}, token.text)) {
            stems.insert("not");
            continue;
        }
        for (std::size_t first = 0; first < token.text.size();) {
            const std::size_t end = std::min(token.text.find('_', first), token.text.size());
            const std::string part = token.text.substr(first, end - first);
            if (!part.empty() && !is_common_word(part)) stems.insert(stem(part));
            first = end + 1;
        }
    }
    return stems;
}

bool is_sentence(const Tokens& tokens) {
    const auto numbers =
        std::count_if(tokens.begin(), tokens.end(), [](const Token& token) { return token.kind == TokenKind::number; });
    return tokens.size() <= max_sentence_tokens && double(numbers) <= max_sentence_numbers * double(tokens.size());
}

std::vector<std::string> common_stems(const std::set<std::string>& a, const std::set<std::string>& b) {
    std::vector<std::string> common;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
    return common;
}

std::optional<SymptomMatch> words_match(const std::set<std::string>& given, const Prepared& wanted) {
    const std::set<std::string> stems = stems_of(wanted.tokens);
    const std::vector<std::string> common = common_stems(given, stems);
    const double share = stems.size() <= short_text_words ? 1 : min_words_share;
    if (common.size() < min_words || double(common.size()) < share * double(stems.size())) return {};
    if (given.contains("not") && !stems.contains("not")) return {};  // the sentence may state the opposite
    std::string matched;
    for (const std::string& word : common) matched += (matched.empty() ? "" : " ") + word;
    return SymptomMatch{.row = wanted.row,
                        .kind = SymptomMatchKind::words,
                        .text = wanted.text,
                        .matched = std::move(matched),
                        .words = common.size()};
}

// --- all comparisons

bool is_better(const SymptomMatch& a, const SymptomMatch& b) {
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.words != b.words) return a.words > b.words;
    return a.same_marks > b.same_marks;
}

/// Returns whether `better` matches a part of the text that contains the part of `match`, with more words.
bool covers(const SymptomMatch& better, const SymptomMatch& match) {
    return match.count > 0 && better.words > match.words && better.first <= match.first &&
           match.first + match.count <= better.first + better.count;
}

/// The best match of each symptom, in the order of the symptoms.
class BestMatches {
  public:
    void add(SymptomMatch match) {
        for (SymptomMatch& known : matches_) {
            if (known.row != match.row) continue;
            if (is_better(match, known)) known = std::move(match);
            return;
        }
        matches_.push_back(std::move(match));
    }
    bool empty() const { return matches_.empty(); }
    std::vector<SymptomMatch> best(std::size_t most) && {
        std::stable_sort(matches_.begin(), matches_.end(), is_better);
        const std::vector<SymptomMatch> all = matches_;
        std::erase_if(matches_, [&](const SymptomMatch& match) {
            return std::any_of(all.begin(), all.end(), [&](const SymptomMatch& other) { return covers(other, match); });
        });
        if (matches_.size() > most) matches_.resize(most);
        return std::move(matches_);
    }

  private:
    std::vector<SymptomMatch> matches_;
};

}  // namespace

std::string_view to_string(SymptomMatchKind kind) {
    constexpr std::array<std::string_view, 3> words{"exact", "run", "words"};
    return words[static_cast<std::size_t>(kind)];
}

std::vector<SymptomMatch> match_symptoms(std::string_view text, std::size_t most) {
    const std::string plain = normalised(text);
    const Tokens given = tokens_of(plain);
    const std::vector<Prepared> texts = prepared_texts();
    const std::vector<Run> runs = best_runs(given, texts);
    BestMatches matches;
    for (std::size_t t = 0; t < texts.size(); ++t) {
        const bool is_exact = occurs(texts[t], plain);
        if (!is_exact && runs[t].count == 0) continue;
        matches.add({.row = texts[t].row,
                     .kind = is_exact ? SymptomMatchKind::exact : SymptomMatchKind::run,
                     .text = texts[t].text,
                     .matched = is_exact ? std::string(texts[t].text) : text_of(given, runs[t].given, runs[t].count),
                     .first = runs[t].given,
                     .count = runs[t].count,
                     .words = is_exact ? texts[t].tokens.size() : runs[t].words,
                     .same_marks = runs[t].marks});
    }
    if (matches.empty() && is_sentence(given)) {
        const std::set<std::string> stems = stems_of(given);
        for (const Prepared& wanted : texts) {
            if (auto match = words_match(stems, wanted)) matches.add(std::move(*match));
        }
    }
    return std::move(matches).best(most);
}

std::vector<const SymptomRow*> nearest_symptoms(std::string_view text, std::size_t count) {
    Tokens tokens = tokens_of(normalised(text));
    tokens.resize(std::min(tokens.size(), max_nearest_tokens));
    const std::set<std::string> given = stems_of(tokens);
    std::multimap<std::size_t, const SymptomRow*, std::greater<>> by_words;
    for (const SymptomRow* row : symptom_rows()) {
        std::set<std::string> stems = stems_of(tokens_of(normalised(row->title)));
        for (const std::string_view each : row->texts()) stems.merge(stems_of(tokens_of(normalised(each))));
        by_words.emplace(common_stems(given, stems).size(), row);
    }
    std::vector<const SymptomRow*> nearest;
    for (const auto& [words, row] : by_words) {
        if (words == 0 || nearest.size() == count) break;
        nearest.push_back(row);
    }
    return nearest;
}

}  // namespace macheps::configs
