// SPDX-License-Identifier: Apache-2.0
// Finds the order of summation of emulated matmuls from their results alone, and compares it with the expected order.
#include "emulation/matmul/reveal.hpp"

#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace reveal_test {

using namespace macheps;

namespace {

/// Adds a node to the tree and returns it: the sum of the node `first` and the terms [from, to). If `first` is
/// negative, the sum has only the terms. A sum of one operand is that operand, and no node is added.
int add(SumTree& tree, int first, int from, int to) {
    std::vector<int> children;
    if (first >= 0) children.push_back(first);
    for (int i = from; i < to; ++i) children.push_back(i);
    if (children.size() == 1) return children.front();
    tree.sums.push_back(children);
    return tree.terms + static_cast<int>(tree.sums.size()) - 1;
}

/// Adds a chain over the terms [from, to): each step adds `width` terms to the previous sum. Returns the last node.
int chain(SumTree& tree, int width, int from, int to) {
    int node = -1;
    for (int i = from; i < to; i += width) node = add(tree, node, i, std::min(i + width, to));
    return node;
}

/// Returns a tree of chains of `length` terms, whose sums are added one after another. Results do not show which
/// operand of an addition is the first.
SumTree joined_chains(int terms, int width, int length) {
    SumTree tree{.terms = terms};
    int node = -1;
    for (int i = 0; i < terms; i += length) {
        const int piece = chain(tree, width, i, std::min(i + length, terms));
        if (node >= 0) {
            tree.sums.push_back({node, piece});
            node = tree.terms + static_cast<int>(tree.sums.size()) - 1;
        } else {
            node = piece;
        }
    }
    return tree;
}

/// Adds a tree over the terms [from, to) that is split at the largest power of two below the number of terms. Returns
/// its root.
int halves(SumTree& tree, int from, int to) {
    if (to - from == 1) return from;
    int half = 1;
    while (2 * half < to - from) half *= 2;
    const int left = halves(tree, from, from + half), right = halves(tree, from + half, to);
    tree.sums.push_back({left, right});
    return tree.terms + static_cast<int>(tree.sums.size()) - 1;
}

/// Returns the tree in brackets. This text does not depend on how the sums are numbered.
std::string shape(const SumTree& tree) { return tree_brackets(tree); }

SumTree chain_of(int terms, int width) {
    SumTree tree{.terms = terms};
    chain(tree, width, 0, terms);
    return tree;
}

MatmulRule rule_of(std::string_view machine) {
    const Machine* found = find_machine(machine);
    REQUIRE(found != nullptr);
    return {.machine = found};
}

SumTree revealed(const MatmulRule& rule, const Format& a, const Format& b, int terms) {
    CpuBackend backend(1);
    const PairSizes sizes = matmul_pair_sizes(backend, rule, a, b, terms);
    SumTree tree = reveal_tree(terms, sizes);
    verify_tree(tree, sizes, 4096);
    return tree;
}

}  // namespace

