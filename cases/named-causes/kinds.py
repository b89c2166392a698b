"""What is made to happen to requests, and what `xweave vary` has to call it."""
import dataclasses

PORT = 5100


@dataclasses.dataclass(frozen=True)
class Kind:
    """SERVE and ASK are options of the lab's server in the guest and of its client in the host, by UDP or else TCP, which BY starts;
    meanwhile SCRIPT runs in DOMAIN, and undoes at SIGTERM what it did. Before it serves, the server's shell has run BEFORE. NAMED is what has to
    be named first, of a pair both in either order: which kinds of causes it may be called, and a part of the offender's name."""
    name: str
    serve: str = ''
    ask: str = ''
    by: str = ''
    before: str = ''
    domain: str = ''
    script: str = ''
    named: tuple = ()
    tcp: bool = False

    @property
    def port(self):
        return PORT + [kind.name for kind in (START, *KINDS)].index(self.name)


# Unless a kind says otherwise: an answer takes 30 ms, and there are six requests a second, evenly spread.
SERVE = '--work 30000'
ASK = '--requests 50 --rate 6 --size 200 --per-call 1'

# Gives the threads of a list a policy and a priority.
ALL = 'all() { for of in $(cat /tmp/$1); do chrt $2 -p $3 $of; done; }; '
# Takes most of the CPU from the vCPUs, and from these alone: vhost comes first.
NEIGHBOUR = (ALL + "trap 'all vhost -o 0; exit' TERM; all vhost -f 1; "
             "while :; do nice -n -10 timeout 0.5 sh -c 'while :; do :; done'; sleep 0.7; done")
# Has the CPU before vhost, and keeps this alone from it: the vCPUs come first, and the client by FIRST. So does what ends it, which
# could not otherwise.
HOG = (ALL + "trap 'all vcpus -o 0; exit' TERM; all vcpus -f 2; "
       "while :; do chrt -f 2 timeout 0.15 chrt -f 1 sh -c 'while :; do :; done'; sleep 0.4; done")
FIRST = 'chrt -f 2'
# Waits as `sleep` does, but without a process, which would want the CPU as well.
WAITS = 'test -p /tmp/never || mkfifo /tmp/never; exec 9<>/tmp/never; waits() { read -t $1 never <&9; }; '
CONSOLE = WAITS + '''dmesg -n 8; line=$(head -c 600 /dev/zero | tr '\\0' x)
while :; do for i in 1 2; do echo "<1>$line" >/dev/kmsg; done; waits 0.7; done'''
# As many characters of one line as take a tenth of a second, by the fastest of three: how long one takes depends on the machine,
# and what is made to happen with it is to keep requests for about as long as the lock does.
CONSOLE_LINE = WAITS + '''dmesg -n 8; line=$(head -c 900 /dev/zero | tr '\\0' x); least=900
for i in 1 2 3; do
    read before rest </proc/uptime; echo "<1>$line" >/dev/kmsg; read after rest </proc/uptime
    took=$((${after%.*}${after#*.} - ${before%.*}${before#*.})); test $took -ge $least || least=$took
done
of=$((900 * 10 / (least + 1))); test $of -lt 900 || of=900
line=$(echo $line | head -c $of)
while :; do echo "<1>$line" >/dev/kmsg; waits 0.35; done'''
STOPS = WAITS + '''read server </tmp/{name}.pid; trap 'kill -CONT $server; exit' TERM
while :; do kill -STOP $server; waits 0.2; kill -CONT $server; waits 0.8; done'''
# Some kernels read each page by itself, and others several at once: as many pages a second of both.
GROUP = '''mount | grep -q cgroup2 || mount -t cgroup2 none /sys/fs/cgroup;
grep -q vda /proc/swaps || { mkswap /dev/vda; swapon /dev/vda; echo 5 >/proc/sys/vm/page-cluster; };
echo +memory +io >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p /sys/fs/cgroup/swap;
echo 254:0 riops=400 rbps=1638400 >/sys/fs/cgroup/swap/io.max; echo 0 >/sys/fs/cgroup/swap/cgroup.procs;'''
# Delays what goes to the guest by 0 to 150 ms.
NETEM = 'trap "tc qdisc del dev tap1 root; exit" TERM; tc qdisc add dev tap1 root netem delay 75ms 75ms; while :; do sleep 1; done'
# A rate limit, as libvirt's <bandwidth> sets it, that something else uses up now and then.
TBF = ('trap "tc qdisc del dev tap1 root; exit" TERM; tc qdisc add dev tap1 root tbf rate 32kbit burst 1600 latency 2s; '
       'while :; do ping -q -c 3 -i 0.2 -s 1400 -W 1 10.77.0.1; sleep 2; done')
# All threads of QEMU, as an operator may stop them.
STOPS_QEMU = ('read qemu </run/lab/vm1/pid; trap "kill -CONT $qemu; exit" TERM; '
              'while :; do kill -STOP $qemu; sleep 0.2; kill -CONT $qemu; sleep 0.8; done')
