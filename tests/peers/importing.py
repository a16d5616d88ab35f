# SPDX-License-Identifier: Apache-2.0
"""Functions for the comparisons of `macheps policy import` with the parsers of frameworks."""
import ast
import atexit
import glob
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from peer import Failure, need

WORK = pathlib.Path(tempfile.mkdtemp(prefix="macheps_peers_"))
atexit.register(shutil.rmtree, WORK, ignore_errors=True)


def imported(program, framework, version, path, extra=(), device="cpu"):
    """Imports a config file with macheps and returns the parsed output of --json."""
    done = subprocess.run([program, "policy", "import", str(path), "--json", "--framework", framework, "--framework-version", version,
                           "--gpu", device, *extra], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise Failure(f"{path}: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def errors(result):
    """Returns the rule names of all findings with severity "error", without the prefix "FRAMEWORK/"."""
    return {f["rule"].split("/", 1)[1] for f in result["findings"] if f["severity"] == "error"}


def field(result, name):
    """Returns a resolved field as a dictionary. A field without parameters becomes {"kind": value}."""
    value = result["resolved"].get(name, {}).get("value")
    return value if isinstance(value, dict) else {"kind": value}


class Comparison:
    def __init__(self):
        self.compared = self.refused = 0
        self.failures = []

    def same(self, what, ours, theirs):
        self.compared += 1
        if ours != theirs:
            self.failures.append(f"{what}: macheps {ours!r}, the framework {theirs!r}")

    def finish(self, title):
        for failure in self.failures[:40]:
            print(failure)
        print(f"{title}: {self.compared} comparisons, {self.refused} configs refused by both, {len(self.failures)} differences")
        sys.exit(1 if self.failures else 0)


def published(options, pattern):
    return sorted(glob.glob(str(options.configs / pattern))) if options.configs else []


def letter(dtype):
    return {"torch.float32": "F", "torch.float16": "H", "torch.bfloat16": "B"}[str(dtype)]


def function_of(package, module, name, **names):
    """Returns a function or method of a module without importing the module, because the import would need the packages
    of the whole training stack. Only the source of the function is compiled."""
    path = pathlib.Path(need(package).__file__).parent / module
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            alone = ast.Module([ast.ImportFrom("__future__", [ast.alias("annotations")], 0), node], [])
            scope = dict(names)
            exec(compile(ast.fix_missing_locations(alone), str(path), "exec"), scope)
            return scope[name]
    raise LookupError(f"{path} has no {name}")
