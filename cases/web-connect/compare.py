"""What was found of connections that took seconds, beside what the client counted, and the paper's figures 3 to 5.

    compare.py OUT

A connection's page is told by the server's port: 8000 and its KiB.
"""
import collections
import itertools
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402

OUT = pathlib.Path(sys.argv[1])
SLOW_NS = 1_000_000_000
# What the reason has to name, in each way; nothing is in the way where it is calm.
REASONS = {'calm': None, 'accept-queue': 'the accept queue was full', 'time-wait': 'TIME_WAIT at the server'}
SIZES = (1, 4, 8, 16)
# The six intervals of the paper's figure 4, between the points of `run`.
INTERVALS = ('connect to accept', 'accept to request', 'request to answer', 'answer on its way', 'until it is closed',
             'until the other end knows')


def of_client(way):
    """Of each request as ab counts, in nanoseconds: how long it took to connect, or then to the answer's first byte,
    the longer of the two. A client may take a connection to be there whose last ACK the server did not take."""
    found = []
    for name in sorted((OUT / 'work').glob(f'{way}*.tsv')):
        head, *rows = (line.split('\t') for line in name.read_text().splitlines())
        connect, wait = head.index('ctime'), head.index('wait')
        found += [max(int(row[connect]), int(row[wait])) * 1_000_000 for row in rows]
    return found


def explained(way, kind):
    """The transactions to the server's ports, by size."""
    found = collections.defaultdict(list)
    for one in json.loads((OUT / 'work' / f'{way}.{kind}').read_text())['transactions']:
        size = int(one['name'].split()[-1]) - 8000
        if size in SIZES:
            found[size].append(one)
    return found


def ways_of_connections(way):
    """Of each connection that passed all points, how much data the client got, and its intervals."""
    document = json.loads((OUT / 'work' / f'{way}.points').read_text())
    return [(one['received_bytes'], [then - before for before, then in itertools.pairwise(one['points_ns'])])
            for one in document['transactions']]


def show_intervals(connections):
    print(f'\n{"the way of a connection, ms":30}' + ''.join(f'{way:>24}' for way in connections))
    print(f'{"":30}' + f'{"median":>8}{"max":>8}{"> 1 s":>8}' * len(connections))
    for at, interval in enumerate(INTERVALS):
        print(f'{interval:30}' + ''.join(
            f'{statistics.median(times) / 1e6:>8.0f}{max(times) / 1e6:>8.0f}{sum(time > SLOW_NS for time in times):>8}'
            for times in ([intervals[at] for _, intervals in ways] for ways in connections.values())))


def slow(transactions):
    return [one for of in transactions.values() for one in of if one['total_ns'] > SLOW_NS]


def late_elsewhere(requests, late):
    """The slow requests on connections that came about in time. What a client sends on one that the server has not
    accepted yet, the client takes to be connected, waits with it."""
    spans = collections.defaultdict(list)
    for one in late:
        spans[one['name']].append((one['start_ns'], one['start_ns'] + one['total_ns']))
    return [one for one in slow(requests)
            if not any(begin <= one['start_ns'] <= end for begin, end in spans[one['name']])]


def repeat(transaction):
    """How long it waited to send something again, and why for most of that time."""
    found = [part for part in transaction['parts'] if part['state'] == 'retransmit']
    return sum(part['ns'] for part in found), found[0]['why'] if found else ''


def percent(part, whole):
    return 100 * part / whole if whole else 0.0


def main():
    claims, figure = Claims('web-connect', OUT), {}
    print(f'{"connect to accept, ms":22}' + ''.join(f'{f"{size} KiB":>30}' for size in SIZES))
    print(f'{"":22}' + f'{"number":>9}{"median":>7}{"max":>7}{"> 1 s":>7}' * len(SIZES))
    for way, reason in REASONS.items():
        connects, client = explained(way, 'connect'), of_client(way)
        figure[way] = {f'{size << 10}': [one['total_ns'] for one in connects[size]] for size in SIZES}
        print(f'{way:22}' + ''.join(
            f'{len(times):>9}{statistics.median(times) / 1e6:>7.0f}{max(times) / 1e6:>7.0f}'
            f'{sum(time > SLOW_NS for time in times):>7}' if times else f'{0:>9}{"":21}' for times in figure[way].values()))
        late, total = slow(connects), sum(map(len, connects.values()))
        counted = sum(time > SLOW_NS for time in client)
        others = late_elsewhere(explained(way, 'request'), late)
        claims.at_least(f'{way}: connections explained', percent(total, len(client)), 98, '%')
        claims.at_most(f'{way}: over a second elsewhere', len(others), 0, 'requests')
        if reason is None:
            claims.at_most(f'{way}: slow connections', len(late) + counted, 0, 'connections')
            continue
        repeats = [one for one in late if 2 * repeat(one)[0] > one['total_ns']]
        named = [one for one in repeats if reason in repeat(one)[1]]
        claims.at_least(f'{way}: slow connections', percent(counted, len(client)), 3, '% of all')
        claims.at_most(f'{way}: found beside counted', abs(percent(len(late), total) - percent(counted, len(client))), 3,
                       '% of all')
        claims.at_least(f'{way}: slow by a repeated SYN', percent(len(repeats), len(late)), 98, '% of slow')
        claims.at_least(f'{way}: reason named', percent(len(named), len(late)), 98, '% of slow')
        print(f'    the client counts {counted} of {len(client)} over a second; explained {len(late)} of {total}')
        for one in sorted(late, key=lambda one: -one['total_ns']):
            time, why = repeat(one)
            print(f'    {one["name"]:16}{one["total_ns"] / 1e6:>8.0f} ms, of that {time / 1e6:.0f} {why or "sent again"}')

    connections = {way: ways_of_connections(way) for way in REASONS}
    for way, ways in connections.items():
        claims.at_least(f'{way}: connections at all seven points', percent(len(ways), sum(map(len, figure[way].values()))),
                        95, '% of those explained')
        late = [intervals for _, intervals in ways if sum(intervals) > SLOW_NS]
        if REASONS[way]:
            claims.at_least(f'{way}: slow ones, slowest from connect to accept',
                            percent(sum(intervals[0] == max(intervals) for intervals in late), len(late)), 90, '% of slow')
    show_intervals(connections)
    claims.judge(connect_to_accept_ns=figure,
                 bytes_and_intervals_ns={way: [[size, *intervals] for size, intervals in ways]
                                         for way, ways in connections.items()})


if __name__ == '__main__':
    main()
