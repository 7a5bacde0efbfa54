// The same mathematics on a CUDA device: one thread per index, matrices by cuBLAS.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "model_math.h"
#include "tutti/parallel/error.h"

namespace train_lm {
namespace {

using tutti::parallel::ElementwiseCompute;
using tutti::parallel::Error;
using tutti::parallel::Transposed;

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw Error(tuttiUnhandledCudaError, std::string(what) + ": " + cudaGetErrorString(result));
}
void Check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(tuttiUnhandledCudaError, std::string(what) + ": " + cublasGetStatusString(status));
}

template <typename Function>
__global__ void ForEach(std::size_t count, Function function) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) function(i);
}

class CudaCompute final : public ElementwiseCompute<CudaCompute> {
 public:
  explicit CudaCompute(int device) {
    int devices = 0;
    Check(cudaGetDeviceCount(&devices), "cannot list the CUDA devices");
    Check(cudaSetDevice(device % devices), "choosing a CUDA device");
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    Check(cudaStreamCreateWithFlags(&communication_, cudaStreamNonBlocking), "making a stream");
    Check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
    Check(cublasCreate(&cublas_), "starting cuBLAS");
    Check(cublasSetStream(cublas_, stream_), "giving cuBLAS a stream");
  }
  ~CudaCompute() override {
    cublasDestroy(cublas_);
    cudaEventDestroy(event_);
    cudaStreamDestroy(communication_);
    cudaStreamDestroy(stream_);
  }
  CudaCompute(const CudaCompute&) = delete;
  CudaCompute& operator=(const CudaCompute&) = delete;

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    // In stream order, so freed memory is reused without waiting for the device.
    if (bytes > 0) Check(cudaMallocAsync(&memory, bytes, stream_), "allocating device memory");
    return memory;
  }
  void release(void* memory) noexcept override { cudaFreeAsync(memory, stream_); }

  tuttiStream_t stream() override { return stream_; }
  tuttiStream_t communication_stream() override { return communication_; }
  void fork_communication() override { Order(stream_, communication_); }
  void join_communication() override { Order(communication_, stream_); }

  void upload(const void* from, const Tensor& to) override {
    Check(cudaMemcpyAsync(to.data, from, to.bytes(), cudaMemcpyHostToDevice, stream_), "copying to the device");
    Check(cudaStreamSynchronize(stream_), "copying to the device");
  }
  void download(const Tensor& from, void* to) override {
    Check(cudaMemcpyAsync(to, from.data, from.bytes(), cudaMemcpyDeviceToHost, stream_), "copying from the device");
    Check(cudaStreamSynchronize(stream_), "copying from the device");
  }
  void zero(const Tensor& tensor) override {
    Check(cudaMemsetAsync(tensor.data, 0, tensor.bytes(), stream_), "zeroing device memory");
  }

  // cuBLAS is column-major: there a row-major c = op(a) op(b) is c^T = op(b)^T op(a)^T.
  void matmul(Transposed transpose_a, const Tensor& a, Transposed transpose_b, const Tensor& b, const Tensor& c,
              bool accumulate) override {
    const auto order = [](Transposed transposed) { return transposed == Transposed::yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const auto integer = [](std::size_t value) { return static_cast<int>(value); };
    const std::size_t k = transpose_a == Transposed::yes ? a.rows() : a.columns();
    const float one = 1, before = accumulate ? 1 : 0;
    if (c.count() == 0) return;
    Check(cublasSgemm(cublas_, order(transpose_b), order(transpose_a), integer(c.columns()), integer(c.rows()),
                      integer(k), &one, b.floats(), integer(b.columns()), a.floats(), integer(a.columns()), &before,
                      c.floats(), integer(c.columns())),
          "multiplying matrices");
  }

  template <typename Function>
  void for_each(std::size_t count, Function function) {
    constexpr std::size_t kThreads = 128, kMostBlocks = 4096;
    if (count == 0) return;
    const auto blocks = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
    ForEach<<<blocks, kThreads, 0, stream_>>>(count, function);
    Check(cudaGetLastError(), "starting a kernel");
  }

 private:
  void Order(cudaStream_t first, cudaStream_t then) {
    Check(cudaEventRecord(event_, first), "recording an event");
    Check(cudaStreamWaitEvent(then, event_), "waiting for an event");
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t communication_ = nullptr;
  cudaEvent_t event_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
};

}  // namespace

std::unique_ptr<Math> make_math(int device) { return std::make_unique<ElementwiseMath<CudaCompute>>(device); }

}  // namespace train_lm
