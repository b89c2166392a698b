# What a guest does to its files while they are merged, until /tmp/stop is there: writes them anew, overwrites and truncates
# them, deletes them, drops its caches, moves its memory about, and runs out of it. After each it looks whether every file
# holds what was written to it. In a guest: under-fire.sh FOLDER
folder=$1

# pages A B CUT FROM TO: of a file whose pages before CUT hold what A says, and the others what B says, those from FROM to TO.
pages() {
    awk -v a="$1" -v b="$2" -v cut="$3" -v from="$4" -v to="$5" \
        'BEGIN { for (page = from; page < to; page++) printf "%-4096s", (page < cut ? a : b) " " page }'
}

# What FILE holds is kept beside it, where nothing is merged: A B CUT, and how many pages.
is() { echo "$2" >"/tmp/is-$1"; }

rm -f /tmp/is-* /tmp/stop
# These stay as they are, the same in both guests: there is always something to merge.
for name in same-1 same-2; do
    pages $name $name 0 0 100 >$folder/$name
    touch -d '2026-01-02 03:04:05' $folder/$name
    is $name "$name $name 0 100"
done
round=0
while [ ! -e /tmp/stop ]; do
    round=$((round + 1))
    name=$((RANDOM % 6))
    file=$folder/$name
    case $((RANDOM % 10)) in
    # Anew: the same in both guests, often.
    0 | 1 | 2)
        a=$((RANDOM % 3))
        pages $a $a 0 0 $((40 + a * 20)) >$file
        touch -d "2026-01-02 03:04:0$a" $file
        is $name "$a $a 0 $((40 + a * 20))"
        ;;
    3 | 4)
        if read -r a b cut count 2>/dev/null </tmp/is-$name && [ $count -gt 1 ]; then
            # What was overwritten before is within what is now.
            [ $cut -gt 0 ] || cut=$count
            cut=$((RANDOM % cut)) b=$((3 + RANDOM % 100))
            pages $b $b 0 $cut $count | dd of=$file bs=4096 seek=$cut conv=notrunc 2>/dev/null
            # From the first page on: there is nothing else any more.
            if [ $cut = 0 ]; then a=$b; fi
            is $name "$a $b $cut $count"
        fi
        ;;
    5)
        if read -r a b cut count 2>/dev/null </tmp/is-$name; then
            count=$((RANDOM % count + 1))
            truncate -s $((count * 4096)) $file
            if [ $cut -ge $count ]; then b=$a cut=0; fi
            is $name "$a $b $cut $count"
        fi
        ;;
    6) rm -f $file /tmp/is-$name ;;
    7) sync && echo 3 >/proc/sys/vm/drop_caches ;;
    8) echo 1 >/proc/sys/vm/compact_memory ;;
    # It is what the kernel kills then.
    9) [ $((RANDOM % 4)) != 0 ] || sh -c 'echo 1000 >/proc/self/oom_score_adj; exec tail /dev/zero' 2>/dev/null ;;
    esac
    for name in 0 1 2 3 4 5 same-1 same-2; do
        read -r a b cut count 2>/dev/null </tmp/is-$name || continue
        held=$(sha256sum <$folder/$name) wanted=$(pages $a $b $cut 0 $count | sha256sum)
        [ "$held" = "$wanted" ] || echo "wrong in round $round: $folder/$name is not $a $b $cut $count"
    done
done
echo "$round rounds"
