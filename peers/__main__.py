"""`python -m peers [NAME ...] [--quick]`."""

from benchmarks import run
from peers import postgres
from peers.environment import OUT

PARTS = {
    "throughput": "conversations a second, against the peers",
    "rounds": "turns of one model call and of three tool rounds, against LangGraph's SQLite saver",
    "durability": "kill, resume, bytes, lists and races, against the peers",
}


def main() -> None:
    """Measure, print, write."""
    parser = run.parser("python -m peers", "Measure Holdfast beside its peers.", PARTS)
    options = parser.parse_args()
    about = {"postgres server": postgres.version().partition(") ")[2].partition(" ")[0]} if postgres.missing() is None else {}
    run.measured("peers", PARTS, run.chosen(parser, options, PARTS), options, out=OUT, about=about)


if __name__ == "__main__":
    main()
