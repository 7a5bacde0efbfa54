#include "transports/tcp/side_channel.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/all_gather.h"
#include "base/error.h"

namespace tutti::tcp {
namespace {

// The few bytes sent here decide what is done with many others, so they are always authenticated.
Settings OneConnection(Settings settings) {
  settings.sockets = 1;
  if (settings.data_protection == "none") settings.data_protection = "authenticate";
  return settings;
}

}  // namespace

SideChannel::SideChannel(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
                         const AllGather& all_gather, SideEvents& events)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), tcp_(rank, peers, key, OneConnection(settings), all_gather, events) {
  if (!epoll_) ThrowErrno("epoll_create1");
  Watch(tcp_.descriptor());
}

void SideChannel::Watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) ThrowErrno("epoll_ctl");
}

void SideChannel::Connect(int peer) {
  in_tcp_ = true;
  tcp_.Connect(peer);
  in_tcp_ = false;
}

void SideChannel::Say(int peer, std::span<const std::byte> bytes) {
  if (bytes.size() > progress::kMaxControlBytes) return;
  tcp_.SendControl(peer, bytes);
  if (in_tcp_) {
    to_flush_.push_back(peer);
  } else {
    tcp_.Flush(peer);
  }
}

bool SideChannel::Advance() {
  in_tcp_ = true;
  const bool moved = tcp_.AdvanceAll();
  in_tcp_ = false;
  // A flush may break a connection; that news is never sent over the same connection.
  for (const int peer : std::exchange(to_flush_, {})) tcp_.Flush(peer);
  return moved;
}

void LastArrivals::Await(int peer, std::string why, Deadline::Milliseconds longest) {
  if (Why(peer) == nullptr) ends_.push_back({peer, std::move(why), Deadline::After(longest)});
}

const std::string* LastArrivals::Why(int peer) const {
  const auto end = std::ranges::find(ends_, peer, &End::peer);
  return end == ends_.end() ? nullptr : &end->why;
}

void LastArrivals::Forget(int peer) {
  std::erase_if(ends_, [peer](const End& end) { return end.peer == peer; });
}

}  // namespace tutti::tcp
