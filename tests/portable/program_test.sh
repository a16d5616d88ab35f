#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# program_test.sh PORTABLE OTHER: tests a portable program. It must need only glibc 2.28, compute the same bits as
# another build, and start on Debian 11 (glibc 2.31), which debootstrap downloads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
portable=$(realpath "$1") other=$(realpath "$2")
train=(train -q --policy pure-bf16-sr,h100-fp8-promoted --seeds 0 --steps 5 --hash-sites)
rows="hashes.csv steps.csv evals.csv sites.csv"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# same_rows RUN: compares the rows of a run directory with those of the other build.
same_rows() {
    local file
    for file in $rows; do cmp "$folder/other/$file" "$1/$file"; done
}

scripts/glibc-needs "$portable" 2.28
"$other" "${train[@]}" --out "$folder/other"
"$portable" "${train[@]}" --out "$folder/portable"
same_rows "$folder/portable"
echo "the rows of the portable program and of the other build are identical: $rows"

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "MACHEPS-SKIPPED: Debian 11: only root can use debootstrap (apt-get install debootstrap)"
    exit 0
fi
root=${MACHEPS_OLD_ROOT:-$folder/root}
[ -e "$root/bin/sh" ] || debootstrap --variant=minbase bullseye "$root" >"$folder/debootstrap.log" 2>&1 ||
    { echo "MACHEPS-SKIPPED: Debian 11 could not be downloaded: $(tail -n 1 "$folder/debootstrap.log")"; exit 0; }
cp "$portable" "$root/tmp/macheps"
rm -rf "$root/tmp/run"
# LD_BIND_NOW: every function must exist, also those that these commands do not call.
LD_BIND_NOW=1 chroot "$root" /tmp/macheps "${train[@]}" --out /tmp/run
same_rows "$root/tmp/run"
echo "the rows are also identical in $(. "$root/etc/os-release" && echo "$PRETTY_NAME"):" \
    "$(chroot "$root" ldd --version | sed 1q)"
