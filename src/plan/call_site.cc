#include "src/plan/call_site.h"

namespace tutti::plan {

constinit thread_local NamedSite named_site;

std::shared_ptr<const std::string> CurrentSiteText() {
  return named_site.text == nullptr ? nullptr : std::make_shared<const std::string>(named_site.text);
}

}  // namespace tutti::plan
