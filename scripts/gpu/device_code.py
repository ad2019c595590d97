"""Cuts a CUDA library down to the machine code of one GPU architecture.

nvcc stores device code in two ELF sections: .nv_fatbin holds what the driver loads, __nv_relfatbin what a linker of device
code would read again. Each is a row of containers, and a container is a header (magic 0xBA55ED50, version u16, size of the
header u16, size of the rest u64) followed by entries: kind u16 (1 PTX, 2 machine code), version u16, size of the entry's
header u32, size of its payload u64, and at byte 28 the architecture u32 (90 for sm_90).

A container stays where it is, because the library points to it. The kept entries move together behind its header, the
header's size says how long they are, and zeros fill the rest, which a compressor turns into nothing. Zeros over the payloads
alone would not do: the driver would still find the other architectures' entries and fail to uncompress them.
"""

import struct

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_MAGIC = 0xBA55ED50
_MACHINE_CODE = 2
_ARCHITECTURE_AT = 28


def _sections(elf):
    """Name, offset and size of the sections of a 64-bit little-endian ELF file."""
    table = struct.unpack_from("<Q", elf, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * size) for i in range(count)]
    texts = headers[names][4]
    for header in headers:
        start = texts + header[0]
        yield bytes(elf[start : elf.index(0, start)]).decode(), header[4], header[5]


def _cut_container(elf, place, keeps):
    """Keeps the entries that `keeps` accepts; returns the container's end and how many entries it kept."""
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
    """The bytes of `library` with the machine code of `architecture` (90: sm_90) alone, and how many modules that is."""
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
