#include "tools/tuning/candidate_timer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/numbers/datatype.h"
#include "base/report/progress.h"
#include "bench/report/statistics.h"
#include "bench/worker/pin.h"
#include "src/bootstrap/rendezvous/rendezvous.h"
#include "src/calls/streams/launcher.h"
#include "src/plan/planning.h"
#include "topology/detect/host.h"
#include "transports/ring/layout.h"
#include "transports/shm/cma.h"

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPage = 4096;
constexpr int kWarmUps = 2;
constexpr std::size_t kRoundStride = 5;  // so that no small multiple is a likely number of candidates
constexpr std::size_t kElement = sizeof(float);
// Enough calls to make a loop's ends negligible, even for calls of a microsecond.
constexpr int kMinCalls = 3;
constexpr int kMaxCalls = 20'000;

double Microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

// State shared by the processes.
struct Shared {
  std::atomic<int> id_is_there{0};
  std::atomic<int> calls{0};  // of the next loop; set by rank 0
  std::atomic<int> failed{0};
  std::optional<cost_model::NetworkCosts> network;  // as rank 0 knows it; written before it ends
  tuttiUniqueId id;
  char reason[512];
};

// Anonymous memory shared with forked children.
template <typename T>
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t count) : bytes_(count * sizeof(T)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) Throw(tuttiSystemError, "cannot map {} bytes of shared memory", bytes_);
    data_ = static_cast<T*>(memory);
  }
  ~SharedMemory() { munmap(data_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  T* data() const { return data_; }

 private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::byte, Free>;

Buffer Allocate(std::size_t bytes) {
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPage, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, rounded);
  return Buffer(memory);
}

// One rank's operation in a cell.
plan::Operation OperationOf(const TimedCell& cell, const Buffer& input, const Buffer& output) {
  plan::Operation operation;
  operation.collective = cell.kind.collective;
  operation.type = tuttiFloat32;
  operation.op = tuttiSum;
  operation.count = cell.bytes / kElement;
  operation.input = input.get();
  operation.output = output.get();
  return operation;
}

std::size_t LargestBuffer(const std::vector<TimedCell>& cells, int nranks) {
  std::size_t most = 0;
  for (const auto& cell : cells) {
    const bool blocks = schedule::HasBlocksOfRanks(cell.kind.collective);
    most = std::max(most, cell.bytes * static_cast<std::size_t>(blocks ? nranks : 1));
  }
  return most;
}

class Rank {
 public:
  Rank(int rank, const TimingOptions& options, Shared& shared, std::size_t largest)
      : rank_(rank), options_(options), shared_(shared), input_(Allocate(largest)), output_(Allocate(largest)) {
    bench::PinToCore(rank);
    Settings settings;
    settings.virtual_hosts = options.hosts;
    if (rank == 0) {
      shared.id = bootstrap::EncodeUniqueId(bootstrap::OpenRendezvous(settings));
      shared.id_is_there.store(1, std::memory_order_release);
    }
    while (shared.id_is_there.load(std::memory_order_acquire) == 0) sched_yield();
    const auto meet = comm::Communicator::At(bootstrap::DecodeUniqueId(shared.id), options.nranks, rank, {});
    communicator_ =
        std::make_unique<comm::Communicator>(meet, comm::Options{settings, "candidates", true}, Cancellation());
    if (rank == 0) shared.network = communicator_->host().network_costs();
  }

  // Mean time of a call for each candidate. Each round starts with another candidate, because the first one finds the
  // ranks out of step.
  void TimeAll(const TimedCell& cell, int round, double* us) {
    const plan::Operation operation = OperationOf(cell, input_, output_);
    for (std::size_t k = 0; k < cell.candidates.size(); ++k) {
      const std::size_t i = (k + static_cast<std::size_t>(round) * kRoundStride) % cell.candidates.size();
      tuner::SelectionTable table = communicator_->host().selector().table();
      table.Set(cell.kind, {{0, cell.candidates[i]}});
      communicator_->host().UseTable(std::move(table));
      us[i] = Time(operation);
    }
  }

 private:
  double Time(const plan::Operation& operation) {
    const auto warm_up = Clock::now();
    for (int i = 0; i < kWarmUps; ++i) Call(operation);
    if (rank_ == 0) {
      const double one = std::max(0.1, Microseconds(Clock::now() - warm_up) / kWarmUps);
      shared_.calls.store(std::clamp(static_cast<int>(options_.loop_ms * 1e3 / one), kMinCalls, kMaxCalls),
                          std::memory_order_relaxed);
    }
    plan::Operation barrier;
    barrier.count = 1;
    Call(barrier);  // orders rank 0's store before the others' loads, by the slots' flags
    const int calls = shared_.calls.load(std::memory_order_relaxed);
    Call(barrier);
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) Call(operation);
    return Microseconds(Clock::now() - begin) / calls;
  }

  void Call(const plan::Operation& operation) {
    if (const auto error = calls::RunOne(*communicator_, operation, host::WhoWaits::caller)) throw *error;
  }

  int rank_;
  TimingOptions options_;
  Shared& shared_;
  Buffer input_, output_;
  std::unique_ptr<comm::Communicator> communicator_;
};

