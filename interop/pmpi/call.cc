#include "interop/pmpi/call.h"

#include <cstdio>
#include <mutex>
#include <string>

namespace tutti::pmpi {
namespace {

// MPI's code for an error with this text. MPI has room for some thousand codes, so the same text gets the same code.
int CodeOf(const Below& mpi, const std::string& sentence) {
  static std::mutex mutex;
  static std::string latest;
  static int code = MPI_ERR_OTHER;
  const std::lock_guard lock(mutex);
  if (sentence == latest) return code;
  if (mpi.Add_error_code(MPI_ERR_OTHER, &code) != MPI_SUCCESS) return MPI_ERR_OTHER;
  mpi.Add_error_string(code, sentence.substr(0, MPI_MAX_ERROR_STRING - 1).c_str());
  latest = sentence;
  return code;
}

}  // namespace

int Fail(const Call& call, const char* sentence) {
  const auto text = std::string("tutti-mpi: ") + sentence;
  std::fprintf(stderr, "%s\n", text.c_str());
  const int code = CodeOf(call.mpi, text);
  call.mpi.Comm_call_errhandler(call.comm, code);
  return code;
}

}  // namespace tutti::pmpi
