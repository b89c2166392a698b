"""What every benchmark needs: measuring commands in alternation, and showing the medians beside a peer's."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

COLUMNS = ('', 'unit', 'xweave', 'the peer', 'peer', 'ratio', 'better is', 'target')


class Run:
    """A command's time in seconds, the time that processors worked for it, and its peak memory in bytes."""

    def __init__(self, *command, **environment):
        start = time.monotonic()
        with open(os.devnull, 'w') as nothing:
            process = subprocess.Popen(command, stdout=nothing, stderr=subprocess.PIPE,
                                       env={**os.environ, **environment})
            said = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
        self.seconds = time.monotonic() - start
        self.processors = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss * 1024
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.stderr.buffer.write(said)
            sys.exit(f'bench: this failed with status {process.returncode}: {" ".join(map(str, command))}')


def alternate(rounds, measurements):
    """Each of these once, then all of them again: what else the machine does meanwhile befalls all alike.
    MEASUREMENTS has functions by name; theirs are the lists of results."""
    results = {name: [] for name in measurements}
    for nth in range(rounds):
        print(f'round {nth + 1} of {rounds} …', file=sys.stderr, flush=True)
        for name, measure in measurements.items():
            results[name].append(measure())
    return results


def median(runs, of):
    return statistics.median(map(of, runs))


def short(value):
    """Three digits that matter."""
    return f'{value:,.0f}' if value >= 100 else f'{value:.3g}'


class Report:
    """The rows of one benchmark."""

    def __init__(self, bench):
        self.bench, self.rows, self.lines = bench, [], []

    def row(self, name, unit, ours, peer, peer_value, better='less', target=''):
        """TARGET is shown, not judged: bare figures depend on the machine and on what else it does."""
        ratio = ours / peer_value
        self.rows.append({'name': name, 'unit': unit, 'ours': ours, 'peer': peer, 'peer_value': peer_value,
                          'ratio': ratio})
        self.lines.append((name, unit, short(ours), peer, short(peer_value), short(ratio), better, target))

    def finish(self):
        """Prints the table and leaves target/bench/BENCH.json."""
        table = [COLUMNS, *self.lines]
        widths = [max(len(line[column]) for line in table) for column in range(len(COLUMNS))]
        print(f'\n{self.bench}: medians; ratio is xweave / peer\n')
        for line in table:
            cells = [cell.rjust(width) if column in (2, 4, 5) else cell.ljust(width)
                     for column, (cell, width) in enumerate(zip(line, widths))]
            print('  '.join(cells).rstrip())
        path = pathlib.Path('target/bench', f'{self.bench}.json')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({'bench': self.bench, 'rows': self.rows}, indent=2) + '\n')
        print(f'\n{path}')