// Where a rank writes its times for one cell in one repetition.
class Results {
 public:
  Results(const std::vector<TimedCell>& cells, const TimingOptions& options) : options_(options), first_(1, 0) {
    for (const auto& cell : cells) first_.push_back(first_.back() + cell.candidates.size());
    memory_ = std::make_unique<SharedMemory<double>>(first_.back() * options.nranks * options.repetitions + 1);
  }
  double* At(std::size_t cell, int rank, int repetition) const {
    const std::size_t row = static_cast<std::size_t>(rank) * options_.repetitions + repetition;
    return memory_->data() + row * first_.back() + first_[cell];
  }

 private:
  TimingOptions options_;
  std::vector<std::size_t> first_;
  std::unique_ptr<SharedMemory<double>> memory_;
};

// `told`: rank 0 writes a byte there for each cell that it has timed once.
[[noreturn]] void Live(int rank, const std::vector<TimedCell>& cells, const TimingOptions& options, Shared& shared,
                       const Results& results, int told) {
  try {
    Rank self(rank, options, shared, LargestBuffer(cells, options.nranks));
    // On a shared machine, disturbances last for seconds, so a cell's repetitions are spread far apart. The first round
    // touches memory for the first time; the next round overwrites its results.
    for (int round = 0; round <= options.repetitions; ++round) {
      for (std::size_t c = 0; c < cells.size(); ++c) {
        self.TimeAll(cells[c], round, results.At(c, rank, std::max(0, round - 1)));
        const char done = 1;
        if (rank == 0 && write(told, &done, sizeof done) != sizeof done) ThrowErrno("write");
      }
    }
  } catch (const std::exception& error) {
    if (shared.failed.exchange(1, std::memory_order_acq_rel) == 0) {
      std::strncpy(shared.reason, error.what(), sizeof shared.reason - 1);
    }
    _exit(EXIT_FAILURE);
  }
  _exit(EXIT_SUCCESS);
}

// Returns when all ranks have ended.
void ShowProgress(int told, const std::vector<TimedCell>& cells, const TimingOptions& options) {
  report::Progress progress((options.repetitions + 1) * static_cast<int>(cells.size()));
  const auto what = fmt::format("timing every candidate on {} ranks", options.nranks);
  std::array<char, 64> bytes;
  int done = 0;
  for (ssize_t got = 0; got >= 0 || errno == EINTR; done += static_cast<int>(std::max<ssize_t>(0, got))) {
    progress.Step(done, what);
    got = read(told, bytes.data(), bytes.size());
    if (got == 0) return;
  }
}

