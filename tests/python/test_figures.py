# SPDX-License-Identifier: Apache-2.0
"""Recomputes the figures in a run directory and in its summary from the rows and formulas that docs/columns.md
names."""

from __future__ import annotations

import csv
import json
import math
import os
import random
import re
import subprocess
from collections import Counter, defaultdict
from fractions import Fraction

import macheps as me
import numpy as np
import pytest
from conftest import SOURCE

T_975_OF_2, T_95_OF_2 = 4.302652729911275, 2.919985580353726  # Student's t with 2 degrees of freedom (closed form)
BATCH, CONTEXT, STEPS = 4, 8, 12


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def fp32(text):
    """Reads a cell of an fp32 column, which has the fewest digits that read back as the same fp32 number."""
    return float(np.float32(text))


def documented_columns(file):
    """Returns {column: formula} of one table of docs/columns.md."""
    text = (SOURCE / "docs" / "columns.md").read_text(encoding="utf-8").split(f"## {file}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\|$", text, re.M)
    # The formula is the last cell, and may contain escaped bars.
    return {name: re.search(rf"^\| `{name}` \|(?:[^|]*\|){{2}}(.*)\|$", text, re.M).group(1).strip() for name in rows}


def require_all(file, compared, elsewhere):
    """Requires that every documented column is compared in this file, or is in `elsewhere` with a reason."""
    columns = set(documented_columns(file))
    assert compared | set(elsewhere) == columns, (file, columns ^ (compared | set(elsewhere)))


# --- A real run: columns that can be computed from other columns


@pytest.fixture(scope="module")
def run(tmp_path_factory, program):
    path = tmp_path_factory.mktemp("figures") / "run"
    os.environ["MACHEPS"] = program
    return me.run(["train", "--policy", "amp-fp16,pure-bf16,fp8-tensorwise,te-mxfp8,te-delayed", "--seeds", "0,1", "--steps", str(STEPS),
                   "--layers", "1", "--width", "32", "--heads", "2", "--context", str(CONTEXT), "--batch", str(BATCH), "--probe-every", "1",
                   "--histogram-every", "1", "--eval-every", "6", "--token-weight", "2^3", "--quiet", "--out", str(path)])  # fmt: skip


def test_runs_follow_from_steps(run):
    steps = defaultdict(list)
    for row in read(run / "steps.csv"):
        steps[row["run"]].append(row)
    bits = {"fp32": 32, "amp-fp16": 32, "pure-bf16": 16, "fp8-tensorwise": 32, "te-mxfp8": 32, "te-delayed": 32}
    skipped = 0
    for row in read(run / "runs.csv"):
        own = steps[row["run"]]
        losses = [float(step["loss"]) for step in own]
        assert row["run"] == f"{row['policy']}/{row['seed']}"
        assert row["status"] == "ok" and row["diverged_step"] == "" and row["stress"] == ""
        assert int(row["steps"]) == len(own) == STEPS and int(row["tokens"]) == STEPS * BATCH * CONTEXT
        assert float(row["final_loss"]) == losses[-1] and float(row["best_loss"]) == min(losses)
        assert int(row["skipped_steps"]) == sum(step["skipped"] == "1" for step in own)
        skipped += int(row["skipped_steps"])
        assert float(row["tokens_per_second"]) == pytest.approx(int(row["tokens"]) / float(row["seconds"]), rel=1e-12)
        weights, width = int(row["parameters"]), bits[row["policy"]]
        assert int(row["bytes_params"]) == int(row["bytes_grads"]) == weights * width // 8
        assert int(row["bytes_optimizer"]) == 2 * weights * width // 8 and int(row["bytes_master"]) == 0
        assert int(row["bytes_activations"]) > 0
        linears = 4 if row["policy"] in ("fp8-tensorwise", "te-mxfp8", "te-delayed") else 0  # qkv, proj, up and down of one layer
        assert int(row["low_linears"]) == int(row["asked_linears"]) == linears
        products = dict(item.split(":") for item in row["matmul_formats"].split(";"))
        assert all(int(count) > 0 for count in products.values())
    totals = {row["run"]: sum(int(item.split(":")[1]) for item in row["matmul_formats"].split(";")) for row in read(run / "runs.csv")}
    assert len(set(totals.values())) == 1  # the formats do not change the number of multiplications
    assert skipped > 0
    assert set(documented_columns("runs.csv")) == set(read(run / "runs.csv")[0])


