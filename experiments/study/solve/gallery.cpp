// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/gallery.hpp"

#include "core/error.hpp"
#include "core/math64.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/print.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/matrix_market.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iterator>

namespace macheps::study {

namespace {

using Numbers = std::span<const double>;

/// Makes a matrix from a formula for its elements.
template <class Element>
Matrix elementwise_matrix(std::int64_t n, Element element) {
    Matrix a(n);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) a(i, j) = element(i, j);
    }
    return a;
}

Matrix uniform_matrix(std::int64_t n, std::uint64_t seed, Numbers) {
    return elementwise_matrix(
        n, [seed](std::int64_t i, std::int64_t j) { return 2 * unit_draw(Operand::a, seed, i, j) - 1; });
}

Matrix randsvd_matrix(std::int64_t n, std::uint64_t seed, Numbers numbers) {
    return random_singular_values(n, seed, numbers[0], numbers.size() > 1 ? static_cast<int>(numbers[1]) : 3);
}

Matrix hilbert_matrix(std::int64_t n, std::uint64_t, Numbers) {
    return elementwise_matrix(n, [](std::int64_t i, std::int64_t j) { return 1 / static_cast<double>(i + j + 1); });
}

Matrix lehmer_matrix(std::int64_t n, std::uint64_t, Numbers) {
    return elementwise_matrix(n, [](std::int64_t i, std::int64_t j) {
        return static_cast<double>(std::min(i, j) + 1) / static_cast<double>(std::max(i, j) + 1);
    });
}

Matrix minij_matrix(std::int64_t n, std::uint64_t, Numbers) {
    return elementwise_matrix(n,
                              [](std::int64_t i, std::int64_t j) { return static_cast<double>(std::min(i, j) + 1); });
}

Matrix moler_matrix(std::int64_t n, std::uint64_t, Numbers) {
    return elementwise_matrix(
        n, [](std::int64_t i, std::int64_t j) { return static_cast<double>(i == j ? i + 1 : std::min(i, j) - 1); });
}

/// Makes Kahan's upper triangular matrix. From the diagonal on, row i is s^i times (1, -c, -c, ...), where s and c are
/// the sine and cosine of the angle.
Matrix kahan_matrix(std::int64_t n, std::uint64_t, Numbers numbers) {
    const double s = math::sin(numbers[0]), c = math::cos(numbers[0]);
    Matrix a(n);
    double power = 1;
    for (std::int64_t i = 0; i < n; ++i, power *= s) {
        a(i, i) = power;
        for (std::int64_t j = i + 1; j < n; ++j) a(i, j) = -c * power;
    }
    return a;
}

Matrix wilkinson_matrix(std::int64_t n, std::uint64_t, Numbers) {
    return elementwise_matrix(n, [n](std::int64_t i, std::int64_t j) {
        if (i == j || j == n - 1) return 1.0;
        return i > j ? -1.0 : 0.0;
    });
}

Matrix tridiagonal_matrix(std::int64_t n, std::uint64_t, Numbers numbers) {
    return elementwise_matrix(n, [numbers](std::int64_t i, std::int64_t j) {
        return j == i - 1 ? numbers[0] : j == i ? numbers[1] : j == i + 1 ? numbers[2] : 0.0;
    });
}

Matrix hplmxp_matrix(std::int64_t n, std::uint64_t seed, Numbers numbers) {
    Matrix a = uniform_matrix(n, seed, numbers);
    for (std::int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < n; ++j) {
            if (j != i) sum += std::fabs(a(i, j));
        }
        a(i, i) = sum;
    }
    return a;
}

constexpr GalleryRow gallery_rows[] = {
    {"randsvd",
     "random, with singular values from 1 to 1/K: randsvd:K,MODE (MODE 1: one large, 2: one small, 3: geometric, "
     "the default, 4: arithmetic)",
     1, 2, randsvd_matrix},
    {"uniform", "each element uniform in [-1, 1)", 0, 0, uniform_matrix},
    {"hilbert", "1/(i+j+1)", 0, 0, hilbert_matrix},
    {"lehmer", "(min+1)/(max+1)", 0, 0, lehmer_matrix},
    {"minij", "min(i,j)+1", 0, 0, minij_matrix},
    {"moler", "min(i,j)-1, i+1 on the diagonal", 0, 0, moler_matrix},
    {"kahan", "upper triangular, with an angle in radians: kahan:1.2", 1, 1, kahan_matrix},
    {"wilkinson", "has the largest growth factor of partial pivoting, 2^(n-1)", 0, 0, wilkinson_matrix},
    {"tridiag", "the numbers below, on and above the diagonal: tridiag:-1,2,-1", 3, 3, tridiagonal_matrix},
    {"hplmxp", "uniform, diagonally dominant: the matrix of the HPL-MxP benchmark", 0, 0, hplmxp_matrix},
};

Error bad_matrix(std::string_view text, std::string what, std::string fix) {
    return Error({.what = std::move(what),
                  .where = fmt::format("--matrix {}", text),
                  .fix = std::move(fix),
                  .exit = Exit::usage});
}

