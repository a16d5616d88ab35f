#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the Python package gives the same bits on CPUs without AVX-512 and without AVX2 as on this machine's CPU.
# With `all`, runs the package's tests on those CPUs instead.
# usage: python_test.sh PYTHON SOURCES PROGRAM [all]; PYTHONPATH must contain the package
set -euo pipefail
python=$1 sources=$2 program=$3 what=${4:-bits}
here=$sources/tests/dispatch
command -v qemu-x86_64 >/dev/null || { echo "MACHEPS-SKIPPED: absent: qemu-x86_64 (Debian: qemu-user)"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for cpu in without-avx512 without-avx2; do
    if [ "$what" = all ]; then
        printf '#!/bin/sh\nexec bash "%s/on_cpu.sh" %s "%s" "$@"\n' "$here" "$cpu" "$program" >"$folder/$cpu"
        chmod +x "$folder/$cpu"
        MACHEPS=$folder/$cpu bash "$here/on_cpu.sh" "$cpu" "$python" -m pytest -q -p no:cacheprovider -m "not slow" \
            --ignore "$sources/tests/python/test_notebooks.py" "$sources/tests/python"
        continue
    fi
    [ -e "$folder/expected" ] || "$python" "$here/python_bits.py" >"$folder/expected"
    bash "$here/on_cpu.sh" "$cpu" "$python" "$here/python_bits.py" >"$folder/$cpu"
    diff "$folder/expected" "$folder/$cpu"
done
# NumPy's wheels may need more than the first level of x86-64. Then the import must fail with a message that says so.
if ! bash "$here/on_cpu.sh" baseline "$python" -c 'import macheps' 2>"$folder/error"; then
    grep -q "pip install 'numpy<2.4'\|NumPy was built with baseline optimizations" "$folder/error" || { cat "$folder/error"; exit 1; }
fi
