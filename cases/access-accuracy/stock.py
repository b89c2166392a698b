#!/usr/bin/env python3
"""stock.py VMLINUX BUILD TRUTH FILE...: keep the truth that holds for the stock kernel

FILE is as net/core/skbuff: BUILD/net/core/skbuff.o is the object, TRUTH/net_core_skbuff.truth what
truth.py made of it.  A function's truth is kept if VMLINUX has the same machine code under that name,
once: byte by byte, but for what the linker fills in and for the jumps of static branches, which objtool
makes nops in the linked kernel.  Writes TRUTH/net_core_skbuff.stock, the lines kept, and .at: the kept
functions' names, addresses in VMLINUX and sizes.  Prints how many were kept, and the others by name."""
import struct
import sys
from collections import Counter, defaultdict

from elftools.elf.elffile import ELFFile

EXECUTABLE = 4
EIGHT_BYTES = (1, 24)  # R_X86_64_64, R_X86_64_PC64; all others fill in four


def functions(elf):
    for symbol in elf.get_section_by_name('.symtab').iter_symbols():
        if symbol['st_info']['type'] == 'STT_FUNC' and isinstance(symbol['st_shndx'], int) and symbol['st_size']:
            yield symbol.name, symbol['st_shndx'], symbol['st_value'], symbol['st_size']


def filled_in(elf, sections):
    """Section -> offsets of the bytes that the linker fills in."""
    sites = defaultdict(set)
    for section in sections:
        if section['sh_type'] == 'SHT_RELA' and sections[section['sh_info']]['sh_flags'] & EXECUTABLE:
            for offset, info, _ in struct.iter_unpack('<QQq', section.data()):
                size = 8 if info & 0xffffffff in EIGHT_BYTES else 4
                sites[section['sh_info']].update(range(offset, offset + size))
    return sites


def same_code(compiled, start, sites, linked):
    at = 0
    while at < len(compiled):
        if compiled[at] == linked[at] or start + at in sites:
            at += 1
        elif compiled[at] == 0xeb and linked[at:at + 2] == b'\x66\x90':
            at += 2
        elif compiled[at] == 0xe9 and linked[at:at + 5] == b'\x0f\x1f\x44\x00\x00':
            at += 5
        else:
            return False
    return True


def main():
    vmlinux, build, truth, *files = sys.argv[1:]
    elf = ELFFile(open(vmlinux, 'rb'))
    sections = [(s['sh_addr'], s.data() if s['sh_flags'] & EXECUTABLE else b'') for s in elf.iter_sections()]
    stock = defaultdict(dict)
    for name, section, address, size in functions(elf):
        base, code = sections[section]
        stock[name][address] = code[address - base:address - base + size]
    count, left_out = Counter(), []
    for file in files:
        elf = ELFFile(open(f'{build}/{file}.o', 'rb'))
        parts = list(elf.iter_sections())
        sites = filled_in(elf, parts)
        where = {name: (section, start, size) for name, section, start, size in functions(elf)}
        table = f'{truth}/{file.replace("/", "_")}'
        lines = open(f'{table}.truth').readlines()
        at = {}
        for name in {line.split('\t')[0] for line in lines if not line.startswith('#')}:
            section, start, size = where[name]
            code = parts[section].data()[start:start + size]
            equal = [address for address, linked in stock[name].items()
                     if len(linked) == size and same_code(code, start, sites[section], linked)]
            if len(equal) == 1:
                at[name] = (equal[0], size)
                count['kept'] += 1
            else:
                why = 'in there twice' if equal else 'other code' if stock[name] else 'not in there'
                count[why] += 1
                left_out.append(f'{name} ({file}: {why})')
        with open(f'{table}.stock', 'w') as out:
            out.writelines(line for line in lines if line.startswith('#') or line.split('\t')[0] in at)
        with open(f'{table}.at', 'w') as out:
            out.writelines(f'{name}\t{address:x}\t{size:x}\n' for name, (address, size) in sorted(at.items()))
    print(f'{count.total()} functions with truth; not measured: {count["other code"]} whose machine code is not '
          f'the stock kernel\'s, {count["not in there"]} that it has not, {count["in there twice"]} that it has '
          'more than once, alike')
    print(*(f'  {one}' for one in sorted(left_out)), sep='\n')


if __name__ == '__main__':
    main()
