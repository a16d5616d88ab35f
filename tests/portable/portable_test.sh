#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# portable_test.sh SOURCE_DIR COMPILER: links features.cpp as MACHEPS_PORTABLE links the program. The result must need
# only glibc 2.28 and must run.
set -euo pipefail
source_dir=$1 compiler=$2
skip() { echo "MACHEPS-SKIPPED: $1"; exit 0; }
fail() { echo "FAILED: $1"; exit 1; }
[ "$(uname -sm)" = "Linux x86_64" ] || skip "portable programs are made for Linux on x86-64"
"$compiler" --version | grep -qi 'free software foundation' || skip "portable programs are linked with GCC"
command -v python3 objdump >/dev/null || skip "python3 or objdump is missing"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$source_dir/scripts/glibc-stubs" 2.28 "$folder/stubs" --compiler "$compiler"
options=$(sed -n 's/^ *set(macheps_portable_options \(.*\))$/\1/p' "$source_dir/cmake/macheps_portable.cmake")
[ -n "$options" ] || fail "cmake/macheps_portable.cmake has no line set(macheps_portable_options ...)"
"$compiler" -std=c++20 -O1 -c "$source_dir/tests/portable/features.cpp" -o "$folder/features.o"
"$compiler" -std=c++20 -O1 -c "$source_dir/cmake/glibc_2_28.cpp" -o "$folder/glibc.o"
link() { "$compiler" "-L$folder/stubs" $options "$@"; }

link "$folder/features.o" "$folder/glibc.o" -o "$folder/features"
"$source_dir/scripts/glibc-needs" "$folder/features" 2.28
shown=$("$folder/features" "$folder")
[ "$shown" = "constructed, caught 4000, size 5, link 1, waits 1, random 1" ] || fail "the program printed: $shown"

# Without glibc_2_28.cpp, the stubs must lack the newer functions.
! link "$folder/features.o" -o "$folder/incomplete" 2>"$folder/errors" || fail "functions newer than 2.28 were linked"
grep -q "pthread_cond_clockwait" "$folder/errors" || fail "the linker reported: $(cat "$folder/errors")"

# An ordinary build needs a newer glibc, and scripts/glibc-needs says so.
"$compiler" -std=c++20 "$folder/features.o" -o "$folder/ordinary"
! "$source_dir/scripts/glibc-needs" "$folder/ordinary" 2.28 2>"$folder/errors" || fail "an ordinary build passed"
grep -q "glibc 2.28 lacks" "$folder/errors" || fail "scripts/glibc-needs printed: $(cat "$folder/errors")"
echo "passed"
