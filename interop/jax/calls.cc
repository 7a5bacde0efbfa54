// The functions of MPI that jaxlib calls (in XLA, the classes MpiCommunicator and MpiCollectives). The generated
// unsupported.c has all others.
//
// Of an error jaxlib asks for the text, in the same thread, and makes it the text of JAX's exception.
//
// Thread-safety: calls on one communicator come one after another; all else at any time from any thread.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "interop/jax/abi.h"
#include "interop/jax/communicator.h"
#include "tutti/extension.h"
#include "tutti/tutti.h"

namespace tutti::jax {
namespace {

constexpr std::size_t kTextBytes = 1024;  // MPI_MAX_ERROR_STRING of the ABI
thread_local std::string the_failure;

[[gnu::cold]] int Fail(std::string text) {
  the_failure = "tutti: " + std::move(text);
  return kFailure;
}
[[gnu::cold]] int FailOf(tuttiComm_t comm, tuttiResult_t result) {
  return Fail(fmt::format("{}: {}", tuttiGetErrorString(result), tuttiGetLastError(comm)));
}
int Conclude(tuttiComm_t comm, tuttiResult_t result) {
  return result == tuttiSuccess ? kSuccess : FailOf(comm, result);
}

// Where calls are made, for messages: a compiled program has no lines.
const tuttiCallSite_t* Site() {
  static constexpr tuttiCallSite_t kSite = {1, "a program that XLA compiled"};
  return &kSite;
}

// What a call's arguments say. `failure` is not kSuccess if they cannot be carried out; its text is set.
struct Call {
  tuttiComm_t comm = nullptr;
  Elements elements{tuttiUint8, 1};
  tuttiRedOp_t op = tuttiSum;
  int failure = kSuccess;
};

Call Begin(Handle communicator, int count, Handle datatype) {
  Call call;
  auto& at = At(communicator);
  call.comm = at.tutti();
  const auto elements = ElementsOf(datatype);
  if (call.comm == nullptr) {
    call.failure = Fail(at.failure());
  } else if (count < 0) {  // jaxlib has cut it to an int
    call.failure = Fail("jaxlib counts what it passes to MPI in 31 bits, and this is more: shard the array further");
  } else if (!elements) {
    call.failure = Fail("jaxlib passes a type of MPI that Tutti's interface for JAX lacks");
  } else {
    call.elements = *elements;
  }
  return call;
}

Call BeginReduction(Handle communicator, int count, Handle datatype, Handle op) {
  auto call = Begin(communicator, count, datatype);
  if (call.failure != kSuccess) return call;
  const auto known = OperatorOf(op);
  if (!known) {
    call.failure = Fail("jaxlib passes an operator of MPI that Tutti's interface for JAX lacks");
  } else if (call.elements.per_element > 1 && *known != tuttiSum) {
    call.failure = Fail("Tutti adds complex numbers, but has no product of them");
  } else {
    call.op = *known;
  }
  return call;
}

// A message that waits for MPI_Wait, where all that the thread has asked for since the last one begin together.
struct Message {
  bool sends;
  void* data;
  std::size_t count;
  tuttiDataType_t type;
  int peer;
  tuttiComm_t comm;
};
Message MessageOf(const Call& call, bool sends, void* data, int count, int peer) {
  return {sends, data, call.elements.Count(count), call.elements.type, peer, call.comm};
}
thread_local std::vector<Message> the_messages;

tuttiResult_t Exchange(std::span<const Message> messages) {
  const CallsFrom site(Site());
  tuttiGroupStart();
  for (const auto& [sends, data, count, type, peer, comm] : messages) {
    static_cast<void>(sends ? tuttiSend(data, count, type, peer, comm, nullptr)
                            : tuttiRecv(data, count, type, peer, comm, nullptr));
  }
  return tuttiGroupEnd();  // fails if one of them did
}

int Ask(bool sends, void* data, int count, Handle datatype, int peer, Handle communicator, Handle* request) {
  const auto call = Begin(communicator, count, datatype);
  if (call.failure != kSuccess) {
    the_messages.clear();
    return call.failure;
  }
  the_messages.push_back(MessageOf(call, sends, data, count, peer));
  *request = 1;
  return kSuccess;
}

}  // namespace

extern "C" {

int MPIABI_Init_thread(int* /*argc*/, char*** /*argv*/, int required, int* provided) {
  BeginJob();
  *provided = required;
  return kSuccess;
}

// XLA may still free communicators, and the end of the process frees the rest.
int MPIABI_Finalize() { return kSuccess; }

// jaxlib makes communicators only where this says yes. Tutti's may be made in any thread.
int MPIABI_Is_thread_main(int* flag) {
  *flag = 1;
  return kSuccess;
}

int MPIABI_Error_string(int /*code*/, char* text, int* length) {
  const auto bytes = std::min(the_failure.size(), kTextBytes - 1);
  std::memcpy(text, the_failure.data(), bytes);
  text[bytes] = '\0';
  *length = static_cast<int>(bytes);
  return kSuccess;
}

// jaxlib ignores what this returns, and the communicator's first call tells.
int MPIABI_Comm_split(Handle /*world*/, int color, int key, Handle* made) {
  *made = Split(color, key, __builtin_frame_address(0), __builtin_return_address(0));
  return kSuccess;
}

int MPIABI_Comm_rank(Handle communicator, int* rank) {
  *rank = communicator == kWorld ? WorldRank() : At(communicator).rank();
  return kSuccess;
}

int MPIABI_Comm_size(Handle communicator, int* size) {
  *size = communicator == kWorld ? WorldSize() : At(communicator).size();
  return kSuccess;
}

int MPIABI_Comm_free(Handle* communicator) {
  Free(*communicator);
  return kSuccess;
}

int MPIABI_Allreduce(const void* send, void* receive, int count, Handle datatype, Handle op, Handle communicator) {
  const CallsFrom site(Site());
  const auto call = BeginReduction(communicator, count, datatype, op);
  if (call.failure != kSuccess) return call.failure;
  return Conclude(call.comm, tuttiAllReduce(send, receive, call.elements.Count(count), call.elements.type, call.op,
                                            call.comm, nullptr));
}

int MPIABI_Allgather(const void* send, int count, Handle datatype, void* receive, int /*receive_count*/,
                     Handle /*receive_type*/, Handle communicator) {
  const CallsFrom site(Site());
  const auto call = Begin(communicator, count, datatype);
  if (call.failure != kSuccess) return call.failure;
  return Conclude(call.comm,
                  tuttiAllGather(send, receive, call.elements.Count(count), call.elements.type, call.comm, nullptr));
}

int MPIABI_Reduce_scatter(const void* send, void* receive, const int* counts, Handle datatype, Handle op,
                          Handle communicator) {
  const CallsFrom site(Site());
  const std::span each(counts, static_cast<std::size_t>(At(communicator).size()));
  const auto call = BeginReduction(communicator, each.front(), datatype, op);
  if (call.failure != kSuccess) return call.failure;
  if (std::ranges::any_of(each, [&](int count) { return count != each.front(); })) {
    return Fail("jaxlib scatters blocks of several lengths, which Tutti's interface for JAX lacks");
  }
  return Conclude(call.comm, tuttiReduceScatter(send, receive, call.elements.Count(each.front()), call.elements.type,
                                                call.op, call.comm, nullptr));
}

int MPIABI_Isend(const void* data, int count, Handle datatype, int to, int /*tag*/, Handle communicator,
                 Handle* request) {
  return Ask(true, const_cast<void*>(data), count, datatype, to, communicator, request);
}

int MPIABI_Irecv(void* data, int count, Handle datatype, int from, int /*tag*/, Handle communicator, Handle* request) {
  return Ask(false, data, count, datatype, from, communicator, request);
}

int MPIABI_Wait(Handle* request, void* /*status*/) {
  *request = 0;
  if (the_messages.empty()) return kSuccess;  // the first wait has moved all
  const auto messages = std::exchange(the_messages, {});
  return Conclude(messages.front().comm, Exchange(messages));
}

int MPIABI_Sendrecv(const void* send, int send_count, Handle send_type, int to, int /*send_tag*/, void* receive,
                    int receive_count, Handle receive_type, int from, int /*receive_tag*/, Handle communicator,
                    void* /*status*/) {
  const auto sends = Begin(communicator, send_count, send_type);
  if (sends.failure != kSuccess) return sends.failure;
  const auto receives = Begin(communicator, receive_count, receive_type);
  if (receives.failure != kSuccess) return receives.failure;
  const Message messages[] = {MessageOf(sends, true, const_cast<void*>(send), send_count, to),
                              MessageOf(receives, false, receive, receive_count, from)};
  return Conclude(sends.comm, Exchange(messages));
}

// What all other functions do (unsupported.c).
int tuttiJaxUnsupported() {
  return Fail(
      "jaxlib calls a function of MPI that Tutti's interface for JAX lacks; docs/jax.md names the jaxlibs that were "
      "tested");
}
}

}  // namespace tutti::jax
