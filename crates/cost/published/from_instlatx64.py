#!/usr/bin/env python3
"""from_instlatx64.py RESULTS NAME SOURCE TABLE: a table of published figures, from a file of results of InstLatx64

RESULTS is such a file (https://github.com/InstLatx64/InstLatx64), NAME what the table is of, SOURCE what it is called
there, with its commit. Which of its lines stands for which form is taken from zen4.table, which was made by hand, and so
are the remarks on how its method differs from ours; those on the processor are zen4.table's own. TABLE is written; the
remarks on its processor, which were made by hand, begin with `here:`, and are kept.
"""
import pathlib
import re
import sys
import textwrap

BASE = pathlib.Path(__file__).parent / 'zen4.table'
LINE = re.compile(r'^(?:Inst)?\s*(\d+)\s+\S+\s*:(.*?)\s+L:(.*?)T:(.*)$')
CYCLES = re.compile(r'=\s*([\d.]+)c')
# Remarks on how the two programs differ, whatever the processor. What is not here is said of Zen 4.
METHODS = ('theirs has', 'ours has one', 'theirs chains both registers', 'ours sets rsp anew', 'ours flushes one line',
           'ours leaves cache lines half written', 'leaves the guest', 'theirs names one register', 'theirs does not fit',
           'theirs writes high bytes', 'theirs waits for the', 'theirs goes from', 'theirs pops another',
           'theirs passes one value')
# Remarks on the processor.
OWN = 'here: '


def plain(name):
    """Older versions say neither which operands are one register, as `r1_8, r2_8`, nor that a prefix is there."""
    return ' '.join(re.sub(r'\br\d_(\d+)\b', r'r\1', name.replace('{REX}', '')).split())


def results(path):
    """Latency and throughput in cycles, as texts, by number and name, and by name alone: the first of a name. Numbers are
    those of one list, which versions have added to."""
    found = {}
    for line in pathlib.Path(path).read_text(errors='replace').splitlines():
        match = LINE.match(line)
        if not match:
            continue
        number, name, *figures = match.groups()
        cycles = [CYCLES.search(figure) for figure in figures]
        figures = (number, plain(name), *(one and one.group(1) for one in cycles))
        found[number, plain(name)] = figures
        found.setdefault(plain(name), figures)
    return found


def short(cycles, digits):
    return '-' if cycles is None else f'{float(cycles):.{digits}f}'


def remark(text):
    return text.strip() if any(method in text for method in METHODS) else ''


def kept(path):
    """The remarks of a table on its processor, by form."""
    if not path.exists():
        return {}
    columns = (line.split(' | ') for line in path.read_text().splitlines() if not line.startswith('#'))
    return {row[0]: OWN + row[4].split(OWN, 1)[1] for row in columns if len(row) == 5 and OWN in row[4]}


def main():
    path, name, source, table = sys.argv[1:]
    found, own = results(path), kept(pathlib.Path(table))
    about = (f'What others measured on {name}, of the forms in minios/forms.table that they have. Made by '
             f'from_instlatx64.py. Source: InstLatx64 (https://github.com/InstLatx64/InstLatx64), {source}: AIDA64. '
             'Latency and throughput in cycles, per instruction.')
    lines = ['# ' + line for line in textwrap.wrap(about, 110)]
    lines.append('#\n#   form | latency | throughput | its number and name there | why ours differs, where it does\n')
    for line in BASE.read_text().splitlines():
        if not line or line.startswith('#'):
            continue
        form, _, _, there, *said = (column.strip() for column in line.split('|'))
        number, of = there.split(' ', 1)
        number, of, latency, throughput = found.get((number, plain(of))) or found.get(plain(of)) or (None,) * 4
        if latency is None and throughput is None:
            continue
        columns = [form, short(latency, 1), short(throughput, 2), f'{number} {of}']
        remarks = [text for text in [*map(remark, said), own.get(form, '')] if text]
        lines.append(' | '.join(columns + ['; '.join(remarks)] * bool(remarks)))
    pathlib.Path(table).write_text('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
