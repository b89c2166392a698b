#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json  # noqa: E402
from kinds import KINDS  # noqa: E402


def other(document):
    """Something else is named first."""
    document['causes'].insert(0, {**document['causes'][0], 'kind': 'something_else', 'named': True, 'offenders': []})


def unnamed(document):
    for cause in document['causes']:
        cause['named'] = False


def somebody(document):
    """Somebody else did it."""
    for cause in document['causes']:
        cause['offenders'] = [{'who': 'kworker', 'ns': cause['ns']}]


def named(document):
    document['causes'][0]['named'] = True


def cut(document):
    """A segment's time is lost."""
    for one in document['each']:
        one['segments_ns'][-1] += 1


def quarter(document):
    document['requests'] //= 4


MADE = [kind for kind in KINDS if kind.named]
MUTATIONS = [
    *(Mutation(f'{kind.name}: something else comes first', f'*/{kind.name}.vary', in_json(other), [f'{kind.name}: named first'])
      for kind in MADE),
    *(Mutation(f'{kind.name}: nothing is named', f'*/{kind.name}.vary', in_json(unnamed), [f'{kind.name}: named first'])
      for kind in MADE),
    *(Mutation(f'{kind.name}: somebody else did it', f'*/{kind.name}.vary', in_json(somebody), [f'{kind.name}: named first'])
      for kind in MADE if any(by for names in kind.named for _, by in names)),
    *(Mutation(f'{kind.name}: a cause is named', f'0/{kind.name}.vary', in_json(named), [f'{kind.name}: causes named'])
      for kind in KINDS if not kind.named),
    *(Mutation(f'{kind.name}: a segment is a nanosecond longer', f'0/{kind.name}.vary', in_json(cut),
               [f'{kind.name}: segments sum']) for kind in KINDS),
    *(Mutation(f'{kind.name}: three of four requests are not found', f'0/{kind.name}.vary', in_json(quarter),
               [f'{kind.name}: requests found']) for kind in KINDS),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder], ['*/*.vary', '*/*.asked'], MUTATIONS)
