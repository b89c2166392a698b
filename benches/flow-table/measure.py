#!/usr/bin/env python3
"""measure.py: the operations on the flow table beside the kernel's maps"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Report  # noqa: E402

# The slowest operation in the paper's table 1, on a machine of 2006.
LIMIT = 33
# What the prelude may cost beyond the kernel's helpers.
RATIO = 1.15


def main():
    bench = ['cargo', 'bench', '--quiet', '--package', 'xweave-agent', '--bench', 'flow_table']
    ran = subprocess.run(bench, stdout=subprocess.PIPE)
    if ran.returncode:
        sys.exit(f'flow-table: nothing was measured, see above; this failed: {" ".join(bench)}')
    measured = json.loads(ran.stdout)
    # QEMU without KVM says this: its nanoseconds are not the machine's.
    emulated = measured['hypervisor'].startswith('TCG')
    print(f'hypervisor: {measured["hypervisor"] or "none"}{", which emulates" if emulated else ""}; '
          f'medians of {measured["rounds"]} rounds')

    report, beyond = Report('flow-table'), []
    for row in measured['rows']:
        limited = row['peer'] in ('hash', 'per-CPU array')
        target = f'≤ {LIMIT}, ratio ≤ {RATIO}' if limited else ''
        report.row(row['name'], 'ns', row['ours'], row['peer'], row['peer_value'], target=target)
        if limited and (row['ours'] > RATIO * row['peer_value'] or not emulated and row['ours'] > LIMIT):
            beyond.append(row['name'])
    report.finish()
    if not measured['arena']:
        print('arena: not on this kernel, there from 6.9 on')
    print(f'beyond the target: {", ".join(beyond) or "none"}')


if __name__ == '__main__':
    main()
