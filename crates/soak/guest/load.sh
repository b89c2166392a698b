# The load of a soak: network, disk, scheduler, memory and files at once.
#
#   load.sh background     goes on until it is killed, with pauses: the kernel is at work while it is woven
#   load.sh burst          as much as the machine can do, and so much in all: what runs while is recorded
#
# All of it is loops of short commands, so that processes are made, named and ended all the time.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
dir=/var/tmp/soak-$1
mkdir -p "$dir"

# forever FUNCTION: with pauses twenty times as long as it takes, however slow the machine is.
forever() {
    local begun took
    while :; do
        begun=${EPOCHREALTIME/./}
        "$1"
        took=$((${EPOCHREALTIME/./} - begun))
        sleep "$((20 * took / 1000000)).$(printf %06d $((20 * took % 1000000)))"
    done
}
# a_few_times NUMBER FUNCTION
a_few_times() {
    local done=0
    while [ $done -lt "$1" ]; do
        "$2"
        done=$((done + 1))
    done
}

datagrams() {
    xweave lab load udp-recv --port "$port" --count 200 --idle-timeout 1 &
    xweave lab load udp-send --to "127.0.0.1:$port" --count 200 --rate 1000 --senders 2 --size 1200
    wait $!
}
connections() {
    xweave lab load tcp-serve --port $((port + 1)) --connections 2 &
    until xweave lab load tcp-get --to "127.0.0.1:$((port + 1))" --requests 40 --concurrency 2 --size 20000; do
        kill -0 $! || return
    done
    wait $!
    ping -q -f -c 50 127.0.0.1
}
# Past the page cache, through it, and writing back.
disk() {
    dd if=/dev/zero of="$dir/direct" bs=16k count=8 oflag=direct
    dd if=/dev/vdb of=/dev/null bs=64k count=8 skip=$((RANDOM % 4000)) iflag=direct
    dd if=/dev/zero of="$dir/cached" bs=4k count=64 conv=fsync
    rm -f "$dir/cached"
}
# Short processes, pipes, wake-ups, page faults.
processes() {
    seq 300 | sort -r | tail -n 1
}
# Changing what a file system knows, and reading what the kernel tells of itself.
files() {
    mkdir -p "$dir/a/b" && : >"$dir/a/b/file" && ln "$dir/a/b/file" "$dir/a/link"
    mv "$dir/a/link" "$dir/a/moved" && rm -r "$dir/a"
    cat /proc/self/maps /proc/meminfo /proc/stat /proc/net/tcp /proc/[0-9]*/stat
}

case $1 in
    background)
        port=7001
        for part in datagrams connections disk processes processes files; do
            forever $part &
        done
        ;;
    burst)
        port=7003
        for part in datagrams connections disk files; do
            a_few_times 2 $part &
        done
        for worker in 1 2; do
            a_few_times 15 processes &
        done
        ;;
esac >/dev/null 2>&1
wait
rm -rf "$dir"
