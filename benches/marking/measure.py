#!/usr/bin/env python3
"""measure.py ROUNDS: marking memory of another process for KSM, and what that process notices"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, built  # noqa: E402

ROUNDS = sys.argv[1]
OWN, QUIET = 'madvise(2) by itself', 'nothing marked'
BOUNDS = {
    # A guest's 20,000 ranges are to be marked in a second.
    ('ranges marked', OWN): Bound(20_000, 'a guest is marked in a second', 'ours'),
    # A fault waits while a range is marked: a vCPU is not to notice.
    ('added to the p99 of page faults', OWN): Bound(50, 'a vCPU does not notice', 'ours'),
}


def main():
    ran = subprocess.run([built('marking', 'xweave-merge'), ROUNDS], stdout=subprocess.PIPE, check=False, text=True)
    if ran.returncode:
        sys.exit('marking: it could not be measured, see above')
    rounds = [json.loads(line) for line in ran.stdout.splitlines()]
    report = Report('marking', BOUNDS)

    def rate(key):
        return [one['ranges'] / one[key] * 1e9 for one in rounds]

    def added(key):
        return [(one['faults'][key][1] - one['faults']['quiet'][1]) / 1e3 for one in rounds]

    def fault(key, at):
        return [one['faults'][key][at] / 1e3 for one in rounds]

    report.row('ranges marked', '/s', rate('ours_ns'), OWN, rate('own_ns'), better='more')
    report.row('page fault meanwhile, p50', 'µs', fault('ours', 0), QUIET, fault('quiet', 0))
    report.row('page fault meanwhile, p99', 'µs', fault('ours', 1), QUIET, fault('quiet', 1))
    # Where it adds nothing, it may come out at or below zero: a ratio of such says nothing.
    report.row('added to the p99 of page faults', 'µs', [max(of, 0.001) for of in added('ours')], OWN,
               [max(of, 0.001) for of in added('own')])
    report.finish()


if __name__ == '__main__':
    main()
