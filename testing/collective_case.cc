#include "testing/collective_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>

#include "testing/elements.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kGuardBytes = 128;
constexpr std::byte kGuard{0xa5};

// Sizes that expose off-by-one errors at the ends of lines, inline slots, chunks and blocks.
constexpr std::array<std::size_t, 22> kCounts = {
    0, 1, 2, 3, 7, 12, 13, 63, 65, 255, 363, 364, 365, 1000, 4099, 9999, 16383, 16384, 16385, 100003, 262147, 1048577};

bool Reduces(What what) {
  return what == What::all_reduce || what == What::reduce || what == What::reduce_scatter ||
         what == What::reduce_scatter_v;
}
bool IsV(What what) { return what >= What::all_gather_v; }

std::int64_t Mixed(std::uint32_t seed, std::size_t a, std::size_t b) {
  std::uint64_t x = (seed + a) * 0x9e3779b97f4a7c15ULL + (b + 1) * 0xd1b54a32d192ed03ULL;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  return static_cast<std::int64_t>(x >> 33);
}

// A case's inputs: small whole numbers that keep every partial result in the type's exact range.
class Inputs {
 public:
  Inputs(const Case& which, int nranks)
      : case_(which), n_(nranks), limit_(kLimits[which.type]), reduces_(Reduces(which.what)) {}

  std::int64_t operator()(int rank, std::size_t i) const {
    const auto r = static_cast<std::size_t>(rank);
    if (!reduces_) return Anything(r, i);
    switch (case_.op) {
      case tuttiMax:
      case tuttiMin: return Anything(r, i);
      case tuttiProd: return Doubles(rank, i) ? 2 : 1;
      case tuttiAvg: return Average(i) + Swing(rank);
      default: break;
    }
    if (limit_ < n_) return (Mixed(case_.seed, 0, i) + rank) % n_ < limit_ ? 1 : 0;
    const auto most = limit_ / n_;
    return Mixed(case_.seed, r, i) % (most + 1);
  }

  std::int64_t Reduced(std::size_t i) const {
    std::int64_t result = (*this)(0, i);
    for (int r = 1; r < n_; ++r) {
      const auto next = (*this)(r, i);
      switch (case_.op) {
        case tuttiProd: result *= next; break;
        case tuttiMax: result = std::max(result, next); break;
        case tuttiMin: result = std::min(result, next); break;
        default: result += next; break;
      }
    }
    return case_.op == tuttiAvg ? result / n_ : result;
  }

 private:
  std::int64_t Anything(std::size_t r, std::size_t i) const {
    const auto value = Mixed(case_.seed, r, i) % (limit_ + 1);
    return IsSigned(case_.type) && (value & 1) != 0 ? -value : value;
  }
  // At most six factors of two: in range for every type.
  bool Doubles(int rank, std::size_t i) const { return (Mixed(case_.seed, 0, i) + rank) % n_ < std::min(n_, 6); }
  std::int64_t Average(std::size_t i) const { return Mixed(case_.seed, 0, i) % (limit_ / n_ + 1); }
  // Adds up to zero over the ranks of a signed type.
  std::int64_t Swing(int rank) const {
    if (!IsSigned(case_.type) || (n_ % 2 == 1 && rank == n_ - 1) || limit_ < n_) return 0;
    return rank % 2 == 0 ? 1 : -1;
  }

  const Case& case_;
  int n_;
  std::int64_t limit_;
  bool reduces_;
};

// A range of the output, and its expected values.
struct Expected {
  std::size_t begin;
  std::size_t count;
  std::function<std::int64_t(std::size_t)> value;  // by position in the range
};

// One rank's input and output. Elements outside all ranges must not change.
struct Part {
  std::size_t send_count = 0;
  std::size_t receive_count = 0;
  std::vector<Expected> expected = {};
  std::optional<std::size_t> in_place_at = {};  // element of the larger buffer where the smaller one lies
};

// The v-forms' counts, with gaps of one element between blocks where displacements allow them.
struct Blocks {
  std::vector<std::size_t> counts, places;
  std::size_t end = 0;

  void Add(std::size_t count, std::size_t hole) {
    counts.push_back(count);
    places.push_back(end + hole);
    end += hole + count;
  }
};

std::size_t VectorCount(const Case& c, int from, int to) {
  const auto key = static_cast<std::size_t>(from * 64 + to);
  const auto pick = Mixed(c.seed, key, 77);
  return pick % 4 == 0 ? 0 : c.count * static_cast<std::size_t>(pick % 3) / 2 + static_cast<std::size_t>(pick % 5);
}

