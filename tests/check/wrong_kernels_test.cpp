// SPDX-License-Identifier: Apache-2.0
// Tests wrong kernels that were written independently of the wrong kernels that `macheps check` simulates. At least 290
// of 300 must fail on the inputs that `make-inputs` writes. The kernels are float loops in made_kernels.cpp and
// made_products.cpp, where each bug is a line.
#include "tests/check/made_sets.hpp"

#include <cstdio>
#include <set>

namespace wrong_kernels_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::test::made;
using namespace macheps::check;

namespace {

struct BugRow {
    /// `bug` may end with a colon and a word that the declaration must contain. If the word is a format, the output
    /// must have this format. `ops` is a list of operations, each with a space before and after it.
    const char *bug, *ops;
};
constexpr const char* sums = " sum mean norm2 logsumexp softmax log_softmax rmsnorm layernorm gemm ";
constexpr const char* everywhere =
    " softmax log_softmax rmsnorm layernorm gelu gelu_tanh silu sigmoid tanh exp swiglu geglu geglu_tanh rope relu "
    "cast "
    "quantize gemm embedding ";
constexpr const char* of_rows = " sum mean max min amax norm2 logsumexp cross_entropy ";
constexpr const char* rounded =
    " mean rmsnorm layernorm softmax log_softmax gelu gelu_tanh silu sigmoid tanh exp swiglu geglu rope gemm ";

constexpr BugRow bugs[] = {
    // Sums.
    {"a tail of 32 left out", sums},
    {"first term left out", sums},
    {"last term twice", sums},
    {"one lane of 32 lost", sums},
    {"every 64th term left out", sums},
    {"the second 32 terms are the first", sums},
    {"sum in fp16", sums},
    {"lanes join in bf16", sums},
    // Misplaced or changed outputs.
    {"every second row is the one before", everywhere},
    {"last 3 columns of the row before", everywhere},
    {"all shifted by an element", everywhere},
    {"one row is the first", everywhere},
    {"blocks of 8 columns reversed", everywhere},
    {"odd columns hold their left neighbour", everywhere},
    {"two elements exchanged", everywhere},
    {"second half of the rows is the first", of_rows},
    {"two elements exchanged", of_rows},
    {"rows beyond 32 are zero", of_rows},
    {"one element NaN", of_rows},
    {"one element 0", of_rows},
    {"all larger by 0.5 %", " sum mean norm2 logsumexp cross_entropy gemm rope gelu "},
    {"one column larger by 1 %", " softmax rmsnorm layernorm gemm swiglu "},
    {"one row smaller by 1 %", " softmax rmsnorm layernorm gemm rope "},
    {"signs lost", " layernorm gemm rope gelu log_softmax tanh "},
    {"statistics of the next row", " softmax log_softmax rmsnorm layernorm sum norm2 "},
    // Roundings of the outputs.
    {"rounded away from zero:bf16", rounded},
    {"rounded away from zero:fp16", rounded},
    {"a bit fewer:bf16", rounded},
    {"a bit fewer:fp16", rounded},
    {"rounded as a coin falls:bf16", rounded},
    {"rounded as a coin falls:fp16", rounded},
    {"rounded away from zero:x = 'fp32'", " cast "},
    {"rounded as a coin falls:x = 'fp32'", " cast "},
    {"a bit fewer:x = 'fp32'", " cast "},
    {"stored as bf16:fp32", " sum mean norm2 softmax log_softmax rmsnorm layernorm gelu silu tanh exp rope gemm "},
    {"stored as fp16:fp32", " sum mean norm2 softmax log_softmax rmsnorm layernorm gelu silu tanh exp rope gemm "},
    {"stored as 14 bits:fp32", " sum mean norm2 softmax log_softmax rmsnorm layernorm gelu silu tanh exp rope gemm "},
    // Means and norms.
    {"mean over n + 1", " mean rmsnorm layernorm "},
    {"mean over a multiple of 32", " mean rmsnorm layernorm "},
    {"1 / n of bf16", " mean rmsnorm layernorm "},
    {"a sum for the mean", " mean rmsnorm layernorm "},
    {"a mean for the sum", " sum norm2 "},
    {"magnitudes summed", " sum "},
    {"no eps", " rmsnorm layernorm "},
    {"eps twice", " rmsnorm layernorm "},
    {"eps 1e-6", " rmsnorm layernorm "},
    {"eps squared", " rmsnorm layernorm "},
    {"eps beside the root", " rmsnorm layernorm "},
    {"the greater of eps and the mean", " rmsnorm layernorm "},
    {"mean of bf16", " layernorm "},
    {"mean not taken away", " layernorm "},
    {"mean not taken away at the end", " layernorm "},
    {"mean taken away", " rmsnorm "},
    {"variance in one pass", " layernorm "},
    {"squares of fp16", " rmsnorm layernorm norm2 "},
    {"magnitudes for squares", " rmsnorm layernorm norm2 "},
    {"root of fp16", " rmsnorm layernorm "},
    {"root for its inverse", " rmsnorm layernorm "},
    {"inverse root of 12 bits", " rmsnorm layernorm "},
    {"normal numbers rounded to fp16", " rmsnorm layernorm "},
    {"1 + gain for gain", " rmsnorm layernorm "},
    {"gain of the first 64 again", " rmsnorm layernorm "},
    {"gain squared", " rmsnorm layernorm "},
    {"gain by the row", " rmsnorm layernorm "},
    {"shift before gain", " layernorm "},
    {"shift taken away", " layernorm "},
    {"1e-6 beside the sum", " norm2 "},
    // Softmax and similar operations.
    {"no maximum", " softmax log_softmax logsumexp cross_entropy "},
    {"maximum of the first 16", " softmax log_softmax logsumexp cross_entropy "},
    {"maximum at least 0", " softmax log_softmax logsumexp "},
    {"2^x for e^x", " softmax log_softmax logsumexp cross_entropy sigmoid silu exp "},
    {"log2 e of bf16", " softmax log_softmax logsumexp cross_entropy sigmoid silu exp "},
    {"e^x of 8 bits", " softmax log_softmax logsumexp cross_entropy sigmoid silu "},
    {"e^x cut off at -10", " softmax exp "},
    {"e^x cut off at -10:fp32", " sigmoid silu "},
    {"logits divided by 1.001", " softmax log_softmax logsumexp cross_entropy "},
    {"blocks join without rescaling", " softmax log_softmax logsumexp cross_entropy "},
    {"padding counts as e^0", " softmax log_softmax logsumexp cross_entropy "},
    {"1e-6 beside the sum", " softmax log_softmax "},
    {"nothing below 1e-4", " softmax "},
    {"times a reciprocal of 12 bits", " softmax "},
    {"log2 for log", " log_softmax logsumexp cross_entropy "},
    {"log of 8 bits", " log_softmax logsumexp cross_entropy "},
    {"at least 1e-3 in the log", " logsumexp log_softmax "},
    {"maximum not added again", " logsumexp "},
    {"maximum of an infinity", " logsumexp "},
    {"maximum and logarithm joined", " softmax log_softmax cross_entropy "},
    {"log of the rounded softmax", " log_softmax "},
    {"log of the softmax", " log_softmax "},
    {"at least -20", " log_softmax "},
    {"target - 1", " cross_entropy "},
    {"target of the next row", " cross_entropy "},
    {"log of a probability of at least 1e-3", " cross_entropy "},
    {"labels smoothed by 0.001", " cross_entropy "},
    {"the log's square added", " cross_entropy "},
    // Maxima and minima.
    {"extreme of the first 64", " max min amax "},
    {"extreme begins at 0", " max min "},
    {"extreme begins at 1e4", " min max "},
    {"extreme begins at 65504", " min max "},
    {"extreme begins at 1e30:bf16", " min max "},
    {"extreme begins at FLT_MAX:fp32", " min max "},
    {"extreme begins at FLT_MIN", " max "},
    {"extreme without the first", " min max amax argmax "},
    {"the first number with its sign", " amax "},
    {"at least 1e-12", " amax "},
    {"extreme passes NaN over", " max min amax "},
    {"extreme is the last rise", " max min amax "},
    {"magnitude of the maximum", " amax "},
    {"at least 0.01", " amax "},
    {"place counted from 1", " argmax "},
    {"place within 32", " argmax "},
    {"place before", " argmax "},
    // Activations.
    {"leaky by 0.01", " relu "},
    {"at most 6", " relu "},
    {"NaN becomes 0", " relu cast quantize "},
    {"a magnitude", " relu "},
    {"nothing below 0.01", " relu "},
    {"erf of x itself", " gelu geglu "},
    {"gelu by a sigmoid", " gelu geglu "},
    {"half left out", " gelu gelu_tanh geglu geglu_tanh "},
    {"nothing below -3", " gelu gelu_tanh geglu geglu_tanh "},
    {"x itself above 2", " gelu geglu "},
    {"erf by a polynomial", " gelu geglu "},
    {"0.0447 for 0.044715", " gelu_tanh geglu_tanh "},
    {"0.8 for its root", " gelu_tanh geglu_tanh "},
    {"a square for the cube", " gelu_tanh geglu_tanh "},
    {"tanh by e^2x, which overflows", " gelu_tanh geglu_tanh tanh "},
    {"tanh by e^-2x, which cancels", " tanh "},
    {"tanh is 1 from 3 on", " gelu_tanh geglu_tanh tanh "},
    {"tanh of 11 bits", " gelu_tanh geglu_tanh tanh "},
    {"sigmoid alone", " silu swiglu "},
    {"silu with 1.1 x", " silu swiglu "},
    {"hard silu", " silu swiglu "},
    {"silu by e^x, which overflows", " silu swiglu "},
    {"sigmoid by tanh, which cancels", " silu swiglu sigmoid "},
    {"sigmoid rounded to fp16", " silu swiglu "},
    {"x itself below 0.1", " tanh "},
    {"hard sigmoid", " sigmoid "},
    {"sigmoid by e^x, which overflows", " sigmoid "},
    {"sigmoid of -x", " sigmoid "},
    {"at most e^10", " exp "},
    {"(1 + x / 1024)^1024", " exp "},
    {"e^x - 1", " exp "},
    {"sign of zero lost", " cast "},
    {"gate without its activation", " swiglu geglu geglu_tanh "},
    {"relu for the gate's activation", " swiglu geglu geglu_tanh "},
    {"gate rounded to fp16", " swiglu geglu geglu_tanh "},
    {"up left out", " swiglu geglu geglu_tanh "},
    {"up of the next column", " swiglu geglu geglu_tanh "},
    {"up with the activation too", " swiglu geglu geglu_tanh "},
    {"1 + up for up", " swiglu geglu geglu_tanh "},
    // Rotations, gathers and quantisers.
    {"tables of the next row", " rope "},
    {"sine of the row before", " rope "},
    {"both halves plus", " rope "},
    {"second half not turned", " rope "},
    {"cos and sin exchanged", " rope "},
    {"tables of 8 bits", " rope "},
    {"tables of fp16", " rope "},
    {"index - 1", " embedding "},
    {"index at most 31", " embedding "},
    {"index of the row before", " embedding "},
    {"times the root of the width", " embedding "},
    {"index 0 is padding", " embedding "},
    {"a row of 8 bits", " embedding "},
    {"scale from the maximum", " quantize "},
    {"scale of the first 64", " quantize "},
    {"scale without the last element", " quantize "},
    {"240 for 448", " quantize "},
    {"256 for 448", " quantize "},
    {"scale not rounded to a power of two:1x128", " quantize "},
    {"scale that is a power of two:tensor", " quantize "},
    {"scale of bf16:tensor", " quantize "},
    {"scale of fp16:tensor", " quantize "},
    {"scale twice", " quantize "},
    {"divided by the decode scale's bf16:tensor", " quantize "},
    {"product of bf16:tensor", " quantize "},
    {"product of fp16:tensor", " quantize "},
    {"nothing below 1", " quantize "},
    {"at most 240", " quantize "},
    // Products.
    {"a tile with the b of its neighbour", " gemm "},
    {"a tile with the next rows of a", " gemm "},
    {"the last column wraps", " gemm "},
    {"a of 4 bits:a = 'fp16'", " gemm "},
    {"a of 8 bits:a = 'fp16'", " gemm "},
    {"b of 11 bits, cut off:a = 'fp32'", " gemm "},
    {"b of 4 bits:a = 'fp16'", " gemm "},
    {"two terms exchanged in b", " gemm "},
    {"magnitudes of b", " gemm "},
    {"split-K: a tile's last slice lost", " gemm "},
    {"split-K: a tile's first slice twice", " gemm "},
    {"accumulators of the tile before", " gemm "},
    {"slices of 64 in fp16", " gemm "},
    {"two slices, each of bf16", " gemm "},
    {"sums of 16 bits", " gemm "},
    {"at most 100", " gemm "},
    {"scales of bf16:bias", " gemm "},
    {"a_scale of the row's twin:bias", " gemm "},
    {"a_scale of the first row:bias", " gemm "},
    {"b_scale of the first 16 columns again:bias", " gemm "},
    {"a_scale squared:bias", " gemm "},
    {"a_scale divides:bias", " gemm "},
    {"b_scale left out of the last row:bias", " gemm "},
    {"bias by the row:bias", " gemm "},
    {"bias of the last column left out:bias", " gemm "},
    {"bias twice:bias", " gemm "},
    {"bias taken away:bias", " gemm "},
    {"activation before the bias:bias", " gemm "},
    {"tanh form for the activation:bias", " gemm "},
    {"relu for the activation:bias", " gemm "},
    {"silu for the activation:bias", " gemm "},
    {"alpha twice:alpha", " gemm "},
    {"c of the next row:alpha", " gemm "},
    {"c of the first row:alpha", " gemm "},
    {"beta squared:alpha", " gemm "},
    {"beta for alpha:alpha", " gemm "},
    {"residual twice:alpha", " gemm "},
    {"the first b for every batch:batches", " gemm "},
    {"the next batch's b:batches", " gemm "},
    {"scale of a's first block everywhere:128x128", " gemm "},
    {"scale of b's block of the next columns:128x128", " gemm "},
    {"block scales of bf16:128x128", " gemm "},
    {"block scales of b left out:128x128", " gemm "},
};

/// A bug and the declaration with which it is tried.
struct WrongKernelCase {
    std::string bug, keys, shape;
    bool operator<(const WrongKernelCase& other) const {
        return std::pair(keys, bug) < std::pair(other.keys, other.bug);
    }
};

std::vector<WrongKernelCase> cases(const std::string& x, const std::string& out) {
    std::set<WrongKernelCase> all;
    for (const BugRow& row : bugs) {
        std::string bug = row.bug, needs;
        // The required word follows the last colon, unless a space follows this colon.
        const std::size_t colon = bug.rfind(':');
        if (colon != std::string::npos && bug[colon + 1] != ' ') needs = bug.substr(colon + 1), bug.resize(colon);
        std::set<std::string_view> taken;
        for (const Plan& plan : plans) {
            if (std::string_view(row.ops).find(fmt::format(" {} ", plan.op)) == std::string_view::npos ||
                taken.contains(plan.op))
                continue;
            const std::string keys = keys_of(plan, x, out);
            const bool is_format = needs == "fp32" || needs == "fp16" || needs == "bf16";
            if (keys.find(is_format ? fmt::format("out = '{}'", needs) : needs) == std::string::npos) continue;
            taken.insert(plan.op);
            all.insert({bug, keys, shape_of(plan)});
        }
    }
    return {all.begin(), all.end()};
}

struct Figures {
    int kernels = 0, missed = 0, missed_on_normal = 0;
};

void run_cases(const std::string& x, const std::string& out, std::size_t step, Figures& figures) {
    std::string of;
    LeastSet set;
    std::optional<Launch> normal;
    std::size_t index = 0;
    for (const WrongKernelCase& one : cases(x, out)) {
        if (index++ % step != 0) continue;
        if (one.keys != of) {
            of = one.keys;
            set = least_set_of(one.keys, one.shape);
            normal = normal_launch(one.keys, one.shape);
        }
        Kernel kernel;
        kernel.bug = one.bug;
        const bool is_caught = std::any_of(set.launches.begin(), set.launches.end(),
                                           [&](const Launch& in) { return is_refused(kernel, in); });
        ++figures.kernels;
        figures.missed += is_caught ? 0 : 1;
        const bool is_caught_on_normal = is_refused(kernel, *normal);
        figures.missed_on_normal += is_caught_on_normal ? 0 : 1;
        if (!is_caught) std::printf("missed: %s (%s)\n", one.bug.c_str(), one.keys.c_str());
        if (!kernel.was_asked()) FAIL_CHECK("no line has the bug: " << one.bug << " (" << one.keys << ")");
    }
}

void report(const Figures& figures) {
    std::printf("%d wrong kernels: %d pass the least sets, %d pass N(0, 1)\n", figures.kernels, figures.missed,
                figures.missed_on_normal);
}

}  // namespace

TEST_CASE("nearly all independently written wrong kernels in bf16 fail on the least sets of inputs", "[check][made]") {
    Figures figures;
    run_cases("bf16", "bf16", 6, figures);
    report(figures);
    CHECK(figures.kernels >= 60);
    CHECK(figures.missed * 30 <= figures.kernels);
}

TEST_CASE("at least 290 of 300 independently written wrong kernels fail on the least sets of inputs",
          "[check][made][slow]") {
    const auto [x, out] =
        GENERATE(table<std::string, std::string>({{"bf16", "bf16"}, {"fp16", "fp32"}, {"fp32", "fp16"}}));
    Figures figures;
    std::printf("%s to %s\n", x.c_str(), out.c_str());
    run_cases(x, out, 1, figures);
    report(figures);
    CHECK(figures.kernels >= 300);
    CHECK(figures.missed * 30 <= figures.kernels);
}

}  // namespace wrong_kernels_test
