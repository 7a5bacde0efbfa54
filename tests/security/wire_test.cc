// An eavesdropper's view of the wire: here, loopback in the test's own network namespace.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "testing/own_network.h"
#include "testing/ranks.h"

namespace tutti::testing {
namespace {

// Records the traffic of a namespace with only loopback.
class QuietNetwork {
 public:
  QuietNetwork() {
    if (!network_.why_not().empty()) return;
    recorder_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
    const int room = 256 << 20;
    ready_ = recorder_ >= 0 && setsockopt(recorder_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) == 0 &&
             LostPackets().has_value();
  }
  ~QuietNetwork() {
    if (recorder_ >= 0) close(recorder_);
  }
  bool ready() const { return ready_; }

  // The bytes of all packets so far, concatenated.
  std::string Recorded() const {
    std::string all;
    std::string packet(1 << 17, '\0');
    for (;;) {
      const auto got = recv(recorder_, packet.data(), packet.size(), 0);
      if (got <= 0) break;
      all.append(packet.data(), static_cast<std::size_t>(got));
    }
    EXPECT_EQ(LostPackets(), 0U);
    return all;
  }

 private:
  // Nothing if this system does not count them (an emulator).
  std::optional<unsigned> LostPackets() const {
    tpacket_stats counted{};
    socklen_t size = sizeof counted;
    if (getsockopt(recorder_, SOL_PACKET, PACKET_STATISTICS, &counted, &size) != 0) return std::nullopt;
    return counted.tp_drops;
  }

  const OwnNetwork network_;
  int recorder_ = -1;
  bool ready_ = false;
};

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

// The secret inside a unique id, by its layout (src/bootstrap/unique_id.h).
std::string SecretOf(const tuttiUniqueId& id) { return {id.internal + 26, 32}; }

constexpr std::string_view kPrivate = "nobody's business but the ranks'";

TEST(Protocol, SecretsOfChildCommunicatorsAndEncryptedDataAreHidden) {
  const QuietNetwork network;
  if (!network.ready())
    GTEST_SKIP()
        << "it takes root, and a system that counts lost packets, to make a network namespace and to record there";
  static constexpr int kOld = 3, kNew = 4;
  const auto outcomes =
      RunRanks(kNew,
               [](Rank& self) {
                 Comm comm, part, copy, more;
                 const auto first = self.IdOf(0), growth = self.IdOf(1);
                 if (self.rank() == 0) {
                   self.Note(Hex(SecretOf(first)));
                   self.Note(Hex(SecretOf(growth)));
                 }
                 if (self.rank() < kOld) {
                   ASSERT_TRUE(Ok(tuttiCommInitRank(comm.address(), kOld, first, self.rank())));
                   ASSERT_TRUE(Ok(tuttiCommSplit(comm, 0, 0, part.address(), nullptr)));
                   ASSERT_TRUE(Ok(tuttiCommShrink(comm, nullptr, 0, copy.address(), nullptr, TUTTI_SHRINK_DEFAULT)));
                   ASSERT_TRUE(Ok(tuttiCommGrow(comm, kNew, &growth, -1, more.address(), nullptr)));
                 } else {
                   ASSERT_TRUE(Ok(tuttiCommGrow(nullptr, kNew, &growth, self.rank(), more.address(), nullptr)));
                 }
                 for (const std::size_t repeats : {1, 3000}) {
                   std::string text;
                   for (std::size_t i = 0; i < repeats; ++i) text += kPrivate;
                   ASSERT_TRUE(Ok(tuttiBroadcast(text.data(), text.data(), text.size(), tuttiUint8, 0, more, nullptr)));
                 }
               },
               {.environment = {{"TUTTI_SOCKET_IFNAME", "=lo"},
                                {"TUTTI_VIRTUAL_HOSTS", "2"},
                                {"TUTTI_NET", "tcp"},
                                {"TUTTI_DATA_PROTECTION", "encrypt"}}});
  const auto seen = network.Recorded();
  ASSERT_NE(seen.find("tuttiHS"), std::string::npos) << "the recorder saw no handshake";
  EXPECT_EQ(seen.find("tuttiID"), std::string::npos) << "a unique id crossed the wire in clear";
  EXPECT_EQ(seen.find(kPrivate), std::string::npos) << "data crossed the wire in clear";
  ASSERT_EQ(outcomes[0].notes.size(), 2U);
  const auto seen_hex = Hex(seen);
  for (const auto& secret : outcomes[0].notes) EXPECT_EQ(seen_hex.find(secret), std::string::npos);
}

}  // namespace
}  // namespace tutti::testing
