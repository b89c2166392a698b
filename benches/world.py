"""A world of the lab with two guests, and in it another xweave beside the one that it came up with."""
import collections
import subprocess

OURS, OTHER = 'xweave', 'the other xweave'
# One that can record in all domains: how it is started in the host, what it is told of the guests, and where it keeps things.
Recorder = collections.namedtuple('Recorder', 'program guests cache')
PORT, OTHERS_PORT, PUSHED = 7390, 7391, '/tmp/other-xweave'


class World:
    """XWEAVE's world of that NAME, which is up; OTHER: the path of another xweave, or None."""

    def __init__(self, xweave, name, other=None):
        self.xweave, self.name = xweave, name
        self.recorders = {OURS: recorder('xweave', PORT)}
        if other:
            for domain in ('host', 'vm1', 'vm2'):
                subprocess.run([xweave, 'lab', 'push', name, domain, other, PUSHED], check=True)
            for guest in ('vm1', 'vm2'):
                self.start(guest, PUSHED, 'agent', '--vsock', str(OTHERS_PORT))
            self.recorders[OTHER] = recorder(PUSHED, OTHERS_PORT)

    def run(self, domain, *words):
        return subprocess.run(self.command(domain, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def start(self, domain, *words):
        """Ends with the world."""
        subprocess.Popen(self.command(domain, words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)

    def command(self, domain, words):
        return [self.xweave, 'lab', 'exec', self.name, domain, '--', *words]


def recorder(program, port):
    guests = [f'--domain=vm{number}=vsock:{number + 2}:{port}' for number in (1, 2)]
    return Recorder(program, guests, f'/tmp/cache-{port}')
