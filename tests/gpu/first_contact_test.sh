#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs scripts/gpu-first-contact with stand-ins for the programs, Python and the GPU. The stand-in for the capture of
# Triton deletes the result of the stage torch if LOSES is set.
#     first_contact_test.sh SOURCE_FOLDER SCRATCH_FOLDER
set -u
source=$1 place=$2
rm -rf "$place"
mkdir -p "$place"/{scripts,carry/expected/{smoke,train},programs,bin}
cp "$source/scripts/gpu-first-contact" "$place/scripts/"
cd "$place" || exit 1

cat > programs/macheps <<'END'
#!/usr/bin/env bash
verb=$1 units=native
while [ $# -gt 0 ]; do
    case $1 in
        --only) only=$2 ;;
        --csv) csv=$2 ;;
        --record) record=$2 ;;
        -o) run=$2 ;;
        --steps) steps=$2 ;;
        --matrix-units) units=$2 ;;
    esac
    shift
done
[ "$verb" = --version ] || [ -z "${NO_DEVICE:-}" ] || { echo "macheps: cuda: no CUDA device" >&2; exit 4; }
case $verb in
    verify)
        verdict=equal
        [[ "$only" != library:* ]] || verdict=recorded
        [ -z "${csv:-}" ] || printf 'kind,instruction,class,model,trials,mismatches,verdict,seconds,note\nmatrix,%s,normal,m,10,0,%s,1,\n' \
            "${only//[,:]/.}" "$verdict" > "$csv"
        [ -z "${record:-}" ] || { mkdir -p "$record"; echo {} > "$record/${only//[^a-z0-9]/_}.jsonl"; }
        if [[ "${BREAKS:-}" && "$only" == *tf32.tf32 ]]; then
            echo 'matrix,wgmma.m64n8k8.f32.tf32.tf32,,,0,0,failed,1,cudaDeviceSynchronize: an illegal memory access' >> "$csv"
            exit 1
        fi ;;
    train)
        mkdir -p "$run"
        for file in steps evals sites exponents hashes; do printf 'run,%s\nfp32/0,%s\n' "$file" "$steps" > "$run/$file.csv"; done
        [ "${DIFFERS:-}" != "$units" ] || echo 'h100-tf32/0,0' >> "$run/hashes.csv" ;;
esac
exit 0
END
printf '#!/usr/bin/env bash\necho what,ratio\n' > programs/bench_gpu
# This stand-in for python3 replaces the captures of PyTorch and Triton. The capture of PyTorch writes some bytes, and
# then hangs if TORCH_HANGS is set.
cat > bin/python3 <<'END'
#!/usr/bin/env bash
[ "${1:-}" = -u ] && shift
case ${1:-} in
    *torch_capture.py)
        mkdir -p "$2"
        head -c "${TORCH_BYTES:-10}" /dev/urandom > "$2/outputs"
        [ -z "${TORCH_HANGS:-}" ] || { trap '' TERM; sleep 98765; } ;;
    *triton_capture.py)
        mkdir -p "$2"
        echo outputs > "$2/outputs"
        [ -z "${LOSES:-}" ] || rm ../torch/done ;;
