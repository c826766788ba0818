#!/usr/bin/env bash
# A broadcast among headcount's agents beside a user event among serf's, for real: so many of each on loopback, in a network
# namespace of their own, without loss and with.
#
#   sudo benches/broadcasts_beside_serf.sh [AGENTS [BROADCASTS [LOSSES]]]         by default 50 20 "0 5 20"
#
# Needs root, bash, nft, ip, curl, and Debian's package `serf`; headcount is built in release mode unless $HEADCOUNT names it.
# Each broadcast carries 40 bytes and begins at another agent. The times are from when its own agent tells of it until the
# others do: serf in its log, headcount in the output of `headcount listen`. It is waited for for 40 s, longer than serf's
# interval of push and pull, and then it is lost there. Packets and bytes (IP and TCP or UDP headers included) are counted
# at the sender, before the loss, less what the same agents send in as long a time in which nothing happens.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in serf nft ip unshare curl; do
    command -v "$program" >/dev/null || { echo "skipped: $program is not installed" >&2; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: needs root for a network namespace" >&2; exit 0; }
if [ -z "${HEADCOUNT:-}" ]; then
    cargo build --release --bin headcount
    export HEADCOUNT=target/release/headcount
fi
[ -n "${IN_NAMESPACE:-}" ] ||
    IN_NAMESPACE=1 exec unshare --net --pid --fork --kill-child --mount-proc "benches/$(basename "$0")" "$@"

agents=${1:-50} broadcasts=${2:-20} losses=${3:-0 5 20} patience=40 idle=${IDLE:-30}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ip link set lo up
payload=$(printf 'x%.0s' $(seq 40))

# rules LOSS: counts what is sent, and loses so many of a hundred packets of what is received.
rules() {
    nft flush ruleset
    nft -f - <<RULES
table inet bench {
    counter gossip { }
    chain out {
        type filter hook output priority 0
        meta l4proto { tcp, udp } th dport 20000-20999 counter name gossip accept
        meta l4proto { tcp, udp } th sport 20000-20999 counter name gossip accept
    }
    chain in {
        type filter hook input priority 0
        meta l4proto { tcp, udp } th dport 20000-20999 numgen random mod 100 < $1 drop
        meta l4proto { tcp, udp } th sport 20000-20999 numgen random mod 100 < $1 drop
    }
}
RULES
}

stamp() { while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done; }
counted() { nft list counter inet bench gossip | sed -n 's/.*packets \([0-9]*\) bytes \([0-9]*\).*/\1 \2/p'; }

# start SYSTEM NUMBER: one agent; everybody joins through the first.
start() {
    local i=$2 gossip="127.0.0.1:$((20000 + $2))" api="127.0.0.1:$((30000 + $2))"
    case $1 in
    serf-*)
        local join=()
        [ "$i" = 1 ] || join=(-join="127.0.0.1:20001")
        serf agent -node="n$i." -bind="$gossip" -rpc-addr="$api" -profile="${1#serf-}" "${join[@]}" -log-level=info \
            > >(grep --line-buffered 'user-event: bench' | stamp >>"$dir/seen.$i") 2>/dev/null &
        ;;
    headcount-*)
        "$HEADCOUNT" agent --name "n$i." --bind "$gossip" --http "$api" --profile "${1#headcount-}" --log-level warn \
            --seed 127.0.0.1:20001 >"$dir/log.$i" 2>&1 &
        ;;
    esac
    pids[$i]=$!
}

listen() {
    case $1 in
    headcount-*)
        "$HEADCOUNT" listen --http "127.0.0.1:$((30000 + $2))" --format json $(seq -f 'bench-%g-' "$broadcasts") > >(stamp >>"$dir/seen.$2") 2>/dev/null &
        listeners[$2]=$!
        ;;
    esac
}

# say SYSTEM NUMBER TOPIC
say() {
    case $1 in
    serf-*) serf event -rpc-addr="127.0.0.1:$((30000 + $2))" -coalesce=false "$3" "$payload" >/dev/null ;;
    headcount-*) "$HEADCOUNT" broadcast --http "127.0.0.1:$((30000 + $2))" "$3" "$payload" >/dev/null ;;
    esac
}

alive() {
    case $1 in
    serf-*) serf members -rpc-addr="127.0.0.1:$((30000 + $2))" -status=alive 2>/dev/null | grep -c . || true ;;
    headcount-*) "$HEADCOUNT" members --http "127.0.0.1:$((30000 + $2))" --status up 2>/dev/null | grep -c '^n' || true ;;
    esac
}

