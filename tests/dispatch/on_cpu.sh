#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command on an emulated CPU with fewer vector instructions than this machine's CPU. The emulator is qemu-x86_64
# (Debian: qemu-user). Processes that the command starts are not emulated.
# usage: on_cpu.sh without-avx512|without-avx2|baseline COMMAND [ARGUMENT...]
set -euo pipefail
case "$1" in
    # Leaves out features that QEMU does not emulate and would warn about.
    without-avx512) cpu=Haswell-v2,-pcid,-x2apic,-tsc-deadline,-invpcid ;;
    without-avx2) cpu=Nehalem-v1 ;;
    baseline) cpu=qemu64,-pni,-cx16,-lahf_lm,-svm ;;  # the first level of x86-64, which ends with SSE2
    *) echo "on_cpu.sh: unknown CPU '$1'; use one of without-avx512, without-avx2, baseline" >&2; exit 2 ;;
esac
command -v qemu-x86_64 >/dev/null || { echo "MACHEPS-SKIPPED: absent: qemu-x86_64 (Debian: qemu-user)"; exit 0; }
exec qemu-x86_64 -cpu "$cpu" "${@:2}"
