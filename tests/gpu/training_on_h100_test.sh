#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does the CPU still train as an H100's tensor cores did? Usage: training_on_h100_test.sh MACHEPS SOURCE_FOLDER FOLDER
# A change that alters the arithmetic of training on purpose makes the recording void: record it again on a GPU
# (scripts/gpu-first-contact train), or remove the policy's line and say so in docs/gpu.md.
set -eu
macheps=$1 recorded=$2/tests/traces/h100-80gb-hbm3/training.txt folder=$3
rm -rf "$folder"
policies=$(awk '!/^#/ { printf "%s%s", comma, $2; comma = "," }' "$recorded")
"$macheps" train --device cpu -p "$policies" --seeds 0 --size tiny --steps 50 --hash-sites --no-report -q -o "$folder"
failed=0
while read -r sum policy count; do
    [ "$sum" != '#' ] || continue
    found=$(grep "^$policy/0," "$folder/hashes.csv" | sha256sum | cut -d ' ' -f 1)
    if [ "$found" = "$sum" ] && [ "$(grep -c "^$policy/0," "$folder/hashes.csv")" -eq "$count" ]; then
        echo "$policy: $count tensors have the bits that the H100 gave"
    else
        echo "$policy: the bits are not those of the H100"
        failed=1
    fi
done < "$recorded"
exit "$failed"
