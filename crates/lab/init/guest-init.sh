#!/bin/busybox sh
# First program of a guest: everything runs from the initramfs.
export PATH=/usr/bin:/bin
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /root /etc /var/log /usr/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf

domain=guest
address=
control=
for word in $(cat /proc/cmdline); do
    case $word in
    xweave.domain=*) domain=${word#*=} ;;
    xweave.address=*) address=${word#*=} ;;
    xweave.control=*) control=${word#*=} ;;
    esac
done
hostname "$domain"
echo "root::0:0:root:/root:/bin/sh" >/etc/passwd
printf '127.0.0.1 localhost\n10.77.0.254 host dom0\n' >/etc/hosts

echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
for module in $(cat /lab/modules); do
    # With what the kernel's command line says of it, as modprobe does.
    insmod "/lab/modules.d/$module.ko" $(grep -o "\b$module\.[^ ]*" /proc/cmdline | sed "s/^$module\.//")
done
rm -r /lab/modules.d
ip link set lo up
ip addr add "$address" dev eth0
ip link set eth0 up
if [ -n "$control" ]; then
    ip addr add "$control" dev eth1
    ip link set eth1 up
    echo "${control%/*}" >/run/control
fi
exec /bin/busybox init
