"""The kernel as it is in memory, made of its file and of the code that the running one has.

    memory.py text KCORE KALLSYMS                   where the running kernel's code is in /proc/kcore:
                                                    first byte and number of bytes; KCORE is its beginning
    memory.py make VMLINUZ KALLSYMS NOTES TEXT OUT  moves the file's kernel to where the running one is,
                                                    puts TEXT in place of its code, and takes away what
                                                    is dropped after boot: an ELF file like vmlinux
"""
import lzma
import struct
import subprocess
import sys

# Where the kernel maps the physical memory that it is linked to (arch/x86/include/asm/page_64_types.h).
MAP = 0xffffffff80000000
TOOLS = {b'\x28\xb5\x2f\xfd': 'zstd', b'\x02\x21\x4c\x18': 'lz4'}
LOADED, ALLOCATED, EXECUTABLE = 1, 2, 4


def fail(message):
    sys.exit(f'live-index: {message}')


def symbols(path, *names):
    """Where these are, by the running kernel's own table."""
    found = {}
    with open(path) as table:
        for line in table:
            words = line.split()
            if len(words) == 3 and words[2] in names:
                found.setdefault(words[2], int(words[0], 16))
    missing = [name for name in names if not found.get(name)]
    if missing:
        fail(f'{path} has no address for {", ".join(missing)}: is it root who asks?')
    return [found[name] for name in names]


def segments(elf):
    """(offset in the file, virtual address, physical address, size in the file) of what is loaded."""
    start, = struct.unpack_from('<Q', elf, 32)
    each, count = struct.unpack_from('<HH', elf, 54)
    for at in range(start, start + each * count, each):
        kind, _, offset, virtual, physical, size = struct.unpack_from('<IIQQQQ', elf, at)
        if kind == LOADED:
            yield offset, virtual, physical, size


class Section:
    def __init__(self, elf, at):
        self.at = at
        self.name, self.kind, self.flags, self.address, self.offset, self.size = struct.unpack_from(
            '<IIQQQQ', elf, at)

    def write(self, elf):
        struct.pack_into('<QQ', elf, self.at + 8, self.flags, self.address)


class Kernel:
    """The ELF file in a vmlinuz."""

    def __init__(self, path):
        self.path = path
        image = open(path, 'rb').read()
        if image[0x202:0x206] != b'HdrS':
            fail(f'{path} is no kernel in the bzImage format')
        # Documentation/arch/x86/boot.rst: where the kernel proper is, and four bytes with its size behind it.
        offset, length = struct.unpack_from('<II', image, 0x248)
        start = ((image[0x1f1] or 4) + 1) * 512 + offset
        packed = image[start:start + length - 4]
        if packed.startswith(b'\xfd7zXZ\0'):
            self.elf = bytearray(lzma.LZMADecompressor().decompress(packed))
        else:
            tool = next((tool for magic, tool in TOOLS.items() if packed.startswith(magic)), None)
            if not tool:
                fail(f'{path} is compressed with something else than {", ".join(TOOLS.values())} or xz '
                     f'(it begins with {packed[:6].hex()})')
            self.elf = bytearray(subprocess.run([tool, '-dc'], input=packed, check=True, stdout=subprocess.PIPE).stdout)
        start, = struct.unpack_from('<Q', self.elf, 40)
        each, count, names = struct.unpack_from('<HHH', self.elf, 58)
        table = [Section(self.elf, start + each * nth) for nth in range(count)]
        self.end = start + each * count
        strings = table[names].offset
        self.sections = {}
        for section in table:
            at = strings + section.name
            self.sections[self.elf[at:self.elf.index(0, at)].decode()] = section

    def bytes(self, name):
        section = self.sections[name]
        return self.elf[section.offset:section.offset + section.size]

    def relocate(self, slide):
        """As the kernel's own loader does (handle_relocations, arch/x86/boot/compressed/misc.c): behind the
        file are three lists of addresses, each after a zero."""
        parts = list(segments(self.elf))
        words = memoryview(self.elf[self.end:len(self.elf) // 4 * 4]).cast('i')
        nth = len(words) - 1
        for form, add in (('<I', slide), ('<I', -slide), ('<Q', slide)):
            mask = (1 << 8 * struct.calcsize(form)) - 1
            while nth >= 0 and words[nth]:
                address = words[nth] & (1 << 64) - 1
                for offset, _, physical, size in parts:
                    if physical <= address - MAP < physical + size:
                        at = offset + address - MAP - physical
                        value, = struct.unpack_from(form, self.elf, at)
                        struct.pack_into(form, self.elf, at, value + add & mask)
                nth -= 1
            nth -= 1
        if nth != -1:
            fail(f'{self.path} has no table of relocations that ends where the kernel does')

    def make(self, slide, text, dropped):
        self.relocate(slide)
        code = self.sections['.text']
        self.elf[code.offset:code.offset + len(text)] = text
        for section in self.sections.values():
            if section.flags & ALLOCATED and section.address:
                section.address += slide
                if section.address in dropped:
                    section.flags &= ~EXECUTABLE
                section.write(self.elf)


def slide_of(kernel, kallsyms):
    """How far the running kernel was moved when it was loaded."""
    start, = symbols(kallsyms, '_stext')
    return start - kernel.sections['.text'].address


def dropped_of(kallsyms):
    return range(*symbols(kallsyms, '__init_begin', '__init_end'))


def text(kcore, kallsyms):
    start, end = symbols(kallsyms, '_stext', '_etext')
    for offset, virtual, _, size in segments(open(kcore, 'rb').read()):
        if virtual <= start and end <= virtual + size:
            return offset + start - virtual, end - start
    fail(f'{kcore} does not say where the code of {kallsyms} is')


def make(vmlinuz, kallsyms, notes, text, out):
    kernel = Kernel(vmlinuz)
    if kernel.bytes('.notes') != open(notes, 'rb').read():
        fail(f'{vmlinuz} is another build than the running kernel: the build IDs in their notes differ')
    code = open(text, 'rb').read()
    start, end = symbols(kallsyms, '_stext', '_etext')
    if len(code) != end - start or len(code) > kernel.sections['.text'].size:
        fail(f'{text} has {len(code)} bytes, and the running kernel {end - start} of code: it was cut short')
    kernel.make(slide_of(kernel, kallsyms), code, dropped_of(kallsyms))
    with open(out, 'wb') as file:
        file.write(kernel.elf[:kernel.end])


if __name__ == '__main__':
    match sys.argv[1:]:
        case ['text', kcore, kallsyms]:
            print(*text(kcore, kallsyms))
        case ['make', vmlinuz, kallsyms, notes, code, out]:
            make(vmlinuz, kallsyms, notes, code, out)
        case _:
            sys.exit(__doc__)
