// Two users of one machine: another user's process neither joins the job nor delays any rank.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "testing/own_network.h"
#include "testing/ranks.h"
#include "testing/sandbox.h"

namespace tutti::testing {
namespace {

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

// The environment of a two-rank loopback job without a secret.
void BeRank(int rank, int port) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
}

// An intruder that accepts peers of any user. The test does not check the result of its call.
tuttiResult_t JoinAsStranger(int rank, int port) {
  BecomeNobody();
  setenv("TUTTI_ALLOW_OTHER_USERS", "1", 1);
  setenv("TUTTI_INIT_TIMEOUT_MS", "3000", 1);
  BeRank(rank, port);
  tuttiComm_t comm = nullptr;
  const auto result = tuttiCommInitEnv(&comm, nullptr);
  if (comm != nullptr) tuttiCommAbort(comm);
  return result;
}

void ExpectTwo(const Comm& comm) {
  std::vector<float> data(10, 1);
  ASSERT_TRUE(Ok(AllReduce(comm, data)));
  EXPECT_EQ(data[0], 2);
}

class OtherUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!IsRoot()) GTEST_SKIP() << "only root can be two users";
  }
};

// Such a job's key is derived from its port, which every user can see.
TEST_F(OtherUsers, DoNotJoinALoopbackJobWithoutASecret) {
  const int port = FreePort();
  RunRanks(3, [port](Rank& self) {
    auto& tried = self.board().numbers[0];
    if (self.rank() == 2) {
      EXPECT_NE(JoinAsStranger(1, port), tuttiSuccess);
      tried.store(1);
      return;
    }
    // The real rank 1 comes only after the intruder has been alone with rank 0 for a while.
    while (self.rank() == 1 && tried.load() == 0) usleep(1000);
    BeRank(self.rank(), port);
    Comm comm;
    ASSERT_TRUE(Ok(tuttiCommInitEnv(comm.address(), nullptr)));
    ExpectTwo(comm);
  });
}

TEST_F(OtherUsers, DoNotServeARank) {
  const int port = FreePort();
  RunRanks(2, [port](Rank& self) {
    if (self.rank() == 0) {
      EXPECT_NE(JoinAsStranger(0, port), tuttiSuccess);
      return;
    }
    BeRank(1, port);
    setenv("TUTTI_INIT_TIMEOUT_MS", "2000", 1);
    tuttiComm_t comm = nullptr;
    const auto result = tuttiCommInitEnv(&comm, nullptr);
    EXPECT_NE(result, tuttiSuccess);
    EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("it belongs to user 65534"), std::string::npos)
        << tuttiGetLastError(nullptr);
  });
}

// A machine with more addresses than loopback's. Calls to 127.0.0.1 come from another address, as a process may choose;
// calls to 10.77.0.1 come from loopback or from the machine's third address.
const std::vector<std::string> kCallsFromElsewhere = {"addr add 10.77.0.1/24 dev lo", "addr add 10.77.0.2/24 dev lo",
                                                      "route change local 127.0.0.1 dev lo table local src 10.77.0.2",
                                                      "route change local 10.77.0.1 dev lo table local src 10.77.0.2"};

// The stranger claims to be on another host, so that no Unix socket tells its user.
class OtherUsersElsewhere : public OtherUsers, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    OtherUsers::SetUp();
    if (IsSkipped()) return;
    network_ = std::make_unique<OwnNetwork>(kCallsFromElsewhere);
    if (!network_->why_not().empty()) GTEST_SKIP() << network_->why_not();
  }

 private:
  std::unique_ptr<OwnNetwork> network_;
};

TEST_P(OtherUsersElsewhere, DoNotJoinByTheEnvironment) {
  RunOptions options;
  options.environment = {{"TUTTI_VIRTUAL_HOSTS", GetParam()}};
  const int port = FreePort();
  RunRanks(
      3,
      [port](Rank& self) {
        auto& tried = self.board().numbers[0];
        if (self.rank() == 2) {
          EXPECT_NE(JoinAsStranger(1, port), tuttiSuccess);
          tried.store(1);
          return;
        }
        while (self.rank() == 1 && tried.load() == 0) usleep(1000);
        BeRank(self.rank(), port);
        Comm comm;
        ASSERT_TRUE(Ok(tuttiCommInitEnv(comm.address(), nullptr)));
        ExpectTwo(comm);
      },
      options);
}

// Both users have the secret, and the ranks meet off loopback.
TEST_P(OtherUsersElsewhere, DoNotJoinByAnId) {
  RunOptions options;
  options.environment = {{"TUTTI_VIRTUAL_HOSTS", GetParam()}, {"TUTTI_INIT_TIMEOUT_MS", "2000"}};
  RunRanks(
      2,
      [](Rank& self) {
        const auto id = self.IdOf();
        if (self.rank() == 1) BecomeNobody();
        tuttiComm_t comm = nullptr;
        EXPECT_NE(tuttiCommInitRank(&comm, 2, id, self.rank()), tuttiSuccess);
      },
      options);
}

INSTANTIATE_TEST_SUITE_P(, OtherUsersElsewhere, ::testing::Values("1", "2"),
                         [](const auto& info) { return std::string("of_") + info.param; });

// An id is a secret, but both users have it: one passed it on to the other. It is still not enough.
TEST_F(OtherUsers, DoNotJoinWithTheSecretEither) {
  RunOptions options;
  options.environment = {{"TUTTI_INIT_TIMEOUT_MS", "2000"}};
  RunRanks(
      2,
      [](Rank& self) {
        const auto id = self.IdOf();
        if (self.rank() == 1) BecomeNobody();
        tuttiComm_t comm = nullptr;
        EXPECT_NE(tuttiCommInitRank(&comm, 2, id, self.rank()), tuttiSuccess);
      },
      options);
}

TEST_F(OtherUsers, JoinWhereTheyAreAllowed) {
  RunOptions options;
  options.environment = {{"TUTTI_ALLOW_OTHER_USERS", "1"}};
  RunRanks(
      2,
      [](Rank& self) {
        if (self.rank() == 1) BecomeNobody();
        const Comm comm = self.Join();
        ExpectTwo(comm);
      },
      options);
}

// The names, ports and limits of the two users' jobs do not collide.
TEST_F(OtherUsers, RunJobsOfTheirOwnAtTheSameTime) {
  const int ports[] = {FreePort(), FreePort()};
  RunRanks(4, [&](Rank& self) {
    const int job = self.rank() / 2;
    if (job == 1) BecomeOrdinaryUser();
    BeRank(self.rank() % 2, ports[job]);
    self.Meet();
    for (int turn = 0; turn < 5; ++turn) {
      Comm comm;
      ASSERT_TRUE(Ok(tuttiCommInitEnv(comm.address(), nullptr)));
      ExpectTwo(comm);
    }
  });
}

}  // namespace
}  // namespace tutti::testing
