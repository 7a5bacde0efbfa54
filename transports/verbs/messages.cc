#include "transports/verbs/messages.h"

#include "net/wire.h"

namespace tutti::verbs {
namespace {

enum class Kind : std::uint8_t { greeting, ready, ring_wanted, ring_place };

struct Encoder {
  net::ByteWriter& writer;

  void Begin(Kind kind) const { writer.Number(static_cast<std::uint8_t>(kind)); }

  void operator()(const VerbsGreeting& greeting) const {
    Begin(Kind::greeting);
    writer.Number(static_cast<std::uint8_t>(greeting.queues.size()));
    for (const auto& queue : greeting.queues) {
      writer.Number(queue.number);
      writer.Number(queue.packet);
      writer.Number(queue.lid);
      writer.Number(queue.mtu);
      writer.Number(queue.kind);
      writer.Bytes(queue.gid);
    }
  }
  void operator()(const VerbsReady&) const { Begin(Kind::ready); }
  void operator()(const RingWanted& wanted) const {
    Begin(Kind::ring_wanted);
    writer.Number(wanted.connection);
  }
  void operator()(const RingPlace& place) const {
    Begin(Kind::ring_place);
    writer.Number(place.connection);
    writer.Number(place.address);
    writer.Number(place.bytes);
    writer.Number(static_cast<std::uint8_t>(place.keys.size()));
    for (const auto key : place.keys) writer.Number(key);
  }
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

}  // namespace

std::vector<std::byte> Encode(const VerbsMessage& message) {
  net::ByteWriter writer;
  std::visit(Encoder{writer}, message);
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
      place.address = reader.Number<std::uint64_t>();
      place.bytes = reader.Number<std::uint64_t>();
      const std::size_t count = reader.Number<std::uint8_t>();
      if (count == 0 || count > kMostRails) return std::nullopt;
      while (place.keys.size() < count) place.keys.push_back(reader.Number<std::uint32_t>());
      message = std::move(place);
      break;
    }
    default: return std::nullopt;
  }
  // An empty input reads as the first kind.
  return reader.Complete() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace tutti::verbs
