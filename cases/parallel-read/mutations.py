#!/usr/bin/env python3
"""mutations.py OUT MEGABYTES: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json  # noqa: E402


def disks(comparison):
    """The disk of the readers, its users, and what was found of it."""
    name = next(one['object'].split(' on ')[1] for one in comparison['objects']
                if one['kind'] == 'disk_user' and one['object'].startswith('reader1 on '))
    objects = [one for one in comparison['objects'] if one['object'] == name or one['object'].endswith(f' on {name}')]
    return name, objects, [finding for finding in comparison['findings'] if finding['object'] == name]


def scaled(key, factor):
    """The second run has FACTOR times as many."""
    def alter(comparison):
        for one in disks(comparison)[1]:
            one[key][1] = round(one[key][1] * factor)
    return in_json(alter)


def sooner(comparison):
    comparison['span_ns'][1] = 2 * comparison['span_ns'][0]


def little(comparison):
    for finding in disks(comparison)[2]:
        finding['explained_ns'] /= 2


def found(what, first=False):
    def alter(comparison):
        finding = {'kind': 'disk', 'object': disks(comparison)[0], 'what': what, 'explained_ns': 1, 'text': 'made up'}
        comparison['findings'].insert(0 if first else len(comparison['findings']), finding)
    return in_json(alter)


def lost(summary):
    summary['lost'] = 1


MUTATIONS = [
    Mutation('at once takes twice as long as one by one', 'compare-at-once-unmerged.json', in_json(sooner),
             ['time, at once ÷ one by one']),
    Mutation('half of the accesses are merged', 'compare-at-once-unmerged.json', scaled('count', 0.5),
             ['accesses, at once ÷ one by one']),
    Mutation('2 % more is read', 'compare-at-once-unmerged.json', scaled('bytes', 1.02), ['bytes apart']),
    Mutation('something else is found first', 'compare-at-once-unmerged.json', found('wait', first=True),
             ['first finding is request size']),
    Mutation('the finding explains half', 'compare-at-once-unmerged.json', in_json(little), ['explained by it']),
    Mutation('seeking is found where nothing seeks', 'compare-at-once-unmerged.json', found('seeking'),
             ['nothing found of seeking']),
    Mutation('the merging kernel is accused of small requests', 'compare-at-once.json', found('requests'),
             ['merged: request size is not found']),
    Mutation('the merging kernel makes twice as many', 'compare-at-once.json', scaled('count', 2),
             ['merged: accesses, at once ÷ one by one']),
    Mutation('a record is lost', 'at-once.json', in_json(lost), ['records lost']),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder, sys.argv[2]], ['*.json'], MUTATIONS)
