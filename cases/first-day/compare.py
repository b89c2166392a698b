#!/usr/bin/env python3
"""compare.py OUT: whether the first lines that a newcomer sees are right"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402
from jobs import JOBS  # noqa: E402

OUT = pathlib.Path(sys.argv[1])


def first_lines(text, job):
    """What the last command printed on top, without empty lines and without what is to be known before."""
    answer = text.rpartition('\n$ ')[2].splitlines()[1:]
    lines = [line for line in answer if line.strip() and not line.startswith(('! ', 'xweave: '))]
    return '\n'.join(lines[:job.lines])


def is_right(first, job):
    rest = first
    for pattern in job.right:
        found = re.search(pattern, rest)
        if not found:
            return False
        rest = rest[found.end():]
    return not any(re.search(pattern, first) for pattern in job.wrong)


def main():
    claims = Claims('first-day', OUT)
    shown = {}
    for job in JOBS:
        text = (OUT / f'{job.name}.txt').read_text()
        shown[job.name] = first = first_lines(text, job)
        print(f'{job.wants}?\n' + '\n'.join(f'    {line}' for line in first.splitlines()) + '\n')
        claims.at_least(f'{job.name}: the first lines are right', int(is_right(first, job)), 1, '(1: they are)')
    claims.judge(first_lines=shown)


if __name__ == '__main__':
    main()
