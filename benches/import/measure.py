#!/usr/bin/env python3
"""measure.py XWEAVE PARTS MODEL WORK ROUNDS EVENTS: importing and explaining, beside the recorders' own reading"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, Run, alternate  # noqa: E402

HERE = pathlib.Path(__file__).parent
XWEAVE, PARTS, MODEL, WORK = *sys.argv[1:4], pathlib.Path(sys.argv[4])
ROUNDS, EVENTS = int(sys.argv[5]), sys.argv[6]
# By how much it is quicker, per core, than the tool that recorded: whoever records can look at once, and not tomorrow.
TIMES = 10
WHY = 'importing must not be what one waits for'
BOUNDS = {
    **{f'{name}: {what}': Bound(TIMES, WHY) for name in ('trace.dat', 'perf.data') for what in ('the model', 'breaking down')},
    'trace.dat: import': Bound(TIMES, WHY),
    ('perf.data: import', 'perf script'): Bound(TIMES, WHY),
    # Neither holds the file in memory: it may be larger.
    'trace.dat: memory': Bound(0.5, 'files are larger than memory'),
    'perf.data: memory': Bound(0.5, 'files are larger than memory'),
}


def large(name, events=EVENTS, kind='large'):
    """A large file of a small one, and how many records it has."""
    out = WORK / f'{kind}-{name}'
    made = subprocess.run([sys.executable, HERE / 'generate.py', WORK / name, events, out],
                          stdout=subprocess.PIPE, text=True, check=True)
    return out, int(made.stdout)


def converted(name):
    """A tenth as many of the same records as babeltrace2 reads them, and how many they are: perf's own conversion to
    CTF takes minutes for all."""
    out = WORK / 'ctf'
    file, records = large(name, str(int(EVENTS) // 10), 'tenth')
    subprocess.run(['perf', 'data', 'convert', '--to-ctf', out, '-i', file], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    return out, records


def main():
    files = {'trace.dat': (*large('bash-mono.dat'), ('trace-cmd', 'report')),
             'perf.data': (*large('system.data'), ('perf', 'script', '-i'))}
    trace = WORK / 'trace'
    measurements = {}
    for name, (file, _, peer) in files.items():
        measurements[f'{name} import'] = lambda file=file: Run(XWEAVE, 'import', file, '-o', trace, '--force')
        measurements[f'{name} read'] = lambda: Run(PARTS, 'read', trace)
        measurements[f'{name} model'] = lambda: Run(MODEL, trace)
        measurements[f'{name} explain'] = lambda: Run(XWEAVE, 'explain', trace, '--transaction', 'process')
        measurements[f'{name} decode'] = lambda file=file: Run(PARTS, 'decode', file)
        measurements[f'{name} peer'] = lambda file=file, peer=peer: Run(*peer, file)
    ctf, decoded = converted('system.data')
    measurements['perf.data babeltrace2'] = lambda: Run('babeltrace2', ctf)
    runs = alternate(ROUNDS, measurements)

    report = Report('import', BOUNDS)
    for name, (_, records, peer) in files.items():
        def seconds(what):
            return [run.processors for run in runs[f'{name} {what}']]

        def rate(what):
            return [records / took for took in seconds(what)]

        def memory(what):
            return [run.memory / 2**20 for run in runs[f'{name} {what}']]
        tool = ' '.join(peer[:2])
        rates = {
            'import': rate('import'),
            'only decoding': rate('decode'),
            'reading the trace': rate('read'),
            # The model of threads, disks and processors, with reading the trace; then the lives of all threads, broken
            # down, which is what explaining takes longer than the model; and both.
            'the model': rate('model'),
            'breaking down': [records / (both - model) for both, model in zip(seconds('explain'), seconds('model'))],
            'explaining': rate('explain'),
        }
        for what, ours in rates.items():
            report.row(f'{name}: {what}', 'records/s', ours, tool, rate('peer'), 'more')
        report.row(f'{name}: memory', 'MiB', memory('import'), tool, memory('peer'))
        report.row(f'{name}: memory to explain', 'MiB', memory('explain'), tool, memory('peer'))
    babeltrace = [decoded / run.processors for run in runs['perf.data babeltrace2']]
    for what in ('import', 'the model', 'breaking down'):
        report.row(f'perf.data: {what}', 'records/s', rates[what], 'babeltrace2', babeltrace, 'more')
    print(', '.join(f'{name}: {records:,} records' for name, (_, records, _) in files.items()))
    report.finish()


if __name__ == '__main__':
    main()
