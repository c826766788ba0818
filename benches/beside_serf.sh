#!/usr/bin/env bash
# headcount's agents beside serf's, for real: so many of each on loopback, in a network namespace of their own.
#
#   sudo benches/beside_serf.sh [AGENTS [KILLS [IDLE_SECONDS]]]         by default 5 5 60
#
# Needs root, bash, nft, ip, and Debian's package `serf`; headcount is built in release mode unless $HEADCOUNT names it.
# For each system: what an idle agent sends (IP and TCP or UDP headers included; both counted at the sender), its resident
# memory and its share of one core; then agents are killed with SIGKILL, one after the other, each started again before the
# next, and the others' reports are timed: in serf's log and in its event handler, in the output of `headcount watch`. With
# FALL=STOP they are stopped in place of that (SIGSTOP), as processes that hang.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${HEADCOUNT:-}" ]; then
    cargo build --release --bin headcount
    export HEADCOUNT=target/release/headcount
fi
[ -n "${IN_NAMESPACE:-}" ] ||
    IN_NAMESPACE=1 exec unshare --net --pid --fork --kill-child --mount-proc "benches/$(basename "$0")" "$@"

agents=${1:-5} kills=${2:-5} idle=${3:-60} fall=${FALL:-KILL}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ip link set lo up
nft -f - <<'RULES'
table inet count {
    counter gossip { }
    chain out {
        type filter hook output priority 0
        meta l4proto { tcp, udp } th dport 20000-20999 counter name gossip accept
        meta l4proto { tcp, udp } th sport 20000-20999 counter name gossip accept
    }
}
RULES

stamp() { while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done; }
counted() { nft list counter inet count gossip | sed -n 's/.*packets \([0-9]*\) bytes \([0-9]*\).*/\1 \2/p'; }
ticks() { for i in $(seq "$agents"); do awk '{ print $14 + $15 }' "/proc/${pids[$i]}/stat"; done | awk '{ s += $1 } END { print s }'; }
median() { sort -n | awk '{ a[NR] = $1 } END { if (NR) printf "%.2f / %.2f s", a[int((NR + 1) / 2)], a[NR]; else printf "–" }'; }

# start SYSTEM NUMBER: one agent; everybody joins through the first.
start() {
    local i=$2 gossip="127.0.0.1:$((20000 + $2))" api="127.0.0.1:$((30000 + $2))"
    case $1 in
    serf-*)
        local join=()
        [ "$i" = 1 ] && [ -z "${again:-}" ] || join=(-join="127.0.0.1:$((i == 1 ? 20002 : 20001))")
        serf agent -node="n$i." -bind="$gossip" -rpc-addr="$api" -profile="${1#serf-}" "${join[@]}" \
            -event-handler="member-failed=date +%s.%N >> $dir/told.$i" > >(stamp >>"$dir/seen.$i") 2>&1 &
        ;;
    headcount-*)
        "$HEADCOUNT" agent --name "n$i." --bind "$gossip" --http "$api" --profile "${1#headcount-}" --log-level warn \
            --seed 127.0.0.1:20001 --seed 127.0.0.1:20002 >"$dir/log.$i" 2>&1 &
        ;;
    esac
    pids[$i]=$!
}

# watch SYSTEM NUMBER: serf's log says it anyway.
watch() {
    case $1 in
    headcount-*)
        "$HEADCOUNT" watch --http "127.0.0.1:$((30000 + $2))" --kind node_detected_down --format json \
            > >(stamp >>"$dir/seen.$2") 2>/dev/null &
        watchers[$2]=$!
        ;;
    esac
}

# alive SYSTEM NUMBER: how many members this agent holds alive.
alive() {
    case $1 in
    serf-*) serf members -rpc-addr="127.0.0.1:$((30000 + $2))" -status=alive 2>/dev/null | grep -c . || true ;;
    headcount-*) "$HEADCOUNT" members --http "127.0.0.1:$((30000 + $2))" --status up 2>/dev/null | grep -c '^n' || true ;;
    esac
}

