// The computation on tensors that the layers need between their collectives, on the application's processor.
// HostCompute runs it on the host, by plain loops and a matrix product that the application brings (OpenBLAS, ...); an
// application on a GPU brings kernels and cuBLAS.
//
// Everything happens in the order of calls, on stream(). The callers, which are the layers, check shapes. Matrices are
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

class TUTTI_API Compute {
 public:
  virtual ~Compute() = default;

  // Memory for tensors of this processor; not initialised.
  virtual void* allocate(std::size_t bytes) = 0;
  // Takes effect in the order of calls, too: earlier calls may still use the memory.
  virtual void release(void* memory) noexcept = 0;

  // A CUDA stream, or null: the host, where every call below returns when it is done.
  virtual tuttiStream_t stream() { return nullptr; }
  // A second stream, for collectives that overlap with computing. Work given to it after fork_communication() runs
  // after all earlier calls; calls after join_communication() run after all work given to it. Join throws Error where
  // such work has failed.
  virtual tuttiStream_t communication_stream() = 0;
  virtual void fork_communication() = 0;
  virtual void join_communication() = 0;

  virtual void zero(const Tensor& tensor) = 0;
  virtual void scale(const Tensor& tensor, float factor) = 0;
  // to = from, or to += from; equally many elements. Each is float32 or bfloat16; rounding to the latter is to nearest,
  // ties to even. Throws Error for other types.
  virtual void copy(const Tensor& from, const Tensor& to, bool accumulate) = 0;
  // c = op(a) op(b), or c += op(a) op(b).
  virtual void matmul(Transposed transpose_a, const Tensor& a, Transposed transpose_b, const Tensor& b, const Tensor& c,
                      bool accumulate) = 0;
  // Adds `bias` (columns of y) to every row of y.
  virtual void add_bias(const Tensor& y, const Tensor& bias) = 0;
  // Adds the sum of all rows of y to `sums`.
  virtual void add_rows(const Tensor& y, const Tensor& sums) = 0;
  // Columns [from_first, from_first + columns) of `from` become columns [to_first, ...) of `to`; equally many rows.
  // Types as for copy.
  virtual void copy_columns(const Tensor& from, std::size_t from_first, const Tensor& to, std::size_t to_first,
                            std::size_t columns) = 0;

  // Rows, by ids (int32), of a table with rows [first, first + table.rows()) of a larger one; zeros for ids outside.
  virtual void embed(const Tensor& ids, const Tensor& table, std::int32_t first, const Tensor& output) = 0;
  // Adds its gradient to the table's.
  virtual void embed_backward(const Tensor& ids, const Tensor& grad_output, std::int32_t first,
                              const Tensor& grad_table) = 0;

  // The steps of softmax and cross-entropy over a row whose columns [first, first + logits.columns()) this rank has;
  // `maxima` and the others have an element a row.
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

  // Copy from the host's memory, which the caller may reuse at the return, and to it, complete at the return.
  virtual void upload(const void* from, const Tensor& to) = 0;
  virtual void download(const Tensor& from, void* to) = 0;

  // For experts. `rows` (int32) [n, k] says which rows of `from` belong to row i of n; -1: none. to's row i = the sum
  // of weights[i, j] times from's row rows[i, j], added in the order of j; zeros if there are none. Weights without
  // data are ones.
  virtual void sum_rows(const Tensor& from, const Tensor& rows, const Tensor& weights, const Tensor& to) = 0;
  // dots[i, j] = x's row i times from's row rows[i, j]; 0 for none.
  virtual void dot_rows(const Tensor& x, const Tensor& from, const Tensor& rows, const Tensor& dots) = 0;
  // For each row of logits: probabilities = softmax; indices (int32) [n, k] = where the k largest are, the largest
  // first and equal ones by index; weights [n, k] = the probabilities there, divided by their sum if `renormalize`.
  virtual void topk_softmax(const Tensor& logits, bool renormalize, const Tensor& probabilities, const Tensor& indices,
                            const Tensor& weights) = 0;
  // The gradient. Probabilities have one of their own, too: grad_columns, the same in every row.
  virtual void topk_softmax_backward(const Tensor& probabilities, const Tensor& indices, bool renormalize,
                                     const Tensor& grad_weights, const Tensor& grad_columns,
                                     const Tensor& grad_logits) = 0;
};

// A tensor that owns its memory.
class TUTTI_API Buffer {
 public:
  Buffer() = default;
  Buffer(Compute& compute, Shape shape, tuttiDataType_t dtype = tuttiFloat32);
  // Takes over existing memory, and calls `release` with it in the end.
  Buffer(Tensor tensor, std::function<void(void*)> release);

  const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }  // NOLINT: stands for the tensor in every call

 private:
  std::unique_ptr<void, std::function<void(void*)>> memory_;
  Tensor tensor_;
};
// Copies rows of `columns` numbers from the host's memory.
TUTTI_API Buffer uploaded(Compute& compute, const std::vector<std::int32_t>& numbers, std::size_t columns);

}  // namespace tutti::parallel
