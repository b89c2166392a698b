#!/usr/bin/env python3
"""record.py XWEAVE WORLD OUT ROUNDS [KIND…]: makes things happen to requests in a world that is up, and asks why they vary

Each round is one recording, in which all kinds (or the named ones) follow each other in an order that is drawn. Leaves
OUT/ROUND/KIND.vary, and the first round's trace."""
import concurrent.futures
import contextlib
import dataclasses
import pathlib
import random
import shutil
import subprocess
import sys
import time

from kinds import ASK, KINDS, SERVE, START

XWEAVE, WORLD, OUT, ROUNDS, *NAMES = sys.argv[1:]
OUT = pathlib.Path(OUT)
CHOSEN = [kind for kind in KINDS if not NAMES or kind.name in NAMES]


def inside(domain, script):
    return [XWEAVE, 'lab', 'exec', WORLD, domain, '--', 'sh', '-c', script]


def run(domain, script):
    done = subprocess.run(inside(domain, script), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f'named-causes: {domain}: {script}: {done.stderr}')
    return done.stdout


def until(domain, script):
    run(domain, f'until {script}; do sleep 0.2; done')


def options(given, usual):
    """The usual ones, but for those that are given."""
    words = usual.split()
    pairs = dict(zip(words[::2], words[1::2]))
    more = given.split()
    for at, word in enumerate(more):
        if word.startswith('--'):
            pairs[word] = more[at + 1] if at + 1 < len(more) and not more[at + 1].startswith('--') else ''
    return ' '.join(f'{name} {value}'.strip() for name, value in pairs.items())


def ask(kind):
    """What came of requests; not all may be answered in time."""
    how = f'tcp-get {kind.ask}' if kind.tcp else f'udp-ask {options(kind.ask, ASK)}'
    return run('host', f'{kind.by} xweave lab load {how} --to 10.77.0.1:{kind.port} || test $? = 1')


@contextlib.contextmanager
def meanwhile(kind):
    """Something goes on in a domain."""
    if not kind.script:
        yield
        return
    script = kind.script.replace('{name}', kind.name)
    going = subprocess.Popen(inside(kind.domain, f'echo $$ >/tmp/meanwhile; {script}'), stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(kind.domain, 'test -s /tmp/meanwhile')
        # What it does to begin with is no part of it.
        run(kind.domain, 'sleep 1')
        yield
    finally:
        run(kind.domain, 'kill $(cat /tmp/meanwhile); rm /tmp/meanwhile')
        going.wait()
        # What it had begun lasts for less than a second.
        run(kind.domain, 'sleep 1')


@contextlib.contextmanager
def recording(folder):
    ports = f'{START.port}-{max(kind.port for kind in KINDS)}'
    with (folder / 'record.log').open('w') as log, (folder / 'record.json').open('w') as told:
        recorder = subprocess.Popen(
            # The one emulated CPU is the recorders' only where nobody else wants it: else they are what requests wait for most.
            inside('host', f"exec xweave record virtio-net --background --where 'portrange {ports}' --events sched,block,net,vm "
                   "--key line:Call-ID --domain vm1=vsock:3 -o /tmp/trace --json -- sh -c 'echo woven >&2; exec cat'"),
            stdin=subprocess.PIPE, stdout=told, stderr=log)
        while 'woven' not in (folder / 'record.log').read_text():
            if recorder.poll() is not None:
                sys.exit((folder / 'record.log').read_text())
            time.sleep(0.2)
        yield
        recorder.stdin.close()
        if recorder.wait():
            sys.exit((folder / 'record.log').read_text())
    shutil.rmtree(folder / 'trace', ignore_errors=True)
    subprocess.run([XWEAVE, 'lab', 'pull', WORLD, 'host', '/tmp/trace', folder / 'trace'], check=True)
    run('host', 'rm -r /tmp/trace')


def vary(folder, keep):
    for kind in CHOSEN:
        told = subprocess.run([XWEAVE, 'vary', folder / 'trace', '--transaction', f'exchange:{kind.port}', '--json', '--requests'],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if told.returncode:
            sys.exit(f'named-causes: {kind.name}: {told.stderr}')
        (folder / f'{kind.name}.vary').write_text(told.stdout)
    if not keep:
        shutil.rmtree(folder / 'trace')


def main():
    # Priorities count within a group only, and each session is one. The guest has one vCPU, so that its own do not wait for
    # each other.
    for domain in ('host', 'vm1'):
        run(domain, 'echo 0 >/proc/sys/kernel/sched_autogroup_enabled')
    run('vm1', 'echo 0 >/sys/devices/system/cpu/cpu1/online')
    run('host', """for of in /proc/$(cat /run/lab/vm1/pid)/task/* /proc/[0-9]*; do case "$(cat $of/comm)" in
        vhost-*) echo ${of##*/} ;; esac; done 2>/dev/null >/tmp/vhost
        cat /sys/kernel/debug/kvm/$(cat /run/lab/vm1/pid)-*/vcpu*/pid | grep -vx 0 >/tmp/vcpus""")
    for kind in (START, *CHOSEN):
        how = f'tcp-serve {kind.serve}' if kind.tcp else f'udp-serve {options(kind.serve, SERVE)}'
        serve = f'xweave lab load {how} --port {kind.port}'
        run('vm1', f'if test -e /tmp/{kind.name}.pid; then kill -9 $(cat /tmp/{kind.name}.pid); fi; '
            f'sh -c "echo \\$\\$ >/tmp/{kind.name}.pid; {kind.before} exec {serve}" >/tmp/{kind.name}.log 2>&1 &')
        until('vm1', f'grep -q ready /tmp/{kind.name}.log')
    # The first request of all has to ask for an address.
    ask(dataclasses.replace(START, ask='--requests 10 --rate 20'))
    with concurrent.futures.ThreadPoolExecutor(1) as judges:
        judged = []
        for number in range(int(ROUNDS)):
            folder = OUT / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            order = random.Random(number).sample(CHOSEN, len(CHOSEN))
            with recording(folder):
                ask(START)
                for kind in order:
                    with meanwhile(kind):
                        asked = ask(kind)
                    (folder / f'{kind.name}.asked').write_text(asked)
            judged.append(judges.submit(vary, folder, number == 0))
        for one in judged:
            one.result()


if __name__ == '__main__':
    main()