# copies: of messages, that headcount's agents have received so far, and those of them that were there already.
copies() {
    for i in $(seq "$agents"); do
        curl -s "http://127.0.0.1:$((30000 + i))/metrics" || true
    done | awk '/^headcount_messages_received_total/ { r += $2 } /^headcount_messages_duplicate_total/ { d += $2 } END { print r + 0, d + 0 }'
}

measure() {
    local system=$1 loss=$2
    rm -f "$dir"/*
    pids=() listeners=()
    rules 0
    for i in $(seq "$agents"); do : >"$dir/seen.$i"; start "$system" "$i"; [ "$i" -gt 1 ] || sleep 1; done
    for i in $(seq "$agents"); do
        for _ in $(seq 300); do [ "$(alive "$system" "$i")" != "$agents" ] || break; sleep 0.2; done
    done
    for i in $(seq "$agents"); do listen "$system" "$i"; done
    sleep 20
    rules "$loss"
    local before after idle_before idle_after began ended received=0 duplicate=0
    read -ra idle_before < <(counted); sleep "$idle"; read -ra idle_after < <(counted)
    local copies_before="0 0" copies_after="0 0"
    case $system in headcount-*) copies_before=$(copies) ;; esac
    read -ra before < <(counted); began=$EPOCHREALTIME
    for round in $(seq "$broadcasts"); do
        say "$system" $((round * 7 % agents + 1)) "bench-$round-"
        for _ in $(seq $((patience * 2))); do
            sleep 0.5
            [ "$(grep -lF "bench-$round-" "$dir"/seen.* | wc -l)" -lt "$agents" ] || break
        done
    done
    read -ra after < <(counted); ended=$EPOCHREALTIME
    case $system in headcount-*) copies_after=$(copies) ;; esac
    # What each agent needed, a line; and how often it was told of, beyond once.
    for round in $(seq "$broadcasts"); do
        { grep -hF "bench-$round-" "$dir"/seen.* || true; } | awk '{ print $1 }' | sort -n >"$dir/of"
        awk 'NR == 1 { t = $1 } { printf "%.1f\n", ($1 - t) * 1000 }' "$dir/of" | head -"$agents" >>"$dir/times"
        grep -cF "bench-$round-" "$dir"/seen.* | awk -F: '$NF == 0 { m++ } $NF > 1 { d += $NF - 1 } END { print m + 0, d + 0 }' >>"$dir/counts"
        awk 'NR == 1 { t = $1 } END { printf "%.1f\n", ($1 - t) * 1000 }' "$dir/of" >>"$dir/all"
    done
    spread() { sort -n "$1" | awk '{ a[NR] = $1 } END { printf "%.0f / %.0f ms", a[int(NR * .5 + .999)], a[int(NR * .99 + .999)] }'; }
    read -r missed twice < <(awk '{ m += $1; d += $2 } END { print m, d }' "$dir/counts")
    awk -v s="$system" -v n="$agents" -v l="$loss" -v k="$broadcasts" -v m="$missed" -v d="$twice" -v i="$idle" \
        -v t="$(awk -v a="$began" -v b="$ended" 'BEGIN { print b - a }')" \
        -v p=$((after[0] - before[0])) -v b=$((after[1] - before[1])) \
        -v ip=$((idle_after[0] - idle_before[0])) -v ib=$((idle_after[1] - idle_before[1])) \
        -v one="$(spread "$dir/times")" -v all="$(spread "$dir/all")" -v from="$copies_before" -v to="$copies_after" 'BEGIN {
        split(from, f, " "); split(to, o, " ")
        c = o[1] > f[1] ? sprintf("%.2f, %.2f of them again", (o[1] - f[1]) / k / n, (o[2] - f[2]) / k / n) : "not told"
        printf "| %s | %d | %d %% | %s | %s | %.1f | %.0f | %s | %d | %d of %d |\n", s, n, l, one, all,
            (p - ip / i * t) / k / n, (b - ib / i * t) / k / n, c, d, m, k * n }'
    kill "${pids[@]}" "${listeners[@]}" 2>/dev/null || true
    wait "${pids[@]}" "${listeners[@]}" 2>/dev/null || true
}

echo "| agents | N | loss | known at an agent, p50 / p99 | everywhere, p50 / p99 | packets per agent | bytes per agent | copies received per agent | told twice | lost |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for loss in $losses; do
    for system in ${SYSTEMS:-serf-lan headcount-lan}; do measure "$system" "$loss"; done
done
