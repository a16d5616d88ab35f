# SPDX-License-Identifier: Apache-2.0
"""Precision policies, and training frameworks' configs as policies."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._arrays import needed
from ._errors import Error
from ._html import table


@dataclass(frozen=True)
class Explanation:
    """The effect of a policy on a model.

    `rows` has an entry for each slot (a tensor that may be rounded, such as ``forward.a``) of each site (an operation
    of the model, such as ``block.0.mlp.up``).
    """

    policy: str
    description: str
    model: str
    loss_scaler: str
    machines: dict[str, int]  #: number of matmuls that run on each machine
    rows: list[dict[str, Any]]  #: site, slot, cast, machine, rule
    tensors: list[dict[str, Any]]  #: kind, site, format, elements, rule
    memory: dict[str, int]  #: bytes that a framework needs if it stores these formats
    unverified: list[str]
    left_out: list[str]

    def to_pandas(self) -> Any:
        """Returns the rows as a DataFrame."""
        return needed("pandas").DataFrame(self.rows)

    def __repr__(self) -> str:
        rows = [row for row in self.rows if not row["is_default"]]
        text = [f"{self.policy}: {self.description}", f"model {self.model}, loss scaler {self.loss_scaler}"]
        text += [f"{row['site']}:{row['slot']}  {row['cast']}  {row['machine'] or '-'}" for row in rows[:20]]
        return "\n".join(text + ([f"... and {len(rows) - 20} more"] if len(rows) > 20 else []))

    def _repr_html_(self) -> str:
        header = ["site", "slot", "cast", "machine", "rule"]
        rows = [[row[name] for name in header] for row in self.rows if not row["is_default"]]
        return table(header, rows, f"{self.policy} on {self.model}: {self.description}")


@dataclass(frozen=True)
class Policy:
    """A precision policy, as TOML text (``macheps policy words`` lists its keys and values)."""

    name: str
    description: str
    toml: str
    origin: str  #: the preset or file that the policy was read from
    loss_scaler: str = ""
    framework: str = ""  #: framework of an imported config
    findings: list[dict[str, Any]] = field(default_factory=list)  #: remarks about an imported config

    def explain(self, model: str = "tiny", kind: str = "gpt2") -> Explanation:
        """Returns the effect of this policy on a model, as a table of every site and slot.

        Parameters
        ----------
        model : str
            ``tiny``, ``small`` or ``base``.
        kind : str
            ``gpt2`` or ``llama``.

        Examples
        --------
        >>> import macheps as me
        >>> table = me.policy("amp-bf16").explain()
        >>> [row["cast"] for row in table.rows if row["site"] == "block.0.mlp.up" and row["slot"] == "forward.a"]
        ['bf16']
        """
        made = json.loads(_core.explain(self.toml, self.origin, kind, model))
        return Explanation(
            made["policy"], made["description"], f"{kind} {model}", made["loss_scaler"], made["machines"], made["rows"],
            made["tensors"], made["memory"], made["unverified"], made["left_out"],
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the policy's TOML text to a file that ``macheps train --policy`` can read."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.toml)

    def __repr__(self) -> str:
        return f"Policy({self.name!r}: {self.description})"

    def _repr_html_(self) -> str:
        if self.findings:
            rows = [[one["code"], one["key"], one["message"], one["instead"]] for one in self.findings]
            return table(["", "key", "what happens", "instead"], rows, f"{self.name}: a config of {self.framework}")
        return self.explain()._repr_html_()


def policies() -> list[str]:
    """Returns the names of the presets.

    Examples
    --------
    >>> import macheps as me
    >>> me.policies()[0]
    'fp32'
    """
    return list(_core.policies())


def policy(
    name_or_config: str | os.PathLike[str] | Mapping[str, Any],
    framework: str = "",
    device: str = "",
    versions: Mapping[str, str] | None = None,
    requirements: str | os.PathLike[str] = "",
    despite: Sequence[str] = (),
) -> Policy:
    """Loads a preset or a policy's .toml file, or imports a training framework's config.

    Parameters
    ----------
    name_or_config : str, path or mapping
        A preset (``"amp-bf16"``), a policy file (``"mine.toml"``), a framework's config file (``"ds_config.json"``;
        .json, .yaml, .yml, .args, .conf, a .sh script, or a .toml or .py file with a framework's keys), or a config as
        a dict.
    framework : str
        Framework of the config. By default, it is recognised from the keys of the config.
    device : str
        Device that the config runs on, such as ``h100``. The default is a100.
    versions : mapping
        Versions of frameworks and packages by name, such as ``{"deepspeed": "0.18.2"}``. The default is
        ``requirements``, or the newest known version.
    requirements : str or path
        A file with the versions of packages: requirements.txt, the output of ``pip freeze``, uv.lock or poetry.lock.
    despite : sequence of str
        Ids of faults of framework releases (``macheps policy history``) with which the config is imported all the same.

    Examples
    --------
    >>> import macheps as me
    >>> p = me.policy({"train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": True}}, versions={"deepspeed": "0.18.2"})
    >>> p.framework, "fp16" in p.loss_scaler or "dynamic" in p.loss_scaler or bool(p.loss_scaler)
    ('deepspeed', True)
    """
    if isinstance(name_or_config, Mapping):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(name_or_config, file)
            return _config(path, "config", framework, device, versions, requirements, despite)
    name = os.fspath(name_or_config)
    if _core.is_config_name(name):
        return _config(name, name, framework, device, versions, requirements, despite)
    made = json.loads(_core.load_policy(name))
    origin = f"preset {name}" if name in policies() else name
    return Policy(made["name"], made["description"], made["toml"], origin, made["loss_scaler"])


def _config(
    path: str,
    origin: str,
    framework: str,
    device: str,
    versions: Mapping[str, str] | None,
    requirements: str | os.PathLike[str],
    despite: Sequence[str],
) -> Policy:
    made = json.loads(
        _core.import_config([path], framework, device, dict(versions or {}), os.fspath(requirements), list(despite))
    )
    findings = made["findings"]
    if made["refused"]:
        worst = next(one for one in findings if one["severity"] == "error")
        raise Error(f"this {made['framework']} config has an error: {worst['message']}", f"{origin} ({worst['key']})",
                    worst["instead"])
    return Policy(made["name"], made["description"], made["toml"], origin, made["loss_scaler"], made["framework"], findings)
