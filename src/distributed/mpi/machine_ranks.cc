#include "distributed/mpi/machine_ranks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/cgroup_limits.h"
#include "base/cpu_topology.h"
#include "distributed/build_identity.h"

namespace quire {
namespace {

constexpr auto kMachineSpin = std::chrono::microseconds(100);

/// What a rank tells of itself: bytes of one size, for an all_gather.
struct Record {
  std::array<char, 256> machine{};
  std::array<char, 64> host{};
  std::array<char, 128> build{};
  std::array<unsigned char, 128> cpus{};  ///< a bit for each CPU that it may run on
};

/// Where a machine's first rank keeps the memory file; without one, nobody can open it.
struct Offer {
  int32_t process = 0;
  int32_t descriptor = -1;
};

template <size_t N>
void put(std::array<char, N>& field, const std::string& text) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), N - 1));
}

template <size_t N>
std::string text_of(const std::array<char, N>& field) {
  return {field.data(), strnlen(field.data(), N)};
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string link_of(const char* path) {
  char target[64] = "";
  const ssize_t length = readlink(path, target, sizeof(target) - 1);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : std::string();
}

std::string machine_identity() {
  if (const char* const name = std::getenv("QUIRE_MPI_MACHINE")) return std::string("named ") + name;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return host_name() + " " + boot + " " + link_of("/proc/self/ns/pid") + " " + link_of("/proc/self/ns/net");
}

Record own_record() {
  Record record;
  put(record.machine, machine_identity());
  put(record.host, host_name());
  put(record.build, build_identity());
  for (const int cpu : allowed_cpus()) {
    const auto byte = static_cast<size_t>(cpu) / 8;
    if (byte < record.cpus.size()) record.cpus[byte] |= static_cast<unsigned char>(1 << (cpu % 8));
  }
  return record;
}

/// Every rank's `own`, in the order of the ranks.
template <typename T>
Result<std::vector<T>> exchange(Communicator& world, const T& own) {
  std::vector<T> all(static_cast<size_t>(world.size()));
  std::vector<Block> parts;
  for (T& one : all) parts.push_back(block_of(static_cast<void*>(&one), sizeof(T)));
  QUIRE_RETURN_IF_ERROR(world.all_gather(block_of(static_cast<const void*>(&own), sizeof(T)), parts));
  return all;
}

Status check_builds(const std::vector<Record>& records) {
  for (size_t rank = 1; rank < records.size(); ++rank) {
    if (records[rank].build == records[0].build) continue;
    return invalid_argument("rank 0 (host " + text_of(records[0].host) + ") is build " + text_of(records[0].build) +
                            " and rank " + std::to_string(rank) + " (host " + text_of(records[rank].host) +
                            ") is build " + text_of(records[rank].build) + ": start all ranks from one build");
  }
  return {};
}

/// Polling helps where every rank has a CPU of its own.
std::chrono::microseconds spin_of(const std::vector<Record>& records, const std::vector<int>& here) {
  size_t cpus = 0;
  for (size_t byte = 0; byte < records[0].cpus.size(); ++byte) {
    std::bitset<8> of_any;
    for (const int rank : here) of_any |= std::bitset<8>(records[static_cast<size_t>(rank)].cpus[byte]);
    cpus += of_any.count();
  }
  return cpus >= here.size() && !cgroup_cpu_quota() ? kMachineSpin : std::chrono::microseconds(0);
}

/// Maps the memory file of the machine's first rank; nothing where that cannot be done.
std::shared_ptr<SharedSegment> open_offer(const Offer& offer, int ranks) {
  if (offer.descriptor < 0) return nullptr;
  const std::string path = "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  auto segment = SharedSegment::attach(descriptor, ranks);
  return segment.ok() ? std::move(segment).value() : nullptr;
}

/// The memory of the ranks here, opened by all of them or by none.
Result<std::shared_ptr<SharedSegment>> share_segment(Communicator& world, const std::vector<Record>& records,
                                                     const std::vector<int>& here) {
  std::shared_ptr<SharedSegment> segment;
  Offer own;
  const auto ranks = static_cast<int>(here.size());
  if (ranks > 1 && here.front() == world.rank()) {
    SegmentOptions options;
    options.ranks = ranks;
    options.spin = spin_of(records, here);
    auto created = SharedSegment::create(options);  // not beyond kMaxRanks
    if (created.ok()) segment = std::move(created).value();
    if (segment != nullptr) own = {static_cast<int32_t>(getpid()), segment->fd()};
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Offer> offers, exchange(world, own));
  if (ranks > 1 && segment == nullptr) segment = open_offer(offers[static_cast<size_t>(here.front())], ranks);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<int32_t> opened, exchange(world, int32_t{segment != nullptr}));
  const bool by_all = std::ranges::all_of(here, [&](int rank) { return opened[static_cast<size_t>(rank)] != 0; });
  return by_all ? segment : nullptr;
}

}  // namespace

int MachineRanks::machine_count() const {
  return static_cast<int>(std::set<int>(machines.begin(), machines.end()).size());
}

Result<MachineRanks> find_machine_ranks(Communicator& world) {
  const Record own = own_record();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Record> records, exchange(world, own));
  QUIRE_RETURN_IF_ERROR(check_builds(records));
  MachineRanks result;
  std::map<std::string, int> numbers;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Record& record = records[static_cast<size_t>(rank)];
    result.hosts.push_back(text_of(record.host));
    result.machines.push_back(numbers.try_emplace(text_of(record.machine), rank).first->second);
    if (record.machine != own.machine) continue;
    result.here.push_back(rank);
    if (record.cpus == own.cpus) result.same_cpus.push_back(rank);
  }
  QUIRE_ASSIGN_OR_RETURN(result.segment, share_segment(world, records, result.here));
  const int32_t shares = result.here.size() == 1 || result.segment != nullptr ? 1 : 0;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<int32_t> sharing, exchange(world, shares));
  for (int rank = 0; rank < world.size(); ++rank) {
    if (sharing[static_cast<size_t>(rank)] == 0) result.machines[static_cast<size_t>(rank)] = rank;
  }
  if (shares == 0) result.here = {world.rank()};
  return result;
}

}  // namespace quire
