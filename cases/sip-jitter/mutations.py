#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json, in_lines  # noqa: E402

CALLS = ('quiet', 'neighbour', 'yielding', 'polling', 'guest', 'guest-yields', 'chain')
# Beside whom.
NEIGHBOURS = [('neighbour', 'sh'), ('guest', 'vCPUs of vm2')]


def cut(document):
    """A segment's time is lost."""
    for one in document['each']:
        one['segments_ns'][-1] += 1


def half(document):
    document['requests'] //= 2


def unnamed(document):
    for cause in document['causes']:
        cause['named'] = False


def stray(document):
    """Some messages are lost from sight."""
    for flow in document['flows'][::50]:
        flow['complete'] = False


def slower(document):
    document['p50_ns'] += 100_000_000


def another(document):
    """The neighbour is somebody else."""
    document['causes'][0]['by'] = 'kworker'


def everywhere(who):
    """A busy neighbour is told of where there is none."""
    def change(document):
        next(cause for cause in document['causes'] if cause['named'])['by'] = who
    return change


def own(document):
    document['causes'][0]['kind'] = 'own_threads'


def not_own(document):
    for cause in document['causes']:
        if cause['kind'] == 'own_threads':
            cause['kind'] = 'run_queue'


def still(who):
    """The neighbour keeps the vCPUs all the same."""
    def change(document):
        document['causes'][0].update(kind='vcpu_preempted', by=who, offenders=[{'who': who, 'ns': 10 ** 12}])
    return change


def not_behind(document):
    """One request in fifty is not followed through the proxy."""
    for segment in document['segments']:
        if segment['name'] == 'vm2 asks vm1: server in vm1':
            at = document['segments'].index(segment)
            for one in document['each'][::50]:
                one['segments_ns'][0] += one['segments_ns'][at]
                one['segments_ns'][at] = 0


def quick(lines):
    """As sipp writes them: all calls took a millisecond."""
    return [lines[0], *(f'{row.split(";")[0]};1;1' for row in lines[1:])]


def long(lines):
    return [lines[0], *(f'{row.split(";")[0]};900;1' for row in lines[1:])]


def again(text):
    """Of each kind messages were sent again."""
    return re.sub(r'(-+>.*?\d +)\d+( +)', r'\g<1>100\g<2>', text)


def never(text):
    return re.sub(r'(-+>.*? \d+ +)\d+', r'\g<1>0', text)


MUTATIONS = [
    *(Mutation(f'{name}: a segment is a nanosecond longer', f'work/{name}.vary', in_json(cut),
               [f'{name}: segments sum']) for name in (*CALLS, 'threads')),
    *(Mutation(f'{name}: half of the requests are not found', f'work/{name}.vary', in_json(half),
               [f'{name}: requests found']) for name in (*CALLS, 'threads')),
    *(Mutation(f'{name}: half of the calls are not found', f'work/{name}.calls', in_json(half),
               [f'{name}: calls found']) for name in (*CALLS, 'threads')),
    *(Mutation(f'{name}: no cause is named', f'work/{name}.vary', in_json(unnamed),
               [f'{name}: variance of named causes']) for name in (*CALLS, 'threads')),
    *(Mutation(f'{name}: one message in fifty is not followed', f'work/{name}.flows', in_json(stray),
               [f'{name}: messages followed']) for name in CALLS),
    *(Mutation(f'{name}: each call is found to take 100 ms more', f'work/{name}.calls', in_json(slower),
               [f'{name}: a call\'s time beside sipp\'s']) for name in CALLS),
    *(Mutation(f'share-{share}: messages are sent again', f'work/share-{share}.screen', again, [f'share-{share}: sent again'])
      for share in (20, 50)),
    *(Mutation(f'share-{share}: calls take 900 ms', f'work/share-{share}.rtt', in_lines(long), [f'share-{share}: median RTT'])
      for share in (20, 50)),
    Mutation('share-250: calls take a millisecond', 'work/share-250.rtt', in_lines(quick), ['share-250: longest RTT']),
    Mutation('share-250: nothing is sent again', 'work/share-250.screen', never, ['share-250: sent again']),
    *(Mutation(f'{name}: somebody else is named', f'work/{name}.vary', in_json(another), [f'{name}: it is the first cause'])
      for name, _ in NEIGHBOURS),
    *(Mutation(f'quiet: {who} is named', 'work/quiet.vary', in_json(everywhere(who)), ['quiet: causes because'])
      for _, who in NEIGHBOURS),
    Mutation('yielding: the neighbour keeps the vCPUs all the same', 'work/yielding.vary', in_json(still('sh')),
             ['yielding: it keeps', 'yielding: it is still']),
    Mutation('chain: one request in fifty is not followed', 'work/chain.vary', in_json(not_behind), ['chain: requests told']),
    Mutation('quiet: its own threads keep requests', 'work/quiet.vary', in_json(own), ['quiet: kept by its own threads']),
    Mutation('threads: its own threads keep none', 'work/threads.vary', in_json(not_own), ['threads: kept by its own threads']),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder],
            ['work/*.vary', 'work/*.calls', 'work/*.flows', 'work/*.machines', 'work/*.rtt', 'work/*.screen', 'work/load.json', 'work/threads.asked'], MUTATIONS)
