#include "transports/fabric.h"

#include <sodium.h>
#include <sys/eventfd.h>
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
  std::int32_t bell;  // its descriptor, for ranks of the same process
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

}  // namespace

Fabric::Fabric(int rank, Hosts hosts, int channels, const Settings& settings, const AllGather& all_gather,
               Deadline deadline)
    : rank_(rank),
      hosts_(std::move(hosts)),
      local_(hosts_.RanksWith(rank)),
      layout_(static_cast<int>(hosts_.host_of.size()), channels),
      peers_(hosts_.host_of.size()) {
  auto& own = peers_[static_cast<std::size_t>(rank)];
  own.segment = Segment::Create("tutti", layout_.bytes());
  new (own.segment.data()) ControlBlock{};
  control(rank).state.store(RankState::starting, std::memory_order_release);
  // Where there is a network to listen to, a sleeping rank waits for descriptors, and is woken by one.
  const bool networked = hosts_.count() > 1;
  if (networked) {
    own.bell = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!own.bell) ThrowErrno("eventfd");
    own.bell_number = own.bell.get();
  }

  std::uint64_t probe;
  randombytes_buf(&probe, sizeof probe);
  const Introduction introduction{getpid(),
                                  PidNamespace(),
                                  reinterpret_cast<std::uint64_t>(own.segment.data()),
                                  reinterpret_cast<std::uint64_t>(&probe),
                                  probe,
                                  own.bell_number};
  const auto all = GatherValues(all_gather, introduction);

  const FileDescriptor pidfd = OwnPidfd();
  std::vector<int> mine = {own.segment.fd().get()};
  if (networked) mine.push_back(own.bell.get());
  if (pidfd) mine.push_back(pidfd.get());
  auto descriptors = ExchangeDescriptors(rank, local_, mine, all_gather, deadline);

  for (std::size_t r = 0; r < peers_.size(); ++r) {
    const bool same_kernel = hosts_.kernel_of[r] == hosts_.kernel_of[static_cast<std::size_t>(rank)];
    peers_[r].same_process =
        same_kernel && all[r].pid_namespace == introduction.pid_namespace && all[r].pid == introduction.pid;
  }
  Verdict verdict{settings.cma};
  for (std::size_t i = 0; i < local_.size(); ++i) {
    auto& peer = peers_[static_cast<std::size_t>(local_[i])];
    const auto& theirs = all[static_cast<std::size_t>(local_[i])];
    const bool same_namespace = theirs.pid_namespace == introduction.pid_namespace;
    peer.pid = static_cast<pid_t>(theirs.pid);
    if (local_[i] == rank) continue;
    auto& fds = descriptors[i];
    if (peer.same_process) {
      peer.segment = Segment::Share(reinterpret_cast<std::byte*>(theirs.segment), layout_.bytes());
      peer.bell_number = theirs.bell;
    } else {
      peer.segment = Segment::Map(fds.at(0), layout_.bytes());
      std::size_t next = 1;
      if (networked) {
        peer.bell = std::move(fds.at(next++));
        peer.bell_number = peer.bell.get();
      }
      if (fds.size() > next) peer.pidfd = std::move(fds[next]);
      std::uint64_t echo = 0;
      verdict.cma = verdict.cma && same_namespace && ReadProcess(peer.pid, theirs.probe_address, &echo, sizeof echo) &&
                    echo == theirs.probe;
    }
    all_same_process_ = all_same_process_ && peer.same_process;
  }
  for (int r = 0; r < nranks(); ++r) {
    if (is_local(r)) continue;
    auto& peer = peers_[static_cast<std::size_t>(r)];
    peer.segment = Segment::Reserve(layout_.bytes());
    new (peer.segment.data()) ControlBlock{};
    control(r).state.store(RankState::alive, std::memory_order_relaxed);
  }
  MakeRings();
  control(rank).state.store(RankState::alive, std::memory_order_release);
  // Also the barrier behind which every rank has mapped every segment and read every probe.
  cma_ = true;
  for (const auto& each : GatherValues(all_gather, verdict)) cma_ = cma_ && each.cma;
  Log(Subject::init, "rank {} of {}: on host {} of {}, {} B of shared memory a rank, {} channels, cma {}, {}", rank,
      nranks(), hosts_.host_of[static_cast<std::size_t>(rank)], hosts_.count(), layout_.bytes(), channels,
      cma_ ? "in use" : "not in use", all_same_process_ ? "one process" : "several processes");
}

std::atomic<std::uint32_t>* Fabric::Head(int reader, int channel, Wire wire, int writer, bool post) const {
  return reinterpret_cast<std::atomic<std::uint32_t>*>(segment(reader) +
                                                       layout_.HeadOffset(channel, wire, writer, post));
}

void Fabric::MakeRings() {
  const int n = nranks();
  fills_.resize(FillIndex(layout_.channels(), Wire::line, 0));
  empties_.resize(EmptyIndex(layout_.channels(), Wire::line, 0, false));
  for (int channel = 0; channel < layout_.channels(); ++channel) {
    for (const Wire wire : {Wire::line, Wire::inlined, Wire::bulk}) {
      const auto slots = [&](int owner, int peer) { return segment(owner) + layout_.RingOffset(channel, wire, peer); };
      std::vector<const std::atomic<std::uint32_t>*> readers;
      for (int peer = 0; peer < n; ++peer) {
        if (peer == rank_) continue;
        // Posts stay on a host.
        if (is_local(peer)) readers.push_back(Head(peer, channel, wire, rank_, true));
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
