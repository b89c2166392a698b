"""Why a SIP server's response time varies, beside what sipp counted, and the paper's figures 3 to 13.

    compare.py OUT
"""
import collections
import itertools
import json
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402

OUT = pathlib.Path(sys.argv[1])
SHARES = (20, 50, 75, 250)
CLIENT = '10.77.0.254'
CALLS = ('quiet', 'neighbour', 'yielding', 'polling', 'guest', 'guest-yields', 'chain')
RECORDED = (*CALLS, 'threads')
# SIP sends again what was not answered after that: the paper's 500 ms.
T1_MS = 500
BLOCKS = 10
# Threads of clients may wait for each other as well.
CLIENTS = ('sipp ', 'udp-ask ')


def load(name):
    return json.loads((OUT / 'work' / name).read_text())


def rank(values, percent):
    """The value that so many percent are at most."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def rtts(name):
    """From INVITE to the answer to BYE, as sipp measured it, in milliseconds and in the order of their ends."""
    _, *rows = (OUT / 'work' / f'{name}.rtt').read_text().splitlines()
    return [float(row.split(';')[1]) for row in rows]


def messages(name):
    """What sipp counted on its last screen: (sent, received, of these sent again)."""
    sent = received = again = 0
    for arrow, once, more in re.findall(r'^ *\w+ (<-+|-+>) (?: [BE]-RTD1)? *(\d+) +(\d+)', (OUT / 'work' / f'{name}.screen')
                                        .read_text(), re.MULTILINE):
        count = int(once) + int(more)
        sent, received = (sent + count, received) if arrow.endswith('>') else (sent, received + count)
        again += int(more)
    return sent, received, again


def followed(name):
    """Messages that were followed from sendmsg to recvmsg: from the client, and to it."""
    whole = [flow['frame'] for flow in load(f'{name}.flows')['flows'] if flow['complete']]
    return (sum((of['source'], of['target_port']) == (CLIENT, 5060) for of in whole),
            sum((of['target'], of['source_port']) == (CLIENT, 5060) for of in whole))


def load_selection(claims, capacity):
    """Figures 3 to 6."""
    print(f'{"calls a second":>16}{"of capacity":>13}{"calls":>8}{"sent again":>12}   RTT, ms:{"p50":>6}{"p99":>8}{"max":>8}')
    figures = {}
    for share in SHARES:
        name = f'share-{share}'
        times, (sent, received, again) = rtts(name), messages(name)
        figures[name] = times
        print(f'{capacity * share // 100:>16}{share:>11} %{len(times):>8}{again:>12}'
              f'{"":>11}{statistics.median(times):>6.0f}{rank(times, 99):>8.0f}{max(times):>8.0f}')
        if share > 100:
            claims.at_least(f'{name}: longest RTT', max(times), T1_MS, 'ms')
            claims.at_least(f'{name}: sent again', 100 * again / (sent + received), 5, '% of messages')
        elif share < 60:
            claims.at_most(f'{name}: sent again', 100 * again / (sent + received), 1, '% of messages')
            claims.at_most(f'{name}: median RTT', statistics.median(times), T1_MS, 'ms')
    return figures


def blocks(values):
    """Figures by request number, in so many blocks."""
    edges = [at * len(values) // BLOCKS for at in range(BLOCKS + 1)]
    return [values[begin:end] for begin, end in itertools.pairwise(edges)]


def segments_by_number(name, found):
    """Figures 8 and 9: the segments that vary most, by request number."""
    segments = found['segments']
    most = sorted(range(len(segments)), key=lambda at: -segments[at]['share_of_variance'])[:4]
    print(f'\n{name}: mean time of requests, ms, by request number; {found["requests"]} requests')
    parts = blocks(found['each'])
    print(f'{"":38}' + ''.join(f'{part[0]["number"]:>7}' for part in parts) + f'{"of variance":>14}')
    print(f'{"request":38}' + ''.join(f'{statistics.mean(one["total_ns"] for one in part) / 1e6:>7.1f}' for part in parts))
    for at in most:
        print(f'{segments[at]["name"]:38}'
              + ''.join(f'{statistics.mean(one["segments_ns"][at] for one in part) / 1e6:>7.1f}' for part in parts)
              + f'{segments[at]["share_of_variance"]:>13.0%}')


def queues(found):
    """Figures 10 and 11: how many others a request found where it came, by segment."""
    return {of['name']: of['others'] for of in found['segments'] if of['others']}


def show_queues(all_found):
    print(f'\n{"others that a request found there":38}' + ''.join(f'{name:>20}' for name in all_found))
    print(f'{"":38}' + f'{"p50":>8}{"p99":>6}{"max":>6}' * len(all_found))
    for segment in {name: None for found in all_found.values() for name in queues(found)}:
        depths = [queues(found).get(segment, {'p50': 0, 'p99': 0, 'max': 0}) for found in all_found.values()]
        if max(of['max'] for of in depths) > 1:
            print(f'{segment:38}' + ''.join(f'{of["p50"]:>8}{of["p99"]:>6}{of["max"]:>6}' for of in depths))


def starts(found):
    """Figure 12: when each of the threads on the way in took a request up, since it was sent: its way so far."""
    names = [of['name'] for of in found['segments']]
    reached, so_far = {}, [0] * len(found['each'])
    for at, name in enumerate(names):
        if not name.startswith('request'):
            break
        so_far = [before + one['segments_ns'][at] for before, one in zip(so_far, found['each'])]
        reached[name] = statistics.median(so_far)
    return reached


def show_starts(all_found):
    who = {'queue of': 'vhost takes it', 'ring': 'the guest\'s driver takes it', 'stack and driver': 'it is in the socket',
           'socket': 'the server reads it'}
    print(f'\n{"since it was sent, median, ms":38}' + ''.join(f'{name:>12}' for name in all_found))
    all_starts = [starts(found) for found in all_found.values()]
    for segment in all_starts[0]:
        words = next((words for part, words in who.items() if f', {part}' in segment), None)
        if words:
            print(f'{words:38}' + ''.join(f'{of.get(segment, 0) / 1e6:>12.2f}' for of in all_starts))


def runs(name):
    """Figure 13: who ran on the CPUs of host and guest, in nanoseconds, the most first."""
    found = collections.defaultdict(dict)
    for one in load(f'{name}.machines')['objects']:
        if one['kind'] == 'process' and one['time_ns']:
            found[one['domain']][one['object']] = one['time_ns']
    return {domain: dict(sorted(of.items(), key=lambda of: -of[1])) for domain, of in found.items()}


def show_runs(name):
    for domain, of in runs(name).items():
        total = sum(of.values())
        most = ', '.join(f'{who} {ns / total:.0%}' for who, ns in itertools.islice(of.items(), 6))
        print(f'{name}: ran in {domain}: {most}')


def by(cause, who):
    return sum(of['ns'] for of in cause['offenders'] if of['who'] == who)


def kept_by(found, who):
    return sum(by(cause, who) for cause in found['causes'] if cause['kind'] == 'vcpu_preempted')


def judge_neighbour(claims, all_found, name, yields, who):
    """Who has the vCPUs' CPU is named. How much less it keeps them where it yields it, in percent."""
    beside, without = all_found[name], all_found[yields]
    first = beside['causes'][0]
    claims.at_least(f'{name}: it is the first cause, by name',
                    first['named'] and (first['kind'], first['by']) == ('vcpu_preempted', who), 1, 'cause')
    less = 100 * (1 - kept_by(without, who) / kept_by(beside, who))
    told = {of: beside[of] - first['gain'][of] for of in ('p50_ns', 'p99_ns')}
    print(f'\n{name}, {yields}: kept for {less:.0f} % less time; '
          + '; '.join(f'{of[:3]} {beside[of] / 1e6:.1f} ms, told to become {told[of] / 1e6:.1f}, became {without[of] / 1e6:.1f}'
                      for of in told))
    return less


