#include "bench/worker/control_socket.h"

#include <gtest/gtest.h>

#include <future>
#include <sstream>
#include <vector>

namespace tutti::bench {
namespace {

constexpr Milliseconds kPatience{5000};

// A name that leads nowhere on this host, so that the rank connects to the port, with this token.
std::string OverNetwork(const Listener& listener, const std::string& token) {
  std::istringstream words(listener.name());
  std::string name, host, port;
  words >> name >> host >> port;
  return "tutti-bench-nowhere 127.0.0.1 " + port + " " + token;
}

std::string TokenOf(const Listener& listener) { return listener.name().substr(listener.name().rfind(' ') + 1); }

TEST(ControlSocket, CarriesMessagesOverTheNetworkWhole) {
  Listener listener(Listener::Place::network);
  auto rank = ControlSocket::Connect(OverNetwork(listener, TokenOf(listener)));
  auto bench = listener.Accept(kPatience);
  ASSERT_TRUE(bench);
  const Json longest = std::string(1 << 20, 'x');  // longer than a socket's buffer
  auto sent = std::async(std::launch::async, [&] {
    rank.Send({{"rank", 1}});
    rank.Send(longest);
  });
  EXPECT_EQ(bench->Receive(), Json({{"rank", 1}}));
  EXPECT_EQ(bench->Receive(), longest);
  sent.get();
  bench.reset();
  EXPECT_FALSE(rank.Receive()) << "the bench has hung up";
}

TEST(ControlSocket, RefusesAStrangerWithoutTheToken) {
  Listener listener(Listener::Place::network);
  const auto stranger = ControlSocket::Connect(OverNetwork(listener, std::string(TokenOf(listener).size(), '0')));
  EXPECT_FALSE(listener.Accept(Milliseconds(200)));
  const auto rank = ControlSocket::Connect(listener.name());
  EXPECT_TRUE(listener.Accept(kPatience)) << "the next one, of this host, is accepted";
}

TEST(ControlSocket, SilentStrangersDelayNobody) {
  constexpr int kStrangers = 20;
  Listener listener(Listener::Place::network);
  std::vector<ControlSocket> strangers;
  for (int i = 0; i < kStrangers; ++i) strangers.push_back(ControlSocket::Connect(OverNetwork(listener, "")));
  const auto rank = ControlSocket::Connect(OverNetwork(listener, TokenOf(listener)));
  EXPECT_TRUE(listener.Accept(kPatience));
}

}  // namespace
}  // namespace tutti::bench
