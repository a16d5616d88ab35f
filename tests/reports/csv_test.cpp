// SPDX-License-Identifier: Apache-2.0
#include "reports/rows/csv.hpp"

#include "core/error.hpp"
#include "reports/rows/row_parser.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/test.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

namespace csv_test {

using namespace macheps;
using namespace macheps::reports;
using macheps::test::TemporaryFolder;

namespace {

constexpr float infinite = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

std::string text_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const std::filesystem::path& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
}

template <class Row>
std::string text_of_rows(const std::vector<Row>& rows) {
    std::string text;
    for (const Row& row : rows) csv::append_line(text, row);
    return text;
}

const char* awkward[] = {"plain", "with,comma", "with \"quotes\"",    "two\\nlines", "cr\\r",
                         "\"",    "",           "ends with \xc3\xa9", " spaces "};
std::string text(int i) { return awkward[i % std::size(awkward)]; }
float number(int i) {
    constexpr float numbers[] = {0.0f,     -0.0f,     0.1f,           1e-45f,   3.4028235e38f,
                                 infinite, -infinite, 0x1.fffffep-2f, 65504.0f, 1e21f};
    return numbers[i % std::size(numbers)];
}
double wide(int i) {
    constexpr double numbers[] = {0.1, -1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2.2, double(infinite), 1e22};
    return numbers[i % std::size(numbers)];
}
std::uint64_t whole(int i) {
    constexpr std::uint64_t numbers[] = {0, 1, 18446744073709551615u, 1u << 31};
    return numbers[i % std::size(numbers)];
}
std::int64_t integer(int i) {
    constexpr std::int64_t numbers[] = {0, -1, std::numeric_limits<std::int64_t>::min(), 1 << 20};
    return numbers[i % std::size(numbers)];
}

void set(std::string& field, int i) { field = text(i); }
void set(bool& field, int i) { field = i % 2 != 0; }
void set(std::int64_t& field, int i) { field = integer(i); }
void set(std::uint64_t& field, int i) { field = whole(i); }
void set(float& field, int i) { field = number(i); }
void set(double& field, int i) { field = wide(i); }
void set(ExponentBin& field, int i) {
    field.kind = ExponentBin::Kind(i % 4);
    field.exponent = field.kind == ExponentBin::Kind::number ? -149 + i : 0;
}
void set(ExponentBin::Kind& field, int i) { field = ExponentBin::Kind(i % 4); }
template <class Value>
void set(std::optional<Value>& field, int i) {
    if (i % 3 == 0) {
        field.reset();
    } else {
        set(field.emplace(), i);
    }
}

/// Returns rows in which every field has an awkward value, a different one in each row.
template <class Row>
std::vector<Row> awkward_rows() {
    std::vector<Row> rows(12);
    for (int variant = 0; variant < int(rows.size()); ++variant) {
        int i = variant;
        for_each_column<Row>([&](const auto& c) { set(rows[std::size_t(variant)].*c.field, i++); });
    }
    return rows;
}

template <class Row>
void check_round_trip() {
    CAPTURE(Row::file);
    const TemporaryFolder folder;
    const auto path = folder / std::string(Row::file);
    const std::vector<Row> rows = awkward_rows<Row>();
    CsvWriter<Row> writer(path);
    for (const Row& row : rows) writer.append(row);
    writer.flush();
    const std::vector<Row> back = CsvReader<Row>(path).rows();
    CHECK(back == rows);
    // -0 and 0 compare equal, so the text is also compared.
    CHECK(text_of_rows(back) == text_of_rows(rows));
}

}  // namespace

TEST_CASE("every row type survives writing and reading, with awkward values in every field", "[reports][csv]") {
    check_round_trip<RunRow>();
    check_round_trip<StepRow>();
    check_round_trip<EvalRow>();
    check_round_trip<SiteRow>();
    check_round_trip<ExponentRow>();
    check_round_trip<SummaryRow>();
}

TEST_CASE("NaN is written as nan, whatever its sign, and read as NaN", "[reports][csv]") {
    std::string line;
    csv::append_cell(line, -not_a_number);
    csv::append_cell(line, double{not_a_number});
    CHECK(line == "nannan");
    float value = 0;
    CHECK(csv::parse_cell("nan", value));
    CHECK(value != value);
}

