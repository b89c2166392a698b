#!/usr/bin/env python3
"""compare.py OUT RUNS: the tables, and what they must show

OUT has image, all.json, bare.json, cut.json, native-1.json … native-RUNS.json and second.json. Writes OUT/result.json and
OUT/report.html; exits 1 if a claim fails."""
import html
import json
import pathlib
import statistics
import sys

OUT, RUNS = pathlib.Path(sys.argv[1]), int(sys.argv[2])
# The paper's tables: Xen 3.0.2-2 on an Intel Xeon of 2.66 GHz; clocks in Xen and on the machine itself. Beside
# each the forms of ours that it is the mean of.
PAPER = [
    ('arithmetic', 'ADD', 0.36, 0.36, ['add r32, r32']),
    ('arithmetic', 'INC', 0.80, 0.72, ['inc r32']),
    ('arithmetic', 'SBB', 6.72, 6.68, ['sbb r32, r32']),
    ('arithmetic', 'CMP', 0.72, 0.68, ['cmp r32, r32']),
    ('arithmetic', 'IDIV', 56.56, 56.64, ['idiv r32']),
    ('arithmetic', 'DAA', 136.56, 110.60, ['daa']),
    ('logic', 'AND', 0.42, 0.36, ['and r32, r32']),
    ('logic', 'OR', 0.36, 0.36, ['or r32, r32']),
    ('logic', 'NOT', 0.42, 0.36, ['not r32']),
    ('logic', 'TEST', 0.42, 0.36, ['test r32, r32']),
    ('string', 'CMPSD', 7.60, 8.38, ['cmpsd']),
    ('string', 'LODSD', 5.60, 5.64, ['lodsd']),
    ('transfer', 'MOV', 0.56, 0.52, ['mov r32, r32']),
    ('transfer', 'XCHG', 1.36, 1.36, ['xchg r32, r32']),
    ('transfer', 'PUSH', 1.88, 1.80, ['push r64']),
    ('transfer', 'POP', 0.88, 1.08, ['pop r64']),
    ('floating point', 'FADD', 970.40, 964.76, ['fadd st, st']),
    ('floating point', 'FSIN', 920.60, 914.03, ['fsin']),
    ('privileged', 'MOV CR0-4 read', 1714.50, 5.84, [f'mov r64, cr{n}' for n in (0, 2, 3, 4)]),
    ('privileged', 'MOV CR0-4 write', 3410.45, 278.27, [f'mov cr{n}, r64' for n in (0, 2, 3, 4)]),
    ('privileged', 'CLTS', 3388.26, 278.00, ['clts']),
]
CONTROL = [f'mov r64, cr{n}' for n in (0, 2, 3, 4)] + [f'mov cr{n}, r64' for n in (0, 2, 3, 4)] + ['clts']
ENVIRONMENTS = ['native', 'tcg', 'kvm', 'xen-pv']


def load(name):
    return json.loads((OUT / name).read_text())


def table(title, head, rows):
    """Prints a table, and gives it as HTML."""
    print(f'\n{title}\n')
    widths = [max(len(str(row[at])) for row in [head, *rows]) for at in range(len(head))]
    for row in [head, *rows]:
        cells = [str(cell).ljust(width) if at == 0 or not str(cell)[:1].isdigit() else str(cell).rjust(width)
                 for at, (cell, width) in enumerate(zip(row, widths))]
        print('  '.join(cells).rstrip())
    body = ''.join('<tr>' + ''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row) + '</tr>' for row in rows)
    top = ''.join(f'<th>{html.escape(str(cell))}</th>' for cell in head)
    return f'<h2>{html.escape(title)}</h2><table><tr>{top}</tr>{body}</table>'


def number(value):
    return '–' if value is None else f'{value:.2f}'


