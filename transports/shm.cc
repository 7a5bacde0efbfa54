#include "transports/shm.h"

#include <sodium.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "transports/cma.h"
#include "transports/gather_values.h"

namespace tutti {
namespace {

struct Introduction {
  std::int64_t pid;
  std::uint64_t pid_namespace;
  std::uint64_t segment;        // its address, for ranks of the same process
  std::uint64_t probe_address;  // where `probe` lies in that process: reading it back proves that CMA works
  std::uint64_t probe;
};

struct Verdict {
  bool cma;
};

std::uint64_t PidNamespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// A descriptor of this very process, which travels between pid namespaces where a number would not.
FileDescriptor OwnPidfd() { return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))); }

void RequireOneHost(int rank, const std::vector<std::vector<int>>& groups) {
  const auto nranks = groups.size();
  const auto& local = groups[static_cast<std::size_t>(rank)];
  if (local.size() == nranks) return;
  std::vector<int> remote;
  for (std::size_t r = 0; r < nranks; ++r) {
    if (groups[r] != local) remote.push_back(static_cast<int>(r));
  }
  Throw(tuttiInvalidUsage,
        "ranks {} run on another host (or in another network namespace) than rank {}; this version connects the ranks "
        "of one host only",
        fmt::join(remote, ", "), rank);
}

}  // namespace

ShmFabric::ShmFabric(int rank, int nranks, int channels, const Settings& settings, const AllGather& all_gather,
                     Deadline deadline)
    : rank_(rank), layout_(nranks, channels), peers_(static_cast<std::size_t>(nranks)) {
  const auto groups = GroupByHost(all_gather);
  RequireOneHost(rank, groups);

  auto& own = peers_[static_cast<std::size_t>(rank)];
  own.segment = Segment::Create("tutti", layout_.bytes());
  new (own.segment.data()) ControlBlock{};
  control(rank).state.store(RankState::starting, std::memory_order_release);

  std::uint64_t probe;
  randombytes_buf(&probe, sizeof probe);
  const Introduction introduction{getpid(), PidNamespace(), reinterpret_cast<std::uint64_t>(own.segment.data()),
                                  reinterpret_cast<std::uint64_t>(&probe), probe};
  const auto all = GatherValues(all_gather, introduction);

  const FileDescriptor pidfd = OwnPidfd();
  std::vector<int> mine = {own.segment.fd().get()};
  if (pidfd) mine.push_back(pidfd.get());
  auto descriptors = ExchangeDescriptors(rank, groups[static_cast<std::size_t>(rank)], mine, all_gather, deadline);

  Verdict verdict{settings.cma};
  for (int r = 0; r < nranks; ++r) {
    auto& peer = peers_[static_cast<std::size_t>(r)];
    const auto& theirs = all[static_cast<std::size_t>(r)];
    const bool same_namespace = theirs.pid_namespace == introduction.pid_namespace;
    peer.pid = static_cast<pid_t>(theirs.pid);
    peer.same_process = same_namespace && theirs.pid == introduction.pid;
    if (r == rank) continue;
    auto& fds = descriptors[static_cast<std::size_t>(r)];
    if (peer.same_process) {
      peer.segment = Segment::Share(reinterpret_cast<std::byte*>(theirs.segment), layout_.bytes());
    } else {
      peer.segment = Segment::Map(fds.at(0), layout_.bytes());
      if (fds.size() > 1) peer.pidfd = std::move(fds[1]);
      std::uint64_t echo = 0;
      verdict.cma = verdict.cma && same_namespace && ReadProcess(peer.pid, theirs.probe_address, &echo, sizeof echo) &&
                    echo == theirs.probe;
    }
    all_same_process_ = all_same_process_ && peer.same_process;
  }
  MakeRings();
  control(rank).state.store(RankState::alive, std::memory_order_release);
  // Also the barrier behind which every rank has mapped every segment and read every probe.
  cma_ = true;
  for (const auto& each : GatherValues(all_gather, verdict)) cma_ = cma_ && each.cma;
  Log(Subject::init, "rank {} of {}: {} B of shared memory a rank, {} channels, cma {}, {}", rank, nranks,
      layout_.bytes(), channels, cma_ ? "in use" : "not in use",
      all_same_process_ ? "one process" : "several processes");
}

std::atomic<std::uint32_t>* ShmFabric::Head(int reader, int channel, Wire wire, int writer, bool post) const {
  return reinterpret_cast<std::atomic<std::uint32_t>*>(peers_[static_cast<std::size_t>(reader)].segment.data() +
                                                       layout_.HeadOffset(channel, wire, writer, post));
}

void ShmFabric::MakeRings() {
  const int n = nranks();
  fills_.resize(FillIndex(layout_.channels(), Wire::line, 0));
  empties_.resize(EmptyIndex(layout_.channels(), Wire::line, 0, false));
  for (int channel = 0; channel < layout_.channels(); ++channel) {
    for (const Wire wire : {Wire::line, Wire::inlined, Wire::bulk}) {
      const auto slots = [&](int owner, int peer) {
        return peers_[static_cast<std::size_t>(owner)].segment.data() + layout_.RingOffset(channel, wire, peer);
      };
      std::vector<const std::atomic<std::uint32_t>*> readers;
      for (int peer = 0; peer < n; ++peer) {
        if (peer == rank_) continue;
        readers.push_back(Head(peer, channel, wire, rank_, true));
        To(channel, wire, peer) =
            FillEnd(slots(rank_, peer), layout_.Shape(wire, peer), {Head(peer, channel, wire, rank_, false)});
        From(channel, wire, peer) =
            EmptyEnd(slots(peer, rank_), layout_.Shape(wire, rank_), peer, Head(rank_, channel, wire, peer, false));
        PostOf(channel, wire, peer) =
            EmptyEnd(slots(peer, n), layout_.Shape(wire, n), peer, Head(rank_, channel, wire, peer, true));
      }
      Post(channel, wire) = FillEnd(slots(rank_, n), layout_.Shape(wire, n), std::move(readers));
    }
  }
}

}  // namespace tutti
