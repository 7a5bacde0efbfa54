#include "topology/detect/detect.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "topology/detect/host.h"
#include "topology/detect/hwloc_host.h"
#include "topology/graph/link_constants.h"
#include "topology/graph/paths.h"
#include "topology/xml/xml.h"

namespace tutti::detect {
namespace {

namespace fs = std::filesystem;

// A fake sysfs: /sys/devices with the devices, /sys/bus and /sys/class with links to them.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string pattern = fs::temp_directory_path() / "tutti-sysfs-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~FakeSysfs() { fs::remove_all(root_); }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;

  std::string root() const { return root_; }

  void Write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  // `way` is the path below devices, as "pci0000:00/0000:00:01.0".
  void AddPci(const std::string& way, const std::string& device_class, const std::string& vendor,
              const std::string& device, const std::string& speed = "32.0 GT/s PCIe", int numa = 0) {
    const fs::path directory = "devices/" + way;
    Write(directory / "class", device_class);
    Write(directory / "vendor", vendor);
    Write(directory / "device", device);
    Write(directory / "max_link_speed", speed);
    Write(directory / "current_link_width", "16");
    Write(directory / "numa_node", std::to_string(numa));
    Link("bus/pci/devices" / directory.filename(), directory);
  }

  void AddInterface(const std::string& directory, const std::string& speed, const std::string& state = "up",
                    const std::string& type = "1") {
    const fs::path path = "devices/" + directory;
    Write(path / "operstate", state);
    Write(path / "type", type);
    if (!speed.empty()) Write(path / "speed", speed);
    Link("class/net" / path.filename(), path);
  }

  void AddInfiniband(const std::string& way, const std::string& name, const std::vector<std::string>& states) {
    const fs::path path = "devices/" + way + "/infiniband/" + name;
    Write(path / "sys_image_guid", "0c42:a103:0065:bcfe");
    for (std::size_t i = 0; i < states.size(); ++i) {
      const fs::path port = path / "ports" / std::to_string(i + 1);
      Write(port / "state", states[i]);
      Write(port / "rate", "400 Gb/sec (4X NDR)");
    }
    Link("class/infiniband/" + name, path);
  }

 private:
  void Link(const fs::path& link, const fs::path& to) {
    fs::create_directories((root_ / link).parent_path());
    fs::create_directory_symlink(root_ / to, root_ / link);
  }

