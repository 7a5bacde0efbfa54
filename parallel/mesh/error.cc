#include "tutti/parallel/error.h"

namespace tutti::parallel {

void check(tuttiResult_t result, tuttiComm_t comm) {
  if (result == tuttiSuccess) return;
  const std::string sentence = tuttiGetLastError(comm);
  throw Error(result, sentence.empty() ? tuttiGetErrorString(result) : sentence);
}

}  // namespace tutti::parallel
