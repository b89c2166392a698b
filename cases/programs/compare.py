"""How much of what is told of programs' requests is right, by what they log themselves.

    compare.py OUT
"""
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import truth  # noqa: E402
from claims import Claims  # noqa: E402

WORK = pathlib.Path(sys.argv[1]) / 'work'


def told(name):
    return json.loads((WORK / f'{name}.told').read_text())


def log(name):
    return (WORK / f'{name}.truth').read_text()


def main():
    claims = Claims('programs', WORK.parent)
    shares = {
        'Go': truth.worked(told('go'), log('go')),
        'Go, HTTP/2': truth.worked(told('h2'), log('h2'), one_client=True),
        'Java': truth.worked(told('java'), log('java')),
        'nginx before Go': truth.worked(told('nginx'), log('nginx'), one_client=True),
        'redis, pipelined': truth.slowlog(told('redis'), log('redis')),
        'PostgreSQL, locks': truth.locks(told('locks'), log('locks')),
    }
    print(f'{"right, % of a request":22}{"requests":>10}{"mean":>8}{"median":>8}{"least":>8}')
    for name, of in shares.items():
        found = [100 * share for share in of] or [0]
        mean = statistics.mean(found)
        print(f'{name:22}{len(found):>10}{mean:>8.1f}{statistics.median(found):>8.1f}{min(found):>8.1f}')
        claims.at_least(f'{name}: right', mean, 95, '% of a request on average')
    waits = truth.disk(told('commits'))
    counted = json.loads(log('commits'))
    # Its own measure has what fdatasync does besides, before and after.
    claims.at_least('PostgreSQL, commits: the disk beside its own measure', 100 * waits / counted['sync_ms'], 85, '%',
                    note=f'{counted["syncs"]} of fdatasync, {counted["sync_ms"]:.0f} ms')
    claims.at_most('PostgreSQL, commits: the disk at most', 100 * waits / counted['sync_ms'], 102, '%')
    throttled = sum(step['ns'] for name in ('go', 'h2', 'java', 'nginx', 'redis', 'commits', 'locks')
                    for one in told(name)['transactions'] for step in one['steps'] if step['state'] == 'throttled')
    claims.at_most('told as throttled, where nothing has a quota', throttled / 1e6, 0, 'ms')
    claims.judge()


if __name__ == '__main__':
    main()
