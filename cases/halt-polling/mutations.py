#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json  # noqa: E402


def not_advised(document):
    document['settings'] = [one for one in document['settings'] if one['what'] != 'halt_polling']
    for cause in document['causes']:
        if cause['kind'] == 'vcpu_halted':
            cause['named'] = False


def advised(document):
    document['settings'].append({'what': 'halt_polling'})


def useless(document):
    """The setting did nothing to halts, or to requests."""
    for effect in document['effects']:
        for observed in effect['observed']:
            observed['baseline'] = observed['with'] = 0.5
        for of in ('p50', 'mean'):
            effect[of]['ratio_high'] = 1.05


def useful(document):
    for effect in document['effects']:
        effect['p50']['ratio_high'] = 0.95


def ten_times(document):
    """What is measured is not what was told."""
    for effect in document['effects']:
        effect['p50']['with_ns'] *= 10


def someone_else(document):
    for cause in document['causes']:
        cause['by'] = 'kworker'


def by_other(document):
    """The other guest keeps the vCPU wherever it is."""
    document['causes'].insert(0, {'kind': 'vcpu_preempted', 'by': 'vCPUs of vm2', 'named': True,
                                  'remedy': 'pin it', 'offenders': [{'who': 'vCPUs of vm2', 'ns': 10 ** 12}]})


def halted(document):
    """The guest halts all the same, and is slower."""
    document['p50_ns'] *= 1000
    document['causes'].append({'kind': 'vcpu_halted', 'requests': document['requests'], 'gain': {'p50_ns': 0}})


MUTATIONS = [
    Mutation('spare: polling is not advised', 'work/spare-*.vary', in_json(not_advised), ['spare: blocks in which polling is advised']),
    Mutation('spare: polling does nothing', 'work/spare.json', in_json(useless),
             ['spare: halts that do not sleep, without', 'spare: halts that do not sleep, with polling',
              'spare: p50 with polling', 'spare: mean with polling']),
    Mutation('spare: p50 is ten times what was told', 'work/spare.json', in_json(ten_times), ['spare: p50 told beforehand']),
    Mutation('neighbour: somebody else is named', 'work/neighbour-*.vary', in_json(someone_else),
             ['neighbour: blocks in which it is the first']),
    Mutation('neighbour: polling is advised', 'work/neighbour-*.vary', in_json(advised), ['neighbour: blocks in which polling']),
    Mutation('neighbour: KVM polls', 'work/neighbour.json', in_json(useless), ['neighbour: halts that do not sleep']),
    Mutation('neighbour: polling helps', 'work/neighbour.json', in_json(useful), ['neighbour: p50 with polling']),
    Mutation('guests: somebody else is named', 'work/guests-*.vary', in_json(someone_else),
             ['guests: blocks in which the other one']),
    Mutation('guests: the other one keeps the vCPU on two CPUs', 'work/guests-*.vary', in_json(by_other),
             ['guests: the same, on two', 'guests: the other one keeps']),
    Mutation('idle=poll: the guest halts', 'work/poll-*.vary', in_json(halted),
             ['idle=poll: requests that', 'idle=poll: p50', 'idle=poll: rounds in which']),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder],
            ['work/*.vary', 'work/*.json', 'work/idle-poll.cmdline'], MUTATIONS)