TEST_CASE("the tree that is found for a matmul shows the steps of its machine", "[emulation][reveal]") {
    struct Case {
        const char* machine;
        Format a, b;
        int terms, width;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"fp32.chain", fp32, fp32, 100, 1, "one fma per term"},
             {"fp32.chain", bf16, bf16, 33, 1, "on other operands"},
             {"fp16.chain", fp16, fp16, 70, 1, "in fp16"},
             {"bf16.chain", bf16, bf16, 70, 1, "in bf16"},
             {"sm70.mma.fp16", fp16, fp16, 64, 4, "Volta: 5 ways"},
             {"sm75.mma.fp16", fp16, fp16, 64, 8, "Turing: 9 ways"},
             {"sm80.mma.fp16", fp16, fp16, 128, 8, "Ampere: 9 ways"},
             {"sm80.mma.fp16.acc16", fp16, fp16, 128, 8, "with an fp16 accumulator"},
             {"sm80.mma.bf16", bf16, bf16, 64, 8, "in bf16"},
             {"sm80.mma.tf32", tf32, tf32, 64, 4, "tf32: 5 ways"},
             {"sm89.mma.fp8", e4m3fn, e4m3fn, 128, 16, "Ada fp8: 17 ways, two steps in an instruction"},
             {"sm90.mma.fp16", fp16, fp16, 128, 16, "Hopper: 17 ways"},
             {"sm90.wgmma.fp16", fp16, fp16, 128, 16, "wgmma: 17 ways"},
             {"sm90.wgmma.tf32", tf32, tf32, 64, 8, "9 ways"},
             {"sm90.wgmma.fp8", e4m3fn, e4m3fn, 256, 32, "wgmma fp8: 33 ways"},
             {"sm90.wgmma.fp8", e5m2, e4m3fn, 256, 32, "other operands"},
             {"sm90.wgmma.fp8.acc16", e4m3fn, e4m3fn, 256, 32, "fp16 results"},
             {"sm100.tcgen05.fp8", e4m3fn, e4m3fn, 256, 32, "Blackwell fp8"},
             {"sm100.tcgen05.mxfp8", e4m3fn, e4m3fn, 128, 32, "block-scaled"},
             {"sm120.mma.f8f6f4", e5m2, e2m1fn, 128, 32, "fp8 and fp4"},
             {"fp32.kahan", fp32, fp32, 64, 1, "the masks erase the compensation"},
             {"cdna3.mfma.fp16", fp16, fp16, 64, 8, "CDNA3"},
             {"cdna3.mfma.fp8", e4m3fnuz, e4m3fnuz, 128, 16, "CDNA3 fp8"},
             {"cdna.mfma.fp32", fp32, fp32, 64, 1, "AMD's fp32"},
             {"sm90.wgmma.fp8", e4m3fn, e4m3fn, 90, 32, "a last instruction that is not full"}}) {
        CAPTURE(c.machine, c.why);
        const SumTree tree = revealed(rule_of(c.machine), c.a, c.b, c.terms);
        CHECK(shape(tree) == shape(chain_of(c.terms, c.width)));
        CHECK(tree.is_chain());
    }
}

TEST_CASE("the tree of pairwise sums is balanced", "[emulation][reveal]") {
    for (const int terms : {1, 2, 3, 64, 100, 128}) {
        CAPTURE(terms);
        const SumTree tree = revealed(rule_of("fp32.pairwise"), fp32, fp32, terms);
        SumTree expected{.terms = terms};
        halves(expected, 0, terms);
        CHECK(shape(tree) == shape(expected));
        CHECK((tree.is_balanced() || terms == 3 || terms == 100));
    }
    // MI200 adds products in pairs, then pairs of these sums, then C.
    const SumTree tree = revealed(rule_of("cdna2.mfma.fp16"), fp16, fp16, 12);
    CHECK(shape(tree) == "((((0 1) (2 3)) ((4 5) (6 7))) ((8 9) (10 11)))\n");
}

TEST_CASE("the tree of sm90.mma.fp8 shows two fp16 steps per instruction and the additions between instructions",
          "[emulation][reveal]") {
    const SumTree tree = revealed(rule_of("sm90.mma.fp8"), e4m3fn, e4m3fn, 64);
    SumTree expected{.terms = 64};
    int node = -1;
    for (int from = 0; from < 64; from += 32) {
        std::vector<int> first, second;
        for (int i = from; i < from + 32; ++i) (i % 4 < 2 ? first : second).push_back(i);
        expected.sums.push_back(first);
        second.insert(second.begin(), 64 + static_cast<int>(expected.sums.size()) - 1);
        expected.sums.push_back(second);
        const int both = 64 + static_cast<int>(expected.sums.size()) - 1;
        if (node >= 0) expected.sums.push_back({node, both});
        node = both;
    }
    CHECK(shape(tree) == shape(expected));
    CHECK(tree.ways() == std::map<int, int>{{2, 1}, {16, 2}, {17, 2}});
}

TEST_CASE("with promotion or k slices, the tree of a matmul consists of chains that are joined",
          "[emulation][reveal]") {
    MatmulRule promoted = rule_of("sm90.wgmma.fp8");
    promoted.promotion = Promotion::add;
    promoted.promotion_interval = 128;
    CHECK(shape(revealed(promoted, e4m3fn, e4m3fn, 512)) == shape(joined_chains(512, 32, 128)));
    for (const Promotion promotion : {Promotion::fma_joint, Promotion::fma_left}) {
        promoted.promotion = promotion;
        CHECK(shape(revealed(promoted, e4m3fn, e4m3fn, 256)) == shape(joined_chains(256, 32, 128)));
    }
    for (const SliceJoin join :
         {SliceJoin::workspace, SliceJoin::rounded_workspace, SliceJoin::serial, SliceJoin::stream_k}) {
        MatmulRule sliced = rule_of("sm80.mma.fp16");
        sliced.slices = 3;
        sliced.join = join;
        CHECK(shape(revealed(sliced, fp16, fp16, 384)) == shape(joined_chains(384, 8, 128)));
    }
}

