#include "transports/shm/fabric.h"

#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <new>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "transports/shm/cma.h"
#include "transports/shm/descriptors/unix_messages.h"
#include "transports/shm/memory_nodes.h"
#include "transports/shm/process_register.h"

namespace tutti::shm {
namespace {

struct Verdict {
  bool cma;         // this rank can read every other local rank's memory, and may
  bool cma_forced;  // this rank asks for it
  bool several_processes;
};

// Of this thread: /proc/self is the process's first thread, which may have ended.
std::uint64_t PidNamespace() {
  struct stat status {};
  return stat("/proc/thread-self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// process_vm_readv takes the number of any thread.
bool IsThreadOfThisProcess(std::int64_t number) {
  return access(fmt::format("/proc/self/task/{}", number).c_str(), F_OK) == 0;
}

// A descriptor of this process itself. It can be sent between pid namespaces, where a number could not. Empty where the
// system has none.
FileDescriptor OwnPidfd() {
  FileDescriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!pidfd && (errno == EMFILE || errno == ENFILE)) ThrowErrno("cannot open a descriptor of this process");
  return pidfd;
}

}  // namespace

struct Fabric::Lent {
  std::shared_ptr<Mapping> memory;
  std::shared_ptr<const FileDescriptor> bell;
};

struct Fabric::Introduction {
  RegisterKey process;
  RegisterKey lent;  // the key under which ranks of the same process find it
  std::int64_t pid;
  std::uint64_t pid_namespace;
  std::uint64_t probe_address;  // where `probe` lies in that process: reading it back proves that CMA works
  std::uint64_t probe;
  std::int64_t memory_node;
};

Fabric::Fabric(int rank, Hosts hosts, int channels, const Settings& settings, const AllGather& all_gather,
               Deadline deadline)
    : rank_(rank),
      locality_{rank, std::move(hosts), {}},
      local_(locality_.Local()),
      layout_(static_cast<int>(locality_.hosts.host_of.size()), channels),
      shadow_layout_(layout_.nranks(), channels, ring::kInlineNetworkDepth),
      peers_(locality_.hosts.host_of.size()) {
  auto& own = peers_[static_cast<std::size_t>(rank)];
  own.segment = Segment::Create("tutti", layout_.bytes());
  new (own.segment.data()) ring::ControlBlock{};
  control(rank).state.store(ring::RankState::starting, std::memory_order_release);
  // With a network to watch, a sleeping rank waits for descriptors, and one of them wakes it.
  const bool networked = this->hosts().count() > 1;
  if (networked) {
    // Not an eventfd, which every peer could make blocking and full for all others. Datagrams: no peer can close them.
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) ThrowErrno("socketpair");
    hearing_ = FileDescriptor(ends[0]);
    own.bell = std::make_shared<const FileDescriptor>(ends[1]);
  }

  std::uint64_t probe;
  randombytes_buf(&probe, sizeof probe);
  const Offer offer(rank, std::make_shared<Lent>(Lent{own.segment.mapping(), own.bell}));
  const auto all =
      GatherValues(all_gather, Introduction{ProcessKey(), offer.key(), getpid(), PidNamespace(),
                                            reinterpret_cast<std::uint64_t>(&probe), probe, OwnMemoryNode()});
  PlaceRings(all);
  FindThisProcess(all, all_gather);

  const FileDescriptor pidfd = OwnPidfd();
  std::vector<int> mine = {own.segment.fd().get()};
  if (networked) mine.push_back(own.bell->get());
  if (pidfd) mine.push_back(pidfd.get());
  const bool cma_off = settings.cma == "off" || settings.cma == "0" || !settings.zero_copy;
  Verdict verdict{!cma_off, settings.cma == "on" || settings.cma == "1", false};
  ExchangeDescriptors(locality_, mine, all_gather, deadline, [&](int r, std::vector<FileDescriptor> descriptors) {
    const bool alone = !NumberIsAnothers(all, r);
    verdict.cma = TakePeer(r, all[static_cast<std::size_t>(r)], std::move(descriptors), verdict.cma && alone);
  });
  own.segment.DropDescriptor();  // every rank has it