  fs::path root_;
};

DetectOptions Options(const FakeSysfs& sysfs, const std::string& synthetic = "pack:2 [numa] pu:2") {
  return {.hwloc_synthetic = synthetic, .sysfs = sysfs.root(), .nvml = TUTTI_FAKE_NVML};
}

std::vector<std::string> Names(const topology::System& system, topology::DeviceKind kind) {
  std::vector<std::string> names;
  for (const int index : system.All(kind)) names.push_back(system.devices[index].name);
  return names;
}

int Named(const topology::System& system, const std::string& name) {
  for (std::size_t i = 0; i < system.devices.size(); ++i) {
    if (system.devices[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

topology::PathClass ClassBetween(const topology::System& system, const std::string& from, const std::string& to) {
  return topology::PathsFrom(system, Named(system, from))[Named(system, to)].path_class;
}

// One socket with a switch of two GPUs and a card, the other with a GPU and a card.
void AddMachine(FakeSysfs& sysfs) {
  const std::string port = "pci0000:10/0000:10:01.0";
  const std::string up = port + "/0000:18:00.0";
  sysfs.AddPci(port, "0x060400", "0x8086", "0x352a");
  sysfs.AddPci(up, "0x060400", "0x1000", "0xc030");
  const std::string down = up + "/0000:19:0";
  for (const auto* bridge : {"0.0", "1.0", "2.0"}) sysfs.AddPci(down + bridge, "0x060400", "0x1000", "0xc030");
  sysfs.AddPci(down + "0.0/0000:1b:00.0", "0x030200", "0x10de", "0x2330");
  sysfs.AddPci(down + "1.0/0000:43:00.0", "0x030200", "0x10de", "0x2330");
  sysfs.AddPci(down + "2.0/0000:50:00.0", "0x020700", "0x15b3", "0x1021");
  sysfs.AddPci("pci0000:c0/0000:c0:01.0", "0x060400", "0x8086", "0x352a", "16.0 GT/s PCIe", 1);
  sysfs.AddPci("pci0000:c0/0000:c0:01.0/0000:c1:00.0", "0x030200", "0x10de", "0x26b9", "32.0 GT/s PCIe", 1);
  sysfs.AddPci("pci0000:c0/0000:c0:02.0", "0x020000", "0x8086", "0x1593", "Unknown", 1);
  // Useless to collectives: a display for the administrator, a disk, a GPU unknown to the driver.
  sysfs.AddPci("pci0000:00/0000:00:03.0", "0x030000", "0x1a03", "0x2000");
  sysfs.AddPci("pci0000:00/0000:00:04.0", "0x010802", "0x144d", "0xa80a");
  sysfs.AddPci("pci0000:00/0000:00:05.0", "0x030200", "0x10de", "0x1db5");
  sysfs.AddInfiniband(down + "2.0/0000:50:00.0", "mlx5_0", {"4: ACTIVE", "1: DOWN"});
  sysfs.AddInterface(down + "2.0/0000:50:00.0/net/ib0", "400000");  // the same card
  sysfs.AddInterface("pci0000:c0/0000:c0:02.0/net/eth0", "100000");
  sysfs.AddInterface("virtual/net/lo", "", "unknown", "772");
  sysfs.AddInterface("virtual/net/docker0", "10000");
}

TEST(Detect, ReadsTheMachineFromItsParts) {
  if (!HasHwloc()) GTEST_SKIP() << "this build has no hwloc";
  FakeSysfs sysfs;
  AddMachine(sysfs);
  const topology::System system = DetectHost(Options(sysfs));
  EXPECT_EQ(Names(system, topology::DeviceKind::cpu), (std::vector<std::string>{"NUMA0", "NUMA1"}));
  EXPECT_EQ(Names(system, topology::DeviceKind::gpu), (std::vector<std::string>{"GPU0", "GPU1", "GPU2"}));
  EXPECT_EQ(Names(system, topology::DeviceKind::nic), (std::vector<std::string>{"mlx5_0", "eth0"}));
  EXPECT_EQ(Names(system, topology::DeviceKind::pci_switch), (std::vector<std::string>{"switch 0000:18:00.0"}));
  EXPECT_EQ(system.All(topology::DeviceKind::nvswitch).size(), 1U);

  EXPECT_EQ(ClassBetween(system, "GPU0", "GPU1"), topology::PathClass::NVL);
  EXPECT_EQ(ClassBetween(system, "GPU0", "mlx5_0"), topology::PathClass::PIX);
  EXPECT_EQ(ClassBetween(system, "GPU2", "eth0"), topology::PathClass::PHB);
  EXPECT_EQ(ClassBetween(system, "GPU0", "GPU2"), topology::PathClass::SYS);
  const auto paths = topology::PathsFrom(system, Named(system, "GPU0"));
  EXPECT_DOUBLE_EQ(paths[Named(system, "GPU1")].bandwidth, topology::NvlinkBandwidth(90, 4));
  // The slot of GPU 2 is slower than the GPU.
  const auto from_gpu2 = topology::PathsFrom(system, Named(system, "GPU2"));
  EXPECT_DOUBLE_EQ(from_gpu2[Named(system, "NUMA1")].bandwidth, topology::PciBandwidth(16, 16));

  const topology::Device& port = system.devices[Named(system, "mlx5_0")];
  EXPECT_DOUBLE_EQ(port.speed_gbit, 400);
  EXPECT_EQ(port.port, 1);
  EXPECT_EQ(port.guid, "0x0c42a1030065bcfe");
  EXPECT_FALSE(port.gdr);
  EXPECT_DOUBLE_EQ(system.devices[Named(system, "eth0")].speed_gbit, 100);
  EXPECT_EQ(xml::ParseTopology(xml::WriteTopology(system), "again").system, system);
}

TEST(Detect, GpuDirectNeedsItsModule) {
  if (!HasHwloc()) GTEST_SKIP() << "this build has no hwloc";
  FakeSysfs sysfs;
  AddMachine(sysfs);
  fs::create_directories(sysfs.root() + "/module/nvidia_peermem");
  const topology::System system = DetectHost(Options(sysfs));
  EXPECT_TRUE(system.devices[Named(system, "GPU0")].gdr);
  EXPECT_TRUE(system.devices[Named(system, "mlx5_0")].gdr);
  EXPECT_FALSE(system.devices[Named(system, "eth0")].gdr);
}

TEST(Detect, VirtualAndLoopbackInterfacesOnlyIfThereIsNothingElse) {
  if (!HasHwloc()) GTEST_SKIP() << "this build has no hwloc";
  FakeSysfs sysfs;
  sysfs.AddInterface("virtual/net/lo", "", "unknown", "772");
  EXPECT_EQ(Names(DetectHost(Options(sysfs)), topology::DeviceKind::nic), (std::vector<std::string>{"lo"}));
  sysfs.AddInterface("virtual/net/veth0", "10000");
  const topology::System system = DetectHost(Options(sysfs));
  EXPECT_EQ(Names(system, topology::DeviceKind::nic), (std::vector<std::string>{"veth0"}));
  EXPECT_EQ(xml::ParseTopology(xml::WriteTopology(system), "again").system, system);
  sysfs.AddPci("pci0000:00/0000:00:03.0", "0x020000", "0x1af4", "0x1041");
  sysfs.AddInterface("pci0000:00/0000:00:03.0/virtio2/net/eth0", "-1");
  sysfs.AddInterface("pci0000:00/0000:00:03.0/virtio2/net/eth1", "-1", "down");
  const topology::System with_card = DetectHost(Options(sysfs));
  EXPECT_EQ(Names(with_card, topology::DeviceKind::nic), (std::vector<std::string>{"eth0"}));
  EXPECT_GT(with_card.devices[Named(with_card, "eth0")].speed_gbit, 0);
}

TEST(Detect, SyntheticCpus) {
  if (!HasHwloc()) GTEST_SKIP() << "this build has no hwloc";
  FakeSysfs sysfs;
  const topology::System system = DetectHost(Options(sysfs, "pack:2 [numa] [numa] core:4 pu:2"));
  for (const int cpu : system.All(topology::DeviceKind::cpu)) EXPECT_EQ(system.devices[cpu].cores.size(), 8U);
  EXPECT_EQ(DetectHost(Options(sysfs, "pack:4 [numa] pu:2")).All(topology::DeviceKind::cpu).size(), 4U);
  EXPECT_THROW(DetectHost(Options(sysfs, "four packs")), Error);

  const topology::System tree = DetectHost(Options(sysfs, "pack:2 [numa] l3:2 core:2 pu:1"));
  const topology::Device& second = tree.devices[tree.All(topology::DeviceKind::cpu)[1]];
  EXPECT_EQ(second.package, 1);
  EXPECT_EQ(second.caches, (std::vector<std::vector<int>>{{4, 5}, {6, 7}}));
  EXPECT_EQ(xml::ParseTopology(xml::WriteTopology(tree), "again").system, tree);
  // A node that spans packages is in none; a cache that spans nodes is each node's own.
  const topology::System wide = DetectHost(Options(sysfs, "pack:2 l3:1 core:2 pu:1"));
  EXPECT_EQ(wide.devices[wide.All(topology::DeviceKind::cpu)[0]].package, -1);
  // Nodes smaller than a package (sub-NUMA clustering) have their own cores only.
  const topology::System shared = DetectHost(Options(sysfs, "pack:1 l3:1 group:2 [numa] core:2 pu:1"));
  EXPECT_EQ(shared.devices[shared.All(topology::DeviceKind::cpu)[1]].caches, (std::vector<std::vector<int>>{{2, 3}}));
}

TEST(Detect, AnotherMachineFromHwlocXml) {
  if (!HasHwloc()) GTEST_SKIP() << "this build has no hwloc";
  const DetectOptions options = {.hwloc_xml = "topology/testdata/hwloc/two_sockets.xml", .sysfs = "", .nvml = ""};
  const topology::System system = DetectHost(options);
  ASSERT_EQ(system.All(topology::DeviceKind::cpu).size(), 2U);
  const topology::Device& cpu = system.devices[system.All(topology::DeviceKind::cpu)[1]];
  EXPECT_EQ(cpu.vendor, "GenuineIntel");
  EXPECT_EQ(cpu.model, 143);
  EXPECT_EQ(cpu.cores, (std::vector<int>{2, 3}));
  EXPECT_EQ(system.All(topology::DeviceKind::pci_switch).size(), 2U);
  ASSERT_EQ(system.All(topology::DeviceKind::gpu).size(), 2U);
  ASSERT_EQ(system.All(topology::DeviceKind::nic).size(), 2U);
  EXPECT_EQ(system.devices[system.All(topology::DeviceKind::gpu)[0]].sm, 90);
  EXPECT_EQ(ClassBetween(system, "GPU0", "net0"), topology::PathClass::PIX);
  EXPECT_EQ(ClassBetween(system, "GPU0", "GPU1"), topology::PathClass::SYS);
  EXPECT_DOUBLE_EQ(topology::PathsFrom(system, Named(system, "GPU0"))[Named(system, "net0")].bandwidth,
                   topology::PciBandwidth(32, 16));
  EXPECT_THROW(DetectHost({.hwloc_xml = "topology/testdata/none.xml"}), Error);
}

TEST(Detect, WithoutHwlocThereIsOneCpu) {
  FakeSysfs sysfs;
  AddMachine(sysfs);
  const topology::System system = DetectHost({.hwloc = false, .sysfs = sysfs.root(), .nvml = TUTTI_FAKE_NVML});
  ASSERT_EQ(Names(system, topology::DeviceKind::cpu), (std::vector<std::string>{"NUMA0"}));
  EXPECT_EQ(system.devices[0].cores.size(), static_cast<std::size_t>(CountCpus(AllowedCpus())));
  EXPECT_FALSE(system.devices[0].arch.empty());
  EXPECT_EQ(system.All(topology::DeviceKind::gpu).size(), 3U);
  EXPECT_EQ(ClassBetween(system, "GPU0", "GPU2"), topology::PathClass::PHB);
}

TEST(Detect, ThisMachine) {
  const topology::System system = DetectHost();
  ASSERT_FALSE(system.All(topology::DeviceKind::cpu).empty());
  EXPECT_EQ(system.hosts(), 1);
  std::size_t cores = 0;
  for (const int cpu : system.All(topology::DeviceKind::cpu)) cores += system.devices[cpu].cores.size();
  EXPECT_GE(cores, static_cast<std::size_t>(CountCpus(AllowedCpus())));
  EXPECT_EQ(xml::ParseTopology(xml::WriteTopology(system), "again").system, system);
  EXPECT_EQ(DetectHost(), system);
}

TEST(Host, AVirtualMachineDoesNotOwnTheWholeCacheThatItReports) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  EXPECT_EQ(CacheShareBytes(260 * kMiB, 2), 24 * kMiB);
  EXPECT_EQ(CacheShareBytes(16 * kMiB, 2), 16 * kMiB);
  EXPECT_EQ(CacheShareBytes(105 * kMiB, 56), 105 * kMiB);
  EXPECT_GT(CacheShareBytes(LastLevelCacheBytes(), 0), 0U);
  EXPECT_LE(CoreCacheBytes(), LastLevelCacheBytes());
}

}  // namespace
}  // namespace tutti::detect
