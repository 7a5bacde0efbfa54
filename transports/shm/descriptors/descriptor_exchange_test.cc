#include "transports/shm/descriptors/descriptor_exchange.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>

#include "transports/shm/descriptors/descriptor_door.h"
#include "transports/shm/descriptors/unix_messages.h"
#include "transports/shm/fabric_testing.h"

namespace tutti::shm {
namespace {

std::vector<int> Each(int ranks) {
  std::vector<int> numbers(static_cast<std::size_t>(ranks));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Runs threads that pretend to be the processes `process_of`. Returns what each got, by rank.
std::vector<std::map<int, int>> Exchange(std::vector<int> host_of, std::vector<int> process_of) {
  const int ranks = static_cast<int>(host_of.size());
  std::vector<std::map<int, int>> got(host_of.size());
  const auto thrown = RunThreadRanks(ranks, [&](int rank, const AllGather& all_gather) {
    const Locality locality{rank, {host_of, host_of}, process_of};
    const auto file = FileOf(rank), second = FileOf(rank + 1000);
    const int mine[] = {file.get(), second.get()};
    ExchangeDescriptors(locality, mine, all_gather, Ample(), [&](int peer, std::vector<FileDescriptor> theirs) {
      ASSERT_EQ(theirs.size(), 2U);
      EXPECT_EQ(RankIn(theirs[1]), peer + 1000);
      EXPECT_TRUE(got[static_cast<std::size_t>(rank)].emplace(peer, RankIn(theirs[0])).second);
    });
  });
  EXPECT_EQ(thrown, std::vector<std::string>(host_of.size()));
  return got;
}

void ExpectOthers(const std::vector<int>& host_of, const std::vector<int>& process_of) {
  const auto got = Exchange(host_of, process_of);
  for (std::size_t r = 0; r < got.size(); ++r) {
    std::map<int, int> wanted;
    for (std::size_t p = 0; p < got.size(); ++p) {
      if (host_of[p] == host_of[r] && process_of[p] != process_of[r]) wanted[static_cast<int>(p)] = static_cast<int>(p);
    }
    EXPECT_EQ(got[r], wanted) << "rank " << r;
  }
}

TEST(DescriptorExchange, GivesEverybodyEverybodys) { ExpectOthers({0, 0, 0, 0, 0}, Each(5)); }
TEST(DescriptorExchange, TakesMoreThanOneRound) { ExpectOthers(std::vector<int>(70, 0), Each(70)); }
TEST(DescriptorExchange, StaysOnAHost) { ExpectOthers({0, 1, 0, 1, 2}, Each(5)); }
TEST(DescriptorExchange, LeavesOutRanksOfOneProcess) {
  ExpectOthers({0, 0, 0, 0, 0, 0}, {0, 1, 0, 1, 2, 0});
  ExpectOthers({0, 0, 1, 1}, {0, 0, 1, 2});
  ExpectOthers({0, 0, 0}, {0, 0, 0});
}

// The rank hands over what it has, and is gone: the others fail with a message about it, and none hangs.
TEST(DescriptorExchange, ARankThatLeavesIsMissed) {
  constexpr int kRanks = 4, kLeaves = 2;
  const auto thrown = RunThreadRanks(kRanks, [&](int rank, const AllGather& all_gather) {
    const Locality locality{rank, {{0, 0, 0, 0}, {0, 0, 0, 0}}, Each(kRanks)};
    const auto file = FileOf(rank);
    const int mine = file.get();
    ExchangeDescriptors(locality, std::span(&mine, 1), all_gather, Ample(), [&](int, std::vector<FileDescriptor>) {
      if (rank == kLeaves) Throw(tuttiSystemError, "no memory is left");
    });
  });
  for (const auto& text : thrown) EXPECT_NE(text, "");
}

// Strangers that have found the socket's name connect again and again, send nothing, and stay connected.
TEST(DescriptorDoor, AFloodOfConnectionsKeepsNobodyOut) {
  DescriptorDoor door({1, 2, 3});
  std::atomic<bool> end{false};
  std::vector<std::thread> flood;
  for (int t = 0; t < 2; ++t) {
    flood.emplace_back([&] {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      const auto name = fmt::format("tutti-{:02x}", fmt::join(door.invitation().name, ""));
      std::memcpy(address.sun_path + 1, name.data(), name.size());
      const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      std::vector<FileDescriptor> open;
      while (!end.load()) {
        FileDescriptor one(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        static_cast<void>(connect(one.get(), reinterpret_cast<const sockaddr*>(&address), length));
        open.push_back(std::move(one));
        if (open.size() > 200) open.clear();
      }
    });
  }
  for (const int rank : {1, 2, 3}) EXPECT_TRUE(Knock(door.invitation(), rank, 0, Ample())) << rank;
  end.store(true);
  for (auto& thread : flood) thread.join();
  EXPECT_EQ(door.Close().size(), 3U);
}

TEST(DescriptorDoor, WithoutTheTokenNobodyIsLetIn) {
  DescriptorDoor door({1});
  auto guessed = door.invitation();
  guessed.token[0] ^= 1;
  const auto soon = Deadline::After(std::chrono::milliseconds(50));
  EXPECT_THROW(Knock(guessed, 1, 0, soon), Error);
  EXPECT_THROW(Knock(door.invitation(), 2, 0, Deadline::After(std::chrono::milliseconds(50))), Error) << "not expected";
  EXPECT_TRUE(door.Close().empty());
}

TEST(DescriptorDoor, AClosedDoorIsNoHang) {
  Invitation invitation;
  {
    const DescriptorDoor door({1});
    invitation = door.invitation();
  }
  EXPECT_FALSE(Knock(invitation, 1, 0, Ample()));
}

TEST(UnixMessages, DescriptorsThatNobodyAskedForAreNotReceived) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor from(ends[0]), to(ends[1]);
  const std::uint32_t word = 7;
  const int fd = from.get();
  const auto body = std::as_bytes(std::span<const std::uint32_t, 1>(&word, 1));
  ASSERT_EQ(SendMessage(from.get(), body, std::span(&fd, 1), Ample()), 0);
  std::uint32_t got = 0;
  EXPECT_EQ(ReceiveMessage(to.get(), std::as_writable_bytes(std::span<std::uint32_t, 1>(&got, 1))),
            Received::malformed);
}

// Whoever holds a copy of the sending end can make it blocking, and its box full.
TEST(UnixMessages, APeerCannotMakeSendingBlock) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const FileDescriptor from(ends[0]), to(ends[1]);
  const std::uint32_t word = 7;
  while (write(from.get(), &word, sizeof word) == sizeof word) {
  }
  ASSERT_EQ(fcntl(from.get(), F_SETFL, 0), 0);
  const auto body = std::as_bytes(std::span<const std::uint32_t, 1>(&word, 1));
  EXPECT_EQ(SendMessage(from.get(), body, {}, Deadline::After(std::chrono::milliseconds(10))), EAGAIN);
}

}  // namespace
}  // namespace tutti::shm
