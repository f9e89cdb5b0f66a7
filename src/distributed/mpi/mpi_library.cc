#include "distributed/mpi/mpi_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace quire {
namespace {

constexpr const char* kFileName = "libquire_mpi.so";

/// The module's path, or an empty one where there is none.
std::filesystem::path find_module() {
  if (const char* const path = std::getenv("QUIRE_MPI_LIBRARY")) return path;
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const std::filesystem::path& candidate : {folder / kFileName, folder.parent_path() / "lib" / kFileName}) {
    if (std::filesystem::exists(candidate, ignored)) return candidate;
  }
  return {};
}

}  // namespace

Result<const quire_mpi_table*> load_mpi() {
  const std::filesystem::path path = find_module();
  if (path.empty()) {
    return unsupported(
        std::string("this build of quire has no MPI: ") + kFileName +
        " is not beside the program; install Open MPI's development files (libopenmpi-dev) and build again");
  }
  // Globally, because Open MPI's own plugins look for its symbols there.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    return unsupported("MPI cannot be loaded (" + std::string(reason != nullptr ? reason : path.c_str()) +
                       "): ranks on several machines need Open MPI on each (openmpi-bin)");
  }
  void* const symbol = dlsym(library, QUIRE_MPI_TABLE_SYMBOL);
  const quire_mpi_table* const table =
      symbol != nullptr ? reinterpret_cast<quire_mpi_get_table_function>(symbol)() : nullptr;
  if (table == nullptr || table->version != QUIRE_MPI_TABLE_VERSION) {
    return unsupported(path.string() + " is of another version of quire: build both together");
  }
  return table;
}

}  // namespace quire
