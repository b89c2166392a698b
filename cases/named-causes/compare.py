#!/usr/bin/env python3
"""compare.py OUT: which causes are named of requests that something was made to happen to"""
import collections
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402
from kinds import KINDS  # noqa: E402

OUT = pathlib.Path(sys.argv[1])
# An offender did so much of it, at least.
PART = 0.1


def is_one(cause, names):
    """Whether a cause is called one of these, and the offender is among those who did it."""
    def did(who):
        return not who or any(who in one['who'] and one['ns'] >= PART * cause['ns'] for one in cause['offenders'])
    return any(cause['kind'] == kind and did(by) for kind, by in names)


def is_named(causes, kind):
    """Whether all that was made is among the named causes, and nothing before it that was not."""
    missing = set(kind.named)
    for cause in causes:
        made = {names for names in kind.named if is_one(cause, names)}
        if not made:
            break
        missing -= made
    return not missing


def main():
    claims = Claims('named-causes', OUT)
    rounds = sorted(OUT.glob('[0-9]*'), key=lambda folder: int(folder.name))
    shown = {}
    print(f'{"made":26}{"p50":>8}{"p99, ms":>9}{"segments sum":>14}   named first, of the variance: in so many of {len(rounds)}')
    for kind in KINDS:
        all_found = [json.loads((folder / f'{kind.name}.vary').read_text()) for folder in rounds]
        named = [[cause for cause in found['causes'] if cause['named']] for found in all_found]
        if kind.named:
            right = sum(is_named(of, kind) for of in named)
            claims.at_least(f'{kind.name}: named first', 100 * right / len(rounds), 90, '% of runs', note=f'{right} of {len(rounds)}')
        else:
            claims.at_most(f'{kind.name}: causes named', sum(bool(of) for of in named), 0, 'runs')
        each = [one for found in all_found for one in found['each']]
        sums = 100 * sum(sum(one['segments_ns']) == one['total_ns'] for one in each) / len(each)
        claims.at_least(f'{kind.name}: segments sum to the time', sums, 100, '% of requests')
        asked = [json.loads((folder / f'{kind.name}.asked').read_text())['requests'] for folder in rounds]
        found_least = min(100 * found['requests'] / sent for found, sent in zip(all_found, asked, strict=True))
        claims.at_least(f'{kind.name}: requests found', found_least, 99.9, '% of those asked')
        # The kinds that come first, and the first one's shares.
        firsts = collections.defaultdict(list)
        for of in named:
            first = ' and '.join(cause['kind'] for cause in of[:max(1, len(kind.named))])
            firsts[first].append(of[0]['share_of_variance'] if of else 0)
        words = '; '.join(f'{first} ({statistics.median(shares):.0%}, {len(shares)})' if first else f'nothing ({len(shares)})'
                          for first, shares in sorted(firsts.items(), key=lambda of: -len(of[1])))
        p50, p99 = (statistics.median(found[at] / 1e6 for found in all_found) for at in ('p50_ns', 'p99_ns'))
        print(f'{kind.name:26}{p50:>8.1f}{p99:>9.1f}{sums:>12.1f} %   {words}')
        shown[kind.name] = [[{'kind': cause['kind'], 'by': cause['by'], 'share_of_variance': cause['share_of_variance'],
                              'share_of_tail': cause['share_of_tail']} for cause in of] for of in named]
    claims.judge(rounds=len(rounds), named=shown)


if __name__ == '__main__':
    main()
