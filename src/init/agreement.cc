#include "src/init/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/extension.h"
#include "base/plain_text.h"
#include "selection/cost_model/candidates.h"
#include "topology/detect/host.h"
#include "tutti/tutti.h"

namespace tutti::init {
namespace {

struct Terms {
  detect::CpuMask cpus;
  std::int32_t quota;
  std::int32_t threads_granted;
  std::int32_t channels;
  std::int32_t min_channels;
  std::int32_t max_channels;
  std::int64_t chunk_bytes;
  std::int64_t count_from;
  std::int64_t slot_span;
  std::int64_t core_cache;
  std::int64_t last_cache;
  std::int32_t deterministic;
  std::int32_t check;
  std::int32_t copy_engine;
  std::int32_t threads;
  std::int32_t virtual_nodes;
  std::int32_t virtual_hosts;
  std::array<char, 8> measure;
  std::int32_t programs;  // named by rank 0's settings, which are the ones used
  std::int32_t device;
  std::array<char, 16> protocol;
  std::array<char, 16> net;
  std::array<char, 256> net_plugin;
  std::array<char, 16> protection;
  std::array<char, 256> algorithm;
  std::array<char, 64> tuner;
};

// Names are compared only up to this length: longer ones that differ beyond it count as equal.
template <std::size_t N>
std::array<char, N> Padded(const std::string& text) {
  std::array<char, N> padded{};
  std::memcpy(padded.data(), text.data(), std::min(text.size(), padded.size() - 1));
  return padded;
}

template <typename T>
void RequireEqual(std::string_view what, const T& first, const T& other, std::size_t rank) {
  if (first == other) return;
  Throw(tuttiInvalidUsage,
        "ranks disagree on {}: rank 0 has \"{}\", rank {} has \"{}\"; set the same value on every rank", what, first,
        rank, other);
}

template <std::size_t N>
void RequireEqual(std::string_view what, const std::array<char, N>& first, const std::array<char, N>& other,
                  std::size_t rank) {
  // The ranks' texts arrive unchecked and may lack a terminator.
  const auto text = [](const std::array<char, N>& padded) {
    return Printable({padded.data(), strnlen(padded.data(), N)});
  };
  RequireEqual(what, text(first), text(other), rank);
}

// Plans depend on it.
std::string NameOfTuner() {
  auto* const tuner = TheExtension().tuner;
  const char* const name = tuner == nullptr ? nullptr : tuner();
  return name == nullptr ? "" : name;
}

// Over how many bytes a rank spreads its data (TUTTI_SLOT_SPAN). A line that a core has filled and another one has read
// leaves their own caches after about twice what these hold. Ranks that share a core push each other's lines out anyway.
// Half of the last-level cache stays for what the program works on.
std::size_t SlotSpan(std::size_t core_cache, std::size_t last_cache, int ranks, int cores) {
  if (ranks > cores) return 0;
  return std::min(2 * core_cache, detect::CacheShareBytes(last_cache, cores) / 2 / static_cast<std::size_t>(ranks));
}

// What the ranks of a machine share.
struct Machine {
  detect::CpuMask cpus{};
  int quota = std::numeric_limits<int>::max();
  int ranks = 0;
  int cores() const { return std::min(detect::CountCpus(cpus), quota); }
};

}  // namespace

Agreement Agree(const Meeting& meeting, int device, int most_threads) {
  const auto& settings = meeting.settings;
  const Terms mine{detect::AllowedCpus(),
                   static_cast<std::int32_t>(detect::QuotaCpus()),
                   static_cast<std::int32_t>(std::min(most_threads, detect::ThreadsGranted())),
                   settings.channels,
                   settings.min_channels,
                   settings.max_channels,
                   settings.chunk_bytes,
                   settings.count_from,
                   settings.slot_span,
                   static_cast<std::int64_t>(detect::CoreCacheBytes()),
                   static_cast<std::int64_t>(detect::LastLevelCacheBytes()),
                   settings.deterministic,
                   settings.check,
                   settings.copy_engine,
                   settings.threads,
                   settings.virtual_nodes,
                   settings.virtual_hosts,
                   Padded<8>(settings.measure),
                   !settings.program.empty(),
                   device,
                   Padded<16>(settings.protocol),
                   Padded<16>(settings.net),
                   Padded<256>(settings.net_plugin),
                   Padded<16>(settings.data_protection),
                   Padded<256>(settings.algorithm),
                   Padded<64>(NameOfTuner())};
  const auto all = GatherValues(meeting.all_gather, mine);
  const auto& first = all.front();
  const int own_kernel = meeting.hosts.kernel_of[static_cast<std::size_t>(meeting.rank)];
  Agreement agreement;
  agreement.programs = first.programs != 0;
  std::map<int, Machine> machines;  // by kernel
  int granted = mine.threads_granted;
  auto core_cache = mine.core_cache, last_cache = mine.last_cache;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto& theirs = all[r];
    RequireEqual("channels (TUTTI_CHANNELS)", first.channels, theirs.channels, r);
    RequireEqual("the least channels (TUTTI_MIN_CHANNELS)", first.min_channels, theirs.min_channels, r);
    RequireEqual("the most channels (TUTTI_MAX_CHANNELS)", first.max_channels, theirs.max_channels, r);
    RequireEqual("the tuner plug-in", first.tuner, theirs.tuner, r);
    RequireEqual("chunk (TUTTI_CHUNK)", first.chunk_bytes, theirs.chunk_bytes, r);
    RequireEqual("deterministic (TUTTI_DETERMINISTIC)", first.deterministic, theirs.deterministic, r);
    RequireEqual("check (TUTTI_CHECK)", first.check, theirs.check, r);
    RequireEqual("copy engines (TUTTI_COPY_ENGINE)", first.copy_engine, theirs.copy_engine, r);
    RequireEqual("virtual nodes (TUTTI_VIRTUAL_NODES)", first.virtual_nodes, theirs.virtual_nodes, r);
    RequireEqual("measuring the network (TUTTI_MEASURE)", first.measure, theirs.measure, r);
    RequireEqual("virtual hosts (TUTTI_VIRTUAL_HOSTS)", first.virtual_hosts, theirs.virtual_hosts, r);
    RequireEqual("protocol (TUTTI_PROTO)", first.protocol, theirs.protocol, r);
    RequireEqual("what GPUs count from (TUTTI_COUNT_FROM)", first.count_from, theirs.count_from, r);
    RequireEqual("the span of slots (TUTTI_SLOT_SPAN)", first.slot_span, theirs.slot_span, r);
    RequireEqual("transport between hosts (TUTTI_NET)", first.net, theirs.net, r);
    RequireEqual("net plug-in (TUTTI_NET_PLUGIN)", first.net_plugin, theirs.net_plugin, r);
    RequireEqual("protection of data (TUTTI_DATA_PROTECTION)", first.protection, theirs.protection, r);
    RequireEqual("algorithm (TUTTI_ALGO)", first.algorithm, theirs.algorithm, r);
    auto& machine = machines[meeting.hosts.kernel_of[r]];
    for (std::size_t w = 0; w < machine.cpus.size(); ++w) machine.cpus[w] |= theirs.cpus[w];
    machine.quota = std::min(machine.quota, theirs.quota);
    ++machine.ranks;
    granted = std::min({granted, theirs.threads_granted, detect::CountCpus(theirs.cpus)});
    if (meeting.hosts.kernel_of[r] == own_kernel) {
      core_cache = std::min(core_cache, theirs.core_cache);
      last_cache = std::min(last_cache, theirs.last_cache);
    }
    agreement.processors.push_back(detect::ListCpus(theirs.cpus));
    agreement.threads = std::max(agreement.threads, theirs.threads);
    agreement.threads_forced = agreement.threads_forced || theirs.threads != 0;
    if (theirs.device == TUTTI_DEVICE_NONE && agreement.why_no_device.empty()) {
      agreement.why_no_device = fmt::format(
          "no CUDA context was current in rank {}'s thread when the communicator was made, nor did its config name a "
          "device",
          r);
    }
  }
  const Machine& own = machines.at(own_kernel);
  agreement.cores = own.cores();
  agreement.neighbours = own.ranks;
  // Where the user says how many channels there are, a thread drives them all, as one does for a small message.
  if (!agreement.threads_forced && settings.channels == 0 && settings.min_channels == 0) {
    int threads = settings.max_channels == 0 ? granted : std::min(granted, settings.max_channels);
    for (const auto& [kernel, machine] : machines) {
      threads = std::min(threads, cost_model::ThreadsFor(machine.cores(), machine.ranks));
    }
    agreement.threads = threads;
  }
  agreement.slot_span = settings.slot_span != 0
                            ? static_cast<std::size_t>(settings.slot_span)
                            : SlotSpan(static_cast<std::size_t>(std::max<std::int64_t>(0, core_cache)),
                                       static_cast<std::size_t>(std::max<std::int64_t>(0, last_cache)),
                                       agreement.neighbours, agreement.cores);
  return agreement;
}

}  // namespace tutti::init
