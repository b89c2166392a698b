"""The use of the disk by each reader, one after the other and at once, beside tables 2 and 3 of the paper; and whether
the comparison says why.

    compare.py OUT MEGABYTES
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402

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

    claims = Claims('parallel-read', OUT)
    claims.at_least('time, at once ÷ one by one', runs['at-once-unmerged'].span / runs['one-by-one'].span, 5, '×',
                    paper=569 / 55)
    claims.at_least('accesses, at once ÷ one by one', many[1] / one[1], 10, '×', paper=191112 / 17152)
    claims.at_most('bytes apart', 100 * abs(many[2] / one[2] - 1), 1, '%', paper=100 * (944484 / 944476 - 1))
    claims.at_least('first finding is request size', int(bool(requests) and found[0] is requests), 1, '')
    claims.at_least('explained by it, of what it takes longer', 100 * explained, 80, '%')
    claims.at_least('nothing found of seeking, of which there is none', int(all(f['what'] != 'seeking' for f in found)), 1,
                    '')
    claims.at_least('merged: request size is not found', int('requests' not in of_merged), 1, '')
    claims.at_most('merged: accesses, at once ÷ one by one', merged[1] / one[1], 1.25, '×')
    claims.at_most('records lost', lost, 0, 'records')
    figures = {name: {'span_s': run.span, 'disk_use_s, accesses, KB': [*run.readers, run.all],
                      'wait_each_ns': run.wait} for name, run in runs.items()}
    claims.judge(megabytes=MEGABYTES, runs=figures)


if __name__ == '__main__':
    main()