def papers(rows):
    """The paper's table beside ours, by the paper's method."""
    by_name = {row['name']: row for row in rows if row['kind'] == 'paper'}
    faults = {row['name']: row['note'] for row in rows}
    lines = []
    for group, name, xen, real, forms in PAPER:
        def mean(environment):
            values = [by_name[form]['cycles'].get(environment) for form in forms if form in by_name]
            return statistics.fmean(values) if values and None not in values else None

        cells = [number(mean(one)) if mean(one) is not None else faults[forms[0]].get(one, '–')
                 for one in ENVIRONMENTS]
        under, kvm, paravirtual = mean('tcg'), mean('kvm'), mean('xen-pv')
        ratios = [f'{over / under:.3f}' if over and under else '–' for over in (kvm, paravirtual)]
        lines.append([group, name, number(xen), number(real), f'{xen / real:.3f}', *cells, *ratios])
    head = ['Group', 'Instruction', 'paper: Xen', 'machine', 'ratio', *ENVIRONMENTS, 'kvm/tcg', 'xen-pv/tcg']
    return table("The paper's tables beside ours, by the paper's method (100 copies, 20 times, the mean)", head, lines)


def privileged(rows):
    """What became of the reads and writes of control registers."""
    by_name = {row['name']: row for row in rows if row['kind'] == 'cost'}
    lines, told = [], 0
    for name in CONTROL:
        row = by_name[name]
        did = row['hypervisor_action']
        told += bool(did.get('kvm')) and bool(did.get('xen-pv'))
        cells = [number(row['cycles'].get(one)) for one in ENVIRONMENTS[1:]]
        lines.append([name, *cells, did.get('kvm', '–'), did.get('xen-pv', '–')])
    head = ['Instruction', *ENVIRONMENTS[1:], 'what KVM did', 'what Xen did']
    return table('Control registers: cycles for one, and what the hypervisor did', head, lines), told


def agreement(published, second):
    """Published figures that differ, and what LLVM's model says."""
    lines, unexplained = [], []
    for one in published:
        if one['agrees']:
            continue
        if not one['remark']:
            unexplained.append(f'{one["name"]} ({one["kind"]})')
        model = second['forms'].get(one['name'], {}).get(one['kind'])
        lines.append([one['name'], one['kind'], number(one['measured']), number(one['published']), number(model),
                      one['remark'] or 'not known'])
    head = ['Instruction', '', 'measured', 'published', 'LLVM', 'Why']
    return table('Figures that differ from the published ones', head, lines), unexplained


def agrees(measured, other):
    return abs(measured - other) <= max(0.5, 0.1 * other)


