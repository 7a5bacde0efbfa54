#include "src/init/network_probe.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "base/all_gather.h"
#include "base/log.h"
#include "transports/ring/slot.h"

namespace tutti::init {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kShort = 8;
constexpr int kWarmUps = 4;
// It ends after so many rounds, or after so long on a slow network, but not before a few.
constexpr int kMostRounds = 40;
constexpr int kFewestRounds = 3;
constexpr std::chrono::milliseconds kLongestProbe{8};
// A stream has so many messages that its rate shows beside the first one's time; fewer where a round trip takes long.
constexpr int kMessages = 16;
constexpr int kMessagesOnASlowLink = 4;
constexpr double kSlowUs = 3'000;
// A look for messages and a sched_yield take less, unless another thread takes the core to work.
constexpr std::chrono::microseconds kYield{8};
// Without an answer for so long, nothing is measured. A first address that does not answer takes three seconds.
constexpr Deadline::Milliseconds kPatience{4'000};
// Costs are powers of this: a disturbance of a tenth rarely changes them, and with them a choice.
constexpr double kGrid = 1.25;
constexpr double kFastest = 100;  // GB/s, of what takes no time that shows

double Microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

// The value that one in `part` values is below.
double Quantile(std::vector<double> values, std::size_t part) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / part);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}
// Disturbances only lengthen.
double Usual(const std::vector<double>& times) { return Quantile(times, 4); }
double Median(const std::vector<double>& values) { return Quantile(values, 2); }

// One of two ranks. One measures, the other one serves.
class Probe final : public progress::NetworkTransportEvents {
 public:
  // Collective over all ranks. `peer`: -1: this rank has none.
  Probe(const Meeting& meeting, const progress::NetworkKind& kind, const auth::SecretKey& key, int peer)
      : peer_(peer), sent_from_(kLongProbe) {
    const auto peers = peer < 0 ? std::vector<int>() : std::vector<int>{peer};
    transport_ = kind.make(meeting.rank, peers, key, meeting.settings, {}, meeting.all_gather, *this);
    alive_ = Deadline::After(kPatience);
  }

  // Zeros where the connection broke, or the time was out.
  ProbeTimes Measure() {
    transport_->Hurry(peer_);
    double fastest = std::numeric_limits<double>::max();
    for (int i = 0; i < kWarmUps; ++i) {
      RoundTrip(kShort);
      const auto began = Clock::now();
      RoundTrip(kLongProbe);
      fastest = std::min(fastest, Microseconds(Clock::now() - began));
    }
    if (fastest > kSlowUs) messages_ = kMessagesOnASlowLink;
    enum Stage { small, large, short_work, duplex, stream, stages };
    // In turn, so that a disturbance meets all of them. The stream comes last, because a network that limits a rate lets the
    // first bytes after a pause pass.
    std::array<std::vector<double>, stages> rounds, work;
    std::vector<double> idle;
    const auto begin = Clock::now();
    for (int round = 0;
         !failed_ && (round < kFewestRounds || (round < kMostRounds && Clock::now() - begin < kLongestProbe));
         ++round) {
      for (std::size_t stage = 0; stage < stages; ++stage) {
        const auto began = Clock::now();
        at_work_ = lost_core_ = {};
        switch (stage) {
          case small: RoundTrip(kShort); break;
          case large: RoundTrip(kLongProbe); break;
          case short_work: Stream(kShort, messages_); break;
          case duplex: Stream(kLongProbe, messages_); break;
          default: Stream(kLongProbe, 1);
        }
        rounds[stage].push_back(Microseconds(Clock::now() - began));
        work[stage].push_back(Microseconds(at_work_));
        // At its end, a stream waits for the last answer.
        if (stage == duplex) {
          const double streamed = rounds[duplex].back() - rounds[small].back();
          idle.push_back(streamed > 0 ? 1 - Microseconds(at_work_ + lost_core_) / streamed : 0);
        }
      }
    }
    if (failed_) return {};
    ProbeTimes times;
    times.small = Usual(rounds[small]) / 2;
    times.large = Usual(rounds[large]) / 2;
    // Of a stream's time, the first message's way and the last one's way back are known.
    const auto of_each = [&](double all, double way) { return std::max(0.0, all - 2 * way) / (messages_ - 1); };
    times.stream = of_each(Usual(rounds[stream]), times.large);
    times.duplex = of_each(Usual(rounds[duplex]), times.large);
    times.short_work = Usual(work[short_work]) / (2 * messages_);
    times.long_work = Usual(work[duplex]) / (2 * messages_);
    times.idle = Median(idle);
    Send(Request::end, kShort);
    while (!transport_->Delivered(peer_) && Work()) {  // or the peer has gone, which has it then
    }
    return times;
  }

  void Serve() {
    transport_->Connect(peer_);
    while (!ended_ && Work()) {
    }
  }

 private:
  enum class Request : std::uint32_t { echo, take, end, reply };

