#!/usr/bin/env python3
"""measure.py: what recording an event costs, beside trace-cmd and bpftrace"""
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Report, alternate  # noqa: E402

TRACEFS = pathlib.Path('/sys/kernel/tracing')
ROUNDS = 9
# Runs of the load while a recorder is there: the quickest counts, as what else the machine does only adds.
RUNS = 5
# Buffer of each processor, the same for all: KiB.
BUFFER = 8192

# Name, load, count, events that each makes; then what records them: our group and programs, trace-cmd's events,
# bpftrace's program. All three store when, where, which thread, and the fields.
CASES = [
    ('system call', 'syscalls', 300_000, 2, 'syscalls', 'sys_enter,sys_exit',
     ['raw_syscalls:sys_enter', 'raw_syscalls:sys_exit'],
     'tracepoint:raw_syscalls:sys_enter /pid == PID/ { printf("%llu %d %d %d\\n", nsecs, cpu, tid, args->id); } '
     'tracepoint:raw_syscalls:sys_exit /pid == PID/ '
     '{ printf("%llu %d %d %d %d\\n", nsecs, cpu, tid, args->id, args->ret); }'),
    ('switch', 'switches', 100_000, 1, 'sched', 'sched_switch', ['sched:sched_switch'],
     'tracepoint:sched:sched_switch /pid == PID/ '
     '{ printf("%llu %d %d %d %d\\n", nsecs, cpu, args->prev_pid, args->prev_state, args->next_pid); }'),
    ('switch and waking', 'switches', 100_000, 2, 'sched', 'sched_switch,sched_waking',
     ['sched:sched_switch', 'sched:sched_waking'],
     'tracepoint:sched:sched_switch /pid == PID/ '
     '{ printf("%llu %d %d %d %d\\n", nsecs, cpu, args->prev_pid, args->prev_state, args->next_pid); } '
     'tracepoint:sched:sched_waking /pid == PID/ { printf("%llu %d %d %d\\n", nsecs, cpu, tid, args->pid); }'),
]


def until(condition, process):
    deadline = time.monotonic() + 60
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f'recording: {" ".join(map(str, process.args))} did not begin to record')
        time.sleep(0.01)


