// Signs of life between the processes of an MPI job: a launcher sees a process that ends, but not one that hangs, nor a
// machine or a link that is lost.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/mpi/mpi_module.h"

namespace quire {

/// Rank 0 and each other rank send each other a message five times a second, from a thread of its own, so that a long
/// step is no death.
class MpiHeartbeat {
 public:
  static constexpr auto kInterval = std::chrono::milliseconds(200);
  static constexpr auto kSilence = std::chrono::seconds(5);  ///< after which a rank counts as lost

  /// `hosts` are the ranks' machines, for the sentence that `on_loss` is told, once, from this object's thread.
  MpiHeartbeat(const quire_mpi_table& mpi, int rank, int tag, std::vector<std::string> hosts,
               std::function<void(const std::string&)> on_loss);
  ~MpiHeartbeat();
  MpiHeartbeat(const MpiHeartbeat&) = delete;
  MpiHeartbeat& operator=(const MpiHeartbeat&) = delete;

  /// Takes leave of the others, which do the same. False where one did not within kSilence: then no message may be
  /// waited for any more.
  bool leave();

 private:
  struct Peer {
    int rank;
    std::chrono::milliseconds silent{0};
    bool gone = false;  ///< has taken leave
    bool told = false;  ///< that this rank takes leave
    unsigned char out = 0, in = 0;
    void* sending = nullptr;
    void* receiving = nullptr;
  };
  void run();
  /// Looks for messages and sends; the sentence about a rank that is lost.
  std::optional<std::string> look(std::chrono::milliseconds passed, bool leaving);
  std::optional<std::string> look_at(Peer& peer, std::chrono::milliseconds passed, bool leaving);
  std::string describe(const Peer& peer) const;
  bool all_gone() const;

  const quire_mpi_table& mpi_;
  const int tag_;
  const std::vector<std::string> hosts_;
  const std::function<void(const std::string&)> on_loss_;
  std::vector<Peer> peers_;  ///< of the thread
  std::mutex mutex_;
  std::condition_variable wake_;
  bool leaving_ = false;
  bool stop_ = false;
  bool left_ = false;  ///< all have taken leave
  std::thread thread_;
};

}  // namespace quire
