// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/vectors.hpp"

#include "tests/json.hpp"

#include <fstream>
#include <stdexcept>

namespace macheps::machine_oracle {
namespace {

using nlohmann::json;

std::uint64_t code(const json& hex) {
    const auto text = hex.get<std::string>();
    std::size_t read = 0;
    const std::uint64_t value = std::stoull(text, &read, 16);
    if (read != text.size()) throw std::runtime_error("not hexadecimal: " + text);
    return value;
}

std::vector<std::uint64_t> codes(const json& line, const char* key) {
    std::vector<std::uint64_t> all;
    if (line.contains(key))
        for (const json& hex : line.at(key)) all.push_back(code(hex));
    return all;
}

Vector vector_of(const json& line) {
    Vector v;
    v.arch = line.at("arch");
    v.instr = line.at("instr");
    v.qual = line.at("qual");
    v.cls = line.at("cls");
    v.status = line.at("status");
    v.gpu = line.value("gpu", "");
    v.row = line.value("row", 0);
    v.a = codes(line, "a");
    v.b = codes(line, "b");
    v.sa = codes(line, "sa");
    v.sb = codes(line, "sb");
    v.c = code(line.at("c"));
    v.any_nan = line.at("d") == "nan";
    v.any_zero = line.at("d") == "zero";
    if (!v.any_nan && !v.any_zero) v.d = code(line.at("d"));
    if (line.contains("alt"))
        for (const auto& other : line.at("alt").items()) v.alt[other.key()] = code(other.value());
    return v;
}

}  // namespace

std::vector<Vector> read_vectors(const std::filesystem::path& file) {
    std::ifstream in(file);
    if (!in) throw std::runtime_error(file.string() + ": cannot be read");
    std::vector<Vector> all;
    int number = 0;
    for (std::string text; std::getline(in, text);) {
        ++number;
        if (text.empty()) continue;
        try {
            all.push_back(vector_of(json::parse(text)));
        } catch (const std::exception& error) {
            throw std::runtime_error(file.string() + ":" + std::to_string(number) + ": " + error.what());
        }
        all.back().line = number;
    }
    return all;
}

}  // namespace macheps::machine_oracle