def test_steps_follow_from_each_other_and_from_sites(run):
    steps, sites = read(run / "steps.csv"), defaultdict(list)
    baseline = {(row["seed"], row["step"]): float(row["loss"]) for row in steps if row["policy"] == "fp32"}
    for row in read(run / "sites.csv"):
        sites[row["run"], row["step"]].append(row)
    seen = Counter()
    for row in steps:
        assert row["run"] == f"{row['policy']}/{row['seed']}" and int(row["tokens"]) == (int(row["step"]) + 1) * BATCH * CONTEXT
        assert float(row["baseline_loss"]) == baseline[row["seed"], row["step"]]
        assert float(row["gap"]) == float(row["loss"]) - float(row["baseline_loss"])
        for name in ("underflow", "overflow", "saturated"):
            assert int(row[name]) == sum(int(site[name]) for site in sites[row["run"], row["step"]]), (row["run"], row["step"], name)
            seen[name] += int(row[name]) > 0
        is_skipped = row["skipped"] == "1"
        seen["skipped"] += is_skipped
        assert (row["overflow_site"] != "") == any(int(site["overflow"]) + int(site["inf_in"]) + int(site["nan_in"]) > 0
                                                   for site in sites[row["run"], row["step"]]) or not is_skipped  # fmt: skip
        assert is_skipped == (row["update_eff"] == "") == (row["effective_lr"] == "")
        if is_skipped:
            assert int(row["lost_updates"]) == 0 and float(row["update_norm"]) == 0
        else:
            assert float(row["effective_lr"]) == pytest.approx(float(row["lr"]) * float(row["update_eff"]), rel=1e-6)
            assert (int(row["lost_updates"]) > 0) == (float(row["update_stagnation"]) > 0)
            seen["lost"] += int(row["lost_updates"]) > 0
        if row["grad_cosine"] and not is_skipped and float(row["grad_cosine"]) < 1 - 1e-9:
            cosine, proj = float(row["grad_cosine"]), float(row["grad_proj"])
            noise = (proj / cosine) ** 2 - 2 * proj + 1  # |g - g32|^2 / |g32|^2
            assert float(row["grad_snr_db"]) == pytest.approx(-10 * math.log10(noise), abs=1e-3)
            assert float(row["grad_cosine_least"]) <= cosine + 1e-12 and row["grad_least_parameter"] != ""
            seen["gradients"] += 1
    assert all(seen[name] > 0 for name in ("underflow", "overflow", "saturated", "skipped", "lost", "gradients")), seen


def test_evals_follow_from_their_loss(run):
    rows = read(run / "evals.csv")
    assert {int(row["step"]) for row in rows} == {0, 6, 12}
    for row in rows:
        assert float(row["perplexity"]) == pytest.approx(math.exp(float(row["eval_loss"])), rel=1e-14)
        assert 0 < float(row["entropy_floor"]) < float(row["eval_loss"])
        assert row["policy"] != "fp32" or row["eval_loss"] == row["eval_loss_fp32"]


