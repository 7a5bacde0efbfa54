#include "interop/torch/csrc/lifeline.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <chrono>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

namespace tutti::pytorch {
namespace {

class MapBoard : public Board {
 public:
  void Write(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  std::string Claim(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    return values_.emplace(key, value).first->second;
  }
  bool Has(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.contains(key);
  }
  std::string Read(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.at(key);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

Process On(const std::string& system) {
  Process process;
  process.system = system;
  return process;
}

const std::vector<Process> kTwoHosts = {On("a"), On("b")};

class LifelineTest : public ::testing::Test {
 protected:
  LifelineTest() {
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    watched_ = std::make_unique<Lifeline>("g/", 0, kTwoHosts, "0123456789abcdef", board_);
    watcher_ = std::make_unique<Lifeline>("g/", 1, kTwoHosts, "fedcba9876543210", board_);
  }
  ~LifelineTest() override { unsetenv("MASTER_ADDR"); }

  void Tend(int times = 20) {
    for (int i = 0; i < times; ++i) {
      for (auto* each : {watched_.get(), watcher_.get()}) {
        if (each != nullptr) each->Tend();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  bool SeenToEnd() {
    for (int i = 0; i < 500 && !HasBeenSeenToEnd("g/", 0, *board_); ++i) Tend(1);
    return HasBeenSeenToEnd("g/", 0, *board_);
  }
  // Calls the watched rank and says `text`.
  Descriptor Call(const std::string& text) {
    std::istringstream line(board_->Read("g/line/0"));
    std::string host;
    int port = 0;
    line >> host >> port;
    Descriptor caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to{AF_INET, htons(static_cast<std::uint16_t>(port)), {htonl(INADDR_LOOPBACK)}, {}};
    EXPECT_EQ(connect(caller.number(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    EXPECT_EQ(send(caller.number(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    return caller;
  }

  std::shared_ptr<MapBoard> board_ = std::make_shared<MapBoard>();
  std::unique_ptr<Lifeline> watched_, watcher_;
};

TEST_F(LifelineTest, AnEndIsSeen) {
  Tend();
  EXPECT_FALSE(HasBeenSeenToEnd("g/", 0, *board_));
  watched_.reset();
  EXPECT_TRUE(SeenToEnd());
}

// They come before the watcher, stay, and say nothing or something wrong.
TEST_F(LifelineTest, StrangersTakeNobodysPlace) {
  constexpr int kStrangers = 50;
  std::vector<Descriptor> strangers;
  for (int i = 0; i < kStrangers; ++i) {
    strangers.push_back(Call(i % 2 == 0 ? "" : "wrong"));
    watched_->Tend();
  }
  Tend();
  EXPECT_FALSE(HasBeenSeenToEnd("g/", 0, *board_));
  watched_.reset();
  EXPECT_TRUE(SeenToEnd());
}

// A connection that closes before it has given the word tells nothing about the rank.
TEST_F(LifelineTest, AWatcherThatIsPushedOutComesAgain) {
  watched_.reset();
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
  socklen_t size = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  ASSERT_EQ(bind(listener.number(), address, size), 0);
  ASSERT_EQ(listen(listener.number(), 1), 0);
  ASSERT_EQ(getsockname(listener.number(), address, &size), 0);
  board_->Write("g/line/0", "127.0.0.1 " + std::to_string(ntohs(at.sin_port)) + " 0123456789abcdef");
  watcher_->Tend();
  { const Descriptor pushed_out(accept(listener.number(), nullptr, nullptr)); }
  Tend();
  EXPECT_FALSE(HasBeenSeenToEnd("g/", 0, *board_));
  {
    const Descriptor answered(accept(listener.number(), nullptr, nullptr));
    char question[8];
    ASSERT_EQ(recv(answered.number(), question, sizeof question, MSG_WAITALL), 8);
    EXPECT_EQ(std::string(question, sizeof question), "01234567");
    ASSERT_EQ(send(answered.number(), "89abcdef", 8, MSG_NOSIGNAL), 8);
  }
  EXPECT_TRUE(SeenToEnd());
}

}  // namespace
}  // namespace tutti::pytorch