TEST_CASE("trees of any shape are found, and sums whose results show no order are refused", "[emulation][reveal]") {
    std::mt19937 random(3);
    for (int round = 0; round < 200; ++round) {
        const int terms = 1 + static_cast<int>(random() % 40);
        // Builds a random tree: joins random nodes that have no parent until only one node is left.
        SumTree tree{.terms = terms};
        std::vector<int> loose(static_cast<std::size_t>(terms));
        std::iota(loose.begin(), loose.end(), 0);
        while (loose.size() > 1) {
            std::shuffle(loose.begin(), loose.end(), random);
            const auto count = std::min<std::size_t>(2 + random() % 4, loose.size());
            tree.sums.emplace_back(loose.end() - static_cast<std::ptrdiff_t>(count), loose.end());
            loose.resize(loose.size() - count);
            loose.push_back(terms + static_cast<int>(tree.sums.size()) - 1);
        }
        const auto meets = [&tree](int i, int j) {
            std::vector<std::vector<int>> below;
            for (int t = 0; t < tree.terms; ++t) below.push_back({t});
            for (const auto& children : tree.sums) {
                std::vector<int> all;
                for (const int child : children)
                    all.insert(all.end(), below[static_cast<std::size_t>(child)].begin(),
                               below[static_cast<std::size_t>(child)].end());
                if (std::count(all.begin(), all.end(), i) != 0 && std::count(all.begin(), all.end(), j) != 0)
                    return static_cast<int>(all.size());
                below.push_back(all);
            }
            return 0;
        };
        const PairSizes sizes = [&meets](std::span<const TermPair> pairs) {
            std::vector<int> list;
            for (const auto& [i, j] : pairs) list.push_back(meets(i, j));
            return list;
        };
        const SumTree found = reveal_tree(terms, sizes);
        CAPTURE(tree_steps(tree), tree_steps(found));
        CHECK_NOTHROW(verify_tree(found, sizes));
        CHECK(found.ways() == tree.ways());
        CHECK(found.probes <= std::int64_t{terms} * (terms - 1) / 2);
        // The check refuses a wrong tree over the same terms.
        if (terms > 3 && shape(found) != shape(chain_of(terms, 1))) {
            CHECK_THROWS_AS(verify_tree(chain_of(terms, 1), sizes), Error);
        }
    }
    // The masks are two large products of opposite sign, and the units are small products. If both masks are in one
    // exact sum, the units in that sum are not lost, so the results show no order.
    CHECK_THROWS_AS(revealed(rule_of("exact"), fp32, fp32, 16), Error);
    CHECK_THROWS_AS(revealed(rule_of("cdna1.mfma.fp16"), fp16, fp16, 16), Error);
}

TEST_CASE("if every addition has two operands, the tree is found with about k log2 k pairs of terms",
          "[emulation][reveal]") {
    CHECK(near_pairs(6) == std::vector<TermPair>{
                               {0, 1}, {0, 2}, {0, 4}, {1, 2}, {1, 3}, {1, 5}, {2, 3}, {2, 4}, {3, 4}, {3, 5}, {4, 5}});
    CHECK(near_pairs(1).empty());
    CHECK(near_pairs(1000).size() == 8977);
    for (const char* machine : {"fp32.chain", "fp32.pairwise"}) {
        CHECK(revealed(rule_of(machine), fp32, fp32, 200).probes == static_cast<std::int64_t>(near_pairs(200).size()));
    }
    // Tests a chain in random order and the reversed chain. Neighbouring terms of these chains have distant indices.
    for (const bool is_reversed : {false, true}) {
        const int terms = 512;
        std::vector<int> place(terms);
        std::iota(place.begin(), place.end(), 0);
        std::shuffle(place.begin(), place.end(), std::mt19937(5));
        if (is_reversed) std::reverse(place.begin(), place.end());
        std::int64_t asked = 0;
        const PairSizes sizes = [&](std::span<const TermPair> pairs) {
            std::vector<int> list;
            asked += static_cast<std::int64_t>(pairs.size());
            for (const auto& [i, j] : pairs)
                list.push_back(1 + std::max(place[static_cast<std::size_t>(i)], place[static_cast<std::size_t>(j)]));
            return list;
        };
        const SumTree tree = reveal_tree(terms, sizes);
        CHECK(tree.is_chain());
        CHECK(tree.depth() == terms - 1);
        CHECK(tree.probes == asked);
        CHECK(asked < 4 * 512 * 9);  // out of 130,816
        CHECK_NOTHROW(verify_tree(tree, sizes));
    }
}

