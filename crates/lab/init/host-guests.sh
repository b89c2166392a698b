# Makes the guests' initramfs (the lab's base and the program xweave) and starts every guest.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
. /run/lab/config

mkdir -p /run/lab/stage/usr/bin
ln -f /run/lab/xweave /run/lab/stage/usr/bin/xweave
(cd /run/lab/stage && printf 'usr\nusr/bin\nusr/bin/xweave\n' | /run/lab/busybox cpio -o -H newc) >/run/lab/xweave.cpio
cat /run/lab/guest.cpio /run/lab/xweave.cpio >/run/lab/guest.img
rm -r /run/lab/stage /run/lab/guest.cpio /run/lab/xweave.cpio

i=1
while [ $i -le "$GUESTS" ]; do
    sh /run/lab/host-guest.sh $i
    i=$((i + 1))
done
