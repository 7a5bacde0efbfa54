#include "src/bootstrap/reunion_door.h"

#include <optional>
#include <utility>

namespace tutti {

void ReunionDoor::Watch(std::vector<pollfd>& fds) {
  lobby_.Watch(fds);
  of_lobby_ = fds.size();
  for (const auto& newcomer : newcomers_) fds.push_back(newcomer.channel.Watch());
}

void ReunionDoor::Receive(std::span<const pollfd> fds, const std::function<void(Contact, const Presence&)>& hear) {
  std::vector<Admitted> admitted;
  lobby_.Advance(fds.first(of_lobby_), admitted);
  for (auto& one : admitted) {
    if (one.nranks != nranks_ || one.rank == rank_) continue;
    const int rank = one.rank;
    newcomers_.push_back({rank, std::move(one).OpenChannel()});
  }
  for (auto newcomer = newcomers_.begin(); newcomer != newcomers_.end();) {
    const auto frame = newcomer->channel.Receive();
    if (!frame && !newcomer->channel.closed()) {
      ++newcomer;
      continue;
    }
    if (const auto presence = frame ? DecodePresence(*frame) : std::nullopt) hear(std::move(*newcomer), *presence);
    newcomer = newcomers_.erase(newcomer);
  }
}

void ReunionDoor::Tell(SecureChannel channel, const std::vector<std::byte>& message) {
  channel.Queue(message);
  told_.push_back(std::move(channel));
}

}  // namespace tutti
