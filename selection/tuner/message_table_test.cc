#include "selection/tuner/message_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "selection/cost_model/host_machine.h"
#include "selection/cost_model/machine_of_system.h"
#include "topology/xml/xml.h"

namespace tutti::tuner {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

// Four GPUs: NVLink joins each with its neighbour alone, and PCIe all.
constexpr char kPairs[] = R"(<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:12:00.0" count="12" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:11:00.0" count="12" tclass="0x030200"/></gpu>
      </pci>
    </pci>
    <pci busid="0000:20:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:21:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="2" sm="80" rank="2" gdr="1"><nvlink target="0000:22:00.0" count="12" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:22:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="3" sm="80" rank="3" gdr="1"><nvlink target="0000:21:00.0" count="12" tclass="0x030200"/></gpu>
      </pci>
    </pci>
  </cpu>
</system>)";

cost_model::TuningContext Conditions(const cost_model::Machine& machine) {
  cost_model::TuningContext tuning;
  tuning.nranks = machine.nranks();
  tuning.where = machine.rank_layout();
  tuning.one_host = machine.one_host();
  tuning.threads = 0;
  tuning.max_channels = 32;
  tuning.gpu_slots = {true, true, 3 * KiB, 13 * KiB, 51 * KiB, false};
  tuning.messages = {32, ring::Protocol::inlined, 15232, 4};
  return tuning;
}

cost_model::Machine PairsMachine() {
  return cost_model::MachineOfSystem(xml::ParseTopology(kPairs, "pairs").system, 1, 0, {256});
}

// Twelve NVLinks carry 300 GB/s, PCIe 4 some 24.
TEST(MessageTable, ChannelsFollowTheLink) {
  const auto machine = PairsMachine();
  const auto tuning = Conditions(machine);
  const MessageTable table(machine, tuning);
  EXPECT_GE(table.At(tuning, 0, 1, 64 * MiB).channels, 16);
  EXPECT_LE(table.At(tuning, 0, 2, 64 * MiB).channels, 8);
  EXPECT_EQ(table.At(tuning, 2, 3, 64 * MiB), table.At(tuning, 0, 1, 64 * MiB));
}

TEST(MessageTable, ChannelsFollowTheLength) {
  const auto machine = PairsMachine();
  const auto tuning = Conditions(machine);
  const MessageTable table(machine, tuning);
  EXPECT_EQ(table.At(tuning, 0, 1, 0), (MessageWay{1, {ring::Protocol::line, 3 * KiB}}));
  EXPECT_EQ(table.At(tuning, 0, 1, 3 * KiB), (MessageWay{1, {ring::Protocol::line, 3 * KiB}}));
  EXPECT_EQ(table.At(tuning, 0, 1, 3 * KiB + 1).config, (schedule::ProtocolConfig{ring::Protocol::inlined, 15232}));
  int last = 1;
  for (std::size_t bytes = 1; bytes <= 4 * GiB; bytes *= 2) {
    const int channels = table.At(tuning, 0, 1, bytes).channels;
    EXPECT_GE(channels, last) << bytes;
    last = channels;
  }
  EXPECT_EQ(last, 32);
}

// The receiver asks what the sender asks, with a table that rank 0 has sent.
TEST(MessageTable, BothSidesDecideAlike) {
  const auto machine = PairsMachine();
  const auto tuning = Conditions(machine);
  const MessageTable mine(machine, tuning);
  const auto theirs = MessageTable::FromJson(mine.ToJson(), "theirs", tuning);
  EXPECT_EQ(mine, theirs);
  EXPECT_EQ(MessageTable::FromJson(MessageTable().ToJson(), "none", tuning), MessageTable());
}

// Rank 0 has no peer on its host.
TEST(MessageTable, HostsMayHaveUnlikeNumbersOfRanks) {
  const auto where = schedule::ArrangeByNode(std::vector{0, 1, 1, 1});
  const auto machine =
      cost_model::HostMachine(cost_model::DefaultHostCosts(1), where, cost_model::RdmaNetworkCosts(25));
  auto tuning = Conditions(machine);
  tuning.gpu_slots.lines = false;
  tuning.messages.protocol = ring::Protocol::bulk;
  const MessageTable table(machine, tuning);
  EXPECT_EQ(table.At(tuning, 1, 3, 64 * MiB).channels, 32);
}

