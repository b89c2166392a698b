#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_lines  # noqa: E402


def other_members(lines):
    """Of one answer in a hundred of the kernel proper, another member."""
    return [re.sub(r'"member":"[^"]*"', '"member":"another"', line) if not at % 100 else line
            for at, line in enumerate(lines)]


MUTATIONS = [
    Mutation('one answer in a hundred of the running kernel is wrong', 'live.jsonl', in_lines(other_members),
             ['answers in both that are the same', 'certain answers that differ for no known reason',
              'possible answers that differ for no known reason']),
    Mutation('two thousand answers of the running kernel are missing', 'live.jsonl', in_lines(lambda lines: lines[2000:]),
             ['certain answers that differ for no known reason']),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder], ['*.jsonl', 'vmlinuz', 'kallsyms'], MUTATIONS)
