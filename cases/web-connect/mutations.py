#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json, in_lines  # noqa: E402

SLOW_NS = 1_000_000_000
PORTS = ('8001', '8004', '8008', '8016')
WAYS = {'accept-queue': 'the accept queue was full', 'time-wait': 'TIME_WAIT at the server'}


def slow(document):
    return [one for one in document['transactions'] if one['total_ns'] > SLOW_NS]


def half(document):
    del document['transactions'][::2]


def late(document):
    """A transaction with the server, of a time in which no other was late."""
    served = [one for one in document['transactions'] if one['name'].endswith(PORTS)]
    last = max(served, key=lambda one: one['start_ns'])
    end = max(one['start_ns'] + one['total_ns'] for one in document['transactions'])
    document['transactions'].append({**last, 'start_ns': end + SLOW_NS, 'total_ns': 2 * SLOW_NS})


def in_time(document):
    """None is slow, and none of a slow one's parts is told."""
    for one in slow(document):
        one['total_ns'] = SLOW_NS // 2


def another_state(document):
    for one in slow(document):
        for part in one['parts']:
            part['state'] = 'network'


def another_reason(document):
    for one in slow(document):
        for part in one['parts']:
            part['why'] = 'the network'


def elsewhere(document):
    """What took long from connect to accept did so from the answer on."""
    for one in document['transactions']:
        points = one['points_ns']
        first, last = points[0], points[-1]
        one['points_ns'] = [first + last - point for point in reversed(points)]


def quick(lines):
    """As ab writes them: all requests took a millisecond."""
    head, *rows = (line.split('\t') for line in lines)
    for row in rows:
        row[head.index('ctime')] = row[head.index('wait')] = '1'
    return ['\t'.join(row) for row in (head, *rows)]


MUTATIONS = [
    *(Mutation(f'{way}: half of the connections are not found', f'work/{way}.connect', in_json(half),
               [f'{way}: connections explained']) for way in ('calm', *WAYS)),
    *(Mutation(f'{way}: a request is late on a connection that was not', f'work/{way}.request', in_json(late),
               [f'{way}: over a second elsewhere']) for way in ('calm', *WAYS)),
    Mutation('calm: a connection takes two seconds', 'work/calm.connect', in_json(late), ['calm: slow connections']),
    *(Mutation(f'{way}: the client counts no slow connection', f'work/{way}*.tsv', in_lines(quick),
               [f'{way}: slow connections', f'{way}: found beside counted']) for way in WAYS),
    *(Mutation(f'{way}: no slow connection is found', f'work/{way}.connect', in_json(in_time),
               [f'{way}: found beside counted', f'{way}: slow by a repeated SYN', f'{way}: reason named']) for way in WAYS),
    *(Mutation(f'{way}: a repeated SYN is told as network', f'work/{way}.connect', in_json(another_state),
               [f'{way}: slow by a repeated SYN', f'{way}: reason named']) for way in WAYS),
    *(Mutation(f'{way}: another reason is named', f'work/{way}.connect', in_json(another_reason),
               [f'{way}: reason named']) for way in WAYS),
    *(Mutation(f'{way}: half of the connections miss a point', f'work/{way}.points', in_json(half),
               [f'{way}: connections at all seven points']) for way in ('calm', *WAYS)),
    *(Mutation(f'{way}: they take long to end', f'work/{way}.points', in_json(elsewhere),
               [f'{way}: slow ones, slowest from connect to accept']) for way in WAYS),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder],
            ['work/*.connect', 'work/*.request', 'work/*.points', 'work/*.tsv'], MUTATIONS)
