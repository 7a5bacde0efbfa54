#include "tutti/parallel/host_compute.h"

#include <cstring>
#include <new>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

// As tuttiMemAlloc aligns memory on the host, so that both are alike to SIMD.
constexpr std::size_t kAlignment = 64;

// For applications that bring none: right, and slow.
void PlainMatmul(Transposed a_transposed, Transposed b_transposed, std::size_t m, std::size_t n, std::size_t k,
                 const float* a, const float* b, float* c, bool accumulate) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        const float left = a_transposed == Transposed::yes ? a[l * m + i] : a[i * k + l];
        const float right = b_transposed == Transposed::yes ? b[j * k + l] : b[l * n + j];
        sum += left * right;
      }
      c[i * n + j] = accumulate ? c[i * n + j] + sum : sum;
    }
  }
}

}  // namespace

HostCompute::HostCompute() : HostCompute(PlainMatmul) {}

HostCompute::~HostCompute() {
  if (communication_stream_ != nullptr) tuttiStreamDestroy(communication_stream_);
}

void* HostCompute::allocate(std::size_t bytes) {
  return ::operator new (std::max(bytes, kAlignment), std::align_val_t{kAlignment});
}

void HostCompute::release(void* memory) noexcept { ::operator delete (memory, std::align_val_t{kAlignment}); }

tuttiStream_t HostCompute::communication_stream() {
  if (communication_stream_ == nullptr) check(tuttiStreamCreate(&communication_stream_));
  return communication_stream_;
}

void HostCompute::join_communication() {
  if (communication_stream_ != nullptr) check(tuttiStreamSynchronize(communication_stream_));
}

void HostCompute::zero(const Tensor& tensor) {
  if (tensor.count() > 0) std::memset(tensor.data, 0, tensor.bytes());
}

void HostCompute::matmul(Transposed transpose_a, const Tensor& a, Transposed transpose_b, const Tensor& b,
                         const Tensor& c, bool accumulate) {
  const std::size_t k = transpose_a == Transposed::yes ? a.rows() : a.columns();
  matmul_(transpose_a, transpose_b, c.rows(), c.columns(), k, a.floats(), b.floats(), c.floats(), accumulate);
}

void HostCompute::upload(const void* from, const Tensor& to) {
  if (to.count() > 0) std::memcpy(to.data, from, to.bytes());
}

void HostCompute::download(const Tensor& from, void* to) {
  if (from.count() > 0) std::memcpy(to, from.data, from.bytes());
}

}  // namespace tutti::parallel
