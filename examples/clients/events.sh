#!/bin/sh
# Prints the events of an agent, one JSON object a line, and takes them up again where the stream broke. Needs curl.
#
#   sh events.sh 127.0.0.1:7118

agent=${1:?usage: events.sh HTTP_ADDRESS}
last=$(mktemp) || exit 1
trap 'rm -f "$last"' EXIT
trap 'exit 130' HUP INT TERM

# The token, as curl reads it: its arguments are seen by everybody on this machine.
token() {
    [ -z "$TOKEN" ] ||
        printf 'header = "Authorization: Bearer %s"\n' "$(printf '%s' "$TOKEN" | sed 's/["\\]/\\&/g')"
}

while :; do
    # --speed-limit: a stream on which not one byte comes in 45 s is given up.
    token | curl --config - --silent --show-error --fail --no-buffer --speed-limit 1 --speed-time 45 \
        --header "Last-Event-ID: $(cat "$last" 2>/dev/null)" \
        "http://$agent/v1/events?snapshot=true" |
        while IFS= read -r line; do
            case $line in
            'id: '*) id=${line#id: } ;;
            'event: '*) kind=${line#event: } ;;
            'data: '*) data=${line#data: } ;;
            '')
                # An event counts once the empty line after it was seen.
                [ -n "$data" ] && printf '%s %s\n' "$kind" "$data"
                [ -n "$data" ] && [ -n "$id" ] && printf '%s' "$id" >"$last"
                id='' kind='' data=''
                ;;
            esac
        done
    echo "the stream of $agent broke: trying again" >&2
    sleep 1
done
