#include "compute.h"

#include <nanobind/stl/unique_ptr.h>

#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "../failure.h"
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::Compute;
using tutti::parallel::HostCompute;
using tutti::parallel::Tensor;
using tutti::parallel::Transposed;

class Torch final : public PythonCompute, public Compute {
 public:
  Torch(nb::object functions, int device) : functions_(std::move(functions)), place_{Framework::pytorch, device} {}
  ~Torch() override {
    const nb::gil_scoped_acquire python;
    functions_.reset();
    memory_.clear();
  }

  Compute& compute() override { return *this; }
  Place place() const override { return place_; }
  nb::object ArrayIn(const Tensor& tensor) const override {
    const auto after = memory_.upper_bound(tensor.data);
    return ArrayOver(tensor, place_, after == memory_.begin() ? nb::handle() : nb::handle(std::prev(after)->second));
  }

  void* allocate(std::size_t bytes) override {
    const nb::gil_scoped_acquire python;
    nb::object memory = functions_.attr("allocate")(bytes);
    auto* const address = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(memory.attr("data_ptr")()));
    memory_.emplace(address, std::move(memory));
    return address;
  }
  void release(void* memory) noexcept override {
    const nb::gil_scoped_acquire python;
    memory_.erase(memory_.find(memory));
  }

  tuttiStream_t stream() override { return place_.device < 0 ? nullptr : Stream("stream"); }
  tuttiStream_t communication_stream() override {
    return place_.device < 0 ? host_.communication_stream() : Stream("communication_stream");
  }
  void fork_communication() override {
    if (place_.device >= 0) Call("fork_communication");
  }
  void join_communication() override {
    if (place_.device < 0) return host_.join_communication();
    Call("join_communication");
  }

  void zero(const Tensor& tensor) override { Call("zero", tensor); }
  void scale(const Tensor& tensor, float factor) override { Call("scale", tensor, factor); }
  void copy(const Tensor& from, const Tensor& to, bool accumulate) override { Call("copy", from, to, accumulate); }
  void matmul(Transposed transpose_a, const Tensor& a, Transposed transpose_b, const Tensor& b, const Tensor& c,
              bool accumulate) override {
    Call("matmul", transpose_a == Transposed::yes, a, transpose_b == Transposed::yes, b, c, accumulate);
  }
  void add_bias(const Tensor& y, const Tensor& bias) override { Call("add_bias", y, bias); }
  void add_rows(const Tensor& y, const Tensor& sums) override { Call("add_rows", y, sums); }
  void copy_columns(const Tensor& from, std::size_t from_first, const Tensor& to, std::size_t to_first,
                    std::size_t columns) override {
    Call("copy_columns", from, from_first, to, to_first, columns);
  }
  void embed(const Tensor& ids, const Tensor& table, std::int32_t first, const Tensor& output) override {
    Call("embed", ids, table, first, output);
  }
  void embed_backward(const Tensor& ids, const Tensor& grad_output, std::int32_t first,
                      const Tensor& grad_table) override {
    Call("embed_backward", ids, grad_output, first, grad_table);
  }
  void row_maxima(const Tensor& logits, const Tensor& maxima) override { Call("row_maxima", logits, maxima); }
  void exponential_sums(const Tensor& logits, const Tensor& maxima, const Tensor& targets, std::int32_t first,
                        const Tensor& sums, const Tensor& target_logits) override {
    Call("exponential_sums", logits, maxima, targets, first, sums, target_logits);
  }
  void cross_entropy(const Tensor& sums, const Tensor& target_logits, const Tensor& losses) override {
    Call("cross_entropy", sums, target_logits, losses);
  }
  void cross_entropy_backward(const Tensor& logits, const Tensor& maxima, const Tensor& sums, const Tensor& targets,
                              std::int32_t first, const Tensor& grad_losses, const Tensor& grad_logits) override {
    Call("cross_entropy_backward", logits, maxima, sums, targets, first, grad_losses, grad_logits);
  }
  void upload(const void* from, const Tensor& to) override {
    const nb::gil_scoped_acquire python;
    const Tensor source(const_cast<void*>(from), to.shape, to.dtype);
    functions_.attr("copy")(ArrayOver(source, {Framework::pytorch, -1}), ArrayOver(to, place_), false);
  }
  void download(const Tensor& from, void* to) override {
    const nb::gil_scoped_acquire python;
    functions_.attr("copy")(ArrayOver(from, place_),
                            ArrayOver(Tensor(to, from.shape, from.dtype), {Framework::pytorch, -1}), false);
  }
  void sum_rows(const Tensor& from, const Tensor& rows, const Tensor& weights, const Tensor& to) override {
    Call("sum_rows", from, rows, weights, to);
  }
  void dot_rows(const Tensor& x, const Tensor& from, const Tensor& rows, const Tensor& dots) override {
    Call("dot_rows", x, from, rows, dots);
  }
  void topk_softmax(const Tensor& logits, bool renormalize, const Tensor& probabilities, const Tensor& indices,
                    const Tensor& weights) override {
    Call("topk_softmax", logits, renormalize, probabilities, indices, weights);
  }
  void topk_softmax_backward(const Tensor& probabilities, const Tensor& indices, bool renormalize,
                             const Tensor& grad_weights, const Tensor& grad_columns,
                             const Tensor& grad_logits) override {
    Call("topk_softmax_backward", probabilities, indices, renormalize, grad_weights, grad_columns, grad_logits);
  }

 private:
  nb::object Argument(const Tensor& tensor) const { return ArrayOver(tensor, place_); }
  template <typename Number>
  static Number Argument(Number number) {
    return number;
  }
  template <typename... Arguments>
  void Call(const char* function, const Arguments&... arguments) {
    const nb::gil_scoped_acquire python;
    functions_.attr(function)(Argument(arguments)...);
  }
  tuttiStream_t Stream(const char* function) {
    const nb::gil_scoped_acquire python;
    return reinterpret_cast<tuttiStream_t>(nb::cast<std::uintptr_t>(functions_.attr(function)()));
  }

  nb::object functions_;
  Place place_;
  HostCompute host_;  // for its communication stream
  std::map<const void*, nb::object> memory_;  // by its first byte
};

