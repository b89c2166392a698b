#!/usr/bin/env python3
"""measure.py: the operations on the flow table beside the kernel's maps"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report  # noqa: E402

# The table is our own because it is right and quick (docs/decisions.md): if it is not clearly quicker than the kernel's
# quickest map, that map would do.
WHY = 'else the map of the kernel would do'
BOUNDS = {
    ('get_flowid, empty', 'hash'): Bound(1, WHY),
    **{(f'{what}, {ids}', 'hash'): Bound(0.75, WHY) for what in ('register_flowid', 'get_flowid', 'remove_flowid')
       for ids in ('changing IDs', 'same ID')},
    ('reading which flow a guest says', "the ring's keys"):
        Bound(1.5, 'what it spares the host, a record and its joining, takes several times as long'),
    'get_new_flowid': Bound(1.15, 'one addition, as by hand'),
    'a program that does nothing': Bound(3.5, 'the guard is what most places pay for'),
}


def main():
    bench = ['cargo', 'bench', '--quiet', '--package', 'xweave-agent', '--bench', 'flow_table']
    ran = subprocess.run(bench, stdout=subprocess.PIPE)
    if ran.returncode:
        sys.exit(f'flow-table: nothing was measured, see above; this failed: {" ".join(bench)}')
    measured = json.loads(ran.stdout)
    # QEMU without KVM says this: its nanoseconds are not the machine's.
    emulated = measured['hypervisor'].startswith('TCG')
    print(f'hypervisor: {measured["hypervisor"] or "none"}{", which emulates" if emulated else ""}')

    report = Report('flow-table', BOUNDS)
    for row in measured['rows']:
        report.row(row['name'], 'ns', row['ours'], row['peer'], row['peer_value'])
    if not measured['arena']:
        print('arena: not on this kernel, there from 6.9 on')
    report.finish()


if __name__ == '__main__':
    main()