class Runner {
 public:
  Runner(const Case& which, int rank, int nranks)
      : case_(which), rank_(rank), n_(nranks), inputs_(which, nranks), size_(kElementBytes[which.type]) {
    Plan();
  }

  std::size_t elements() const {
    std::size_t count = 0;
    for (const auto& stretch : part_.expected) count += stretch.count;
    return count;
  }

  std::string Run(tuttiComm_t comm, tuttiStream_t stream, Arena& arena, const Synchronize& synchronize) {
    if (std::max(SendBytes(), ReceiveBytes()) + 2 * kGuardBytes + 64 > arena.bytes()) return "the arena is too small";
    // Any alignment that the type allows.
    const std::size_t shift = kGuardBytes + (case_.seed % 8) * size_;
    const bool in_place = case_.in_place && part_.in_place_at.has_value();
    std::byte* const larger = SendBytes() > ReceiveBytes() ? arena.send() : arena.receive();
    std::byte* send = arena.send() + shift;
    std::byte* receive = arena.receive() + shift;
    if (in_place) {
      const auto at = *part_.in_place_at * size_;
      send = larger + shift + (SendBytes() < ReceiveBytes() ? at : 0);
      receive = larger + shift + (ReceiveBytes() < SendBytes() ? at : 0);
    }
    const std::size_t send_span = SendBytes() + shift + kGuardBytes,
                      receive_span = ReceiveBytes() + shift + kGuardBytes;
    std::vector<std::byte> wanted_send(send_span, kGuard), wanted_receive(receive_span, kGuard);
    const bool input_in_receive = in_place && larger == arena.receive();
    std::byte* const input = input_in_receive ? wanted_receive.data() + (send - arena.receive())
                                              : wanted_send.data() + (send - arena.send());
    FillElements(case_.type, input, part_.send_count, [&](std::size_t i) { return inputs_(rank_, i); });
    arena.Put(arena.send(), wanted_send);
    arena.Put(arena.receive(), wanted_receive);
    if (case_.what == What::bcast) arena.Put(receive, {input, input + SendBytes()});  // the root's only buffer

    // The memory expected afterwards: unchanged except for the output.
    const bool output_in_send = in_place && larger == arena.send();
    auto& wanted = output_in_send ? wanted_send : wanted_receive;
    const std::size_t output_at = static_cast<std::size_t>(receive - (output_in_send ? arena.send() : arena.receive()));
    for (const auto& stretch : part_.expected) {
      FillElements(case_.type, wanted.data() + output_at + stretch.begin * size_, stretch.count, stretch.value);
    }

    auto result = Call(send, receive, comm, stream);
    if (result == tuttiSuccess && stream != nullptr) {
      result = synchronize ? synchronize(stream) : tuttiStreamSynchronize(stream);
    }
    if (result != tuttiSuccess) {
      return fmt::format("{}: {}: {}", case_.Describe(), tuttiGetErrorString(result), tuttiGetLastError(comm));
    }
    const auto sent = arena.Get(arena.send(), send_span), received = arena.Get(arena.receive(), receive_span);
    // In place, the library may use the rest of a larger input as scratch.
    const bool scratch = output_in_send && SendBytes() > ReceiveBytes() && Reduces(case_.what);
    if (scratch) {
      for (std::size_t i = shift; i < shift + SendBytes(); ++i) {
        if (i < output_at || i >= output_at + ReceiveBytes()) wanted_send[i] = sent[i];
      }
    }
    auto difference = Compare("the send buffer", wanted_send, sent, shift);
    if (difference.empty()) difference = Compare("the receive buffer", wanted_receive, received, shift);
    return difference;
  }

 private:
  std::size_t SendBytes() const { return part_.send_count * size_; }
  std::size_t ReceiveBytes() const { return part_.receive_count * size_; }

  void Expect(std::size_t begin, std::size_t count, std::function<std::int64_t(std::size_t)> value) {
    part_.expected.push_back({begin, count, std::move(value)});
  }

