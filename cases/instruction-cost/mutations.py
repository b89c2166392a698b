#!/usr/bin/env python3
"""mutations.py OUT RUNS: that claims of compare.py fail where what they are about is not so

Takes what a run has left in OUT, alters one thing at a time in a copy, and judges that. Exits 1 if a claim holds all the
same. OUT itself stays as it is."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

OUT, RUNS = pathlib.Path(sys.argv[1]), sys.argv[2]
COMPARE = pathlib.Path(__file__).parent / 'compare.py'


def rows(document, *groups):
    return [row for row in document['rows'] if row['group'] in groups]


def slower_guest(document):
    for row in rows(document, 'arithmetic', 'logic', 'transfer', 'sse', 'avx'):
        if 'xen-pv' in row['cycles']:
            row['cycles']['xen-pv'] *= 2


def free_privileges(document):
    for row in rows(document, 'privileged'):
        if row['name'] == 'clts' and 'tcg' in row['cycles']:
            row['cycles']['xen-pv'] = row['cycles']['tcg']


def nothing_emulated(document):
    for row in rows(document, 'privileged'):
        row['counted']['xen-pv'] = {}


def not_counted(document):
    for row in rows(document, 'privileged'):
        row['counted'].pop('kvm', None)


def contradicted(document):
    rows(document, 'privileged')[0]['contradicted'] = ['kvm']


def other_processor(document):
    for row in document['rows']:
        if 'native' in row['cycles']:
            row['cycles']['native'] = row['cycles']['native'] * 1.5 + 1


# What is altered, in which files, and a part of the name of a claim that has to fail.
MUTATIONS = [
    (slower_guest, 'all.json', 'xen-pv: unprivileged instructions cost the same'),
    (free_privileges, 'all.json', 'xen-pv: CLTS costs many times as much'),
    (nothing_emulated, 'all.json', 'Xen emulates each of them'),
    (not_counted, 'all.json', 'kvm: CR0–CR4 and CLTS: what it did is told by the cost, and counted'),
    (contradicted, 'all.json', 'cost and count contradict each other'),
    (other_processor, 'native-*.json', 'published figures met'),
]


def failed(folder):
    """The claims that fail."""
    done = subprocess.run([sys.executable, COMPARE, folder, RUNS], capture_output=True, text=True)
    if done.returncode not in (0, 1) or 'Traceback' in done.stderr:
        sys.exit(f'compare.py: {done.stderr}')
    return [one['name'] for one in json.loads((folder / 'result.json').read_text())['claims'] if not one['ok']]


def main():
    wrong = []
    published = json.loads((OUT / 'native-1.json').read_text()).get('published')
    for mutation, files, claim in MUTATIONS:
        name = mutation.__name__.replace('_', ' ')
        if claim == 'published figures met' and not published:
            print(f'{name}: NOT JUDGED: nothing is published of this processor')
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            for path in [*OUT.glob('*.json'), OUT / 'image']:
                shutil.copy(path, folder)
            for path in folder.glob(files):
                document = json.loads(path.read_text())
                mutation(document)
                path.write_text(json.dumps(document))
            held = not any(claim in one for one in failed(folder))
        print(f'{name}: {claim}: {"HOLDS ALL THE SAME" if held else "fails, as it must"}')
        if held:
            wrong.append(name)
    if wrong:
        sys.exit('mutations that no claim sees: ' + '; '.join(wrong))


if __name__ == '__main__':
    main()
