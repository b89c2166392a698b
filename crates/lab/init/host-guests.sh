# Makes the guests' initramfs (the lab's base and the program xweave) and starts every guest.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
. /run/lab/config

mkdir -p /run/lab/stage/usr/bin /run/lab/stage/lab
ln -f /run/lab/xweave /run/lab/stage/usr/bin/xweave
files='usr usr/bin usr/bin/xweave'
# Where guests are reached by network, they know by it who may give them commands.
if [ -f /run/lab/guests.token ]; then
    cp -p /run/lab/guests.token /run/lab/stage/lab/token
    files="$files lab lab/token"
fi
(cd /run/lab/stage && printf '%s\n' $files | /run/lab/busybox cpio -o -H newc) >/run/lab/xweave.cpio
cat /run/lab/guest.cpio /run/lab/xweave.cpio >/run/lab/guest.img
rm -r /run/lab/stage /run/lab/guest.cpio /run/lab/xweave.cpio

i=1
while [ $i -le "$GUESTS" ]; do
    sh /run/lab/host-guest.sh $i
    i=$((i + 1))
done
