// The C boundary of settings and extensions.
#include "base/settings/settings.h"

#include <memory>
#include <string_view>
#include <vector>

#include "base/extension.h"
#include "base/threads/made_once.h"
#include "src/calls/handle.h"
#include "src/plan/call_site.h"

using namespace tutti;  // NOLINT: this file is the C boundary of that namespace

namespace {

struct Told {
  std::string_view name;
  std::string value;
};

const std::vector<Told>& AllTold() {
  static constinit MadeOnce<const std::vector<Told>> all;  // texts handed out live as long as the process
  return all.Get([] {
    const auto docs = SettingDocs();
    auto told = std::make_unique<std::vector<Told>>();
    for (std::size_t i = 0; i < docs.size(); ++i) told->push_back({docs[i].name, SettingText(GlobalSettings(), i)});
    return told;
  });
}

}  // namespace

tuttiResult_t tuttiExtend(const tuttiExtension_t* extension) {
  return calls::Guard(nullptr, [&] {
    calls::CheckOutput("extension", extension);
    RegisterExtension(*extension);
  });
}

int tuttiCallSiteBegin(const tuttiCallSite_t* site) {
  if (plan::named_site.key != 0 || site == nullptr) return 0;
  plan::named_site = {site->text == nullptr ? site->key : site->key | plan::kNamedSite, site->text};
  return 1;
}

void tuttiCallSiteEnd(void) { plan::named_site = {}; }

void tuttiCallSiteSuspend(tuttiCallSite_t* ended) {
  *ended = {plan::named_site.key, plan::named_site.text};
  tuttiCallSiteEnd();
}

tuttiResult_t tuttiGetSetting(int index, const char** name, const char** value) {
  return calls::Guard(nullptr, [&] {
    if (name == nullptr || value == nullptr) Throw(tuttiInvalidArgument, "name or value is NULL");
    const auto& all = AllTold();
    const auto place = static_cast<std::size_t>(index);  // a negative index becomes too large
    if (place >= all.size()) Throw(tuttiInvalidArgument, "index is {}; settings are 0 to {}", index, all.size() - 1);
    *name = all[place].name.data();
    *value = all[place].value.c_str();
  });
}