def test_sites_follow_from_their_counts_and_histograms(run):
    bins = defaultdict(dict)
    for row in read(run / "exponents.csv"):
        assert (row["kind"] == "number") == (row["floor_log2"] != "") and row["exponent"] == (row["floor_log2"] or row["kind"])
        bins[row["run"], row["step"], row["site"]][row["exponent"]] = int(row["count"])
    largest = {"fp32": (2 - 2.0**-23) * 2.0**127, "fp16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127, "e4m3fn": 448.0, "e5m2": 57344.0}
    seen = Counter()
    for row in read(run / "sites.csv"):
        where = (row["run"], row["step"], row["site"])
        counts = {name: int(row[name] or 0) for name in ("count", "zero_in", "underflow", "to_subnormal", "overflow", "saturated", "nan_in", "inf_in",
                                                    "subnormal_inexact", "overflow_rounded")}  # fmt: skip
        if row["mse"] == "":  # a matrix unit rounded these values, so their exact values are not known
            assert where not in bins and ":forward.out" in row["site"] and row["policy"] not in ("fp32", "amp-fp16", "pure-bf16"), where
            seen["delivered"] += 1
            continue
        histogram = bins[where]
        assert sum(histogram.values()) == counts["count"], where
        assert histogram.get("zero", 0) == counts["zero_in"] and histogram.get("inf", 0) == counts["inf_in"], where
        assert histogram.get("nan", 0) == counts["nan_in"], where
        exponents = [int(name) for name in histogram if name not in ("zero", "inf", "nan")]
        amax, amin = fp32(row["amax"]), fp32(row["amin_nz"] or "nan")
        if exponents:
            assert max(exponents) == math.frexp(amax)[1] - 1 and min(exponents) == math.frexp(amin)[1] - 1, where
            assert float(row["dynamic_range"]) == pytest.approx(math.log2(amax) - math.log2(amin), abs=1e-6)
            seen["range"] += 1
        else:
            assert amax == 0
        assert counts["zero_in"] + counts["underflow"] + counts["nan_in"] + counts["inf_in"] <= counts["count"]
        assert counts["subnormal_inexact"] <= counts["to_subnormal"] and counts["overflow_rounded"] <= counts["overflow"]
        scales = [fp32(row["scale_inv_min"]), fp32(row["scale_inv_max"])]
        if scales[0] == scales[1] and amax > 0:
            assert float(row["headroom_bits"]) == pytest.approx(math.log2(largest[row["format"]] * scales[0] / amax), abs=1e-5), where
            seen["headroom"] += 1
        if row["scale_exp_hist"]:
            powers = dict(item.split(":") for item in row["scale_exp_hist"].split(";"))
            whole = [int(name) for name in powers if name not in ("zero", "inf", "nan")]
            # Scales are fp32 numbers, and the histogram counts their exponents, floor(log2(scale)).
            assert min(whole) == math.frexp(scales[0])[1] - 1 and max(whole) == math.frexp(scales[1])[1] - 1, where
            seen["scales"] += 1
        if row["cosine"] and row["proj"] and row["sqnr_db"] not in ("", "inf", "nan") and float(row["cosine"]) > 0:
            cosine, proj = float(row["cosine"]), float(row["proj"])
            noise = (proj / cosine) ** 2 - 2 * proj + 1
            if noise > 1e-9:  # for less noise, the cells of cosine and proj have too few digits
                assert float(row["sqnr_db"]) == pytest.approx(-10 * math.log10(noise), abs=1e-4), where
                seen["noise"] += 1
            assert float(row["rel_err_mean"]) <= float(row["rel_err_max"]) * (1 + 1e-12)
            assert abs(float(row["bias_rel"])) <= 1 + 1e-9
        for name, count in counts.items():
            seen[name] += count > 0
    missing = [name for name in ("delivered", "range", "headroom", "scales", "noise", "zero_in", "underflow", "to_subnormal", "overflow", "saturated",
                                 "inf_in", "subnormal_inexact") if seen[name] == 0]  # fmt: skip
    assert not missing, seen


# --- A run directory with invented numbers: each column of the summary


SEEDS, LENGTH = (3, 4, 8), 40
SITES = ("block.0.mlp.up:forward.out", "block.0.mlp.up:input_grad.out", "block.0.attn.mix:grad_b.b")


def write_rows(path, names, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory, program, run):
    """Writes a run directory of two policies with a different number in each cell. The loss curves of a seed diverge
    from step 20 + seed on."""
    folder = tmp_path_factory.mktemp("by_hand")
    draw = random.Random(7)
    runs, steps, sites = [], [], []
    for seed in SEEDS:
        for policy in ("fp32", "low"):
            is_low = policy == "low"
            length = LENGTH - (2 if is_low and seed == 4 else 0)
            common = {"run": f"{policy}/{seed}", "policy": policy, "seed": seed}
            losses = []
            for step in range(length):
                base = 3 - step / 64 + random.Random(1000 * seed + step).randrange(64) / 4096
                loss = base + ((0.125 + draw.randrange(64) / 4096) if is_low and step >= 20 + seed else 0)
                losses.append(loss)
                skipped = is_low and step in (0, 5 + seed)
                steps.append(common | {"step": step, "tokens": 32 * (step + 1), "loss": loss, "baseline_loss": base, "gap": loss - base,
                                       "grad_norm": 1 + draw.random(), "update_norm": draw.random(), "lr": 0.001, "loss_scale": 1,
                                       "growth_tracker": step, "skipped": int(skipped), "underflow": draw.randrange(1, 99),
                                       "overflow": draw.randrange(1, 99), "saturated": draw.randrange(1, 99),
                                       "lost_updates": 0 if skipped else draw.randrange(1, 99),
                                       "update_eff": "" if skipped else draw.randrange(1, 64) / 64, "loss_rounded": loss,
                                       "update_stagnation": "" if skipped else draw.randrange(1, 64) / 64,
                                       "grad_cosine": draw.randrange(1, 64) / 64 if step % 10 == 0 else "",
                                       "grad_proj": draw.randrange(1, 64) / 64 if step % 10 == 0 else ""})  # fmt: skip
            for step in range(0, length, 10):
                for at, site in enumerate(SITES):
                    count = draw.randrange(1000, 2000)
                    sites.append(common | {"step": step, "site": site, "format": "fp16" if is_low else "fp32", "scale_inv_min": 1,
                                           "scale_inv_max": 1, "count": count, "zero_in": draw.randrange(100, 200),
                                           "underflow": draw.randrange(1, 9) if step < 20 or at < 2 else 99, "to_subnormal": draw.randrange(9),
                                           "overflow": 0, "saturated": draw.randrange(9), "nan_in": 0, "inf_in": 0,
                                           "amax": 4 + step + at + seed / 16, "amin_nz": 0.5})  # fmt: skip
            parameters = 1000
            runs.append(common | {"status": "ok", "steps": length, "tokens": 32 * length, "final_loss": losses[-1], "best_loss": min(losses),
                                  "skipped_steps": 2 if is_low else 0, "seconds": draw.random(), "tokens_per_second": draw.random(),
                                  "bytes_params": 2100 if is_low else 4000, "bytes_grads": 2200 if is_low else 4000,
                                  "bytes_master": 4300 if is_low else 0, "bytes_optimizer": 8700 if is_low else 8000,
                                  "bytes_activations": 3100 if is_low else 6000, "parameters": parameters,
                                  "matmul_formats": "fp16*fp16:1000" if is_low else "fp32*fp32:1000"})  # fmt: skip
    for name, rows in (("runs", runs), ("steps", steps), ("sites", sites)):
        write_rows(folder / f"{name}.csv", list(documented_columns(f"{name}.csv")), rows)
    manifest = json.loads((run / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = subprocess.run([program, "report", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return runs, steps, sites, {row["policy"]: row for row in read(folder / "summary.csv")}


def mean(values):
    values = [Fraction(value) for value in values]
    return float(sum(values) / len(values))


def test_each_column_of_the_summary_is_its_formula(by_hand):
    runs, steps, sites, summary = by_hand
    compared = {}

    def compare(policy, column, want, **tolerance):
        got = summary[policy][column]
        compared[column] = True
        if want is None or isinstance(want, str):
            assert got == (want or ""), (policy, column)
        else:
            assert float(got) == pytest.approx(want, **(tolerance or {"rel": 1e-12})), (policy, column)

    for policy in ("fp32", "low"):
        is_low = policy == "low"
        own = {seed: [row for row in steps if row["policy"] == policy and row["seed"] == seed] for seed in SEEDS}
        windows = {seed: min(50, len(rows) // 4) for seed, rows in own.items()}
        every = [row for rows in own.values() for row in rows]
        compare(policy, "policy", policy)
        compare(policy, "seeds", len(SEEDS))
        compare(policy, "loss", mean(mean(row["loss"] for row in own[seed][-windows[seed]:]) for seed in SEEDS))
        compare(policy, "steps", min(len(rows) for rows in own.values()))
        compare(policy, "skipped_rate", sum(row["skipped"] for row in every) / len(every))
        casts = [row for row in sites if row["policy"] == policy]
        compare(policy, "underflow_rate", sum(row["underflow"] for row in casts) / sum(row["count"] for row in casts))
        compare(policy, "slowdown", None)
        of_runs = [row for row in runs if row["policy"] == policy]
        names = ("bytes_params", "bytes_grads", "bytes_master", "bytes_optimizer")
        compare(policy, "memory_ratio", (17300 + 3100) / (16000 + 6000) if is_low else 1)
        compare(policy, "static_bytes", sum(of_runs[0][name] for name in names) / 1000)
        compare(policy, "activation_bytes", of_runs[0]["bytes_activations"] / 1000)
        compare(policy, "failed_seeds", 0)
        compare(policy, "failures", None)
        compare(policy, "stress", None)
        compare(policy, "sampled_steps", 4)
        for name in ("update_eff", "update_stagnation"):
            compare(policy, name, mean(row[name] for row in every if row[name] != ""))
        for name in ("grad_cosine", "grad_proj"):
            compare(policy, name, mean(row[name] for row in every if row[name] != ""))
        for name in ("forward_overflow_format", "forward_overflow_site", "forward_overflow_step"):
            compare(policy, name, None)

    gaps = [mean(row["gap"] for row in rows[-min(50, len(rows) // 4):]) for rows in
            ([row for row in steps if row["policy"] == "low" and row["seed"] == seed] for seed in SEEDS)]  # fmt: skip
    centre = mean(gaps)
    spread = math.sqrt(sum((gap - centre) ** 2 for gap in gaps) / 2)
    half = T_975_OF_2 * spread / math.sqrt(3)
    compare("low", "gap_mean", centre)
    compare("low", "gap_ci_low", centre - half, rel=1e-7)  # t is accurate to at least 8 digits
    compare("low", "gap_ci_high", centre + half, rel=1e-7)
    base = mean(mean(row["loss"] for row in [r for r in steps if r["policy"] == "fp32" and r["seed"] == seed][-min(50, LENGTH // 4):])
                for seed in SEEDS)  # fmt: skip
    compare("low", "margin", 0.0025 * base, rel=1e-2)
    assert centre - half > 0 and centre + T_95_OF_2 * spread / math.sqrt(3) > 0.0025 * base
    compare("low", "verdict", "worse")
    compare("fp32", "verdict", "baseline")
    compare("low", "forced", None)
    # The smoothed gap exceeds 0.1 % of the loss in the first step that has a gap: 0.1 x 0.125 > 0.001 x 3.1.
    compare("low", "diverged_step", 20 + min(SEEDS))
    # first_site is the first site where more than 1 % of the values underflow. At this site, 99 of at most 2000 values
    # do. At all earlier sites, at most 8 of 1000 values do.
    compare("low", "first_site", SITES[2])
    greatest = max(row["amax"] for row in sites if row["policy"] == "low" and ":forward." in row["site"])
    compare("low", "forward_ranges", f"fp16:{greatest:g}/65504")
    elsewhere = {
        "detectable_gap": "its power is integrated in tests/reports/verdict_test.cpp",
        "peak_gpu": "an option",
        "relative_peak": "vendor's figures: tests/reports/verdict_test.cpp",
        "loss_spikes": "tests/reports/verdict_test.cpp",
        "grad_norm_spikes": "tests/reports/verdict_test.cpp",
    }
    require_all("summary.csv", set(compared), elsewhere)