class Numpy final : public PythonCompute {
 public:
  explicit Numpy(nb::object matmul)
      : matmul_(std::move(matmul)),
        host_([this](Transposed a_transposed, Transposed b_transposed, std::size_t m, std::size_t n, std::size_t k,
                     const float* a, const float* b, float* c, bool accumulate) {
          const auto matrix = [](Transposed transposed, const float* data, std::size_t rows, std::size_t columns) {
            if (transposed == Transposed::yes) std::swap(rows, columns);
            return ArrayOver(Tensor(const_cast<float*>(data), {rows, columns}), {});
          };
          const nb::gil_scoped_acquire python;
          matmul_(a_transposed == Transposed::yes, matrix(a_transposed, a, m, k), b_transposed == Transposed::yes,
                  matrix(b_transposed, b, k, n), matrix(Transposed::no, c, m, n), accumulate);
        }) {}
  ~Numpy() override {
    const nb::gil_scoped_acquire python;
    matmul_.reset();
  }
  Compute& compute() override { return host_; }
  Place place() const override { return {}; }

 private:
  nb::object matmul_;
  HostCompute host_;
};

}  // namespace

std::unique_ptr<PythonCompute> TorchCompute(nb::object functions, int device) {
  return std::make_unique<Torch>(std::move(functions), device);
}
std::unique_ptr<PythonCompute> NumpyCompute(nb::object matmul) { return std::make_unique<Numpy>(std::move(matmul)); }

void BindCompute(nb::module_& module) {
  nb::class_<PythonCompute>(module, "Compute");
  module.def("torch_compute", &TorchCompute, nb::arg("functions"), nb::arg("device"));
  module.def("numpy_compute", &NumpyCompute, nb::arg("matmul"));
}

}  // namespace tutti_python
