#!/usr/bin/env python3
"""measure.py XWEAVE BEFORE WORLD WORK ROUNDS: the program beside the one that trusted guests and files"""
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, Run, alternate  # noqa: E402

NOW, BEFORE, WORLD, WORK, ROUNDS = (*sys.argv[1:4], pathlib.Path(sys.argv[4]), int(sys.argv[5]))
IN_HOST = {'now': 'xweave', 'before': '/root/before'}
HERE = {'now': NOW, 'before': BEFORE}

# Functions that a file's writing passes, and some hundred more that take time to weave only.
ASPECT = ('advice hot execution(vfs_write, ksys_write) { STORE_DATA2(count, $pc$); }\n'
          'advice many execution(tcp_v4_%, ip_%) { STORE_DATA1($pc$); }\n')
# Bytes are written one by one: two hits each.
LOAD = 'dd if=/dev/zero of=/tmp/written bs=1 count=40000 2>/dev/null'

# What each may cost at most: SECURITY.md says so.
WEAVING, UNWEAVING, RECORDED, ADDED = (f'{what} (emulated)' for what in (
    'weaving', 'unweaving', 'a load that is recorded', 'added to the load by recording'))
COLD, WARM, FLOWS = 'compiling advice, cold', 'compiling advice, warm', 'flows of a trace'
BOUNDS = {
    WEAVING: Bound(1.6, 'what a domain sent is read and compiled in processes of their own'),
    UNWEAVING: Bound(1.3, 'settings are put back, and noted'),
    RECORDED: Bound(1.4, 'advice has a guard, and reads are counted where they fail'),
    ADDED: Bound(1.6, 'advice has a guard, and reads are counted where they fail'),
    COLD: Bound(1.5, 'the compiler runs in a confined process'),
    WARM: Bound(1.4, 'what is kept is looked at before it is used'),
    FLOWS: Bound(1.3, 'a trace is checked as it is read'),
}


def in_host(script):
    run = subprocess.run([NOW, 'lab', 'exec', WORLD, 'host', '--', 'sh', '-c', script],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f'hardening: this failed in the host: {script}\n{run.stdout}{run.stderr}'[-3000:])
    return run.stdout


def record(which):
    """Weaving, unweaving, and how long the load takes while it is recorded."""
    timed = f"s=$(date +%s%N); {LOAD}; e=$(date +%s%N); echo $((e - s)) >/tmp/took"
    out = in_host(f"{IN_HOST[which]} record /tmp/hardening.aspect -o /tmp/trace --force --json "
                  f"-- sh -c '{timed}' && cat /tmp/took")
    document, took = out.rsplit('}', 1)
    document = json.loads(document + '}')
    # The program before has the older names.
    attach, detach = ('attach_ns', 'detach_ns') if 'attach_ns' in document else ('weaving_ns', 'unweaving_ns')
    return {'weaving': document[attach] / 1e9, 'unweaving': document[detach] / 1e9,
            'load': int(took) / 1e9, 'sites': document['sites'], 'lost': document['lost']}


def compile_advice(which, cache):
    # Types alone: of the running kernel, this program also looks for functions that no type information tells of.
    return Run(HERE[which], 'check', '--domain', 'host=/sys/kernel/btf/vmlinux', WORK / 'check.aspect',
               XWEAVE_CACHE=str(cache))


def cold(which):
    cache = WORK / f'cold-{which}-{len(list(WORK.iterdir()))}'
    return compile_advice(which, cache)


def main():
    (WORK / 'hardening.aspect').write_text(ASPECT)
    (WORK / 'check.aspect').write_text('advice one execution(vfs_write) { STORE_DATA1(count); }\n')
    subprocess.run([NOW, 'lab', 'push', WORLD, 'host', WORK / 'hardening.aspect', '/tmp/hardening.aspect'], check=True)
    ways = ('now', 'before')
    warm = {which: WORK / f'warm-{which}' for which in ways}
    for which in ways:
        compile_advice(which, warm[which])
        record(which)
    recorded = alternate(ROUNDS, {which: (lambda which=which: record(which)) for which in ways})
    bare = alternate(ROUNDS, {'bare': lambda: int(in_host(f's=$(date +%s%N); {LOAD}; e=$(date +%s%N); echo $((e - s))'))
                              / 1e9})['bare']
    compiled = alternate(ROUNDS, {f'{which} {how}': measure for which in ways for how, measure in (
        ('cold', lambda which=which: cold(which)),
        ('warm', lambda which=which: compile_advice(which, warm[which])))})
    in_host('rm -rf /tmp/kept; cp -r /tmp/trace /tmp/kept')
    subprocess.run([NOW, 'lab', 'pull', WORLD, 'host', '/tmp/kept', WORK / 'trace'], check=True)
    read = alternate(ROUNDS, {which: (lambda which=which: Run(HERE[which], 'flows', WORK / 'trace', '--json'))
                              for which in ways})

    report = Report('hardening', BOUNDS)

    def row(name, figures):
        report.row(name, 's', figures['now'], 'before', figures['before'])

    def of_recordings(of):
        return {which: list(map(of, recorded[which])) for which in ways}

    row(WEAVING, of_recordings(lambda run: run['weaving']))
    row(UNWEAVING, of_recordings(lambda run: run['unweaving']))
    row(RECORDED, of_recordings(lambda run: run['load']))
    unrecorded = statistics.median(bare)
    row(ADDED, of_recordings(lambda run: max(run['load'] - unrecorded, 1e-3)))
    for how, name in (('cold', COLD), ('warm', WARM)):
        row(name, {which: [run.seconds for run in compiled[f'{which} {how}']] for which in ways})
    row(FLOWS, {which: [run.seconds for run in read[which]] for which in ways})
    print(f'{recorded["now"][0]["sites"]} sites were woven')
    lost = {which: sum(run['lost'] for run in recorded[which]) for which in ways}
    print(f'lost: {lost["now"]} now, {lost["before"]} before')
    report.finish()


if __name__ == '__main__':
    main()
