#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json, in_lines  # noqa: E402


def steps(alter):
    """Of a function that alters a step in its place."""
    def lines(before):
        after = []
        for line in before:
            step = json.loads(line)
            alter(step)
            after.append(json.dumps(step))
        return after
    return in_lines(lines)


def half(step):
    step['saved'] //= 2


def late(step):
    step['at'] += 1000


def hungry(step):
    """It takes six times as much for the same."""
    for key in ('visits', 'first', 'cpu_s'):
        step[key] *= 6


def fewer(document):
    document['pages']['saved'] //= 2
    document['saved_per_visit'] /= 2


def as_many(document):
    document['pages']['saved'] = 10 ** 6


def more(document):
    document['compared']['all'] *= 2


MUTATIONS = [
    *(Mutation(f'{cache}: half as much is given back', f'{cache}-files.lines', steps(half),
               [f'{cache}: given back, of all', f'{cache}: from the end']) for cache in ('roomy', 'tight')),
    *(Mutation(f'{cache}: twice as much could be', f'{cache}-files.oracle', in_json(more), [f'{cache}: given back, of all'])
      for cache in ('roomy', 'tight')),
    *(Mutation(f'{cache}: it takes 1,000 s longer', f'{cache}-files.lines', steps(late), [f'{cache}: from the end'])
      for cache in ('roomy', 'tight')),
    *(Mutation(f'{cache}: it takes six times the visits and CPU time', f'{cache}-files.lines', steps(hungry),
               [f'{cache}: given back at equal visits', f'{cache}: given back at equal first', f"{cache}: given back at equal ksmd's"])
      for cache in ('roomy', 'tight')),
    Mutation('clones: half as much is given back', 'clones-inode.json', in_json(fewer),
             ['clones: given back, of', 'clones: given back for each']),
    Mutation('clones: paths would do', 'clones-path.json', in_json(as_many), ['clones: given back by path']),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder], ['*.lines', '*.oracle', '*.ended', 'clones-*.json'], MUTATIONS)