TEST_CASE("headers contain the documented columns in the documented order", "[reports][csv]") {
    CHECK(csv::header<RunRow>() ==
          "run,policy,seed,status,steps,tokens,final_loss,best_loss,skipped_steps,diverged_step,seconds,tokens_per_"
          "second,"
          "bytes_params,bytes_grads,bytes_master,bytes_optimizer,bytes_activations,parameters,matmul_formats,"
          "low_linears,asked_linears,stress");
    CHECK(
        csv::header<StepRow>() ==
        "run,policy,seed,step,tokens,loss,baseline_loss,gap,grad_norm,update_norm,lr,loss_scale,growth_tracker,skipped,"
        "overflow_site,underflow,overflow,saturated,lost_updates,update_eff,loss_rounded,update_stagnation,effective_"
        "lr,"
        "grad_cosine,grad_proj,grad_snr_db,grad_cosine_least,grad_least_parameter,moment_stagnation,"
        "first_diverging_site,farthest_site,farthest_distance");
    CHECK(csv::header<EvalRow>() == "run,policy,seed,step,eval_loss,eval_loss_fp32,perplexity,entropy_floor");
    CHECK(csv::header<SiteRow>() ==
          "run,policy,seed,step,site,format,scale_inv_min,scale_inv_max,count,zero_in,underflow,to_subnormal,overflow,"
          "saturated,nan_in,inf_in,amax,amin_nz,mse,sqnr_db,cosine,proj,subnormal_inexact,overflow_rounded,block_flush,"
          "dynamic_range,headroom_bits,rel_err_mean,rel_err_max,bias_rel,scale_age,scale_frozen_steps,"
          "scale_exp_hist");
    CHECK(csv::header<ExponentRow>() == "run,step,site,exponent,count,kind,floor_log2");
    CHECK(
        csv::header<SummaryRow>() ==
        "policy,seeds,loss,gap_mean,gap_ci_low,gap_ci_high,verdict,diverged_step,first_site,skipped_rate,underflow_"
        "rate,"
        "slowdown,memory_ratio,steps,margin,detectable_gap,forced,failed_seeds,static_bytes,activation_bytes,peak_gpu,"
        "relative_peak,loss_spikes,grad_norm_spikes,update_stagnation,update_eff,grad_cosine,grad_proj,stress,sampled_"
        "steps,forward_ranges,"
        "forward_overflow_format,forward_overflow_site,forward_overflow_step,failures");
}

TEST_CASE("a CSV file has its columns in the documented order and numbers with the fewest digits", "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "steps.csv";
    CsvWriter<StepRow> writer(path);
    StepRow row{.run = "a,b.0", .policy = "say \"hi\"", .seed = 7, .step = 1, .tokens = 512};
    row.loss = 0.1, row.gap = -0.0, row.loss_rounded = 0.1f, row.grad_norm = infinite, row.update_norm = not_a_number,
    row.lr = 1e-3f, row.loss_scale = 65536;
    row.skipped = true, row.underflow = 3, row.update_eff = 1.0 / 3;
    writer.append(row);
    writer.flush();
    CHECK(text_of(path) == csv::header<StepRow>() +
                               "\n\"a,b.0\",\"say \"\"hi\"\"\",7,1,512,0.1,,-0,inf,nan,0.001,65536,0,1,,3,0,0,0,"
                               "0.3333333333333333,0.1,,,,,,,,,,,\n");
    const auto bins = folder / "exponents.csv";
    CsvWriter<ExponentRow> exponents(bins);
    exponents.append({.run = "r", .step = 1, .site = "s", .exponent = {.exponent = -24}, .count = 5});
    exponents.append({.run = "r", .step = 1, .site = "s", .exponent = {.kind = ExponentBin::Kind::zero}, .count = 6});
    exponents.append({.run = "r", .step = 1, .site = "s", .exponent = {.kind = ExponentBin::Kind::inf}, .count = 7});
    exponents.append({.run = "r", .step = 1, .site = "s", .exponent = {.kind = ExponentBin::Kind::nan}, .count = 8});
    exponents.flush();
    CHECK(
        text_of(bins) ==
        "run,step,site,exponent,count,kind,floor_log2\nr,1,s,-24,5,,\nr,1,s,zero,6,,\nr,1,s,inf,7,,\nr,1,s,nan,8,,\n");
}

