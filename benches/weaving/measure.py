#!/usr/bin/env python3
"""measure.py XWEAVE WORLD WORK ROUNDS [OTHER]: weaving a thousand instructions, quickly and gently; and the library's
largest aspect beside its hooks alone, and into three kernels beside one"""
import collections
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, alternate  # noqa: E402
from world import OTHER, OURS, World  # noqa: E402

WANTED = 1000
# Of the library, what needs most programs.
LARGEST = 'virtio-net'
HOOKS, GUESTS = 'its hooks', f'{LARGEST}, host and both guests'
# In one round, which takes minutes, it was 0.13 of what it takes one by one (docs/decisions.md).
BOUNDS = {
    'both': Bound(0.2, 'the least by which it has to be quicker than one by one, to weave and to unweave: 5 times'),
    # In five rounds it was 1.45 (docs/decisions.md), and 1.95 before records were stored by functions.
    (LARGEST, HOOKS): Bound(1.7, 'its advice is not to keep the verifier longer than its hooks take'),
}
# One of these takes seconds: what it is beside its peer differs more from round to round than it takes.
ROUNDS_OF_HOOKS = 5


def functions(sites):
    """Functions of TCP, IP and devices that touch socket buffers so often in all. The site's function is given by
    its name, of which there may be several: those that have one only."""
    counts = collections.Counter(site['function'] for site in map(json.loads, sites.read_text().splitlines()))
    chosen, left = [], WANTED
    for name, count in sorted(counts.items()):
        if name.startswith(('tcp_', 'ip_', 'ip6_', 'dev_', 'skb_', 'udp_')) and '.' not in name and count <= left:
            chosen.append(name)
            left -= count
    return chosen


class Host:
    """The world's host, in which all programs record."""

    def __init__(self, world, work):
        self.world, self.work = world, work

    def json(self, *command, who=OURS):
        ran = self.world.run('host', self.world.recorders[who].program, *command, '--json')
        if ran.returncode:
            sys.exit(f'weaving: this failed: {who} {" ".join(command)}: {ran.stderr[-2000:]}')
        return json.loads(ran.stdout)

    def record(self, aspect, *options, who=OURS):
        return self.json('record', aspect, '-o', '/tmp/trace', '--force', '--duration', '1ms', *options, who=who)

    def push(self, name, text):
        (self.work / name).write_text(text)
        subprocess.run([self.world.xweave, 'lab', 'push', self.world.name, 'host', self.work / name, f'/tmp/{name}'],
                       check=True)
        return f'/tmp/{name}'

    def hooks_of(self, aspect):
        """An aspect that stores a number at the entry of each function that that one is woven at (a tracepoint may be
        called as no function is)."""
        functions = {function for advice in self.json('check', aspect)['advice'] for function in advice['functions']}
        hooks = ', '.join(f'{name}?' for name in sorted(functions))
        return self.push('hooks.aspect', f'advice hooks execution({hooks}) {{ STORE_DATA1(1); }}\n')


def seconds(runs, *what):
    return [sum(run[key] for key in what) / 1e9 for run in runs]


def largest(host, report):
    """The largest aspect, into the host alone and into both guests as well, by all programs."""
    hooks = host.hooks_of(LARGEST)
    wanted = {(OURS, HOOKS): lambda: host.record(hooks)}
    for who, recorder in host.world.recorders.items():
        wanted[who, LARGEST] = lambda who=who: host.record(LARGEST, who=who)
        wanted[who, GUESTS] = lambda who=who, guests=recorder.guests: host.record(LARGEST, *guests, who=who)
    # What has not been compiled before is.
    for weave in wanted.values():
        weave()
    runs = alternate(ROUNDS_OF_HOOKS, wanted)
    for (who, what), of in runs.items():
        print(f'{who}, {what}: {of[0]["sites"]} sites woven, in an emulated machine')
    attached = {key: seconds(of, 'attach_ns') for key, of in runs.items()}
    report.row(LARGEST, 's', attached[OURS, LARGEST], HOOKS, attached[OURS, HOOKS])
    report.row(GUESTS, 's', attached[OURS, GUESTS], 'host alone', attached[OURS, LARGEST])
    for what in (LARGEST, GUESTS) if OTHER in host.world.recorders else ():
        report.row(what, 's', attached[OURS, what], OTHER, attached[OTHER, what])


def instructions(host, rounds, report):
    names = ', '.join(functions(host.work / 'sites'))
    thousand = host.push('thousand.aspect', 'advice thousand access(sk_buff.%) AND within_function(\n    '
                         f'{names})\nbefore {{ STORE_DATA1($pc$); }}\n')
    measured = alternate(rounds, {'quickly': lambda: host.record(thousand),
                                  'gently': lambda: host.record(thousand, '--serial-attach')})
    sites = {run['sites'] for runs in measured.values() for run in runs}
    print(f'{sites.pop() if len(sites) == 1 else sites} instructions woven')
    for name, what in (('weaving', ['attach_ns']), ('unweaving', ['detach_ns']), ('both', ['attach_ns', 'detach_ns'])):
        report.row(name, 's', seconds(measured['quickly'], *what), 'one by one', seconds(measured['gently'], *what))


def main():
    xweave, name, work, rounds, *other = sys.argv[1:]
    host = Host(World(xweave, name, *other), pathlib.Path(work))
    report = Report('weaving', BOUNDS)
    largest(host, report)
    instructions(host, int(rounds), report)
    report.finish()


if __name__ == '__main__':
    main()