def behind_proxy(found):
    """How many requests were at the server behind the proxy, in percent."""
    names = [of['name'] for of in found['segments']]
    server = names.index('vm2 asks vm1: server in vm1') if 'vm2 asks vm1: server in vm1' in names else None
    return 100 * sum(server is not None and one['segments_ns'][server] > 0 for one in found['each']) / len(found['each'])


def kept_by_own(found):
    """How many requests a server kept as its threads had each other's CPU, in percent."""
    own = (cause['requests'] for cause in found['causes'] if cause['kind'] == 'own_threads' and not cause['cause'].startswith(CLIENTS))
    return 100 * max(own, default=0) / len(found['each'])


def judge_recorded(claims, name, found, asked, calls):
    whole_calls = load(f'{name}.calls')
    each = found['each']
    sums = sum(sum(one['segments_ns']) == one['total_ns'] for one in each + whole_calls['each'])
    claims.at_least(f'{name}: segments sum to the time', 100 * sums / (len(each) + len(whole_calls['each'])), 100,
                    '% of requests and calls')
    claims.at_least(f'{name}: calls found', 100 * min(whole_calls['requests'], calls) / max(whole_calls['requests'], calls),
                    99.9, '%')
    claims.at_least(f'{name}: requests found', 100 * min(found['requests'], asked) / max(found['requests'], asked),
                    99.9, '%')
    named = [cause for cause in found['causes'] if cause['named']]
    claims.at_least(f'{name}: variance of named causes', 100 * sum(cause['share_of_variance'] for cause in named), 30, '%')
    print(f'\n{name}: half of {found["requests"]} requests take at most {found["p50_ns"] / 1e6:.1f} ms, one in a hundred '
          f'{found["p99_ns"] / 1e6:.1f} ms or more')
    for cause in named:
        print(f'    {cause["share_of_variance"]:>4.0%} {cause["cause"]}' + (f', because of {cause["by"]}' if cause['by'] else ''))


