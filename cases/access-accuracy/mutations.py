#!/usr/bin/env python3
"""mutations.py TRUTH OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_lines  # noqa: E402

TRUTH, OUT = sys.argv[1:3]


def one_in(every, alter):
    """ALTER the fields of the answer of one instruction in EVERY; 1: of all."""
    def lines(before):
        fields = [line.split('\t') for line in before]
        for one in fields[::every]:
            alter(one)
        return ['\t'.join(one) for one in fields]
    return in_lines(lines)


def nothing(fields):
    fields[3] = ''


def elsewhere(fields):
    """Other bytes than those that are accessed."""
    fields[3] = re.sub(r':\d+:\d+', ':90000:90001', fields[3])


MUTATIONS = [
    *(Mutation(f'{name}: one in five instructions has no answer', f'{kind}/*.pred', one_in(5, nothing),
               [f'recall, {name}, tuned', f'recall, {name}, held-out'])
      for kind, name in (('dwarf', 'DWARF'), ('btf', 'BTF only'))),
    *(Mutation(f'{name}: one answer in ten is of other bytes', f'{kind}/*.pred', one_in(10, elsewhere),
               [f'precision, {name}, tuned', f'precision, {name}, held-out'])
      for kind, name in (('dwarf', 'DWARF'), ('btf', 'BTF only'))),
    Mutation('DWARF: no instruction has an answer', 'dwarf/*.pred', one_in(1, nothing), ['recall ahead of perf']),
    Mutation('DWARF: every answer is of other bytes', 'dwarf/*.pred', one_in(1, elsewhere), ['precision ahead of perf']),
]

if __name__ == '__main__':
    falsify(OUT, lambda folder: [HERE / 'compare.py', HERE, TRUTH, folder], ['*/*.pred', '*/*.subset'], MUTATIONS)