// Runs the ranks to their end.
void RunRanks(const std::vector<TimedCell>& cells, const TimingOptions& options, Shared& shared,
              const Results& results) {
  std::array<int, 2> pipe{-1, -1};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) ThrowErrno("pipe");
  const FileDescriptor reader(pipe[0]);
  FileDescriptor writer(pipe[1]);
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.nranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) Live(rank, cells, options, shared, results, writer.get());
    if (child < 0) Throw(tuttiSystemError, "cannot fork rank {}: {}", rank, ErrnoText(errno));
    children.push_back(child);
  }
  writer = FileDescriptor();
  ShowProgress(reader.get(), cells, options);
  bool failed = false;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed = failed || status != 0;
  }
  if (failed)
    Throw(tuttiInternalError, "a rank failed: {}", shared.reason[0] != 0 ? shared.reason : "its process died");
}

}  // namespace

cost_model::TuningContext HostConditions(int nranks, int hosts) {
  cost_model::TuningContext tuning;
  tuning.nranks = nranks;
  tuning.where = schedule::ArrangeEvenly(nranks, hosts);
  tuning.one_host = hosts == 1;
  tuning.max_channels = cost_model::kFewestChannels;
  tuning.threads = 1;
  tuning.bulk_capacity = ring::Layout(nranks, cost_model::kFewestChannels + 1).bulk_capacity();
  tuning.cma = nranks > hosts && shm::MayReadProcesses();
  tuning.stream_bytes =
      detect::CacheShareBytes(std::min(detect::CountCpus(detect::AllowedCpus()), detect::QuotaCpus()));
  return tuning;
}

std::optional<cost_model::NetworkCosts> MeasuredNetwork(const TimingOptions& options) {
  const SharedMemory<Shared> memory(1);
  Shared& shared = *new (memory.data()) Shared;
  RunRanks({}, options, shared, Results({}, options));
  return shared.network;
}

void TimeCandidates(std::vector<TimedCell>& cells, const TimingOptions& options) {
  const SharedMemory<Shared> memory(1);
  Shared& shared = *new (memory.data()) Shared;
  const Results results(cells, options);
  RunRanks(cells, options, shared, results);
  for (std::size_t c = 0; c < cells.size(); ++c) {
    for (std::size_t i = 0; i < cells[c].candidates.size(); ++i) {
      std::vector<double> slowest;
      for (int repetition = 0; repetition < options.repetitions; ++repetition) {
        double us = 0;
        for (int rank = 0; rank < options.nranks; ++rank) us = std::max(us, results.At(c, rank, repetition)[i]);
        slowest.push_back(us);
      }
      cells[c].us.push_back(bench::InterquartileMean(std::move(slowest)));
    }
  }
}

std::vector<TimedCell> EveryCandidate(const cost_model::TuningContext& tuning,
                                      const std::vector<std::size_t>& total_bytes) {
  using enum schedule::Collective;
  std::vector<TimedCell> cells;
  for (const auto collective : {all_reduce, reduce_scatter, all_gather, all_to_all, broadcast}) {
    for (const std::size_t total : total_bytes) {
      const bool whole = !schedule::HasBlocksOfRanks(collective);
      const auto n = static_cast<std::size_t>(tuning.nranks);
      // At least one element per rank.
      const std::size_t bytes = whole ? total : std::max(kElement, total / n / kElement * kElement);
      TimedCell cell{{collective}, bytes, {}};
      for (const auto algorithm : builders::kAllAlgorithms) {
        if (!cost_model::WhyNot(algorithm, cell.kind, tuning).empty()) continue;
        const auto unit = cost_model::RepresentativeRanks::Of(algorithm, tuning.Ask(collective))->unit();
        for (const auto& way : cost_model::WaysToMove(algorithm, cell.kind, tuning, bytes, unit))
          cell.candidates.push_back(way);
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

}  // namespace tutti::tools
