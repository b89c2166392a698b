#!/usr/bin/env python3
"""compare.py HERE TRUTH OUT [-v]: score the answers, print them beside the targets and beside perf's

HERE/files.* name the files, TRUTH/NAME.stock is the truth, OUT/{dwarf,btf}/NAME.pred xweave's answers,
OUT/perf/NAME.{subset,pred} the instructions that perf was asked about and its answers.  Writes
OUT/result.json; exits 1 if a claim fails."""
import pathlib
import sys
from collections import Counter

HERE, TRUTH, OUT = map(pathlib.Path, sys.argv[1:4])
VERBOSE = '-v' in sys.argv[4:]
sys.path.insert(0, str(HERE / 'truth'))
from score import row, score  # noqa: E402
sys.path.insert(0, str(HERE.parent))
from claims import Claims  # noqa: E402

SETS = {name: [line.strip().replace('/', '_') for line in open(HERE / f'files.{name}')]
        for name in ('tuned', 'held-out')}
NAMES = {'dwarf': 'DWARF', 'btf': 'BTF only', 'perf': 'perf, DWARF'}
TARGETS = {'dwarf': (97.5, 99.0), 'btf': (88.0, 97.0)}
AHEAD = 1
TOP = 15

claims = Claims('access-accuracy', OUT)


def percent(part, whole):
    return 100 * part / whole if whole else 0.0


def figures(stat):
    """(recall, precision)"""
    return percent(stat['hit'], stat['hard']), percent(stat['right'], stat['judged'])


def total(name, truth, kind, miss=None, wrong=None):
    """The set's sum; TRUTH is 'stock' or 'subset'."""
    result = Counter()
    for file in SETS[name]:
        table = TRUTH / f'{file}.stock' if truth == 'stock' else OUT / 'perf' / f'{file}.subset'
        stat = score(table, OUT / kind / f'{file}.pred', miss, wrong)
        if VERBOSE and truth == 'stock':
            print(f'{kind:6}{row(file, stat)}')
        result += stat
    return result


def top(title, counter):
    whole = counter.total()
    print(f'\n{title}: {whole}')
    for what, n in counter.most_common(TOP):
        print(f'{n:7} {percent(n, whole):5.1f} %  {what}')
    rest = whole - sum(n for _, n in counter.most_common(TOP))
    if rest:
        print(f'{rest:7} {percent(rest, whole):5.1f} %  (others)')


def causes(kind):
    """Why instructions of the tuned set are missed or wrong. The held-out set's are not looked at."""
    reasons, pairs = Counter(), Counter()
    for line in open(OUT / f'{kind}.miss'):
        function, _, levels, why, *_ = line.split('\t')
        if function.startswith('SOFT '):
            continue
        if why.startswith('WRONG '):
            truth, answer = (one.split(':')[0] for one in (levels.split('/')[-1], why[6:]))
            pairs[f'{truth} <- {answer}'] += 1
            reasons['another type or member answered'] += 1
        else:
            reasons[{'': 'no reason given', 'noinsn': 'no answer'}.get(why, why)] += 1
    top(f'{NAMES[kind]}: instructions missed, tuned set', reasons)
    top(f'{NAMES[kind]}: of these, truth <- answer', pairs)
    wrong = Counter()
    for line in open(OUT / f'{kind}.wrong'):
        _, _, truth, answer, *_ = line.split('\t')
        truth = 'not a member' if truth.startswith('NONMEMBER') else truth.split('/')[-1].split(':')[0]
        wrong[f'{truth} <- {answer.split(":")[0]}'] += 1
    top(f'{NAMES[kind]}: wrong answers, tuned set, truth <- answer', wrong)


def main():
    lines = []
    for kind, (want_recall, want_precision) in TARGETS.items():
        for name in SETS:
            looked_at = name == 'tuned'
            miss = open(OUT / f'{kind}.miss', 'w') if looked_at else None
            wrong = open(OUT / f'{kind}.wrong', 'w') if looked_at else None
            stat = total(name, 'stock', kind, miss, wrong)
            recall, precision = figures(stat)
            claims.at_least(f'recall, {NAMES[kind]}, {name}', recall, want_recall, '%')
            claims.at_least(f'precision, {NAMES[kind]}, {name}', precision, want_precision, '%')
            lines.append(f'{NAMES[kind]:12} {name:9} {stat["hard"]:8} {recall:8.2f} {precision:9.2f}')
    print(f'\n{"answers with":12} {"files":9} {"judged":>8} {"recall":>8} {"precision":>9}')
    print(*lines, sep='\n')

    print('\nThe same instructions, of the first functions of each file, asked of perf\'s data-type profiling')
    print(f'{"answers with":12} {"files":9} {"judged":>8} {"recall":>8} {"precision":>9}')
    sums = {kind: Counter() for kind in NAMES}
    for name in (*SETS, 'all'):
        for kind in NAMES:
            if name != 'all':
                stat = total(name, 'subset', kind)
                sums[kind] += stat
            stat = sums[kind] if name == 'all' else stat
            recall, precision = figures(stat)
            print(f'{NAMES[kind]:12} {name:9} {stat["hard"]:8} {recall:8.2f} {precision:9.2f}')
    ours, perfs = figures(sums['dwarf']), figures(sums['perf'])
    for what, mine, its in zip(('recall', 'precision'), ours, perfs):
        claims.at_least(f'{what} ahead of perf, DWARF, same instructions', mine - its, AHEAD, 'points')

    for kind in TARGETS:
        causes(kind)
    claims.judge()


if __name__ == '__main__':
    main()