  void Plan() {
    const std::size_t c = case_.count, n = static_cast<std::size_t>(n_), me = static_cast<std::size_t>(rank_);
    const int root = case_.root;
    const bool is_root = rank_ == root;
    const auto reduced_from = [this](std::size_t first) {
      return [this, first](std::size_t i) { return inputs_.Reduced(first + i); };
    };
    const auto from = [this](int rank, std::size_t first) {
      return [this, rank, first](std::size_t i) { return inputs_(rank, first + i); };
    };
    switch (case_.what) {
      case What::all_reduce:
        part_ = {c, c, {}, 0};
        Expect(0, c, reduced_from(0));
        break;
      case What::reduce:
        part_ = {c, c, {}, std::nullopt};
        if (!is_root) break;
        part_.in_place_at = 0;
        Expect(0, c, reduced_from(0));
        break;
      case What::broadcast:
        part_ = {is_root ? c : 0, c, {}, std::nullopt};
        if (is_root) part_.in_place_at = 0;
        Expect(0, c, from(root, 0));
        break;
      case What::bcast:
        part_ = {is_root ? c : 0, c, {}, std::nullopt};
        Expect(0, c, from(root, 0));
        break;
      case What::reduce_scatter:
        part_ = {n * c, c, {}, me * c};
        Expect(0, c, reduced_from(me * c));
        break;
      case What::all_gather:
        part_ = {c, n * c, {}, me * c};
        for (int r = 0; r < n_; ++r) Expect(static_cast<std::size_t>(r) * c, c, from(r, 0));
        break;
      case What::alltoall:
        part_ = {n * c, n * c, {}, 0};
        for (int r = 0; r < n_; ++r) Expect(static_cast<std::size_t>(r) * c, c, from(r, me * c));
        break;
      case What::gather:
        part_ = {c, is_root ? n * c : 0, {}, std::nullopt};
        if (!is_root) break;
        part_.in_place_at = me * c;
        for (int r = 0; r < n_; ++r) Expect(static_cast<std::size_t>(r) * c, c, from(r, 0));
        break;
      case What::scatter:
        part_ = {is_root ? n * c : 0, c, {}, std::nullopt};
        if (is_root) part_.in_place_at = me * c;
        Expect(0, c, from(root, me * c));
        break;
      case What::barrier: break;
      case What::shift:
        part_ = {c, c, {}, std::nullopt};
        Expect(0, c, from((rank_ - root % n_ + n_) % n_, 0));
        break;
      case What::all_gather_v:
        for (int r = 0; r < n_; ++r) receives_.Add(VectorCount(case_, r, 0), case_.seed % 2);
        part_ = {receives_.counts[me], receives_.end, {}, receives_.places[me]};
        for (int r = 0; r < n_; ++r)
          Expect(receives_.places[static_cast<std::size_t>(r)], receives_.counts[static_cast<std::size_t>(r)],
                 from(r, 0));
        break;
      case What::reduce_scatter_v:
        for (int r = 0; r < n_; ++r) receives_.Add(VectorCount(case_, r, 0), 0);
        part_ = {receives_.end, receives_.counts[me], {}, receives_.places[me]};
        Expect(0, receives_.counts[me], reduced_from(receives_.places[me]));
        break;
      case What::alltoall_v:
        for (int r = 0; r < n_; ++r) {
          sends_.Add(VectorCount(case_, rank_, r), case_.seed % 2);
          receives_.Add(VectorCount(case_, r, rank_), case_.seed / 2 % 2);
        }
        part_ = {sends_.end, receives_.end, {}, std::nullopt};
        for (int r = 0; r < n_; ++r) {
          // Where this rank's block begins in the sender's buffer.
          std::size_t begin = case_.seed % 2;
          for (int to = 0; to < rank_; ++to) begin += VectorCount(case_, r, to) + case_.seed % 2;
          Expect(receives_.places[static_cast<std::size_t>(r)], receives_.counts[static_cast<std::size_t>(r)],
                 from(r, begin));
        }
        break;
    }
  }

  tuttiResult_t Call(std::byte* send, std::byte* receive, tuttiComm_t comm, tuttiStream_t stream) const {
    const auto c = case_.count;
    const auto type = case_.type;
    switch (case_.what) {
      case What::all_reduce: return tuttiAllReduce(send, receive, c, type, case_.op, comm, stream);
      case What::reduce: return tuttiReduce(send, receive, c, type, case_.op, case_.root, comm, stream);
      case What::broadcast: return tuttiBroadcast(send, receive, c, type, case_.root, comm, stream);
      case What::bcast: return tuttiBcast(receive, c, type, case_.root, comm, stream);
      case What::reduce_scatter: return tuttiReduceScatter(send, receive, c, type, case_.op, comm, stream);
      case What::all_gather: return tuttiAllGather(send, receive, c, type, comm, stream);
      case What::alltoall: return tuttiAlltoAll(send, receive, c, type, comm, stream);
      case What::gather: return tuttiGather(send, receive, c, type, case_.root, comm, stream);
      case What::scatter: return tuttiScatter(send, receive, c, type, case_.root, comm, stream);
      case What::barrier: return tuttiBarrier(comm, stream);
      case What::shift: {
        const int to = (rank_ + case_.root) % n_, from = (rank_ - case_.root % n_ + n_) % n_;
        auto result = tuttiGroupStart();
        if (result == tuttiSuccess) result = tuttiSend(send, c, type, to, comm, stream);
        if (result == tuttiSuccess) result = tuttiRecv(receive, c, type, from, comm, stream);
        const auto ended = tuttiGroupEnd();
        return result != tuttiSuccess ? result : ended;
      }
      case What::all_gather_v:
        return tuttiAllGatherV(send, part_.send_count, receive, receives_.counts.data(), receives_.places.data(), type,
                               comm, stream);
      case What::reduce_scatter_v:
        return tuttiReduceScatterV(send, receive, receives_.counts.data(), type, case_.op, comm, stream);
      case What::alltoall_v:
        return tuttiAlltoAllV(send, sends_.counts.data(), sends_.places.data(), receive, receives_.counts.data(),
                              receives_.places.data(), type, comm, stream);
    }
    return tuttiInternalError;
  }

