#!/usr/bin/env python3
"""measure.py XWEAVE WORLD WORK ROUNDS: weaving a thousand instructions, quickly and gently; and the library's largest
aspect beside its hooks alone"""
import collections
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, alternate  # noqa: E402

XWEAVE, WORLD, WORK, ROUNDS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
WANTED = 1000
# Of the library, what needs most programs.
LARGEST = 'virtio-net'
# In one round, which takes minutes, it was 0.13 of what it takes one by one (docs/decisions.md).
BOUNDS = {
    'both': Bound(0.2, 'the least by which it has to be quicker than one by one, to weave and to unweave: 5 times'),
    # In five rounds it was 1.45 (docs/decisions.md), and 1.95 before records were stored by functions.
    'virtio-net': Bound(1.7, 'its advice is not to keep the verifier longer than its hooks take'),
}
# One of these takes seconds: what it is beside its peer differs more from round to round than it takes.
ROUNDS_OF_HOOKS = 5


def functions():
    """Functions of TCP, IP and devices that touch socket buffers so often in all. The site's function is given by
    its name, of which there may be several: those that have one only."""
    sites = [json.loads(line) for line in (WORK / 'sites').read_text().splitlines()]
    counts = collections.Counter(site['function'] for site in sites)
    chosen, left = [], WANTED
    for name, count in sorted(counts.items()):
        if name.startswith(('tcp_', 'ip_', 'ip6_', 'dev_', 'skb_', 'udp_')) and '.' not in name and count <= left:
            chosen.append(name)
            left -= count
    return chosen


def on_host(*command):
    run = subprocess.run([XWEAVE, 'lab', 'exec', WORLD, 'host', '--', 'xweave', *command, '--json'],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f'weaving: this failed: xweave {" ".join(command)}: {run.stderr[-2000:]}')
    return json.loads(run.stdout)


def record(aspect, *options):
    return on_host('record', aspect, '-o', '/tmp/trace', '--force', '--duration', '1ms', *options)


def push(name, text):
    (WORK / name).write_text(text)
    subprocess.run([XWEAVE, 'lab', 'push', WORLD, 'host', WORK / name, f'/tmp/{name}'], check=True)
    return f'/tmp/{name}'


def hooks_of(aspect):
    """An aspect that stores a number at the entry of each function that that one is woven at (a tracepoint may be
    called as no function is)."""
    functions = {function for advice in on_host('check', aspect)['advice'] for function in advice['functions']}
    return f'advice hooks execution({", ".join(f"{name}?" for name in sorted(functions))}) {{ STORE_DATA1(1); }}\n'


def main():
    thousand = push('thousand.aspect', 'advice thousand access(sk_buff.%) AND within_function(\n    '
                    f'{", ".join(functions())})\nbefore {{ STORE_DATA1($pc$); }}\n')
    hooks = push('hooks.aspect', hooks_of(LARGEST))
    record(LARGEST)
    alone = alternate(ROUNDS_OF_HOOKS, {LARGEST: lambda: record(LARGEST), 'hooks': lambda: record(hooks)})
    for aspect, runs in alone.items():
        print(f'{aspect}: {runs[0]["sites"]} sites woven, in an emulated machine')
    measured = alternate(ROUNDS, {'quickly': lambda: record(thousand), 'gently': lambda: record(thousand, '--serial-attach')})
    sites = {run['sites'] for runs in measured.values() for run in runs}
    print(f'{sites.pop() if len(sites) == 1 else sites} instructions woven')

    def seconds(runs, *what):
        return [sum(run[key] for key in what) / 1e9 for run in runs]

    report = Report('weaving', BOUNDS)
    report.row(LARGEST, 's', seconds(alone[LARGEST], 'attach_ns'), 'its hooks', seconds(alone['hooks'], 'attach_ns'))
    for name, what in (('weaving', ['attach_ns']), ('unweaving', ['detach_ns']), ('both', ['attach_ns', 'detach_ns'])):
        report.row(name, 's', seconds(measured['quickly'], *what), 'one by one', seconds(measured['gently'], *what))
    report.finish()


if __name__ == '__main__':
    main()
