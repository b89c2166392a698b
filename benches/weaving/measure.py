#!/usr/bin/env python3
"""measure.py XWEAVE WORLD WORK ROUNDS: weaving a thousand instructions, quickly and gently"""
import collections
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, alternate  # noqa: E402

XWEAVE, WORLD, WORK, ROUNDS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
WANTED = 1000
# In one round, which takes minutes, it was 0.13 of what it takes one by one (docs/decisions.md).
BOUNDS = {'both': Bound(0.2, 'the least by which it has to be quicker than one by one, to weave and to unweave: 5 times')}


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


def record(*options):
    run = subprocess.run([XWEAVE, 'lab', 'exec', WORLD, 'host', '--', 'xweave', 'record', '/tmp/thousand.aspect',
                          '-o', '/tmp/trace', '--force', '--duration', '1ms', '--json', *options],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f'weaving: the recording failed: {run.stderr[-2000:]}')
    return json.loads(run.stdout)


def main():
    aspect = WORK / 'thousand.aspect'
    aspect.write_text(f'advice thousand access(sk_buff.%) AND within_function(\n    {", ".join(functions())})\n'
                      'before { STORE_DATA1($pc$); }\n')
    subprocess.run([XWEAVE, 'lab', 'push', WORLD, 'host', aspect, '/tmp/thousand.aspect'], check=True)
    measured = alternate(ROUNDS, {'quickly': record, 'gently': lambda: record('--serial-attach')})
    sites = {run['sites'] for runs in measured.values() for run in runs}
    print(f'{sites.pop() if len(sites) == 1 else sites} instructions woven, in an emulated machine')

    def seconds(way, *what):
        return [sum(run[key] for key in what) / 1e9 for run in measured[way]]

    report = Report('weaving', BOUNDS)
    for name, what in (('weaving', ['attach_ns']), ('unweaving', ['detach_ns']), ('both', ['attach_ns', 'detach_ns'])):
        report.row(name, 's', seconds('quickly', *what), 'one by one', seconds('gently', *what))
    report.finish()


if __name__ == '__main__':
    main()
