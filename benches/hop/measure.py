#!/usr/bin/env python3
"""measure.py XWEAVE ROUNDS: what a woven function costs where it is passed"""
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
from weave import Kernel  # noqa: E402

XWEAVE, ROUNDS = sys.argv[1], int(sys.argv[2])
# Runs of the load while something is woven: the quickest counts, as what else the machine does only adds. Each is shorter
# than what the scheduler gives a thread at a time.
RUNS = 40
PASSES = 3_000
# Flows that are under way when what passes is looked up.
OTHERS = 500

BOUNDS = {
    # A program and its spare are called, each notes its context, and one looks into the table: what most of those pay who
    # pass a woven function on a busy host. At tracepoints it was 5, 1.6 and 8 times a program that does nothing; at
    # functions the call itself costs less, so that all else is more of it.
    ('nothing followed: added to a call', 'empty program'): Bound(12, 'two programs with a guard, and a look-up'),
    ('looked up, not followed: added to a call', 'empty program'): Bound(12, 'two programs with a guard, and a look-up'),
    ('nothing followed: without the spare', 'empty program'): Bound(6, 'one program with a guard, and a look-up'),
    # A record is 48 bytes and its values, in a ring that no other processor locks.
    ('followed and stored: added to a call', 'empty program'): Bound(24, 'the same, the clock, the name, and a ring buffer'),
    # bpftrace writes text, and wakes who prints it.
    ('stored, no flow: added to a call', 'bpftrace'): Bound(0.25, 'records, not text; and nobody is woken for them'),
}

# The place, what carries a flow there, the values that are stored, and where a flow begins: only as the load begins a
# thread. Then what the load does, and bpftrace's probe and values.
HOOKS = {
    'entry': ('execution(write_full)', 'file', 'file, count', 'execution(null_lseek) AND pid(PID) select file', 'writes',
              'kfunc:write_full', '(uint64)args->file, args->count'),
    'tracepoint': ('tracepoint(task:task_rename)', 'task', 'task, comm',
                   'tracepoint(sched:sched_process_fork) AND pid(PID) select child', 'renames',
                   'tracepoint:task:task_rename', 'args->pid, args->oom_score_adj'),
}


