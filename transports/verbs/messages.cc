#include "transports/verbs/messages.h"

#include "net/wire.h"

namespace tutti::verbs {
namespace {

enum class Kind : std::uint8_t { greeting, ready, ring_wanted, ring_place };

class Encoder {
 public:
  explicit Encoder(net::ByteWriter& to) : writer_(to) {}

  void Begin(Kind kind) const { writer_.Number(static_cast<std::uint8_t>(kind)); }

  void operator()(const VerbsGreeting& greeting) const {
    Begin(Kind::greeting);
    writer_.Number(static_cast<std::uint8_t>(greeting.queues.size()));
    for (const auto& queue : greeting.queues) {
      writer_.Number(queue.number);
      writer_.Number(queue.packet);
      writer_.Number(queue.lid);
      writer_.Number(queue.mtu);
      writer_.Number(queue.kind);
      writer_.Bytes(queue.gid);
    }
  }
  void operator()(const VerbsReady&) const { Begin(Kind::ready); }
  void operator()(const RingWanted& wanted) const {
    Begin(Kind::ring_wanted);
    writer_.Number(wanted.connection);
  }
  void operator()(const RingPlace& place) const {
    Begin(Kind::ring_place);
    writer_.Number(place.connection);
    writer_.Number(static_cast<std::uint8_t>(place.data ? 1 : 0));
    Write(place.prefixes);
    if (place.data) Write(*place.data);
  }

 private:
  void Write(const PartsPlace& place) const {
    writer_.Number(place.address);
    writer_.Number(place.stride);
    writer_.Number(static_cast<std::uint8_t>(place.keys.size()));
    for (const auto key : place.keys) writer_.Number(key);
  }

  net::ByteWriter& writer_;
};

QueuePlace ReadQueue(net::ByteReader& reader) {
  QueuePlace queue;
  queue.number = reader.Number<std::uint32_t>();
  queue.packet = reader.Number<std::uint32_t>();
  queue.lid = reader.Number<std::uint16_t>();
  queue.mtu = reader.Number<std::uint8_t>();
  queue.kind = reader.Number<std::uint8_t>();
  queue.gid = reader.Array<std::tuple_size_v<Gid>>();
  return queue;
}

// False: no encoder has written it.
bool ReadPlace(net::ByteReader& reader, PartsPlace& place) {
  place.address = reader.Number<std::uint64_t>();
  place.stride = reader.Number<std::uint32_t>();
  const std::size_t count = reader.Number<std::uint8_t>();
  if (count == 0 || count > kMostRails) return false;
  while (place.keys.size() < count) place.keys.push_back(reader.Number<std::uint32_t>());
  return true;
}

}  // namespace

std::vector<std::byte> Encode(const VerbsMessage& message) {
  net::ByteWriter writer;
  std::visit(Encoder(writer), message);
  return writer.Take();
}

std::optional<VerbsMessage> DecodeVerbsMessage(std::span<const std::byte> bytes) {
  net::ByteReader reader(bytes);
  VerbsMessage message;
  switch (static_cast<Kind>(reader.Number<std::uint8_t>())) {
    case Kind::greeting: {
      VerbsGreeting greeting;
      const std::size_t count = reader.Number<std::uint8_t>();
      if (count == 0 || count > kMostRails) return std::nullopt;
      while (greeting.queues.size() < count) greeting.queues.push_back(ReadQueue(reader));
      message = std::move(greeting);
      break;
    }
    case Kind::ready: message = VerbsReady{}; break;
    case Kind::ring_wanted: message = RingWanted{reader.Number<std::uint32_t>()}; break;
    case Kind::ring_place: {
      RingPlace place;
      place.connection = reader.Number<std::uint32_t>();
      const auto apart = reader.Number<std::uint8_t>();
      if (apart > 1 || !ReadPlace(reader, place.prefixes)) return std::nullopt;
      if (apart == 1 && !ReadPlace(reader, place.data.emplace())) return std::nullopt;
      message = std::move(place);
      break;
    }
    default: return std::nullopt;
  }
  // An empty input reads as the first kind.
  return reader.Complete() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace tutti::verbs
