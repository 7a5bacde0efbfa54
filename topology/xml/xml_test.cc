#include "topology/xml/xml.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "topology/graph/link_constants.h"
#include "topology/graph/paths.h"
#include "topology/graph/pci_text.h"

namespace tutti::xml {
namespace {

constexpr const char* kData = "topology/testdata";

TopologyFile LoadFile(const std::string& name) { return ReadTopologyFile(std::string(kData) + "/" + name + ".xml"); }

std::vector<std::string> AllFiles() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    if (entry.path().extension() == ".xml") names.push_back(entry.path().stem());
  }
  return names;
}

int Count(const topology::System& system, topology::DeviceKind kind) {
  return static_cast<int>(system.All(kind).size());
}

bool AnyNote(const TopologyFile& file, const std::string& part) {
  return std::any_of(file.notes.begin(), file.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

// One CPU that contains `inside`.
topology::System Parse(const std::string& inside) {
  return ParseTopology("<system version=\"1\"><cpu numaid=\"0\">" + inside + "</cpu></system>", "test").system;
}

double NvlinkOf(const topology::System& system, int device) {
  double sum = 0;
  for (const auto& link : system.links)
    sum += link.from == device && link.kind == topology::LinkKind::nvlink ? link.bandwidth : 0;
  return sum;
}

TEST(TopologyXml, EveryFileLoadsAndReadsBackEqual) {
  const auto names = AllFiles();
  EXPECT_EQ(names.size(), 21U);
  for (const auto& name : names) {
    const auto file = LoadFile(name);
    const std::string written = WriteTopology(file.system);
    const auto again = ParseTopology(written, name + " again");
    EXPECT_EQ(file.system, again.system) << name << "\n" << written;
    EXPECT_EQ(WriteTopology(again.system), written) << name;
  }
}

// Another library's view of the same files: columns of systems.csv.
using Row = std::map<std::string, std::string>;
std::map<std::string, Row> ReferenceSystems() {
  std::ifstream csv(std::string(kData) + "/systems.csv");
  const auto split = [](const std::string& line) {
    std::vector<std::string> cells;
    std::stringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::string line;
  std::getline(csv, line);
  const auto columns = split(line);
  std::map<std::string, Row> rows;
  while (std::getline(csv, line)) {
    const auto cells = split(line);
    Row row;
    for (std::size_t i = 0; i < cells.size(); ++i) row[columns[i]] = cells[i];
    rows[row["name"]] = row;
  }
  return rows;
}

TEST(TopologyXml, SeesWhatOthersSee) {
  const auto rows = ReferenceSystems();
  ASSERT_EQ(rows.size(), 10U);
  for (auto [name, row] : rows) {
    SCOPED_TRACE(name);
    const topology::System system = LoadFile(name).system;
    EXPECT_EQ(Count(system, topology::DeviceKind::cpu), std::stoi(row["cpus"]));
    EXPECT_EQ(Count(system, topology::DeviceKind::pci_switch), std::stoi(row["pci_switches"]));
    // That library cuts `gpus` into domains, but not `devs`.
    EXPECT_EQ(Count(system, topology::DeviceKind::gpu), std::stoi(row["devs"]));
    EXPECT_EQ(Count(system, topology::DeviceKind::nic), std::stoi(row["nets"]));
    EXPECT_EQ(Count(system, topology::DeviceKind::network), std::stoi(row["nets"]) > 0 ? 1 : 0);
    // That library counts a board whose GPUs are all joined directly as switched, and NVLinks of a GPU to itself; here
    // a switch is what the file calls one.
    const bool joined_directly = name == "hgxa100_4gpu" || name == "azure_ncv4-topo";
    EXPECT_EQ(Count(system, topology::DeviceKind::nvswitch), joined_directly ? 0 : std::stoi(row["nvs"]));

    double widest = 0;
    for (const int gpu : system.All(topology::DeviceKind::gpu)) {
      const auto paths = topology::PathsFrom(system, gpu);
      for (const int other : system.All(topology::DeviceKind::gpu)) {
        if (other != gpu) widest = std::max(widest, paths[other].bandwidth);
      }
      EXPECT_EQ(system.devices[gpu].sm, std::stoi(row["minCC"]));
      if (name != "azure_ncv4-topo") {
        EXPECT_DOUBLE_EQ(NvlinkOf(system, gpu), std::stod(row["sum_nvlink_bw_gpu0"]));
      }
    }
    EXPECT_DOUBLE_EQ(widest, std::stod(row["maxBw"]));
  }
}

TEST(TopologyXml, BridgesWithOneBranchCountAsItsLink) {
  // Each GPU and each card has a bridge of its own below the switch.
  const auto file = LoadFile("oci_H100-topology");
  const topology::System& system = file.system;
  EXPECT_TRUE(AnyNote(file, "switch 0000:08:00.0: its link to the CPU carries less (6 GB/s)"));
  EXPECT_EQ(Count(system, topology::DeviceKind::gpu), 8);
  EXPECT_EQ(Count(system, topology::DeviceKind::pci_switch), 8);
  EXPECT_EQ(Count(system, topology::DeviceKind::nvswitch), 1);
  ASSERT_EQ(Count(system, topology::DeviceKind::nic), 16);
  // Two ports of 180 Gbit/s share 16 lanes of 32 GT/s.
  const int nic = system.All(topology::DeviceKind::nic).front();
  EXPECT_DOUBLE_EQ(system.devices[nic].speed_gbit, 180);
  for (const auto& link : system.links) {
    if (link.from == nic && link.kind == topology::LinkKind::pci) {
      EXPECT_DOUBLE_EQ(link.bandwidth, topology::PciBandwidth(32, 16) / 2);
    }
    if (link.from == nic && link.kind == topology::LinkKind::network) {
      EXPECT_DOUBLE_EQ(link.bandwidth, topology::NetworkBandwidth(180));
    }
  }
}

TEST(TopologyXml, PartialFilesAreCompletedFromIdsAndSlots) {
  const auto p4d = LoadFile("aws_p4d-24xl");
  const auto full = LoadFile("aws_p4d_full").system;
  // The file has only PCI ids, yet the graph is the same but for names and the latency of that network.
  for (const topology::DeviceKind kind : {topology::DeviceKind::gpu, topology::DeviceKind::nic,
                                          topology::DeviceKind::nvswitch, topology::DeviceKind::pci_switch}) {
    EXPECT_EQ(Count(p4d.system, kind), Count(full, kind)) << topology::NameOf(kind);
  }
  for (std::size_t i = 0; i < full.links.size(); ++i) EXPECT_EQ(p4d.system.links[i].bandwidth, full.links[i].bandwidth);
  EXPECT_TRUE(AnyNote(p4d, "8 A100 SXM4 40 GB assumed to be joined by 12 NVLinks each through NVSwitches"));
  EXPECT_TRUE(AnyNote(p4d, "100 Gbit/s assumed, the speed of its slot"));

  const auto ndv4 = LoadFile("azure_ndv4-topo");  // no ids, only classes: numbers by bus id, as others completed it
  const auto ndv4_full = LoadFile("azure_ndv4_full").system;
  for (std::size_t i = 0; i < ndv4.system.devices.size() - 1; ++i) {
    EXPECT_EQ(ndv4.system.devices[i].number, ndv4_full.devices[i].number);
  }
  EXPECT_TRUE(AnyNote(ndv4, "NVLinks unknown: none assumed"));

  const auto g5 = LoadFile("aws_g5.48xl");  // bus ids and nothing else
  EXPECT_EQ(Count(g5.system, topology::DeviceKind::gpu), 0);
  EXPECT_TRUE(AnyNote(g5, "0000:00:16.0, 0000:00:17.0, 0000:00:18.0, ... (9 in all): class and device unknown"));
}

TEST(TopologyXml, PartialFilesAreCompletedFromDetection) {
  topology::HostDescription detected;
  detected.cpus = {{.numa = 0, .arch = "x86_64", .vendor = "AuthenticAMD", .cores = {0, 1}}};
  auto& devices = detected.cpus[0].devices;
  devices.push_back(
      {.bus_id = "0000:00:16.0", .slot = {.device_class = topology::kClassGpu, .speed_gts = 16, .width = 16}});
  devices.back().gpu = topology::GpuDescription{
      .number = 3, .sm = 86, .gdr = false, .nvlinks = std::vector<topology::NvlinkDescription>{}};
  devices.push_back(
      {.bus_id = "0000:00:15.0", .slot = {.device_class = topology::kClassEthernet, .speed_gts = 16, .width = 16}});
  devices.back().ports = {{.name = "efa0", .speed_gbit = 100}};
  const auto file = ReadTopologyFile(std::string(kData) + "/aws_g5.48xl.xml", &detected);
  ASSERT_EQ(Count(file.system, topology::DeviceKind::gpu), 1);
  const topology::Device& gpu = file.system.devices[file.system.All(topology::DeviceKind::gpu).front()];
  EXPECT_EQ(gpu.number, 3);
  EXPECT_EQ(gpu.sm, 86);
  ASSERT_EQ(Count(file.system, topology::DeviceKind::nic), 1);
  EXPECT_EQ(file.system.devices[file.system.All(topology::DeviceKind::nic).front()].name, "efa0");
  EXPECT_EQ(file.system.devices.front().vendor, "AuthenticAMD");
  EXPECT_TRUE(AnyNote(file, "0000:00:16.0, 0000:00:15.0 (2 in all): completed with the detected hardware"));
}

TEST(TopologyXml, NvlinksToItselfAndToStrangersAreNoted) {
  const auto azure = LoadFile("azure_ncv4-topo");
  EXPECT_TRUE(AnyNote(azure, "GPU0: 12 NVLinks to itself: ignored"));
  const auto file = ParseTopology(
      "<system><cpu><pci busid='0000:01:00.0'><gpu dev='0' sm='80'><nvlink target='0000:99:00.0' count='2' "
      "tclass='0x030200'/></gpu></pci></cpu></system>",
      "test");
  EXPECT_TRUE(AnyNote(file, "0000:99:00.0, which is not a GPU of this host"));
  EXPECT_EQ(NvlinkOf(file.system, 1), 0);
}

TEST(TopologyXml, DevicesInsideTheCpuNeedNoPci) {
  const topology::System system =
      Parse("<gpu dev='0' sm='90'><c2c bw='350000' count='1'/></gpu><nic><net name='a' dev='0' speed='25000'/></nic>");
  ASSERT_EQ(Count(system, topology::DeviceKind::gpu), 1);
  ASSERT_EQ(Count(system, topology::DeviceKind::nic), 1);
  EXPECT_DOUBLE_EQ(NvlinkOf(system, 1), 350);
  EXPECT_EQ(ParseTopology(WriteTopology(system), "again").system, system);
  const topology::System one_sided = Parse(
      "<gpu dev='0' sm='90'><nvlink target='0000:01:00.0' count='4'/></gpu><pci busid='0000:01:00.0'><gpu dev='1' "
      "sm='90'/></pci>");
  EXPECT_DOUBLE_EQ(NvlinkOf(one_sided, 2), topology::NvlinkBandwidth(90, 4));
  EXPECT_EQ(ParseTopology(WriteTopology(one_sided), "again").system, one_sided);
}

TEST(TopologyXml, HostsOfOneFileAreToldApartByTheirHash) {
  const std::string gpu = "<pci busid='0000:01:00.0'><gpu dev='0' sm='90'/></pci>";
  const topology::System system = ParseTopology("<system><cpu numaid='0' host_hash='0x1'>" + gpu +
                                                    "</cpu><cpu numaid='0' host_hash='0x2'>" + gpu + "</cpu></system>",
                                                "test")
                                      .system;
  EXPECT_EQ(system.hosts(), 2);
  EXPECT_EQ(system.All(topology::DeviceKind::gpu, 1).size(), 1U);
}

TEST(TopologyXml, ElementsOfOthersAreIgnored) {
  const auto file = ParseTopology(
      "<?xml version='1.0'?><!-- c --><system version='1' more='x'><cpu numaid='-1'><pci busid='0000:01:00.0' "
      "colour='red'>"
      "<gpu dev='0' sm='80'><xgmi target='0000:02:00.0' count='1'/><pcilink "
      "target='0000:02:00.0'/></gpu></pci></cpu></system>",
      "test");
  EXPECT_EQ(Count(file.system, topology::DeviceKind::gpu), 1);
  EXPECT_TRUE(AnyNote(file, "<xgmi> ignored"));
}

// `inside`, beside a GPU at 0000:01:00.0 and one at 0000:02:00.0: the file is read, with a note that has `said`.
TopologyFile WithTwoGpus(const std::string& inside, const std::string& said) {
  auto file =
      ParseTopology("<system version='1'><cpu numaid='0'><pci busid='0000:01:00.0'><gpu dev='0' sm='80'/></pci>" +
                        inside + "<pci busid='0000:02:00.0'><gpu dev='1' sm='80'/></pci></cpu></system>",
                    "test");
  EXPECT_TRUE(AnyNote(file, said)) << inside;
  return file;
}

TEST(TopologyXml, WhatCannotBeUsedIsNotedAndTheRestIsRead) {
  const auto gpus = [](const std::string& inside, const std::string& said) {
    return Count(WithTwoGpus(inside, said).system, topology::DeviceKind::gpu);
  };
  EXPECT_EQ(gpus("<pci busid='0000:01:00.0'><gpu/></pci>", "busid 0000:01:00.0 occurs twice: ignored here"), 2);
  EXPECT_EQ(gpus("<pci busid='0000:03:00.0'><gpu dev='0'/></pci>", "GPU dev 0 occurs twice"), 3);
  EXPECT_EQ(gpus("<gpu rank='1'/><gpu rank='1'/>", "rank 1 occurs twice"), 4);
  EXPECT_EQ(gpus("<pci busid='0000:03:00.0'><gpu/><gpu rank='1'/></pci>", "a second <gpu> at the same place"), 3);
  EXPECT_EQ(gpus("<pci busid='0000:03:00.0'><gpu/><pci busid='0000:04:00.0'><gpu/></pci></pci>", "03:00.0 is a bridge"),
            3);
  EXPECT_EQ(gpus("<pci busid='0000:03:00.0'><gpu/><nic><net/></nic></pci>", "0000:03:00.0 is a GPU"), 3);
  EXPECT_EQ(gpus("<pci busid='0000:03:00.0' link_width='63'><gpu/></pci>", "link_width is 63"), 3);
  EXPECT_EQ(gpus("<pci busid='0000:03:00.0' link_width='255'><gpu/></pci>", "link_width is 255"), 3);
  for (const std::string speed : {"fast", "-8 GT/s", "8 furlongs"}) {
    EXPECT_EQ(gpus("<pci busid='0000:03:00.0' link_speed='" + speed + "'><gpu/></pci>", "link_speed is not"), 3);
  }
  const auto ports = WithTwoGpus("<nic><net name='a' dev='0'/><net name='b' dev='0'/></nic>", "net dev 0 occurs twice");
  EXPECT_EQ(Count(ports.system, topology::DeviceKind::nic), 2);
  const auto nodes = WithTwoGpus("</cpu><cpu numaid='0'><gpu dev='5'/>", "the devices here are added to the first");
  EXPECT_EQ(Count(nodes.system, topology::DeviceKind::cpu), 1);
  EXPECT_EQ(Count(nodes.system, topology::DeviceKind::gpu), 3);
}

TEST(TopologyXml, NvlinksToGpusOfEveryDisplayClass) {
  for (const std::string kind : {"0x030000", "0x030200", "0x038000"}) {
    const auto system =
        Parse("<pci busid='0000:91:00.0' class='" + kind +
              "' vendor='0x10de'><gpu dev='0' sm='86'><nvlink target='0000:b1:00.0' count='4' tclass='" + kind +
              "'/></gpu></pci><pci busid='0000:b1:00.0'><gpu dev='1' sm='86'/></pci>");
    EXPECT_DOUBLE_EQ(NvlinkOf(system, 1), topology::NvlinkBandwidth(86, 4)) << kind;
  }
}

TEST(TopologyXml, BusIdsOfEveryWidthAndCaseAreTheSame) {
  for (const std::string same : {"0000:3b:00.0", "00000000:3B:00.0", "3b:00.0", "0:3B:00.0", "000000:3b:00.0"}) {
    EXPECT_EQ(topology::CanonicalBusId(same), "0000:3b:00.0") << same;
    const auto system = Parse("<pci busid='0000:1a:00.0'><gpu dev='0' sm='86'><nvlink target='" + same +
                              "' count='4'/></gpu></pci><pci busid='00000000:3B:00.0'><gpu dev='1' sm='86'/></pci>");
    EXPECT_DOUBLE_EQ(NvlinkOf(system, 1), topology::NvlinkBandwidth(86, 4)) << same;
  }
  EXPECT_EQ(topology::CanonicalBusId("00010000:01:00.0"), "10000:01:00.0");
  EXPECT_EQ(topology::CanonicalBusId("FFFFFFF:FF:FF.0"), "fffffff:ff:ff.0");
  for (const std::string wrong :
       {"", ":01:00.0", "000000000:01:00.0", "1:00.0", "0000:01:00.8", "g:01:00.0", "x1:00.0"}) {
    EXPECT_EQ(topology::CanonicalBusId(wrong), "") << wrong;
  }
}

TEST(LinkConstants, AreTheUsableShareOfTheRawRate) {
  for (const auto& generation : topology::kPciGenerations) {
    EXPECT_TRUE(topology::IsPciSpeed(generation.speed_gts));
    EXPECT_LT(topology::PciBandwidth(generation.speed_gts, 1), generation.speed_gts / 8);
  }
  EXPECT_DOUBLE_EQ(topology::PciBandwidth(0, 0), 12);
  EXPECT_DOUBLE_EQ(topology::PciBandwidth(32, 8), 24);
  EXPECT_FALSE(topology::IsPciSpeed(7));
  EXPECT_DOUBLE_EQ(topology::NvlinkBandwidth(70, 6), 120);
  EXPECT_DOUBLE_EQ(topology::NvlinkBandwidth(0, 12), topology::NvlinkBandwidth(80, 12));
  EXPECT_DOUBLE_EQ(topology::NvlinkBandwidth(89, 1), topology::NvlinkBandwidth(86, 1));
  EXPECT_DOUBLE_EQ(topology::SocketBandwidth("x86_64", "GenuineIntel", 6, 79), 6);
  EXPECT_DOUBLE_EQ(topology::SocketBandwidth("x86_64", "GenuineIntel", 6, 143), 22);
  EXPECT_DOUBLE_EQ(topology::SocketBandwidth("riscv64", "", 0, 0), 6);
  EXPECT_DOUBLE_EQ(topology::PortSpeedGbit(8, 16), 100);
  EXPECT_DOUBLE_EQ(topology::PortSpeedGbit(32, 16), 400);
}

}  // namespace
}  // namespace tutti::xml
