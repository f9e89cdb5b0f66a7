#include "distributed/build_identity.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace quire {
namespace {

/// The descriptor of a GNU build id among the notes in [data, data + size), in hexadecimal; empty if there is none.
std::string build_id_in(const unsigned char* data, size_t size) {
  const auto padded = [](size_t bytes) { return (bytes + 3) / 4 * 4; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, data, sizeof(note));
    const size_t name_end = sizeof(note) + padded(note.n_namesz);
    const size_t end = name_end + padded(note.n_descsz);
    if (end > size) break;
    const std::string_view name(reinterpret_cast<const char*>(data) + sizeof(note), note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4)) {
      std::string hexadecimal;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        const unsigned char byte = data[name_end + i];
        hexadecimal += "0123456789abcdef"[byte >> 4];
        hexadecimal += "0123456789abcdef"[byte & 15];
      }
      return hexadecimal;
    }
    data += end;
    size -= end;
  }
  return {};
}

/// dl_iterate_phdr names the program itself first; 1 ends the search after it.
int visit_program(dl_phdr_info* info, size_t, void* result) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // The loader tells addresses as integers.
    const auto* const notes =
        reinterpret_cast<const unsigned char*>(info->dlpi_addr + segment.p_vaddr);  // NOLINT(performance-no-int-to-ptr)
    std::string id = build_id_in(notes, segment.p_memsz);
    if (!id.empty()) *static_cast<std::string*>(result) = std::move(id);
  }
  return 1;
}

}  // namespace

std::string build_identity() {
  std::string id;
  dl_iterate_phdr(visit_program, &id);
  if (!id.empty()) return id;
  struct stat file = {};
  if (stat("/proc/self/exe", &file) != 0) return "unknown";
  return std::to_string(file.st_size) + "-" + std::to_string(file.st_mtime);
}

}  // namespace quire