def judge_messages(claims, name):
    sent, received, _ = messages(name)
    to, back = followed(name)
    apart = abs(sent - to) + abs(received - back)
    claims.at_least(f'{name}: messages followed', 100 * (1 - apart / (sent + received)), 99.9, '%',
                    note=f'{to} + {back} of {sent} + {received}')
    counted, found = statistics.median(rtts(name)), load(f'{name}.calls')['p50_ns'] / 1e6
    claims.at_most(f'{name}: a call\'s time beside sipp\'s', abs(counted - found) / counted * 100, 15, '%',
                   note=f'medians {found:.1f} and {counted:.0f} ms')


def main():
    claims, chosen = Claims('sip-jitter', OUT), load('load.json')
    figures = {'rtt_ms': load_selection(claims, chosen['capacity'])}
    print(f'\nrecorded at {chosen["rate"]} calls a second')
    all_found = {name: load(f'{name}.vary') for name in RECORDED}
    for name, found in all_found.items():
        for number, one in enumerate(found['each']):
            one['number'] = number
        # INVITE and BYE of each call; of the server that makes threads, as many as were sent.
        calls = chosen['chain_calls' if name == 'chain' else 'calls']
        sent = 2 * calls if name in CALLS else load('threads.asked')['sent']
        judge_recorded(claims, name, found, sent, sent // 2)
        if name in CALLS:
            judge_messages(claims, name)
            figures['rtt_ms'][name] = rtts(name)
    for name, found in all_found.items():
        segments_by_number(name, found)
    show_queues(all_found)
    show_starts(all_found)
    print()
    for name in RECORDED:
        show_runs(name)

    quiet = all_found['quiet']
    claims.at_least('yielding: it keeps the vCPUs for less time',
                    judge_neighbour(claims, all_found, 'neighbour', 'yielding', 'sh'), 50, '% less')
    # Told, and not claimed: what yields is a vCPU, which runs whatever its guest does, and has to leave that first.
    judge_neighbour(claims, all_found, 'guest', 'guest-yields', 'vCPUs of vm2')
    claims.at_most('yielding: it is still the first cause', all_found['yielding']['causes'][0]['by'] == 'sh', 0, 'cause')
    claims.at_most('quiet: causes because of a neighbour', sum(cause['named'] and cause['by'] in ('sh', 'vCPUs of vm2')
                                                               for cause in quiet['causes']), 0, 'causes')
    claims.at_least('chain: requests told through the proxy', behind_proxy(all_found['chain']), 99.9, '%')
    claims.at_least('threads: kept by its own threads', kept_by_own(all_found['threads']), 50, '% of requests')
    claims.at_most('quiet: kept by its own threads', kept_by_own(quiet), 30, '% of requests')
    claims.judge(**chosen, **figures,
                 requests={name: {'segments': [of['name'] for of in found['segments']],
                                  'start_total_and_segments_ns': [[one['start_ns'], one['total_ns'], *one['segments_ns']]
                                                                  for one in found['each']],
                                  'others': [one['others'] for one in found['each']]}
                           for name, found in all_found.items()},
                 queues={name: queues(found) for name, found in all_found.items()},
                 taken_up_ns={name: starts(found) for name, found in all_found.items()},
                 ran_ns={name: runs(name) for name in RECORDED})


if __name__ == '__main__':
    main()
