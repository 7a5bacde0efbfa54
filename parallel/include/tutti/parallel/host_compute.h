// Compute on the host, float32, in the caller's thread.
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <utility>

#include "tutti/parallel/elementwise_compute.h"

namespace tutti::parallel {

class TUTTI_API HostCompute : public ElementwiseCompute<HostCompute> {
 public:
  // c (m x n) = op(a) (m x k) op(b) (k x n) [+ c], row-major and dense, as in cblas_sgemm.
  using Matmul = std::function<void(Transposed a_transposed, Transposed b_transposed, std::size_t m, std::size_t n,
                                    std::size_t k, const float* a, const float* b, float* c, bool accumulate)>;

  // Multiplies by a plain loop.
  HostCompute();
  explicit HostCompute(Matmul matmul) : matmul_(std::move(matmul)) {}
  ~HostCompute() override;
  HostCompute(const HostCompute&) = delete;
  HostCompute& operator=(const HostCompute&) = delete;

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  tuttiStream_t communication_stream() override;
  void fork_communication() override {}  // results are there already
  void join_communication() override;
  void upload(const void* from, const Tensor& to) override;
  void download(const Tensor& from, void* to) override;
  void zero(const Tensor& tensor) override;
  void matmul(Transposed transpose_a, const Tensor& a, Transposed transpose_b, const Tensor& b, const Tensor& c,
              bool accumulate) override;

  template <typename Function>
  void for_each(std::size_t count, Function function) {
    for (std::size_t i = 0; i < count; ++i) function(i);
  }

 private:
  Matmul matmul_;
  tuttiStream_t communication_stream_ = nullptr;  // made when it is first asked for
};

}  // namespace tutti::parallel
