# SPDX-License-Identifier: Apache-2.0
"""Writes and reads captures, which are recorded outputs of GPU kernels.

`Recorder` writes a capture on the machine with the GPU, and `load` reads it on any machine. A capture has these files:

    OUTDIR/items.jsonl    one JSON object per item: the operation, its settings, and the positions of its arrays
    OUTDIR/GROUP.bin      the arrays of a group of items, one after another, as little-endian unsigned integers
    OUTDIR/machine.json   the device and the versions of its libraries

Items and arrays are appended and flushed one by one. A run that is killed therefore loses at most the current item.
"""
import hashlib
import json
import pathlib
import sys
import time
import traceback

import numpy as np

MOST_OUTPUTS = 512  # maximum number of outputs of one product that are kept


def grid(m, n):
    """Returns the rows and columns whose outputs are kept: all of a small product, otherwise usually 32 x 16."""
    if m * n <= MOST_OUTPUTS:
        return np.arange(m), np.arange(n)
    rows = min(m, 32)
    columns = min(n, MOST_OUTPUTS // rows)
    rows = min(m, MOST_OUTPUTS // columns)
    # The first and the last row and column are kept. The spacing of the kept rows and columns is odd or uneven, so that
    # most of their positions within a tile (modulo 8 and modulo 16) occur.
    return tuple(np.unique(np.linspace(0, size - 1, count).astype(np.int64)) for size, count in ((m, rows), (n, columns)))


class Recorder:
    def __init__(self, folder, seconds, begin=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.begin, self.seconds = time.monotonic() if begin is None else begin, seconds
        self.items = open(self.folder / "items.jsonl", "a", encoding="utf-8")
        self.files = {}
        self.counts = {"ok": 0, "error": 0, "unequal": 0}

    def elapsed(self):
        return time.monotonic() - self.begin

    def is_over(self):
        return self.elapsed() > self.seconds - 1.5

    def log(self, text):
        print(f"[{self.elapsed():6.2f}] {text}", flush=True)

    def machine(self, facts):
        (self.folder / "machine.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")

    def item(self, group, name, facts, run):
        """Runs one item and records it. Returns whether the item succeeded.

        `run` is called with the record. It returns a dict of arrays, and may add entries to the record."""
        begin = time.monotonic()
        record = {"group": group, "name": name, **facts}
        try:
            arrays = run(record)
            record["arrays"] = {key: self._write(group, value) for key, value in arrays.items()}
            self.counts["ok"] += 1
            self.counts["unequal"] += record.get("equal_twice") is False
        except Exception as error:  # an item that fails does not stop the next items
            record["error"] = f"{type(error).__name__}: {error}"[:800]
            record["where"] = traceback.extract_tb(error.__traceback__)[-1].line
            self.counts["error"] += 1
        record["seconds"] = round(time.monotonic() - begin, 4)
        self.items.write(json.dumps(record, default=str) + "\n")
        self.items.flush()
        failed = "error" in record
        outcome = record["error"].splitlines()[0][:150] if failed else {False: "differs when run twice"}.get(record.get("equal_twice"), "ok")
        self.log(f"{group}/{name}: {outcome}, {record['seconds']:.3f} s")
        return not failed

    def _write(self, group, array):
        if group not in self.files:
            self.files[group] = open(self.folder / f"{group}.bin", "ab")
        file, array = self.files[group], np.ascontiguousarray(array)
        if array.dtype.kind != "u":
            raise TypeError(f"an array of {array.dtype}, not of codes")
        place = {"offset": file.tell(), "type": array.dtype.str, "shape": list(array.shape)}
        file.write(array.tobytes())
        file.flush()
        return place

    def close(self):
        for file in (self.items, *self.files.values()):
            file.close()
        size = sum(path.stat().st_size for path in self.folder.iterdir())
        self.log(f"{self.counts['ok']} items recorded, {self.counts['error']} errors, "
                 f"{self.counts['unequal']} recorded items differ when run twice, {size / 1e6:.1f} MB")


def hash_of(codes):
    return hashlib.sha256(np.ascontiguousarray(codes).tobytes()).hexdigest()[:16]


def load(folder):
    """Yields the items of a capture. Their entry `arrays` has NumPy arrays instead of the positions of the arrays."""
    folder = pathlib.Path(folder)
    data = {path.stem: path.read_bytes() for path in folder.glob("*.bin")}
    for line in (folder / "items.jsonl").read_text(encoding="utf-8").splitlines():
        try:
            item = json.loads(line)
        except ValueError:  # the last line of a run that was killed
            print(f"captures: an incomplete line in {folder}/items.jsonl", file=sys.stderr)
            continue
        for name, place in item.get("arrays", {}).items():
            array = np.frombuffer(data[item["group"]], place["type"], int(np.prod(place["shape"])), place["offset"])
            item["arrays"][name] = array.reshape(place["shape"])
        yield item
