#!/usr/bin/env python3
"""compare.py OUT: the answers of the running kernel beside those of its file

OUT has vmlinuz, kallsyms, and the answers: live.jsonl of the running kernel, file.jsonl of vmlinuz, and
memory.jsonl of what memory.py made. Writes OUT/result.json; exits 1 if a claim fails."""
import json
import pathlib
import sys
from collections import defaultdict

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402
from memory import Kernel, dropped_of, slide_of  # noqa: E402

OUT = pathlib.Path(sys.argv[1])
SAME = 99.8
# What modules' code tells of the kernel's own functions is in the running kernel only. It makes no answer certain.
POSSIBLE = 0.05
SHOWN = 40


def answers(name, slide=0):
    """By the instruction's address, the answers of the kernel proper; and how many modules have."""
    found, of_modules = defaultdict(set), 0
    with open(OUT / f'{name}.jsonl') as lines:
        for line in lines:
            one = json.loads(line)
            if one['module']:
                of_modules += 1
                continue
            answer = (one['function'], one['offset'], one['struct'], one['member'], one['access'], one['certain'])
            found[one['address'] + slide].add(answer)
    if not found:
        sys.exit(f'live-index: {OUT}/{name}.jsonl has no answers')
    return found, of_modules


def told(answer):
    return ', '.join(sorted(f'{struct}.{member} {access}{"" if certain else " possibly"}'
                            for _, _, struct, member, access, certain in answer)) or 'nothing'


def main():
    kernel, kallsyms = Kernel(OUT / 'vmlinuz'), OUT / 'kallsyms'
    slide, dropped = slide_of(kernel, kallsyms), dropped_of(kallsyms)
    live, of_modules = answers('live')
    file, _ = answers('file', slide)
    memory, _ = answers('memory')

    both = live.keys() & file.keys()
    same = sum(live[address] == file[address] for address in both)
    kinds = {
        'in both, another answer': [address for address in both if live[address] != file[address]],
        'in the file only': list(file.keys() - live.keys()),
        'in the running kernel only': list(live.keys() - file.keys()),
    }
    causes = ('dropped', 'changed', 'unexplained')
    counts, unexplained = {}, []
    for kind, addresses in kinds.items():
        count = counts[kind] = dict.fromkeys(causes, 0)
        for address in addresses:
            if address in dropped and address not in live:
                count['dropped'] += 1
            elif memory.get(address) == live.get(address):
                count['changed'] += 1
            else:
                count['unexplained'] += 1
                unexplained.append(address)

    print(f'{len(live)} instructions of the running kernel have an answer, {len(file)} of its file, '
          f'{len(both)} in both: {same} the same')
    print(f'({of_modules} answers in modules of the running kernel are not compared)\n')
    print(f'{"What differs":28}{"":>8}' + ''.join(f'{cause:>13}' for cause in causes))
    for kind, count in counts.items():
        print(f'{kind:28}{sum(count.values()):8}' + ''.join(f'{count[cause]:13}' for cause in causes))
    print('dropped: in code that the kernel frees after boot; changed: the file with the code of the running\n'
          'kernel in place of its own gives the same answer as the running kernel')
    for address in sorted(unexplained)[:SHOWN]:
        function, offset = next(iter(live.get(address) or file[address]))[:2]
        print(f'  unexplained: {function}+{offset:#x}: file {told(file.get(address, ()))}; '
              f'running {told(live.get(address, ()))}')

    share = 100 * same / len(both) if both else 0.0
    claims = Claims('live-index', OUT)
    claims.at_least('answers in both that are the same', share, SAME, '%')
    def certain(address):
        return any(answer[-1] for answers in (live, file) for answer in answers.get(address, ()))

    count = sum(map(certain, unexplained))
    claims.at_most('certain answers that differ for no known reason', count, 0, 'instructions')
    share = 100 * (len(unexplained) - count) / len(both) if both else 100.0
    claims.at_most('possible answers that differ for no known reason', share, POSSIBLE, '% of those in both',
                   note=f'{len(unexplained) - count} instructions')
    claims.judge()


if __name__ == '__main__':
    main()
