#!/usr/bin/env python3
"""Checks that no folder of src/ includes a folder below it in the project's order, and that the public headers, which
cmake/public_headers.txt lists, name only each other: what they reach is what gets installed, and all of it is meant."""
import pathlib
import re
import sys

ORDER = ("base tensor ops distributed checkpoint quantization kv_cache layers lora models text hub sampling engine "
         "api server cli").split()
ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def public_faults():
    """What is wrong with the public headers."""
    listed = (ROOT / "cmake" / "public_headers.txt").read_text().split()
    faults = [] if listed == sorted(set(listed)) else ["cmake/public_headers.txt is not sorted"]
    reachable = {str(path.relative_to(ROOT)) for path in (ROOT / "include" / "quire").rglob("*.h")}
    waiting = sorted(reachable)
    while waiting:
        name = waiting.pop()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or match[1] == "quire/abi.h":  # written by the build
                continue
            target = ("include/" if match[1].startswith("quire/") else "src/") + match[1]
            if target not in listed:
                faults.append(f"{name}:{number}: a public header includes {match[1]}, which cmake/public_headers.txt lacks")
            elif target not in reachable:
                reachable.add(target)
                waiting.append(target)
    faults += [f"cmake/public_headers.txt: no public header needs {name}" for name in listed if name not in reachable]
    return faults


def main():
    faults = []
    checked = 0
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        folder = path.relative_to(ROOT / "src").parts[0]
        checked += 1
        if folder not in ORDER:
            faults.append(f"{path.relative_to(ROOT)}: folder {folder} is not in the order")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or "/" not in match[1]:
                continue
            target = match[1].split("/")[0]
            if target in ORDER and ORDER.index(target) > ORDER.index(folder):
                faults.append(f"{path.relative_to(ROOT)}:{number}: {folder} includes {match[1]}, which is below it")
            elif target not in ORDER and target != "quire":
                faults.append(f"{path.relative_to(ROOT)}:{number}: {match[1]} is in no folder of the order")
    faults += public_faults()
    print("\n".join(faults) or f"include order holds in {checked} files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
