// A rank's part of UCX: a worker, which receives from all peers and moves what is on its way, and the endpoints through
// which it sends, one to each peer. UCX may also run its own thread, which takes no signals.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transports/ucx/library.h"

namespace tutti::ucx {

class UcxWorker {
 public:
  // All messages have one handler, which has this number.
  static constexpr unsigned kMessage = 0;

  // For `peers` peers. Throws tuttiInvalidUsage saying why it cannot be.
  explicit UcxWorker(std::size_t peers);

  // The address at which others reach it.
  const std::vector<std::byte>& address() const { return address_; }
  // Every message that arrives goes to `handler`, with `user`, from within Progress(). Throws tuttiInternalError.
  void Receive(ucp_am_recv_callback_t handler, void* user);
  // True: something moved.
  bool Progress() { return library_->worker_progress(handle_.get()) != 0; }
  // From now on the descriptor polls readable when there is something to do. False: there is already.
  bool Arm() { return library_->worker_arm(handle_.get()) != UCS_ERR_BUSY; }
  int descriptor() const { return descriptor_; }

  const UcxLibrary& library() const { return *library_; }
  ucp_worker_h handle() const { return handle_.get(); }

 private:
  const UcxLibrary* library_;
  UcxContext context_;
  UcxWorkerHandle handle_;
  int descriptor_ = -1;
  std::vector<std::byte> address_;
};

// The status of an operation or endpoint, in words for a person.
std::string UcxPhrase(ucs_status_t status);

class UcxEndpoint {
 public:
  UcxEndpoint() = default;
  // To the worker with this address. When it fails, UCX calls `failed` with `user`, from within the worker's Progress()
  // or an operation on it. status(): whether it was made.
  UcxEndpoint(UcxWorker& worker, std::span<const std::byte> address, ucp_err_handler_cb_t failed, void* user);
  UcxEndpoint(UcxEndpoint&& other) noexcept { *this = std::move(other); }
  UcxEndpoint& operator=(UcxEndpoint&& other) noexcept;
  // Gives up what is on its way: its callbacks come soon, from within the worker's Progress().
  ~UcxEndpoint();

  explicit operator bool() const { return handle_ != nullptr; }
  ucs_status_t status() const { return status_; }
  ucp_ep_h handle() const { return handle_; }

 private:
  ucp_ep_h handle_ = nullptr;
  ucs_status_t status_ = UCS_OK;
};

}  // namespace tutti::ucx
