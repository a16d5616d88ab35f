#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates SARIF and JUnit XML of `macheps check` with published schemas, which the script downloads when it runs.

    build/peers/schemas/bin/python tests/peers/schemas.py --macheps build/quick/experiments/macheps

The schema of SARIF 2.1.0 is published by OASIS. JUnit XML has no standard. The strictest schema in use is that of
Jenkins' xunit plugin. That schema does not allow properties of a test case, although pytest and GitLab use them, so the
script removes them before the validation.
Exit codes: 0 valid, 1 invalid, 77 no network.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree as xml

import peer

np = peer.need("numpy")
jsonschema = peer.need("jsonschema")
xmlschema = peer.need("xmlschema")

SARIF = "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/main/sarif-2.1/schema/sarif-schema-2.1.0.json"
JUNIT = ("https://raw.githubusercontent.com/jenkinsci/xunit-plugin/master/src/main/resources/org/jenkinsci/plugins/xunit/"
         "types/model/xsd/junit-10.xsd")
SUITE = """[suite]
source = "src/soft max.cu"

[[check]]
name = "right <rows> & \\"more\\""; op = "softmax"; files = "right.npz"; line = 12

[[check]]
name = "wrong"; op = "softmax"; files = "wrong.npz"

[[check]]
name = "torn"; op = "softmax"; files = "torn.npz"

[[check]]
op = "attention"; files = "none.npz"
"""


def text_of(source):
    """Returns the text of a schema from a file or a URL."""
    if pathlib.Path(source).exists():
        return pathlib.Path(source).read_text()
    try:
        with urllib.request.urlopen(source, timeout=20) as answer:
            return answer.read().decode()
    except OSError as error:
        peer.skip(f"{source}: {error}")


def write_inputs(folder):
    x = np.random.default_rng(1).standard_normal((64, 128)).astype(np.float32)
    y = np.exp(x.astype(np.float64))
    y = (y / y.sum(-1, keepdims=True)).astype(np.float32)
    np.savez(folder / "right.npz", x=x, out=y)
    y[5, 3] *= 1.001
    np.savez(folder / "wrong.npz", x=x, out=y)
    (folder / "torn.npz").write_bytes(b"PK\3\4")
    (folder / "suite.toml").write_text(SUITE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--macheps", default="build/quick/experiments/macheps", help="the program")
    parser.add_argument("--sarif", default=SARIF, help="file or URL of the schema")
    parser.add_argument("--junit", default=JUNIT)
    options = parser.parse_args()
    sarif_schema, junit_schema = json.loads(text_of(options.sarif)), xmlschema.XMLSchema(text_of(options.junit))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_inputs(folder)
        done = subprocess.run([str(pathlib.Path(options.macheps).resolve()), "check", "suite.toml", "--sarif", "c.sarif", "--junit", "j.xml"],
                              cwd=folder, capture_output=True, text=True)
        if done.returncode != 1:
            raise peer.Failure(f"exit code {done.returncode}, not 1: {done.stderr}")
        log = json.loads((folder / "c.sarif").read_text())
        validator = jsonschema.validators.validator_for(sarif_schema)
        faults = [error.message for error in validator(sarif_schema, format_checker=validator.FORMAT_CHECKER).iter_errors(log)]
        cases = 0
        document = xml.parse(folder / "j.xml")
        for case in document.iter("testcase"):
            cases += 1
            for properties in case.findall("properties"):
                case.remove(properties)
        faults += [error.reason for error in junit_schema.iter_errors(document)]
    results = len(log["runs"][0]["results"])
    if results < 3 or cases != 4:
        faults.append(f"{results} results and {cases} test cases, not at least 3 results and exactly 4 test cases")
    print(f"SARIF: {results} results, JUnit: {cases} test cases, {len(faults)} faults")
    for fault in faults:
        print(f"  {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
