#!/usr/bin/env python3
"""Finds wide vector instructions outside the code that is chosen by cpuid.

The program must run on a CPU with SSE2 only, so VEX and EVEX encoded instructions may occur only in functions of the
namespaces quire::ops::cpu::avx2 and ::avx512; a helper that the compiler put elsewhere (an inline function of a
header, an outlined lambda) could be the one that the linker keeps for everybody. Also, avx2 code must have no EVEX.

Usage: check_isa_isolation.py BUILD_FOLDER   (reads libquire_*.a and the kernels' object files in it)
"""
import pathlib
import re
import subprocess
import sys

SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\t((?:[0-9a-f]{2} )+)\s*(?:\t(.*))?$")
SEGMENT_AND_ADDRESS_PREFIXES = ("26", "2e", "36", "3e", "64", "65", "67")
NAMESPACE = "N[rVK]*5quire3ops3cpu"  # with the qualifiers of a member function


def owner(symbol):
    """The ISA in whose namespace a mangled symbol lies, or None."""
    found = re.search(NAMESPACE + r"(7generic|4avx2|6avx512|11avx512_bf16|11avx512_vnni)", symbol)
    return found.group(1).lstrip("0123456789") if found else None


def encoding(code):
    """"vex", "evex" or None. In 64-bit mode these first bytes have no other meaning (Intel SDM volume 2, 2.3 and 2.7)."""
    while code and code[0] in SEGMENT_AND_ADDRESS_PREFIXES:
        code = code[1:]
    if not code:
        return None
    return {"62": "evex", "c4": "vex", "c5": "vex"}.get(code[0])


def violations(archive):
    """(symbol, instruction) pairs that break the rule, and the number of wide instructions that obey it."""
    dump = subprocess.run(["objdump", "-d", "-w", str(archive)], capture_output=True, text=True, check=True).stdout
    symbol, found, allowed = "", [], 0
    for line in dump.splitlines():
        header = SYMBOL.match(line)
        if header:
            symbol = header.group(1)
            continue
        match = INSTRUCTION.match(line)
        if not match or not match.group(2):
            continue
        kind = encoding(match.group(1).split())
        if kind is None:
            continue
        isa = owner(symbol)
        if isa in ("avx512", "avx512_bf16", "avx512_vnni") or (isa == "avx2" and kind == "vex"):
            allowed += 1
        else:
            found.append((symbol, match.group(2).strip()))
    return found, allowed


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    archives = sorted(pathlib.Path(sys.argv[1]).glob("libquire_*.a"))
    archives = [path for path in archives if path.name != "libquire_hf.a"]  # Rust's: dispatches at run time by itself
    if not archives:
        sys.exit(f"no libquire_*.a in {sys.argv[1]}: build first")
    bad, allowed = [], 0
    for archive in archives:
        found, count = violations(archive)
        bad += [(archive.name, *pair) for pair in found]
        allowed += count
    for name, symbol, instruction in bad[:20]:
        print(f"{name}: {symbol}: {instruction}")
    if bad:
        sys.exit(f"{len(bad)} wide instructions outside the namespaces avx2 and avx512")
    if allowed == 0 and any(path.name == "libquire_ops.a" for path in archives):
        sys.exit("no wide instruction at all in libquire_ops.a: the kernels were not compiled for their ISAs")
    print(f"{len(archives)} libraries: all {allowed} wide instructions lie in the namespaces avx2 and avx512")


if __name__ == "__main__":
    main()
