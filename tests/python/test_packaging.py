# SPDX-License-Identifier: Apache-2.0
"""Tests the installation of the package: messages about missing system packages, and notebooks that install the
package."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SOURCE

#: Maps the name of each package in CMake to its name in the error message.
PACKAGES = {"fmt": "fmt", "hwy": "hwy", "tomlplusplus": "tomlplusplus", "nlohmann_json": "nlohmann-json", "yaml-cpp": "yaml-cpp", "CLI11": "CLI11",
            "ZLIB": "zlib"}  # fmt: skip


@pytest.fixture(scope="module")
def build_folder(tmp_path_factory) -> Path:
    """Returns a build folder that all tests share, so that CMake detects the compiler only once."""
    return tmp_path_factory.mktemp("build")


def configured(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeCache.txt").unlink(missing_ok=True)
    return subprocess.run(["cmake", "-S", SOURCE, "-B", folder, "-DMACHEPS_PYTHON=ON", "-DMACHEPS_TESTS=OFF", "-DMACHEPS_CUDA=OFF", *words],
                          capture_output=True, text=True)  # fmt: skip


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
@pytest.mark.parametrize("missing", [["hwy"], ["fmt", "yaml-cpp"], ["boost"], [*PACKAGES, "boost"]], ids=lambda names: "+".join(names)[:20])
def test_missing_packages_are_named_with_the_command_that_brings_them(missing, build_folder):
    words = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in missing if name in PACKAGES]
    if "boost" in missing:  # CMake has no switch that hides one header-only library, so all headers except zlib's are hidden
        words += ["-DCMAKE_FIND_ROOT_PATH=/nowhere", "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY", "-DZLIB_INCLUDE_DIR=/usr/include"]
    made = configured(build_folder, *words)
    assert made.returncode != 0
    said, names = " ".join(made.stderr.split()), ", ".join(PACKAGES.get(name, name) for name in missing)  # CMake wraps lines
    assert f"macheps needs the C++ packages {names} to build. On Debian or Ubuntu: apt-get install g++ cmake" in said, made.stderr
    assert "libboost-dev" in said and "or install a wheel of a release: pip install macheps-*.whl" in said
    assert said.count("CMake Error") == 1, "one message, and nothing about configuration files"


def test_the_message_names_what_scripts_install():
    """Every library that scripts/setup installs is in the message."""
    setup = re.search(r"^packages=\((.*)\)$", (SOURCE / "scripts/setup").read_text(), re.M).group(1).split()
    text = (SOURCE / "python/needed_packages.cmake").read_text()
    told = text[text.index("apt-get install") :].split('")')[0].replace("\\", " ").split()
    libraries = {name for name in setup if name.endswith("-dev")}
    assert libraries <= set(told), libraries - set(told)


def test_the_command_of_the_package_starts_its_program(tmp_path, monkeypatch):
    """`pip install` makes a command `macheps`. It starts the program in the package with the same arguments."""
    entry = re.search(r'^\[project\.scripts\]\nmacheps = "([\w.]+):(\w+)"$', (SOURCE / "pyproject.toml").read_text(), re.M)
    module = importlib.import_module(entry.group(1))
    started: list[tuple[Path, list[str]]] = []
    monkeypatch.setattr(os, "execv", lambda path, words: started.append((Path(path), words)))
    monkeypatch.setattr(sys, "argv", ["macheps", "show", "0.1"])
    program = tmp_path / "macheps"
    monkeypatch.setattr(module, "packaged_program", lambda: program)
    with pytest.raises(SystemExit, match="lacks the program .*: install a wheel"):
        getattr(module, entry.group(2))()
    program.touch(mode=0o755)
    getattr(module, entry.group(2))()
    assert started == [(program, [str(program), "show", "0.1"])]


def first_cell(path: Path) -> str:
    """Returns the first code cell of a notebook."""
    return re.split(r"^# %%.*$", path.read_text(), flags=re.M)[2]


NOTEBOOKS = sorted((SOURCE / "notebooks").glob("[0-9]*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_first_cell_installs_the_package_where_it_is_missing(path, tmp_path, monkeypatch):
    called: list[list[str]] = []
    monkeypatch.setattr(subprocess, "check_call", lambda words: called.append(list(map(str, words))))
    cell = compile(first_cell(path), str(path), "exec")
    monkeypatch.chdir(path.parent)
    exec(cell, {})
    assert called == [], "the package is installed"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    places = {"wheel": tmp_path / "a" / "notebooks", "tree": tmp_path / "b" / "notebooks", "none": tmp_path / "c" / "notebooks"}
    for place in places.values():
        place.mkdir(parents=True)
    (places["wheel"] / "macheps-0.1.0-cp310-abi3-linux_x86_64.whl").touch()
    (places["tree"].parent / "pyproject.toml").touch()
    for name, place in places.items():
        monkeypatch.chdir(place)
        exec(cell, {})
        what = {"wheel": f"{place}/macheps-0.1.0-cp310-abi3-linux_x86_64.whl[notebooks]", "tree": f"{place.parent}[notebooks]", "none": "macheps[notebooks]"}[name]
        assert called.pop() == [*pip, what]


def test_versions_are_one():
    import macheps as me

    version = re.search(r"project\(macheps VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
    assert me.__version__ == version
    project = pytest.importorskip("tomllib").loads((SOURCE / "pyproject.toml").read_text())
    assert re.search(project["tool"]["scikit-build"]["metadata"]["version"]["regex"], (SOURCE / "CMakeLists.txt").read_text())["value"] == version
