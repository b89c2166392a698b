"""What every benchmark needs: measuring in alternation, showing it beside a peer, and judging it.

    bench.py --self-test             that every bound of every benchmark can fail
    bench.py --summary NAME…         the ratios of these benchmarks as they were last measured

A row has a figure of ours and of the peer's for each round. Its ratio is the median of the rounds' ratios, and its
spread the median distance of a round's ratio from that. A bound is failed where the median is beyond it by more than
the spread. Nearer to the bound than that, on either side, the run is too noisy to tell: `unclear`.
"""
import collections
import contextlib
import io
import json
import os
import pathlib
import runpy
import statistics
import subprocess
import sys
import tempfile
import time

COLUMNS = ('', 'unit', 'xweave', 'the peer', 'peer', 'ratio', 'spread', 'better is', 'bound', 'verdict')
RIGHT = ('xweave', 'peer', 'ratio', 'spread')
RESULTS = pathlib.Path('target/bench')
FAILED, UNCLEAR = 'FAILED', 'unclear'
# The most that a figure may spread, as a part of its bound, to be taken for near it.
NOISE = 0.5

# What a ratio (or, with OF='ours', the figure itself) may be at most or, where more is better, at least; and why.
Bound = collections.namedtuple('Bound', 'limit why of', defaults=['ratio'])


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


def built(name, package='xweave-agent'):
    """The program of a benchmark of crates/*/benches."""
    ran = subprocess.run(['cargo', 'bench', '--quiet', '--package', package, '--bench', name, '--no-run',
                          '--message-format=json'], stdout=subprocess.PIPE, check=True)
    for line in ran.stdout.splitlines():
        message = json.loads(line)
        if message.get('target', {}).get('name') == name and message.get('executable'):
            return message['executable']
    sys.exit(f'{name}: cargo did not say where it built the benchmark')


def short(value):
    """Three digits that matter."""
    return f'{value:,.0f}' if abs(value) >= 100 else f'{value:.3g}'


def middle(values):
    """Their median, and their median distance from it: None of one alone, whose noise nobody knows."""
    median = statistics.median(values)
    return median, statistics.median(abs(value - median) for value in values) if len(values) > 1 else None


def judge(median, spread, better, limit):
    beyond = median - limit if better == 'less' else limit - median
    # With so much noise anything would be within it: it is to be measured again.
    if (spread or 0) > NOISE * limit and beyond > 0:
        return FAILED
    if abs(beyond) <= (spread or 0):
        return 'within' if beyond == 0 else UNCLEAR
    return FAILED if beyond > 0 else 'within'


