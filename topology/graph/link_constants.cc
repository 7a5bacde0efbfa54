#include "topology/graph/link_constants.h"

#include <algorithm>
#include <cmath>

namespace tutti::topology {
namespace {

const PciGeneration* FindPci(double speed_gts) {
  const auto found = std::find_if(kPciGenerations.begin(), kPciGenerations.end(),
                                  [=](const PciGeneration& generation) { return generation.speed_gts == speed_gts; });
  return found == kPciGenerations.end() ? nullptr : &*found;
}

}  // namespace

double RoundedBandwidth(double bandwidth) { return std::round(bandwidth * 1000) / 1000; }

double NvlinkBandwidth(int sm, int count) {
  if (sm == 0) sm = kNvlinkDefaultSm;
  double bandwidth = kNvlinkGenerations.front().bandwidth;
  for (const auto& generation : kNvlinkGenerations) {
    if (sm >= generation.sm) bandwidth = generation.bandwidth;
  }
  return RoundedBandwidth(bandwidth * count);
}

double NvlinkToSwitchLatency(int sm) { return sm >= kNvlink4Sm ? kNvlink4ToSwitchLatency : kNvlinkToSwitchLatency; }

bool IsPciSpeed(double speed_gts) { return FindPci(speed_gts) != nullptr; }

double PciBandwidth(double speed_gts, int width) {
  const auto* generation = FindPci(speed_gts != 0 ? speed_gts : kPciDefaultSpeedGts);
  return RoundedBandwidth(generation->lane_bandwidth * (width != 0 ? width : kPciDefaultWidth));
}

double SocketBandwidth(std::string_view arch, std::string_view vendor, int family, int model) {
  const auto fits = [&](const SocketGeneration& line) {
    return (line.arch.empty() || line.arch == arch) && (line.vendor.empty() || line.vendor == vendor) &&
           (line.family == 0 || line.family == family) && model >= line.model_from;
  };
  return std::find_if(kSocketGenerations.begin(), kSocketGenerations.end(), fits)->bandwidth;
}

double NetworkBandwidth(double speed_gbit) {
  constexpr double kBitsPerByte = 8;
  return RoundedBandwidth(speed_gbit / kBitsPerByte * kNetworkShare);
}

double PortSpeedGbit(double speed_gts, int width) {
  if (speed_gts == 0) return kNetworkDefaultGbit;
  const double raw_gbit = speed_gts * (width != 0 ? width : kPciDefaultWidth);
  double speed = kPortSpeedsGbit.front();
  for (const double candidate : kPortSpeedsGbit) {
    if (candidate <= raw_gbit) speed = candidate;
  }
  return speed;
}

}  // namespace tutti::topology
