#!/usr/bin/env python3
"""measure.py XWEAVE BEFORE WORLD WORK ROUNDS: the program beside the one that trusted guests and files"""
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Report, Run, alternate, median  # noqa: E402

NOW, BEFORE, WORLD, WORK, ROUNDS = (*sys.argv[1:4], pathlib.Path(sys.argv[4]), int(sys.argv[5]))
IN_HOST = {'now': 'xweave', 'before': '/root/before'}
HERE = {'now': NOW, 'before': BEFORE}

# Functions that a file's writing passes, and some hundred more that take time to weave only.
ASPECT = ('advice hot execution(vfs_write, ksys_write) { STORE_DATA2(count, $pc$); }\n'
          'advice many execution(tcp_v4_%, ip_%) { STORE_DATA1($pc$); }\n')
# Bytes are written one by one: two hits each.
LOAD = 'dd if=/dev/zero of=/tmp/written bs=1 count=40000 2>/dev/null'


# What each may cost at most, as a ratio: SECURITY.md says so. With room for the noise of three rounds on a busy machine.
LIMITS = {'weaving': 1.6, 'unweaving': 1.3, 'load': 1.4, 'added': 1.6, 'cold': 1.5, 'warm': 1.4, 'flows': 1.3}


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
    return Run(HERE[which], 'check', WORK / 'check.aspect', XWEAVE_CACHE=str(cache))


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
    in_host(f'rm -rf /tmp/kept; cp -r /tmp/trace /tmp/kept')
    subprocess.run([NOW, 'lab', 'pull', WORLD, 'host', '/tmp/kept', WORK / 'trace'], check=True)
    read = alternate(ROUNDS, {which: (lambda which=which: Run(HERE[which], 'flows', WORK / 'trace', '--json'))
                              for which in ways})

    report, beyond = Report('hardening'), []

    def tell(what, name, ours, peer):
        report.row(name, 's', ours, 'before', peer, target=f'ratio ≤ {LIMITS[what]}')
        if ours > LIMITS[what] * peer:
            beyond.append(name)

    def row(what, name, of):
        tell(what, name, *(statistics.median(map(of, recorded[which])) for which in ways))

    sites = recorded['now'][0]['sites']
    row('weaving', f'weaving {sites} sites (emulated)', lambda run: run['weaving'])
    row('unweaving', f'unweaving {sites} sites (emulated)', lambda run: run['unweaving'])
    row('load', 'a load that is recorded (emulated)', lambda run: run['load'])
    unrecorded = statistics.median(bare)
    row('added', 'added to the load by recording (emulated)', lambda run: max(run['load'] - unrecorded, 1e-3))
    for how in ('cold', 'warm'):
        tell(how, f'compiling advice, {how}',
             *(median(compiled[f'{which} {how}'], lambda run: run.seconds) for which in ways))
    tell('flows', 'flows of a trace', *(median(read[which], lambda run: run.seconds) for which in ways))
    report.finish()
    lost = {which: sum(run['lost'] for run in recorded[which]) for which in ways}
    print(f'lost: {lost["now"]} now, {lost["before"]} before')
    if beyond:
        sys.exit('hardening: beyond its limit: ' + '; '.join(beyond))


if __name__ == '__main__':
    main()
