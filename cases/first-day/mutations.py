#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify  # noqa: E402
from jobs import JOBS  # noqa: E402


def without(pattern):
    """What has to be in the answer is something else."""
    return lambda text: re.sub(pattern, 'something else', text)


def with_words(words):
    """What must not be in the answer is in its first line."""
    def text(before):
        head, mark, answer = before.rpartition('\n$ ')
        command, rest = answer.split('\n', 1)
        return f'{head}{mark}{command}\n{words} {rest}'
    return text


MUTATIONS = [
    *(Mutation(f'{job.name}: not "{pattern}"', f'{job.name}.txt', without(pattern), [f'{job.name}: the first lines'])
      for job in JOBS for pattern in job.right),
    *(Mutation(f'{job.name}: with "{words}"', f'{job.name}.txt', with_words(words), [f'{job.name}: the first lines'])
      for job in JOBS for words in job.wrong),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder], ['*.txt'], MUTATIONS)
