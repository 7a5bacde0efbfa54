#include "interop/torch/csrc/ops/reduction.h"

#include <ATen/ATen.h>

#include <utility>

#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {
namespace {

using c10d::ReduceOp;

Optional<tuttiRedOp_t> Known(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM: return tuttiSum;
    case ReduceOp::AVG: return tuttiAvg;
    case ReduceOp::PRODUCT: return tuttiProd;
    case ReduceOp::MIN: return tuttiMin;
    case ReduceOp::MAX: return tuttiMax;
    default: return {};
  }
}

bool IsBitwise(ReduceOp::RedOpType op) { return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR; }

// PREMUL_SUM's factor if it was given as a one-element tensor; else undefined.
at::Tensor FactorTensor(const c10d::NCCLPreMulSumSupplement& supplement) {
#if TUTTI_TORCH_2
  return supplement.tensor_factor;
#else
  return supplement.tensor_factors.empty() ? at::Tensor() : supplement.tensor_factors[0];
#endif
}

at::Tensor ScaleOf(const char* call, const at::Tensor& tensor, const ReduceOp& op) {
  const auto type = tensor.scalar_type();
  if (!at::isFloatingType(type) || !ToReduce(type)) {
    Refuse(call, ": PREMUL_SUM takes floating-point tensors, not ", type);
  }
  const auto* const supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) Refuse(call, ": PREMUL_SUM has no factor: make it with _make_nccl_premul_sum");
  const at::NoGradGuard no_grad;
  const auto factor = FactorTensor(*supplement);
  if (factor.defined()) return factor.detach().to(at::kCPU, type).contiguous();
  return at::scalar_tensor(supplement->double_factor, at::TensorOptions().dtype(type));
}

void FoldRow(at::Tensor& sum, const at::Tensor& row, ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::AVG: sum.add_(row); break;
    case ReduceOp::PRODUCT: sum.mul_(row); break;
    case ReduceOp::MIN: at::minimum_out(sum, sum, row); break;
    case ReduceOp::MAX: at::maximum_out(sum, sum, row); break;
    case ReduceOp::BAND: sum.bitwise_and_(row); break;
    case ReduceOp::BOR: sum.bitwise_or_(row); break;
    case ReduceOp::BXOR: sum.bitwise_xor_(row); break;
    default: TORCH_INTERNAL_ASSERT(false, "ToReduce lets nothing else through");
  }
}

}  // namespace

const char* Name(const ReduceOp& op) {
  switch (op.op_) {
    case ReduceOp::SUM: return "SUM";
    case ReduceOp::AVG: return "AVG";
    case ReduceOp::PRODUCT: return "PRODUCT";
    case ReduceOp::MIN: return "MIN";
    case ReduceOp::MAX: return "MAX";
    case ReduceOp::BAND: return "BAND";
    case ReduceOp::BOR: return "BOR";
    case ReduceOp::BXOR: return "BXOR";
    case ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    default: return "an unknown operator";
  }
}

Reduction ToReduce(const char* call, const at::Tensor& tensor, const ReduceOp& op) {
  const auto type = tensor.scalar_type();
  const auto elements = ToReduce(type);
  if (op.op_ == ReduceOp::PREMUL_SUM) {
    auto scale = ScaleOf(call, tensor, op);  // throws for types without Elements
    return {*elements, tuttiSum, false, std::move(scale)};
  }
  if (IsBitwise(op.op_)) {
    if (!at::isIntegralType(type, true)) {
      Refuse(call, ": ", Name(op), " takes tensors of integers or bool, not ", type);
    }
    return {ToMove(type), tuttiSum, true, {}};
  }
  const auto known = Known(op.op_);
  if (!known) {
    Refuse(call, ": there is no operator number ", static_cast<int>(op.op_),
           "; use SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or PREMUL_SUM");
  }
  if (at::isComplexType(type) && *known != tuttiSum && *known != tuttiAvg && *known != tuttiProd) {
    Refuse(call, ": ", Name(op), " of ", type, " has no meaning: complex numbers have no order");
  }
  if (type == at::kBool && *known == tuttiAvg) Refuse(call, ": AVG of bool has no meaning; use SUM or PRODUCT");
  const bool product_of_complex = at::isComplexType(type) && *known == tuttiProd;
  if (elements && !product_of_complex) {
    return {*elements, type == at::kBool && *known == tuttiSum ? tuttiMax : *known, false, {}};
  }
  if (!at::isComplexType(type)) {
    Refuse(call, ": ", Name(op), " of ", type, " is not supported; convert the tensor");
  }
  return {ToMove(type), *known, true, {}};
}

void Fold(at::Tensor rows, at::Tensor result, const ReduceOp& op) {
  const at::NoGradGuard no_grad;
  auto sum = rows[0];
  for (std::int64_t row = 1; row < rows.size(0); ++row) FoldRow(sum, rows[row], op.op_);
  if (op.op_ == ReduceOp::AVG) sum.div_(rows.size(0), "trunc");  // towards zero, as the library does
  result.view({-1}).copy_(sum);
}

Operator::Operator(const Reduction& reduction, tuttiComm_t comm)
    : comm_(comm), op_(reduction.op), made_(reduction.scale.defined()) {
  if (!made_) return;
  Check(tuttiRedOpCreatePreMulSum(&op_, reduction.scale.data_ptr(), reduction.elements.type, tuttiScalarHostImmediate,
                                  comm_),
        comm_);
}

Operator::~Operator() {
  if (made_) static_cast<void>(tuttiRedOpDestroy(op_, comm_));
}

}  // namespace tutti::pytorch
