#!/usr/bin/env python3
"""ask.py XWEAVE WORLD OUT: what a newcomer types in the host of a world that is up, and what is printed

Leaves OUT/JOB.txt, which has the commands and all that they print, and OUT/slow/trace."""
import contextlib
import pathlib
import subprocess
import sys

from jobs import JOBS, RECORD

XWEAVE, WORLD, OUT = sys.argv[1:]
OUT = pathlib.Path(OUT)
DATA = pathlib.Path(__file__).parent.parent.parent / 'crates/import/tests/data'


def inside(domain, script):
    return [XWEAVE, 'lab', 'exec', WORLD, domain, '--', 'sh', '-c', script]


def run(domain, script):
    done = subprocess.run(inside(domain, script), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f'first-day: {domain}: {script}: {done.stdout}')
    return done.stdout


@contextlib.contextmanager
def going(domain, script):
    """Something goes on in a domain."""
    if not script:
        yield
        return
    name = f'/tmp/going-{domain}'
    process = subprocess.Popen(inside(domain, f'echo $$ >{name}; {script}'), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        run(domain, f'until test -s {name}; do sleep 0.2; done; sleep 1')
        yield
    finally:
        run(domain, f'kill $(cat {name}); rm {name}')
        process.wait()


# A web server, and beside it what a host has besides: somebody's shell that says something now and then.
SERVES = ('mkdir -p /tmp/www/cgi-bin; printf "%s\\n" "#!/bin/sh" "echo; echo; md5sum /bin/busybox" >/tmp/www/cgi-bin/page; '
          'chmod +x /tmp/www/cgi-bin/page; busybox httpd -p 80 -h /tmp/www; '
          'xweave lab load tcp-serve --port 22 >/tmp/shell 2>&1 & until grep -q ready /tmp/shell; do sleep 0.2; done')
ASKS = (r'''bash -c 'while exec 3<>/dev/tcp/10.77.0.1/80 && printf "GET /cgi-bin/page HTTP/1.0\r\n\r\n" >&3 &&
        grep -q busybox <&3; do exec 3>&-; sleep 0.1; done; echo failed >/tmp/day/asks' & asks=$!; '''
        'trap "kill $asks; exit" TERM; '
        'while :; do xweave lab load tcp-get --to 10.77.0.1:22 --requests 3 >/dev/null; sleep 0.5; done')


def main():
    run('vm1', SERVES)
    # One vCPU: what runs in the guest beside the server is in its way.
    run('vm1', 'echo 0 >/sys/devices/system/cpu/cpu1/online')
    run('host', 'mkdir -p /tmp/day')
    for name in ('host.dat', 'guest.dat'):
        unpacked = subprocess.run(['zstd', '-dqc', DATA / f'{name}.zst'], stdout=subprocess.PIPE, check=True).stdout
        (OUT / name).write_bytes(unpacked)
        subprocess.run([XWEAVE, 'lab', 'push', WORLD, 'host', OUT / name, '/tmp/day'], check=True)
        (OUT / name).unlink()
    with going('host', ASKS):
        # What is asked first takes longer for that: nothing is in memory yet.
        run('host', f'cd /tmp/day; {RECORD} --domain vm1=vsock:3 -o first --duration 5s && rm -r first')
        for job in JOBS:
            print(job.wants, flush=True)
            told = ''
            with going(job.domain, job.script):
                for command in job.commands:
                    told += f'$ {command}\n' + run('host', f'cd /tmp/day; {command}')
            (OUT / f'{job.name}.txt').write_text(told)
    run('host', 'test ! -e /tmp/day/asks')
    newest = run('host', 'cd /tmp/day; ls -d xweave-*').split()[-1]
    (OUT / 'slow').mkdir()
    subprocess.run([XWEAVE, 'lab', 'pull', WORLD, 'host', f'/tmp/day/{newest}', OUT / 'slow' / 'trace'], check=True)


if __name__ == '__main__':
    main()
