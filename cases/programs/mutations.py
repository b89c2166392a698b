#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json, in_lines  # noqa: E402


def steps(alter):
    """Of a function that alters a step, one that alters a document."""
    def all_of(document):
        for one in document['transactions']:
            for step in one['steps']:
                alter(step)
    return in_json(all_of)


def another_thread(step):
    """As if somebody else had done it."""
    if step['state'] == 'running':
        step['object'] = 'another/1'


def disk_is_lock(step):
    if step['object'].startswith('disk '):
        step['object'] = 'lock'


def disk_is_longer(step):
    if step['object'].startswith('disk '):
        step['ns'] *= 2


def throttled(document):
    document['transactions'][0]['steps'][0]['state'] = 'throttled'


def own_wait(step):
    """What it waited for is told as its own work, at its own place."""
    if step['depth']:
        step['depth'], step['state'] = 0, 'running'


def later(lines):
    """The server worked for each request a second after it says."""
    found = [json.loads(line) for line in lines]
    for line in found:
        for moment in ('received', 'begun', 'answered'):
            line[moment] += 1_000_000_000
    return [json.dumps(line) for line in found]


WORKED = {'Go': 'go', 'Go, HTTP/2': 'h2', 'Java': 'java', 'nginx before Go': 'nginx'}
MUTATIONS = [
    *(Mutation(f'{name}: another thread is told to have worked', f'work/{of}.told', steps(another_thread), [f'{name}: right'])
      for name, of in {**WORKED, 'redis, pipelined': 'redis'}.items()),
    *(Mutation(f'{name}: the server worked at another time', f'work/{of}.truth', in_lines(later), [f'{name}: right'])
      for name, of in WORKED.items()),
    Mutation('PostgreSQL: the wait for the lock is told as work', 'work/locks.told', steps(own_wait), ['PostgreSQL, locks: right']),
    Mutation('PostgreSQL: the wait for the disk is told as another', 'work/commits.told', steps(disk_is_lock),
             ['the disk beside its own measure']),
    Mutation('PostgreSQL: the wait for the disk is told twice as long', 'work/commits.told', steps(disk_is_longer),
             ['the disk at most']),
    Mutation('a step is told as throttled', 'work/redis.told', in_json(throttled), ['told as throttled']),
]

if __name__ == '__main__':
    falsify(sys.argv[1], lambda folder: [HERE / 'compare.py', folder], ['work/*.told', 'work/*.truth'], MUTATIONS)
