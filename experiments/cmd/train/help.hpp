// SPDX-License-Identifier: Apache-2.0
// The text of `macheps train --help`.
#pragma once

namespace macheps::cmd::train {

inline constexpr const char* train_help =
    "Trains a small transformer under each precision policy and under fp32, and reports the effects of rounding.\n\n"
    "Examples:\n"
    "  macheps train                                          the demo: eight policies, a minute or two\n"
    "  macheps train --policy amp-fp16,fp16-noscale           fp16 with and without a loss scale, compared with fp32\n"
    "  macheps train --policy ./mine.toml --seeds 0-4         your own policy, with five seeds\n"
    "  macheps train --data corpus.txt --size small           your own text, read as bytes\n"
    "  macheps train --model llama --kv-heads 2               the demo with a llama, two query heads per key head\n"
    "  macheps train --config ds.json hf_args.yaml            the configs of two frameworks, compared with fp32\n"
    "  macheps train -p amp-fp16 --stress outliers=2^11       fp16 with outliers as large as in a pretrained model\n"
    "  macheps train --size base --dry-run                    the plan: runs, time, memory, disk; writes nothing\n"
    "  macheps train --resume runs/001                        continue after Ctrl-C or a crash\n"
    "  macheps train --from runs/001/manifest.json            repeat a run bit for bit\n\n"
    "The default seeds are 0,1,2, so that a gap has an interval. The default --token-weight is 2^-12, which makes "
    "gradients as small as\n"
    "those of a large batch, so that underflow shows. It is 1 with --config, whose batch is known, and with --data. "
    "Without --policy and\n"
    "--config, the demo runs: policies fp32 tf32 amp-bf16 pure-bf16 pure-bf16-sr amp-fp16 fp16-noscale "
    "fp8-tensorwise.\n"
    "With --config and without --policy, fp32 trains with the betas, weight decay, clipping and micro-batches that the "
    "configs have in\n"
    "common (with --take lr also with their learning rate), so that a gap is caused by precision alone.\n"
    "--stress trains every policy a second time, as NAME+outliers, with a few values as large as in pretrained models. "
    "fp32 and bf16\n"
    "compute the same bits with and without these values; fp16 overflows.\n"
    "Writes runs.csv, steps.csv, evals.csv, sites.csv, exponents.csv, summary.csv, manifest.json and report.html.\n\n"
    "JSON: {\"finished\", \"directory\", \"files\": {\"page\", \"summary\"}, \"summary\": as of `macheps report "
    "--json`}; with\n"
    "--dry-run: {\"directory\", \"data\", \"device\", \"runs\", \"seeds\", \"steps\", \"tokens\", \"parameters\", "
    "\"seconds\",\n"
    "\"timed_tokens\", \"least_bytes\", \"peak_bytes\", \"disk_bytes\", \"free_bytes\", \"policies\": [{\"policy\", "
    "\"timed_steps\", \"step_seconds\",\n"
    "\"sampled_step_seconds\", \"evaluation_seconds\", \"seconds\", \"row_bytes\", \"framework_bytes\"}], "
    "\"problems\"}.";

}  // namespace macheps::cmd::train
