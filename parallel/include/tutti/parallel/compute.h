// What the layers need done to tensors between their collectives, and where: the application's processor. HostCompute
// does it on the host's, by plain loops and a matrix product that the application brings (OpenBLAS, ...); an
// application on a GPU brings kernels and cuBLAS.
//
// Everything happens in the order of calls, on stream(). Shapes are the caller's to check: the layers do. Matrices are
// tensors seen as rows() x columns().
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tutti/parallel/tensor.h"

namespace tutti::parallel {

enum class Transposed : bool { no, yes };

class Compute {
 public:
  virtual ~Compute() = default;

  // Memory for tensors of this processor; not initialised.
  virtual void* allocate(std::size_t bytes) = 0;
  // In the order of calls, as all else: what was called before may still use it.
  virtual void release(void* memory) noexcept = 0;

  // A CUDA stream, or null: the host, where every call below returns when it is done.
  virtual tuttiStream_t stream() { return nullptr; }
  // Another one, for collectives that overlap with computing. What is given to it after fork_communication() comes
  // after everything that was called before; what is called after join_communication() comes after everything that was
  // given to it. Join throws Error where one of those has failed.
  virtual tuttiStream_t communication_stream() = 0;
  virtual void fork_communication() = 0;
  virtual void join_communication() = 0;

  virtual void zero(const Tensor& tensor) = 0;
  virtual void scale(const Tensor& tensor, float factor) = 0;
  // to = from, or added to it; equally many elements. Each is float32 or bfloat16, to which is rounded to nearest, ties
  // to even. Throws Error for other types.
  virtual void copy(const Tensor& from, const Tensor& to, bool accumulate) = 0;
  // c = op(a) op(b), or that added to c.
  virtual void matmul(Transposed transpose_a, const Tensor& a, Transposed transpose_b, const Tensor& b, const Tensor& c,
                      bool accumulate) = 0;
  // Every row of y gets `bias` (columns of y) added.
  virtual void add_bias(const Tensor& y, const Tensor& bias) = 0;
  // The sum of all rows of y is added to `sums`.
  virtual void add_rows(const Tensor& y, const Tensor& sums) = 0;
  // Columns [from_first, from_first + columns) of `from` become columns [to_first, ...) of `to`; equally many rows.
  // Types as for copy.
  virtual void copy_columns(const Tensor& from, std::size_t from_first, const Tensor& to, std::size_t to_first,
                            std::size_t columns) = 0;

  // Rows of a table that holds rows [first, first + table.rows()) of a larger one, by ids (int32): others' are zeros.
  virtual void embed(const Tensor& ids, const Tensor& table, std::int32_t first, const Tensor& output) = 0;
  // Its gradient, added to the table's.
  virtual void embed_backward(const Tensor& ids, const Tensor& grad_output, std::int32_t first,
                              const Tensor& grad_table) = 0;

  // Of softmax and cross-entropy over a row of which this rank has columns [first, first + logits.columns()); `maxima`
  // and the others have an element a row.
  virtual void row_maxima(const Tensor& logits, const Tensor& maxima) = 0;
  // sums: of exp(logit - maximum). target_logits: logit - maximum of the target, 0 where another rank has it.
  virtual void exponential_sums(const Tensor& logits, const Tensor& maxima, const Tensor& targets, std::int32_t first,
                                const Tensor& sums, const Tensor& target_logits) = 0;
  // losses = log(sums) - target_logits.
  virtual void cross_entropy(const Tensor& sums, const Tensor& target_logits, const Tensor& losses) = 0;
  // grad_logits = (softmax - one at the target) * grad_losses of its row. In place: grad_logits is logits.
  virtual void cross_entropy_backward(const Tensor& logits, const Tensor& maxima, const Tensor& sums,
                                      const Tensor& targets, std::int32_t first, const Tensor& grad_losses,
                                      const Tensor& grad_logits) = 0;

  // From the host's memory, which is free again at the return, and to it, where it is at the return.
  virtual void upload(const void* from, const Tensor& to) = 0;
  virtual void download(const Tensor& from, void* to) = 0;

  // Of experts. `rows` (int32) [n, k] says which rows of `from` belong to row i of n; -1: none.
  // to's row i = the sum of weights[i, j] times from's row rows[i, j], added in the order of j; zeros if there are
  // none. Weights without data are ones.
  virtual void sum_rows(const Tensor& from, const Tensor& rows, const Tensor& weights, const Tensor& to) = 0;
  // dots[i, j] = x's row i times from's row rows[i, j]; 0 for none.
  virtual void dot_rows(const Tensor& x, const Tensor& from, const Tensor& rows, const Tensor& dots) = 0;
  // Of each row of logits: probabilities = softmax, indices (int32) [n, k] = where the k largest are, the largest first
  // and equal ones by index, weights [n, k] = the probabilities there, divided by their sum if `renormalize`.
  virtual void topk_softmax(const Tensor& logits, bool renormalize, const Tensor& probabilities, const Tensor& indices,
                            const Tensor& weights) = 0;
  // The gradient, where probabilities have one of their own, too: grad_columns, the same in every row.
  virtual void topk_softmax_backward(const Tensor& probabilities, const Tensor& indices, bool renormalize,
                                     const Tensor& grad_weights, const Tensor& grad_columns,
                                     const Tensor& grad_logits) = 0;
};

// A tensor of one's own.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Compute& compute, Shape shape, tuttiDataType_t dtype = tuttiFloat32);
  // Of memory that there is, which `release` is called with in the end.
  Buffer(Tensor tensor, std::function<void(void*)> release);

  const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }  // NOLINT: stands for the tensor in every call

 private:
  std::unique_ptr<void, std::function<void(void*)>> memory_;
  Tensor tensor_;
};
// Rows of so many numbers, from the host's memory.
Buffer uploaded(Compute& compute, const std::vector<std::int32_t>& numbers, std::size_t columns);

}  // namespace tutti::parallel