  for (int r = 0; r < nranks(); ++r) {
    auto& peer = peers_[static_cast<std::size_t>(r)];
    all_same_process_ = all_same_process_ && (!is_local(r) || same_process(r));
    if (is_local(r)) {
      peer.pid = static_cast<pid_t>(all[static_cast<std::size_t>(r)].pid);
      continue;
    }
    peer.segment = Segment::Reserve(shadow_layout_.bytes());
    new (peer.segment.data()) ring::ControlBlock{};
    control(r).state.store(ring::RankState::alive, std::memory_order_relaxed);
  }
  MakeRings();
  control(rank).state.store(ring::RankState::alive, std::memory_order_release);
  // Also a barrier: after it, every rank has found every segment and read every probe.
  verdict.several_processes = !all_same_process_;
  bool all_can = true, any_needs = false;
  for (const auto& each : GatherValues(all_gather, verdict)) {
    all_can = all_can && each.cma;
    any_needs = any_needs || each.several_processes;
    cma_forced_ = cma_forced_ || each.cma_forced;
  }
  cma_ = all_can && any_needs;
  Log(Subject::init,
      "rank {} of {}: on host {} of {}, {} B of shared memory a rank, {} channels, process_vm_readv {}, {}", rank,
      nranks(), this->hosts().host_of[static_cast<std::size_t>(rank)], this->hosts().count(), layout_.bytes(), channels,
      cma_                 ? "possible"
      : cma_off || all_can ? "not used"
                           : "impossible: the system forbids it, or a rank does",
      all_same_process_ ? "one process" : "several processes");
}

// Whether another process claims the number of `rank`'s process: then one of the two would be read in the other's place.
bool Fabric::NumberIsAnothers(const std::vector<Introduction>& all, int rank) const {
  const auto& theirs = all[static_cast<std::size_t>(rank)];
  return std::ranges::any_of(local_, [&](int r) {
    const auto& other = all[static_cast<std::size_t>(r)];
    return !locality_.SameProcess(r, rank) && other.pid == theirs.pid && other.pid_namespace == theirs.pid_namespace;
  });
}

void Fabric::PlaceRings(const std::vector<Introduction>& all) {
  std::vector<int> node_of(all.size(), kNoMemoryNode);
  for (const int r : local_)
    node_of[static_cast<std::size_t>(r)] = static_cast<int>(all[static_cast<std::size_t>(r)].memory_node);
  PlacePages(segment(rank_), PagesByReader(layout_, rank_, node_of, static_cast<std::size_t>(sysconf(_SC_PAGESIZE))));
}

// Ranks that claim to be of this process must be in its register: a claim is not enough to share pointers.
void Fabric::FindThisProcess(const std::vector<Introduction>& all, const AllGather& all_gather) {
  std::map<RegisterKey, int> processes;
  for (const auto& each : all) {
    locality_.process_of.push_back(processes.emplace(each.process, static_cast<int>(processes.size())).first->second);
  }
  for (int r = 0; r < nranks(); ++r) {
    if (r == rank_ || !same_process(r)) continue;
    const auto lent = FindOffer<Lent>(all[static_cast<std::size_t>(r)].lent, r);
    if (lent == nullptr || lent->memory->bytes() != layout_.bytes()) {
      all_gather({});  // the control plane names the rank that left first
      Throw(tuttiRemoteError, "rank {} of this process left while the ranks shared memory", r);
    }
    if (!is_local(r)) continue;
    auto& peer = peers_[static_cast<std::size_t>(r)];
    peer.segment = Segment(lent->memory);
    peer.bell = lent->bell;
  }
}

// Maps what a rank of another process gives. Returns whether this process may read that process's memory.
bool Fabric::TakePeer(int rank, const Introduction& theirs, std::vector<FileDescriptor> descriptors, bool probe) {
  auto& peer = peers_[static_cast<std::size_t>(rank)];
  peer.segment = Segment::Map(descriptors.at(0), layout_.bytes());
  std::size_t next = 1;
  if (hosts().count() > 1) {
    if (!IsUnixSocket(descriptors.at(next), SOCK_DGRAM)) {
      Throw(tuttiInternalError, "rank {} of this host gave no socket by which to wake it", rank);
    }
    peer.bell = std::make_shared<const FileDescriptor>(std::move(descriptors[next++]));
  }
  if (descriptors.size() > next) {
    probe = probe && ProcessNumber(descriptors[next]) == theirs.pid;
    if (IsPidfd(descriptors[next])) peer.pidfd = ShareProcess(std::move(descriptors[next]));
  }
  // A rank that reads its own memory in the peer's place would send the peer whatever the peer points at.
  probe = probe && !IsThreadOfThisProcess(theirs.pid);
  std::uint64_t echo = 0;
  return probe && theirs.pid_namespace == PidNamespace() &&
         ReadProcess(static_cast<pid_t>(theirs.pid), theirs.probe_address, &echo, sizeof echo) && echo == theirs.probe;
}

bool Fabric::ReadMemory(int rank, std::uint64_t address, void* destination, std::size_t bytes) const {
  // A process keeps its number until it has ended: if it is alive after the copy, the copy was of its memory. The check
  // costs some hundred nanoseconds, a copy many microseconds.
  return ReadProcess(pid(rank), address, destination, bytes) && !HasEnded(pidfd(rank));
}

std::atomic<std::uint32_t>* Fabric::Head(int reader, int channel, ring::Protocol protocol, int writer,
                                         bool post) const {
  return reinterpret_cast<std::atomic<std::uint32_t>*>(segment(reader) +
                                                       layout_.HeadOffset(channel, protocol, writer, post));
}

std::atomic<std::uint32_t>* Fabric::RecallWord(int reader, int channel, int writer) const {
  return reinterpret_cast<std::atomic<std::uint32_t>*>(segment(reader) + layout_.RecallOffset(channel, writer));
}

void Fabric::MakeRings() {
  const int n = nranks();
  fills_.resize(FillIndex(layout_.channels(), ring::Protocol::line, 0));
  empties_.resize(EmptyIndex(layout_.channels(), ring::Protocol::line, 0, false));
  for (int channel = 0; channel < layout_.channels(); ++channel) {
    for (const ring::Protocol protocol : {ring::Protocol::line, ring::Protocol::inlined, ring::Protocol::bulk}) {
      const auto slots = [&](int owner, int peer) {
        return segment(owner) + layout(owner).RingOffset(channel, protocol, peer);
      };
      std::vector<const std::atomic<std::uint32_t>*> readers;
      std::vector<std::atomic<std::uint32_t>*> recalls;
      for (int peer = 0; peer < n; ++peer) {
        if (peer == rank_) continue;
        // Posts stay on a host.
        if (is_local(peer)) {
          readers.push_back(Head(peer, channel, protocol, rank_, true));
          recalls.push_back(RecallWord(peer, channel, rank_));
        }
        // Slots for another host are filled in the shadow segment, where that rank's ring for itself would be (and so
        // is the count of slots that came from there), and not in this rank's segment: there every rank of this host
        // could change what a slot refers to before the network takes it.
        To(channel, protocol, peer) =
            ring::FillEnd(slots(is_local(peer) ? rank_ : peer, peer), layout(peer).SlotShapeOf(protocol, peer),
                          {Head(peer, channel, protocol, rank_, false)}, {RecallWord(peer, channel, rank_)});
        From(channel, protocol, peer) = ring::EmptyEnd(
            slots(peer, rank_), layout(peer).SlotShapeOf(protocol, rank_), peer,
            Head(is_local(peer) ? rank_ : peer, channel, protocol, peer, false), RecallWord(rank_, channel, peer));
        PostOf(channel, protocol, peer) =
            ring::EmptyEnd(slots(peer, n), layout_.SlotShapeOf(protocol, n), peer,
                           Head(rank_, channel, protocol, peer, true), RecallWord(rank_, channel, peer));
      }
      Post(channel, protocol) =
          ring::FillEnd(slots(rank_, n), layout_.SlotShapeOf(protocol, n), std::move(readers), std::move(recalls));
    }
  }
}

void Fabric::SpreadSlots(std::size_t bytes) {
  constexpr auto kBulk = ring::Protocol::bulk;
  const std::size_t post = bytes / ring::kBulkDepth;
  const std::size_t pair = post / std::max<std::size_t>(1, local_.size() - 1);
  for (int channel = 0; channel < layout_.channels(); ++channel) {
    Post(channel, kBulk).Spread(post);
    for (const int peer : local_) {
      if (peer == rank_) continue;
      To(channel, kBulk, peer).Spread(pair);
      From(channel, kBulk, peer).Spread(pair);
      PostOf(channel, kBulk, peer).Spread(post);
    }
  }
}

}  // namespace tutti::shm