TEST_CASE("tree_of_pairs gives the tree, lists pairs that are still undetermined, and refuses contradictions",
          "[emulation][reveal]") {
    const std::vector<TermPair> pairs{{0, 1}, {1, 2}, {2, 3}};
    const auto found = [&](std::vector<int> sizes) { return tree_of_pairs(4, pairs, sizes); };
    CHECK(tree_brackets(found({2, 3, 4}).tree) == "(((0 1) 2) 3)\n");
    CHECK(found({2, 3, 4}).open.empty());
    CHECK(tree_brackets(found({2, 4, 2}).tree) == "((0 1) (2 3))\n");
    // Each of the three measured pairs meets in a sum of four terms. Either one sum adds all four terms, or an earlier
    // sum adds two terms whose pair was not measured, such as 0 and 2. Three pairs were not measured, and all of them
    // are open.
    CHECK(tree_brackets(found({4, 4, 4}).tree) == "(0 1 2 3)\n");
    CHECK(found({4, 4, 4}).open.size() == 3);
    CHECK(tree_brackets(found({2, 4, 4}).tree) == "((0 1) 2 3)\n");
    CHECK(found({2, 4, 4}).open.front().pair == TermPair{0, 3});
    // The smallest sum with terms 1 and 2 has three terms. None of the three pairs shows which term is the third.
    CHECK_FALSE(found({4, 3, 4}).gap.empty());
    CHECK_FALSE(tree_of_pairs(4, std::vector<TermPair>{{0, 1}, {2, 3}}, std::vector{2, 2}).gap.empty());
    CHECK_THROWS_AS(found({2, 2, 4}), Error);
    CHECK_THROWS_AS(tree_of_pairs(3, std::vector<TermPair>{{0, 1}, {1, 2}, {0, 2}}, std::vector{2, 2, 3}), Error);
    CHECK_THROWS_AS(tree_of_pairs(3, std::vector<TermPair>{{0, 1}, {1, 2}, {0, 2}}, std::vector{2, 3, 2}), Error);
}

TEST_CASE(
    "reveal uses masks and units that are exact in the operand formats, and refuses formats whose range is too small",
    "[emulation][reveal]") {
    const RevealOperands half = reveal_operands(fp16, fp16, 512, {});
    CHECK(half.mask_a == 0x1p15f);
    CHECK(half.mask_b == 1);  // b is all ones, so one matmul serves every pair
    CHECK(half.unit_b == 1);
    const RevealOperands fp8 = reveal_operands(e4m3fn, e4m3fn, 512, {});
    CHECK(fp8.mask_a * fp8.mask_b == 0x1p16f);
    CHECK(fp8.unit() == 0x1p-18);
    CHECK_THROWS_AS(reveal_operands(e4m3fn, e4m3fn, 1024, {}), Error);
    CHECK_THROWS_AS(reveal_operands(e2m1fn, e2m1fn, 4, {}), Error);
    CHECK_THROWS_AS(reveal_operands(bf16, bf16, 512, reveal_limits(rule_of("bf16.chain"))), Error);
    // Units are not subnormal if the machine flushes subnormals.
    const RevealOperands flushed = reveal_operands(fp16, fp16, 512, reveal_limits(rule_of("cdna2.mfma.fp16")));
    CHECK(std::min(flushed.unit_a, flushed.unit_b) >= 0x1p-14f);
}