  std::string Compare(const char* where, const std::vector<std::byte>& wanted, const std::vector<std::byte>& got,
                      std::size_t shift) const {
    if (wanted == got) return "";
    std::size_t first = wanted.size(), wrong = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == got[i]) continue;
      ++wrong;
      first = std::min(first, i);
    }
    const auto element =
        (static_cast<std::ptrdiff_t>(first) - static_cast<std::ptrdiff_t>(shift)) / static_cast<std::ptrdiff_t>(size_);
    return fmt::format("{}: {} wrong bytes in {}, the first at element {}: {:#04x} instead of {:#04x}",
                       case_.Describe(), wrong, where, element, std::to_integer<int>(got[first]),
                       std::to_integer<int>(wanted[first]));
  }

  const Case& case_;
  int rank_, n_;
  Inputs inputs_;
  std::size_t size_;
  Part part_;
  Blocks sends_, receives_;
};

}  // namespace

const char* NameOf(What what) {
  constexpr const char* kNames[kWhats] = {
      "all_reduce", "reduce",  "broadcast", "bcast", "reduce_scatter", "all_gather",       "alltoall",
      "gather",     "scatter", "barrier",   "shift", "all_gather_v",   "reduce_scatter_v", "alltoall_v"};
  return kNames[static_cast<int>(what)];
}

std::string Case::Describe() const {
  return fmt::format("{}(count={}, {}{}, root={}{}, seed={})", testing::NameOf(what), count, kTypeNames[type],
                     Reduces(what) ? fmt::format(", {}", kOpNames[op]) : "", root, in_place ? ", in place" : "", seed);
}

std::string RunCase(const Case& which, int rank, int nranks, tuttiComm_t comm, tuttiStream_t stream, Arena& arena,
                    const Synchronize& synchronize) {
  return Runner(which, rank, nranks).Run(comm, stream, arena, synchronize);
}

std::size_t ElementsCompared(const Case& which, int rank, int nranks) { return Runner(which, rank, nranks).elements(); }

std::vector<Case> MixedCases(std::uint32_t seed, int how_many, int nranks, std::size_t most_bytes) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  std::vector<Case> cases;
  for (int i = 0; i < how_many; ++i) {
    Case c;
    c.what = static_cast<What>((static_cast<int>(seed) + i) % kWhats);
    c.type = static_cast<tuttiDataType_t>(pick(tuttiNumTypes));
    c.op = static_cast<tuttiRedOp_t>(pick(tuttiNumOps));
    c.root = static_cast<int>(pick(static_cast<std::size_t>(nranks)));
    c.in_place = pick(2) == 0;
    c.seed = static_cast<std::uint32_t>(random());
    const std::size_t blocks = c.what == What::all_reduce || c.what == What::reduce || c.what == What::broadcast ||
                                       c.what == What::bcast || c.what == What::shift
                                   ? 1
                                   : static_cast<std::size_t>(nranks);
    // A v-form's blocks are up to four elements longer, with a hole before each.
    const std::size_t fits = most_bytes / kElementBytes[c.type] / blocks;
    const auto allowed =
        static_cast<std::size_t>(std::upper_bound(kCounts.begin(), kCounts.end(), fits - 5) - kCounts.begin());
    c.count = kCounts[pick(allowed)];
    // Large counts cost much, and each finds little.
    if (c.count > 20'000 && pick(4) != 0) c.count = kCounts[pick(19)];
    c.count = std::min(c.count, fits - 5);
    if (IsV(c.what)) c.in_place = c.in_place && c.what != What::alltoall_v;
    cases.push_back(c);
  }
  return cases;
}

}  // namespace tutti::testing