def main():
    everything, cut, second = load('all.json'), load('cut.json'), load('second.json')
    runs = [load(f'native-{run}.json') for run in range(1, RUNS + 1)]
    environments = {one['name']: one for one in everything['environments']}
    cpu = everything['microarchitecture']
    claims = []

    def claim(name, measured, target, unit, ok):
        claims.append({'name': name, 'measured': measured, 'target': target, 'unit': unit, 'ok': bool(ok)})

    page = [papers(everything['rows'])]
    for name in ENVIRONMENTS:
        one = environments.get(name, {})
        measured = len({row['name'] for row in everything['rows'] if name in row['cycles']})
        claim(f'{name}: boots and finishes, forms measured', measured, 300, 'forms',
              measured >= 300 and one.get('boots') == 1)
        claim(f'{name}: time', round(one.get('seconds', 999), 1), 60, 's', one.get('seconds', 999) < 60)
    bare = load('bare.json')
    measured = len({row['name'] for row in bare['rows'] if 'bare' in row['cycles']})
    claim('multiboot2: GRUB boots the image, it finishes, forms measured', measured, 300, 'forms',
          measured >= 300 and not any(one.get('ended') for one in bare['environments']))
    size = (OUT / 'image').stat().st_size
    claim('size of the image', size, 256 << 10, 'bytes', size < 256 << 10)

    # The median run: the published figures are compared once with each form's median over the runs.
    medians = {}
    for run in runs:
        for row in run['rows']:
            if 'native' in row['cycles']:
                medians.setdefault((row['name'], row['kind']), []).append(row['cycles']['native'])
    published = []
    for one in runs[0]['published']:
        measured = statistics.median(medians[one['name'], one['kind']])
        published.append({**one, 'measured': measured, 'agrees': agrees(measured, one['published'])})
    if published:
        text, unexplained = agreement(published, second)
        page.append(text)
        share = 100 * sum(one['agrees'] for one in published) / len(published)
        claim('forms with published figures', len({one['name'] for one in published}), 100, 'forms',
              len({one['name'] for one in published}) >= 100)
        claim('published figures met within a tenth or half a cycle', round(share, 1), 90, '%', share >= 90)
        claim('differences from them for no known reason', len(unexplained), 5, 'figures', len(unexplained) <= 5)
    else:
        print(f'\nNOT JUDGED: published figures, of which none are known for {cpu["name"]} ({cpu["evidence"]})')
    beside = [(statistics.median(values), second['forms'].get(name, {}).get(kind))
              for (name, kind), values in medians.items()]
    opinions = [agrees(measured, model) for measured, model in beside if model is not None]
    if not second['source']:
        print(f'\nNOT JUDGED: LLVM has no model of {cpu["name"]}')
    else:
        claim(f'second opinion ({second["source"]}): figures that agree, of {len(opinions)}',
              round(100 * sum(opinions) / max(len(opinions), 1), 1), 66, '%', sum(opinions) >= 0.66 * len(opinions))

    steady = []
    for key, values in medians.items():
        middle = statistics.median(values)
        steady.append((max(abs(value - middle) for value in values) <= 0.03 * middle and len(values) == RUNS, key,
                       min(values), max(values)))
    share = 100 * sum(one[0] for one in steady) / max(len(steady), 1)
    page.append(table('Least steady natively', ['Instruction', '', 'least', 'most'],
                      [[*key, f'{least:.3f}', f'{most:.3f}'] for ok, key, least, most in
                       sorted(steady, key=lambda one: one[3] / max(one[2], 1e-9), reverse=True)[:12]]))
    claim(f'{RUNS} native runs: figures whose medians stay within 3 %', round(share, 1), 95, '%', share >= 95)

    text, told = privileged(everything['rows'])
    page.append(text)
    claim('CR0–CR4 and CLTS: what KVM and Xen did is told', told, len(CONTROL), 'forms', told == len(CONTROL))

    undefined = {name: sum(row['note'].get(name, '').startswith('#') for row in everything['rows'])
                 for name in ENVIRONMENTS}
    least = min(undefined.values())
    claim('forms that fault are told as such, in each environment', least, 6, 'forms', least >= 6)
    one = cut['environments'][0]
    kept = len({row['name'] for row in cut['rows'] if row['cycles']})
    claim('ended in the middle: the rest is kept', kept, 300, 'forms',
          kept >= 300 and one['boots'] > 1 and one['ended'] == one['boots'] - 1)
    print(f'\nEnded in the middle: {one["boots"]} starts, {one["ended"]} forms lost, {one["damaged_lines"]} lines cut')

    (OUT / 'result.json').write_text(
        json.dumps({'case': 'instruction-cost', 'claims': claims}, indent=2, ensure_ascii=False) + '\n')
    page.append(table('What it must show', ['Claim', 'measured', 'target', '', ''],
                      [[one['name'], one['measured'], one['target'], one['unit'], '' if one['ok'] else 'FAILED']
                       for one in claims]))
    style = 'body{font:14px sans-serif;margin:2em}td,th{padding:.1em .8em;text-align:left}th{border-bottom:1px solid}'
    head = f'<!doctype html><meta charset=utf-8><title>What instructions cost</title><style>{style}</style>'
    about = f'<p>{html.escape(everything["processor"])}: {cpu["name"]} ({cpu["certainty"]}; {cpu["evidence"]})</p>'
    (OUT / 'report.html').write_text(f'{head}<h1>What instructions cost</h1>{about}{"".join(page)}\n')
    failed = [one['name'] for one in claims if not one['ok']]
    if failed:
        sys.exit('instruction-cost: failed: ' + '; '.join(failed))


if __name__ == '__main__':
    main()
