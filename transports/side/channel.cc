#include "transports/side/channel.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "base/all_gather.h"
#include "base/error.h"

namespace tutti::side {
namespace {

// The few bytes sent here decide what is done with many others, so they are always authenticated.
Settings OneConnection(Settings settings) {
  settings.sockets = 1;
  if (settings.data_protection == "none") settings.data_protection = "authenticate";
  return settings;
}

}  // namespace

Channel::Channel(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
                 const AllGather& all_gather, ChannelEvents& events)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), tcp_(rank, peers, key, OneConnection(settings), all_gather, events) {
  if (!epoll_) ThrowErrno("epoll_create1");
  Watch(tcp_.descriptor());
}

void Channel::Watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) ThrowErrno("epoll_ctl");
}

void Channel::Connect(int peer) {
  in_tcp_ = true;
  tcp_.Connect(peer);
  in_tcp_ = false;
}

void Channel::Say(int peer, std::span<const std::byte> bytes) {
  if (bytes.size() > progress::kMaxControlBytes) return;
  tcp_.SendControl(peer, bytes);
  if (in_tcp_) {
    to_flush_.push_back(peer);
  } else {
    tcp_.Flush(peer);
  }
}

bool Channel::Advance() {
  in_tcp_ = true;
  const bool moved = tcp_.AdvanceAll();
  in_tcp_ = false;
  // A flush may break a connection; that news is never sent over the same connection.
  for (const int peer : std::exchange(to_flush_, {})) tcp_.Flush(peer);
  return moved;
}

}  // namespace tutti::side
