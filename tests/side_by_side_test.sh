#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each of the given test programs twice at the same time, as two checkouts on one machine would.
# Arguments: pairs of a program and a filter for its test cases.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
children=()
while [ $# -gt 0 ]; do
    for copy in 1 2; do
        log=$folder/$(basename "$1").$copy.txt
        "$1" "$2" >"$log" 2>&1 &
        children+=("$!:$log")
    done
    shift 2
done
failed=0
for child in "${children[@]}"; do
    wait "${child%%:*}" || { failed=1; cat "${child#*:}"; }
done
exit "$failed"