# formed SYSTEM: waits until every agent holds all of them alive.
formed() {
    for i in $(seq "$agents"); do
        until [ "$(alive "$1" "$i")" = "$agents" ]; do sleep 0.2; done
    done
}

# times VICTIM KILLED: what each survivor needed, one a line, from the files `seen` or `told`.
times() {
    for i in $(seq "$agents"); do
        [ "$i" = "$2" ] || awk -v t="$3" -v about="$4" '$1 >= t && index($0, about) { print $1 - t; exit }' "$dir/$1.$i" 2>/dev/null || true
    done
}

measure() {
    local system=$1 about
    rm -f "$dir"/*
    pids=() watchers=() again=
    case $system in serf-*) about="EventMemberFailed: n" ;; *) about="\"n" ;; esac
    for i in $(seq "$agents"); do start "$system" "$i"; [ "$i" -gt 1 ] || sleep 1; done
    formed "$system"
    sleep 20

    local before after ticks_before ticks_after
    read -ra before < <(counted); ticks_before=$(ticks)
    sleep "$idle"
    read -ra after < <(counted); ticks_after=$(ticks)
    local resident
    resident=$(for i in $(seq "$agents"); do awk '/VmRSS/ { print $2 / 1024 }' "/proc/${pids[$i]}/status"; done | awk '{ s += $1 } END { print s / NR }')

    for i in $(seq "$agents"); do watch "$system" "$i"; done
    sleep 5
    again=1
    for round in $(seq "$kills"); do
        local victim=$((round % agents + 1)) killed=$EPOCHREALTIME
        kill "-$fall" "${pids[$victim]}"
        for _ in $(seq 600); do
            [ "$(times seen "$victim" "$killed" "$about$victim." | wc -l)" -lt $((agents - 1)) ] || break
            sleep 0.2
        done
        sleep 5 # serf's handlers are told later
        times seen "$victim" "$killed" "$about$victim." | sort -n >"$dir/all"
        sed -n 1p "$dir/all" >>"$dir/first"
        [ "$(wc -l <"$dir/all")" -lt $((agents - 1)) ] || tail -1 "$dir/all" >>"$dir/last"
        times told "$victim" "$killed" "" | sort -n | tail -1 >>"$dir/handled"
        { kill -9 "${pids[$victim]}" || true; wait "${pids[$victim]}" || true; } 2>/dev/null
        start "$system" "$victim"
        formed "$system"
        sleep 10
        if [ -n "${watchers[$victim]:-}" ]; then kill "${watchers[$victim]}"; watch "$system" "$victim"; fi
        sleep 5
    done
    awk -v s="$system" -v n="$agents" -v t="$idle" -v p=$((after[0] - before[0])) -v b=$((after[1] - before[1])) -v r="$resident" \
        -v c=$((ticks_after - ticks_before)) -v hz="$(getconf CLK_TCK)" -v f="$(median <"$dir/first")" -v l="$(median <"$dir/last")" \
        -v h="$([ -s "$dir/handled" ] && median <"$dir/handled" || echo "the same")" 'BEGIN {
        printf "| %s | %d | %.0f | %.2f | %.1f MiB | %.2f %% | %s | %s | %s |\n", s, n, b / n / t, p / n / t, r, 100 * c / hz / n / t, f, l, h }'
    kill "${pids[@]}" "${watchers[@]}" 2>/dev/null || true
    wait "${pids[@]}" "${watchers[@]}" 2>/dev/null || true
}

echo "| agents | N | idle, B/s | packets/s | resident | of one core | first Down, p50 / max | everywhere | told everywhere |"
echo "|---|---|---|---|---|---|---|---|---|"
for system in ${SYSTEMS:-serf-lan headcount-lan headcount-fast headcount-default}; do measure "$system"; done
