#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slurm_test.sh PROGRAM [SCENARIO...]: runs a sweep on a real Slurm cluster with four nodes on this host. The cluster
# has its own configuration. The scenarios are an undisturbed run, unusual names, a failing task, a requeue, a killed
# node, a restarted controller, and a time limit. Each scenario must give the bytes of a single shard. If Slurm cannot
# be started, the script prints one line that begins with MACHEPS-SKIPPED.
set -u
program=$1
shift
skip() { echo "MACHEPS-SKIPPED: $1"; exit 0; }
fail() { echo "FAILED: $1"; exit 1; }

[ "$(id -u)" = 0 ] || skip "only root can start Slurm"
for tool in slurmctld slurmd sbatch scontrol squeue munged mungekey; do
    command -v "$tool" >/dev/null || [ -x "/usr/sbin/$tool" ] || skip "no $tool here (Debian: slurmctld slurmd slurm-client munge)"
done
PATH=$PATH:/usr/sbin
host=$(hostname -s)
getent hosts "$host" >/dev/null || skip "the name of this host, $host, does not resolve"

folder=$(mktemp -d /tmp/macheps-slurm-XXXXXX)
chmod 755 "$folder"
started=()  # ids of the processes that were started here
stop_all() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
    sleep 0.5
    for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null; done
    [ -n "${KEEP:-}" ] || rm -rf "$folder"
}
trap stop_all EXIT

# --- starts munge and Slurm, with private files and ports
port=$((20000 + $$ % 20000))
key=$folder/munge.key socket=$folder/munge.socket
mungekey -c -k "$key" || skip "no munge key could be made"
munged -F --force --key-file="$key" --socket="$socket" --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" \
    --seed-file="$folder/munged.seed" >/dev/null 2>&1 &
