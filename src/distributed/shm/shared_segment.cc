#include "distributed/shm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/cgroup_limits.h"
#include "base/cpu_topology.h"
#include "distributed/build_identity.h"

namespace quire {
namespace {

constexpr uint64_t kMagic = 0x71756972652d7368;  // "quire-sh"
constexpr uint32_t kLayoutVersion = 2;
constexpr size_t kPage = 4096;
constexpr int64_t kMessageBytesOfFewRanks = int64_t{64} << 10;
constexpr int64_t kMessageBytesOfManyRanks = int64_t{16} << 10;  // there is a buffer for each pair
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr uint32_t kAbortReasons = 8;

std::string system_message(std::string_view what) { return std::string(what) + ": " + std::strerror(errno); }

bool each_rank_has_a_cpu(int ranks) {
  return ranks <= static_cast<int>(allowed_cpus().size()) && !cgroup_cpu_quota().has_value();
}

}  // namespace

// At the beginning of the file. Constant once written, the abort's fields aside.
struct SharedSegment::Header {
  uint64_t magic;
  uint32_t layout_version;
  int32_t ranks;
  int32_t channels;
  int32_t spin_microseconds;
  int64_t chunk_bytes;
  int64_t message_chunk_bytes;
  char build[128];
  alignas(128) std::atomic<uint32_t> aborts;  ///< how many began to say why
  std::atomic<uint32_t> aborted;              ///< the number of the first reason that was said to its end, from 1
  struct {
    char text[480];
    ErrorKind kind;
  } abort_reasons[kAbortReasons];
};

struct SharedSegment::Layout {
  size_t rank_lines, round_lines, pair_lines, buffers, message_buffers, end;