class Load:
    def __init__(self, program):
        self.process = subprocess.Popen([program, 'load'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def run(self, what, count):
        """Nanoseconds of one."""
        def once():
            self.process.stdin.write(f'{what} {count}\n')
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        return min(once() for _ in range(RUNS))


class Ours:
    def __init__(self, program, pid, case):
        self.process = subprocess.Popen([program, str(pid), case[4], case[5]], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != 'ready':
            sys.exit('recording: the kernel does not run our probes, see above')

    def stop(self):
        """How many events were recorded, and lost."""
        said, _ = self.process.communicate()
        return tuple(map(int, said.split()))


class TraceCmd:
    def __init__(self, pid, case, folder):
        self.file = folder / 'trace.dat'
        self.said = open(folder / 'trace-cmd', 'w+')
        events = [word for event in case[6] for word in ('-e', event)]
        self.process = subprocess.Popen(['trace-cmd', 'record', '-P', str(pid), '-c', '-b', str(BUFFER), *events,
                                         '-o', self.file], stdout=self.said, stderr=self.said)
        enabled = [TRACEFS / 'events' / event.replace(':', '/') / 'enable' for event in case[6]]
        until(lambda: str(pid) in (TRACEFS / 'set_event_pid').read_text().split()
              and all(path.read_text().startswith('1') for path in enabled)
              and (TRACEFS / 'tracing_on').read_text().startswith('1'), self.process)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.said.seek(0)
        said = self.said.read()
        stat = subprocess.run(['trace-cmd', 'report', '--stat', self.file], capture_output=True, text=True).stdout
        lost = sum(map(int, re.findall(r'^(?:commit )?overrun: (\d+)', said, re.MULTILINE)))
        entries = sum(map(int, re.findall(r'^entries: (\d+)', stat + said, re.MULTILINE)))
        return entries, lost


class BpfTrace:
    def __init__(self, pid, case, folder):
        self.out = folder / 'bpftrace'
        self.errors = open(folder / 'bpftrace-errors', 'w+')
        script = 'BEGIN { printf("ready\\n"); } ' + case[7].replace('PID', str(pid))
        # Pages of 4 KiB for each processor.
        environment = {**os.environ, 'BPFTRACE_PERF_RB_PAGES': str(BUFFER // 4)}
        self.process = subprocess.Popen(['bpftrace', '-B', 'line', '-o', self.out, '-e', script],
                                        stdout=self.errors, stderr=self.errors, env=environment)
        until(lambda: self.out.exists() and 'ready' in self.out.read_text()[:100], self.process)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.errors.seek(0)
        lost = sum(map(int, re.findall(r'Lost (\d+) events', self.errors.read() + self.out.read_text())))
        return sum(1 for line in open(self.out) if line[:1].isdigit()), lost


def built():
    ran = subprocess.run(['cargo', 'bench', '--quiet', '--package', 'xweave-agent', '--bench', 'recording', '--no-run',
                          '--message-format=json'], stdout=subprocess.PIPE, check=True)
    for line in ran.stdout.splitlines():
        message = json.loads(line)
        if message.get('target', {}).get('name') == 'recording' and message.get('executable'):
            return message['executable']
    sys.exit('recording: cargo did not say where it built the benchmark')


def main():
    if not (TRACEFS / 'set_event_pid').exists():
        sys.exit(f'recording: {TRACEFS} is not there: mount -t tracefs tracefs {TRACEFS}')
    program = built()
    load = Load(program)
    recorders = {
        'none': lambda case, folder: None,
        'xweave': lambda case, folder: Ours(program, load.pid, case),
        'trace-cmd': lambda case, folder: TraceCmd(load.pid, case, folder),
        'bpftrace': lambda case, folder: BpfTrace(load.pid, case, folder),
    }
    recorded = {}

    def measured(case, name):
        with tempfile.TemporaryDirectory() as folder:
            recorder = recorders[name](case, pathlib.Path(folder))
            took = load.run(case[1], case[2])
            if recorder:
                events, lost = recorder.stop()
                of = recorded.setdefault((case[0], name), [0, 0, 0])
                of[0], of[1], of[2] = of[0] + events, of[1] + lost, of[2] + case[2] * case[3] * RUNS
            return took

    results = alternate(ROUNDS, {(case[0], name): (lambda case=case, name=name: measured(case, name))
                                 for case in CASES for name in recorders})
    load.process.stdin.close()

    report = Report('recording')
    for case in CASES:
        bare = results[case[0], 'none']
        cost = {name: statistics.median((took - without) / case[3] for took, without in
                                        zip(results[case[0], name], bare)) for name in recorders}
        share = {name: statistics.median(100 * (1 - without / took) for took, without in
                                         zip(results[case[0], name], bare)) for name in recorders}
        cheaper = min(cost['trace-cmd'], cost['bpftrace'])
        for peer in ('trace-cmd', 'bpftrace'):
            target = '≤ 1' if cost[peer] == cheaper else ''
            report.row(f'{case[0]}: added to an event', 'ns', cost['xweave'], peer, cost[peer], target=target)
        for peer in ('trace-cmd', 'bpftrace'):
            report.row(f'{case[0]}: throughput lost', '%', share['xweave'], peer, share[peer])
        print(f'{case[0]}: one takes {statistics.median(bare):,.0f} ns while nothing is recorded')
    report.finish()
    for (case, name), (events, lost, made) in recorded.items():
        print(f'{case}, {name}: {events:,} events recorded and {lost:,} lost of {made:,} that the load made')


if __name__ == '__main__':
    main()
