#!/usr/bin/env python3
"""second.py OUT LLVM-MCA: what LLVM's scheduling model says the same code costs

OUT has forms.json (`xweave cost --forms`) and all.json, which says what the processor is. Writes OUT/second.json: for each form that the model knows, the cycles of
one instruction in a chain and among independent ones, by simulating the very code that is measured."""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

OUT, MCA = pathlib.Path(sys.argv[1]), sys.argv[2]
# LLVM 19's models, by our names. It has none of Zen 5 (znver5 is scheduled as znver4) and of Intel's small cores.
MODELS = {'AMD Zen': 'znver1', 'AMD Zen 2': 'znver2', 'AMD Zen 3': 'znver3', 'AMD Zen 4': 'znver4',
          'Intel Skylake': 'skylake', 'Intel Ice Lake': 'icelake-server', 'Intel Golden Cove': 'sapphirerapids'}
ITERATIONS = 200
# Seconds: a form takes a tenth of one, but LLVM 19's sapphirerapids never comes to an end of some.
PATIENCE = 10
# What the model cannot follow: control flow, repetition, what the processor does by microcode for microseconds.
LEFT_OUT = {'system', 'privileged', 'exit', 'paging', 'kvm', 'xen'}


def cycles(model, code, instructions):
    """Cycles of one instruction, where `instructions` of the form are in the code; None: the model cannot say."""
    if re.search(r'\brep|\bloop|\b1:|\bcall|\.byte', code):
        return None
    text = '.intel_syntax noprefix\n' + code.replace(';', '\n') + '\n'
    try:
        done = subprocess.run([MCA, f'-mcpu={model}', '-mtriple=x86_64', f'-iterations={ITERATIONS}',
                               '-json', '-all-views=false', '-summary-view'],
                              input=text, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        return None
    # It prints a line or two for people before the document.
    region = json.loads(done.stdout[done.stdout.index('{'):])['CodeRegions'][0]
    return region['SummaryView']['TotalCycles'] / ITERATIONS / instructions


def opinion(model, form):
    """The latency and throughput that the model gives."""
    found = {}
    for kind in ('latency', 'throughput'):
        if form['group'] in LEFT_OUT or not form[kind]:
            continue
        code, instructions = form[kind]
        value = cycles(model, code, form['counts'] if kind == 'latency' else instructions)
        if value is not None:
            found[kind] = round(value, 3)
    return form['name'], found


def main():
    forms = json.loads((OUT / 'forms.json').read_text())['forms']
    processor = json.loads((OUT / 'all.json').read_text())['microarchitecture']['name']
    model = MODELS.get(processor)
    if not model:
        (OUT / 'second.json').write_text(json.dumps({'source': None, 'forms': {}}) + '\n')
        print(f'LLVM has no model of {processor}')
        return
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        opinions = {name: found for name, found in pool.map(lambda form: opinion(model, form), forms) if found}
    version = subprocess.run([MCA, '--version'], capture_output=True, text=True, check=True).stdout
    version = re.search(r'LLVM version (\S+)', version).group(1)
    source = f'llvm-mca {version}, model {model}'
    (OUT / 'second.json').write_text(json.dumps({'source': source, 'forms': opinions}, indent=1) + '\n')
    print(f'{source}: an opinion of {len(opinions)} forms')


if __name__ == '__main__':
    main()
