//! Reading what tcpdump saw: the independent witness.

/// The sequence numbers that `xweave lab load udp-send` wrote into the datagrams of a pcap file.
pub fn sequence_numbers(pcap: &[u8]) -> Vec<u64> {
    const MAGIC: &[u8] = b"XWSEQ001";
    assert_eq!(pcap[..4], 0xa1b2_c3d4_u32.to_le_bytes(), "a little-endian pcap file");
    let mut rest = &pcap[24..];
    let mut numbers = Vec::new();
    while rest.len() >= 16 {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        // The file may have been cut while its last packet was written.
        let Some(packet) = rest.get(16..16 + length) else { break };
        // Ethernet, IPv4 without options, UDP.
        if let Some(payload) = packet.get(14 + 20 + 8..)
            && payload.starts_with(MAGIC)
        {
            numbers.push(u64::from_le_bytes(payload[8..16].try_into().unwrap()));
        }
        rest = &rest[16 + length..];
    }
    numbers
}
