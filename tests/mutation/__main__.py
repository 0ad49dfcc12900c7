"""`python tests/mutation --sample 60`: makes the product wrong, one small change at a time; what no test notices is named."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutation import campaign

ROOT = Path(__file__).resolve().parents[2]


def main(arguments):
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="how many mutants to try (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="which ones: the same seed, the same mutants (default: 1)")
    parser.add_argument(
        "--only", default="", metavar="PATH", help="only of modules whose path begins so: conversation/records/calls.py"
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="a JSON file to write, and to go on from")
    parser.add_argument("--list", action="store_true", help="name the mutants, and test none")
    asked = parser.parse_args(arguments)
    mutants = campaign.sample(ROOT, asked.sample, asked.seed, asked.only)
    if asked.list:
        print("\n".join(f"{mutant.name} {mutant.path}:{mutant.line} {mutant.what}" for mutant in mutants))
        return 0
    rows = campaign.load(asked.results) if asked.results else {}
    try:
        for result in campaign.run(ROOT, mutants, known=rows, told=lambda line: print(line, flush=True)):
            rows[result.mutant.name] = campaign.row(result)
            if asked.results:
                campaign.save(asked.results, asked.seed, rows)
    except campaign.BaselineFails as error:
        print(f"the unchanged product fails its tests here: {error}")
        return 2
    return _report(mutants, rows)


def _report(mutants, rows):
    statuses = [rows[mutant.name]["status"] for mutant in mutants]
    survivors = [mutant for mutant in mutants if rows[mutant.name]["status"] == "survived"]
    for mutant in survivors:
        print(f"\nsurvived: {mutant.name}\n{mutant.diff((ROOT / mutant.path).read_text())}")
    counted = ", ".join(f"{statuses.count(status)} {status}" for status in ("killed", "timeout", "survived"))
    print(f"\n{len(mutants)} mutants: {counted}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
