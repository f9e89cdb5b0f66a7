// Which ranks of a job share a machine, and the memory through which those meet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "distributed/communicator.h"
#include "distributed/shm/shared_segment.h"

namespace quire {

struct MachineRanks {
  std::vector<std::string> hosts;          ///< of each rank of the world: its machine's name
  std::vector<int> machines;               ///< of each rank: a number of its machine
  std::vector<int> here;                   ///< the ranks of this machine, ascending; this one among them
  std::vector<int> same_cpus;              ///< those of them that may run on the very CPUs of this one
  std::shared_ptr<SharedSegment> segment;  ///< of the ranks here, in that order; none where this one is alone

  int machine_count() const;
};

/// Called by all ranks, with a group of all. Refuses ranks of different builds, naming both. Ranks see each other as of
/// one machine where its name, its boot and their namespaces of processes and network are the same;
/// QUIRE_MPI_MACHINE=NAME in a rank's environment decides instead. Where one of them cannot open the memory, each
/// counts as on a machine of its own.
Result<MachineRanks> find_machine_ranks(Communicator& world);

}  // namespace quire