TEST_CASE("a file that is truncated anywhere is read up to its last complete row, and can be continued",
          "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    const std::vector<ExponentRow> rows{
        {.run = "a", .step = 1, .site = "two\\nlines, \"quoted\"", .exponent = {}, .count = 5},
        {.run = "b", .step = 22, .site = "s", .exponent = {.exponent = -9}, .count = 66},
        {.run = "c", .step = 3, .site = "x,y", .exponent = {}, .count = 7}};
    const std::string header = csv::header<ExponentRow>() + '\n', all = header + text_of_rows(rows);
    for (std::size_t cut = 0; cut <= all.size(); ++cut) {
        CAPTURE(cut);
        write_text(path, std::string_view(all).substr(0, cut));
        std::size_t whole = 0;
        while (whole < rows.size() &&
               header.size() + text_of_rows(std::vector(rows.begin(), rows.begin() + long(whole) + 1)).size() <= cut) {
            ++whole;
        }
        const std::vector<ExponentRow> expected(rows.begin(), rows.begin() + long(whole));
        const CsvReader<ExponentRow> reader(path);
        CHECK(reader.rows() == expected);
        const bool is_clean = cut == header.size() + text_of_rows(expected).size();
        CHECK(reader.notes().size() == (is_clean ? 0 : 1));
        CsvWriter<ExponentRow> writer(path);
        writer.append(rows[1]);
        writer.flush();
        CHECK(text_of(path) == header + text_of_rows(expected) + text_of_rows(std::vector{rows[1]}));
    }
}

TEST_CASE("a process that is killed while it writes leaves complete rows", "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        CsvWriter<ExponentRow> writer(path);
        for (std::int64_t step = 0;; ++step) {
            writer.append({.run = "run", .step = step, .site = "block.0.mlp.up:forward.a", .exponent = {}, .count = 1});
            if (step % 7 == 0) writer.flush();
        }
    }
    for (int wait = 0; wait < 2000 && (!std::filesystem::exists(path) || std::filesystem::file_size(path) < 200000);
         ++wait) {
        ::usleep(2000);
    }
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const std::vector<ExponentRow> rows = CsvReader<ExponentRow>(path).rows();
    REQUIRE(rows.size() > 1000);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].step != std::int64_t(i)) FAIL("row " << i << " is step " << rows[i].step);
    }
}

TEST_CASE("a full disk is an error with its own exit code, and leaves complete rows", "[reports][csv]") {
    if (std::filesystem::exists("/dev/full")) {
        try {
            CsvWriter<ExponentRow> writer("/dev/full");
            FAIL("no error");
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::cannot_write);
            CHECK(std::string(error.what()).find("/dev/full: cannot write") == 0);
        }
    }
    // A limit on file sizes makes write(2) write too few bytes and then fail, as on a full disk. The limit applies only
    // to the child process.
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    const ExponentRow row{.run = "run", .step = 12345, .site = "some.site:forward.a", .exponent = {}, .count = 1};
    const std::string line = text_of_rows(std::vector{row}), header = csv::header<ExponentRow>() + '\n';
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlim_t limit = header.size() + 10 * line.size() + line.size() / 2;
        const rlimit files{limit, limit};
        ::setrlimit(RLIMIT_FSIZE, &files);
        int code = 0;
        try {
            CsvWriter<ExponentRow> writer(path);
            for (int i = 0; i < 25; ++i) writer.append(row);
            writer.flush();
        } catch (const Error& error) {
            code = int(error.exit());
        }
        ::_exit(code);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 5);
    CHECK(text_of(path) == header + [&] {
        std::string ten;
        for (int i = 0; i < 10; ++i) ten += line;
        return ten;
    }());
}

TEST_CASE("a missing folder is an error when the writer opens its file", "[reports][csv]") {
    const TemporaryFolder folder;
    try {
        CsvWriter<RunRow> writer(folder / "missing/runs.csv");
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::cannot_write);
    }
}