class Process:
    """One of hop's (crates/agent/benches/hop.rs)."""

    def __init__(self, program, *words):
        self.process = subprocess.Popen([program, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.words = words
        self.pid = self.process.pid

    def line(self):
        line = self.process.stdout.readline()
        return line.strip() or sys.exit(f'hop: `hop {" ".join(map(str, self.words))}` ended, see above')

    def ask(self, what, count):
        self.process.stdin.write(f'{what} {count}\n')
        self.process.stdin.flush()
        return self.line()

    def stop(self):
        return self.process.communicate()[0].split()


class Bench:
    def __init__(self, kernel, program):
        self.kernel, self.program = kernel, program
        self.load = Process(program, 'load')
        self.place, self.key, self.values, self.start, self.does, self.probe, self.printed = HOOKS[kernel.hook]
        self.recorded = {}

    def aspect(self, condition, values):
        flow = f'xflow followed {{ start {self.start}; }}\n' if 'xflow' in condition else ''
        return (f'{flow}advice passed {self.place} AND {condition} {{ STORE_DATA2({values}); }}\n'
                ).replace('PID', str(self.load.pid))

    def pass_(self):
        """Nanoseconds of one."""
        return min(float(self.load.ask(self.does, PASSES)) for _ in range(RUNS))

    def counted(self):
        """What the kernel says of each program at the place: nanoseconds a run, its own reading of the clock included."""
        stats = Process(self.program, 'stats', RUNS * PASSES)
        stats.line()
        for _ in range(RUNS):
            self.load.ask(self.does, PASSES)
        return [float(took) for took in stats.stop()]

    def empty(self, count):
        """What a pass takes with so many programs that do nothing, and what the kernel says of such a one."""
        programs = Process(self.program, 'empty', self.kernel.hook, count)
        programs.line()
        took, counted = self.pass_(), min(self.counted())
        programs.stop()
        return took, counted

    def woven(self, case, condition, values, before=()):
        """What a pass takes, and what the kernel says of the program and its spare."""
        self.load.ask('others', 0)
        self.load.ask('worker', 1)
        recording = self.kernel.record(self.aspect(condition, values))
        for what in before:
            self.load.ask(*what)
        took = self.pass_()
        counted = self.counted()
        if len(counted) != 2:
            sys.exit(f'hop: a program and its spare were to be woven: {counted}')
        document = recording.stop()
        self.note(case, document['records'], document['lost'])
        # Those of the flow's beginnings are the others'.
        passed = 2 * RUNS * PASSES if 'stored' in case else 0
        if not 0 <= document['records'] + document['lost'] - passed <= PASSES:
            sys.exit(f'hop: {case}: {document["records"]} records of {passed} passes: this is not what was to be measured')
        return took, counted

    def note(self, case, recorded, lost):
        of = self.recorded.setdefault(case, [0, 0])
        of[0], of[1] = of[0] + recorded, of[1] + lost

    def bpftrace(self, folder):
        script = (f'{self.probe} /pid == {self.load.pid}/ '
                  f'{{ printf("%llu %d %d %d %s %llx %llx\\n", nsecs, cpu, pid, tid, comm, {self.printed}); }}')
        with open(folder / 'printed', 'w+') as printed, open(folder / 'errors', 'w+') as errors:
            process = subprocess.Popen(['bpftrace', '-B', 'line', '-e', script], stdout=printed, stderr=errors,
                                       env={'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'BPFTRACE_PERF_RB_PAGES': '4096'})
            deadline = time.monotonic() + 60
            while not self.traced(printed):
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    errors.seek(0)
                    sys.exit(f'hop: bpftrace did not begin to record: {errors.read()}')
            took = self.pass_()
            process.send_signal(signal.SIGINT)
            process.wait()
            errors.seek(0)
            printed.seek(0)
            text = printed.read()
            lost = sum(map(int, re.findall(r'Lost (\d+) events', errors.read() + text)))
            self.note('bpftrace', sum(line[:1].isdigit() for line in text.splitlines()), lost)
        return took

    def traced(self, printed):
        """Whether bpftrace prints what passes."""
        self.load.ask(self.does, 1)
        time.sleep(0.05)
        printed.seek(0)
        return any(line[:1].isdigit() for line in printed.read().splitlines())


def main():
    with tempfile.TemporaryDirectory(prefix='xweave-bench-') as folder:
        folder = pathlib.Path(folder)
        kernel = Kernel('hop', XWEAVE, folder, f'{HOOKS["entry"][0]} AND pid(1) {{ STORE_DATA1(count); }}')
        bench = Bench(kernel, built('hop'))
        flow = f'xflow(followed, {bench.key}, id)'
        cases = {
            'nothing followed': (flow, f'{bench.key}, id'),
            'looked up, not followed': (flow, f'{bench.key}, id', [('others', OTHERS)]),
            'followed and stored': (flow, f'{bench.key}, id', [('others', OTHERS), ('worker', 1)]),
            'stored, no flow': ('pid(PID)', bench.values),
        }
        measured = alternate(ROUNDS, {
            'bare': bench.pass_,
            'empty': lambda: bench.empty(1),
            'empty twice': lambda: bench.empty(2),
            **{name: (lambda name=name, case=case: bench.woven(name, *case)) for name, case in cases.items()},
            'bpftrace': lambda: bench.bpftrace(folder),
        })
        bench.load.stop()

    without = statistics.median(measured['bare'])
    print(f'{bench.place}: one takes {without:,.0f} ns while nothing is woven')
    empty = [took - without for took, _ in measured['empty']]
    # Being called a second time.
    second = statistics.median(twice - once for (twice, _), (once, _) in zip(measured['empty twice'], measured['empty']))
    report = Report('hop', BOUNDS)
    twice = [took - without for took, _ in measured['empty twice']]
    report.row('two programs that do nothing: added to a call', 'ns', twice, 'empty program', empty)
    added = {}
    for name in cases:
        added[name] = [took - without for took, _ in measured[name]]
        # What the spare does, and that it is called at all. The kernel's reading of the clock is in what it says of both.
        spare = [counted[1] - nothing + second for (_, counted), (_, nothing) in zip(measured[name], measured['empty'])]
        report.row(f'{name}: added to a call', 'ns', added[name], 'empty program', empty)
        report.row(f'{name}: without the spare', 'ns', [all_ - of for all_, of in zip(added[name], spare)],
                   'empty program', empty)
    bpftrace = [took - without for took in measured['bpftrace']]
    report.row('stored, no flow: added to a call', 'ns', added['stored, no flow'], 'bpftrace', bpftrace)
    report.row('followed and stored: added to a call', 'ns', added['followed and stored'], 'bpftrace', bpftrace)
    for case, (records, lost) in bench.recorded.items():
        print(f'{case}: {records:,} recorded and {lost:,} lost')
    report.finish()


if __name__ == '__main__':
    main()
