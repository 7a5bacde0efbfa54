#include "model_math.h"
#include "tutti/parallel/host_compute.h"

#ifdef TRAIN_LM_OPENBLAS
#include <cblas.h>
#endif

namespace train_lm {
namespace {

using tutti::parallel::HostCompute;
using tutti::parallel::Transposed;

#ifdef TRAIN_LM_OPENBLAS
void Sgemm(Transposed a_transposed, Transposed b_transposed, std::size_t m, std::size_t n, std::size_t k,
           const float* a, const float* b, float* c, bool accumulate) {
  const auto order = [](Transposed transposed) { return transposed == Transposed::yes ? CblasTrans : CblasNoTrans; };
  const auto integer = [](std::size_t value) { return static_cast<blasint>(value); };
  cblas_sgemm(CblasRowMajor, order(a_transposed), order(b_transposed), integer(m), integer(n), integer(k), 1.0F, a,
              integer(a_transposed == Transposed::yes ? m : k), b, integer(b_transposed == Transposed::yes ? k : n),
              accumulate ? 1.0F : 0.0F, c, integer(n));
}
#endif

}  // namespace

std::unique_ptr<Math> make_math(int /*device*/) {
#ifdef TRAIN_LM_OPENBLAS
  openblas_set_num_threads(1);  // a rank is one core
  return std::make_unique<ElementwiseMath<HostCompute>>(Sgemm);
#else
  return std::make_unique<ElementwiseMath<HostCompute>>();
#endif
}

}  // namespace train_lm