TEST_CASE("a writer continues an older file with the columns of that file", "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "steps.csv";
    const std::string older =
        "run,policy,seed,step,tokens,loss,baseline_loss,gap,grad_norm,update_norm,lr,loss_scale,growth_tracker,skipped,"
        "overflow_site,underflow,overflow,saturated,lost_updates,update_eff,loss_rounded\n";
    write_text(path, older);
    const StepRow row{.run = "a", .policy = "p", .loss = 2, .update_eff = 0.5, .effective_lr = 0.25};
    {
        CsvWriter<StepRow> writer(path);
        writer.append(row);
    }
    CHECK(text_of(path) == older + "a,p,0,0,0,2,,,0,0,0,1,0,0,,0,0,0,0,0.5,\n");
    StepRow read = CsvReader<StepRow>(path).rows().at(0);
    CHECK_FALSE(read.effective_lr.has_value());
    read.effective_lr = 0.25;
    CHECK(read == row);
    // The older file is refused if its columns are in a different order, or if it lacks a column that never has empty
    // cells.
    for (const char* header : {"run,policy,seed,step,tokens,baseline_loss,gap,grad_norm\n", "policy,run\n"}) {
        write_text(path, header);
        CHECK_THROWS_AS(CsvWriter<StepRow>(path), Error);
        CHECK(text_of(path) == header);
    }
}

TEST_CASE("a writer refuses to continue a file with other columns", "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    write_text(path, "run,step\nr,1\n");
    try {
        CsvWriter<ExponentRow> writer(path);
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::bad_input);
    }
    CHECK(text_of(path) == "run,step\nr,1\n");
}

TEST_CASE("the error about a damaged file names the file, the line and the column", "[reports][csv]") {
    struct Case {
        std::string text, says, why;
    };
    const std::string header = "run,step,site,exponent,count\n";
    const Case cases[] = {
        {"run,step,site,count\n", "no column 'exponent'", "a column is missing"},
        {header + "r,1,s,0,1\nr,x,s,0,1\n", ":3: 'x' is not a valid value for column 'step'",
         "a word where a number should be"},
        {header + "r,1,s,0,-1\n", ":2: '-1' is not a valid value for column 'count'", "a negative count"},
        {header + "r,1,s,0,\n", ":2: '' is not a valid value for column 'count'",
         "an empty cell in a column that is never empty"},
        {header + "r,1,s,1.5,1\n", ":2: '1.5' is not a valid value for column 'exponent'", "a fraction for an integer"},
        {header + "r,1,s,0,1\nr,1,s,50000000,1\n", ":3: '50000000' is not a valid value for column 'exponent'",
         "a histogram would need memory for all exponents up to it"},
        {header + "r,1,s,-2001,1\n", ":2: '-2001'", "one below the minimum"},
        {header + "r,1,s,2001,1\n", ":2: '2001'", "one above the maximum"},
        {header + "r,1,s,-2147483648,1\n", ":2: '-2147483648'", "a number whose absolute value does not fit its type"},
        {header + "r,1,s,none,1\n", ":2: 'none' is not a valid value for column 'exponent'",
         "a word other than zero, inf and nan"},
        {header + "r,99999999999999999999,s,0,1\n", ":2: '99999999999999999999'", "beyond 64 bits"},
        {header + "r,1,s,0\n", ":2: the row has 4 cells, but the header has 5", "a short row"},
        {header + "r,1,s,0,1,9\n", ":2: the row has 6 cells, but the header has 5", "a long row"},
        {header + "r,1,\"s\"x,0,1\n", ":2: the row has a quote in the wrong place", "text after a closing quote"},
        {header + "\"a\nb\",1,s,0,1\nr,?,s,0,1\n", ":4: '?'", "lines inside quotes are counted"},
    };
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    for (const Case& c : cases) {
        CAPTURE(c.why);
        write_text(path, c.text);
        try {
            CsvReader<ExponentRow> reader(path);
            FAIL("no error");
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(error.exit() == Exit::bad_input);
            CHECK(std::string(error.what()).find(c.says) != std::string::npos);
            CHECK(std::string(error.what()).find(path.string()) == 0);
            CHECK(std::string(error.what()).find('\n') == std::string::npos);
        }
    }
    CHECK_THROWS_AS(CsvReader<ExponentRow>(folder / "missing.csv"), Error);
    CHECK_THROWS_AS(CsvReader<ExponentRow>(folder.path()), Error);
}

TEST_CASE("a file without a complete header has no rows and one note", "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    for (const char* text : {"", "r", "run,step,site,exponent,count", "\"run\n"}) {
        CAPTURE(text);
        write_text(path, text);
        const CsvReader<ExponentRow> reader(path);
        CHECK(reader.rows().empty());
        REQUIRE(reader.notes().size() == 1);
        CHECK(reader.notes()[0].find(path.string() + ": the header is incomplete") == 0);
    }
}

TEST_CASE("rows about exponents are read even if the exponent is beyond the range of fp64", "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    write_text(path, "run,step,site,exponent,count\nr,1,s,-2000,1\nr,1,s,-1074,1\nr,1,s,1023,1\nr,1,s,2000,1\n");
    CHECK(CsvReader<ExponentRow>(path).rows().size() == 4);
}

