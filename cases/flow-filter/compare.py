"""The bytes that were recorded with and without the flow, and the server's rates, beside the paper's table 3.

    compare.py OUT PAIRS MOST-OTHERS

Bytes are those of a load. A recording's rate is its best load's, since what disturbs only makes slower; without
the first, which warms up, and those in which more than MOST-OTHERS of this machine's processors worked for
others.
"""
import collections
import json
import pathlib
import re
import statistics
import sys

OUT, PAIRS, MOST_OTHERS = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
SAVED, RATE, COMPLETE = 60.0, 3.0, 99.0
# A record is 48 bytes and 8 for each value: docs/trace-format.md tells which kind has how many.
VALUES = {'start': 1, 'quit': 1, 'move': 2, 'copy': 2, 'action': 2, 'xin': 4, 'xout': 4, 'advice': 3}
PAPER = {'filtered': (1_557_248, 10_587_776), 'unfiltered': (13_598_976, 15_739_968)}
DOMAINS = ('host', 'vm2')


def loads(kind, number):
    """Of each load the rate (None if ab gave up on a request), and how many processors worked for others; the
    first load is to warm up."""
    found = []
    for name in sorted((OUT / 'work').glob(f'{kind}-{number}-*.ab')):
        text = name.read_text()
        if re.search(r'^Total of 29[7-9] requests', text, re.M):
            found.append((None, float(name.with_suffix('.others').read_text())))
            continue
        complete, failed, rate = (float(re.search(rf'^{what}:\s+([\d.]+)', text, re.M).group(1)) for what in
                                  ('Complete requests', 'Failed requests', 'Requests per second'))
        # A connection may break; 3 of 300 change nothing that is measured here.
        if complete != 300 or failed > 3:
            sys.exit(f'flow-filter: not all requests were answered: see {name}')
        found.append((rate, float(name.with_suffix('.others').read_text())))
    return found


def best(load, most_others=float('inf')):
    return max((rate for rate, others in load if rate and others <= most_others), default=None)


class Recording:
    def __init__(self, kind, number):
        found = json.loads((OUT / 'work' / f'{kind}-{number}.flows').read_text())
        self.summary = found['summary']
        self.bytes, self.hops = collections.Counter(), collections.Counter()
        count = len(loads(kind, number))
        for site in found['sites']:
            domain, action = site['domain'], site['action']
            self.bytes[domain] += site['records'] * (48 + 8 * VALUES[action]) / count
            if action == 'advice':
                self.hops[domain] += site['records'] / count
        if sum(site['records'] for site in found['sites']) != self.summary['records']:
            sys.exit(f'flow-filter: the sites of {kind}-{number} have not all of its records')


def spread(values):
    return f'{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})'


def known(rates):
    return [rate for rate in rates if rate is not None]


def apart(some, others):
    return [one / other for one, other in zip(some, others) if one and other]


