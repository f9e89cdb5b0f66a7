#include "distributed/mpi/mpi_transport.h"

#include <utility>

#include "distributed/mpi/mpi_communicator.h"
#include "distributed/mpi/mpi_library.h"
#include "distributed/self_communicator.h"

namespace quire {

Result<std::unique_ptr<MpiTransport>> MpiTransport::create() {
  QUIRE_ASSIGN_OR_RETURN(const quire_mpi_table* const mpi, load_mpi());
  const int code = mpi->start();
  if (code != 0) {
    char text[512] = "";
    mpi->describe(code, text, sizeof(text));
    return Error{ErrorKind::kUnavailable, std::string("MPI cannot start: ") + text, {}};
  }
  return std::unique_ptr<MpiTransport>(new MpiTransport(*mpi));
}

MpiTransport::~MpiTransport() {
  if (!abort_->is_set()) mpi_.finish();
}

Result<std::unique_ptr<Communicator>> MpiTransport::create_communicator(const std::string& name,
                                                                        const std::vector<std::vector<int>>& groups) {
  GroupPlace place = find_group(groups, rank(), world_size());
  const int channel = next_channel_++;  // MPI's tag; the standard allows up to 32767 at least
  if (channel > 32767) return internal_error("more than 32768 groups were made over MPI");
  if (place.ranks.size() == 1) {
    return std::unique_ptr<Communicator>(std::make_unique<SelfCommunicator>(name, rank()));
  }
  return std::unique_ptr<Communicator>(
      std::make_unique<MpiCommunicator>(name, mpi_, abort_, channel, place.rank_in_group, std::move(place.ranks)));
}

}  // namespace quire
