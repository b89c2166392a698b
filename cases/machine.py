#!/usr/bin/env python3
"""How much of this machine's CPU time others took while a world of the lab was measured.

    machine.py begin FILE WORLD-FOLDER     notes in FILE what was taken so far
    machine.py end FILE MOST               prints the share since then, in percent; exits 1 where it is more than MOST
    machine.py run MOST COMMAND…           the same of the time in which the command runs; exits 2 where that fails
    machine.py too-noisy CASE OUT WHY      leaves OUT/result.json with that, and exits 3

Others are all processes but QEMU of the world, or the command and all that it starts; and other machines on the same hardware,
as far as the kernel is told (steal). WORLD-FOLDER is `folder` of `xweave lab list --json`."""
import ctypes
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

HERTZ = os.sysconf('SC_CLK_TCK')


def busy():
    """CPU time of all CPUs that was not idle, in seconds: /proc/stat, proc_stat(5)."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, pathlib.Path('/proc/stat').read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / HERTZ


def of_process(pid):
    """CPU time of a process, in seconds; what it is called may have spaces and brackets."""
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def of_children():
    """CPU time of all children that have been waited for, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def now(pid=None):
    own = of_children() if pid is None else of_process(pid)
    return {'pid': pid, 'time': time.monotonic(), 'busy': busy(), 'own': own}


def run(command):
    """Runs a command. Returns its status when it and all that it has started are over: what outlives its parent is waited for
    here (PR_SET_CHILD_SUBREAPER, include/uapi/linux/prctl.h)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    status = subprocess.run(command).returncode
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return status


def others(before, after, cpus):
    """The share of all CPUs' time, in percent."""
    spent = {of: after[of] - before[of] for of in ('time', 'busy', 'own')}
    return 100 * max(spent['busy'] - spent['own'], 0) / (spent['time'] * cpus)


def main(what, *of):
    if what == 'begin':
        file, folder = map(pathlib.Path, of)
        file.write_text(json.dumps(now(int((folder / 'qemu.pid').read_text().split()[0]))))
    elif what == 'end':
        before, most = json.loads(pathlib.Path(of[0]).read_text()), float(of[1])
        share = others(before, now(before['pid']), os.cpu_count())
        print(f'{share:.0f}')
        sys.exit(share > most)
    elif what == 'run':
        before, most = now(), float(of[0])
        if run(of[1:]) != 0:
            sys.exit(2)
        share = others(before, now(), os.cpu_count())
        print(f'{share:.0f}')
        sys.exit(share > most)
    elif what == 'too-noisy':
        case, out, why = of
        (pathlib.Path(out) / 'result.json').write_text(json.dumps({'case': case, 'claims': [], 'too_noisy': why}) + '\n')
        print(f'\n{case}: too noisy to judge: {why}', file=sys.stderr)
        sys.exit(3)
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main(*sys.argv[1:])
