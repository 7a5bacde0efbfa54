#include "transports/plugin/connection.h"

#include "base/log.h"

namespace tutti::plugin {
namespace {

// Nobody is left to hear of a failure at the end.
void LogFailure(const Library& library, std::string_view function, Result result) {
  if (result != Result::success) Log(Subject::transport, "{}", library.Failure(function, result));
}

}  // namespace

Memory::~Memory() {
  if (library_ != nullptr) LogFailure(*library_, "deregMr", library_->net().Deregister(connection_, handle_));
}

bool Connection::Check(std::string_view function, Result result) {
  if (result == Result::success) return true;
  if (why_.empty()) why_ = library_.Failure(function, result);
  return false;
}

Connection::Posted Connection::Took(std::string_view function, Result result, void* request) {
  if (!Check(function, result)) return Posted::failed;
  if (request == nullptr) return Posted::not_now;
  requests_[(first_ + in_flight_++) % kMost] = request;
  return Posted::taken;
}

Connection::Oldest Connection::TakeOldest(std::size_t* bytes) {
  if (idle()) return Oldest::none;
  bool done = false;
  if (!Check("test", library_.net().Test(requests_[first_], &done, bytes))) return Oldest::failed;
  if (!done) return Oldest::pending;
  first_ = (first_ + 1) % kMost;
  --in_flight_;
  return Oldest::done;
}

bool Connection::FinishAll() {
  std::size_t bytes = 0;
  // A request that has failed may be gone: it is not asked after again.
  while (why_.empty() && TakeOldest(&bytes) == Oldest::done) {
  }
  return idle();
}

bool Connection::Register(std::byte* begin, std::size_t bytes, Memory& memory) {
  void* handle = nullptr;
  if (!Check("regMr", library_.net().Register(connection_, begin, bytes, &handle))) return false;
  memory = Memory(library_, connection_, handle);
  return true;
}

SendingConnection::~SendingConnection() {
  if (open()) LogFailure(library_, "closeSend", library_.net().CloseSending(connection_));
}

bool SendingConnection::Connect(void* context, int device, Handle& handle) {
  const auto call = [&] { return library_.net().Connect(context, device, handle.data(), &connection_); };
  return Check("connect", library_.control().Run(call));
}

Connection::Posted SendingConnection::Send(const std::byte* data, std::size_t bytes, const Memory& memory) {
  void* request = nullptr;
  // The interface has no const, but a plug-in only reads what it sends.
  auto* const from = const_cast<std::byte*>(data);
  const auto result = library_.net().Send(connection_, from, bytes, memory.handle(), &request);
  return Took("isend", result, request);
}

ReceivingConnection::~ReceivingConnection() {
  if (open()) LogFailure(library_, "closeRecv", library_.net().CloseReceiving(connection_));
  StopListening();
}

void ReceivingConnection::StopListening() {
  if (listening_ == nullptr) return;
  LogFailure(library_, "closeListen", library_.net().CloseListening(listening_));
  listening_ = nullptr;
}

bool ReceivingConnection::Listen(void* context, int device, Handle& handle) {
  const auto call = [&] { return library_.net().Listen(context, device, handle.data(), &listening_); };
  return Check("listen", library_.control().Run(call));
}

bool ReceivingConnection::Accept() {
  const bool fine = Check("accept", library_.net().Accept(listening_, &connection_));
  if (open()) StopListening();
  return fine;
}

Connection::Posted ReceivingConnection::Receive(std::byte* data, std::size_t bytes, const Memory& memory) {
  void* request = nullptr;
  const auto result = library_.net().Receive(connection_, data, bytes, memory.handle(), &request);
  return Took("irecv", result, request);
}

}  // namespace tutti::plugin
