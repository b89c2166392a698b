# Starts guest number $1, anew if it runs; its console and xl's messages are in /run/lab/vm$1.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
. /run/lab/config
i=$1
dir=/run/lab/vm$i
mkdir -p "$dir"
ln -sf "/var/log/xen/console/guest-vm$i.log" "$dir/console.log"
xl destroy "vm$i" 2>/dev/null
# The guest's disk, empty: what is not written takes no room.
disk=/var/tmp/vm$i.disk
[ -f "$disk" ] || truncate -s 512M "$disk"
[ -b "/dev/loop$i" ] || mknod "/dev/loop$i" b 7 "$i"
losetup "/dev/loop$i" >/dev/null 2>&1 || losetup --direct-io=on "/dev/loop$i" "$disk"

# Linux 7.3 reads a register of an AMD machine's chipset, which no paravirtual guest may, and crashes.
skip=initcall_blacklist=print_s5_reset_status_mmio

mac=$(printf %02x "$i")
script=script=/run/lab/vif.sh
cat >"$dir/config" <<END
name = "vm$i"
type = "pv"
kernel = "/run/lab/vmlinuz"
ramdisk = "/run/lab/guest.img"
extra = "console=hvc0 $GUEST_APPEND $skip xen_netfront.max_queues=2 xweave.domain=vm$i xweave.address=10.77.0.$i/24 xweave.control=10.78.0.$i/24"
memory = 256
vcpus = $GUEST_CPUS
vif = ["mac=00:16:3e:77:00:$mac,bridge=br0,$script", "mac=00:16:3e:78:00:$mac,bridge=lab0,$script"]
disk = ["format=raw, vdev=xvda, access=rw, backendtype=phy, script=/run/lab/vbd.sh, target=/dev/loop$i"]
# The guest reads the machine's own TSC: by default Xen emulates each reading.
tsc_mode = "native"
END
exec xl create "$dir/config" >"$dir/start.err" 2>&1