TEST_CASE("a tree prints as steps, indented, in brackets and for Graphviz", "[emulation][reveal]") {
    const SumTree tree{.terms = 7, .sums = {{0, 1, 2}, {3, 5}, {7, 8, 4, 6}}};
    CHECK(tree_steps(tree) == "s1 = 0-2\ns2 = 3 + 5\ns3 = s1 + s2 + 4 + 6\n");
    CHECK(tree_brackets(tree) == "((0 1 2) (3 5) 4 6)\n");
    CHECK(tree_indented(tree) == "+ 4 ways\n  + 3 ways\n    0-2\n  + 2 ways\n    3, 5\n  4, 6\n");
    const std::string dot = tree_dot(tree, "x");
    CHECK(dot.starts_with("digraph sum {"));
    CHECK(dot.find("s1 -> s3;") != std::string::npos);
    CHECK(dot.find("t4 -> s3;") != std::string::npos);
    CHECK(tree_summary(tree) == "7 terms in 3 sums (1 of 2, 1 of 3, 1 of 4), depth 2: a tree");
    CHECK(tree_summary({.terms = 2, .sums = {{0, 1}}}) == "2 terms in 1 sum (1 of 2), depth 1: a chain");
}

TEST_CASE("a chain of blocks is described by the lengths of its blocks", "[emulation][reveal]") {
    const SumTree in_order{.terms = 5, .sums = {{0, 1}, {2, 3}, {6, 4}, {5, 7}}};
    CHECK(in_order.blocks() == std::vector<int>{2, 3});
    CHECK(tree_summary(in_order) == "5 terms in 4 sums (4 of 2), depth 3: a chain of blocks: 2, 3");
    CHECK(SumTree{.terms = 3, .sums = {{0, 1}, {3, 2}}}.blocks().empty());          // a chain
    CHECK(SumTree{.terms = 4, .sums = {{0, 2}, {1, 3}, {4, 5}}}.blocks().empty());  // interleaved terms
    CHECK(SumTree{.terms = 1}.blocks().empty());
    const SumTree eight = revealed(rule_of("fp32.pairwise"), fp32, fp32, 8);
    CHECK(eight.blocks().empty());
    // Tests rules of libraries with blocks of unequal lengths, and a machine with fused steps within blocks.
    const auto blocks = [](const char* name, int k) {
        return revealed(find_matmul_rule(name)->rule, fp32, fp32, k).blocks();
    };
    CHECK(blocks("blas.openblas-0.3.21.skylakex", 1000) == std::vector<int>{320, 320, 192, 168});
    CHECK(blocks("blas.openblas-0.3.21.skylakex", 1024) == std::vector<int>{320, 320, 192, 192});
    CHECK(blocks("blas.openblas.448", 1500) == std::vector<int>{448, 448, 304, 300});
    MatmulRule promoted = rule_of("sm90.wgmma.fp8");
    promoted.promotion = Promotion::add;
    promoted.promotion_interval = 128;
    const SumTree tree = revealed(promoted, e4m3fn, e4m3fn, 512);
    CHECK(tree.blocks() == std::vector<int>(4, 128));
    CHECK(tree_summary(tree).ends_with(": a chain of blocks: 4 of 128"));
}

TEST_CASE("reading the steps of a tree gives the tree that was written", "[emulation][reveal]") {
    SumTree halves{.terms = 8};
    chain(halves, 1, 0, 8);
    for (const SumTree& tree : {joined_chains(256, 32, 128), joined_chains(100, 7, 30), halves, SumTree{.terms = 1}}) {
        CAPTURE(tree_steps(tree));
        CHECK(parse_tree_steps(tree.terms, tree_steps(tree)) == tree);
    }
    struct Case {
        int terms;
        const char *steps, *why;
    };
    for (const Case& c :
         {Case{4, "s1 = 0-1\ns2 = 2-3\n", "two roots"}, Case{4, "s1 = 0-2\n", "a term is left over"},
          Case{4, "s1 = 0-1\ns2 = s1 + 1-3\n", "a term twice"}, Case{4, "s1 = 0-4\n", "a term too many"},
          Case{4, "s1 = 0-1\ns2 = s3 + 2-3\n", "a sum that comes later"}, Case{4, "s2 = 0-3\n", "another number"},
          Case{4, "s1 = 0-1 2-3\n", "no plus"}, Case{2, "s1 = 0\ns2 = s1 + 1\n", "a sum of one"},
          Case{2, "", "nothing"}}) {
        CAPTURE(c.why);
        CHECK_THROWS_AS(parse_tree_steps(c.terms, c.steps), Error);
    }
}

}  // namespace reveal_test
