#!/usr/bin/env python3
"""measure.py ROUNDS: what recording an event costs, beside ftrace as trace-cmd sets it, and bpftrace"""
import contextlib
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
from bench import Bound, Report, alternate, built  # noqa: E402

TRACEFS = pathlib.Path('/sys/kernel/tracing')
ROUNDS = int(sys.argv[1])
# Runs of the load while a recorder is there: the quickest counts, as what else the machine does only adds. Each is
# about as long as what the scheduler gives a thread at a time.
RUNS = 40
PEERS = ('xweave', 'ftrace', 'bpftrace')
# An event of ours has no generality to pay for, and nobody is woken by it: it costs less than ftrace's, which is the
# cheapest there is, and a fraction of what makes text of each. A system call's is as cheap as ftrace's (1.02 ± 0.01).
BOUNDS = {(f'{case}: added to an event', peer): Bound(limit, why)
          for case, as_ftrace in (('system call', 1.1), ('switch', 0.75), ('switch and waking', 0.75))
          for peer, limit, why in (('ftrace', as_ftrace, 'no more than the kernel takes for its own'),
                                   ('bpftrace', 0.25, 'records, not text; and nobody is woken for them'))}
# Buffer of each processor, the same for all: KiB.
BUFFER = 8192

# Name, load, count; then what records its events: our group and programs, ftrace's events, bpftrace's program.
# All three store when, where, which thread, and the fields.
CASES = [
    ('system call', 'syscalls', 6_000, 'syscalls', 'sys_enter,sys_exit',
     ['raw_syscalls:sys_enter', 'raw_syscalls:sys_exit'],
     'tracepoint:raw_syscalls:sys_enter /pid == PID/ { printf("%llu %d %d %d\\n", nsecs, cpu, tid, args->id); } '
     'tracepoint:raw_syscalls:sys_exit /pid == PID/ '
     '{ printf("%llu %d %d %d %d\\n", nsecs, cpu, tid, args->id, args->ret); }'),
    ('switch', 'switches', 3_000, 'sched', 'sched_switch', ['sched:sched_switch'],
     'tracepoint:sched:sched_switch /pid == PID/ '
     '{ printf("%llu %d %d %d %d\\n", nsecs, cpu, args->prev_pid, args->prev_state, args->next_pid); }'),
    ('switch and waking', 'switches', 3_000, 'sched', 'sched_switch,sched_waking',
     ['sched:sched_switch', 'sched:sched_waking'],
     'tracepoint:sched:sched_switch /pid == PID/ '
     '{ printf("%llu %d %d %d %d\\n", nsecs, cpu, args->prev_pid, args->prev_state, args->next_pid); } '
     'tracepoint:sched:sched_waking /pid == PID/ { printf("%llu %d %d %d\\n", nsecs, cpu, tid, args->pid); }'),
]


def perf_events(process):
    """How many a process holds."""
    count = 0
    for path in pathlib.Path(f'/proc/{process.pid}/fd').iterdir():
        # It may be closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(path).endswith('[perf_event]')
    return count


def until(condition, process):
    deadline = time.monotonic() + 60
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
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
        self.process = subprocess.Popen([program, str(pid), case[3], case[4]], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != 'ready':
            sys.exit('recording: the kernel does not run our probes, see above')

    def stop(self):
        """How many events were recorded, and lost."""
        said, _ = self.process.communicate()
        return tuple(map(int, said.split()))


class Ftrace:
    """The kernel's own trace buffer, set as trace-cmd sets it, in an instance of our own. Nobody reads it meanwhile,
    so that the oldest events go: that is no loss of what was recorded."""

    def __init__(self, pid, case):
        self.instance = TRACEFS / 'instances' / f'xweave-bench-{pid}'
        self.instance.mkdir()
        self.write('buffer_size_kb', BUFFER)
        # Threads that come, too; and before any event is on, or it would be all processes'.
        self.write('options/event-fork', 1)
        self.write('set_event_pid', pid)
        for event in case[5]:
            self.write(f'events/{event.replace(":", "/")}/enable', 1)

    def write(self, file, value):
        (self.instance / file).write_text(f'{value}\n')

    def stop(self):
        self.write('events/enable', 0)
        stats = ''.join(path.read_text() for path in self.instance.glob('per_cpu/cpu*/stats'))
        self.instance.rmdir()
        count = {name: sum(map(int, re.findall(rf'^{name}: (\d+)', stats, re.MULTILINE)))
                 for name in ('entries', 'overrun', 'commit overrun', 'dropped events')}
        return count['entries'] + count['overrun'], count['commit overrun'] + count['dropped events']


class BpfTrace:
    def __init__(self, pid, case, folder):
        self.out = folder / 'bpftrace'
        self.errors = open(folder / 'bpftrace-errors', 'w+')
        script = case[6].replace('PID', str(pid))
        # Pages of 4 KiB for each processor.
        environment = {**os.environ, 'BPFTRACE_PERF_RB_PAGES': str(BUFFER // 4)}
        self.process = subprocess.Popen(['bpftrace', '-B', 'line', '-o', self.out, '-e', script],
                                        stdout=self.errors, stderr=self.errors, env=environment)
        # It prints nothing before it reads what was recorded; when it is attached, it holds an event for each
        # probe besides the buffers of the processors.
        events = os.cpu_count() + script.count('tracepoint:')
        until(lambda: perf_events(self.process) >= events, self.process)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.errors.seek(0)
        lost = sum(map(int, re.findall(r'Lost (\d+) events', self.errors.read() + self.out.read_text())))
        return sum(1 for line in open(self.out) if line[:1].isdigit()), lost


def main():
    program = built('recording')
    load = Load(program)
    recorders = {
        'none': lambda case, folder: None,
        'xweave': lambda case, folder: Ours(program, load.pid, case),
        'ftrace': lambda case, folder: Ftrace(load.pid, case),
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
                of[0], of[1], of[2] = of[0] + events, of[1] + lost, of[2] + case[2] * RUNS
            return took

    results = alternate(ROUNDS, {(case[0], name): (lambda case=case, name=name: measured(case, name))
                                 for case in CASES for name in recorders})
    load.process.stdin.close()

    report = Report('recording', BOUNDS)
    for case in CASES:
        without = statistics.median(results[case[0], 'none'])
        cost = {}
        for name in PEERS:
            events, lost, made = recorded[case[0], name]
            each = (events + lost) / made
            cost[name] = [(took - without) / each for took in results[case[0], name]]
        share = {name: [100 * (1 - without / took) for took in results[case[0], name]]
                 for name in PEERS}
        for peer in PEERS[1:]:
            report.row(f'{case[0]}: added to an event', 'ns', cost['xweave'], peer, cost[peer])
        for peer in PEERS[1:]:
            report.row(f'{case[0]}: throughput lost', '%', share['xweave'], peer, share[peer])
        print(f'{case[0]}: one takes {without:,.0f} ns while nothing is recorded')
    for (case, name), (events, lost, made) in recorded.items():
        print(f'{case}, {name}: {events:,} events recorded and {lost:,} lost, of {made:,} times')
    report.finish()


if __name__ == '__main__':
    main()
