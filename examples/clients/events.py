#!/usr/bin/env python3
"""Follows the members of a cluster through one agent, across broken connections. Needs Python 3.8, nothing else.

    python3 events.py 127.0.0.1:7118
"""

import http.client
import json
import os
import sys
import time

SILENCE = 45.0  # seconds; something comes every 15 s, if only a comment
RETRY = 1.0  # seconds between two attempts


def frames(response):
    """Yields (id, kind, data) of each server-sent event; one that a broken stream cuts off is dropped."""
    event_id, kind, data = None, "message", []
    for raw in response:
        line = raw.decode("utf-8").rstrip("\r\n")
        if not line:
            if data:
                yield event_id, kind, json.loads("\n".join(data))
            event_id, kind, data = None, "message", []
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "id":
            event_id = value
        elif field == "event":
            kind = value
        elif field == "data":
            data.append(value)


def updates(agent, token=None, last_id=None):
    """Yields (kind, data) for ever: a snapshot first, then every event, and ("lost", reason) when the stream breaks."""
    while True:
        connection = http.client.HTTPConnection(agent, timeout=SILENCE)
        try:
            headers = {"Accept": "text/event-stream"}
            if last_id:
                headers["Last-Event-ID"] = last_id
            if token:
                headers["Authorization"] = "Bearer " + token
            connection.request("GET", "/v1/events?snapshot=true", headers=headers)
            response = connection.getresponse()
            if response.status in (408, 429, 503):
                raise OSError("status %d" % response.status)
            if response.status != 200:
                problem = json.loads(response.read() or b"{}")
                raise SystemExit("%s: %s" % (agent, problem.get("detail", "status %d" % response.status)))
            # A stream that breaks before its snapshot is begun anew: only what has come is gone on after.
            for event_id, kind, data in frames(response):
                yield kind, data
                last_id = event_id or last_id
            reason = "it ended"
        except (OSError, http.client.HTTPException) as error:
            reason = str(error)
        finally:
            connection.close()
        yield "lost", reason
        time.sleep(RETRY)


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: events.py HTTP_ADDRESS")
    live = set()
    for kind, data in updates(sys.argv[1], os.environ.get("TOKEN")):
        if kind == "lost":
            print("the stream broke (%s): trying again" % data, file=sys.stderr, flush=True)
            continue
        if kind == "snapshot":
            live = {member["id"] for member in data["members"] if member["status"] in ("up", "suspect")}
        elif kind == "node_joined":
            live.add(data["node"])
        elif kind in ("node_left", "node_detected_down"):
            live.discard(data["node"])
        else:
            continue
        print("live:", " ".join(sorted(live)), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
