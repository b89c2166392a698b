#!/usr/bin/env python3
"""generate.py SMALL.dat EVENTS CPUS LARGE.dat: a large trace.dat of a small one.

The small one was recorded (crates/import/tests/data); it is of version 7, and its records are not packed. The large
one has its pages as they are, but for the time that each begins with, again and again, on several processors: so
trace-cmd reads it as it reads any.
"""
import struct
import sys

name, events, cpus, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
PAGE = 4096
small = open(name, 'rb').read()


def number(at, size):
    return int.from_bytes(small[at:at + size], 'little')


def skip_text(at):
    return small.index(0, at) + 1


at = skip_text(10) + 6
packing_end = skip_text(at)
if small[at:packing_end] != b'none\0':
    sys.exit(f'{name}: its records are packed')
at = skip_text(packing_end)

# The option that says where the records are, and the pointer to the section of options that it is in.
pointer, section, place = at, number(at, 8), None
while section and place is None:
    at = section + 16
    while True:
        kind, size = struct.unpack_from('<HI', small, at)
        if kind == 3:
            place = at + 6
        if kind == 0:
            pointer_next, next_section = at + 6, number(at + 6, 8)
            break
        at += 6 + size
    if place is None:
        pointer, section = pointer_next, next_section
begin = number(place, 8)
texts_end = skip_text(skip_text(place + 8))
texts = small[place + 8:texts_end]
offset, length = number(texts_end + 12, 8), number(texts_end + 20, 8)
pages = [bytearray(small[at:at + PAGE]) for at in range(offset, offset + length, PAGE)]


def count(page):
    """Records of a page, and how long after its time the last of them was."""
    end = 16 + (int.from_bytes(page[8:12], 'little') & 0x7ffffff)
    at, records, time = 16, 0, 0
    while at < end:
        word, more = struct.unpack_from('<II', page.ljust(PAGE + 8, b'\0'), at)
        kind, delta = word & 31, word >> 5
        if kind == 29 and delta == 0:
            break
        time += delta
        if kind == 30:
            time += more << 27
        elif kind == 31:
            sys.exit(f'{name}: a record with a time of its own')
        elif kind != 29:
            records += 1
        at += {29: 4 + more, 30: 8, 31: 8, 0: 4 + more}.get(kind, 4 + 4 * kind)
    return records, time


counts = [count(page) for page in pages]
per_round = sum(records for records, _ in counts)
first = int.from_bytes(pages[0][:8], 'little')
last = int.from_bytes(pages[-1][:8], 'little') + counts[-1][1]
span = last - first + 1000
rounds = -(-events // (per_round * cpus))

with open(out, 'wb') as file:
    head = bytearray(small[:begin])
    # Whatever lies behind the records is not needed: options are written again, behind all of them.
    file.write(head)
    file.write(b'\0' * (-len(head) % PAGE))
    times = [int.from_bytes(page[:8], 'little') for page in pages]
    places = []
    for cpu in range(cpus):
        start = file.tell()
        for turn in range(rounds):
            shift = turn * span + cpu * span // cpus
            for page, time in zip(pages, times):
                struct.pack_into('<Q', page, 0, time + shift)
            file.write(b''.join(pages))
        places.append((cpu, start, file.tell() - start))
    options = struct.pack('<Q', file.tell() + 16) + b''
    data = struct.pack('<Q', begin) + texts + struct.pack('<II', PAGE, cpus)
    data += b''.join(struct.pack('<IQQ', *place) for place in places)
    cpu_count = struct.pack('<HII', 8, 4, cpus)
    body = cpu_count + struct.pack('<HI', 3, len(data)) + data + struct.pack('<HIQ', 0, 8, 0)
    section_at = file.tell()
    file.write(struct.pack('<HHIQ', 0, 0, 0, len(body)) + body)
    # The section that the records' place was in goes: the one before it leads to the new one.
    file.seek(pointer)
    file.write(struct.pack('<Q', section_at))
    # Records are in a section, whose header trace-cmd reads.
    file.seek(0, 2)
print(rounds * per_round * cpus)