# A quota of the virtual machine's that is low now and then.
QUOTA = '''mount | grep -q cgroup2 || mount -t cgroup2 none /sys/fs/cgroup
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control; vm=/sys/fs/cgroup/vm; mkdir -p $vm
trap 'echo max >$vm/cpu.max; cat /run/lab/vm1/pid >/sys/fs/cgroup/cgroup.procs; exit' TERM
cat /run/lab/vm1/pid >$vm/cgroup.procs
while :; do echo 5000 100000 >$vm/cpu.max; sleep 0.4; echo max 100000 >$vm/cpu.max; sleep 0.8; done'''
# What goes to the guest is lost one time in ten.
DROPS = 'trap "tc qdisc del dev tap1 root; exit" TERM; tc qdisc add dev tap1 root netem loss 10%; while :; do sleep 1; done'
# The host forgets the guest's address now and then, and its question for it is late.
ARP = ('trap "tc qdisc del dev tap1 root; exit" TERM; tc qdisc add dev tap1 root handle 1: prio; '
       'tc qdisc add dev tap1 parent 1:3 handle 3: netem delay 150ms; '
       'tc filter add dev tap1 parent 1: protocol arp prio 1 u32 match u32 0 0 flowid 1:3; '
       'tc filter add dev tap1 parent 1: protocol ip prio 2 u32 match u32 0 0 flowid 1:1; '
       'while :; do ip neigh flush dev br0; sleep 0.9; done')
# The guest's thread that takes frames (threaded NAPI) is kept from its CPU now and then; the server comes first.
NAPI = """echo 1 >/sys/class/net/eth0/threaded; trap 'kill $!; echo 0 >/sys/class/net/eth0/threaded; exit' TERM
xweave lab load spin --busy 150 --pause 600 --fifo 1 & wait"""
SWAP = 'while :; do sleep 1.3; echo 256K >/sys/fs/cgroup/swap/memory.reclaim; done'


def named(*kinds, by=''):
    """By one of these kinds, and that offender."""
    return tuple((kind, by) for kind in kinds)


# Asked first in each recording, and judged in none: an emulator translates what has just been woven when it first runs.
START = Kind('start', ask='--requests 10')

# Where it is vhost that waits: as little work of the vCPU's that this is seldom kept from its CPU meanwhile.
SHORT = '--work 2000'
FUTEX = '--lock 100000 --free 300000'
FORGETS = '--ignore-every 10'
KINDS = (
    # Its p99 is its slowest request: a longer answer, so that nothing that an emulator does is half of it.
    Kind('quiet', serve='--work 50000', ask='--rate 4'),
    Kind('neighbour', domain='host', script=NEIGHBOUR, named=(named('vcpu_preempted', by='sh'),)),
    Kind('vhost-hog', serve=SHORT, by=FIRST, domain='host', script=HOG, named=(named('backend_late', by='sh'),)),
    # QEMU takes each character of a serial console from the vCPU, which takes no interrupts meanwhile.
    Kind('interrupts', domain='vm1', script=CONSOLE, named=(named('interrupt_late', 'vcpu_exits'),)),
    Kind('bursts', ask='--burst 4', named=(named('batch_arrival'),)),
    Kind('threads', serve='--thread-per-request', ask='--requests 90 --rate 8 --burst 5 --singles 10',
         named=(named('own_threads'),)),
    Kind('futex', serve=FUTEX, named=(named('futex'),)),
    Kind('slow', serve='--work 2000 --slow-every 60 --slow 250000', ask='--requests 180 --rate 30',
         named=(named('socket_queue'),)),
    Kind('stopped', domain='vm1', script=STOPS, named=(named('stopped'),)),
    Kind('swap', serve='--memory 192', before=GROUP, domain='vm1', script=SWAP, named=(named('swap_in'),)),
    Kind('netem', domain='host', script=NETEM, named=(named('qdisc', by='netem of tap1'),)),
    Kind('tbf', domain='host', script=TBF, named=(named('qdisc', by='tbf of tap1'),)),
    Kind('stopped-qemu', domain='host', script=STOPS_QEMU, named=(named('stopped'),)),
    Kind('vm-quota', domain='host', script=QUOTA, named=(named('vcpu_throttled'),)),
    Kind('retransmit', serve=FORGETS, ask='--retry 150', named=(named('retransmit'),)),
    # A segment that TCP had to send again.
    Kind('drops', ask='--requests 90 --size 400', domain='host', script=DROPS, named=(named('retransmit'),), tcp=True),
    Kind('late-arp', domain='host', script=ARP, named=(named('neigh', by='next hop at br0'),)),
    # The second half of such a request waits until the first one is acknowledged.
    Kind('nagle', ask='--requests 90 --size 400 --split-every 9', named=(named('send_queue', by='Nagle'),), tcp=True),
    Kind('napi', serve='--fifo 2', domain='vm1', script=NAPI, named=(named('run_queue', by='spin'),)),
    Kind('neighbour-and-futex', serve='--lock 90000 --free 310000', domain='host', script=NEIGHBOUR,
         named=(named('vcpu_preempted', by='sh'), named('futex'))),
    Kind('bursts-and-retransmit', serve='--ignore-every 16', ask='--requests 100 --burst 5 --retry 200',
         named=(named('batch_arrival'), named('retransmit'))),
    Kind('stopped-and-futex', serve='--lock 150000 --free 250000', ask='--requests 75', domain='vm1', script=STOPS,
         named=(named('stopped'), named('futex'))),
    Kind('vhost-hog-and-retransmit', serve=SHORT + ' --ignore-every 16', ask='--requests 100 --retry 150', by=FIRST, domain='host',
         script=HOG, named=(named('backend_late', by='sh'), named('retransmit'))),
    Kind('interrupts-and-futex', serve='--lock 100000 --free 300000', ask='--requests 100', domain='vm1', script=CONSOLE_LINE,
         named=(named('interrupt_late', 'vcpu_exits'), named('futex'))),
)
