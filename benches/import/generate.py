#!/usr/bin/env python3
"""generate.py SMALL EVENTS LARGE: a large trace.dat or perf.data of a small one that was recorded.

The large one has the records of the small one (crates/import/tests/data), again and again, later each time; a
trace.dat has them on two processors. Nothing else differs: the tools read it as they read any. Prints how many records
it has. The small trace.dat is of version 7, and its records are not packed; nor are those of the small perf.data.
"""
import struct
import sys

PAGE = 4096
CPUS = 2


def number(data, at, size):
    return int.from_bytes(data[at:at + size], 'little')


def behind_text(data, at):
    return data.index(0, at) + 1


def page_content(page):
    """How many records a page has, and how long after its time the last of them was."""
    end = 16 + (number(page, 8, 4) & 0x7ffffff)
    at, records, time = 16, 0, 0
    while at < end:
        word, more = struct.unpack_from('<II', page + bytes(8), at)
        kind, delta = word & 31, word >> 5
        if kind == 29 and delta == 0:
            break
        if kind == 31:
            sys.exit('generate: a record with a time of its own')
        time += delta + ((more << 27) if kind == 30 else 0)
        records += kind < 29
        at += {0: 4 + more, 29: 4 + more, 30: 8}.get(kind, 4 + 4 * kind)
    return records, time


def trace_dat(small, events, file):
    at = behind_text(small, behind_text(small, behind_text(small, 10) + 6))
    # The option that says where the records are, and what leads to the section of options that it is in.
    pointer, section, place = at, number(small, at, 8), None
    while place is None:
        at, found = section + 16, None
        while True:
            kind, size = struct.unpack_from('<HI', small, at)
            at += 6
            if kind == 3:
                found = at
            if kind == 0:
                break
            at += size
        if found:
            place = found
        else:
            pointer, section = at, number(small, at, 8)
    begin, texts = number(small, place, 8), behind_text(small, behind_text(small, place + 8))
    offset, length = number(small, texts + 12, 8), number(small, texts + 20, 8)
    pages = [bytearray(small[at:at + PAGE]) for at in range(offset, offset + length, PAGE)]
    contents = [page_content(page) for page in pages]
    times = [number(page, 0, 8) for page in pages]
    records = sum(count for count, _ in contents)
    span = times[-1] + contents[-1][1] - times[0] + 1000
    rounds = -(-events // (records * CPUS))
    # The section's header and what comes before it; options are written again, behind the records.
    file.write(small[:offset])
    places = b''
    for cpu in range(CPUS):
        start = file.tell()
        for turn in range(rounds):
            for page, time in zip(pages, times):
                struct.pack_into('<Q', page, 0, time + turn * span + cpu * span // CPUS)
            file.write(b''.join(pages))
        places += struct.pack('<IQQ', cpu, start, file.tell() - start)
    option = struct.pack('<Q', begin) + small[place + 8:texts] + struct.pack('<II', PAGE, CPUS) + places
    options = (struct.pack('<HII', 8, 4, CPUS) + struct.pack('<HI', 3, len(option)) + option
               + struct.pack('<HIQ', 0, 8, 0))
    at = file.tell()
    file.write(struct.pack('<HHIQ', 0, 0, 0, len(options)) + options)
    file.seek(pointer)
    file.write(struct.pack('<Q', at))
    return rounds * records * CPUS


def perf_data(small, events, file):
    attrs, data, size = number(small, 24, 8), number(small, 40, 8), number(small, 48, 8)
    sample_type = number(small, attrs + 24, 8)
    # Before the time: the identifier, the instruction and the thread, if they are there.
    time_at = 8 + 8 * sum(sample_type >> bit & 1 for bit in (16, 0, 1))
    samples, before, at = [], b'', data
    while at < data + size:
        kind, length = number(small, at, 4), number(small, at + 6, 2)
        if kind == 9:
            samples.append(small[at:at + length])
        elif not samples and kind != 68:
            before += small[at:at + length]
        at += length
    samples.sort(key=lambda sample: number(sample, time_at, 8))
    times = [number(sample, time_at, 8) for sample in samples]
    span = times[-1] - times[0] + 1000
    block, places = bytearray(), []
    for sample in samples:
        places.append(len(block) + time_at)
        block += sample
    block += struct.pack('<IHH', 68, 0, 8)
    rounds = -(-events // len(samples))
    file.write(small[:data])
    file.write(before)
    for turn in range(rounds):
        for place, time in zip(places, times):
            struct.pack_into('<Q', block, place, time + turn * span)
        file.write(block)
    # What is behind the records moves.
    end = file.tell()
    moved, features = end - data - size, sum(byte.bit_count() for byte in small[72:104])
    for nth in range(features):
        at, length = struct.unpack_from('<QQ', small, data + size + 16 * nth)
        file.write(struct.pack('<QQ', at + moved, length))
    file.write(small[data + size + 16 * features:])
    file.seek(48)
    file.write(struct.pack('<Q', end - data))
    return rounds * len(samples)


def main():
    name, events, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(name, 'rb') as file:
        small = file.read()
    with open(out, 'wb') as file:
        make = perf_data if small.startswith(b'PERFILE2') else trace_dat
        print(make(small, events, file))


if __name__ == '__main__':
    main()
