#include "tools/draw/matrix.h"

#include <gtest/gtest.h>

#include "topology/graph/sample_systems.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

std::string MatrixOf(const std::string& file) {
  return TopologyMatrix(xml::ReadTopologyFile(samples::PathOf(file)).system, 0);
}

std::string Line(const std::string& text, int number) {
  std::size_t begin = 0;
  while (number-- > 0) begin = text.find('\n', begin) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Matrix, OfAMachineWithASwitch) {
  EXPECT_EQ("\n" + MatrixOf("dgxh100"), R"(
      GPU0  GPU1  GPU2  GPU3  GPU4  GPU5  GPU6  GPU7  NIC0  NIC1  NIC2  NIC3  NIC4  NIC5  NIC6  NIC7  CPU affinity  NUMA affinity
GPU0   X    NV18  NV18  NV18  NV18  NV18  NV18  NV18  PIX   PHB   PHB   PHB   SYS   SYS   SYS   SYS   0             0
GPU1  NV18   X    NV18  NV18  NV18  NV18  NV18  NV18  PHB   PIX   PHB   PHB   SYS   SYS   SYS   SYS   0             0
GPU2  NV18  NV18   X    NV18  NV18  NV18  NV18  NV18  PHB   PHB   PIX   PHB   SYS   SYS   SYS   SYS   0             0
GPU3  NV18  NV18  NV18   X    NV18  NV18  NV18  NV18  PHB   PHB   PHB   PIX   SYS   SYS   SYS   SYS   0             0
GPU4  NV18  NV18  NV18  NV18   X    NV18  NV18  NV18  SYS   SYS   SYS   SYS   PIX   PHB   PHB   PHB   1             1
GPU5  NV18  NV18  NV18  NV18  NV18   X    NV18  NV18  SYS   SYS   SYS   SYS   PHB   PIX   PHB   PHB   1             1
GPU6  NV18  NV18  NV18  NV18  NV18  NV18   X    NV18  SYS   SYS   SYS   SYS   PHB   PHB   PIX   PHB   1             1
GPU7  NV18  NV18  NV18  NV18  NV18  NV18  NV18   X    SYS   SYS   SYS   SYS   PHB   PHB   PHB   PIX   1             1
NIC0  PIX   PHB   PHB   PHB   SYS   SYS   SYS   SYS    X    PHB   PHB   PHB   SYS   SYS   SYS   SYS
NIC1  PHB   PIX   PHB   PHB   SYS   SYS   SYS   SYS   PHB    X    PHB   PHB   SYS   SYS   SYS   SYS
NIC2  PHB   PHB   PIX   PHB   SYS   SYS   SYS   SYS   PHB   PHB    X    PHB   SYS   SYS   SYS   SYS
NIC3  PHB   PHB   PHB   PIX   SYS   SYS   SYS   SYS   PHB   PHB   PHB    X    SYS   SYS   SYS   SYS
NIC4  SYS   SYS   SYS   SYS   PIX   PHB   PHB   PHB   SYS   SYS   SYS   SYS    X    PHB   PHB   PHB
NIC5  SYS   SYS   SYS   SYS   PHB   PIX   PHB   PHB   SYS   SYS   SYS   SYS   PHB    X    PHB   PHB
NIC6  SYS   SYS   SYS   SYS   PHB   PHB   PIX   PHB   SYS   SYS   SYS   SYS   PHB   PHB    X    PHB
NIC7  SYS   SYS   SYS   SYS   PHB   PHB   PHB   PIX   SYS   SYS   SYS   SYS   PHB   PHB   PHB    X

Legend:

  X    = itself
  SYS  = by way of the link between CPUs (UPI, QPI, Infinity Fabric)
  PHB  = by way of a CPU's PCI host bridge
  PXB  = by way of several PCI switches, and no CPU
  PIX  = by way of one PCI switch at most
  NV#  = over # NVLinks
  NVB  = over NVLinks, by way of another GPU

NICs:

  NIC0: mlx5_0, 400 Gbit/s
  NIC1: mlx5_1, 400 Gbit/s
  NIC2: mlx5_2, 400 Gbit/s
  NIC3: mlx5_3, 400 Gbit/s
  NIC4: mlx5_4, 400 Gbit/s
  NIC5: mlx5_5, 400 Gbit/s
  NIC6: mlx5_6, 400 Gbit/s
  NIC7: mlx5_7, 400 Gbit/s
)");
}

TEST(Matrix, TellsNvlinksApart) {
  EXPECT_EQ(Line(MatrixOf("dgx1v"), 1),
            "GPU0   X    NV1   NV1   NV2   NV2   NVB   NVB   NVB   PIX   PHB   SYS   SYS   0             0");
}

TEST(Matrix, CpusAreThoseOfTheNearestNode) {
  EXPECT_EQ(Line(MatrixOf("azure_ncv4-topo"), 3), "GPU2  SYS   SYS    X    SYS   SYS   48-71         2");
}

TEST(Matrix, WithoutGpusShowsNodes) {
  const std::string text = MatrixOf("aws_g5.48xl");
  EXPECT_EQ(Line(text, 1), "NUMA0   X     SYS    N/A           0");
  EXPECT_EQ(Line(text, 2), "NUMA1  SYS     X     N/A           1");
  EXPECT_EQ(TopologyMatrix(topology::System{}, 0), "");
}

}  // namespace
}  // namespace tutti::tools
