#!/usr/bin/env python3
"""measure.py XWEAVE PACKETS WORK ROUNDS RECORDS MANY: joining, beside DuckDB's SQL over the same files

measure.py sql TRACE: that SQL alone; prints what it finds"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, Run, alternate  # noqa: E402

HERE = pathlib.Path(__file__).parent
GIB = 2**10
BOUNDS = {
    'joining': Bound(2, 'following flows must not be what one waits for'),
    'memory': Bound(0.25, 'a trace is larger than memory'),
    'memory of many': Bound(GIB, 'a trace is larger than memory', 'ours'),
    'joining many': Bound(1.5, 'what takes longer with more is never looked at'),
}
PIDS = "MAP {4002: 'vm1', 4003: 'vm2'}"


def sql(trace):
    """What SQL finds, in the words of `xweave flows --json`."""
    import duckdb
    connection = duckdb.connect(config={'threads': 1, 'temp_directory': f'{trace}.duckdb'})
    for statement in (HERE / 'join.sql').read_text().replace('{dir}', trace).replace('{pids}', PIDS).split(';\n'):
        if statement.strip():
            connection.execute(statement)
    flows = connection.execute('SELECT count(*), count_if(complete), count_if(crossed), max(total_ns) FROM flow').fetchall()
    return {'flows': flows, 'segments': connection.execute('SELECT * FROM segment ORDER BY ALL').fetchall()}


def ours(xweave, trace):
    """The same."""
    said = subprocess.run([xweave, 'flows', trace, '--json', '--limit', '0'], stdout=subprocess.PIPE, check=True)
    told = json.loads(said.stdout)
    counts, kinds = told['summary'], told['kinds']
    complete = {kind['name'] for kind in kinds if kind['complete']}
    flows = [counts['flows'], counts['complete'], counts['crossed'], max(kind['max_ns'] for kind in kinds)]
    keys = ('from', 'to', 'count', 'min_ns', 'p50_ns', 'max_ns')
    segments = [[one[key] for key in keys] for one in told['segments'] if one['kind'] in complete]
    return {'flows': [flows], 'segments': sorted(segments)}


def made(packets, records, trace):
    """A trace of so many records, and what must come of it: flows, complete ones."""
    said = subprocess.run([packets, records, trace], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(number) for number in said.split()]


def main():
    xweave, packets, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    rounds, records, many = int(sys.argv[4]), sys.argv[5], sys.argv[6]
    trace = str(work / 'trace')
    flows, complete, _ = made(packets, records, trace)
    # In a process of its own: what it takes of memory counts for those that are begun here later.
    said = subprocess.run([sys.executable, __file__, 'sql', trace], stdout=subprocess.PIPE, check=True).stdout
    found, by_sql = ours(xweave, trace), json.loads(said)
    if found['flows'][0][:2] != [flows, complete]:
        sys.exit(f'join: {flows} flows were made, {complete} of them complete; found: {found["flows"]}')
    # Medians of more than some ten thousand times are those of a choice.
    exact = [{**of, 'segments': [one[:4] + one[5:] for one in of['segments']]} for of in (found, by_sql)]
    if exact[0] != exact[1]:
        sys.exit(f'join: xweave and SQL do not find the same:\n{found}\n{by_sql}')
    far = [(a, b) for a, b in zip(found['segments'], by_sql['segments']) if abs(a[4] - b[4]) > 0.02 * b[4]]
    if far:
        sys.exit(f'join: medians are apart by more than a fiftieth: {far}')
    runs = alternate(rounds, {
        'xweave': lambda: Run(xweave, 'flows', trace),
        'duckdb': lambda: Run(sys.executable, __file__, 'sql', trace),
    })
    large = str(work / 'many')
    flows, complete, _ = made(packets, many, large)
    run = Run(xweave, 'flows', large)
    found = ours(xweave, large)
    if found['flows'][0][:2] != [flows, complete]:
        sys.exit(f'join: of {many} records {flows} flows were made, {complete} complete; found: {found["flows"]}')

    def rate(name):
        return [int(records) / run.processors for run in runs[name]]

    def memory(name):
        return [run.memory / 2**20 for run in runs[name]]
    report = Report('join', BOUNDS)
    report.row('joining', 'records/s', rate('xweave'), "DuckDB's SQL", rate('duckdb'), 'more')
    report.row('memory', 'MiB', memory('xweave'), "DuckDB's SQL", memory('duckdb'))
    # Of as many records as nobody would join by SQL: beside what it takes for few.
    report.row('joining many', 'records/s', [int(many) / run.processors] * rounds, "DuckDB's SQL of few", rate('duckdb'),
               'more')
    report.row('memory of many', 'MiB', [run.memory / 2**20] * rounds, "DuckDB's SQL of few", memory('duckdb'))
    print(f'{int(records):,} records, and {int(many):,}')
    report.finish()


if __name__ == '__main__':
    if sys.argv[1] == 'sql':
        print(json.dumps(sql(sys.argv[2])))
    else:
        main()
