"""Runs scenarios by name and writes the lines that `interop/runner` reads.

SCRIPT list
SCRIPT run HOST:PORT DIR NAME...
SCRIPT cross write|read HOST:PORT WRITER
"""

import sys
import time
import traceback

import cross


class Check:
    """Assertions of scenarios."""

    @staticmethod
    def equal(expected, actual, what):
        if expected != actual:
            raise AssertionError(f"{what}: expected {expected!r}, got {actual!r}")

    @staticmethod
    def that(condition, what):
        if not condition:
            raise AssertionError(what)

    @staticmethod
    def eventually(condition, what, limit_s=30):
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"still not so: {what}")
            time.sleep(0.02)


def main(client_class, scenarios):
    """`scenarios` maps a name to a limit in seconds and a function of the client."""
    arguments = sys.argv[1:]
    if arguments[0] == "list":
        for name, (limit_s, _) in scenarios.items():
            print(name, limit_s)
    elif arguments[0] == "cross":
        _, action, bootstrap, writer = arguments
        getattr(cross, action)(client_class(bootstrap), writer)
    else:
        _, bootstrap, _, *names = arguments
        for name in names:
            run(name, scenarios[name][1], client_class(bootstrap))


def run(name, body, client):
    print("start", name)
    print("===", name, file=sys.stderr)
    try:
        body(client)
    except Exception as failure:  # every failure is the scenario's outcome
        traceback.print_exc()
        reason = f"{type(failure).__name__}: {failure}".replace("\t", "    ").replace("\n", "\t")
        print(f"FAILED {name}: {reason}")
    else:
        print("ok", name)
