# SPDX-License-Identifier: Apache-2.0
"""The files of a capture: written on the device by `Recorder`, read on any machine by `load`.

    OUTDIR/items.jsonl    one JSON object per item: the operation, its settings, and the places of its arrays
    OUTDIR/GROUP.bin      the arrays of a group of items, one after another, as little-endian unsigned integers
    OUTDIR/machine.json   the device and the versions of its libraries

Both kinds of file are only appended to, and each item is flushed when it ends: a run that is killed loses at most the
item that it was running.
"""
import hashlib
import json
import pathlib
import sys
import time
import traceback

import numpy as np

MOST_OUTPUTS = 512  # number of outputs of a large product that are kept: a grid of rows and columns


def grid(m, n):
    """Returns the rows and columns of a product that are kept: all of a small one, otherwise 32 x 16 spread over it."""
    if m * n <= MOST_OUTPUTS:
        return np.arange(m), np.arange(n)
    rows = min(m, 32)
    columns = min(n, MOST_OUTPUTS // rows)
    rows = min(m, MOST_OUTPUTS // columns)
    # The first and the last are kept; odd steps visit all places modulo 8 and 16 of a tile.
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
        """Runs one item and records it. `run` returns a dict of arrays, and may add to `facts`. Returns success."""
        begin = time.monotonic()
        record = {"group": group, "name": name, **facts}
        try:
            arrays = run(record)
            record["arrays"] = {key: self._write(group, value) for key, value in arrays.items()}
            self.counts["ok"] += 1
            self.counts["unequal"] += record.get("equal_twice") is False
        except Exception as error:  # the next item runs in any case
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
        self.log(f"{self.counts['ok']} items recorded, {self.counts['error']} errors, {self.counts['unequal']} of them "
                 f"differ when run twice, {size / 1e6:.1f} MB")


def hash_of(codes):
    return hashlib.sha256(np.ascontiguousarray(codes).tobytes()).hexdigest()[:16]


def load(folder):
    """Yields the items of a capture, `arrays` holding NumPy arrays instead of places."""
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
