#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that training on the CPU still gives the bits that were recorded when the tensor cores of GPUs trained.
# Usage: training_on_gpus_test.sh MACHEPS SOURCE_FOLDER FOLDER
# An intentional change of the arithmetic of training invalidates a recording. If you have a GPU of the recorded kind,
# record again (scripts/gpu-first-contact train). If you have none, remove the lines of the affected policies from the
# recording, and mention the removal in docs/gpu.md.
set -eu
macheps=$1 folder=$3
recorded=("$2"/tests/traces/*/training.txt)
rm -rf "$folder"
policies=$(awk '!/^#/ && !seen[$2]++ { printf "%s%s", comma, $2; comma = "," }' "${recorded[@]}")
"$macheps" train --device cpu -p "$policies" --seeds 0 --size tiny --steps 50 --hash-sites --no-report -q -o "$folder"
failed=0
for file in "${recorded[@]}"; do
    gpu=$(basename "$(dirname "$file")")
    while read -r sum policy count; do
        [ "$sum" != '#' ] || continue
        found=$(grep "^$policy/0," "$folder/hashes.csv" | sha256sum | cut -d ' ' -f 1)
        if [ "$found" = "$sum" ] && [ "$(grep -c "^$policy/0," "$folder/hashes.csv")" -eq "$count" ]; then
            echo "$policy: $count tensors have the bits that $gpu gave"
        else
            echo "$policy: the bits are not those of $gpu"
            failed=1
        fi
    done < "$file"
done
exit "$failed"
