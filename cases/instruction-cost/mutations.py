#!/usr/bin/env python3
"""mutations.py OUT RUNS: that each claim of compare.py fails where what it is about is not so"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json  # noqa: E402

OUT, RUNS = pathlib.Path(sys.argv[1]), sys.argv[2]
PLAIN = {'arithmetic', 'logic', 'transfer', 'sse', 'avx', 'bits', 'shift'}


def environments(**altered):
    return in_json(lambda document: [one.update(altered) for one in document['environments']])


def privileged(alter):
    def each(document):
        for row in document['rows']:
            if row['group'] == 'privileged':
                alter(row)
    return in_json(each)


def dearer(environment, factor):
    """What has nothing to do with the hypervisor takes FACTOR as long there."""
    def alter(document):
        for row in document['rows']:
            if row['group'] in PLAIN and environment in row['cycles']:
                row['cycles'][environment] *= factor
    return in_json(alter)


def every_other(document):
    for row in document['rows'][::2]:
        if 'native' in row['cycles']:
            row['cycles']['native'] *= 1.05


def other_processor(document):
    for row in document['rows']:
        if 'native' in row['cycles']:
            row['cycles']['native'] = row['cycles']['native'] * 1.5 + 1


def untrapped(row):
    """Nothing of it costs more in Xen than in the machine under it."""
    if 'xen-pv' in row['cycles'] and 'tcg' in row['cycles']:
        row['cycles']['xen-pv'] = row['cycles']['tcg']
        row['ratio']['xen-pv'] = 1


def no_fault(document):
    for row in document['rows']:
        row['note'] = {}


def no_model(document):
    for form in document['forms'].values():
        for kind in form:
            form[kind] = form[kind] * 3 + 2 if form[kind] is not None else None


PUBLISHED = Mutation('another processor than it is taken for', 'native-*.json', in_json(other_processor),
                     ['published figures met', 'differences from them for no known reason'])
FEW = Mutation('figures are published of ninety forms only', 'native-1.json',
               in_json(lambda document: document['published'].__delitem__(slice(90, None))), ['forms with published figures'])
OPINION = Mutation("LLVM's model is another processor's", 'second.json', in_json(no_model), ['second opinion'])
MUTATIONS = [
    Mutation('each machine is ended by a form', 'all.json', environments(boots=2),
             [f'{name}: boots and finishes' for name in ('native', 'tcg', 'kvm', 'xen-pv')]),
    Mutation('each takes a minute and a second', 'all.json', environments(seconds=61),
             [f'{name}: time' for name in ('native', 'tcg', 'kvm', 'xen-pv')]),
    Mutation('the image does not come to its end under GRUB', 'bare.json', environments(ended=1), ['multiboot2']),
    Mutation('an image of a megabyte', 'image', lambda text: text + '\0' * (1 << 20), ['size of the image']),
    PUBLISHED,
    FEW,
    OPINION,
    Mutation('one run in which every other form takes 5 % longer', f'native-{RUNS}.json', in_json(every_other),
             ['figures whose medians stay within 3 %']),
    *(Mutation(f'{name}: all unprivileged instructions take twice as long', 'all.json', dearer(name, 2),
               [f'{name}: unprivileged instructions cost the same', f'{name}: of them within a third'])
      for name in ('kvm', 'xen-pv')),
    Mutation('Xen traps nothing', 'all.json', privileged(untrapped),
             ['MOV CR0-4 read costs many times', 'CLTS costs many times', 'forms that Xen emulates and that cost less than']),
    Mutation("what Xen traps costs what it does in the paper's machine", 'all.json',
             in_json(lambda document: [row['cycles'].update({'xen-pv': row['cycles']['tcg']}) for row in document['rows']
                                       if row['kind'] == 'paper' and row['group'] == 'privileged' and 'xen-pv' in row['cycles']
                                       and 'tcg' in row['cycles']]),
             ['MOV CR0-4 read costs many times', 'MOV CR0-4 write costs many times', 'CLTS costs many times']),
    Mutation('the hypervisors count nothing', 'all.json',
             privileged(lambda row: [row['counted'].pop(name, None) for name in ('kvm', 'xen-pv')]),
             ['kvm: CR0–CR4 and CLTS', 'xen-pv: CR0–CR4 and CLTS', 'Xen emulates each of them']),
    Mutation('Xen has emulated nothing', 'all.json', privileged(lambda row: row['counted'].update({'xen-pv': {}})),
             ['Xen emulates each of them']),
    Mutation('a count contradicts the cost', 'all.json', privileged(lambda row: row['contradicted'].append('kvm')),
             ['cost and count contradict each other']),
    Mutation('what faults is told as nothing', 'all.json', in_json(no_fault), ['forms that fault are told as such']),
    Mutation('no start is ended', 'cut.json', environments(boots=1, ended=0), ['ended in the middle: forms lost']),
    Mutation('each start that is ended loses a form', 'cut.json', environments(boots=3, ended=3), ['starts beyond one']),
    Mutation('what was measured before the end is lost', 'cut.json',
             in_json(lambda document: document['rows'].__delitem__(slice(100, None))), ['the rest is kept']),
]


def main():
    without = []
    if not json.loads((OUT / 'native-1.json').read_text())['published']:
        without += [PUBLISHED, FEW]
    if not json.loads((OUT / 'second.json').read_text())['source']:
        without += [OPINION]
    falsify(OUT, lambda folder: [HERE / 'compare.py', folder, RUNS], ['*.json', 'image'], MUTATIONS, without)


if __name__ == '__main__':
    main()