def main():
    numbers = range(1, PAIRS + 1)
    kinds = ('filtered', 'unfiltered')
    runs = {kind: [Recording(kind, number) for number in numbers] for kind in kinds}
    found = {kind: [loads(kind, number)[1:] for number in numbers] for kind in (*kinds, 'none')}
    rates = {kind: [best(of, MOST_OTHERS) for of in recordings] for kind, recordings in found.items()}

    def median(kind, domain, of='bytes'):
        return round(statistics.median(getattr(run, of)[domain] for run in runs[kind]))

    def saved(few, many):
        return 100 * (1 - few / many) if many else 0.0

    print(f'{"Bytes, medians of":18} {PAIRS} recordings{"":3}{"host":>12}{"server":>12}{"both":>12}'
          f'   {"paper: 0":>12}{"U":>12}{"both":>12}')
    ours = {kind: [median(kind, domain) for domain in DOMAINS] for kind in kinds}
    for kind in kinds:
        row = [*ours[kind], sum(ours[kind])], [*PAPER[kind], sum(PAPER[kind])]
        print(f'{kind:34}' + '   '.join(''.join(f'{value:>12,}' for value in part) for part in row))
    shares = [[saved(few, many) for few, many in zip((*table['filtered'], sum(table['filtered'])),
                                                     (*table['unfiltered'], sum(table['unfiltered'])))]
              for table in (ours, PAPER)]
    print(f'{"saved, %":34}' + '   '.join(''.join(f'{share:>12.1f}' for share in part) for part in shares))
    hops = {kind: [median(kind, domain, 'hops') for domain in DOMAINS] for kind in kinds}
    print(f'{"  of the hops alone, %":34}' + ''.join(f'{share:>12.1f}' for share in (
        *(saved(few, many) for few, many in zip(hops['filtered'], hops['unfiltered'])),
        saved(sum(hops['filtered']), sum(hops['unfiltered'])))))

    disturbed = sum(others > MOST_OTHERS for of in found.values() for run in of for _, others in run)
    total = sum(len(run) for of in found.values() for run in of)
    stuck = sum(rate is None for of in found.values() for run in of for rate, _ in run)
    print(f'\n{disturbed} of {total} loads were disturbed by other work on this machine, in {stuck} a request got stuck.')
    if any(len(known(of)) < 3 for of in rates.values()):
        print('Not three recordings of each kind have one that was not, so the rates are those of all.')
        rates = {kind: [best(of) for of in recordings] for kind, recordings in found.items()}
    print(f'{"Requests a second":20}{"median (least to most)":30}{"recordings":12}paper')
    for kind, of in rates.items():
        print(f'{kind:20}{spread(known(of)):30}{len(known(of)):<12}{"" if kind == "none" else "382"}')
    ratio = statistics.median(known(rates['filtered'])) / statistics.median(known(rates['unfiltered']))
    pairwise, noise = apart(rates['filtered'], rates['unfiltered']), apart(rates['none'][1:], rates['none'])
    print(f'filtered ÷ unfiltered: of the medians {ratio:.3f}')
    for what, of in (('in pairs', pairwise), ('nothing woven ÷ nothing woven the time before', noise)):
        if of:
            print(f'    {what}: {spread(of)}')

    recorded = [run for kind in kinds for run in runs[kind]]
    lost = sum(run.summary['lost'] for run in recorded)
    flows = sum(run.summary['flows'] for run in runs['filtered'])
    complete = sum(run.summary['complete'] for run in runs['filtered'])
    incomplete = collections.Counter()
    for run in runs['filtered']:
        incomplete.update(run.summary['incomplete'])
    print(f'\n{flows} flows, {complete} complete; not so: {dict(incomplete)}')

    claims = [
        ('bytes saved', shares[0][2], '≥', SAVED, '%'),
        ('request rates apart', 100 * abs(ratio - 1), '≤', RATE, '%'),
        ('records lost', lost, '≤', 0, 'records'),
        ('flows complete', 100 * complete / flows if flows else 0.0, '≥', COMPLETE, '%'),
    ]
    claims = [{'name': name, 'measured': measured, 'target': target, 'unit': unit,
               'ok': measured >= target if sign == '≥' else measured <= target, 'sign': sign}
              for name, measured, sign, target, unit in claims]
    print(f'\n{"claim":28}{"measured":>10}{"target":>10}')
    for one in claims:
        print(f'{one["name"]:28}{one["measured"]:>10.4g}{one.pop("sign") + " " + str(one["target"]):>10} {one["unit"]}'
              f'{"" if one["ok"] else "  FAILED"}')
    (OUT / 'result.json').write_text(json.dumps({
        'case': 'flow-filter', 'claims': claims, 'bytes': ours, 'hops': hops, 'requests_per_second': rates,
        'loads': {kind: [[{'requests_per_second': rate, 'processors_of_others': others} for rate, others in of]
                         for of in recordings] for kind, recordings in found.items()},
        'rate_ratio_in_pairs': pairwise, 'rate_ratio_noise': noise}, indent=2) + '\n')
    failed = [one['name'] for one in claims if not one['ok']]
    if failed:
        sys.exit('flow-filter: fell short: ' + '; '.join(failed))


if __name__ == '__main__':
    main()
