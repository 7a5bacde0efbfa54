// A pipeline on memory of a GPU: a real one, or the fake one.
#include "parallel/pipeline/pipeline_toy.h"
#include "testing/gpu.h"
#include "testing/ranks.h"

namespace tutti::parallel {
namespace {

using toy::ExpectGradientsOfUnsplit;
using toy::PipelineOf;
using toy::Stage;
using toy::Values;
using tutti::testing::Gpu;
using tutti::testing::Ok;
using tutti::testing::Rank;
using tutti::testing::RunRanks;

// The same computation on the host, between copies from and to the GPU.
class DeviceStage : public PipelineStep {
 public:
  DeviceStage(int stage, const Gpu& gpu, tuttiStream_t stream) : stage_(stage), gpu_(gpu), stream_(stream) {}
  const Stage& stage() const { return stage_; }

  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    Staged x(gpu_, input), y(gpu_, output);
    Fetch({&x});
    stage_.forward(microbatch, x.host(), y.host());
    y.Put();
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    Staged x(gpu_, input), grad_y(gpu_, grad_output), grad_x(gpu_, grad_input);
    Fetch({&x, &grad_y});
    stage_.backward(microbatch, x.host(), grad_y.host(), grad_x.host());
    grad_x.Put();
  }

 private:
  class Staged {
   public:
    Staged(const Gpu& gpu, const Tensor* device) : gpu_(gpu), device_(device) {
      if (device == nullptr) return;
      values_.resize(device->count());
      host_ = Tensor(values_.data(), device->shape);
    }
    const Tensor* host() const { return device_ != nullptr ? &host_ : nullptr; }
    void Get() {
      if (device_ != nullptr) gpu_.Get(values_.data(), static_cast<const std::byte*>(device_->data), device_->bytes());
    }
    void Put() const {
      if (device_ != nullptr) gpu_.Put(static_cast<std::byte*>(device_->data), values_.data(), device_->bytes());
    }

   private:
    const Gpu& gpu_;
    const Tensor* device_;
    Values values_;
    Tensor host_;
  };

  void Fetch(std::initializer_list<Staged*> tensors) const {
    EXPECT_TRUE(Ok(gpu_.Synchronize(stream_)));
    for (auto* tensor : tensors) tensor->Get();
  }

  Stage stage_;
  const Gpu& gpu_;
  tuttiStream_t stream_;
};

TEST(PipelineDevice, GradientsAreTheUnsplitModels) {
  const auto outcome = RunRanks(1, [](Rank& self) { self.Note(Gpu::Exists() ? "there" : "none"); });
  if (outcome.front().notes != std::vector<std::string>{"there"}) {
    GTEST_SKIP() << "there is neither a GPU nor the fake one";
  }
  RunRanks(3, [](Rank& self) {
    const Gpu gpu(self.rank());
    const auto stream = gpu.NewStream();
    {
      const auto comm = self.Join();
      int device = TUTTI_DEVICE_NONE;
      EXPECT_TRUE(Ok(tuttiCommCuDevice(comm, &device)));
      EXPECT_EQ(device, gpu.ordinal());
      ProcessGroup group(comm);
      auto pipeline = PipelineOf(group);
      for (const int microbatches : {2, 6}) {
        DeviceStage step(self.rank(), gpu, stream);
        pipeline.run(one_forward_one_backward(3, microbatches), step, stream);
        EXPECT_TRUE(Ok(gpu.Synchronize(stream)));
        ExpectGradientsOfUnsplit(step.stage(), self.rank(), 3, microbatches);
      }
      self.Meet();
    }
    gpu.DestroyStream(stream);
  });
}

}  // namespace
}  // namespace tutti::parallel
