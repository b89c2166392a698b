# Prints the functions that run under the load, as the function tracer sees them in moments of a burst: nearly all
# that run often, and some of the others.
cd /sys/kernel/tracing || exit
echo 0 >tracing_on
echo 4096 >buffer_size_kb
echo function >current_tracer
bash /run/soak-load.sh burst &
while kill -0 $! 2>/dev/null; do
    echo 1 >tracing_on
    sleep 0.2
    echo 0 >tracing_on
    cat trace
    : >trace
done | awk '/ <-/ { seen[$(NF - 1)]; seen[substr($NF, 3)] } END { for (name in seen) print name }'
echo nop >current_tracer
echo 1 >tracing_on
