// The C boundary of settings.
#include "base/settings.h"
#include "src/handle.h"

using namespace tutti;  // NOLINT: this file is the C boundary of that namespace

namespace {

struct Told {
  std::string_view name;
  std::string value;
};

const std::vector<Told>& AllTold() {
  static const auto all = [] {
    const auto docs = SettingDocs();
    std::vector<Told> told;
    for (std::size_t i = 0; i < docs.size(); ++i) told.push_back({docs[i].name, SettingText(GlobalSettings(), i)});
    return told;
  }();
  return all;
}

}  // namespace

tuttiResult_t tuttiGetSetting(int index, const char** name, const char** value) {
  return Guard(nullptr, [&] {
    if (name == nullptr || value == nullptr) Throw(tuttiInvalidArgument, "name or value is NULL");
    const auto& all = AllTold();
    const auto place = static_cast<std::size_t>(index);  // a negative one is too large, too
    if (place >= all.size()) Throw(tuttiInvalidArgument, "index is {}; settings are 0 to {}", index, all.size() - 1);
    *name = all[place].name.data();
    *value = all[place].value.c_str();
  });
}
