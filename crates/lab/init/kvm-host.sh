# Of a KVM host: the hypervisor, and the devices that guests get.
if grep -qw svm /proc/cpuinfo; then
    modprobe kvm_amd
else
    modprobe kvm_intel
fi
modprobe -a vhost_net tun vhost_vsock

# A device of one queue must not have the flag, one of several must.
queues=
if [ "$GUEST_CPUS" -gt 1 ]; then queues=multi_queue; fi
i=1
while [ $i -le "$GUESTS" ]; do
    ip tuntap add "tap$i" mode tap vnet_hdr $queues
    ip link set "tap$i" master br0
    ip link set "tap$i" up
    i=$((i + 1))
done