  explicit Layout(const Header& header) {
    const auto ranks = static_cast<size_t>(header.ranks);
    const auto channels = static_cast<size_t>(header.channels);
    const auto page_up = [](size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
    rank_lines = page_up(sizeof(Header));
    round_lines = page_up(rank_lines + ranks * sizeof(RankLine));
    pair_lines = page_up(round_lines + channels * ranks * sizeof(RoundLine));
    buffers = page_up(pair_lines + channels * ranks * ranks * sizeof(PairLine));
    message_buffers = page_up(buffers + channels * ranks * 2 * static_cast<size_t>(header.chunk_bytes));
    end = page_up(message_buffers + channels * ranks * ranks * 2 * static_cast<size_t>(header.message_chunk_bytes));
  }
};

Result<std::shared_ptr<SharedSegment>> SharedSegment::create(const SegmentOptions& options) {
  QUIRE_CHECK(options.channels > 0 && options.chunk_bytes >= 64 * kMaxRanks && options.chunk_bytes % 64 == 0);
  if (options.ranks < 1 || options.ranks > kMaxRanks) {
    return invalid_argument("one machine takes 1 to " + std::to_string(kMaxRanks) + " ranks, not " +
                            std::to_string(options.ranks));
  }
  Header header = {};
  header.magic = kMagic;
  header.layout_version = kLayoutVersion;
  header.ranks = options.ranks;
  header.channels = options.channels;
  header.chunk_bytes = options.chunk_bytes;
  header.message_chunk_bytes = options.ranks <= 8 ? kMessageBytesOfFewRanks : kMessageBytesOfManyRanks;
  const auto spin = options.spin.value_or(each_rank_has_a_cpu(options.ranks) ? kSpin : std::chrono::microseconds(0));
  header.spin_microseconds = static_cast<int32_t>(spin.count());
  const std::string build = options.build.empty() ? build_identity() : options.build;
  std::memcpy(header.build, build.data(), std::min(build.size(), sizeof(header.build) - 1));

  const size_t size = Layout(header).end;
  const int fd = memfd_create("quire-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return internal_error(system_message("no memory file for the ranks can be made"));
  // Sealed, so that no process can shorten it under the others.
  if (ftruncate(fd, static_cast<off_t>(size)) != 0 || pwrite(fd, &header, sizeof(header), 0) != sizeof(header) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const std::string message = system_message("the ranks' memory file of " + std::to_string(size) + " bytes failed");
    close(fd);
    return internal_error(message);
  }
  return attach(fd, options.ranks, build);
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::attach(int fd, int ranks, std::string_view build) {
  const auto refuse = [fd](const std::string& message) {
    close(fd);
    return invalid_argument(message);
  };
  struct stat status = {};
  if (fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) < sizeof(Header)) {
    return refuse("descriptor " + std::to_string(fd) + " is no memory file of quire's ranks");
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return refuse(system_message("the ranks' memory file cannot be mapped"));
  std::shared_ptr<SharedSegment> segment(new SharedSegment(fd, static_cast<std::byte*>(data), size));
  const Header& header = segment->header();
  if (header.magic != kMagic || header.layout_version != kLayoutVersion) {
    return invalid_argument(
        "the memory file of the ranks is of another version of quire: start all ranks from one build");
  }
  const std::string own_build = build.empty() ? build_identity() : std::string(build);
  const std::string other_build(header.build, strnlen(header.build, sizeof(header.build)));
  if (own_build.substr(0, sizeof(header.build) - 1) != other_build) {
    return invalid_argument("rank 0 is build " + other_build + " and this rank is build " + own_build +
                            ": start all ranks from one build");
  }
  if (header.ranks != ranks) {
    return invalid_argument("rank 0 expects " + std::to_string(header.ranks) + " ranks and this rank was told of " +
                            std::to_string(ranks) + ": give all ranks the same sizes");
  }
  const Layout layout(header);
  if (layout.end != size) return invalid_argument("the memory file of the ranks has another size than its header says");
  segment->rank_lines_ = layout.rank_lines;
  segment->round_lines_ = layout.round_lines;
  segment->pair_lines_ = layout.pair_lines;
  segment->buffers_ = layout.buffers;
  segment->message_buffers_ = layout.message_buffers;
  return segment;
}

SharedSegment::SharedSegment(int fd, std::byte* data, size_t size) : fd_(fd), data_(data), size_(size) {}

SharedSegment::~SharedSegment() {
  munmap(data_, size_);
  close(fd_);
}

SharedSegment::Header& SharedSegment::header() const { return *reinterpret_cast<Header*>(data_); }

int SharedSegment::ranks() const { return header().ranks; }
int SharedSegment::channels() const { return header().channels; }
int64_t SharedSegment::chunk_bytes() const { return header().chunk_bytes; }
int64_t SharedSegment::message_chunk_bytes() const { return header().message_chunk_bytes; }
std::chrono::microseconds SharedSegment::spin() const { return std::chrono::microseconds(header().spin_microseconds); }

RankLine& SharedSegment::rank_line(int rank) const { return reinterpret_cast<RankLine*>(data_ + rank_lines_)[rank]; }

RoundLine& SharedSegment::round_line(int channel, int rank) const {
  return reinterpret_cast<RoundLine*>(data_ + round_lines_)[channel * ranks() + rank];
}

std::byte* SharedSegment::buffer(int channel, int rank, uint32_t round) const {
  const auto half = static_cast<size_t>((channel * ranks() + rank) * 2) + (round & 1);
  return data_ + buffers_ + half * static_cast<size_t>(chunk_bytes());
}

size_t SharedSegment::pair_index(int channel, int from, int to) const {
  const int pair = (channel * ranks() + from) * ranks() + to;
  return static_cast<size_t>(pair);
}

PairLine& SharedSegment::pair_line(int channel, int from, int to) const {
  return reinterpret_cast<PairLine*>(data_ + pair_lines_)[pair_index(channel, from, to)];
}

std::byte* SharedSegment::message_buffer(int channel, int from, int to, uint32_t chunk) const {
  const size_t half = pair_index(channel, from, to) * 2 + (chunk & 1);
  return data_ + message_buffers_ + half * static_cast<size_t>(message_chunk_bytes());
}

Status SharedSegment::join(int rank) {
  QUIRE_CHECK(rank >= 0);
  if (rank >= ranks()) {
    return invalid_argument("rank " + std::to_string(rank) + " does not exist among " + std::to_string(ranks()) +
                            " ranks");
  }
  int32_t nobody = 0;
  if (!rank_line(rank).pid.compare_exchange_strong(nobody, static_cast<int32_t>(getpid()))) {
    return invalid_argument("rank " + std::to_string(rank) + " was taken already, by process " +
                            std::to_string(nobody));
  }
  return {};
}

// Each writes where nobody else does, and the first to have finished is heard: a process that is killed while it writes
// must not silence the others.
void SharedSegment::abort(std::string_view reason, ErrorKind kind) {
  Header& head = header();
  if (aborted()) return;
  const uint32_t index = head.aborts.fetch_add(1);
  if (index < kAbortReasons) {
    auto& own = head.abort_reasons[index];
    const size_t length = std::min(reason.size(), sizeof(own.text) - 1);
    std::memcpy(own.text, reason.data(), length);
    own.text[length] = '\0';
    own.kind = kind;
  }
  uint32_t none = 0;
  head.aborted.compare_exchange_strong(none, index + 1, std::memory_order_release);
}

bool SharedSegment::aborted() const { return header().aborted.load(std::memory_order_acquire) != 0; }

std::string SharedSegment::abort_reason() const {
  const uint32_t number = header().aborted.load(std::memory_order_acquire);
  if (number == 0) return {};
  return number <= kAbortReasons ? header().abort_reasons[number - 1].text : "several ranks failed at once";
}

ErrorKind SharedSegment::abort_kind() const {
  const uint32_t number = header().aborted.load(std::memory_order_acquire);
  return number > 0 && number <= kAbortReasons ? header().abort_reasons[number - 1].kind : ErrorKind::kUnavailable;
}

}  // namespace quire