  void Connected(int /*peer*/) override {}
  // Several connections may bring messages at the same time.
  std::byte* Landing(int /*peer*/, const progress::SlotMessage& message) override {
    if (message.bytes > kLongProbe || arriving_.contains(message.number)) return nullptr;
    auto& buffer = arriving_[message.number];
    if (!free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
    buffer.resize(kLongProbe);
    return buffer.data();
  }
  void Landed(int /*peer*/, const progress::SlotMessage& message) override {
    auto arrived = arriving_.extract(message.number);
    free_.push_back(std::move(arrived.mapped()));
    alive_ = Deadline::After(kPatience);
    switch (static_cast<Request>(message.tag)) {
      case Request::echo: echoes_.push_back(message.bytes); break;
      case Request::take: break;
      case Request::end: ended_ = true; break;
      case Request::reply: ++replies_; break;
      default: failed_ = true;
    }
  }
  void Sent(int /*peer*/, std::uint32_t /*connection*/, std::uint32_t /*number*/) override {}
  bool Control(int /*peer*/, std::span<const std::byte> /*message*/) override { return false; }
  void Broken(int /*peer*/, const std::string& /*why*/) override { failed_ = true; }

  // All messages have the same content, which never changes.
  void Post(Request request, std::uint32_t bytes) {
    const auto connection = static_cast<std::uint32_t>(ring::Protocol::bulk);
    const auto began = Clock::now();
    transport_->Send(peer_, {connection, ++sent_, static_cast<std::uint32_t>(request), bytes}, sent_from_.data());
    transport_->Flush(peer_);
    at_work_ += Clock::now() - began;
  }

  void Send(Request request, std::uint32_t bytes) {
    while (transport_->Room(peer_) == 0 && Work()) {
    }
    if (!failed_) Post(request, bytes);
  }

  void AwaitReplies(int all) {
    while (replies_ < all && Work()) {
    }
  }

  void RoundTrip(std::uint32_t bytes) {
    const int before = replies_;
    Send(Request::echo, bytes);
    AwaitReplies(before + 1);
  }

  // The last `echoed` messages come back.
  void Stream(std::uint32_t bytes, int echoed) {
    const int before = replies_;
    for (int i = 0; i < messages_; ++i) Send(i < messages_ - echoed ? Request::take : Request::echo, bytes);
    AwaitReplies(before + echoed);
  }

  // Moves what can be moved. False: it has failed.
  bool Work() {
    if (failed_) return false;
    // All hosts of one machine share its processors.
    const auto began = Clock::now();
    if (transport_->Advance()) {
      at_work_ += Clock::now() - began;
    } else {
      sched_yield();
      if (const auto took = Clock::now() - began; took > kYield) lost_core_ += took;
    }
    while (!echoes_.empty() && transport_->Room(peer_) > 0) {
      Post(Request::reply, echoes_.back());
      echoes_.pop_back();
    }
    failed_ = failed_ || alive_.Passed();
    return true;
  }

  int peer_;
  int messages_ = kMessages;
  std::vector<std::byte> sent_from_;
  std::map<std::uint32_t, std::vector<std::byte>> arriving_;  // by number
  std::vector<std::vector<std::byte>> free_;
  std::unique_ptr<progress::NetworkTransport> transport_;
  std::vector<std::uint32_t> echoes_;  // to send: their bytes
  std::uint32_t sent_ = 0;
  int replies_ = 0;
  Clock::duration at_work_{};    // sending, or receiving what has arrived
  Clock::duration lost_core_{};  // to another thread
  bool ended_ = false;
  bool failed_ = false;
  Deadline alive_ = Deadline::Never();
};

// Pairs of ranks, each the lowest one of its host. Hosts that are one machine's would disturb each other, so one host of each
// machine takes part; or if there is one machine, two hosts of it.
struct Part {
  int peer = -1;  // none
  bool measures = false;
};
Part PartOf(const Meeting& meeting) {
  const auto& hosts = meeting.hosts;
  const auto lowest_of_each = [&](const std::vector<int>& places) {
    std::vector<int> ranks;
    for (int r = 0; r < meeting.nranks(); ++r) {
      const auto own = places.begin() + r;
      if (std::find(places.begin(), own, *own) == own) ranks.push_back(r);
    }
    return ranks;
  };
  auto ranks = lowest_of_each(hosts.kernel_of);
  if (ranks.size() == 1) {
    ranks = lowest_of_each(hosts.host_of);
    ranks.resize(2);
  }
  const auto own = static_cast<std::size_t>(std::ranges::find(ranks, meeting.rank) - ranks.begin());
  const std::size_t other = own ^ 1;
  if (own >= ranks.size() || other >= ranks.size()) return {};
  return {ranks[other], own < other};
}

double OnGrid(double value) { return value > 0 ? std::pow(kGrid, std::round(std::log(value) / std::log(kGrid))) : 0; }

std::string Describe(const cost_model::NetworkCosts& costs) {
  return fmt::format("latency {:.1f} us; a message takes a thread {:.1f} us, and its bytes at {:.1f} GB/s; {}",
                     costs.latency.front(), costs.message_us, costs.message_bandwidth,
                     costs.bandwidth < OnGrid(kFastest) ? fmt::format("a link carries {:.2f} GB/s", costs.bandwidth)
                                                        : "no link limits them");
}

}  // namespace

