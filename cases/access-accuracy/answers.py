#!/usr/bin/env python3
"""answers.py TRUTH OUT: what `xweave sites --jsonl` (standard input) answers, as score.py reads it

For each table TRUTH/NAME.at (see stock.py) writes OUT/NAME.pred.  Answers are matched by address, so that
functions of one name are told apart.  Lines with a `reason` instead of levels tell why there is no answer."""
import bisect
import json
import pathlib
import sys

KINDS = {'struct': 's', 'union': 'u'}
ACCESS = {'read': 'R', 'write': 'W', 'both': 'RW'}


def level(one):
    kind, _, name = one['type'].rpartition(' ')
    return f'{KINDS.get(kind, "t")} {name}:{one["start"]}:{one["end"]}'


def main():
    truth, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    parts = []
    for table in sorted(truth.glob('*.at')):
        file = open(out / f'{table.stem}.pred', 'w')
        for line in open(table):
            name, address, size = line.split('\t')
            parts.append((int(address, 16), int(size, 16), name, file))
    parts.sort(key=lambda part: part[0])
    starts = [part[0] for part in parts]
    of_all = of_these = 0
    for line in sys.stdin:
        site = json.loads(line)
        if 'address' not in site:
            continue
        address = site['address']
        if isinstance(address, str):
            address = int(address, 16)
        answered = bool(site.get('levels'))
        of_all += answered
        i = bisect.bisect_right(starts, address) - 1
        if i < 0 or address >= starts[i] + parts[i][1]:
            continue
        of_these += answered
        _, _, name, file = parts[i]
        levels = '/'.join(level(one) for one in site.get('levels') or ())
        access = ACCESS.get(site.get('access'), '')
        print(name, f'{address - starts[i]:x}', access, levels, site.get('reason') or '', sep='\t', file=file)
    for *_, file in parts:
        file.close()
    print(f'{of_all} instructions answered in the whole kernel, {of_these} in the functions with truth')
    if not of_these:
        sys.exit('answers.py: no answer at all in the functions with truth: is it the same kernel?')


if __name__ == '__main__':
    main()