// Nodes that only the user sees do not change a host's links.
TEST(MessageTable, VirtualNodesHaveTheLinksOfTheirHost) {
  const auto machine = PairsMachine();
  auto tuning = Conditions(machine);
  const MessageTable table(machine, tuning);
  tuning.where = schedule::ArrangeByNode(std::vector{0, 1, 0, 1});
  EXPECT_EQ(MessageTable(machine, tuning), table);
  for (int to = 1; to < 4; ++to)
    EXPECT_EQ(table.At(tuning, 0, to, 64 * MiB), table.At(Conditions(machine), 0, to, 64 * MiB)) << to;
}

TEST(MessageTable, TheUserMayForceOrLeaveOutProtocols) {
  const auto machine = PairsMachine();
  auto tuning = Conditions(machine);
  const MessageTable table(machine, tuning);
  tuning.forced.without = ring::Protocol::line;
  EXPECT_EQ(table.At(tuning, 0, 1, 8), (MessageWay{1, {ring::Protocol::inlined, 15232}}));
  tuning.forced = {};
  tuning.messages.protocol = ring::Protocol::bulk;
  tuning.forced.protocol = ring::Protocol::bulk;
  EXPECT_EQ(table.At(tuning, 0, 1, 8), (MessageWay{1, {ring::Protocol::bulk, 15232}}));
  // Packets have one channel.
  tuning.messages = {32, ring::Protocol::line, 3 * KiB, 4};
  tuning.forced.protocol = ring::Protocol::line;
  EXPECT_EQ(MessageTable(machine, tuning).At(tuning, 0, 1, GiB), (MessageWay{1, {ring::Protocol::line, 3 * KiB}}));
}

TEST(MessageTable, TheUserMayTakeFewer) {
  const auto machine = PairsMachine();
  auto tuning = Conditions(machine);
  const MessageTable table(machine, tuning);
  tuning.forced.most_channels = 6;
  EXPECT_EQ(table.At(tuning, 0, 1, GiB).channels, 6);
  EXPECT_EQ(table.At(tuning, 0, 1, 4 * KiB).channels, table.At(Conditions(machine), 0, 1, 4 * KiB).channels);
  tuning.forced = {};
  tuning.forced.least_channels = 2;
  EXPECT_EQ(table.At(tuning, 0, 1, 4 * KiB).channels, 2);
  tuning.forced = {};
  tuning.forced.channels = 3;
  EXPECT_EQ(table.At(tuning, 0, 1, 4 * KiB).channels, 3);
  tuning.forced.channels = 64;
  EXPECT_EQ(table.At(tuning, 0, 1, 4 * KiB).channels, 32);
}

TEST(MessageTable, BetweenHostsChannelsAreFew) {
  auto tuning = Conditions(PairsMachine());
  tuning.where = schedule::ArrangeEvenly(4, 2);
  tuning.one_host = false;
  tuning.gpu_slots.lines = false;
  const MessageTable table;
  EXPECT_EQ(table.At(tuning, 0, 2, GiB), (MessageWay{4, {ring::Protocol::bulk, 51 * KiB}}));
  EXPECT_EQ(table.At(tuning, 0, 2, 64 * KiB).channels, 1);
  EXPECT_EQ(table.At(tuning, 0, 1, GiB).config.protocol, ring::Protocol::inlined);
}

TEST(MessageTable, RefusesWhatIsNoTable) {
  const auto tuning = Conditions(PairsMachine());
  for (const char* const text : {
           R"({})",
           R"({"rows": [], "row_of_pair": []})",
           R"({"rows": [{"entries": []}], "row_of_pair": []})",
           R"({"rows": [{"entries": [{"from_bytes": 1, "channels": 1}]}], "row_of_pair": []})",
           R"({"rows": [{"entries": [{"from_bytes": 0, "channels": 33}]}], "row_of_pair": []})",
           R"({"rows": [{"entries": [{"from_bytes": 0, "channels": 1}]}], "row_of_pair": [1]})",
           R"({"rows": [{"entries": [{"from_bytes": 0, "channels": 1}]}], "row_of_pair": [0, 0]})",
           // Of one rank, and of five.
           R"({"rows": [{"entries": [{"from_bytes": 0, "channels": 1}]}], "row_of_pair": [0]})",
           R"({"rows": [{"entries": [{"from_bytes": 0, "channels": 1}]}], "row_of_pair": [0, 0,
               0, 0, 0, 0, 0, 0, 0, 0,
               0, 0, 0, 0, 0, 0, 0, 0,
               0, 0, 0, 0, 0, 0, 0]})",
       }) {
    EXPECT_THROW(MessageTable::FromJson(text, "test", tuning), Error) << text;
  }
}

}  // namespace
}  // namespace tutti::tuner
