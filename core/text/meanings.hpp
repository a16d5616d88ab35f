// SPDX-License-Identifier: Apache-2.0
// Words that people use for a name that is spelled differently. nearest_name() suggests the name, because a comparison
// of letters would suggest another one: `fp4` is closer to fp64 than to e2m1fn.
#pragma once
#include <string_view>

namespace macheps {

/// A word, and the name that a user of the word most likely means. A word may have several rows, because the names of
/// one kind (formats, policies, rounding modes, ...) do not contain those of another. The first row whose name is
/// possible applies.
struct Meaning {
    std::string_view word;  ///< in lower case
    std::string_view name;
};

inline constexpr Meaning meanings[] = {
    // formats
    {"fp4", "e2m1fn"},
    {"float4", "e2m1fn"},
    {"mxfp4", "e2m1fn"},
    {"nvfp4", "e2m1fn"},
    {"mxfp8", "e4m3fn"},
    {"float8", "e4m3fn"},
    {"single", "fp32"},
    {"quad", "fp64"},
    // policies
    {"half", "amp-fp16"},
    {"fp16", "amp-fp16"},
    {"float16", "amp-fp16"},
    {"amp", "amp-bf16"},
    {"autocast", "amp-bf16"},
    {"mixed", "amp-bf16"},
    {"bfloat16", "amp-bf16"},
    {"float32", "fp32"},
    {"full", "fp32"},
    {"float8", "fp8-tensorwise"},
    {"fp4", "te-nvfp4"},
    {"mx", "te-mxfp8"},
    {"deepseek", "dsv3"},
    {"microxcaling", "mx-microxcaling"},
    // rounding modes
    {"nearest", "nearest_even"},
    {"rn", "nearest_even"},
    {"truncate", "toward_zero"},
    {"trunc", "toward_zero"},
    {"ceil", "up"},
    {"floor", "down"},
    {"random", "stochastic"},
    // GPUs
    {"volta", "v100"},
    {"turing", "t4"},
    {"ampere", "a100"},
    {"ada", "l40s"},
    {"hopper", "h100"},
    {"blackwell", "b200"},
    // frameworks
    {"hf", "transformers"},
    {"huggingface", "transformers"},
    {"pytorch", "torch"},
    {"llama-factory", "llamafactory"},
    // verbs
    {"cast", "convert"},
    {"quantize", "convert"},
    {"round", "show"},
    {"number", "show"},
    {"matmul", "gemm"},
    {"plot", "report"},
    {"chart", "report"},
    {"run", "train"},
    {"nan", "why"},
    // options
    {"--dtype", "--format"},
    {"--precision", "--policy"},
    {"--rounding", "--round"},
    {"--output", "--out"},
    {"--learning-rate", "--lr"},
    {"--learning_rate", "--lr"},
    {"--max-lr", "--lr"},
    {"--max_lr", "--lr"},
    {"--batch-size", "--batch"},
    {"--batch_size", "--batch"},
    {"--max-steps", "--steps"},
    {"--max_steps", "--steps"},
    {"--iterations", "--steps"},
    {"--grad-clip", "--clip"},
    {"--grad_clip", "--clip"},
    {"--max-grad-norm", "--clip"},
    {"--max_grad_norm", "--clip"},
};

}  // namespace macheps
