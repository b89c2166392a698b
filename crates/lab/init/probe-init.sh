#!/bin/busybox sh
# Tells whether hardware virtualization runs a stock kernel, and whether guests of that one could use it too.
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in $(cat /lab/modules); do
    insmod "/lab/modules.d/$module.ko" 2>/dev/null
done
if [ -c /dev/kvm ]; then echo "xweave-probe nested=yes"; else echo "xweave-probe nested=no"; fi
poweroff -f
