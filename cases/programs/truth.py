"""What programs log of themselves, and how much of what is told of their requests is right by it.

Each function gives a share for each request: of its time, how much is told of what it may have been."""
import collections
import json
import re

# A thread as it is told: its name and its number.
THREAD = re.compile(r'^(?P<name>.*)/(?P<tid>\d+)$')


def thread(step):
    """The number of the thread that a step is told of; None for another object."""
    found = THREAD.match(step['object'])
    return int(found['tid']) if found else None


def had(step):
    """The number of the thread that had the CPU instead, as it is told: who asks may have no time to wait for the
    answer before whoever gives it takes the processor."""
    found = re.match(r'^.*/(\d+) had the CPU$', step['why'] or '')
    return int(found[1]) if found else None


def overlap(step, begin, end):
    return max(0, min(end, step['t_ns'] + step['ns']) - max(begin, step['t_ns']))


def in_order(document):
    return sorted(document['transactions'], key=lambda one: one['start_ns'])


def right(step, truth):
    """How much of a step's time is told of what it may have been, in nanoseconds. TRUTH is a line of serve.go or
    Serve.java: who read a request, and who worked for it from when to when."""
    network = step['state'] == 'network'
    # Asked for by the client, on its way, and read: by whom, and what kept them, the program does not log.
    found = overlap(step, -1, truth['received'])
    # Handed on, and waiting for a worker, which may be doing another request.
    if not network:
        found += overlap(step, truth['received'], truth['begun'])
    if {thread(step), had(step)} & set(truth['workers']) or step['object'].startswith('interrupts'):
        found += overlap(step, truth['begun'], truth['answered'])
    # The answer is sent, comes, and is read by the client.
    return found + overlap(step, truth['answered'], 1 << 62)


def worked(document, log, one_client=False):
    """Of servers that log who worked for a request, and when. Behind a proxy a connection is not the client's own: then
    there is ONE_CLIENT, which makes its requests one after the other."""
    first = min(one['start_ns'] for one in document['transactions'])
    lines = [line for line in map(json.loads, log.splitlines()) if line['received'] > first]
    truths = collections.defaultdict(list)
    for line in sorted(lines, key=lambda line: line['received']):
        truths[None if one_client else line['client']].append(line)
    for one in in_order(document):
        of_client = truths[None if one_client else int(one['name'].split()[0])]
        truth = of_client.pop(0)
        # Of another request nothing is right.
        within = one['start_ns'] <= truth['received'] and truth['answered'] <= one['start_ns'] + one['total_ns']
        yield sum(right(step, truth) for step in one['steps']) / one['total_ns'] if within else 0.0
    assert not any(truths.values()), 'requests of which nothing is told'


def slowlog(document, log):
    """Of redis, which logs how long each command took: several are asked for at once. What is told of its thread beyond
    that, or short of it, is wrong, though it also reads and answers."""
    commands = sorted((entry for entry in json.loads(log) if entry[3][0] == 'EVAL'), key=lambda entry: entry[0])
    requests = in_order(document)
    at_once, rest = divmod(len(commands), len(requests))
    assert at_once and not rest, (len(commands), len(requests))
    for nth, one in enumerate(requests):
        took = 1000 * sum(entry[2] for entry in commands[nth * at_once:(nth + 1) * at_once])
        # A command's time goes on while something else has the processor.
        told = sum(step['ns'] for step in one['steps']
                   if step['object'].startswith(('redis-server/', 'interrupts')) and step['state'] in ('running', 'ready'))
        yield 1 - min(1, abs(told - took) / one['total_ns'])


def disk(document):
    """How long all requests waited for the disk, as it is told, in milliseconds."""
    return sum(step['ns'] for one in document['transactions'] for step in one['steps']
               if step['object'] == 'disk nullb0') / 1e6


ACQUIRED = re.compile(r'^(?P<pid>\d+) LOG: +process \d+ acquired ShareLock on transaction \d+ after (?P<ms>[\d.]+) ms')


def locks(document, log):
    """Of PostgreSQL's sessions that waited for another one's lock and log how long. What is told of the other session in
    that request, of the disk for it, and as the session's own wait, is the wait for the lock. It checks for a deadlock
    meanwhile: that is its own work, and told as that."""
    for found in filter(None, map(ACQUIRED.match, log.splitlines())):
        pid, waited = int(found['pid']), float(found['ms']) * 1e6
        mine = [one for one in document['transactions'] if any(thread(step) == pid for step in one['steps'])
                and any(of_another(step, pid) for step in one['steps'])]
        if not mine:
            yield 0.0
            continue
        # A session asks for one thing that takes so long.
        one = max(mine, key=lambda one: one['total_ns'])
        told = sum(step['ns'] for step in one['steps']
                   if of_another(step, pid) or thread(step) == pid and step['state'] == 'waiting')
        yield 1 - min(1, abs(told - waited) / one['total_ns'])


def of_another(step, pid):
    return step['depth'] > 0 and thread(step) != pid
