# What a guest does: a build of real sources, then a web server that is asked for its whole tree. In a guest.
#
#   load.sh begin [MIB]   mounts the disk; so much of the memory is taken by something else that nobody else has
#   load.sh work          does it
#   load.sh end           leaves nothing of it
set -e
disk=/opt
case $1 in
begin)
    mkdir -p $disk /full
    mount -o noatime /dev/vda $disk
    if [ -n "${2:-}" ]; then
        mount -t tmpfs -o size=90% tmpfs /full
        dd if=/dev/urandom of=/full/own bs=1M count="$2" 2>/dev/null
    fi
    ;;
work)
    cd $disk
    for source in src/zlib/[!g]*.c src/libbpf/src/[!bglu]*.c; do
        chroot $disk /usr/bin/x86_64-linux-gnu-gcc-12 -O0 -g -D_GNU_SOURCE -D_LARGEFILE64_SOURCE=1 -Isrc/zlib \
            -Isrc/libbpf/include -Isrc/libbpf/include/uapi -Isrc/libbpf/src -c "$source" -o "tmp/$(basename "$source" .c).o"
    done
    ls tmp/*.o | wc -l
    httpd -p 127.0.0.1:8080 -h $disk/www
    cd $disk/www
    find html -name '*.html' | sort | sed 's|^|http://127.0.0.1:8080/|' | xargs -n 50 wget -q -O /dev/null
    killall httpd
    ;;
end)
    rm -f $disk/tmp/*
    umount $disk
    umount /full 2>/dev/null || true
    echo 3 >/proc/sys/vm/drop_caches
    ;;
esac
