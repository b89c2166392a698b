# Starts guest number $1; its console, QEMU's messages, monitor and pid file are in /run/lab/vm$1.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
. /run/lab/config
i=$1
dir=/run/lab/vm$i
mkdir -p "$dir"
[ -f "$dir/uuid" ] || cat /proc/sys/kernel/random/uuid >"$dir/uuid"
# The guest's disk, empty: what is not written takes no room.
disk=/var/tmp/vm$i.disk
[ -f "$disk" ] || truncate -s 512M "$disk"

exec qemu-system-x86_64 -name "vm$i" -uuid "$(cat "$dir/uuid")" -daemonize -pidfile "$dir/pid" -D "$dir/qemu.log" \
    -accel kvm -cpu host -machine pc,mem-merge=off -smp "$GUEST_CPUS" -m 256 \
    -nodefaults -no-user-config -display none -vga none \
    -chardev "file,id=console,path=$dir/console.log,append=on" -serial chardev:console \
    -qmp "unix:$dir/qmp.sock,server=on,wait=off" \
    -netdev "tap,id=n0,ifname=tap$i,script=no,downscript=no,vhost=on,queues=$GUEST_CPUS" \
    -device "virtio-net-pci,netdev=n0,mac=52:54:00:77:00:$(printf %02x "$i"),mq=on,vectors=$((2 * GUEST_CPUS + 2)),romfile=" \
    -drive "if=none,id=d0,file=$disk,format=raw" -device virtio-blk-pci,drive=d0 \
    -device "vhost-vsock-pci,guest-cid=$((2 + i))" \
    -kernel /run/lab/vmlinuz -initrd /run/lab/guest.img \
    -append "console=ttyS0 $GUEST_APPEND xweave.domain=vm$i xweave.address=10.77.0.$i/24" 2>>"$dir/start.err"
