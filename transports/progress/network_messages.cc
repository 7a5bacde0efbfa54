#include "transports/progress/network_messages.h"

#include "net/wire.h"

namespace tutti::progress {
namespace {

enum class Kind : std::uint8_t { credits, status, failed, leaving, site };

class Encoder {
 public:
  explicit Encoder(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  void operator()(const Credits& credits) {
    Begin(Kind::credits);
    for (const auto& credit : credits.all()) {
      writer_.Number(credit.connection);
      writer_.Number(credit.emptied);
    }
    End();
  }
  void operator()(const Status& status) {
    Begin(Kind::status);
    for (const auto value :
         {status.index, status.operation.sequence, status.operation.signature, status.operation.call,
          status.operation.count, status.operation.origin, status.started, status.completed, status.mark}) {
      writer_.Number(value);
    }
    End();
  }
  void operator()(const Site& message) {
    Begin(Kind::site);
    writer_.Number(message.number);
    writer_.Number(message.site.offset);
    writer_.Number(message.site.build);
    writer_.Text(message.site.words, ring::kSiteText);
    writer_.Text(message.site.module, ring::kSiteText);
    End();
  }
  void operator()(const Failed& failed) {
    Begin(Kind::failed);
    writer_.Number(failed.code);
    writer_.Number(failed.stopped);
    writer_.Number(failed.completed);
    writer_.Text(failed.text, ring::kFaultText);
    End();
  }
  void operator()(const Leaving& leaving) {
    Begin(Kind::leaving);
    writer_.Number(leaving.completed);
    End();
  }

 private:
  void Begin(Kind kind) {
    writer_.Reuse(std::move(bytes_));
    writer_.Number(static_cast<std::uint8_t>(kind));
  }
  void End() { bytes_ = writer_.Take(); }

  std::vector<std::byte>& bytes_;
  net::ByteWriter writer_;
};

Status ReadStatus(net::ByteReader& reader) {
  Status status;
  for (auto* const value :
       {&status.index, &status.operation.sequence, &status.operation.signature, &status.operation.call,
        &status.operation.count, &status.operation.origin, &status.started, &status.completed, &status.mark}) {
    *value = reader.Number<std::uint64_t>();
  }
  return status;
}

}  // namespace

void Encode(const NetworkMessage& message, std::vector<std::byte>& bytes) { std::visit(Encoder(bytes), message); }

std::optional<NetworkMessage> DecodeNetworkMessage(std::span<const std::byte> bytes) {
  if (bytes.empty()) return std::nullopt;
  net::ByteReader reader(bytes);
  NetworkMessage message;
  switch (static_cast<Kind>(reader.Number<std::uint8_t>())) {
    case Kind::credits: {
      Credits credits;
      constexpr std::size_t kCreditBytes = 8;
      const std::size_t count = (bytes.size() - 1) / kCreditBytes;
      if (count == 0 || count > Credits::kMost) return std::nullopt;
      while (credits.count < count) {
        const auto connection = reader.Number<std::uint32_t>();
        credits.Add({connection, reader.Number<std::uint32_t>()});
      }
      message = credits;
      break;
    }
    case Kind::status: message = ReadStatus(reader); break;
    case Kind::failed: {
      const auto code = reader.Number<std::uint32_t>(), stopped = reader.Number<std::uint32_t>();
      const auto completed = reader.Number<std::uint64_t>();
      message = Failed{code, stopped, completed, reader.Text(ring::kFaultText)};
      break;
    }
    case Kind::site: {
      const auto number = reader.Number<std::uint32_t>();
      const auto offset = reader.Number<std::uint64_t>(), build = reader.Number<std::uint64_t>();
      auto words = reader.Text(ring::kSiteText);
      message = Site{number, {std::move(words), reader.Text(ring::kSiteText), offset, build}};
      break;
    }
    case Kind::leaving: message = Leaving{reader.Number<std::uint64_t>()}; break;
    default: return std::nullopt;
  }
  return reader.Complete() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace tutti::progress
