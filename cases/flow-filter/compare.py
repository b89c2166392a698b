"""The bytes that were recorded with and without the flow, beside the paper's table 3.

    compare.py OUT PAIRS

Bytes are those of a load.
"""
import collections
import json
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402

OUT, PAIRS = pathlib.Path(sys.argv[1]), int(sys.argv[2])
SAVED, COMPLETE = 60.0, 99.0
# A record is 48 bytes and 8 for each value: docs/trace-format.md tells which kind has how many.
VALUES = {'start': 1, 'quit': 1, 'move': 2, 'copy': 2, 'action': 2, 'xin': 4, 'xout': 4, 'advice': 3}
PAPER = {'filtered': (1_557_248, 10_587_776), 'unfiltered': (13_598_976, 15_739_968)}
KINDS, DOMAINS = ('filtered', 'unfiltered'), ('host', 'vm2')


def loads(kind, number):
    """How many a recording had, and in how many of them ab gave up on a request."""
    names = list((OUT / 'work').glob(f'{kind}-{number}-[0-9].ab'))
    stuck = 0
    for name in names:
        text = name.read_text()
        if re.search(r'^Total of \d+ requests', text, re.M):
            stuck += 1
        elif int(re.search(r'^Failed requests:\s+(\d+)', text, re.M).group(1)):
            sys.exit(f'flow-filter: not all requests were answered: see {name}')
    return len(names), stuck


class Recording:
    """The bytes that each domain recorded a load: all, and those that the advice stored."""

    def __init__(self, kind, number):
        found = json.loads((OUT / 'work' / f'{kind}-{number}.flows').read_text())
        self.summary = found['summary']
        self.all, self.stored = collections.Counter(), collections.Counter()
        count, self.stuck = loads(kind, number)
        for site in found['sites']:
            taken = site['records'] * (48 + 8 * VALUES[site['action']]) / count
            self.all[site['domain']] += taken
            if site['action'] == 'advice':
                self.stored[site['domain']] += taken
        if sum(site['records'] for site in found['sites']) != self.summary['records']:
            sys.exit(f'flow-filter: the sites of {kind}-{number} have not all of its records')


def with_sum(values):
    return [*values, sum(values)]


def saved(table):
    """Percent, of each domain and of both."""
    return [100 * (1 - few / many) for few, many in zip(with_sum(table['filtered']), with_sum(table['unfiltered']))]


def row(title, *parts):
    print(f'{title:34}' + '   '.join(''.join(f'{value:>12,}' if isinstance(value, int) else f'{value:>12.1f}'
                                             for value in part) for part in parts))


def main():
    numbers = range(1, PAIRS + 1)
    runs = {kind: [Recording(kind, number) for number in numbers] for kind in KINDS}
    stored, everything = ({kind: [round(statistics.median(getattr(run, of)[domain] for run in runs[kind]))
                                  for domain in DOMAINS] for kind in KINDS} for of in ('stored', 'all'))
    print(f'{"Bytes a load, medians of":28}{PAIRS:3} pairs{"host":>9}{"server":>12}{"both":>12}'
          f'   {"paper: 0":>12}{"U":>12}{"both":>12}')
    for kind in KINDS:
        row(f'the advice stored, {kind}', with_sum(stored[kind]), with_sum(PAPER[kind]))
    row('saved, %', saved(stored), saved(PAPER))
    row('all, filtered', with_sum(everything['filtered']))
    row('saved, %', saved(everything))

    lost = sum(run.summary['lost'] for kind in KINDS for run in runs[kind])
    flows = sum(run.summary['flows'] for run in runs['filtered'])
    complete = sum(run.summary['complete'] for run in runs['filtered'])
    carriers = [carrier for run in runs['filtered'] for carrier in run.summary['carriers']]
    crossings, told, strangers = (sum(carrier[key] for carrier in carriers)
                                  for key in ('crossings', 'told', 'unmatched_xout'))
    incomplete = collections.Counter()
    for run in runs['filtered']:
        incomplete.update(run.summary['incomplete'])
    stuck = sum(run.stuck for kind in KINDS for run in runs[kind])
    print(f'\n{flows} flows, {complete} complete; not so: {dict(incomplete)}; in {stuck} loads a request got stuck')

    claims = Claims('flow-filter', OUT)
    claims.at_least('bytes saved', saved(stored)[2], SAVED, '%')
    claims.at_least('with what the flow itself takes', saved(everything)[2], SAVED, '%')
    claims.at_most('records lost', lost, 0, 'records')
    claims.at_least('flows complete', 100 * complete / flows if flows else 0.0, COMPLETE, '%')
    claims.at_most('records of the host that belong to no flow of the server', strangers, 0, 'records')
    claims.at_least('flows that the server told the host itself', 100 * told / crossings if crossings else 0.0, 100.0, '%')
    claims.judge(bytes_stored=stored, bytes=everything)


if __name__ == '__main__':
    main()
