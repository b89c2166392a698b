#!/usr/bin/env python3
"""measure.py ROUNDS: what recording does to the times of requests that are recorded, beside not recording"""
import contextlib
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, alternate, built  # noqa: E402

ROUNDS = int(sys.argv[1])
# A run's requests, and how long the server works for each: about what a SIP server does.
REQUESTS, WORK = 1_500, 200_000
# Kohiga, Shinoda and Sugawara could have 3 to 4 probes in a kernel before the times themselves changed.
FEW, MANY = 4, 12
# Programs of our probes that hook tracepoints, and so run in any kernel.
PROGRAMS = {
    'few stamps': ('syscalls', 'sys_enter'),
    'many stamps': ('sched,syscalls', 'sys_enter,sys_exit,sched_switch,sched_waking,softirq_raise,softirq_entry,softirq_exit'),
}
BOUNDS = {
    'p50, many stamps': Bound(1.05, 'stamps are not what a request waits for'),
    'p99, many stamps': Bound(1.15, 'nor do they make it vary'),
}


@contextlib.contextmanager
def namespaces():
    """Two of them, joined by a pair of virtual devices; their files."""
    names = ['xweave-stamps-client', 'xweave-stamps-server']

    def ip(*words):
        subprocess.run(['ip', *words], check=True)
    made = []
    try:
        for name in names:
            ip('netns', 'add', name)
            made.append(name)
        ip('-n', names[0], 'link', 'add', 'veth0', 'type', 'veth', 'peer', 'name', 'veth0', 'netns', names[1])
        for nth, name in enumerate(names, 1):
            ip('-n', name, 'address', 'add', f'10.78.0.{nth}/24', 'dev', 'veth0')
            ip('-n', name, 'link', 'set', 'veth0', 'up')
        yield [f'/run/netns/{name}' for name in names]
    finally:
        for name in made:
            subprocess.run(['ip', 'netns', 'delete', name], check=False)


def main():
    program = built('recording')
    counts = {name: [] for name in PROGRAMS}
    lost = 0
    with namespaces() as (client, server):
        load = subprocess.Popen([program, 'requests', client, server, str(WORK)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

        def run():
            """Median and 99th percentile, in microseconds."""
            load.stdin.write(f'requests {REQUESTS}\n')
            load.stdin.flush()
            return [int(word) / 1e3 for word in load.stdout.readline().split()]

        def recorded(name):
            nonlocal lost
            recorder = subprocess.Popen([program, str(load.pid), *PROGRAMS[name]], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
            if recorder.stdout.readline().strip() != 'ready':
                sys.exit('stamps: the kernel does not run our probes, see above')
            took = run()
            events, missed = map(int, recorder.communicate()[0].split())
            counts[name].append(events / REQUESTS)
            lost += missed
            return took

        run()
        results = alternate(ROUNDS, {'none': run, 'few stamps': lambda: recorded('few stamps'),
                                     'none again': run, 'many stamps': lambda: recorded('many stamps')})
        load.stdin.close()
        load.terminate()
        load.wait()

    report = Report('stamps', BOUNDS)
    for at, what in enumerate(('p50', 'p99')):
        of = {name: [took[at] for took in runs] for name, runs in results.items()}
        for name in ('none again', *PROGRAMS):
            report.row(f'{what}, {name}', 'µs', of[name], 'none', of['none'])
    failed = []
    for at, what in enumerate(('p50', 'p99')):
        # Each round's two runs without probes are an interval, and all of them say how far two runs are apart.
        none, again, many = ([took[at] for took in results[name]] for name in ('none', 'none again', 'many stamps'))
        apart = max(abs(two / one - 1) for one, two in zip(none, again, strict=True))
        more = statistics.median(with_all / ((one + two) / 2)
                                 for with_all, one, two in zip(many, none, again, strict=True)) - 1
        print(f'{what}: two runs without probes are up to {apart:.1%} apart; with all probes it is {more:+.1%}')
        if more > apart:
            failed.append(f'{what} with all probes is further off than two runs without any')
    for name, least in (('few stamps', FEW), ('many stamps', MANY)):
        stamps = statistics.median(counts[name])
        print(f'{name}: {stamps:.1f} of a request and its answer')
        if stamps < least:
            failed.append(f'{name}: fewer than {least}')
    if lost:
        failed.append(f'{lost} events were lost')
    report.finish(failed)


if __name__ == '__main__':
    main()