esac
exit 0
END
printf '#!/usr/bin/env bash\n[ -z "${NO_DEVICE:-}" ] && echo GPU 0: stand-in\n' > bin/nvidia-smi
printf '#!/usr/bin/env bash\necho "$*" >> "$SANITIZED"\n' > bin/compute-sanitizer
printf '#!/usr/bin/env bash\necho "CMake Error: no fmt"; exit 1\n' > bin/cmake
printf '#!/usr/bin/env bash\n' > bin/nvcc
chmod +x programs/* bin/*
for stage in smoke:2 train:50; do
    for file in steps evals sites exponents hashes; do
        printf 'run,%s\nfp32/0,%s\n' "$file" "${stage#*:}" | gzip > "carry/expected/${stage%:*}/$file.csv.gz"
    done
done
tar -C programs -cJf carry/programs.tar.xz .
export PATH=$PWD/bin:$PATH SANITIZED=$PWD/sanitized OUT=$PWD/out
failures=0
fail() { echo "$*"; failures=$((failures + 1)); }
has() { grep -qF -- "$2" "$1" || { fail "$1 lacks: $2"; cat "$1"; }; }         # has FILE TEXT
holds() { tar -tf "out/$1" | grep -qxF -- "$2" || fail "$1 lacks $2"; }          # holds ARCHIVE PATH
# ends_with CODE STAGE...: runs the stages with an empty folder for the results, and checks the exit code.
ends_with() {
    local wanted=$1 code
    shift
    rm -rf out
    scripts/gpu-first-contact "$@" > log.txt 2>&1
    code=$?
    [ "$code" -eq "$wanted" ] || { fail "gpu-first-contact $*: exit $code, expected $wanted"; cat log.txt; }
    [ "$(find out -type f | wc -l)" -le 8 ] || fail "too many files: $(ls out)"
}
fresh() { rm -rf build "$SANITIZED"; }

# Without faults, every stage runs once. A second run repeats no stage, and only writes the archives of the results
# again.
ends_with 0
has out/summary.txt "smoke: exit 0; smoke: questions: 1 equal; two steps: equal"
has out/summary.txt "traces: exit 0; traces: 11 equal; 6 traces"
has out/summary.txt "train: exit 0; train: equal"
has out/summary.txt "speed: exit 0"
has out/summary.txt "all results that were compared are equal"
has out/summary.txt "recorded and not compared: rows: 3 and the captures of torch and the captures of triton"
holds smoke.tar.gz smoke/machine.txt
holds traces.tar.gz traces/wgmma-fp8.csv
holds train.tar.gz train/native/hashes.csv
holds train.tar.gz train/native.sha256
holds torch.tar.gz torch/torch/outputs
holds torch.tar.gz triton/triton/outputs
holds speed.tar.gz speed/bench.csv
ends_with 0
has out/summary.txt "memcheck: done before, exit 0"
holds torch.tar.gz triton/triton/outputs
GPU_RETRY="scalar" ends_with 0 smoke scalar
has out/summary.txt "smoke: done before"
has out/summary.txt "scalar: exit 0; "

# A stage that hangs is killed, and its partial results are kept. The second run repeats only this stage.
fresh
TORCH_HANGS=1 GPU_SECONDS=17 ends_with 1 triton torch
has out/summary.txt "torch: exit 137"
holds torch.tar.gz torch/torch/outputs
! pgrep -f 'sleep 98765' > /dev/null || fail "the process that hung is still running"
ends_with 0 triton torch
has out/summary.txt "triton: done before"
has out/summary.txt "torch: exit 0"

# A stage whose result is lost counts as failed.
fresh
LOSES=1 ends_with 1 torch triton
has out/summary.txt "NOT all equal, or not all run"

# The script needs no variable of the environment except PATH.
fresh
env -i PATH="$PATH" OUT="$OUT" scripts/gpu-first-contact smoke > log.txt 2>&1 || fail "with an empty environment: exit $?"
grep -q 'unbound variable' log.txt && fail "a variable of the environment is missing"

# Large results are split into several files. If there are too many small archives, they are put into one file
# (rest.tar).
fresh
TORCH_BYTES=100000 GPU_MAX_BYTES=32000 ends_with 0
find out -type f -size +32000c | grep . && fail "a file is too large"
tar -tf out/rest.tar > rest.txt
has rest.txt speed.tar.gz
cat out/torch.tar.gz.0* | tar -tz > torch.txt
has torch.txt torch/torch/outputs

# If training on the GPU differs from training on the CPU, it is repeated on emulated matrix units. In this test, only
# training on the native units differs, which shows that the model of a unit is wrong and that the kernels are right.
fresh
DIFFERS=native ends_with 1 train
has out/summary.txt "train: exit 1; train: DIFFERENT"
tar -xzf out/train.tar.gz
has train/compared.txt "hashes, row 3: h100-tf32/0,0"
has train/legs.txt "hashes: 1 of 3 rows differ"
sed -n '/compared with the CPU/,/compared with the emulated/p' train/legs.txt | grep -q differ && fail "the emulated units differ"

# After a CUDA error, memcheck is the next stage. It runs the instruction form that failed.
fresh
BREAKS=1 ends_with 1 traces scalar memcheck
has "$SANITIZED" "verify --only matrix:wgmma.m64n8k8.f32.tf32.tf32"
[ "$(grep -oE '(traces|scalar|memcheck): exit' out/summary.txt | tr -d '\n')" = "traces: exitmemcheck: exitscalar: exit" ] ||
    { fail "wrong order"; cat out/summary.txt; }

# If there is no device, the summary has one line. If the program does not start, only the stages that use Python
# packages run.
fresh
NO_DEVICE=1 ends_with 4
has out/summary.txt "no GPU here, so nothing was run: macheps: cuda: no CUDA device"
[ "$(wc -l < out/summary.txt)" -eq 1 ] || fail "more than one line"
ends_with 2 no-such-stage
has out/summary.txt "unknown stage 'no-such-stage'"
fresh
printf '#!/usr/bin/env bash\necho "no lib" >&2; exit 127\n' > programs/macheps
tar -C programs -cJf carry/programs.tar.xz .
ends_with 2
has out/summary.txt "it does not build here: CMake Error: no fmt"
has out/summary.txt "traces: not run, there is no program"
holds smoke.tar.gz smoke/machine.txt
holds torch.tar.gz torch/torch/outputs
holds torch.tar.gz triton/triton/outputs

[ "$failures" -eq 0 ] && echo "gpu-first-contact: as described"
[ "$failures" -eq 0 ]
