"""What halted vCPUs cost requests, what polling does about it, and what another guest on the same CPU does.

    compare.py OUT
    compare.py --halting OUT        prints the number of a block in which vCPUs halt
"""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402

EXPERIMENTS = ('spare', 'neighbour', 'guests')
# Of ten rounds: a block is looked at by itself, and may be disturbed.
MOST = 90
# Of ten pairs: by chance, so many or more are less in one of 18 runs.
MOST_PAIRS = 80


def load(out, name):
    return json.loads((out / 'work' / name).read_text())


def blocks(out, name, setting):
    """What `vary` says of the blocks of a setting, by its place."""
    found = [block for block in load(out, f'{name}.json')['blocks'] if block['setting'] == setting and not block['not_counted']]
    return [load(out, f'{name}-{block["number"]}.vary') for block in found]


def percent(of, holds):
    return 100 * sum(map(holds, of)) / len(of)


def first_cause(found):
    """The first that something can be done about: how long it is in transit is the emulator's."""
    named = [cause for cause in found['causes'] if cause['named'] and cause['remedy']]
    return (named[0]['kind'], named[0]['by']) if named else (None, None)


def polled(effect):
    """How many halts of the first guest did not sleep, in percent: of the first setting and of the second."""
    observed = next(one for one in effect['observed'] if one['vm'] == 'vm1' and one['what'] == 'halts that did not sleep')
    return 100 * observed['baseline'], 100 * observed['with']


def kept_by(found, who):
    """For how long someone had the CPU of the guest's vCPUs, in nanoseconds of all requests."""
    return sum(by['ns'] for cause in found['causes'] if cause['kind'] == 'vcpu_preempted'
               for by in cause['offenders'] if by['who'] == who)


def halts(found):
    """The cause that vCPUs were halted, if there is one."""
    return next((cause for cause in found['causes'] if cause['kind'] == 'vcpu_halted'), None)


def advises_polling(found):
    cause = halts(found)
    return any(setting['what'] == 'halt_polling' for setting in found['settings']) or bool(cause and cause['named'])


def told_p50(found):
    """The median as it is told to become without halts."""
    cause = halts(found)
    return found['p50_ns'] - (cause['gain']['p50_ns'] if cause else 0)


def show(name, effect, unit=1e6):
    print(f'{name:24}' + ''.join(
        f'   {of} {effect[of]["baseline_ns"] / unit:7.2f} → {effect[of]["with_ns"] / unit:7.2f} ms'
        f' ({effect[of]["ratio_low"] - 1:+.0%} … {effect[of]["ratio_high"] - 1:+.0%})' for of in ('p50', 'mean', 'p99')))


def judge_spare(claims, out, effect):
    before = blocks(out, 'spare', 0)
    claims.at_least('spare: blocks in which polling is advised', percent(before, advises_polling), MOST, '%')
    without, polling = polled(effect)
    claims.at_most('spare: halts that do not sleep, without polling', without, 10, '%')
    claims.at_least('spare: halts that do not sleep, with polling', polling, 80, '%')
    # Both ends of the interval are below none.
    claims.at_most('spare: p50 with polling, at most', 100 * effect['p50']['ratio_high'], 100, '% of that without')
    claims.at_most('spare: mean with polling, at most', 100 * effect['mean']['ratio_high'], 100, '% of that without')
    told, became = statistics.median(map(told_p50, before)), effect['p50']['with_ns']
    claims.at_most('spare: p50 told beforehand beside that measured', 100 * abs(told / became - 1), 20, '%',
                   note=f'{told / 1e6:.2f} and {became / 1e6:.2f} ms, before it {effect["p50"]["baseline_ns"] / 1e6:.2f}')


def judge_neighbour(claims, out, effect):
    before = blocks(out, 'neighbour', 0)
    claims.at_least('neighbour: blocks in which it is the first cause',
                    percent(before, lambda found: first_cause(found) == ('vcpu_preempted', 'sh')), MOST, '%')
    claims.at_most('neighbour: blocks in which polling is advised', percent(before, advises_polling), 100 - MOST, '%')
    claims.at_most('neighbour: halts that do not sleep, with polling', polled(effect)[1], 10, '%')
    claims.at_least('neighbour: p50 with polling, at most', 100 * effect['p50']['ratio_high'], 100, '% of that without')


def judge_guests(claims, out):
    shared, apart = blocks(out, 'guests', 0), blocks(out, 'guests', 1)
    of_other = ('vcpu_preempted', 'vCPUs of vm2')
    claims.at_least('guests: blocks in which the other one is the first cause, on one CPU',
                    percent(shared, lambda found: first_cause(found) == of_other), MOST, '%')
    claims.at_most('guests: the same, on two', percent(apart, lambda found: first_cause(found) == of_other), 100 - MOST, '%')
    kept = [sum(kept_by(found, 'vCPUs of vm2') for found in of) for of in (shared, apart)]
    claims.at_least('guests: the other one keeps its vCPU for less time, on two', 100 * (1 - kept[1] / max(kept[0], 1)), 90, '% less')


def judge_idle_poll(claims, out):
    assert 'idle=poll' in (out / 'work' / 'idle-poll.cmdline').read_text()
    rounds = len(list((out / 'work').glob('poll-*.vary')))
    halting, polling = ([load(out, f'{name}-{number}.vary') for number in range(1, rounds + 1)] for name in ('halt', 'poll'))
    kept = sum(cause['requests'] for cause in map(halts, polling) if cause)
    claims.at_most('idle=poll: requests that halted vCPUs keep', 100 * kept / sum(found['requests'] for found in polling), 2, '%')
    ratios = [100 * poll['p50_ns'] / halt['p50_ns'] for halt, poll in zip(halting, polling)]
    claims.at_most('idle=poll: p50, median of the rounds', statistics.median(ratios), 100, '% of that with halts')
    claims.at_least('idle=poll: rounds in which p50 is less', percent(ratios, lambda ratio: ratio < 100), MOST_PAIRS, '%')


def main():
    if sys.argv[1] == '--halting':
        name, out = 'spare.json', pathlib.Path(sys.argv[2])
        print(next(block['number'] for block in load(out, name)['blocks'] if block['setting'] == 0 and not block['not_counted']))
        return
    out = pathlib.Path(sys.argv[1])
    claims = Claims('halt-polling', out)
    effects = {name: load(out, f'{name}.json')['effects'][0] for name in EXPERIMENTS}
    print()
    for name, effect in effects.items():
        show(name, effect)
    judge_spare(claims, out, effects['spare'])
    judge_neighbour(claims, out, effects['neighbour'])
    judge_guests(claims, out)
    judge_idle_poll(claims, out)
    claims.judge(rounds={name: effect['rounds'] for name, effect in effects.items()},
                 effects={name: {of: effect[of] for of in ('p50', 'mean', 'p99', 'cpus')} for name, effect in effects.items()})


if __name__ == '__main__':
    main()
