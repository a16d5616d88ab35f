// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/sites.hpp"

#include <algorithm>
#include <array>

namespace macheps {

namespace {

using namespace std::string_view_literals;

constexpr std::array linear_slots{"forward.in"sv,     "forward.a"sv,     "forward.b"sv,     "forward.bias"sv,
                                  "forward.out"sv,    "grad.in"sv,       "input_grad.a"sv,  "input_grad.b"sv,
                                  "input_grad.out"sv, "weight_grad.a"sv, "weight_grad.b"sv, "weight_grad.out"sv,
                                  "bias_grad.out"sv};
constexpr std::array product_slots{"forward.a"sv, "forward.b"sv,  "forward.out"sv, "grad.in"sv,  "grad_a.a"sv,
                                   "grad_a.b"sv,  "grad_a.out"sv, "grad_b.a"sv,    "grad_b.b"sv, "grad_b.out"sv};
constexpr std::array scaled_product_slots{"forward.a"sv,  "forward.b"sv,   "forward.out"sv, "forward.scaled"sv,
                                          "grad.in"sv,    "grad.scaled"sv, "grad_a.a"sv,    "grad_a.b"sv,
                                          "grad_a.out"sv, "grad_b.a"sv,    "grad_b.b"sv,    "grad_b.out"sv};
constexpr std::array rms_norm_slots{"forward.normed"sv,  "forward.out"sv, "grad.in"sv, "weight_grad.terms"sv,
                                    "weight_grad.out"sv, "grad.normed"sv, "grad.out"sv};
constexpr std::array rope_slots{"forward.inv_freq"sv, "forward.cos"sv, "forward.sin"sv, "forward.direct"sv,
                                "forward.rotated"sv,  "forward.out"sv, "grad.in"sv,     "grad.direct"sv,
                                "grad.rotated"sv,     "grad.out"sv};
constexpr std::array gated_slots{"forward.activated"sv, "forward.out"sv, "grad.in"sv,
                                 "grad.activated"sv,    "grad.up"sv,     "grad.out"sv};
constexpr std::array elementwise_slots{"forward.out"sv, "grad.in"sv, "grad.out"sv};
constexpr std::array loss_slots{"forward.out"sv, "forward.mean"sv, "grad.out"sv};
constexpr std::array all_parameter_slots{"value"sv, "master"sv, "grad"sv, "moment1"sv, "moment2"sv, "update"sv};

constexpr std::array all_model_names{"gpt2"sv, "llama"sv};

/// Where the brace at `open` closes, or npos.
std::size_t closing_brace(std::string_view pattern, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < pattern.size(); ++i) {
        depth += pattern[i] == '{' ? 1 : pattern[i] == '}' ? -1 : 0;
        if (depth == 0) return i;
    }
    return std::string_view::npos;
}

/// [i] is true when the pattern so far can have consumed the first i characters of the name.
using Reached = std::vector<bool>;

/// Carries the whole set of positions through the pattern at once, so that no pattern takes exponential time.
Reached advance(std::string_view pattern, std::string_view name, Reached reached) {
    for (std::size_t p = 0; p < pattern.size(); ++p) {
        Reached next(name.size() + 1, false);
        const char c = pattern[p];
        const std::size_t close = c == '{' ? closing_brace(pattern, p) : std::string_view::npos;
        if (c == '*') {
            bool any = false;
            for (std::size_t i = 0; i <= name.size(); ++i) next[i] = any = any || reached[i];
        } else if (close != std::string_view::npos) {
            int depth = 0;
            for (std::size_t i = p + 1, start = i; i <= close; ++i) {
                if (i == close || (pattern[i] == ',' && depth == 0)) {
                    const Reached ends = advance(pattern.substr(start, i - start), name, reached);
                    for (std::size_t k = 0; k < ends.size(); ++k) next[k] = next[k] || ends[k];
                    start = i + 1;
                } else {
                    depth += pattern[i] == '{' ? 1 : pattern[i] == '}' ? -1 : 0;
                }
            }
            p = close;
        } else {
            for (std::size_t i = 0; i < name.size(); ++i) next[i + 1] = reached[i] && (c == '?' || c == name[i]);
        }
        reached = std::move(next);
    }
    return reached;
}

}  // namespace

std::vector<std::string_view> slots_of(const Site& site) {
    const auto list = [](const auto& slots) { return std::vector<std::string_view>(slots.begin(), slots.end()); };
    switch (site.kind) {
        case SiteKind::linear:
            return list(linear_slots);
        case SiteKind::product: {
            auto slots = site.scaled ? list(scaled_product_slots) : list(product_slots);
            if (site.grouped) slots.push_back("grad_b.sum");
            return slots;
        }
        case SiteKind::rms_norm:
            return list(rms_norm_slots);
        case SiteKind::rope:
            return list(rope_slots);
        case SiteKind::gated:
            return list(gated_slots);
        case SiteKind::loss:
            return list(loss_slots);
        case SiteKind::elementwise:
            break;
    }
    return list(elementwise_slots);
}

std::span<const std::string_view> model_names() { return all_model_names; }
std::span<const std::string_view> parameter_slots() { return all_parameter_slots; }

std::vector<std::string_view> matmuls_of(const Site& site) {
    switch (site.kind) {
        case SiteKind::linear:
            return {"forward", "input_grad", "weight_grad"};
        case SiteKind::product:
            return {"forward", "grad_a", "grad_b"};
        default:
            return {};
    }
}

bool glob_match(std::string_view pattern, std::string_view name) {
    Reached start(name.size() + 1, false);
    start[0] = true;
    return advance(pattern, name, std::move(start)).back();
}

bool braces_match(std::string_view pattern) {
    int depth = 0;
    for (const char c : pattern) {
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        if (depth < 0) return false;
    }
    return depth == 0;
}

}  // namespace macheps
