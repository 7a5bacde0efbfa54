#include "interop/nccl/config.h"

#include <algorithm>
#include <cstring>

#include "interop/nccl/environment/environment.h"
#include "interop/nccl/failure.h"

namespace tutti::nccl {
namespace {

// The fields that NCCL 2.32 appends to those of 2.27.
struct NewestConfig {
  ncclConfig_t of_2_27;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
};
static_assert(offsetof(NewestConfig, nChannelsPerNetPeer) == sizeof(ncclConfig_t), "no padding between them");

// The most that a tuttiConfig_t takes for its least and its greatest number of channels.
constexpr int kMostForcedChannels = 32, kMostChannels = 1024;

constexpr int kAny = INT_MIN + 1;  // INT_MIN is NCCL_CONFIG_UNDEF_INT

struct Number {
  const char* name;
  std::size_t offset;
  int since;  // version of NCCL
  int low, high;
};
constexpr Number kNumbers[] = {
    {"blocking", offsetof(ncclConfig_t, blocking), NCCL_VERSION(2, 14, 0), 0, 1},
    {"cgaClusterSize", offsetof(ncclConfig_t, cgaClusterSize), NCCL_VERSION(2, 17, 0), 0, 8},
    {"minCTAs", offsetof(ncclConfig_t, minCTAs), NCCL_VERSION(2, 17, 0), 1, INT_MAX},
    {"maxCTAs", offsetof(ncclConfig_t, maxCTAs), NCCL_VERSION(2, 17, 0), 1, INT_MAX},
    {"splitShare", offsetof(ncclConfig_t, splitShare), NCCL_VERSION(2, 18, 0), 0, 1},
    {"trafficClass", offsetof(ncclConfig_t, trafficClass), NCCL_VERSION(2, 26, 0), kAny, INT_MAX},
    {"collnetEnable", offsetof(ncclConfig_t, collnetEnable), NCCL_VERSION(2, 27, 0), 0, 1},
    {"CTAPolicy", offsetof(ncclConfig_t, CTAPolicy), NCCL_VERSION(2, 27, 0), 0, kCtaPolicies},
    {"shrinkShare", offsetof(ncclConfig_t, shrinkShare), NCCL_VERSION(2, 27, 0), 0, 1},
    {"nvlsCTAs", offsetof(ncclConfig_t, nvlsCTAs), NCCL_VERSION(2, 27, 0), 1, INT_MAX},
    {"nChannelsPerNetPeer", offsetof(NewestConfig, nChannelsPerNetPeer), NCCL_VERSION(2, 28, 0), 1, INT_MAX},
    {"nvlinkCentricSched", offsetof(NewestConfig, nvlinkCentricSched), NCCL_VERSION(2, 28, 0), 0, 1},
    {"graphUsageMode", offsetof(NewestConfig, graphUsageMode), NCCL_VERSION(2, 29, 0), 0, 2},
    {"numRmaCtx", offsetof(NewestConfig, numRmaCtx), NCCL_VERSION(2, 29, 0), 1, INT_MAX},
    {"maxP2pPeers", offsetof(NewestConfig, maxP2pPeers), NCCL_VERSION(2, 30, 0), 1, INT_MAX},
    {"graphStreamOrdering", offsetof(NewestConfig, graphStreamOrdering), NCCL_VERSION(2, 30, 7), 0, 1},
    {"launchOrderImplicit", offsetof(NewestConfig, launchOrderImplicit), NCCL_VERSION(2, 31, 0), 0, 1},
    {"numRmaSig", offsetof(NewestConfig, numRmaSig), NCCL_VERSION(2, 31, 0), 1, INT_MAX},
    {"rmaEagerInit", offsetof(NewestConfig, rmaEagerInit), NCCL_VERSION(2, 31, 0), 0, 1},
    {"hostCftMode", offsetof(NewestConfig, hostCftMode), NCCL_VERSION(2, 31, 0), 1, 3},
    {"nvlsHostMode", offsetof(NewestConfig, nvlsHostMode), NCCL_VERSION(2, 32, 0), 0, INT_MAX},
};

// The value at `offset` if this struct has it, else `missing`.
template <typename Value>
Value Read(const ncclConfig_t& config, std::size_t offset, int since, Value missing) {
  if (config.version < static_cast<unsigned>(since) || config.size < offset + sizeof(Value)) return missing;
  Value value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(&config) + offset, sizeof value);
  return value;
}

void CheckNumber(const ncclConfig_t& config, const Number& field) {
  const int value = Read(config, field.offset, field.since, NCCL_CONFIG_UNDEF_INT);
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= field.low && value <= field.high)) return;
  Refuse(ncclInvalidArgument, "config.{} is {}; it takes {} to {}", field.name, value, field.low, field.high);
}

int ReadNumber(const ncclConfig_t& config, std::size_t offset) {
  for (const auto& field : kNumbers) {
    if (field.offset == offset) return Read(config, offset, field.since, NCCL_CONFIG_UNDEF_INT);
  }
  return NCCL_CONFIG_UNDEF_INT;
}

}  // namespace

std::optional<tuttiConfig_t> ToTutti(const ncclConfig_t* given) {
  if (given == nullptr) return std::nullopt;
  if (given->magic != NCCL_API_MAGIC || given->size < offsetof(ncclConfig_t, cgaClusterSize) ||
      given->version < static_cast<unsigned>(NCCL_VERSION(2, 14, 0))) {
    Refuse(ncclInvalidArgument, "config was not initialised with NCCL_CONFIG_INITIALIZER (size {}, version {})",
           given->size, given->version);
  }
  for (const auto& field : kNumbers) CheckNumber(*given, field);
  const int least = ReadNumber(*given, offsetof(ncclConfig_t, minCTAs));
  const int most = ReadNumber(*given, offsetof(ncclConfig_t, maxCTAs));
  if (most != NCCL_CONFIG_UNDEF_INT && least > most) {  // an undefined value is below all others
    Refuse(ncclInvalidArgument, "config.minCTAs is {}, more than config.maxCTAs, {}", least, most);
  }
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  static_assert(NCCL_CONFIG_UNDEF_INT == TUTTI_CONFIG_UNDEF_INT);
  config.blocking = ReadNumber(*given, offsetof(ncclConfig_t, blocking));
  config.splitShare = ReadNumber(*given, offsetof(ncclConfig_t, splitShare));
  // As in NCCL, the environment is stronger.
  const auto& settings = Environment::OfThisProcess().settings();
  if (least != NCCL_CONFIG_UNDEF_INT && !settings.contains("TUTTI_MIN_CHANNELS")) {
    config.minChannels = std::min(least, kMostForcedChannels);
  }
  if (most != NCCL_CONFIG_UNDEF_INT && !settings.contains("TUTTI_MAX_CHANNELS")) {
    config.maxChannels = std::min(most, kMostChannels);
  }
  config.name = Read<const char*>(*given, offsetof(ncclConfig_t, commName), NCCL_VERSION(2, 27, 0), nullptr);
  return config;
}

}  // namespace tutti::nccl
