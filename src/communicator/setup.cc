// How a communicator is made once its ranks have met, step by step. All ranks take the same steps.
#include <algorithm>

#include "base/log.h"
#include "src/communicator/communicator.h"
#include "src/init/near_nics.h"
#include "src/init/rank_arrangement.h"
#include "src/init/survey.h"
#include "topology/detect/host.h"
#include "transports/tcp/listening.h"

namespace tutti::comm {
namespace {

// What the settings demand of plans.
cost_model::TuningContext TuningOf(const Settings& settings, int nranks) {
  cost_model::TuningContext tuning;
  tuning.nranks = nranks;
  tuning.deterministic = settings.deterministic;
  if (settings.deterministic && nranks > schedule::kMaxReads) {
    Throw(tuttiInvalidUsage,
          "deterministic mode reduces all contributions at once, so it supports at most {} ranks; there are {}",
          schedule::kMaxReads, nranks);
  }
  cost_model::ParseForcedAlgorithms(settings.algorithm, nranks, tuning.forced);
  cost_model::ParseForcedProtocol(settings.protocol, tuning.forced);
  tuning.forced.channels = settings.channels;
  tuning.forced.chunk_bytes = static_cast<std::size_t>(settings.chunk_bytes);
  tuning.forced.least_channels = settings.min_channels;
  tuning.forced.most_channels = settings.max_channels;
  return tuning;
}

}  // namespace

void Communicator::SetUp(Deadline deadline) {
  identity_ =
      fmt::format("{:02x}", fmt::join(auth::KeyedHash<16>(control_plane_->data_key(), "tutti communicator", {}), ""));
  auto tuning = TuningOf(options_.settings, size());
  const auto hosts = shm::FindHosts(MakeAllGather(), options_.settings.virtual_hosts);
  const init::Meeting meeting{options_.settings,        options_.name,   rank(),  hosts,
                              control_plane_->roster(), MakeAllGather(), deadline};
  const auto agreement = init::Agree(meeting, options_.device, options_.most_threads);
  if (agreement.programs) {
    programs_ = plan::Programs(options_.settings, tuning.forced, rank(), size(), meeting.all_gather);
  }
  const int channels = std::max({cost_model::kFewestChannels, options_.settings.channels,
                                 options_.settings.min_channels, agreement.threads, programs_.connections()});
  system_ = init::Survey(meeting);
  const auto nics = init::NicsNearProcessors(meeting, system_, agreement.processors).names;
  host_.emplace(meeting, agreement, control_plane_->data_key(), nics, channels, options_.network_costs);
  PrepareMembershipAgreement(meeting);
  if (rank() == 0) Log(Subject::init, "{} ranks on {} cores; {}", size(), agreement.cores, init::Summary(system_));
  AddPlanFacts(meeting, agreement, tuning);
  auto so_far = facts();
  so_far.channels = 0;  // nor are the sides made yet
  external_tuner_ = plan::ExternalTuner::Open(so_far);
  why_no_device_ = agreement.why_no_device;
  if (why_no_device_.empty()) ConnectDevice(meeting, agreement, tuning);
  observer_ = std::make_unique<Observer>(facts());
  host_->Start(meeting, agreement, std::move(tuning), programs_, external_tuner_.get(), observer_->get() != nullptr);
  BeginTogether(deadline);
}

void Communicator::PrepareMembershipAgreement(const init::Meeting& meeting) {
  const auto key = auth::DeriveKey(control_plane_->data_key(), "tutti reunion", {});
  auto port = auth::Port::At(control_plane_->places(), fmt::format("rank {}", rank()));
  // Served before the others learn of it.
  auto keeper = std::make_unique<auth::Doorkeeper>(port, key, auth::Purpose::membership_agreement, rank());
  auto addresses = tcp::GatherAddresses(meeting.all_gather, port->addresses());
  membership_agreement_ = std::make_unique<shrink::MembershipAgreement>(
      rank(), shrink::MembershipAgreement::Ranks{meeting.roster, meeting.hosts.host_of, std::move(addresses)},
      std::move(keeper), key, Deadline::Milliseconds(meeting.settings.silence_ms),
      [network = host_->network()](int rank) { return network != nullptr && network->Reaches(rank); });
}

// The facts beside the settings; all ranks know the same.
void Communicator::AddPlanFacts(const init::Meeting& meeting, const init::Agreement& agreement,
                                cost_model::TuningContext& tuning) const {
  init::ArrangeRanks(meeting, system_, agreement.processors, tuning);
  host_->AddLimits(tuning);
  tuning.threads = agreement.threads;
  tuning.forced.threads = agreement.threads_forced;
  const int cores_of_a_cache = agreement.cores / (tuning.domains ? tuning.where.nodes() : 1);
  tuning.stream_bytes = meeting.settings.stream_bytes != 0 ? static_cast<std::size_t>(meeting.settings.stream_bytes)
                                                           : detect::CacheShareBytes(cores_of_a_cache);
}

void Communicator::ConnectDevice(const init::Meeting& meeting, const init::Agreement& agreement,
                                 const cost_model::TuningContext& tuning) {
  const device::DeviceSetup setup{options_.device,
                                  &system_,
                                  auth::DeriveKey(control_plane_->data_key(), "tutti GPUs", {}),
                                  tuning,
                                  host_->network_costs(),
                                  agreement.neighbours <= agreement.cores,
                                  external_tuner_.get(),
                                  [this] { return failure(); },
                                  [this](const Error& failure) { Fail(failure); }};
  device_ = device::DeviceSide::Make(setup, meeting, &why_no_device_);
  if (device_ == nullptr && rank() == 0) Log(Subject::init, "host memory only: {}", why_no_device_);
}

// No rank begins before every rank's state can be watched.
void Communicator::BeginTogether(Deadline deadline) {
  const auto joining = std::exchange(cancel_, Cancellation(cancelled_));
  try {
    control_plane_->Barrier(deadline, joining);
  } catch (const Error& error) {
    host_->failure_detector().Fail(error);  // for ranks that have passed the barrier
    throw;
  }
}

}  // namespace tutti::comm
