#!/usr/bin/env python3
"""Checks that no folder of src/ includes a folder below it in the project's order, and that public headers stand alone."""
import pathlib
import re
import sys

ORDER = ("base tensor ops distributed checkpoint quantization kv_cache layers lora models text sampling engine api "
         "server cli").split()
ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


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
    for path in sorted((ROOT / "include" / "quire").rglob("*.h")):
        checked += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and not match[1].startswith("quire/"):
                faults.append(f"{path.relative_to(ROOT)}:{number}: a public header includes {match[1]}")
    print("\n".join(faults) or f"include order holds in {checked} files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
