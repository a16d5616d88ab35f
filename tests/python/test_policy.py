# SPDX-License-Identifier: Apache-2.0
"""Policies and configs."""

from __future__ import annotations

import json
import subprocess

import macheps as me
import pytest


@pytest.mark.parametrize("name", me.policies())
def test_the_table_is_the_programs(name, program):
    made = subprocess.run([program, "policy", "explain", name, "--json"], capture_output=True, text=True, check=True)
    theirs, ours = json.loads(made.stdout), me.policy(name).explain()
    keys = ("site", "slot", "cast", "machine", "rule")
    assert [[row[key] for key in keys] for row in theirs["rows"]] == [[row[key] for key in keys] for row in ours.rows]
    assert theirs["memory"] == ours.memory and theirs["machines"] == ours.machines
    assert name in repr(ours) and "<table" in ours._repr_html_()


def test_a_file_and_a_copy(tmp_path):
    path = tmp_path / "mine.toml"
    me.policy("amp-bf16").save(path)
    assert me.policy(path).explain().rows == [
        {**row, "rule": row["rule"].replace("preset amp-bf16", str(path))} for row in me.policy("amp-bf16").explain().rows
    ] or [row["cast"] for row in me.policy(path).explain().rows] == [row["cast"] for row in me.policy("amp-bf16").explain().rows]


def test_a_config_of_a_framework(tmp_path):
    config = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}}
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(config))
    read, given = me.policy(path), me.policy(config)
    assert read.framework == given.framework == "deepspeed" and read.toml == given.toml
    assert any(row["cast"].startswith("bf16") for row in given.explain().rows)
    assert "deepspeed" in given._repr_html_() or "<table" in given._repr_html_()


def test_configs_of_every_form(tmp_path, program):
    forms = {
        "run.sh": "deepspeed train.py --deepspeed ds.json --bf16 True --output_dir o --learning_rate 1e-4\n",
        "titan.toml": "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 1\nseq_len = 128\n",
    }
    (tmp_path / "ds.json").write_text(json.dumps({"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 1}}))
    for name, text in forms.items():
        path = tmp_path / name
        path.write_text(text)
        made = subprocess.run([program, "policy", "import", path, "--json"], capture_output=True, text=True)
        theirs = json.loads(made.stdout)
        ours = me.policy(path)
        assert ours.framework == theirs["framework"] and ours.findings == theirs["findings"]


@pytest.mark.parametrize("bad", ["amp-bf17", "nowhere.toml", "nowhere.json", {}, {"what": 1}])
def test_what_is_no_policy(bad):
    with pytest.raises(me.Error) as caught:
        me.policy(bad)
    assert caught.value.what


def test_a_refused_config():
    with pytest.raises(me.Error, match="config has an error"):
        me.policy({"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "fp16": {"enabled": True}})


def test_a_damaged_policy(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("name = 'x'\n[[rule]]\nsites = 'nope.*'\nforward = { a = 'e4m3fm' }\n")
    with pytest.raises(me.Error) as caught:
        me.policy(path).explain()
    assert "bad.toml" in str(caught.value)
