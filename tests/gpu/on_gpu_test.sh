#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/on-gpu with programs and a GPU that are not there: parts in their order, failures that stop nothing else,
# archives, and the exit codes.     on_gpu_test.sh SOURCE_FOLDER SCRATCH_FOLDER
set -u
source=$1 place=$2
rm -rf "$place"
mkdir -p "$place"/{scripts,carry,bin}
cp "$source/scripts/on-gpu" "$place/scripts/"
cd "$place" || exit 1

# tf32's form breaks the device, and tf32's training differs.
cat > carry/macheps <<'EOF'
#!/usr/bin/env bash
verb=$1
while [ $# -gt 0 ]; do
    case $1 in
        --only) only=$2 ;;
        --csv) csv=$2 ;;
        -o) run=$2 ;;
        -p) policy=$2 ;;
        --device) device=$2 ;;
    esac
    shift
done
[ -n "${NO_DEVICE:-}" ] && { echo "macheps: cuda: no CUDA device" >&2; exit 4; }
case $verb in
    verify)
        echo "matrix,$only,normal,m,10,0,equal,1," > "$csv"
        case $only in *tf32*) echo "matrix,x,,,0,0,failed,1,an illegal address" >> "$csv"; exit 1 ;; esac ;;
    train)
        mkdir -p "$run"
        for file in steps evals sites exponents hashes; do echo "$policy" > "$run/$file.csv"; done
        [ "$policy $device" = "h100-tf32 cuda" ] && echo more >> "$run/evals.csv" ;;
esac
exit 0
EOF
printf '#!/usr/bin/env bash\necho what,ratio\n' > carry/bench_gpu
printf '#!/usr/bin/env bash\n[ -z "${NO_DEVICE:-}" ]\n' > bin/nvidia-smi
printf '#!/usr/bin/env bash\nexit 1\n' > bin/python3
printf '#!/usr/bin/env bash\nexit 0\n' > bin/compute-sanitizer
chmod +x carry/* bin/*
export PATH=$PWD/bin:$PATH
failures=0
# has FILE TEXT
has() { grep -qF -- "$2" "$1" || { echo "$1 lacks: $2"; cat "$1"; failures=$((failures + 1)); }; }
# ends_with CODE WORD...
ends_with() {
    local wanted=$1 code
    shift
    rm -rf out
    scripts/on-gpu out "$@" > log.txt 2>&1
    code=$?
    [ "$code" -eq "$wanted" ] || { echo "on-gpu $*: exit $code, and not $wanted"; cat log.txt; failures=$((failures + 1)); }
}

ends_with 1
has out/summary.txt "matrix: exit 1, "
has out/summary.txt "6 rows equal, 0 differ, 1 failed"
has out/summary.txt "train: 10 runs equal, 2 DIFFERENT"
has out/summary.txt "scalar: exit 0"
has out/summary.txt "bench: exit 0"
has out/summary.txt "sanitizer: exit 0"
has out/summary.txt "NOT all equal"
[ "$(ls out/*.tar.gz | wc -l)" -eq 6 ] || { ls out; failures=$((failures + 1)); }
tar -xzf out/train.tar.gz -O train/log.txt > train.txt
has train.txt "h100-tf32, tiny, 200 steps: DIFFERENT: evals"
has train.txt "h100-fp8-promoted, base, 20 steps: equal"

ends_with 0 scalar library
has out/summary.txt "all equal"
ends_with 2 scalar no-such-part
has out/summary.txt "unknown part 'no-such-part'"
printf '#!/usr/bin/env bash\nexit 1\n' > carry/bench_gpu
ends_with 1 bench
has out/summary.txt "bench: exit 1"
NO_DEVICE=1 ends_with 4
has out/summary.txt "no GPU here"
rm carry/macheps
ends_with 2
[ "$failures" -eq 0 ] && echo "on-gpu: as described"
[ "$failures" -eq 0 ]