TEST_CASE("spellings of floats that no writer produces are refused", "[reports][csv]") {
    for (const char* text : {"NaN", "infinity", "nan(1)", "0x1p3", " 1", "1 ", "+1", "1e999", "--1", ""}) {
        CAPTURE(text);
        double value = 0;
        CHECK_FALSE(csv::parse_cell(text, value));
    }
}

TEST_CASE("a reader finds columns by name, and accepts other orders, additional columns and CRLF", "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    write_text(path, "count,new_column,run,exponent,step,site\r\n5,\"a,b\",r,zero,1,s\r\n");
    const CsvReader<ExponentRow> reader(path);
    REQUIRE(reader.rows().size() == 1);
    CHECK(reader.rows()[0] ==
          ExponentRow{.run = "r", .step = 1, .site = "s", .exponent = {.kind = ExponentBin::Kind::zero}, .count = 5});
    CHECK(reader.notes().empty());
}

TEST_CASE("the reader of a whole file and the parser of single rows read the same cells", "[reports][csv]") {
    const TemporaryFolder folder;
    const auto path = folder / "exponents.csv";
    const std::string header = "run,step,site,exponent,count";
    for (const char* rows :
         {"r,1,s,zero,5\n", "r,1,s,zero,5\r\n", "r,1,s,-3,5\r\nt,2,s,4,6\n", "\"r\",1,\"s\",zero,\"5\"\r\n",
          "\"a,b\",1,\"c\"\"d\",zero,5\r\n", "\"\",1,,zero,5\n", "\"two\r\nlines\",1,s,zero,5\r\n", "",
          "a\rb,1,s,zero,5\n", "r,1,s,zero,5\r\r\n", "r,1,s,zero\r\n", "r,1,s,zero,5,6\r\n", "r\"\",1,s,zero,5\n",
          "\"r\"x,1,s,zero,5\r\n", "\"r\"\r,1,s,zero,5\n", "r,1,s,none,5\n"}) {
        for (const char* end : {"\n", "\r\n"}) {
            CAPTURE(rows);
            write_text(path, header + end + rows);
            const auto all = [](const auto& read) -> std::optional<std::vector<ExponentRow>> {
                try {
                    return read();
                } catch (const Error&) {
                    return std::nullopt;
                }
            };
            const auto whole = all([&] { return CsvReader<ExponentRow>(path).rows(); });
            const auto single = all([&] {
                std::vector<ExponentRow> list;
                const std::string first = header + (*end == '\r' ? "\r" : "");
                RowParser<ExponentRow>(first, path).parse(rows, [&](ExponentRow row) {
                    list.push_back(std::move(row));
                });
                return list;
            });
            CHECK(whole == single);
        }
    }
}

TEST_CASE("text is escaped so that a cell cannot be a formula or contain line breaks or raw bytes", "[reports][csv]") {
    const auto cell = [](std::string_view text) {
        std::string line;
        csv::append_cell(line, text);
        return line;
    };
    for (const char* formula : {"=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", " =1", "\t=1", "\r=1", "-1:A1",
                                "-1 -x", "-1;=1", "-8:4;", "+1 ", "-1;;2", "@1", "-zero+1"}) {
        CAPTURE(std::string(formula));
        CHECK(cell(formula).find_first_of("'") <= 1);
    }
    for (const char* plain : {"-", "-2", "+1e-3", "-0x1.8p3", "-inf", "block.0.mlp.up", "(- x y)", "a=b", "'=1",
                              "-8:4;-7:12;zero:1", "-127:1;-6:1;0:2", "-1.5 2.25 -0x1p-3", "-inf 1", "-1/3"})
        CHECK(cell(plain) == plain);
    CHECK(cell("a\nb") == "a\\nb");
    CHECK(cell("a,\"b\"") == "\"a,\"\"b\"\"\"");
    CHECK(cell("\x1b[2J\xff") == "\\x1b[2J\\xff");
    CHECK(cell(cell("=1+1")) == cell("=1+1"));  // escaping twice is the same as escaping once
    std::string text;
    REQUIRE(csv::parse_cell("x\x1b[31m\n::error::y", text));
    CHECK(text == "x\\x1b[31m\\n::error::y");
}

}  // namespace csv_test
