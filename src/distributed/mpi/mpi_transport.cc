#include "distributed/mpi/mpi_transport.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "distributed/layered_communicator.h"
#include "distributed/mpi/mpi_communicator.h"
#include "distributed/mpi/mpi_library.h"
#include "distributed/self_communicator.h"
#include "distributed/shm/shm_communicator.h"

namespace quire {
namespace {

constexpr int kHeartbeatTag = 32767;  // the standard allows tags up to that at least
constexpr auto kTimeToMeet = std::chrono::seconds(10);

int place_in(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

}  // namespace

Result<std::unique_ptr<MpiTransport>> MpiTransport::create(std::function<void(const std::string&)> on_loss) {
  QUIRE_ASSIGN_OR_RETURN(const quire_mpi_table* const mpi, load_mpi());
  const int code = mpi->start();
  if (code != 0) {
    return Error{ErrorKind::kUnavailable, "MPI cannot start: " + mpi_error_text(*mpi, code), {}};
  }
  std::unique_ptr<MpiTransport> transport(new MpiTransport(*mpi));
  const Status status = transport->meet(std::move(on_loss));
  if (status.ok()) return transport;
  transport->abort(status.error());
  return status.error();
}

Status MpiTransport::meet(std::function<void(const std::string&)> on_loss) {
  std::vector<int> everybody(static_cast<size_t>(world_size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  if (world_size() == 1) {
    machines_.hosts = {""};
    machines_.machines = machines_.here = machines_.same_cpus = {0};
    return {};
  }
  MpiCommunicator world("start", mpi_, abort_, next_channel_++, rank(), everybody);
  world.set_timeout(kTimeToMeet);
  QUIRE_ASSIGN_OR_RETURN(machines_, find_machine_ranks(world));
  abort_->share(machines_.segment);
  heartbeat_ = std::make_unique<MpiHeartbeat>(mpi_, rank(), kHeartbeatTag, machines_.hosts,
                                              [abort = abort_, told = std::move(on_loss)](const std::string& loss) {
                                                abort->set(loss);
                                                if (told) told(loss);
                                              });
  return {};
}

MpiTransport::~MpiTransport() {
  if (!abort_->is_set() && (heartbeat_ == nullptr || heartbeat_->leave())) mpi_.finish();
}

std::unique_ptr<Communicator> MpiTransport::inside(const std::string& name, int channel,
                                                   const std::vector<int>& members) const {
  if (members.size() == 1) return std::make_unique<SelfCommunicator>(name, rank());
  std::vector<int> places;
  for (const int member : members) places.push_back(place_in(machines_.here, member));
  return std::make_unique<ShmCommunicator>(name, machines_.segment, channel, place_in(members, rank()), members,
                                           places);
}

// Every rank takes as many channels, whatever its own group needs, so that the numbers agree.
Result<std::unique_ptr<Communicator>> MpiTransport::create_communicator(const std::string& name,
                                                                        const std::vector<std::vector<int>>& groups) {
  const GroupPlace place = find_group(groups, rank(), world_size());
  const int between_channel = next_channel_++;
  const int all_channel = next_channel_++;
  if (all_channel >= kHeartbeatTag) return internal_error("too many groups were made over MPI");
  const bool in_segment = machines_.segment != nullptr && groups.size() < static_cast<size_t>(world_size());
  const int machine_channel = in_segment ? next_machine_channel_++ : 0;
  if (in_segment && machine_channel >= machines_.segment->channels()) {
    return internal_error("no channel is left for the group " + name + ": the ranks' memory file has " +
                          std::to_string(machines_.segment->channels()));
  }

  const std::vector<int>& members = place.ranks;
  LayeredCommunicator::Layers layers;
  std::vector<int> firsts, here;  // the first rank of each machine; the members here
  std::vector<int> known;         // machines, in the order of their first ranks
  for (const int member : members) {
    const int machine = machines_.machines[static_cast<size_t>(member)];
    const int number = place_in(known, machine);
    if (number == static_cast<int>(known.size())) {
      known.push_back(machine);
      firsts.push_back(member);
    }
    layers.machines.push_back(number);
    if (machine == machines_.machines[static_cast<size_t>(rank())]) here.push_back(member);
  }
  if (known.size() == 1) return inside(name, machine_channel, members);
  auto all = std::make_unique<MpiCommunicator>(name, mpi_, abort_, all_channel, place.rank_in_group, members);
  if (known.size() == members.size()) return std::unique_ptr<Communicator>(std::move(all));
  layers.inside = inside(name + " inside the machine", machine_channel, here);
  if (here.front() == rank()) {
    layers.between = std::make_unique<MpiCommunicator>(name + " between machines", mpi_, abort_, between_channel,
                                                       place_in(firsts, rank()), firsts);
  }
  layers.all = std::move(all);
  return std::unique_ptr<Communicator>(
      std::make_unique<LayeredCommunicator>(name, place.rank_in_group, members, std::move(layers)));
}

std::string MpiTransport::describe() const {
  const int machines = machines_.machine_count();
  return std::to_string(world_size()) + " ranks on " + std::to_string(machines) +
         (machines == 1 ? " machine, which meet in shared memory" : " machines, which meet over MPI") +
         (machines > 1 && machines < world_size() ? ", and inside a machine in shared memory" : "");
}

}  // namespace quire
