#include "transports/ucx/worker.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/threads/signals_blocked.h"

namespace tutti::ucx {
namespace {

void Check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) {
    Throw(tuttiInvalidUsage, "UCX: {}: {} (UCX_TLS and UCX_NET_DEVICES choose what it uses; ucx_info -d lists it)",
          what, UcxPhrase(status));
  }
}

const UcxLibrary* Library() {
  std::string why;
  const auto* const library = LoadedUcx(&why);
  if (library == nullptr) Throw(tuttiInvalidUsage, "{}", why);
  return library;
}

}  // namespace

std::string UcxPhrase(ucs_status_t status) { return LoadedUcx()->status_string(status); }

UcxWorker::UcxWorker(std::size_t peers) : library_(Library()) {
  const SignalsBlocked blocked;
  ucp_config_t* configuration = nullptr;
  Check(library_->config_read(nullptr, nullptr, &configuration), "cannot read its settings");
  const UcxConfiguration owned(configuration);
  // No shared memory unless the user asks for it: hosts share none, and its files outlive a killed process.
  if (std::getenv("UCX_TLS") == nullptr) library_->config_modify(configuration, "TLS", "^sm");

  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  parameters.estimated_num_eps = peers;
  ucp_context_h context = nullptr;
  Check(library_->init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, configuration, &context),
        "cannot initialise it");
  context_.reset(context);

  ucp_worker_params_t of_worker{};
  of_worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  of_worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  Check(library_->worker_create(context, &of_worker, &worker), "cannot create a worker");
  handle_.reset(worker);

  Check(library_->worker_get_efd(worker, &descriptor_), "cannot get a file descriptor to wait on");
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  Check(library_->worker_get_address(worker, &address, &bytes), "cannot get the worker's address");
  const auto* const begin = reinterpret_cast<const std::byte*>(address);
  address_.assign(begin, begin + bytes);
  library_->worker_release_address(worker, address);
}

void UcxWorker::Receive(ucp_am_recv_callback_t handler, void* user) {
  ucp_am_handler_param_t parameters{};
  parameters.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  parameters.id = kMessage;
  parameters.flags = UCP_AM_FLAG_WHOLE_MSG;
  parameters.cb = handler;
  parameters.arg = user;
  const auto status = library_->worker_set_am_recv_handler(handle_.get(), &parameters);
  if (status != UCS_OK) Throw(tuttiInternalError, "UCX does not accept a message handler: {}", UcxPhrase(status));
}

UcxEndpoint::UcxEndpoint(UcxWorker& worker, std::span<const std::byte> address, ucp_err_handler_cb_t failed,
                         void* user) {
  const SignalsBlocked blocked;
  ucp_ep_params_t parameters{};
  parameters.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {failed, user};
  status_ = worker.library().ep_create(worker.handle(), &parameters, &handle_);
  if (status_ != UCS_OK) handle_ = nullptr;
}

UcxEndpoint& UcxEndpoint::operator=(UcxEndpoint&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(status_, other.status_);
  return *this;
}

UcxEndpoint::~UcxEndpoint() {
  if (handle_ == nullptr) return;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  auto* const request = LoadedUcx()->ep_close_nbx(handle_, &parameters);
  if (UCS_PTR_IS_PTR(request)) LoadedUcx()->request_free(request);
}

}  // namespace tutti::ucx
