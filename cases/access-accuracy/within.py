#!/usr/bin/env python3
"""within.py VMLINUX PRED...: name in perf's answers the structures within the one that perf names

perf says only the outermost structure and the offset in it; xweave lists every structure around the
access.  So that both are scored alike, the structures within perf's, at that offset, are added from the
kernel's BTF; in a union, those of all its members.  The files are replaced."""
import struct
import sys

from elftools.elf.elffile import ELFFile

INT, PTR, ARRAY, STRUCT, UNION, ENUM, TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG, ENUM64 = (
    1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 18, 19)
ALIKE = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)
# Bytes behind a type's head: fixed, and for each of its parts.
MORE = {INT: (4, 0), ARRAY: (12, 0), STRUCT: (0, 12), UNION: (0, 12), ENUM: (0, 8), 13: (0, 8), 14: (4, 0),
        15: (0, 12), 17: (4, 0), ENUM64: (0, 12)}


class Types:
    def __init__(self, data):
        head, type_at, type_len, name_at, _ = struct.unpack_from('<IIIII', data, 4)
        self.names = data[head + name_at:]
        self.all = [(0, '', 0, b'', False)]     # kind, name, size or type, what is behind, bit-fields
        at, end = head + type_at, head + type_at + type_len
        while at < end:
            name, info, size = struct.unpack_from('<III', data, at)
            kind, parts = info >> 24 & 31, info & 0xffff
            fixed, each = MORE.get(kind, (0, 0))
            more = fixed + each * parts
            self.all.append((kind, self.name(name), size, data[at + 12:at + 12 + more], bool(info >> 31)))
            at += 12 + more
        self.named = {}
        for number, (kind, name, target, *_) in enumerate(self.all):
            if name and kind in (STRUCT, UNION, TYPEDEF):
                self.named.setdefault(({STRUCT: 's', UNION: 'u', TYPEDEF: 't'}[kind], name), number)

    def name(self, at):
        return self.names[at:self.names.index(b'\0', at)].decode()

    def bare(self, number):
        """(the type without typedefs and qualifiers, the last typedef's name)"""
        typedef = ''
        while self.all[number][0] in ALIKE:
            if self.all[number][0] == TYPEDEF:
                typedef = self.all[number][1]
            number = self.all[number][2]
        return number, typedef

    def size(self, number):
        kind, _, size, more, _ = self.all[self.bare(number)[0]]
        if kind == ARRAY:
            element, _, count = struct.unpack('<III', more)
            return self.size(element) * count
        return 8 if kind == PTR else size if kind in (INT, STRUCT, UNION, ENUM, ENUM64) else 0

    def around(self, number, offset):
        """The levels around the byte at the offset, outermost first."""
        number, typedef = self.bare(number)
        kind, name, _, more, bits = self.all[number]
        if kind == ARRAY:
            element = struct.unpack('<III', more)[0]
            size = self.size(element)
            if size:
                yield from self.around(element, offset % size)
        elif kind in (STRUCT, UNION):
            if name or typedef:
                yield f'{"t" if not name else "su"[kind == UNION]} {name or typedef}:{offset}:{offset + 1}'
            for _, member, at in struct.iter_unpack('<III', more):
                start = (at & 0xffffff if bits else at) // 8
                if start <= offset < start + self.size(member):
                    yield from self.around(member, offset - start)


def main():
    vmlinux, *files = sys.argv[1:]
    types = Types(ELFFile(open(vmlinux, 'rb')).get_section_by_name('.BTF').data())
    for file in files:
        lines = [line.rstrip('\n').split('\t') for line in open(file)]
        with open(file, 'w') as out:
            for line in lines:
                if line[3]:
                    named, start, _ = line[3].split(':')
                    number = types.named.get(tuple(named.split(' ', 1)))
                    levels = [] if number is None else types.around(number, int(start))
                    line[3] = '/'.join(dict.fromkeys([line[3], *levels]))
                print(*line, sep='\t', file=out)


if __name__ == '__main__':
    main()
