#include "src/bootstrap/shrink/listener.h"

#include <optional>
#include <utility>

namespace tutti::shrink {

void AgreementListener::Watch(std::vector<pollfd>& fds) const {
  fds.push_back({keeper_.descriptor(), POLLIN, 0});
  for (const auto& newcomer : newcomers_) fds.push_back(newcomer.channel.Watch());
}

void AgreementListener::Receive(const std::function<void(Contact, const Presence&)>& hear) {
  for (auto& one : keeper_.Take()) {
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

void AgreementListener::Tell(auth::SecureChannel channel, const std::vector<std::byte>& message) {
  channel.Queue(message);
  told_.push_back(std::move(channel));
}

}  // namespace tutti::shrink
