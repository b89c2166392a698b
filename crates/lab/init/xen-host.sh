# Of dom0: Xen's tools, and the way to its guests.
modprobe -a xen-privcmd xenfs xen-evtchn xen-gntdev xen-gntalloc
# Several queues, of which there are otherwise as many as CPUs. (A guest with two CPUs takes ten times as long for what all
# of them must be told: they take turns on one that is emulated.)
modprobe xen-netback max_queues=2
modprobe -a xen-blkback loop
mount -t xenfs xenfs /proc/xen

# A paravirtual guest has no vsock: commands reach it through an interface of their own, so that they
# can be told from what is measured.
ip link add lab0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
ip addr add 10.78.0.254/24 dev lab0
ip link set lab0 up
# Not dom0's: no guest must be able to give dom0 commands.
(umask 077 && tr -d - </proc/sys/kernel/random/uuid >/run/lab/guests.token)

# Connects a guest's interface. Xen's own script does the same in four times the time, under emulation.
cat >/run/lab/vif.sh <<'END'
#!/bin/sh
[ "$1" = online ] || exit 0
ip link set "$vif" master "$(xenstore-read "$XENBUS_PATH/bridge")" up
xenstore-write "$XENBUS_PATH/hotplug-status" connected
END
# And its disk.
cat >/run/lab/vbd.sh <<'END'
#!/bin/sh
[ "$1" = add ] || exit 0
xenstore-write "$XENBUS_PATH/physical-device" "$(stat -L -c %t:%T "$(xenstore-read "$XENBUS_PATH/params")")"
xenstore-write "$XENBUS_PATH/hotplug-status" connected
END
chmod 755 /run/lab/vif.sh /run/lab/vbd.sh

mkdir -p /var/log/xen/console /var/lib/xen /run/xen
xen=$(echo /usr/lib/xen-[0-9]*/bin)
"$xen/xenstored" --pid-file /run/xenstored.pid
"$xen/xen-init-dom0"
"$xen/xenconsoled" --log=guest --log-dir=/var/log/xen/console
