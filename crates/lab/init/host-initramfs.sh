#!/bin/busybox sh
# First program of the emulated host: finds the root image and hands over to it.
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev

fail() {
    echo "xweave lab: $*"
    poweroff -f
}

for module in $(cat /lab/modules); do
    insmod "/lab/modules.d/$module.ko" || fail "cannot insert $module"
done

# The disks' probe may finish after insmod returns.
tries=0
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do
    tries=$((tries + 1))
    [ $tries -lt 1000 ] || fail "the disks did not appear"
    usleep 20000
done
mount -t ext4 -o noatime /dev/vda /root || fail "cannot mount the root image"
mkdir -p /root/usr/lib/modules
mount -t ext4 -o ro /dev/vdb /root/usr/lib/modules || fail "cannot mount the modules image"

mount -t tmpfs -o mode=755 tmpfs /root/run
mkdir /root/run/lab
cp -a /lab/. /root/run/lab/
rm -r /root/run/lab/modules /root/run/lab/modules.d
cp /bin/busybox /root/run/lab/busybox
cp /lab/host-inittab /root/etc/inittab
ln -sf /run/lab/xweave /root/usr/bin/xweave

mount --move /proc /root/proc
mount --move /sys /root/sys
mount --move /dev /root/dev
exec switch_root /root /run/lab/busybox init
