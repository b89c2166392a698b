#!/usr/bin/env python3
"""measure.py XWEAVE WORLD ROUNDS [OTHER]: from a cold start to the first answer to a real question, on the terminal"""
import collections
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, alternate  # noqa: E402
from world import OTHER, OURS, World  # noqa: E402

# How long each question's recording takes by itself, in seconds: it is part of all figures.
RECORDS = 5

# What a user types, and what the answer says where it is one.
Question = collections.namedtuple('Question', 'record look answered')
QUESTIONS = {
    # The answer by `--by ifindex`, how long in each tap's queue, is one of the same recording.
    "where is a frame's time?": Question('virtio-net', '', 'virtqueue_add_outbuf'),
    "who writes to vm1's disk?": Question('--events sched,block', '--machines', r"vm1's disk vda: .* written, by dd"),
    'whose vCPU took whose time?': Question('--events sched,vm', '--machines', r'vCPUs of vm1 +[\d.]+ \w+, taken by'),
}
COMMANDS = '{xweave} record {record} {guests} -o /tmp/answer --force --duration {seconds}s', '{xweave} {look} /tmp/answer {how}'
WHY = ('the library is compiled when xweave is built, so that the first time takes no longer than the second; once in an '
       'emulated host may take a third longer than another time')
BOUNDS = {(f'{question} cold', 'warm'): Bound(1.4, WHY) for question in QUESTIONS}
# What the guests do: vm1 sends datagrams to vm2, and writes to its disk.
LOADS = (('vm2', 'exec xweave lab load udp-recv --port 9000 --count 10000000'),
         ('vm1', 'exec xweave lab load udp-send --to 10.77.0.2:9000 --count 10000000 --rate 50'),
         ('vm1', 'while dd if=/dev/zero of=/dev/vda bs=64k count=16 conv=fsync; do sleep 1; done'))


def ask(world, who, what, cold):
    """The seconds until the answer was on the terminal; None where there was none, which is said."""
    recorder, question = world.recorders[who], QUESTIONS[what]
    if cold:
        world.run('host', 'rm', '-rf', recorder.cache)
    look = 'explain' if '--events' in question.record else 'flows'
    begun = time.monotonic()
    for command in COMMANDS:
        typed = command.format(xweave=recorder.program, record=question.record, guests=' '.join(recorder.guests),
                               seconds=RECORDS, look=look, how=question.look)
        ran = world.run('host', 'sh', '-c', f'XWEAVE_CACHE={recorder.cache} {typed}')
        if ran.returncode:
            break
    seconds = time.monotonic() - begun
    print(f'{who}, {what} {"cold" if cold else "warm"}: {seconds:.1f} s', file=sys.stderr, flush=True)
    if ran.returncode or not re.search(question.answered, ran.stdout):
        said = (ran.stderr if ran.returncode else ran.stdout).strip().splitlines()
        print(f'{who}, {what} No answer after {seconds:.1f} s:', *said[-12:], sep='\n  ')
        return None
    return seconds


def main():
    xweave, name, rounds, *other = sys.argv[1:]
    world = World(xweave, name, *other)
    for domain, command in LOADS:
        world.start(domain, 'sh', '-c', command)
    attempts = [(who, what, cold) for what in QUESTIONS for cold in (True, False) for who in world.recorders]
    measured = alternate(int(rounds), {attempt: lambda attempt=attempt: ask(world, *attempt) for attempt in attempts})
    answered = {attempt: seconds for attempt, seconds in measured.items() if None not in seconds}
    unanswered = {what for who, what, cold in attempts if who == OURS and (who, what, cold) not in answered}
    if unanswered:
        sys.exit(f'first-answer: not answered: {", ".join(unanswered)}')
    print(f'each after {len(COMMANDS)} commands; {RECORDS} s of each figure are the recording; in an emulated machine')
    report = Report('first-answer', BOUNDS)
    for what in QUESTIONS:
        cold, warm = (answered[OURS, what, cold] for cold in (True, False))
        report.row(f'{what} cold', 's', cold, 'warm', warm)
        for state, ours, others in (('cold', cold, (OTHER, what, True)), ('warm', warm, (OTHER, what, False))):
            if others in answered:
                report.row(f'{what} {state}', 's', ours, OTHER, answered[others])
    report.finish()


if __name__ == '__main__':
    main()
