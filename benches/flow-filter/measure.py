#!/usr/bin/env python3
"""measure.py XWEAVE PROGRAMS ROUNDS REQUESTS: a web server that is recorded, with the flow filter and without"""
import contextlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from bench import Bound, Report, alternate  # noqa: E402
from weave import Kernel  # noqa: E402

XWEAVE, PROGRAMS, ROUNDS, REQUESTS = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
# Nothing of this lives longer, whatever becomes of the benchmark.
SECONDS = '1800'

# Processors' time is judged: time also has what else the machine does, and what writes the recording down.
BOUNDS = {
    # Five places on the way of each packet, and some ten packets a request.
    ('processor time of a request, filtered', 'nothing recorded'): Bound(1.8, 'a server must remain usable'),
    # The paper's claim: the filter costs no more than what it saves.
    ('processor time of a request, filtered', 'unfiltered'): Bound(1.1, 'looking up costs no more than storing'),
    # Of ten packets the server sends half; with the records of the flow's own clauses.
    ('records of a request, filtered', 'unfiltered'): Bound(0.7, 'what is not followed is not stored'),
}

# Of all records: more of them lost, and it is not storing that is measured.
LOST = 0.01

# Where a packet goes out, where a flow begins; and where the advice is: each packet passes all of them once, between its
# way out of one namespace and its arrival in the other.
PLACES = {
    'entry': ('execution(__dev_queue_xmit)',
              'execution(netif_skb_features, __netif_receive_skb, ip_rcv, ip_local_deliver, tcp_v4_rcv)'),
    'tracepoint': ('tracepoint(net:net_dev_queue)',
                   '(' + ' OR '.join(f'tracepoint(net:{name})' for name in (
                       'net_dev_queue', 'net_dev_start_xmit', 'netif_rx_entry', 'netif_rx', 'netif_receive_skb')) + ')'),
}
# TCP from port 80, in the network's byte order.
WEB = ('skb->protocol == 8 && READ(((struct iphdr *)(skb->head + skb->network_header))->protocol) == 6 '
       '&& READ(((struct tcphdr *)(skb->head + skb->transport_header))->source) == 0x5000')


def aspects(hook, namespaces):
    """Of each kind of recording."""
    sent, places = PLACES[hook]
    own = ' || '.join(f'at == {number}' for number in namespaces)
    own = f'if(({{ u32 at = skb->dev->nd_net.net->ns.inum; {own}; }}))'
    # A socket buffer that is used again for something else is not the flow's any more.
    flow = (f'xflow web {{\n    start {sent} AND {own} AND if({WEB}) select skb;\n'
            f'    transit {sent} AND {own} AND NOT if({WEB}) action {{ flow_quit(web, skb); }}\n}}\n')

    def advice(condition, value):
        return (f'advice passed {places} AND {own}{condition}\n'
                f'before {{ long long tsc; DO_RDTSC(tsc); STORE_DATA3($pc$, tsc, {value}); }}\n')
    return {'filtered': flow + advice(' AND xflow(web, skb, id)', 'id'), 'unfiltered': advice('', 'skb')}


class Namespace:
    """A network of its own, with one end of a cable."""

    def __init__(self, stack):
        self.holder = subprocess.Popen(['unshare', '--net', 'sleep', SECONDS])
        stack.callback(self.holder.wait)
        stack.callback(self.holder.kill)
        # It is in its own when it has become sleep.
        while pathlib.Path(f'/proc/{self.holder.pid}/comm').read_text().strip() != 'sleep':
            time.sleep(0.01)
        self.number = os.stat(f'/proc/{self.holder.pid}/ns/net').st_ino

    def within(self, *command):
        return ['nsenter', '--net', '--target', str(self.holder.pid), *map(str, command)]

    def address(self, address):
        for words in (['addr', 'add', address, 'dev', 'cable'], ['link', 'set', 'cable', 'up'], ['link', 'set', 'lo', 'up']):
            subprocess.run(self.within('ip', *words), check=True)


def program(name, *words):
    folder = PROGRAMS / name
    return [folder / 'lib/ld-linux-x86-64.so.2', '--library-path', folder / 'lib', folder / name, *words]