def table(columns, rows):
    """ROWS are dictionaries."""
    lines = [columns, *([row[column] for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print('  '.join(cell.rjust(width) if column in RIGHT else cell.ljust(width)
                        for column, cell, width in zip(columns, line, widths)).rstrip())


def shown(row):
    """A row's cells."""
    sign = '≤' if row['better'] == 'less' else '≥'
    bound = f'{"" if row["of"] == "ratio" else "figure "}{sign} {short(row["limit"])}' if row['limit'] is not None else ''
    spread = '' if row['spread'] is None else f'± {short(row["spread"])}'
    return dict(zip(COLUMNS, (row['name'], row['unit'], short(row['ours']), row['peer'], short(row['peer_value']),
                              short(row['ratio']), spread, row['better'], bound, row['verdict'])))


class Report:
    """The rows of one benchmark. BOUNDS are by the rows' names; one of several rows with a name is that of a peer:
    (name, peer)."""

    def __init__(self, bench, bounds, results=RESULTS):
        self.bench, self.bounds, self.results, self.rows, self.judged = bench, bounds, results, [], set()

    def row(self, name, unit, ours, peer, peer_values, better='less'):
        """OURS and PEER_VALUES are lists: the rounds' figures, in their order."""
        key = name if name in self.bounds else (name, peer)
        bound = self.bounds.get(key)
        ratio, spread = middle([one / other for one, other in zip(ours, peer_values, strict=True)])
        row = {'name': name, 'unit': unit, 'ours': statistics.median(ours), 'peer': peer,
               'peer_value': statistics.median(peer_values), 'ratio': ratio, 'spread': spread, 'better': better,
               'rounds': len(ours), 'limit': bound and bound.limit, 'of': bound and bound.of, 'why': bound and bound.why,
               'verdict': ''}
        if bound:
            self.judged.add(key)
            of = middle(ours) if bound.of == 'ours' else (ratio, spread)
            # What something takes less what it takes without may come out below zero: then it is lost in the noise.
            negative = min(row['ours'], row['peer_value']) <= 0
            row['verdict'] = UNCLEAR if negative else judge(*of, better, bound.limit)
        self.rows.append(row)

    def finish(self, also=()):
        """Prints the table, leaves target/bench/BENCH.json, and exits 1 if a bound is failed. ALSO has what failed
        besides, in words."""
        unjudged = self.bounds.keys() - self.judged
        if unjudged:
            sys.exit(f'{self.bench}: no row for these bounds: {unjudged}')
        print(f'\n{self.bench}: medians; ratio is xweave / peer\n')
        table(COLUMNS, list(map(shown, self.rows)))
        failed = [f'{row["name"]} ({row["why"]})' for row in self.rows if row['verdict'] == FAILED] + list(also)
        path = self.results / f'{self.bench}.json'
        path.parent.mkdir(parents=True, exist_ok=True)
        result = {'bench': self.bench, 'rows': self.rows, 'failed': failed}
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + '\n')
        print(f'\n{path}')
        if failed:
            sys.exit(f'{self.bench}: beyond its bound: ' + '; '.join(failed))


def summary(benches, results=RESULTS):
    """All rows of these; whether all were measured and none is beyond its bound."""
    rows, good = [], True
    for bench in benches:
        path = results / f'{bench}.json'
        if not path.exists():
            good = False
            rows.append({**dict.fromkeys(COLUMNS, ''), 'bench': bench, '': 'not measured, see above', 'verdict': FAILED})
            continue
        result = json.loads(path.read_text())
        good &= not result['failed']
        rows += [{'bench': bench, **shown(row)} for row in result['rows']]
    print('\nAll ratios: xweave / peer\n')
    table(('bench', '', 'the peer', 'ratio', 'spread', 'better is', 'bound', 'verdict'), rows)
    unclear = sum(row['verdict'] == UNCLEAR for row in rows)
    if unclear:
        print(f'\n{unclear} unclear: more rounds, or less other work on this machine, would tell')
    return good


def self_test():
    """Feeds each bound of each benchmark figures at it, beyond it by less than their spread, and by more."""
    count = 0
    for path in sorted(pathlib.Path(__file__).parent.glob('*/measure.py')):
        # What it reads of its command line while it is loaded.
        sys.argv = [str(path), *['1'] * 9]
        bounds = runpy.run_path(str(path))['BOUNDS']
        assert bounds, f'{path} has no bound'
        for key, bound in bounds.items():
            name, peer = key if isinstance(key, tuple) else (key, 'peer')
            for better, worse in (('less', 1), ('more', -1)):
                for parts, fails in (([0, 0, 0], False), ([-0.1, 0.05, 0.2], False), ([0.1, 0.2, 0.3], True),
                                     ([-0.9, 0.1, 2], True)):
                    assert finishes(key, bound, name, peer, better,
                                    [bound.limit * (1 + worse * part) for part in parts]) != fails, (path, key, parts)
            count += 1
    print(f'{count} bounds: each fails beyond it, and not within the noise')


def finishes(key, bound, name, peer, better, figures):
    """Whether a report of these is good."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        results = pathlib.Path(folder)
        report = Report('test', {key: bound}, results)
        report.row(name, '', figures, peer, [1] * len(figures), better)
        with contextlib.suppress(SystemExit):
            report.finish()
        return summary(['test'], results)


if __name__ == '__main__':
    if sys.argv[1:] == ['--self-test']:
        self_test()
    elif sys.argv[1:2] == ['--summary']:
        sys.exit(0 if summary(sys.argv[2:]) else 1)
    else:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