started+=($!)
mkdir "$folder/state" "$folder"/spool.n{1,2,3,4}
export SLURM_CONF=$folder/slurm.conf
cat >"$SLURM_CONF" <<CONF
ClusterName=macheps$$
SlurmctldHost=$host
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$socket,cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SlurmdTimeout=10
KillWait=2
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MinJobAge=600
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=1 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
CONF
controller=
start_controller() {
    slurmctld -D >/dev/null 2>&1 &
    controller=$!
    started+=("$controller")
}
declare -A node
start_node() {
    slurmd -D -N "$1" >/dev/null 2>&1 &
    node[$1]=$!
    started+=("${node[$1]}")
}
sleep 1
start_controller
sleep 1
for n in n1 n2 n3 n4; do start_node "$n"; done
# wait_for SECONDS COMMAND...: waits until the command succeeds; returns 1 after SECONDS
wait_for() {
    local end=$((SECONDS + $1))
    shift
    while ! "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.3
    done
}
all_idle() { [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c '^idle$')" = 4 ]; }
wait_for 90 all_idle || { tail -5 "$folder"/*.log >&2; skip "Slurm did not come up: its nodes are not idle"; }

# --- the sweep, and its result with a single shard
cd "$folder" || exit 1
cat >plan.toml <<'PLAN'
name = "slurm-test"
[train]
steps = 200
layers = 1
width = 16
heads = 2
context = 8
batch = 2
eval-batches = 1
warmup = 1
probe-every = 100
save-every = 20
[axes]
policy = ["amp-bf16", "pure-bf16"]
seeds = "0..31"
[units]
minutes = 1e-6
PLAN
"$program" sweep plan plan.toml --out alone >/dev/null 2>&1 || fail "the plan was refused"
cp alone/sweep.json planned.json
"$program" sweep run alone -q || fail "the single shard failed"
"$program" merge alone 2>/dev/null || fail "the merge of the single shard failed"
count=$("$program" sweep plan alone --json | sed -n 's/.*"units": *\([0-9]*\).*/\1/p' | head -1)
[ "$count" = 64 ] || fail "$count units instead of 64"

# rows FILE: prints a CSV file without the columns that contain times, because only these may differ.
rows() { python3 -c '
import csv, sys
for row in [list(csv.reader(open(sys.argv[1])))]:
    keep = [i for i, name in enumerate(row[0]) if name not in ("seconds", "tokens_per_second")]
    for line in row: print(",".join(line[i] for i in keep))' "$1"; }
same_rows() {
    for file in runs evals steps site-sums; do
        rows "$1/merged/$file.csv" | cmp -s - <(rows "alone/merged/$file.csv") || fail "$1: $file.csv differs"
    done
    [ -z "$(ls "$1/work")" ] || fail "$1: work is not empty"
}

# begin NAME [OPTIONS]: submits the sweep in a new folder. Sets `array` and `merging` to the ids of its jobs.
begin() {
    out=$1
    shift
    mkdir "$out" && cp planned.json "$out/sweep.json"
    local jobs
    jobs=$("$program" sweep submit "$out" --engine slurm --shards 4 --sbatch "--mem=100" --json "$@" 2>"$out.err" | tr -d ' \n' |
        sed -n 's/.*"jobs":\["\([0-9]*\)","\([0-9]*\)"\].*/\1 \2/p')
    array=${jobs% *} merging=${jobs#* }
    [ -n "$array" ] || { cat "$out.err"; fail "$out: not submitted"; }
}
ended() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ] && squeue -h >/dev/null 2>&1; }
finish() {
    wait_for 240 ended "$merging" || { squeue; fail "$out: did not end"; }
    "$program" merge "$out" >/dev/null 2>"$out.err" || { cat "$out.err"; fail "$out: merge"; }
    same_rows "$out"
    echo "ok: $out ($SECONDS s)"
}
running() { [ "$(squeue -h -j "$array" -t RUNNING 2>/dev/null | wc -l)" -ge "${1:-1}" ]; }

# edited NAME SED: submits the sweep in a new folder, after sed has edited the script of the array job.
edited() {
    out=$1
    mkdir "$out" && cp planned.json "$out/sweep.json"
    mkdir "$out/slurm"
    "$program" sweep submit "$out" --engine slurm --shards 4 --time 10 --print | sed -n '/array.sh/,/merge.sh/p' | grep -v '^# ---' |
        sed "$2" >"$out/slurm/array.sh"
    array=$(sbatch --parsable --mem=100 "$out/slurm/array.sh") merging=$array
    [ -n "$array" ] || fail "$out: not submitted"
}

plain() {
    begin plain
    finish
    wait_for 5 test -f plain/merged/runs.csv || fail "plain: the second job merged nothing"
}

# One task ends once with exit code 3. The other tasks continue, and merge reports the missing units. When the array is
# submitted again, it trains these units.
fails() {
    edited fails "3a [ \"\$SLURM_ARRAY_TASK_ID\" = 1 ] \&\& mkdir $folder/once 2>/dev/null \&\& exit 3"
    wait_for 240 ended "$array" || fail "fails: did not end"
    scontrol show job "${array}_1" | grep -q 'ExitCode=3:0' || fail "fails: the task did not end with 3"
    "$program" merge fails >/dev/null 2>fails.err && fail "fails: merge succeeded although units are missing"
    grep -q "16 of 64 units are missing" fails.err || { cat fails.err; fail "fails: merge did not report the missing units"; }
    merging=$(sbatch --parsable --mem=100 fails/slurm/array.sh)
    finish
}

requeued() {
    begin requeued
    wait_for 60 running || fail "requeued: nothing runs"
    scontrol requeue "${array}_0" || true
    finish
}

restarted() {
    begin restarted
    wait_for 60 running || fail "restarted: nothing runs"
    kill "$controller"
    wait "$controller" 2>/dev/null
    start_controller
    wait_for 60 squeue -h >/dev/null 2>&1
    finish
}

lost() {
    begin lost
    wait_for 60 running || fail "lost: nothing runs"
    local where step child steps
    where=$(squeue -h -j "$array" -t RUNNING -o %N | head -1)
    steps=$(pgrep slurmstepd || true)
    kill -9 "${node[$where]}"
    for step in $steps; do
        for child in $(cat "/proc/$step/task/"*/children 2>/dev/null); do
            if tr '\0' '\n' 2>/dev/null <"/proc/$child/environ" | grep -qx "SLURMD_NODENAME=$where" &&
                tr '\0' '\n' 2>/dev/null <"/proc/$child/environ" | grep -qx "SLURM_CONF=$SLURM_CONF"; then
                kill -9 "$step" $(cat "/proc/$child/task/"*/children 2>/dev/null) "$child" 2>/dev/null
            fi
        done
    done
    sleep 1
    start_node "$where"
    finish
}

# Before the time limit, Slurm sends USR1 to the script. The shard then saves a checkpoint, and the task is requeued.
# Slurm checks limits twice a minute, so a signal that is due after ten seconds may come only after forty seconds. The
# test stops the shard at its first checkpoint until the signal is pending, so that it is still training at this time.
limited() {
    local task reference shard
    sed -e 's/steps = 200/steps = 4000/' -e 's/seeds = .*/seeds = 0/' -e 's/"amp-bf16", //' plan.toml >long.toml
    "$program" sweep plan long.toml --out long >/dev/null 2>&1 || fail "the long plan was refused"
    cp long/sweep.json planned.json
    edited limited 's/--time=10 --signal=B:USR1@120/--time=1 --signal=B:USR1@50/'
    grep -q -e '--time=1 --signal=B:USR1@50' limited/slurm/array.sh || fail "limited: the script has another time limit"
    at_work() { (cd limited && compgen -G "work/*/checkpoints/run-*") >/dev/null 2>&1; }
    wait_for 120 at_work || fail "limited: no shard is training"
    shard=$(pgrep -f "sweep run $folder/limited --shard 0/4")
    kill -STOP "$shard" || fail "limited: the shard has already ended"
    told() { ((0x$(awk '/^ShdPnd/ { print $2 }' "/proc/$shard/status") & 0x4000)); }  # true if the SIGTERM from the script is pending
    wait_for 120 told || fail "limited: Slurm sent no signal before the limit"
    kill -CONT "$shard"
    "$program" sweep run long -q &
    reference=$!
    started+=("$reference")
    wait_for 400 ended "$array" || { squeue; fail "limited: did not end"; }
    wait "$reference" || fail "the single shard of the long plan failed"
    "$program" merge long 2>/dev/null || fail "the merge of the long plan failed"
    rm -rf alone && mv long alone
    finish
    grep -q "stopped, run it again" limited/slurm/"${array}"_*.log ||
        { tail limited/slurm/"${array}"_*.log; fail "limited: no task was stopped before its limit"; }
    scontrol show job "${array}_0" | grep -q 'Restarts=[1-9]' || fail "limited: the task was not requeued"
}

# The path of the sweep's folder contains characters with a special meaning in a shell and in an #SBATCH line.
named() {
    begin "it's 50% \"done\" #1 \$(touch injected)"
    finish
    [ "$(find "$out/slurm" -name "${array}_[0-3].log" | wc -l)" = 4 ] || fail "named: the logs of the array are not in its folder"
    [ -f "$out/merged/runs.csv" ] || fail "named: the second job merged nothing"
    [ ! -e injected ] || fail "named: a name was run as a command"
}

all="plain named fails requeued restarted lost limited"
for scenario in ${*:-$all}; do
    [[ " $all " = *" $scenario "* ]] || fail "unknown scenario $scenario (use one of: $all)"
    "$scenario"
done
echo "all ok ($SECONDS s)"
