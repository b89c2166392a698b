"""The use of the disk by each reader, one after the other and at once, beside tables 2 and 3 of the paper; and whether
the comparison says why.

    compare.py OUT MEGABYTES
"""
import json
import pathlib
import sys

OUT, MEGABYTES = pathlib.Path(sys.argv[1]), int(sys.argv[2])
# Disk use time in seconds, accesses, data in KB: processes i to ix, and all.
PAPER = {
    'one-by-one': [(5.985, 2001, 104956), (6.144, 1707, 104940), (6.043, 2082, 104940), (6.061, 1692, 104940),
                   (6.055, 2076, 104940), (6.030, 2079, 104940), (6.081, 1689, 104940), (6.102, 2076, 104940),
                   (6.059, 1750, 104940), (54.560, 17152, 944476)],
    'at-once-unmerged': [(64.555, 21421, 104952), (64.021, 21568, 104940), (64.555, 21421, 104952),
                         (64.021, 21568, 104940), (61.827, 21640, 104940), (62.056, 20998, 104940),
                         (63.605, 21339, 104940), (63.950, 21020, 104940), (61.894, 20137, 104940),
                         (570.483, 191112, 944484)],
}
# Table 1 and table 4: the time of all, in seconds.
PAPER_SPAN = {'one-by-one': 55, 'at-once-unmerged': 569, 'at-once': 81}


class Run:
    """One of the two runs of a comparison."""

    def __init__(self, comparison, at):
        self.span = comparison['span_ns'][at] / 1e9
        objects = comparison['objects']
        uses = {one['object']: one for one in objects if one['kind'] == 'disk_user'}
        # The disk of the files: the one that readers use.
        self.disk = next(name.split(' on ')[1] for name in uses if name.startswith('reader1 on '))
        self.readers = [self.figures(uses[f'reader{n} on {self.disk}'], at) for n in range(1, 10)]
        disk = next(one for one in objects if one['kind'] == 'disk' and one['object'] == self.disk)
        self.all = self.figures(disk, at)
        self.wait = disk['wait_ns'][at] / max(disk['count'][at], 1)

    @staticmethod
    def figures(one, at):
        return one['time_ns'][at] / 1e9, one['count'][at], one['bytes'][at] / 1024


def main():
    compared = {name: json.loads((OUT / f'compare-{name}.json').read_text())
                for name in ('at-once-unmerged', 'at-once')}
    runs = {'one-by-one': Run(compared['at-once'], 0)}
    runs.update((name, Run(one, 1)) for name, one in compared.items())
    lost = sum(json.loads((OUT / f'{name}.json').read_text())['lost'] for name in runs)

    for name, run in runs.items():
        paper = PAPER.get(name)
        title = {'one-by-one': 'One after the other (table 2)', 'at-once-unmerged': 'At once, not merged (table 3)',
                 'at-once': 'At once, merged (table 4 has the times only)'}[name]
        print(f'\n{title}: {run.span:.1f} s (paper: {PAPER_SPAN[name]} s)')
        print(f'{"":10}{"disk use, s":>12}{"accesses":>10}{"data, KB":>10}' +
              (f'   {"paper: s":>10}{"accesses":>10}{"KB":>10}' if paper else ''))
        for at, row in enumerate([*run.readers, run.all]):
            label = f'reader {at + 1}' if at < 9 else 'all'
            print(f'{label:10}{row[0]:>12.3f}{row[1]:>10}{row[2]:>10.0f}' +
                  (f'   {paper[at][0]:>10.3f}{paper[at][1]:>10}{paper[at][2]:>10}' if paper else ''))

    one, many, merged = (runs[name].all for name in ('one-by-one', 'at-once-unmerged', 'at-once'))
    found = [finding for finding in compared['at-once-unmerged']['findings']
             if finding['kind'] == 'disk' and finding['object'] == runs['one-by-one'].disk]
    requests = next((finding for finding in found if finding['what'] == 'requests'), None)
    longer = runs['at-once-unmerged'].span - runs['one-by-one'].span
    explained = requests['explained_ns'] / 1e9 / longer if requests else 0.0
    of_merged = [finding['what'] for finding in compared['at-once']['findings'] if finding['kind'] == 'disk']
    print(f'\nAt once, not merged, takes {longer:.1f} s longer. Found of the disk:')
    for finding in found:
        print(f'    {finding["explained_ns"] / 1e9:+.1f} s  {finding["text"]}')

    claims = [
        # name, measured, sign, target, unit, the paper's
        ('time, at once ÷ one by one', runs['at-once-unmerged'].span / runs['one-by-one'].span, '≥', 5, '×',
         569 / 55),
        ('accesses, at once ÷ one by one', many[1] / one[1], '≥', 10, '×', 191112 / 17152),
        ('bytes apart', 100 * abs(many[2] / one[2] - 1), '≤', 1, '%', 100 * (944484 / 944476 - 1)),
        ('first finding is request size', float(bool(requests) and found[0] is requests), '≥', 1, '', None),
        ('explained by it, of what it takes longer', 100 * explained, '≥', 80, '%', None),
        ('nothing found of seeking, of which there is none', float(all(f['what'] != 'seeking' for f in found)),
         '≥', 1, '', None),
        ('merged: request size is not found', float('requests' not in of_merged), '≥', 1, '', None),
        ('merged: accesses, at once ÷ one by one', merged[1] / one[1], '≤', 1.25, '×', None),
        ('records lost', lost, '≤', 0, 'records', None),
    ]
    print(f'\n{"claim":50}{"measured":>10}{"target":>10}{"paper":>10}')
    told = []
    for name, measured, sign, target, unit, paper in claims:
        ok = measured >= target if sign == '≥' else measured <= target
        print(f'{name:50}{measured:>10.4g}{sign + " " + str(target):>10}{"" if paper is None else f"{paper:.4g}":>10} '
              f'{unit}{"" if ok else "  FAILED"}')
        told.append({'name': name, 'measured': measured, 'target': target, 'unit': unit, 'paper': paper, 'ok': ok})
    figures = {name: {'span_s': run.span, 'disk_use_s, accesses, KB': [*run.readers, run.all],
                      'wait_each_ns': run.wait} for name, run in runs.items()}
    (OUT / 'result.json').write_text(json.dumps(
        {'case': 'parallel-read', 'claims': told, 'megabytes': MEGABYTES, 'runs': figures}, indent=2) + '\n')
    failed = [one['name'] for one in told if not one['ok']]
    if failed:
        sys.exit('parallel-read: failed: ' + '; '.join(failed))


if __name__ == '__main__':
    main()
