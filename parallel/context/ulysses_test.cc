// Exchanges that a stream does in order, against those that are done when they return.
#include "tutti/parallel/ulysses.h"

#include "parallel/context/attention_testing.h"
#include "testing/ranks.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

// Like a processor with a stream: calls and releases take effect after the work that the stream has been given.
class Streamed final : public HostCompute {
 public:
  tuttiStream_t stream() override { return communication_stream(); }
  void copy_columns(const Tensor& from, std::size_t from_first, const Tensor& to, std::size_t to_first,
                    std::size_t columns) override {
    check(tuttiStreamSynchronize(stream()));
    HostCompute::copy_columns(from, from_first, to, to_first, columns);
  }
  void release(void* memory) noexcept override {
    tuttiStreamSynchronize(stream());
    HostCompute::release(memory);
  }
};

TEST(Ulysses, GivesTheSameBitsOnAStream) {
  for (const int size : {1, 2, 3}) {
    RunRanks(size, [](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      HostCompute host;
      Streamed streamed;
      const auto ranks = static_cast<std::size_t>(group.size());
      for (const auto dtype : {tuttiFloat32, tuttiBfloat16}) {
        const Shape part{4, 2, 2 * ranks, 3, 5}, whole{4 * ranks, 2, 2, 3, 5};
        Typed input(Values::Random(part, static_cast<unsigned>(self.rank())), dtype);
        Typed joined(Values(whole, 7), dtype), joined_on_stream = joined;
        scatter_heads_gather_sequence(group, host, input, joined);
        scatter_heads_gather_sequence(group, streamed, input, joined_on_stream);
        check(tuttiStreamSynchronize(streamed.stream()));
        EXPECT_EQ(joined_on_stream.values().values, joined.values().values);
        Typed back(Values(part, 7), dtype);
        scatter_sequence_gather_heads(group, streamed, joined_on_stream, back);
        check(tuttiStreamSynchronize(streamed.stream()));
        EXPECT_EQ(back.values().values, input.values().values);
      }
      self.Meet();
    });
  }
}

}  // namespace
}  // namespace tutti::parallel