class Web:
    """nginx in one namespace and ApacheBench in another."""

    def __init__(self, stack, folder):
        self.server, self.client = Namespace(stack), Namespace(stack)
        subprocess.run(['ip', 'link', 'add', 'cable', 'netns', str(self.server.holder.pid), 'type', 'veth', 'peer', 'name',
                        'cable', 'netns', str(self.client.holder.pid)], check=True)
        self.server.address('10.77.0.2/24')
        self.client.address('10.77.0.1/24')
        shutil.copy(pathlib.Path(__file__).parent / 'nginx.conf', folder)
        (folder / 'www').mkdir()
        (folder / 'www/page').write_bytes(os.urandom(4096))
        nginx = subprocess.Popen(self.server.within('timeout', SECONDS, *program(
            'nginx', '-p', f'{folder}/', '-c', 'nginx.conf')))
        stack.callback(nginx.wait)
        stack.callback(nginx.terminate)
        self.pid = folder / 'pid'
        deadline = time.monotonic() + 30
        while (ran := self.ask(10)).returncode:
            if nginx.poll() is not None or time.monotonic() > deadline:
                sys.exit(f'flow-filter: nginx does not answer: {ran.stdout}{ran.stderr}')
            time.sleep(0.1)

    def ask(self, requests):
        return subprocess.run(self.client.within('timeout', '120', *program(
            'ab', '-q', '-n', requests, '-c', 10, 'http://10.77.0.2/page')), capture_output=True, text=True)

    def processors(self):
        """Seconds that processors have worked for the server, and for clients that have ended."""
        server = pathlib.Path('/proc', self.pid.read_text().strip(), 'schedstat').read_text().split()[0]
        clients = resource.getrusage(resource.RUSAGE_CHILDREN)
        return int(server) / 1e9 + clients.ru_utime + clients.ru_stime

    def request(self):
        """Microseconds of one, of as many as the server can answer: passed, and processors'."""
        before = self.processors()
        ran = self.ask(REQUESTS)
        processors = self.processors() - before
        found = {what: re.search(rf'^{what}:\s+([\d.]+)', ran.stdout, re.M) for what in
                 ('Failed requests', 'Requests per second')}
        if ran.returncode or not all(found.values()) or float(found['Failed requests'][1]):
            sys.exit(f'flow-filter: not all requests were answered: {ran.stdout}{ran.stderr}')
        return 1e6 / float(found['Requests per second'][1]), 1e6 * processors / REQUESTS


def main():
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='xweave-bench-')))
        kernel = Kernel('flow-filter', XWEAVE, folder, 'execution(tcp_v4_rcv) AND pid(1) { STORE_DATA1(skb); }')
        web = Web(stack, folder)
        of = aspects(kernel.hook, (web.server.number, web.client.number))

        def recorded(kind):
            recording = kernel.record(of[kind])
            took = web.request()
            document = recording.stop()
            return *took, document['records'], document['lost']

        web.request()
        measured = alternate(ROUNDS, {
            'nothing': web.request,
            'filtered': lambda: recorded('filtered'),
            'unfiltered': lambda: recorded('unfiltered'),
        })

    report = Report('flow-filter', BOUNDS)
    for nth, what in enumerate(('time', 'processor time')):
        took = {kind: [run[nth] for run in runs] for kind, runs in measured.items()}
        for kind in of:
            report.row(f'{what} of a request, {kind}', 'µs', took[kind], 'nothing recorded', took['nothing'])
        report.row(f'{what} of a request, filtered', 'µs', took['filtered'], 'unfiltered', took['unfiltered'])
    # Those of the flow's own clauses, too.
    report.row('records of a request, filtered', '', *([run[2] / REQUESTS for run in measured['filtered']], 'unfiltered',
                                                       [run[2] / REQUESTS for run in measured['unfiltered']]))
    # What is lost was not stored, and cost less.
    lost = {kind: sum(run[3] for run in runs) / sum(run[2] + run[3] for run in runs) for kind, runs in measured.items()
            if kind in of}
    print('records lost: ' + ', '.join(f'{100 * share:.2g} % {kind}' for kind, share in lost.items()))
    report.finish([f'{100 * share:.2g} % of records lost, {kind}' for kind, share in lost.items() if share > LOST])


if __name__ == '__main__':
    main()
