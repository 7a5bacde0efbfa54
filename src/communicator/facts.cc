// What the library on top is told of a communicator (tutti/extension.h), and its observer.
#include <algorithm>
#include <charconv>

#include "base/extension.h"
#include "src/communicator/communicator.h"
#include "src/memory/device_buffers.h"

namespace tutti::comm {
namespace {

// The first digits of the identity, which are random.
std::uint64_t NumberOf(std::string_view identity) {
  std::uint64_t number = 0;
  const auto digits = identity.substr(0, 2 * sizeof number);
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

}  // namespace

tuttiCommFacts_t FactsOf(const Options& options, int rank, int nranks) {
  tuttiCommFacts_t facts{};
  facts.size = sizeof facts;
  facts.name = options.name.c_str();
  facts.rank = rank;
  facts.nranks = nranks;
  facts.device = options.device;
  facts.busId = options.device == TUTTI_DEVICE_NONE ? 0 : memory::BusIdOf(options.device);
  facts.id = options.id;
  return facts;
}

tuttiCommFacts_t Communicator::facts() const {
  auto facts = FactsOf(options_, rank(), size());
  if (facts.id == 0) facts.id = NumberOf(identity_);
  const auto& hosts = host_->hosts();
  std::vector<int> ranks(static_cast<std::size_t>(hosts.count()));
  for (const int host : hosts.host_of) ++ranks[static_cast<std::size_t>(host)];
  const auto [fewest, most] = std::ranges::minmax(ranks);
  facts.hosts = static_cast<int>(ranks.size());
  facts.fewestRanksOfHost = fewest;
  facts.mostRanksOfHost = most;
  const bool on_gpus = device_ != nullptr;
  facts.channels = on_gpus ? device_->plans().tuning().max_channels : host_->channels();
  facts.messageChannels = on_gpus ? cuda_transport::kMessageChannels : 1;
  facts.network = hosts.count() == 1 ? tuttiTransportSelf : host_->transport();
  return facts;
}

Observer::Observer(const tuttiCommFacts_t& facts) {
  if (auto* const observe = TheExtension().observe) observer_ = observe(&facts);
}

Observer::~Observer() {
  if (observer_ != nullptr) TheExtension().unobserve(observer_);
}

}  // namespace tutti::comm
