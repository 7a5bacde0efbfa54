// Bandwidths and latencies of links: the one table of a topology's numbers. They are what a good program reaches, not
// what the data sheet says: a raw rate less its encoding and protocol. A calibration may replace them by this machine's
// own.
//
// Thread-safety: constants and pure functions.
#pragma once

#include <array>
#include <string_view>

namespace tutti::topology {

// --- NVLink: GB/s a link carries in one direction, by the compute capability of the GPU it leaves.
struct NvlinkGeneration {
  int sm = 0;            // from this compute capability on
  double bandwidth = 0;  // GB/s
};
inline constexpr std::array<NvlinkGeneration, 6> kNvlinkGenerations = {{
    {60, 18.0},   // NVLink 1: 20 GB/s raw (P100 whitepaper); about 18 of them in peer-to-peer copies (Li et al., 2019)
    {70, 20.0},   // NVLink 2: 25 GB/s raw (V100 whitepaper); packet headers leave 20 to stores of a kernel
    {80, 20.0},   // NVLink 3: 25 GB/s raw (A100 whitepaper); 12 links give 231.6 of 240 to ND A100 v4's all-reduce
    {86, 12.0},   // NVLink 3 bridge of GA102: 14.06 GB/s raw (GA102 whitepaper), the same share
    {90, 20.6},   // NVLink 4: 26.5625 GB/s raw (H100 whitepaper); 18 links give 367 of 370.8 to HGX H200's all-reduce
    {100, 40.1},  // NVLink 5: 50 GB/s raw (GB200 data sheet), the same share as NVLink 4 and 3
}};
inline constexpr int kNvlinkDefaultSm = 80;  // where the GPU's is unknown

// --- PCI Express: GB/s a lane carries in one direction. Three quarters of the encoded rate: with 256-byte payloads the
// headers, acknowledgements and credits take 10-15 % (PCIe Base Specification 4.0, 2.2 and 3.5), switches and root
// complexes the rest. 16 lanes at 8 GT/s measure 12 to 12.5 GB/s between devices (Li et al., 2019).
struct PciGeneration {
  double speed_gts = 0;       // the link_speed in sysfs
  double lane_bandwidth = 0;  // GB/s
};
inline constexpr std::array<PciGeneration, 6> kPciGenerations = {{
    {2.5, 0.1875},  // 1.x: 8b/10b, 0.25 raw
    {5.0, 0.375},   // 2.x: 8b/10b, 0.5 raw
    {8.0, 0.75},    // 3.x: 128b/130b, 0.985 raw
    {16.0, 1.5},    // 4.0
    {32.0, 3.0},    // 5.0
    {64.0, 6.0},    // 6.x: PAM4 and flits
}};
// The commonest slot of a server with GPUs, where a description says nothing (virtual machines often do not).
inline constexpr double kPciDefaultSpeedGts = 8.0;
inline constexpr int kPciDefaultWidth = 16;
inline constexpr int kPciMaxWidth = 32;  // PCIe Base Specification

// A device described as part of the CPU itself, without a PCI address, is as fast as memory, so that its own port is
// the limit. One DDR4-3200 socket of 8 channels has 204.8 GB/s raw; half is a safe share for I/O.
inline constexpr double kInsideCpuBandwidth = 100.0;

// --- Between CPUs (or NUMA nodes): GB/s that devices' traffic gets through in one direction. Far less than the raw
// rate where peer-to-peer transactions are split or take the ordered path. The first line that fits is taken.
struct SocketGeneration {
  std::string_view arch;    // empty: any
  std::string_view vendor;  // empty: any
  int family = 0;           // 0: any; else this one
  int model_from = 0;
  double bandwidth = 0;
};
inline constexpr std::array<SocketGeneration, 10> kSocketGenerations = {{
    // UPI 2.0, 16-20 GT/s x 3-4 links (Sapphire and Emerald Rapids): 32-40 GB/s raw a link; two thirds of one link.
    {"x86_64", "GenuineIntel", 6, 0x8f, 22.0},
    // UPI, 10.4-11.2 GT/s x 2-3 links (Skylake-SP 0x55, Ice Lake-SP 0x6a, 0x6c): 20.8 GB/s raw a link; peer-to-peer
    // half.
    {"x86_64", "GenuineIntel", 6, 0x55, 10.0},
    // QPI 1.1, 8-9.6 GT/s x 2 links (Haswell, Broadwell and before): 19.2 GB/s raw a link; peer-to-peer a third.
    {"x86_64", "GenuineIntel", 0, 0, 6.0},
    // Infinity Fabric of Zen 2 and later: 16 GT/s x16 a link and 3-4 links (EPYC 7002 tuning guide); half of one link,
    // because nodes of one socket and of two cannot be told apart.
    {"x86_64", "AuthenticAMD", 0, 0, 16.0},
    {"x86_64", "HygonGenuine", 0, 0, 16.0},  // Zen 1 derivative, the same fabric
    {"x86_64", "CentaurHauls", 0, 0, 6.0},   // ZPI: no public measurement; as QPI
    {"x86_64", "  Shanghai  ", 0, 0, 6.0},
    {"ppc64", "", 0, 0, 32.0},  // POWER9's X bus: 4 x 16 GB/s raw (POWER9 Processor User's Manual), half
    {"arm64", "", 0, 0, 6.0},   // CCIX and kin (Altra, ThunderX2): no public measurement; as QPI
    {"", "", 0, 0, 6.0},        // anything else: as the slowest known
}};

// --- Network: the share of a port's nominal speed that payload gets. perftest's ib_write_bw reaches 12.1 GB/s on EDR
// (12.5), 24.6 on HDR (25) and 49 on NDR (50) with 4,096-byte packets.
inline constexpr double kNetworkShare = 0.97;
inline constexpr double kNetworkDefaultGbit = 10;  // a port of unknown speed in no known slot
// Nominal speeds that ports have (IEEE 802.3, InfiniBand EDR to XDR). A card of unknown speed is taken to be the
// fastest that its slot can feed: 100 in 8 GT/s x16, 200 in 16 GT/s, 400 in 32 GT/s, as cards are sold.
inline constexpr std::array<double, 8> kPortSpeedsGbit = {1, 10, 25, 50, 100, 200, 400, 800};

// --- Latency in us, of one link: a path's is the sum.
// A remote store over a direct NVLink is seen after 0.6-0.7 us; a hop through a switch has two legs and costs 0.1 more.
// (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture", and HGX A100 peer latency of p2pBandwidthLatencyTest
// less launch and polling.)
inline constexpr double kNvlinkLatency = 0.6;
inline constexpr double kNvlinkToSwitchLatency = 0.35;
// Since Hopper. A whole hop of a ring, the step and two legs, takes 0.58 us for 8 bytes and 0.83 us for 1 KiB: 12.9 and
// 16.4 us for 14 hops and a launch (nccl-tests of eight H100, awsome-distributed-training; machine_constants.h has the
// launch). How much of that is a leg is a guess.
inline constexpr double kNvlink4ToSwitchLatency = 0.2;
inline constexpr int kNvlink4Sm = 90;
// A posted write between two devices of one switch takes about 1 us (gdrcopy, p2pBandwidthLatencyTest), half of it per
// link. This includes the switch's own part, 105-150 ns (Broadcom PEX88000 and PEX89000 briefs).
inline constexpr double kPciLatency = 0.5;
// A remote cache line costs 60-80 ns more than a local one on UPI (Intel MLC), 100-130 on Infinity Fabric.
inline constexpr double kSocketLatency = 0.1;
// From port to port through one switch, halved for the two links to the network: ib_write_lat is 1.0-1.3 us on EDR to
// NDR, about 2 us on RoCE (perftest).
inline constexpr double kInfinibandLatency = 0.6;
inline constexpr double kEthernetLatency = 1.0;

// Rounds to whole MB/s, so that a bandwidth is the same however it was computed, and after it was written and read.
double RoundedBandwidth(double bandwidth);
// GB/s of `count` links from a GPU of compute capability `sm` (0: unknown).
double NvlinkBandwidth(int sm, int count);
// us, from such a GPU to an NVSwitch or back.
double NvlinkToSwitchLatency(int sm);
// GB/s of a slot; a zero speed or width is the default. REQUIRES: the speed is in the table.
double PciBandwidth(double speed_gts, int width);
bool IsPciSpeed(double speed_gts);
double SocketBandwidth(std::string_view arch, std::string_view vendor, int family, int model);
double NetworkBandwidth(double speed_gbit);
// The speed of a card in such a slot, if its own speed is unknown.
double PortSpeedGbit(double speed_gts, int width);

}  // namespace tutti::topology
