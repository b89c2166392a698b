#!/usr/bin/env python3
"""mutations.py OUT PAIRS: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json  # noqa: E402


def more(action, factor):
    """FACTOR times as many records of the sites whose action it is (all, where none is named)."""
    def alter(document):
        for site in document['sites']:
            if action in (None, site['action']):
                site['records'] *= factor
        document['summary']['records'] = sum(site['records'] for site in document['sites'])
    return in_json(alter)


def summary(**altered):
    return in_json(lambda document: document['summary'].update(altered))


MUTATIONS = [
    Mutation('the condition lets everything be stored', 'work/filtered-*.flows', more('advice', 20), ['bytes saved']),
    Mutation('following flows takes more than it saves', 'work/filtered-*.flows', more('start', 200),
             ['with what the flow itself takes']),
    Mutation('a record is lost', 'work/unfiltered-1.flows', summary(lost=1), ['records lost']),
    Mutation('the host follows a packet that the server does not', 'work/filtered-1.flows',
             in_json(lambda document: document['summary']['carriers'][0].update(unmatched_xout=1)),
             ['records of the host that belong to no flow of the server']),
    Mutation('one flow is found by the ring alone', 'work/filtered-1.flows',
             in_json(lambda document: document['summary']['carriers'][0].update(
                 told=document['summary']['carriers'][0]['told'] - 1)),
             ['flows that the server told the host itself']),
    Mutation('two flows of a hundred have no end', 'work/filtered-*.flows',
             in_json(lambda document: document['summary'].update(complete=document['summary']['flows'] * 98 // 100)),
             ['flows complete']),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder, sys.argv[2]],
            ['work/*.flows', 'work/*.ab'], MUTATIONS)
