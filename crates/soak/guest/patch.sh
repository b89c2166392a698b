# Patches the kernel's code while every CPU runs it: the function tracer of all functions on and off, and kprobes in and
# out. Each CPU has a loop of system calls and short processes. The console has a line for each round that is over, so that
# it has those of a kernel that died as well.
#
#   patch.sh ROUNDS
functions='vfs_read vfs_write vfs_open kernel_clone do_exit'
cd /sys/kernel/tracing || exit
for cpu in $(seq "$(nproc)"); do
    while :; do
        read -r line </proc/self/stat
        cat /proc/self/maps | head -n 1
    done >/dev/null &
    load="$load $!"
done
for round in $(seq "$1"); do
    echo function >current_tracer
    sleep 0.5
    echo nop >current_tracer
    for function in $functions; do echo "p:soak/$function $function" >>kprobe_events || exit; done
    echo 1 >events/soak/enable
    sleep 0.5
    echo 0 >events/soak/enable
    for function in $functions; do echo "-:soak/$function" >>kprobe_events || exit; done
    echo "<4>xweave-soak: $round of $1 rounds" >/dev/kmsg
done
kill $load
