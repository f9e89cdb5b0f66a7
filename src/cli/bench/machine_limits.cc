#include "cli/bench/machine_limits.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "cli/bench/statistics.h"
#include "ops/cpu/machine_kernels.h"

namespace quire::cli {
namespace {

using std::chrono::steady_clock;
constexpr size_t kMiB = size_t{1} << 20;

double now() { return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count(); }

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // best effort: a figure of unpinned threads is still one
}

/// Runs work(index) on `threads` pinned threads that start together; seconds from the first start to the last end.
double timed(const MachineOptions& options, int threads, const std::function<void(int)>& work) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<double> begin(static_cast<size_t>(threads));
  std::vector<double> end(static_cast<size_t>(threads));
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&, i] {
      pin_to(options.cpus[static_cast<size_t>(i)]);
      ++ready;
      while (!go) std::this_thread::yield();
      begin[static_cast<size_t>(i)] = now();
      work(i);
      end[static_cast<size_t>(i)] = now();
    });
  }
  while (ready < threads) std::this_thread::yield();
  go = true;
  for (std::thread& thread : pool) thread.join();
  return *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
}

/// An anonymous mapping with or without huge pages, touched by the threads that will read it.
class Buffer {
 public:
  Buffer(const MachineOptions& options, bool huge) : size_(options.memory_bytes) {
    address_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address_ == MAP_FAILED) throw StartupError(fmt::format("The system refused {} MiB of memory", size_ / kMiB));
    madvise(address_, size_, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    const int threads = static_cast<int>(options.cpus.size());
    const size_t share = size_ / static_cast<size_t>(threads);
    timed(options, threads, [&](int i) {
      const size_t begin = share * static_cast<size_t>(i);
      std::memset(data() + begin, 1, i + 1 == threads ? size_ - begin : share);
    });
  }
  ~Buffer() { munmap(address_, size_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() const { return static_cast<char*>(address_); }
  size_t size() const { return size_; }

 private:
  void* address_;
  size_t size_;
};

class Measurement {
 public:
  Measurement(const MachineOptions& options, const std::function<void(const MachineLimit&)>& report)
      : options_(options), report_(report), kernels_(ops::cpu::machine_kernels()) {
    thread_counts_ = {1};
    if (options.cpus.size() > 1) thread_counts_.push_back(static_cast<int>(options.cpus.size()));
  }

  void read_buffers(bool huge) {
    const Buffer buffer(options_, huge);
    std::vector<size_t> sizes = {buffer.size()};
    for (const size_t size : {128 * kMiB, 32 * kMiB, kMiB}) {
      if (size < buffer.size()) sizes.push_back(size);
    }
    for (const size_t size : sizes) {
      for (const int threads : thread_counts_) read(buffer, size, threads, huge);
    }
    if (huge) {
      for (const int threads : thread_counts_) copy(buffer, threads);
    }
  }

  void multiply() {
    multiply_with("float32 multiply-add", "GFLOP/s", kernels_.float32);
    multiply_with("bf16 dot product", "GFLOP/s", kernels_.bf16_dot);
    multiply_with("int8 dot product", "GOP/s", kernels_.int8_dot);
  }

 private:
  /// `size` is shared out: each thread reads its part over and over, for two GiB or the buffer once.
  void read(const Buffer& buffer, size_t size, int threads, bool huge) {
    const size_t share = size / static_cast<size_t>(threads) / 1024 * 1024;
    const size_t rounds = std::max<size_t>(1, 2048 * kMiB / size);
    run(fmt::format("read {} MiB, {} pages", size / kMiB, huge ? "huge" : "4 KiB"), "GB/s", threads,
        static_cast<double>(share * rounds) * threads, [&](int i) {
          uint64_t sum = 0;
          for (size_t k = 0; k < rounds; ++k)
            sum ^= kernels_.read(buffer.data() + share * static_cast<size_t>(i), share);
          sink_.fetch_xor(sum, std::memory_order_relaxed);
        });
  }

  void copy(const Buffer& buffer, int threads) {
    const size_t half = buffer.size() / 2;
    const size_t share = half / static_cast<size_t>(threads);
    run(fmt::format("memcpy {} MiB, huge pages", half / kMiB), "GB/s", threads, static_cast<double>(share) * threads,
        [&](int i) {
          const size_t begin = share * static_cast<size_t>(i);
          std::memcpy(buffer.data() + begin, buffer.data() + half + begin, share);
        });
  }

  void multiply_with(const char* name, const char* unit, const ops::cpu::MultiplyLoop& loop) {
    if (loop.run == nullptr) return;
    constexpr int64_t kIterations = 10'000'000;
    for (const int threads : thread_counts_) {
      run(name, unit, threads, loop.operations * kIterations * threads, [&](int) { loop.run(kIterations); });
    }
  }

  void run(const std::string& name, const std::string& unit, int threads, double amount,
           const std::function<void(int)>& work) {
    std::vector<double> rates;
    for (int k = 0; k < options_.repetitions; ++k) rates.push_back(amount / timed(options_, threads, work) / 1e9);
    report_({name, unit, threads, median(rates), *std::max_element(rates.begin(), rates.end())});
  }

  const MachineOptions& options_;
  const std::function<void(const MachineLimit&)>& report_;
  ops::cpu::MachineKernels kernels_;
  std::vector<int> thread_counts_;
  std::atomic<uint64_t> sink_{0};  ///< what was read goes here, lest the reading be dropped
};

}  // namespace

void measure_machine(const MachineOptions& options, const std::function<void(const MachineLimit&)>& report) {
  QUIRE_CHECK(!options.cpus.empty() && options.memory_bytes >= kMiB && options.repetitions > 0);
  Measurement measurement(options, report);
  measurement.read_buffers(true);
  measurement.read_buffers(false);
  measurement.multiply();
}

}  // namespace quire::cli
