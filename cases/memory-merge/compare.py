"""What each policy has given back by what KSM looked at, beside figures 12 and 13 of the paper; and what is claimed of it.

    compare.py OUT
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from claims import Claims  # noqa: E402

OUT = pathlib.Path(sys.argv[1])
POLICIES = {'address': 'KSM, in the order of addresses', 'recent': 'what was read last (XLH)',
            'files': 'the same files (xweave)'}
# What is looked at, what it counts, and the paper's figure.
# And how much of what is equal is to be given back, %: with too little memory, guests read and drop files all the time, and for
# less than a sixteenth more KSM does not look again.
CACHES = {'roomy': ('memory for all that they read (figure 12)', 12, 95), 'tight': ('with too little (figure 13)', 13, 85)}
MIB = 256


class Run:
    """What a policy has given back, step by step: `visits` are KSM's, `first` those without what it had looked at twice."""

    def __init__(self, cache, policy):
        text = (OUT / f'{cache}-{policy}.lines').read_text()
        self.steps = [json.loads(line) for line in text.splitlines()]
        oracle = json.loads((OUT / f'{cache}-{policy}.oracle').read_text())
        # Pages that would be given back if all equal pages of their files were held once, when the guests had done their work.
        self.oracle = oracle['compared']['all']
        self.ended = float((OUT / f'{cache}-{policy}.ended').read_text())

    def at(self, key, most):
        """Given back when so many (visits, seconds of CPU time) had been used."""
        return max((step['saved'] for step in self.steps if step[key] <= most), default=0)

    def until(self, key, saved):
        """How many it took to give back as much; none if it never did."""
        return next((step[key] for step in self.steps if step['saved'] >= saved), None)


def runs(cache):
    return {policy: Run(cache, policy) for policy in POLICIES}


def table(title, of):
    goal = 0.9 * of['files'].oracle
    print(f'\n{title}: {of["files"].oracle / MIB:.1f} MiB could be given back\n')
    print(f'{"KSM is shown":34}{"given back, MiB":>16}{"visits":>10}{"first ones":>12}{"ksmd, s":>9}{"visits to 90 %":>16}')
    for policy, run in of.items():
        last, until = run.steps[-1], run.until('visits', goal)
        print(f'{POLICIES[policy]:34}{last["saved"] / MIB:>16.1f}{last["visits"]:>10}{last["first"]:>12}{last["cpu_s"]:>9.2f}'
              f'{"never" if until is None else until:>16}')


def draw(cache, of, number):
    """By visits, by those that a kernel made for hints needs, and by ksmd's CPU time."""
    import matplotlib
    matplotlib.use('svg')
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 4.5), sharey=True, layout='constrained')
    for axis, (key, unit, label) in zip(axes, [('visits', 1000, 'pages that KSM visited, thousands'),
                                               ('first', 1000, 'of these, first and second visits, thousands'),
                                               ('cpu_s', 1, 'CPU time of ksmd, s (emulated)')]):
        for policy, run in of.items():
            axis.step([0] + [step[key] / unit for step in run.steps], [0] + [step['saved'] / MIB for step in run.steps],
                      where='post', label=POLICIES[policy])
        axis.axhline(of['files'].oracle / MIB, color='gray', linestyle=':', label='all that is equal of their files')
        axis.set_xlabel(label)
    axes[0].set_ylabel('given back, MiB')
    axes[0].legend()
    figure.suptitle(f'{cache}: as figure {number} of the paper')
    figure.savefig(OUT / f'figure-{number}.svg')
    pyplot.close(figure)


def main():
    claims = Claims('memory-merge', OUT)
    for cache, (title, number, share) in CACHES.items():
        of = runs(cache)
        table(title, of)
        draw(cache, of, number)
        files, oracle = of['files'], of['files'].oracle
        claims.at_least(f'{cache}: given back, of all that is equal', 100 * files.steps[-1]['saved'] / oracle, share, '%')
        done = share / 100 * oracle
        after = [step['at'] - files.ended for step in files.steps if step['at'] >= files.ended and step['saved'] >= done]
        # If it never is, too late.
        until = min(after, default=10.0 ** 9)
        claims.at_most(f'{cache}: from the end of the work until it is', until, 30, 's')
        # When nine tenths are given back: what the others had given back by then.
        for key, name, times in [('visits', 'visits', 2), ('first', 'first and second visits', 3), ('cpu_s', "ksmd's CPU time", 2)]:
            most = files.until(key, 0.9 * oracle)
            for policy, least in [('recent', 0.9), ('address', times)]:
                # It may be none at all.
                ratio = 0.0 if most is None else files.at(key, most) / max(of[policy].at(key, most), 1)
                claims.at_least(f'{cache}: given back at equal {name}, ÷ {policy}', ratio, least, '×')
    clones = {by: json.loads((OUT / f'clones-{by}.json').read_text()) for by in ('path', 'inode')}
    print('\nEight clones of one image: the same by path gives back '
          f'{clones["path"]["pages"]["saved"] / MIB:.1f} MiB, by inode {clones["inode"]["pages"]["saved"] / MIB:.1f} MiB')
    of = clones['inode']
    claims.at_least('clones: given back, of what is held by several', 100 * of['pages']['saved'] / of['pages']['shared'],
                    0.95 * 100 * 7 / 8, '%')
    # Of eight pages that are equal, each visited twice.
    claims.at_least('clones: given back for each visit', of['saved_per_visit'], 0.9 * 7 / 16, 'pages')
    claims.at_most('clones: given back by path', clones['path']['pages']['saved'], 0.05 * of['pages']['saved'], 'pages')
    claims.judge()


if __name__ == '__main__':
    main()
