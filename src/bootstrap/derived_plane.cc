// Control planes over connections that exist already.
#include <algorithm>
#include <array>
#include <cstring>

#include "net/interfaces.h"
#include "src/bootstrap/control_plane.h"

namespace tutti::bootstrap {

void ControlPlane::KeepConnections() {
  if (to_hub_) channels_->Add(first_ranks_[0], to_hub_->shared());
  for (int r = 1; hub_ && r < size(); ++r) {
    channels_->Add(first_ranks_[static_cast<std::size_t>(r)], hub_->ConnectionTo(r));
  }
}

bool ControlPlane::Reaches(const std::vector<int>& ranks) const {
  return std::ranges::all_of(ranks, [this](int r) {
    return r == rank_ || channels_->Find(first_ranks_[static_cast<std::size_t>(r)]) != nullptr;
  });
}

std::unique_ptr<ControlPlane> ControlPlane::Derive(const std::vector<int>& members, std::uint64_t number,
                                                   const Settings& settings) const {
  const auto mine = std::ranges::find(members, rank_) - members.begin();
  std::vector<Process> roster;
  std::vector<int> first_ranks;
  for (const int r : members) {
    roster.push_back(roster_[static_cast<std::size_t>(r)]);
    first_ranks.push_back(first_ranks_[static_cast<std::size_t>(r)]);
  }
  std::unique_ptr<ControlPlane> plane(new ControlPlane(static_cast<int>(mine), std::move(roster)));
  const auto open = [&](std::size_t member) {
    auto channel = channels_->Find(first_ranks[member]);
    if (channel == nullptr) {
      Throw(tuttiInternalError, "{} has no connection to {}, with which it is to become a communicator",
            Describe(rank_, roster_[static_cast<std::size_t>(rank_)]),
            Describe(members[member], roster_[static_cast<std::size_t>(members[member])]));
    }
    return Subchannel(std::move(channel), number);
  };
  plane->stays_on_loopback_ = stays_on_loopback_;
  plane->places_ = stays_on_loopback_
                       ? places_
                       : net::ChooseAddresses(net::LocalInterfaces(), settings.socket_ifname, settings.socket_family);
  std::array<std::byte, sizeof number> label{};
  std::memcpy(label.data(), &number, sizeof number);
  plane->data_key_ = auth::DeriveKey(data_key_, "tutti derived communicator", {label});
  plane->channels_ = channels_;
  plane->first_ranks_ = first_ranks;
  if (mine == 0) {
    std::vector<Subchannel> others;
    for (std::size_t m = 1; m < members.size(); ++m) others.push_back(open(m));
    plane->hub_.emplace(plane->roster_, std::move(others));
  } else {
    plane->to_hub_.emplace(open(0));
  }
  return plane;
}

void ControlPlane::Adopt(ControlPlane& child, const std::vector<int>& members) const {
  child.channels_ = channels_;
  std::ranges::transform(members, child.first_ranks_.begin(),
                         [this](int r) { return first_ranks_[static_cast<std::size_t>(r)]; });
  child.KeepConnections();
}

}  // namespace tutti::bootstrap
