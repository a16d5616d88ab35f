// SPDX-License-Identifier: Apache-2.0
// The text of `macheps train --help`.
#pragma once

namespace macheps::cmd::train {

inline constexpr const char* train_help =
    "Trains a small transformer under each precision policy, next to fp32, and reports what rounding did.\n\n"
    "Examples:\n"
    "  macheps train                                          the demo: eight policies, a minute or two\n"
    "  macheps train --policy amp-fp16,fp16-noscale           the stall of fp16 without a loss scale, and its cure, "
    "beside fp32\n"
    "  macheps train --policy ./mine.toml --seeds 0-4         your own policy, with an interval for the gap\n"
    "  macheps train --data corpus.txt --size small           a text of your own, as bytes\n"
    "  macheps train --model llama --kv-heads 2               the demo with a llama, two query heads to a key head\n"
    "  macheps train --config ds.json hf_args.yaml             what two frameworks' configs compute, next to fp32\n"
    "  macheps train -p amp-fp16 --stress outliers=2^11       whether fp16 holds outliers as of a pretrained model, "
    "beside fp32\n"
    "  macheps train --size base --dry-run                    the plan: runs, time, memory, disk; writes nothing\n"
    "  macheps train --resume runs/001                        go on with what Ctrl-C, or a crash, ended\n"
    "  macheps train --from runs/001/manifest.json            the same run once more, to the bit\n\n"
    "With and without --policy: seeds 0,1,2, so that a gap has an interval, and --token-weight 2^-12, a stand-in for a "
    "large\nbatch, in whose gradients underflow shows (1 with --config, whose batch is known, and with --data). "
    "Without "
    "--policy and --config\nit is the demo, of the policies fp32 tf32 amp-bf16 pure-bf16 pure-bf16-sr amp-fp16 "
    "fp16-noscale fp8-tensorwise.\n"
    "With --config and no --policy, fp32 trains with the betas, decay, clipping and micro-batches (and, with --take "
    "lr, the rate) "
    "that the\nconfigs have in common, so that a gap is of precision alone.\n"
    "--stress trains every policy a second time, as NAME+outliers, with a few values as large as in pretrained models. "
    "fp32 and bf16 "
    "compute\nthe same bits with them and without; fp16 overflows.\n"
    "Writes runs.csv, steps.csv, evals.csv, sites.csv, exponents.csv, summary.csv, manifest.json and report.html.\n\n"
    "JSON: {\"finished\", \"directory\", \"files\": {\"page\", \"summary\"}, \"summary\": as of `macheps report "
    "--json`}; with\n"
    "--dry-run: {\"directory\", \"data\", \"device\", \"runs\", \"seeds\", \"steps\", \"tokens\", \"parameters\", "
    "\"seconds\",\n"
    "\"timed_tokens\", \"least_bytes\", \"peak_bytes\", \"disk_bytes\", \"free_bytes\", \"policies\": [{\"policy\", "
    "\"timed_steps\", "
    "\"step_seconds\",\n"
    "\"sampled_step_seconds\", \"evaluation_seconds\", \"seconds\", \"row_bytes\", \"framework_bytes\"}], "
    "\"problems\"}.";

}  // namespace macheps::cmd::train
