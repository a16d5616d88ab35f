// SPDX-License-Identifier: Apache-2.0
// How data-parallel ranks combine their gradients. Each table below lists the names that a key of [reduce] accepts.
// docs/ranks.md defines the computation for each name. training/run/optimizer/all_reduce.cpp has a function for each
// order.
#pragma once
#include <iterator>
#include <string_view>

namespace macheps::policy {

/// Order in which the gradients of the ranks are added.
struct ReduceOrder {
    std::string_view name, source, summary;
};
inline constexpr ReduceOrder reduce_orders[] = {
    {"ring", "NCCL's ring; the rank at which a chunk begins is unverified",
     "the vector is cut into one chunk per rank; each chunk starts at a different rank and goes around once, and every "
     "hop rounds to the wire format"},
    {"tree", "unverified: NCCL's double tree has another shape on several nodes",
     "neighbours are added in pairs, then pairs of pairs; every hop rounds to the wire format"},
    {"gather", "DeepSpeed runtime/comm/coalesced_collectives.py; all-to-all, then a local sum",
     "every rank gets all parts and adds them from +0 in the order of ranks, in `accumulate`"},
    {"fp64", "",
     "the parts are added in fp64 in the order of ranks and rounded once: the reference for the other orders"},
};

/// How the sum over ranks becomes a mean: when it is divided, and by which number.
struct Averaging {
    std::string_view name, source, summary;
};
inline constexpr Averaging averagings[] = {
    {"before", "torch DistributedDataParallel, its compress hooks; DeepSpeed prescale_gradients",
     "each part is divided by the number of ranks before it is sent"},
    {"after", "DeepSpeed, with gradient_predivide_factor as `predivide`",
     "each part is divided by `predivide` before it is sent, and the sum is divided by ranks / predivide"},
    {"split", "torch FSDP: _get_gradient_predivide_factor",
     "each part is divided by f before it is sent, and the sum is divided by ranks / f. f starts at 1 and is doubled "
     "as long as it divides ranks and ranks / f is more than f"},
};

/// The gradients that are reduced together as one vector.
struct Bucketing {
    std::string_view name, source, summary;
};
inline constexpr Bucketing bucketings[] = {
    {"tensor", "", "each gradient separately"},
    {"model", "FSDP's flat parameter, ZeRO's partition",
     "all gradients of one format in one vector, in the order of the model"},
    {"ddp", "torch/csrc/distributed/c10d/reducer.cpp: compute_bucket_assignment_by_size",
     "gradients of one format in reverse order; the first bucket is full at 1 MiB, the others at 25 MiB"},
};

}  // namespace macheps::policy