Matrix from_npy(const MatrixChoice& choice) {
    const std::vector<files::StoredArray> arrays = files::read_arrays(choice.path);
    const files::StoredArray array = arrays.empty() ? files::StoredArray{} : arrays.front();
    if (arrays.size() != 1 || array.shape.size() != 2 || array.shape[0] != array.shape[1]) {
        throw Error({.what = "the file does not contain exactly one square matrix",
                     .where = choice.path,
                     .fix = "store one array of shape [n, n]"});
    }
    if (array.shape[0] < 1 || array.shape[0] > max_stored_size) {
        throw Error({.what = fmt::format("the matrix has {} rows", array.shape[0]),
                     .where = choice.path,
                     .fix = fmt::format("use a matrix with 1 to {} rows", max_stored_size)});
    }
    if (!array.format)
        throw Error({.what = fmt::format("elements of type {} are not supported", array.type), .where = choice.path});
    Matrix a(array.shape[0]);
    a.values = values_of(array, *array.format);
    return a;
}

Matrix from_file(const MatrixChoice& choice) {
    Matrix a;
    if (choice.path.ends_with(".npy")) {
        a = from_npy(choice);
    } else {
        files::StoredMatrix stored = files::read_matrix_market(choice.path, max_stored_size);
        a.n = stored.n;
        a.values = std::move(stored.values);
    }
    if (!all_finite(a.values)) {
        throw Error(
            {.what = "an element is not finite", .where = choice.path, .fix = "use a matrix of finite numbers"});
    }
    return a;
}

}  // namespace

std::span<const GalleryRow> gallery() { return gallery_rows; }

std::optional<double> MatrixChoice::asked_condition() const {
    if (name != "randsvd" || numbers.empty()) return std::nullopt;
    return numbers.front();
}

MatrixChoice parse_matrix(std::string_view text, std::optional<double> condition) {
    const std::size_t colon = text.find(':');
    MatrixChoice choice{.text = std::string(text), .name = std::string(text.substr(0, colon))};
    const std::string_view rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
    if (choice.name == "file") {
        if (rest.empty()) throw bad_matrix(text, "the path of the file is missing", "write a path, such as file:a.mtx");
        choice.path = std::string(rest);
        return choice;
    }
    std::vector<std::string_view> names;
    const GalleryRow* row = nullptr;
    for (const GalleryRow& each : gallery_rows) {
        names.push_back(each.name);
        if (each.name == choice.name) row = &each;
    }
    if (row == nullptr) {
        const std::string near = nearest_name(choice.name, names);
        throw bad_matrix(text, fmt::format("unknown matrix '{}'", choice.name),
                         near.empty() ? fmt::format("use one of {}, file:PATH", fmt::join(names, ", "))
                                      : fmt::format("did you mean {}?", near));
    }
    for (std::string_view left = rest; !left.empty();) {
        const std::size_t comma = left.find(',');
        const std::string_view word = left.substr(0, comma);
        const auto number = parse_number(std::string(word));
        if (!number || !std::isfinite(*number)) {
            throw bad_matrix(text, fmt::format("'{}' is not a finite number", word), std::string(row->words));
        }
        choice.numbers.push_back(*number);
        left = comma == std::string_view::npos ? std::string_view{} : left.substr(comma + 1);
    }
    if (choice.name == "randsvd" && choice.numbers.empty() && condition) {
        choice.numbers.push_back(*condition);
        choice.text = fmt::format("randsvd:{}", *condition);
    }
    const auto count = static_cast<int>(choice.numbers.size());
    if (count < row->min_numbers || count > row->max_numbers) {
        throw bad_matrix(text, fmt::format("the name is followed by the wrong number of parameters: {}", count),
                         std::string(row->words));
    }
    if (choice.name == "randsvd") {
        if (!(choice.numbers[0] >= 1))
            throw bad_matrix(text, "the condition number is below 1", "use 1 or more, such as randsvd:1e3");
        const double mode = count > 1 ? choice.numbers[1] : 3;
        if (mode != 1 && mode != 2 && mode != 3 && mode != 4) {
            throw bad_matrix(text, fmt::format("there is no mode {}", mode), std::string(row->words));
        }
    }
    return choice;
}

Matrix make_matrix(const MatrixChoice& choice, std::int64_t n, std::uint64_t seed) {
    if (choice.name == "file") return from_file(choice);
    for (const GalleryRow& row : gallery_rows) {
        if (row.name == choice.name) return row.make(n, seed, choice.numbers);
    }
    throw bad_matrix(choice.text, "unknown matrix", "");
}

double unit_draw(Operand operand, std::uint64_t seed, std::int64_t outer, std::int64_t p) {
    const RngKey key{.seed = seed, .site = site_id(operand == Operand::a ? "gemm.a" : "gemm.b")};
    const PhiloxBlock random =
        random_block(key, static_cast<std::uint64_t>(outer) << 32 | static_cast<std::uint64_t>(p));
    const std::uint64_t first = std::uint64_t{random.word[1]} << 32 | random.word[0];
    return static_cast<double>(first >> 11) * 0x1p-53;
}

std::vector<double> right_hand_side(std::int64_t n, std::uint64_t seed) {
    std::vector<double> b(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) b[static_cast<std::size_t>(i)] = 2 * unit_draw(Operand::b, seed, 0, i) - 1;
    return b;
}

}  // namespace macheps::study
