"""The stub model server as a process of its own, the same for every contender: `python -m benchmarks.stub`."""

import signal
import sys

from holdfast.testing import ModelServer, call, calls, say


def script(request: dict) -> dict:
    """The n-th user message says how many calls its turn makes at once; with results there, the turn ends."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return say("Thank you.")
    return calls(*(call("ask", {"question": str(number)}) for number in range(int(last["content"].split()[-1]))))


def main() -> None:
    """Print the URL and serve until SIGTERM or the end of standard input."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ModelServer(script=script) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
