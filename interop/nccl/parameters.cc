// NCCL's parameters are Tutti's settings: the keys are the TUTTI_* variables, the values those in force. Handles and
// strings live as long as the process.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "interop/nccl/failure.h"

struct ncclParamHandle {
  const char* key;
  const char* value;
};

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

namespace {

const std::vector<ncclParamHandle>& All() {
  static const auto all = [] {
    std::vector<ncclParamHandle> settings;
    ncclParamHandle one{};
    while (tuttiGetSetting(static_cast<int>(settings.size()), &one.key, &one.value) == tuttiSuccess) {
      settings.push_back(one);
    }
    return settings;
  }();
  return all;
}

ncclParamHandle_t Find(const char* key) {
  CheckGiven("key", key);
  for (const auto& setting : All()) {
    if (std::string_view(setting.key) == key) return const_cast<ncclParamHandle_t>(&setting);  // callers only hold it
  }
  Refuse(ncclInvalidArgument, "there is no parameter \"{}\"; ncclParamGetAllParameterKeys lists them", key);
}

const ncclParamHandle& Checked(ncclParamHandle_t handle) {
  for (const auto& setting : All()) {
    if (&setting == handle) return setting;
  }
  Refuse(ncclInvalidArgument, "handle was not made by ncclParamBind");
}

template <typename Number>
bool Parse(std::string_view text, Number& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size();
}

template <typename Number>
ncclResult_t GetNumber(ncclParamHandle_t handle, Number* out) {
  return Guard(nullptr, [&] {
    CheckGiven("out", out);
    const auto& setting = Checked(handle);
    Number value = 0;
    if (!Parse(setting.value, value)) {
      Refuse(ncclInvalidArgument, "{} is \"{}\", which is not a whole number of {} bits{}", setting.key, setting.value,
             8 * sizeof value, std::is_signed_v<Number> ? "" : " without a sign");
    }
    *out = value;
    return ncclSuccess;
  });
}

}  // namespace

ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key) {
  return Guard(nullptr, [&] {
    CheckGiven("out", out);
    *out = Find(key);
    return ncclSuccess;
  });
}

ncclResult_t ncclParamGetStr(ncclParamHandle_t handle, const char** out) {
  return Guard(nullptr, [&] {
    CheckGiven("out", out);
    *out = Checked(handle).value;
    return ncclSuccess;
  });
}

// Raw bytes: a number has 64 bits, text its characters.
ncclResult_t ncclParamGet(ncclParamHandle_t handle, void* out, int maxLen, int* len) {
  return Guard(nullptr, [&] {
    CheckGiven("out", out);
    CheckGiven("len", len);
    const auto& setting = Checked(handle);
    std::int64_t number = 0;
    const bool is_number = Parse(setting.value, number);
    const auto bytes = is_number ? sizeof number : std::strlen(setting.value);
    *len = static_cast<int>(bytes);
    if (*len > maxLen) Refuse(ncclInvalidArgument, "maxLen is {}; {} needs {} bytes", maxLen, setting.key, bytes);
    std::memcpy(out, is_number ? static_cast<const void*>(&number) : setting.value, bytes);
    return ncclSuccess;
  });
}

ncclResult_t ncclParamGetI8(ncclParamHandle_t handle, int8_t* out) { return GetNumber(handle, out); }
ncclResult_t ncclParamGetI16(ncclParamHandle_t handle, int16_t* out) { return GetNumber(handle, out); }
ncclResult_t ncclParamGetI32(ncclParamHandle_t handle, int32_t* out) { return GetNumber(handle, out); }
ncclResult_t ncclParamGetI64(ncclParamHandle_t handle, int64_t* out) { return GetNumber(handle, out); }
ncclResult_t ncclParamGetU8(ncclParamHandle_t handle, uint8_t* out) { return GetNumber(handle, out); }
ncclResult_t ncclParamGetU16(ncclParamHandle_t handle, uint16_t* out) { return GetNumber(handle, out); }
ncclResult_t ncclParamGetU32(ncclParamHandle_t handle, uint32_t* out) { return GetNumber(handle, out); }
ncclResult_t ncclParamGetU64(ncclParamHandle_t handle, uint64_t* out) { return GetNumber(handle, out); }

ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* valueLen) {
  return Guard(nullptr, [&] {
    CheckGiven("value", value);
    CheckGiven("valueLen", valueLen);
    *value = Find(key)->value;
    *valueLen = static_cast<int>(std::strlen(*value));
    return ncclSuccess;
  });
}

ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen) {
  return Guard(nullptr, [&] {
    CheckGiven("table", table);
    CheckGiven("tableLen", tableLen);
    static auto keys = [] {
      std::vector<const char*> names;
      for (const auto& setting : All()) names.push_back(setting.key);
      return names;
    }();
    *table = keys.data();
    *tableLen = static_cast<int>(keys.size());
    return ncclSuccess;
  });
}

// The only function that writes to stdout.
void ncclParamDumpAll() {
  Guard(nullptr, [] {
    for (const auto& setting : All()) std::printf("%s=%s\n", setting.key, setting.value);
    std::fflush(stdout);
    return ncclSuccess;
  });
}
