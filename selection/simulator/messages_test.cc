// The simulator takes as long for a message as its price says (selection/tuner/message_table.h).
#include <gtest/gtest.h>

#include "algorithms/builders/steps.h"
#include "selection/cost_model/machine_constants.h"
#include "selection/cost_model/test_machines.h"
#include "selection/simulator/simulate.h"
#include "selection/tuner/message_table.h"

namespace tutti::simulator {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

// H100s, but for the links of 100 GB/s, and a latency of 1 us, or of 6.5 us with fences.
cost_model::Machine TwoGpus(ring::Protocol protocol) {
  const auto constants = cost_model::GpuConstantsOf(90);
  cost_model::Costs costs;
  costs.operation_us = constants.operation_us;
  costs.channel_skew_us = cost_model::kGpuChannelSkewUs;
  costs.step_us = constants.step_us;
  costs.executor_bandwidth = {{cost_model::kAnySize, constants.block_bandwidth / 2}};
  costs.protocol_efficiency = cost_model::kGpuProtocolEfficiency;
  const double latency = protocol == ring::Protocol::bulk ? 6.5 : 1;
  return cost_model::SwitchedMachine(1, 2, costs, cost_model::kSwitchBandwidth, latency);
}

double Simulated(const cost_model::Machine& machine, const tuner::MessageWay& way, int depth, std::size_t bytes) {
  const auto source = [&](int rank) {
    const auto step = rank == 0 ? builders::MakeStep(0, {schedule::In(0)}, {schedule::To(1)})
                                : builders::MakeStep(0, {schedule::From(0)}, {schedule::Out(0)});
    return schedule::Schedule{
        .collective = schedule::Collective::send,
        .algorithm = tuttiAlgorithmNone,
        .rank = rank,
        .nranks = 2,
        .blocks = 1,
        .channels = std::vector(static_cast<std::size_t>(way.channels), schedule::Channel{{schedule::Lane{{step}}}})};
  };
  return Simulate({machine, source, schedule::MessageExtents(bytes), way.config, depth}).duration_us;
}

TEST(Messages, TakeWhatTheyArePricedAt) {
  for (const auto protocol : {ring::Protocol::inlined, ring::Protocol::bulk}) {
    const auto machine = TwoGpus(protocol);
    for (const std::size_t chunk : {16 * KiB, 64 * KiB}) {
      for (const int channels : {1, 4, 32}) {
        for (const int depth : {2, 4, 8}) {
          for (const std::size_t bytes : {8 * KiB, 256 * KiB, 3 * MiB, 32 * MiB}) {
            const tuner::MessageWay way{channels, {protocol, chunk}};
            const double priced =
                tuner::MessageMicroseconds(machine, 0, 1, way, static_cast<std::uint32_t>(depth), bytes);
            const double simulated = Simulated(machine, way, depth, bytes);
            EXPECT_NEAR(priced / simulated, 1, 0.15)
                << ring::NameOf(protocol) << ", chunk " << chunk << ", " << channels << " channels, depth " << depth
                << ", " << bytes << " B: " << priced << " and " << simulated << " us";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::simulator
