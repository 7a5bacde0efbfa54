/* A management library of three GPUs, for tests of the code that asks one:
 *   GPU 0 and GPU 1 have four NVLinks to each other and two to each of two NVSwitches; GPU 0 has one that is down
 *   GPU 2 has no NVLink
 *   a fourth GPU may not be used by this process
 */
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4 };
enum { GPUS = 3, LINKS_BETWEEN = 4, LINKS_TO_SWITCHES = 4, LINK_DOWN = 8 };

struct pci_info {
  char legacy_bus_id[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char bus_id[32];
};

static const unsigned buses[GPUS] = {0x1b, 0x43, 0xc1};
static int handles[GPUS];
static int users;

static int index_of(const void* device) { return (int)((const int*)device - handles); }
static void fill(struct pci_info* pci, unsigned bus) {
  memset(pci, 0, sizeof *pci);
  pci->bus = bus;
}

EXPORT int nvmlInit_v2(void) {
  ++users;
  return SUCCESS;
}
EXPORT int nvmlShutdown(void) {
  --users;
  return SUCCESS;
}
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = GPUS + 1;
  return users > 0 ? SUCCESS : INVALID;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= GPUS) return NO_PERMISSION;
  *device = &handles[index];
  return SUCCESS;
}
EXPORT int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* pci) {
  fill(pci, buses[index_of(device)]);
  return SUCCESS;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = index_of(device) < 2 ? 9 : 8;
  *minor = index_of(device) < 2 ? 0 : 9;
  return SUCCESS;
}
EXPORT int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  strncpy(uuid, "GPU-00000000-0000-0000-0000-00000000000", length - 2);
  uuid[strlen(uuid) + 1] = '\0';
  uuid[strlen(uuid)] = (char)('0' + index_of(device));
  return SUCCESS;
}
EXPORT int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  if (index_of(device) == 2) return NOT_SUPPORTED;
  if (link > LINK_DOWN) return INVALID;
  *active = link != LINK_DOWN;
  return SUCCESS;
}
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, struct pci_info* pci) {
  const unsigned nvswitches[2] = {0xa1, 0xa2};
  fill(pci, link < LINKS_BETWEEN ? buses[1 - index_of(device)] : nvswitches[link % 2]);
  return SUCCESS;
}
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, unsigned* type) {
  (void)device;
  if (link == 0) return NOT_SUPPORTED; /* as in virtual machines: by the address then */
  *type = link < LINKS_BETWEEN ? 0 : 2;
  return SUCCESS;
}
