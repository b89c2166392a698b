#!/usr/bin/env python3
"""measure.py XWEAVE VMLINUX ROUNDS: the access index beside objdump"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, Run, alternate  # noqa: E402

XWEAVE, VMLINUX, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
PEER = 'objdump -d'
# Of processor time, of which what else the machine does takes hardly anything away, beside `objdump -d`, which only
# decodes: one that finds out what each instruction touches takes longer, and still is made while one waits.
BOUNDS = {
    'index from BTF, cold: processor time': Bound(1.7, 'the index is made while one waits'),
    'index with DWARF, cold: processor time': Bound(2.8, 'the index is made while one waits'),
    'question to a kept index: processor time': Bound(0.005, 'a kept index is looked up, not read'),
    # Of the tools that run on a small host beside its guests.
    'index from BTF, cold: peak memory': Bound(1024, 'MiB that a host can spare', of='ours'),
    'index with DWARF, cold: peak memory': Bound(1024, 'MiB that a host can spare', of='ours'),
}
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
    report = Report('access-index', BOUNDS)

    def compare(name, which):
        def figures(of, scale=1):
            its = [of(run) * scale for run in measured[PEER]]
            if which == 'warm':
                return [statistics.median(map(of, runs)) * scale for runs in measured[which]], its
            return [of(run) * scale for run in measured[which]], its

        unit, scale = ('ms', 1e3) if which == 'warm' else ('s', 1)
        ours, its = figures(lambda run: run.seconds, scale)
        report.row(f'{name}: time', unit, ours, PEER, its)
        if which in instructions:
            report.row(f'{name}: instructions', '1/s', [instructions[which] / seconds for seconds in ours], PEER,
                       [all_listed / seconds for seconds in its], better='more')
        # What others do on the machine meanwhile takes processors away, and so time, but hardly any of this.
        for what, unit, of in (('processor time', unit, lambda run: run.processors * scale),
                               ('peak memory', 'MiB', lambda run: run.memory / 2**20)):
            ours, its = figures(of)
            report.row(f'{name}: {what}', unit, ours, PEER, its)

    compare('index from BTF, cold', 'BTF')
    compare('index with DWARF, cold', 'DWARF')
    compare('question to a kept index', 'warm')
    report.finish()


if __name__ == '__main__':
    main()
