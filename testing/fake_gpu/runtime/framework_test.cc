// What PyTorch asks of the runtime beyond what nccl-tests do.
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "testing/fake_gpu/runtime/refusals.h"
#include "testing/fake_gpu/runtime/runtime_fixture.h"

namespace tutti::fake_gpu {
namespace {

class Framework : public Runtime {
 protected:
  void SetUp() override { ASSERT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess); }
  void TearDown() override {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    cudaGetLastError();
  }

  cudaStream_t stream_ = nullptr;
};

TEST_F(Framework, AFunctionThatIsNotThereSaysItsName) {
  EXPECT_EQ(cudaProfilerStart(), cudaErrorNotSupported);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorNotSupported);
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorNotSupported)).find("cudaProfilerStart"), std::string::npos);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
  std::thread([] {
    EXPECT_EQ(std::string(cudaGetErrorString(cudaErrorNotSupported)), "not supported");  // refused nothing here
  }).join();
}

TEST_F(Framework, AKernelThatIsNotThereSaysItsName) {
  static const char host = 0;
  RegisterKernel(&host, "_ZN2at6native12other_kernelIfEEvPT_");
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = dim3(1);
  config.stream = stream_;
  const std::vector<cudaError_t> answers{
      cudaLaunchKernel(&host, dim3(1), dim3(1), nullptr, 0, stream_),
      cudaLaunchCooperativeKernel(&host, dim3(1), dim3(1), nullptr, 0, stream_),
      cudaLaunchKernelExC(&config, &host, nullptr),
  };
  for (const auto answer : answers) EXPECT_EQ(answer, cudaErrorInvalidDeviceFunction);
  const std::string text = cudaGetErrorString(cudaErrorInvalidDeviceFunction);
  EXPECT_NE(text.find("at::native::other_kernel<float>"), std::string::npos) << text;
  cudaFuncAttributes attributes{};
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, &host), cudaErrorInvalidDeviceFunction);
}

TEST_F(Framework, CallbacksRunInStreamOrder) {
  static std::atomic<int> order;
  order = 0;
  struct Seen {
    cudaStream_t stream = nullptr;
    int function = 0;
    int callback = 0;
  } seen;
  ASSERT_EQ(cudaLaunchHostFunc(
                stream_, [](void* to) { static_cast<Seen*>(to)->function = ++order; }, &seen),
            cudaSuccess);
  ASSERT_EQ(cudaStreamAddCallback(
                stream_,
                [](cudaStream_t stream, cudaError_t /*state*/, void* to) {
                  static_cast<Seen*>(to)->stream = stream;
                  static_cast<Seen*>(to)->callback = ++order;
                },
                &seen, 0),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(seen.function, 1);
  EXPECT_EQ(seen.callback, 2);
  EXPECT_EQ(seen.stream, stream_);
}

TEST_F(Framework, MemoryOfEveryKindIsCopied) {
  constexpr std::size_t kRow = 4;
  constexpr std::size_t kPitch = 8;
  constexpr std::size_t kRows = 3;
  std::array<char, kRow * kRows> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<char>(i);
  void* device = nullptr;
  void* pinned = nullptr;
  void* managed = nullptr;
  ASSERT_EQ(cudaMallocAsync(&device, kPitch * kRows, stream_), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, kPitch * kRows), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, kPitch * kRows, cudaMemAttachGlobal), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2DAsync(device, kPitch, values.data(), kRow, kRow, kRows, cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeerAsync(managed, 0, device, 0, kPitch * kRows, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(pinned, managed, kPitch * kRows, cudaMemcpyDefault, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  for (std::size_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(std::memcmp(static_cast<char*>(pinned) + row * kPitch, values.data() + row * kRow, kRow), 0) << row;
  }
  EXPECT_EQ(cudaMemcpy2DAsync(device, kRow - 1, values.data(), kRow, kRow, kRows, cudaMemcpyHostToDevice, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(device, stream_), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
}

TEST_F(Framework, CapturesAreDescribed) {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  EXPECT_EQ(cudaStreamGetCaptureInfo(stream_, &status, &id, nullptr, nullptr, nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamGetCaptureInfo(stream_, &status, &id, &graph, nullptr, nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_GT(id, 0U);
  EXPECT_EQ(cudaStreamAddCallback(
                stream_, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0),
            cudaErrorStreamCaptureUnsupported);
  cudaGraph_t ended = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &ended), cudaSuccess);
  EXPECT_EQ(ended, graph);
  EXPECT_EQ(cudaGraphDestroy(ended), cudaSuccess);
}

TEST_F(Framework, TheDriversFunctionsAreFoundByName) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuInit", &function, 12000, cudaEnableDefault, &found), cudaSuccess);
  EXPECT_EQ(found, cudaDriverEntryPointSuccess);
  EXPECT_NE(function, nullptr);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, cudaEnableDefault, &found), cudaSuccess);
  EXPECT_EQ(found, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace tutti::fake_gpu
