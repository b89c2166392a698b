#!/usr/bin/env python3
"""measure.py XWEAVE PARTS MODEL WORK ROUNDS EVENTS: importing and explaining, beside the recorders' own reading"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Report, Run, alternate, median  # noqa: E402

HERE = pathlib.Path(__file__).parent
XWEAVE, PARTS, MODEL, WORK = *sys.argv[1:4], pathlib.Path(sys.argv[4])
ROUNDS, EVENTS = int(sys.argv[5]), sys.argv[6]
# By how much it has to be quicker than the tool that recorded, per core.
TIMES = 10


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

    report = Report('import')
    for name, (_, records, peer) in files.items():
        def rate(what):
            return records / median(runs[f'{name} {what}'], lambda run: run.processors)

        def breaking_down():
            both, model = (median(runs[f'{name} {what}'], lambda run: run.processors) for what in ('explain', 'model'))
            return records / (both - model)

        def memory(what):
            return median(runs[f'{name} {what}'], lambda run: run.memory) / 2**20
        tool = ' '.join(peer[:2])
        report.row(f'{name}: import', 'records/s', rate('import'), tool, rate('peer'), 'more', f'ratio ≥ {TIMES}')
        report.row(f'{name}: only decoding', 'records/s', rate('decode'), tool, rate('peer'), 'more')
        report.row(f'{name}: reading the trace', 'records/s', rate('read'), tool, rate('peer'), 'more')
        # The model of threads, disks and processors, with reading the trace; then the lives of all threads, broken
        # down, which is what explaining takes longer than the model; and both.
        report.row(f'{name}: the model', 'records/s', rate('model'), tool, rate('peer'), 'more', f'ratio ≥ {TIMES}')
        report.row(f'{name}: breaking down', 'records/s', breaking_down(), tool, rate('peer'), 'more',
                   f'ratio ≥ {TIMES}')
        report.row(f'{name}: explaining', 'records/s', rate('explain'), tool, rate('peer'), 'more')
        report.row(f'{name}: memory', 'MiB', memory('import'), tool, memory('peer'))
        report.row(f'{name}: memory to explain', 'MiB', memory('explain'), tool, memory('peer'))
    babeltrace = decoded / median(runs['perf.data babeltrace2'], lambda run: run.processors)
    for what, ours in (('import', rate('import')), ('the model', rate('model')), ('breaking down', breaking_down())):
        report.row(f'perf.data: {what}', 'records/s', ours, 'babeltrace2', babeltrace, 'more', f'ratio ≥ {TIMES}')
    print(', '.join(f'{name}: {records:,} records' for name, (_, records, _) in files.items()))
    report.finish()


if __name__ == '__main__':
    main()
