// UCX, loaded on first use: the library links nothing of it and runs where there is none. Its headers are used at build
// time only.
//
// Thread-safety: immutable once loaded; UCX says for each function what may be called from where.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

namespace tutti::ucx {

// Members have the functions' names without "ucp_".
struct UcxLibrary {
  decltype(&ucp_get_version_string) get_version_string;
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_modify) config_modify;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_init_version) init_version;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_get_address) worker_get_address;
  decltype(&ucp_worker_release_address) worker_release_address;
  decltype(&ucp_worker_get_efd) worker_get_efd;
  decltype(&ucp_worker_arm) worker_arm;
  decltype(&ucp_worker_progress) worker_progress;
  decltype(&ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_close_nbx) ep_close_nbx;
  decltype(&ucp_ep_flush_nbx) ep_flush_nbx;
  decltype(&ucp_am_send_nbx) am_send_nbx;
  decltype(&ucp_am_recv_data_nbx) am_recv_data_nbx;
  decltype(&ucp_request_check_status) request_check_status;
  decltype(&ucp_request_free) request_free;
  decltype(&ucs_status_string) status_string;
};

// Null where there is none, with why in *why (which may be null).
const UcxLibrary* LoadedUcx(std::string* why = nullptr);

// Owners of the library's objects. REQUIRES of all of them: LoadedUcx() is not null.
template <auto kRelease>
struct UcxRelease {
  template <typename T>
  void operator()(T* object) const {
    (LoadedUcx()->*kRelease)(object);
  }
};
using UcxConfiguration = std::unique_ptr<ucp_config_t, UcxRelease<&UcxLibrary::config_release>>;
using UcxContext = std::unique_ptr<ucp_context, UcxRelease<&UcxLibrary::cleanup>>;
using UcxWorkerHandle = std::unique_ptr<ucp_worker, UcxRelease<&UcxLibrary::worker_destroy>>;

}  // namespace tutti::ucx
