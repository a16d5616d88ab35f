// SPDX-License-Identifier: Apache-2.0
// The texts of `macheps train --help`.
#pragma once

namespace macheps::cmd::train {

inline constexpr const char* train_help =
    R"(Trains a small transformer under precision policies and fp32, and reports the effects of rounding.

Examples:
  macheps train                                       the demo: eight policies, a minute or two
  macheps train --policy amp-fp16,fp16-noscale        fp16 with and without a loss scale
  macheps train --policy ./mine.toml --seeds 0-4      your own policy, with five seeds
  macheps train --data corpus.txt --size small        your own text, read as bytes
  macheps train --config ds.json hf_args.yaml         two frameworks' configs, compared with fp32
  macheps train --size base --dry-run                 the plan: runs, time, memory, disk
  macheps train --resume runs/001                     continue after Ctrl-C or a crash)";

inline constexpr const char* train_notes = R"(More examples:
  macheps train --model llama --kv-heads 2            the demo with a llama, two query heads per key head
  macheps train -p amp-fp16 --stress outliers=2^11    fp16 with outliers as large as in a pretrained model
  macheps train --from runs/001/manifest.json         repeat a run bit for bit

Defaults:
  Without --policy and --config, the demo runs: policies fp32 tf32 amp-bf16 pure-bf16 pure-bf16-sr
  amp-fp16 fp16-noscale fp8-tensorwise. The default seeds are 0,1,2, so that each gap has
  a confidence interval. The default --token-weight is 2^-12. It makes gradients as small as those
  of a large batch, so that underflow shows. The default is 1 with --data and with --config.

Configs (--config):
  Without --policy, fp32 trains with the betas, weight decay, clipping and micro-batches that the
  configs have in common. A gap is then caused by precision alone. With --take lr, fp32 also
  trains with their learning rate.

Stress (--stress):
  Every policy is trained a second time, as NAME+outliers, with a few values as large as in
  pretrained models. fp32 and bf16 compute the same bits with and without these values. fp16
  overflows.

Files in the run directory:
  runs.csv, steps.csv, evals.csv, sites.csv, exponents.csv, summary.csv, manifest.json and
  report.html.

JSON:
  {"finished", "directory", "files": {"page", "summary"}, "summary": like `macheps
  report --json`}
  With --dry-run: {"directory", "data", "device", "runs", "seeds", "steps", "tokens",
  "parameters", "seconds", "timed_tokens", "least_bytes", "peak_bytes", "disk_bytes",
  "free_bytes", "policies": [{"policy", "timed_steps", "step_seconds", "sampled_step_seconds",
  "evaluation_seconds", "seconds", "row_bytes", "framework_bytes"}], "problems"})";

}  // namespace macheps::cmd::train
