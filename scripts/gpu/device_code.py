"""Cuts a CUDA library down to the machine code of one GPU architecture.

nvcc stores device code in two ELF sections: .nv_fatbin holds the code that the driver loads,
__nv_relfatbin the code that a device linker would read again. Each is a sequence of containers;
a container is a header (magic 0xBA55ED50, version u16, size of the header u16, size of the rest
u64) followed by entries: kind u16 (1 PTX, 2 machine code), version u16, size of the entry's
header u32, size of its payload u64, and at byte 28 the architecture u32 (90 for sm_90).

A container keeps its position, because the library points to it. The kept entries move together
after its header, the header's size gives their length, and zeros, which compress well, fill the
rest. Zeroing only the payloads is not enough: the driver would still find the other
architectures' entries and fail to uncompress them.
"""

import struct

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_MAGIC = 0xBA55ED50
_MACHINE_CODE = 2
_ARCHITECTURE_AT = 28


def _sections(elf):
    """Returns name, offset and size of the sections of a 64-bit little-endian ELF file."""
    table = struct.unpack_from("<Q", elf, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * size) for i in range(count)]
    texts = headers[names][4]
    for header in headers:
        start = texts + header[0]
        yield bytes(elf[start : elf.index(0, start)]).decode(), header[4], header[5]


def _cut_container(elf, place, keeps):
    """Keeps only the entries that `keeps` accepts. Returns the container's end, and the number of kept entries."""
    _, _, header, length = _CONTAINER.unpack_from(elf, place)
    begin, end = place + header, place + header + length
    kept, count, entry = b"", 0, begin
    while entry < end:
        kind, _, own_header, payload = _ENTRY.unpack_from(elf, entry)
        after = entry + own_header + payload
        if keeps(kind, struct.unpack_from("<I", elf, entry + _ARCHITECTURE_AT)[0]):
            kept += bytes(elf[entry:after])
            count += 1
        entry = after
    elf[begin:end] = kept + bytes(length - len(kept))
    struct.pack_into("<Q", elf, place + _CONTAINER.size - 8, len(kept))
    return end, count


def keep_architecture(library, architecture):
    """Returns `library` with only the machine code of `architecture` (90: sm_90), and the number of
    its modules."""
    elf = bytearray(library)
    modules = 0
    for name, offset, size in list(_sections(elf)):
        if name not in (".nv_fatbin", "__nv_relfatbin"):
            continue
        loaded = name == ".nv_fatbin"
        place = offset
        while place + _CONTAINER.size <= offset + size:
            if _CONTAINER.unpack_from(elf, place)[0] != _MAGIC:
                place += 8
                continue
            place, count = _cut_container(
                elf, place, lambda kind, arch: loaded and kind == _MACHINE_CODE and arch == architecture
            )
            place = (place + 7) & ~7
            modules += count
    return bytes(elf), modules
