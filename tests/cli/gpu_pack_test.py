"""scripts/gpu_pack removes the code of other GPU architectures from a CUDA library. The tests
generate an ELF file."""

import os
import struct
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["AM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "scripts" / "gpu"))
import device_code

PTX, MACHINE_CODE = 1, 2


def entry(kind, architecture, payload):
    return struct.pack("<HHIQ", kind, 257, 32, len(payload)) + bytes(12) + struct.pack("<I", architecture) + payload


def container(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(**sections):
    """Returns the bytes of an ELF file with these sections: {name: content}."""
    names, texts, content = b"\0", {}, bytes(64)
    for name in [*sections, "shstrtab"]:
        texts[name] = len(names)
        names += name.encode() + b"\0"
    headers = [bytes(64)]
    for name, data in {**sections, "shstrtab": names}.items():
        content += bytes(-len(content) % 8)
        headers.append(struct.pack("<IIQQQQIIQQ", texts[name], 1, 0, 0, len(content), len(data), 0, 0, 8, 0))
        content += data
    content += bytes(-len(content) % 8)
    table = len(content)
    whole = bytearray(content + b"".join(headers))
    struct.pack_into("<Q", whole, 0x28, table)
    struct.pack_into("<HHH", whole, 0x3A, 64, len(headers), len(headers) - 1)
    return bytes(whole)


class CutTest(unittest.TestCase):
    def test_one_architecture_is_left_and_containers_stay_in_their_places(self):
        kept, second = entry(MACHINE_CODE, 90, b"k" * 24), entry(MACHINE_CODE, 90, b"s" * 40)
        first = container(entry(MACHINE_CODE, 80, b"a" * 16), kept, entry(PTX, 90, b"p" * 8))
        last = container(entry(MACHINE_CODE, 100, b"b" * 8), second)
        linkable = container(entry(MACHINE_CODE, 90, b"l" * 16))
        file = elf(**{".nv_fatbin": first + last, "__nv_relfatbin": linkable, ".text": b"code"})
        cut, modules = device_code.keep_architecture(file, 90)
        self.assertEqual(modules, 2)
        self.assertEqual(len(cut), len(file))
        for whole, left in ((first, kept), (last, second), (linkable, b"")):
            place = file.index(whole)
            self.assertEqual(struct.unpack_from("<IHHQ", cut, place), (0xBA55ED50, 1, 16, len(left)))
            body = cut[place + 16 : place + len(whole)]
            self.assertEqual(body, left + bytes(len(body) - len(left)))
        for gone in (b"aaaa", b"pppp", b"bbbb", b"llll"):
            self.assertNotIn(gone, cut)
        self.assertIn(b"code", cut)

    def test_a_library_without_the_architecture_is_said_to_have_no_module(self):
        file = elf(**{".nv_fatbin": container(entry(MACHINE_CODE, 80, b"a" * 16))})
        self.assertEqual(device_code.keep_architecture(file, 90)[1], 0)


if __name__ == "__main__":
    unittest.main()
