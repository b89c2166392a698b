"""What a newcomer wants to know, the commands that answer it, and what has to stand in which of the first lines."""
import dataclasses

RECORD = 'xweave record --events sched,block,net,vm'
SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Job:
    """WANTS is the question. Meanwhile SCRIPT runs in DOMAIN. COMMANDS are typed in the host, in a folder of their own for all
    jobs. The first LINES of what the last one prints, put together, have to match each of RIGHT (regular expressions), in this
    order, and none of WRONG."""
    name: str
    wants: str
    commands: tuple
    right: tuple
    wrong: tuple = ()
    domain: str = ''
    script: str = ''
    lines: int = 8


# Takes CPUs; processes of that name, as a newcomer sees them in top. In sessions of their own: those of one share what one
# thread of another has (autogroups).
GZIP = ('all=; for _ in 1 2 3; do setsid gzip </dev/zero >/dev/null & all="$all $!"; done; '
        'trap "kill $all; exit" TERM; wait')

JOBS = (
    Job('yesterday', 'why do requests to vm1 take that long, on a good day',
        (f'{RECORD} --domain vm1=vsock:3 -o yesterday --duration {SECONDS}s', 'xweave explain yesterday'),
        (r'\d+ transactions \(request:80\)',)),
    Job('slow', "who slows down vm1's web server",
        (f'{RECORD} --domain vm1=vsock:3 --duration {SECONDS}s', 'xweave explain latest'),
        (r'\d+ transactions \(request:80\)', r'\d+ % .* waiting for a CPU', r'gzip'),
        wrong=('request:22',), domain='vm1', script=GZIP),
    Job('neighbour', 'who slows it down if it is nobody in vm1',
        (f'{RECORD} --domain vm1=vsock:3 -o neighbour --duration {SECONDS}s', 'xweave explain neighbour'),
        (r'\d+ transactions \(request:80\)', r'\d+ % .* waiting for a CPU', r'vCPUs of vm1 waited for a CPU of host',
         r'by vCPUs of vm2'),
        domain='vm2', script=GZIP),
    Job('host-only', 'the same where no guest may be entered',
        (f'{RECORD} -o host --duration {SECONDS}s', 'xweave explain host --machines'),
        (r"vm2 used \d+ % of host's CPU and kept vm1 waiting",),
        domain='vm2', script=GZIP, lines=4),
    Job('compare', 'what is different from yesterday',
        (f'{RECORD} --domain vm1=vsock:3 -o today --duration {SECONDS}s',
         'xweave compare yesterday today --transaction request:80'),
        (r'took .* longer', r'waited for a CPU of vm1', r'gzip'),
        domain='vm1', script=GZIP),
    Job('import', 'what a recording of trace-cmd says',
        ('xweave import host.dat guest.dat -o imported', 'xweave explain imported'),
        (r'host, vm1: ', r"ld-linux-x86-64 used \d+ % of host's CPU and kept vm1 waiting"), lines=4),
)
