#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs the page into one HTML file. The same inputs give the same bytes.

usage: pack.py BUILD PROGRAM OUT
  BUILD    folder with macheps_web.js and macheps_web.wasm
  PROGRAM  native program, whose output the self-check of the page expects
  OUT      the HTML file
"""
import base64
import gzip
import json
import pathlib
import subprocess
import sys

# Command lines of the self-check. Together they run a conversion, an operation of each kind of sum, and a config.
MACHINES = ["fp32.chain", "sm70.mma.fp16", "sm80.mma.bf16", "sm90.wgmma.fp8", "sm100.tcgen05.nvfp4", "cdna3.mfma.fp16"]
CHECKS = [
    ["show", "0.1", "1/3", "65520", "5e-324", "-0", "--json"],
    ["compute", "0.1 + 0.2", "--json"],
    ["sum", "-n", "64", "--method", "recursive,kahan,pairwise", "-f", "bf16,fp32", "-q"],
    *(["gemm", "-m", "1", "-n", "2", "-k", "96", "-q", "-M", machine] for machine in MACHINES),
]
VIEWS = ["number", "compute", "format", "sum", "unit", "config", "scaler", "policy"]


def script_text(text: str) -> str:
    """Escapes what would end or confuse a script element."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def main() -> None:
    build, program, out = sys.argv[1:]
    web = pathlib.Path(__file__).resolve().parent
    wasm = gzip.compress(pathlib.Path(build, "macheps_web.wasm").read_bytes(), 9, mtime=0)
    recorded = [{"args": args, "stdout": subprocess.run([program, *args], check=True, capture_output=True, text=True).stdout}
                for args in CHECKS]
    worker = "\n".join([pathlib.Path(build, "macheps_web.js").read_text(), (web / "program.js").read_text(),
                        (web / "worker.js").read_text()])
    views = [web / "views" / f"{name}.js" for name in VIEWS]
    scripts = "\n".join([(web / "page.js").read_text(), (web / "chart.js").read_text(), *(path.read_text() for path in views)])
    page = (web / "page.html").read_text()
    data = "".join([
        f'<script type="application/octet-stream" id="wasm">{base64.b64encode(wasm).decode()}</script>\n',
        f'<script type="text/plain" id="worker">{script_text(worker)}</script>\n',
        f'<script type="application/json" id="recorded">{script_text(json.dumps(recorded))}</script>\n',
    ])
    page = page.replace("@page.css@", (web / "page.css").read_text())
    page = page.replace("<script>@scripts@</script>", f"{data}<script>\n{script_text(scripts)}</script>")
    pathlib.Path(out).write_text(page)
    print(f"{out}: {len(page.encode()) / 1e6:.2f} MB")


main()
