# Sets up the emulated host: file systems, the bridge for its guests, then what its kind needs.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
. /run/lab/config

hostname "$HOST"
echo "$HOST" >/etc/hostname
{
    echo "127.0.0.1 localhost"
    echo "10.77.0.254 $HOST"
    i=1
    while [ $i -le "$GUESTS" ]; do
        echo "10.77.0.$i vm$i"
        i=$((i + 1))
    done
} >/etc/hosts

mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup

# Nobody here uses IPv6: its solicitations would only be noise in traces of the network.
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6

ip link set lo up
# The way in for the exec server; not on the bridge, so that it is in no trace of the guests.
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up

modprobe bridge
ip link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
ip addr add 10.77.0.254/24 dev br0
ip link set br0 up
. /run/lab/host-kind.sh
