"""`python tests/simulation SEED` runs one seed and prints its trace; `FIRST-LAST` runs many and names those that fail.

`--bugs [NAME ...]` searches the planted bugs, all or those, and writes down which seed finds each.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from simulation import planted
from simulation.seed import simulate


def main(arguments):
    if arguments[0] == "--bugs":
        missed = planted.find(arguments[1:])
        print(f"not found: {', '.join(missed) or 'none'}")
        return 1 if missed else 0
    first, _, last = arguments[0].partition("-")
    began, failed = time.process_time(), 0
    for seed in range(int(first), int(last or first) + 1):
        outcome = simulate(seed, traced=not last)
        failed += bool(outcome.problems)
        if not last:
            print("\n".join(outcome.trace))
        if not last or outcome.problems:
            print(f"seed {seed}: {len(outcome.problems)} broken promises in {outcome.seconds:.1f} s, {outcome.turns} turns")
            print("".join(f"  {problem}\n" for problem in outcome.problems), end="")
    print(f"{failed} failed; {time.process_time() - began:.2f} s of CPU")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
