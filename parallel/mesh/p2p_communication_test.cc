#include "tutti/parallel/p2p_communication.h"

#include "parallel/testing.h"
#include "testing/ranks.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

// A number as a tensor.
struct Number {
  float value;
  Tensor tensor{&value, {1}};

  explicit Number(float value = -1) : value(value) {}
  Number(const Number&) = delete;
};

// Each function moves what its name says, between stages that each call its counterpart.
TEST(P2PCommunicator, NamesOfMegatron) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    P2PCommunicator p2p(group);
    const auto stage = static_cast<float>(self.rank());
    const bool is_first = self.rank() == 0, is_last = self.rank() == 2;
    const Number output(10 + stage), grad_input(20 + stage);
    Number input, grad_output;

    p2p.recv_forward(input.tensor);
    p2p.send_forward(output.tensor);
    EXPECT_EQ(input.value, is_first ? -1 : 10 + stage - 1);
    p2p.recv_backward(grad_output.tensor);
    p2p.send_backward(grad_input.tensor);
    EXPECT_EQ(grad_output.value, is_last ? -1 : 20 + stage + 1);

    Number again, from_next;
    p2p.send_forward_recv_forward(output.tensor, again.tensor);
    EXPECT_EQ(again.value, input.value);
    p2p.send_backward_recv_backward(grad_input.tensor, from_next.tensor);
    EXPECT_EQ(from_next.value, grad_output.value);

    Number crossed;
    if (self.rank() % 2 == 0) {
      p2p.send_forward_recv_backward(output.tensor, crossed.tensor);
      EXPECT_EQ(crossed.value, is_last ? -1 : 20 + stage + 1);
    } else {
      p2p.send_backward_recv_forward(grad_input.tensor, crossed.tensor);
      EXPECT_EQ(crossed.value, 10 + stage - 1);
    }
    self.Meet();
  });
}

// Neighbours that both send first, more than any buffer holds.
TEST(P2PCommunicator, CallsOfOneExchangeDoNotWaitForEachOther) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    P2PCommunicator p2p(group);
    constexpr std::size_t kCount = std::size_t{20} << 20;
    std::vector<float> mine(kCount, static_cast<float>(self.rank())), theirs(kCount, -1);
    const Tensor give(mine.data(), {kCount}), take(theirs.data(), {kCount});
    if (self.rank() == 0) p2p.send_forward_recv_backward(give, take);
    if (self.rank() == 1) p2p.send_backward_recv_forward(give, take);
    EXPECT_EQ(theirs.front(), 1 - self.rank());
    EXPECT_EQ(theirs.back(), 1 - self.rank());
    self.Meet();
  });
}

TEST(P2PCommunicator, AWrongArgumentLeavesNoGroupOpen) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    P2PCommunicator p2p(group);
    const Tensor nowhere(static_cast<float*>(nullptr), {1});
    const auto wrong = [&] { self.rank() == 0 ? p2p.send_forward(nowhere) : p2p.send_backward(nowhere); };
    EXPECT_TRUE(Throws(wrong, tuttiInvalidArgument, {"send"}));
    const Number output(7);
    Number input;
    if (self.rank() == 0) p2p.send_forward(output.tensor);
    if (self.rank() == 1) p2p.recv_forward(input.tensor);
    EXPECT_EQ(input.value, self.rank() == 0 ? -1 : 7);
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
