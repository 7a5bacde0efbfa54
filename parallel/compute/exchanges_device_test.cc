// Exchanges at the borders of tensor-, sequence- and context-parallel regions, in memory of a GPU or of the fake one:
// the library reads and writes columns and heads where they lie, so that nothing is packed.
#include <vector>

#include "testing/gpu.h"
#include "testing/ranks.h"
#include "tutti/parallel/host_compute.h"
#include "tutti/parallel/mappings.h"
#include "tutti/parallel/ulysses.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Gpu;
using tutti::testing::Ok;
using tutti::testing::Rank;
using tutti::testing::RunRanks;

constexpr int kRanks = 3;
constexpr std::size_t kSize = kRanks;

// Belongs to a stream of the GPU, and has nothing to compute.
class StreamAlone : public HostCompute {
 public:
  explicit StreamAlone(tuttiStream_t stream) : stream_(stream) {}
  tuttiStream_t stream() override { return stream_; }
  void* allocate(std::size_t bytes) override {
    ADD_FAILURE() << "a buffer of " << bytes << " bytes";
    return HostCompute::allocate(bytes);
  }
  void copy_columns(const Tensor&, std::size_t, const Tensor&, std::size_t, std::size_t) override {
    ADD_FAILURE() << "a copy";
  }

 private:
  tuttiStream_t stream_;
};

// A tensor of floats on the GPU.
class OnGpu {
 public:
  OnGpu(const Gpu& gpu, Shape shape)
      : gpu_(gpu), tensor_(nullptr, std::move(shape), tuttiFloat32), values_(tensor_.count(), -1) {
    tensor_.data = gpu.Allocate(tensor_.bytes());
    Put();
  }
  ~OnGpu() { gpu_.Free(memory()); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  const Tensor& tensor() const { return tensor_; }
  void Put(const std::vector<float>& values) {
    values_ = values;
    Put();
  }
  const std::vector<float>& Get() {
    gpu_.Get(values_.data(), memory(), tensor_.bytes());
    return values_;
  }

 private:
  std::byte* memory() const { return static_cast<std::byte*>(tensor_.data); }
  void Put() const { gpu_.Put(memory(), values_.data(), tensor_.bytes()); }

  const Gpu& gpu_;
  Tensor tensor_;
  std::vector<float> values_;
};

struct OneRank {
  Rank& self;
  const Gpu& gpu;
  ProcessGroup& group;
  StreamAlone& compute;

  std::size_t rank() const { return static_cast<std::size_t>(self.rank()); }
  void Settle() const { EXPECT_TRUE(Ok(gpu.Synchronize(compute.stream()))); }
};

// Runs `body` on every rank, with a GPU each.
void RunOnGpus(const std::function<void(const OneRank&)>& body) {
  const auto outcome = RunRanks(1, [](Rank& self) { self.Note(Gpu::Exists() ? "there" : "none"); });
  if (outcome.front().notes != std::vector<std::string>{"there"}) {
    GTEST_SKIP() << "there is neither a GPU nor the fake one";
  }
  RunRanks(kRanks, [&](Rank& self) {
    const Gpu gpu(self.rank());
    const auto stream = gpu.NewStream();
    {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      StreamAlone compute(stream);
      body({self, gpu, group, compute});
      self.Meet();
    }
    gpu.DestroyStream(stream);
  });
}

// Element `feature` of `head` of a sample at a position of the whole sequence.
float At(std::size_t position, std::size_t sample, std::size_t head, std::size_t feature) {
  return static_cast<float>(((position * 10 + sample) * 10 + head) * 10 + feature);
}

TEST(ExchangesDevice, HeadsAndPositionsAreNotCopied) {
  RunOnGpus([](const OneRank& each) {
    constexpr std::size_t kPositions = 2, kBatch = 2, kHeads = 2, kFeatures = 5;  // positions and heads of a rank
    const Shape part{kPositions, kBatch, kHeads * kSize, kFeatures},
        whole{kPositions * kSize, kBatch, kHeads, kFeatures};
    const auto filled = [](const Shape& shape, std::size_t first_position, std::size_t first_head) {
      std::vector<float> values;
      for (std::size_t p = 0; p < shape[0]; ++p) {
        for (std::size_t b = 0; b < shape[1]; ++b) {
          for (std::size_t h = 0; h < shape[2]; ++h) {
            for (std::size_t f = 0; f < shape[3]; ++f) values.push_back(At(first_position + p, b, first_head + h, f));
          }
        }
      }
      return values;
    };
    const auto own_positions = filled(part, each.rank() * kPositions, 0),
               own_heads = filled(whole, 0, each.rank() * kHeads);
    OnGpu split(each.gpu, part), joined(each.gpu, whole), back(each.gpu, part);
    split.Put(own_positions);
    scatter_heads_gather_sequence(each.group, each.compute, split.tensor(), joined.tensor());
    scatter_sequence_gather_heads(each.group, each.compute, joined.tensor(), back.tensor());
    each.Settle();
    EXPECT_EQ(joined.Get(), own_heads);
    EXPECT_EQ(back.Get(), own_positions);
  });
}

TEST(ExchangesDevice, ColumnsAreNotCopied) {
  RunOnGpus([](const OneRank& each) {
    constexpr std::size_t kRows = 7, kColumns = 3;
    OnGpu own(each.gpu, {kRows, kColumns}), all(each.gpu, {kRows, kColumns * kSize});
    std::vector<float> mine, expected;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t column = 0; column < kColumns; ++column) mine.push_back(At(row, each.rank(), column, 0));
      for (std::size_t column = 0; column < kColumns * kSize; ++column) {
        expected.push_back(At(row, column / kColumns, column % kColumns, 0));
      }
    }
    own.Put(mine);
    gather_last_dimension({each.group, each.compute}, own.tensor(), all.tensor());
    each.Settle();
    EXPECT_EQ(all.Get(), expected);
  });
}

}  // namespace
}  // namespace tutti::parallel