std::optional<cost_model::NetworkCosts> CostsFrom(const ProbeTimes& times) {
  for (const double each :
       {times.small, times.large, times.stream, times.duplex, times.short_work, times.long_work}) {
    if (each <= 0) return std::nullopt;
  }
  constexpr double kBytes = kLongProbe;
  // A short message takes no more than its whole way.
  const double message = std::min(times.short_work, times.small / 2);
  const double latency = times.small - 2 * message;
  const double thread = std::max(0.0, times.long_work - message);  // B c
  // The link is the limit where threads wait for it, or where it lets the first bytes after a pause through faster than others.
  // Else it is faster than the threads are.
  constexpr double kWaits = 0.2;
  const bool passes_first = times.stream >= times.large;
  const double link = times.idle > kWaits || passes_first
                          ? std::max(times.stream, times.duplex)
                          : std::clamp(times.large - times.small - 2 * thread, 0.0, times.stream);  // B / w
  // 1 GB/s moves 1,000 bytes in a microsecond.
  const auto bandwidth = [&](double us) { return us * 1e3 * kFastest > kBytes ? kBytes / (us * 1e3) : kFastest; };
  cost_model::NetworkCosts costs{};
  costs.bandwidth = OnGrid(bandwidth(link));
  costs.latency.fill(OnGrid(latency));
  costs.message_us = OnGrid(message);
  costs.message_bandwidth = OnGrid(bandwidth(thread));
  return costs;
}

namespace {

// Collective. Pairs of ranks of different hosts send to each other, all at the same time. Returns the slowest pair's costs, the
// same on all ranks; nullopt if nothing was measured.
std::optional<cost_model::NetworkCosts> ProbeNetwork(const Meeting& meeting, const progress::NetworkKind& kind,
                                                     const auth::SecretKey& key) {
  const auto begin = Clock::now();
  const Part part = PartOf(meeting);
  ProbeTimes mine;
  {
    Probe probe(meeting, kind, auth::DeriveKey(key, "tutti network probe", {}), part.peer);
    if (part.measures) {
      mine = probe.Measure();
    } else if (part.peer >= 0) {
      probe.Serve();
    }
  }
  std::optional<cost_model::NetworkCosts> slowest;
  for (const auto& times : GatherValues(meeting.all_gather, mine)) {
    const auto costs = CostsFrom(times);
    if (!costs) continue;
    if (!slowest) slowest = costs;
    slowest->bandwidth = std::min(slowest->bandwidth, costs->bandwidth);
    slowest->message_bandwidth = std::min(slowest->message_bandwidth, costs->message_bandwidth);
    slowest->message_us = std::max(slowest->message_us, costs->message_us);
    for (std::size_t p = 0; p < slowest->latency.size(); ++p) {
      slowest->latency[p] = std::max(slowest->latency[p], costs->latency[p]);
    }
  }
  if (meeting.rank == 0) {
    const double ms = Microseconds(Clock::now() - begin) / 1e3;
    Log(Subject::init, "between hosts, measured in {:.1f} ms: {}", ms,
        slowest ? Describe(*slowest) : "nothing: no answer came in time, or a connection broke");
  }
  return slowest;
}

}  // namespace

cost_model::NetworkCosts AgreeOnCosts(const Meeting& meeting, const progress::NetworkKind& kind,
                                      const auth::SecretKey& key, const std::optional<cost_model::NetworkCosts>& known,
                                      const cost_model::NetworkCosts& guess, double crowding) {
  struct Belief {
    bool knows;
    bool told;  // how fast the link is, by the user
    double crowding;
    cost_model::NetworkCosts known, guess;
  };
  const Belief mine{known.has_value(), meeting.settings.socket_speed != 0, crowding, known.value_or(guess), guess};
  const auto beliefs = GatherValues(meeting.all_gather, mine);
  const auto& first = beliefs.front();
  if (std::ranges::all_of(beliefs, &Belief::knows)) return first.known;
  // RDMA devices keep their word, and take the threads little time. What UCX and plug-ins use is theirs to know.
  const auto measured = kind.transport != tuttiTransportTcp || !meeting.settings.measures()
                            ? std::nullopt
                            : ProbeNetwork(meeting, kind, key);
  auto costs = first.guess;
  if (measured) {
    costs = *measured;
    costs.message_us *= first.crowding;
    costs.message_bandwidth /= first.crowding;
  }
  if (first.told) costs.bandwidth = first.guess.bandwidth;
  return costs;
}

}  // namespace tutti::init
