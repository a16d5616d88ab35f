// SPDX-License-Identifier: Apache-2.0
// Second implementation of every all-reduce of docs/ranks.md. It computes one element at a time, in doubles. To round
// to the format of the wire, it searches the list of the format's values. It shares nothing with
// experiments/training/run/optimizer/all_reduce.cpp, and gets its settings as the words of a policy file.
//
// fp32 arithmetic may be done in doubles for the following reason. If the sum, product or quotient of two fp32 numbers
// is rounded to 53 bits and then to 24 bits, the result is the same as with one rounding to 24 bits, because
// 53 >= 2 * 24 + 2 (Figueroa 1995).
#pragma once
#include "tests/oracle/rounding_oracle.hpp"

#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace macheps::oracle {

class ReferenceReduce {
  public:
    /// Takes the settings of the section [reduce] of a policy, as text. Missing settings have the defaults of
    /// docs/ranks.md. `wire` is the name of a format.
    explicit ReferenceReduce(std::map<std::string, std::string> words) : words_(std::move(words)) {
        for (const auto& [key, text] : std::map<std::string, std::string>{{"wire", "fp32"},
                                                                          {"order", "ring"},
                                                                          {"start", "1"},
                                                                          {"accumulate", "fp32"},
                                                                          {"average", "before"},
                                                                          {"predivide", "1"},
                                                                          {"by_division", "false"}}) {
            words_.emplace(key, text);
        }
        is_fp32_ = words_.at("wire") == "fp32";
        if (!is_fp32_) wire_ = RoundingOracle(words_.at("wire"));
    }

    std::vector<float> run(const std::vector<std::vector<float>>& parts) const {
        const std::size_t ranks = parts.size(), count = parts[0].size();
        double before = std::stod(words_.at("predivide"));
        if (words_.at("average") == "before") before = double(ranks);
        if (words_.at("average") == "split") {
            long f = 1;
            while (long(ranks) % f == 0 && double(ranks) / double(f) > double(f)) f *= 2;
            before = double(f);
        }
        const double after = double(ranks) / before;
        std::vector<float> out;
        for (std::size_t i = 0; i < count; ++i) {
            std::vector<float> x;
            for (const auto& part : parts) {
                const float sent = wire(part[i]);
                x.push_back(before == 1 ? sent : wire(divided(sent, before)));
            }
            const std::string& order = words_.at("order");
            float sum = 0;
            if (order == "ring") {
                const std::size_t chunk = i / ((count + ranks - 1) / ranks);
                const auto at = [&](std::size_t hop) {
                    return x[(chunk + std::stoul(words_.at("start")) + hop) % ranks];
                };
                sum = at(0);
                for (std::size_t hop = 1; hop < ranks; ++hop) sum = wire(added(sum, at(hop)));
            } else if (order == "tree") {
                std::size_t leaves = 1;
                while (leaves < ranks) leaves *= 2;
                sum = *tree(x, 0, leaves);
            } else if (order == "gather") {
                for (const float part : x)
                    sum = words_.at("accumulate") == "wire" ? wire(added(sum, part)) : added(sum, part);
            } else {
                double exact = 0;
                for (const float part : x) exact += part;
                sum = wire(exact);
            }
            if (after != 1) {
                sum = divided(sum, after);
                if (order != "gather" || words_.at("accumulate") == "wire") sum = wire(sum);
            }
            out.push_back(sum);
        }
        return out;
    }

  private:
    static float added(float a, float b) { return float(double(a) + double(b)); }
    float divided(float x, double by) const {
        if (words_.at("by_division") == "true") return float(double(x) / by);
        return float(double(x) * double(float(1.0 / by)));
    }
    float wire(double x) const {
        if (is_fp32_) return float(x);
        const std::uint64_t code = wire_->code(x, Round::nearest_even, Overflow::nonsaturate) >> wire_->row().padding;
        const std::uint64_t half = std::uint64_t{1} << (wire_->row().width - 1), magnitude = code % half;
        const auto& values = wire_->values();
        const double size = magnitude < values.size()    ? values[magnitude]
                            : magnitude == values.size() ? HUGE_VAL
                                                         : std::nan("");
        return float(code >= half ? -size : size);
    }
    std::optional<float> tree(const std::vector<float>& x, std::size_t first, std::size_t leaves) const {
        if (first >= x.size()) return {};
        if (leaves == 1) return x[first];
        const auto left = tree(x, first, leaves / 2), right = tree(x, first + leaves / 2, leaves / 2);
        return right ? wire(added(*left, *right)) : left;
    }

    std::map<std::string, std::string> words_;
    bool is_fp32_ = false;
    std::optional<RoundingOracle> wire_;
};

}  // namespace macheps::oracle
