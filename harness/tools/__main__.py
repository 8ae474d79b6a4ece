"""``python -m tools``: the commands that test the instrument.

``nox -s audit`` and ``nox -s bench`` call them.
"""

import sys

from gradmatrix.cli.main import main
from tools import (
    audit,
    bench,
    bench_bisect,
    bench_comparison,
    bench_page,
    campaign,
    corpus,
    costs,
    others,
    rekey,
)

COMMANDS = (
    audit.register_audit,
    bench.register_bench,
    bench_bisect.register_bench_bisect,
    bench_comparison.register_bench_comparison,
    bench_page.register_page,
    campaign.register_campaign,
    corpus.register_corpus,
    costs.register_costs,
    others.register_others,
    rekey.register_rekey,
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], COMMANDS))
