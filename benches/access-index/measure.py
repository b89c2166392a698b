#!/usr/bin/env python3
"""measure.py XWEAVE VMLINUX ROUNDS: the access index beside objdump"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Report, Run, alternate, median  # noqa: E402

XWEAVE, VMLINUX, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
PEER = 'objdump -d'
# A question that is answered at once is asked often: a single answer's time says little.
QUESTIONS = 5


def ask(cache, *options):
    return Run(XWEAVE, 'sites', 'access(sk_buff.len)', '--kernel', VMLINUX, *options, XWEAVE_CACHE=cache)


def cold(*options):
    with tempfile.TemporaryDirectory(prefix='xweave-bench-') as cache:
        return ask(cache, *options)


def coverage(cache, *options):
    out = subprocess.run([XWEAVE, 'sites', 'access(sk_buff.len)', '--json', '--kernel', VMLINUX, *options],
                         env={**os.environ, 'XWEAVE_CACHE': cache}, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)['coverage']['instructions']


def listed():
    """How many instructions objdump lists, without those that fill what is between functions: more than half
    of its lines."""
    objdump = subprocess.Popen(['objdump', '-d', '--no-show-raw-insn', VMLINUX], stdout=subprocess.PIPE)
    lines = (line.rstrip().split(b':\t', 1)[1:] for line in objdump.stdout)
    count = sum(found not in ([], [b'int3'], [b'nop']) for found in lines)
    if objdump.wait():
        sys.exit(f'bench: objdump failed on {VMLINUX} with status {objdump.returncode}')
    return count


def main():
    with tempfile.TemporaryDirectory(prefix='xweave-bench-') as kept:
        # This also fills the cache, and reads the file into memory, from which all are measured.
        instructions = {'BTF': coverage(kept, '--btf-only'), 'DWARF': coverage(kept)}
        all_listed = listed()
        measured = alternate(ROUNDS, {
            PEER: lambda: Run('objdump', '-d', VMLINUX),
            'BTF': lambda: cold('--btf-only'),
            'DWARF': cold,
            'warm': lambda: [ask(kept) for _ in range(QUESTIONS)],
        })
    measured['warm'] = [run for runs in measured['warm'] for run in runs]

    report = Report('access-index')

    def compare(name, which, target):
        def medians(of):
            return median(measured[which], of), median(measured[PEER], of)

        unit, scale = ('ms', 1e3) if which == 'warm' else ('s', 1)
        ours, its = medians(lambda run: run.seconds)
        report.row(f'{name}: time', unit, ours * scale, PEER, its * scale, target=target)
        if which in instructions:
            report.row(f'{name}: instructions', '1/s', instructions[which] / ours, PEER, all_listed / its, better='more')
        # What others do on the machine meanwhile takes processors away, and so time, but hardly any of this.
        ours, its = medians(lambda run: run.processors)
        report.row(f'{name}: processor time', unit, ours * scale, PEER, its * scale)
        ours, its = medians(lambda run: run.memory / 2**20)
        report.row(f'{name}: peak memory', 'MiB', ours, PEER, its, target='' if which == 'warm' else '≤ 1,024')

    compare('index from BTF, cold', 'BTF', '≤ 4')
    compare('index with DWARF, cold', 'DWARF', '≤ 9')
    compare('question to a kept index', 'warm', '≤ 50')
    report.finish()


if __name__ == '__main__':
    main()
