// Finds and loads libquire_mpi.so, quire's only tie to MPI.
#pragma once

#include "base/result.h"
#include "distributed/mpi/mpi_module.h"

namespace quire {

/// The module's table; loaded once, and never unloaded. It is looked for where QUIRE_MPI_LIBRARY says, else beside the
/// program, else in ../lib from there. An Error says what is missing: the module, or the MPI it was built for.
Result<const quire_mpi_table*> load_mpi();

}  // namespace quire
